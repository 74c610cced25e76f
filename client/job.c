/*
 * watcher_start -> open -> acquire -> start the command -> pass signals and reports on -> release
 *
 * The watcher is forked first, while there is one thread. Until the lease is granted signals interrupt
 * the wait; then they are blocked, read from a descriptor and passed on.
 */
#include "job.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "status.h"
#include "watcher.h"

#define GRACE_MAX_MS 10000

struct job {
	struct watcher watcher;
	struct leased_client *client;
	struct leased_lease *lease;
	const struct lease_options *o;
	_Atomic bool started, lost;
	bool told_to_end, told_to_stop;
	bool interrupted;   /* by a terminal */
	int signals;        /* signalfd */
	sigset_t old_mask;
};

/* Signals end a wait. */

static const int ending[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2 };
#define N_ENDING (sizeof ending / sizeof ending[0])

static struct {
	volatile sig_atomic_t caught, from_terminal;
	struct leased_client *volatile client;
	struct sigaction old[N_ENDING], old_pipe;
} waiting;

static void on_signal(int signo, siginfo_t *info, void *context)
{
	(void)context;
	if (!waiting.caught) {
		waiting.from_terminal = info->si_code == SI_KERNEL;
		waiting.caught = signo;
	}
	if (waiting.client)
		leased_client_interrupt(waiting.client);
}

void job_catch_signals(struct leased_client *client)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };

	sigaction(SIGPIPE, &ignore, &waiting.old_pipe);
	sigemptyset(&action.sa_mask);
	waiting.client = client;
	for (size_t i = 0; i < N_ENDING; i++) {
		sigaction(ending[i], NULL, &waiting.old[i]);
		if (waiting.old[i].sa_handler != SIG_IGN)
			sigaction(ending[i], &action, NULL);
	}
}

void job_stop_catching(void)
{
	for (size_t i = 0; i < N_ENDING; i++)
		sigaction(ending[i], &waiting.old[i], NULL);
	sigaction(SIGPIPE, &waiting.old_pipe, NULL);
	waiting.client = NULL;
}

int job_caught_signal(void)
{
	return waiting.caught;
}

static bool is_interrupt(int signo)
{
	return signo == SIGINT || signo == SIGQUIT;
}

int job_caught_interrupt(void)
{
	return is_interrupt(waiting.caught) && waiting.from_terminal ? waiting.caught : 0;
}

/* Callbacks of libleased, on its thread. */

static void on_renewed(struct leased_lease *lease, void *data)
{
	struct job *job = data;

	if (atomic_load(&job->started))
		watcher_set_deadline(&job->watcher, leased_deadline_ns(lease));
}

static void on_lost(struct leased_lease *lease, const struct leased_error *why, void *data)
{
	struct job *job = data;

	(void)lease;
	if (!atomic_exchange(&job->lost, true))
		ctl_fail(why->text, why->status, "the command is ended");
	if (atomic_load(&job->started))
		watcher_end_job(&job->watcher);
}

/* The steps. */

static void not_granted(struct job_outcome *outcome, int status, const char *why)
{
	outcome->end = JOB_NOT_GRANTED;
	outcome->status = fail(&outcome->err, status, "%s", why);
	outcome->code = status_exit_code(status);
}

static bool open_client(struct job *job, const struct ctl *ctl, struct job_outcome *outcome)
{
	struct leased_options options = ctl_client_options(ctl);
	struct leased_error err;
	int rc = leased_client_open(&job->client, &options, &err);

	if (rc < 0)
		not_granted(outcome, rc, err.text);
	return rc == 0;
}

static bool acquire(struct job *job, struct job_outcome *outcome)
{
	struct leased_acquire_options options = job->o->acquire;
	struct leased_error err;
	int rc;

	options.on_lost = on_lost;
	options.on_renewed = on_renewed;
	options.data = job;
	if (options.release_on_disconnect) /* it outlives leasectl until the command has ended */
		options.watched_pid = job->watcher.pid;
	rc = leased_acquire(job->client, job->o->name, &options, &job->lease, &err);
	if (rc < 0)
		not_granted(outcome, rc, err.text);
	return rc == 0;
}

/* From here on signals are read, not handled. */
static void read_signals(struct job *job)
{
	static const int passed[] = { SIGWINCH, SIGCONT, SIGTSTP };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < N_ENDING; i++)
		if (waiting.old[i].sa_handler != SIG_IGN)
			sigaddset(&set, ending[i]);
	for (size_t i = 0; i < sizeof passed / sizeof passed[0]; i++)
		sigaddset(&set, passed[i]);
	sigprocmask(SIG_BLOCK, &set, &job->old_mask);
	job->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void pass_signals_on(struct job *job)
{
	struct signalfd_siginfo info;

	while (read(job->signals, &info, sizeof info) == (ssize_t)sizeof info) {
		int signo = (int)info.ssi_signo;

		job->told_to_end |= signo == SIGTERM || is_interrupt(signo);
		job->interrupted |= is_interrupt(signo) && info.ssi_code == SI_KERNEL;
		job->told_to_stop |= signo == SIGTSTP;
		watcher_signal(&job->watcher, signo);
	}
}

/* Those that crossed the command's end were meant for it: its own exit code counts. */
static void stop_reading_signals(struct job *job)
{
	pass_signals_on(job);
	close(job->signals);
	sigprocmask(SIG_SETMASK, &job->old_mask, NULL);
}

static int start_command(struct job *job, struct leased_error *err)
{
	char name[300], token[48], holder[HOLDER_TEXT_SIZE + 16], expires[56];
	char *env[] = { name, token, holder, expires, NULL };
	int rc;

	snprintf(name, sizeof name, "LEASED_NAME=%s", leased_name(job->lease));
	snprintf(token, sizeof token, "LEASED_TOKEN=%" PRIu64, leased_token(job->lease));
	snprintf(holder, sizeof holder, "LEASED_HOLDER=%s", leased_holder(job->lease));
	snprintf(expires, sizeof expires, "LEASED_EXPIRES_IN_MS=%" PRId64,
		leased_remaining_ms(job->lease));
	rc = watcher_start_job(&job->watcher, job->o->command, env, leased_deadline_ns(job->lease),
		job->o->grace_ms, err);
	if (rc < 0)
		return rc;
	/* What the thread saw before this moment, it could not pass on. */
	atomic_store(&job->started, true);
	if (atomic_load(&job->lost))
		watcher_end_job(&job->watcher);
	else
		watcher_set_deadline(&job->watcher, leased_deadline_ns(job->lease));
	return 0;
}

/*
 * Who stops along with the command: 0, the shell's whole job, when the terminal has stopped it; leasectl
 * when it was asked to stop; -1, nobody, when a stranger's SIGSTOP means the command alone.
 */
static pid_t who_stops_too(const struct job *job, const struct watcher_report *report)
{
	int signo = WSTOPSIG(report->wait_status);

	if (job->watcher.own_terminal || signo == SIGTTIN || signo == SIGTTOU)
		return 0;
	return job->told_to_stop ? getpid() : -1;
}

/*
 * Stops so that the shell sees it; the SIGCONT of its `fg` or `bg` is passed on. Where no shell could
 * continue us the kernel stops nobody: then the command goes on at once.
 */
static void stop_too(struct job *job, pid_t who)
{
	sigset_t stop, pending;

	if (who < 0)
		return;
	job->told_to_stop = false;
	sigemptyset(&stop);
	sigaddset(&stop, SIGTSTP);
	kill(who, SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &stop, NULL); /* here we stop */
	sigprocmask(SIG_BLOCK, &stop, NULL);
	sigpending(&pending);
	if (!sigismember(&pending, SIGCONT))
		watcher_signal(&job->watcher, SIGCONT);
}

/* Until the whole process group has ended. */
static void follow(struct job *job, struct watcher_report *ret_report)
{
	struct pollfd fds[2] = { { .fd = job->signals, .events = POLLIN },
		{ .fd = job->watcher.report, .events = POLLIN } };

	for (;;) {
		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[0].revents)
			pass_signals_on(job);
		if (!fds[1].revents)
			continue;
		watcher_read(&job->watcher, ret_report);
		if (ret_report->event == WATCHER_GONE)
			return;
		if (ret_report->event == WATCHER_STOPPED)
			stop_too(job, who_stops_too(job, ret_report));
	}
}

static void say_run_failed(const struct job *job, const char *why)
{
	char what[LEASED_ERROR_LEN / 2];

	snprintf(what, sizeof what, "run %s", job->o->command[0]);
	ctl_fail(what, LEASED_EINTERNAL, why);
}

static int command_code(const struct job *job, const struct watcher_report *report)
{
	if (report->exec_errno) {
		say_run_failed(job, strerror(report->exec_errno));
		return report->exec_errno == ENOENT ? 127 : 126;
	}
	if (WIFSIGNALED(report->wait_status))
		return 128 + WTERMSIG(report->wait_status);
	return WEXITSTATUS(report->wait_status);
}

/* Whether a terminal has ended it: one that the job had for itself, or one that has told us as well. */
static void note_interrupt(const struct job *job, const struct watcher_report *report,
	struct job_outcome *outcome)
{
	int signo = WIFSIGNALED(report->wait_status) ? WTERMSIG(report->wait_status) : 0;

	outcome->job_only = job->watcher.own_terminal && !job->told_to_end;
	if (is_interrupt(signo) && (outcome->job_only || job->interrupted))
		outcome->interrupt = signo;
}

static void lost(struct job_outcome *outcome)
{
	outcome->end = JOB_LOST;
	outcome->code = status_exit_code(LEASED_ELOST);
}

/* Gives the lease back. The command has ended: what is wrong now is told, and changes its code only
 * when the lease was not ours any more. */
static void release(struct job *job, struct job_outcome *outcome)
{
	struct leased_error err;
	int rc = leased_release(job->lease, &outcome->code, &err);

	if (rc == 0)
		return;
	if (rc == LEASED_ENOTHELD) {
		ctl_fail(NULL, rc, err.text);
		lost(outcome);
	} else {
		ctl_fail(err.text, rc, "it will expire by itself");
	}
}

/* The watcher ended the command, or ended itself, before libleased saw anything wrong. */
static void say_killed(struct job *job)
{
	char what[LEASED_ERROR_LEN];

	if (atomic_exchange(&job->lost, true))
		return; /* on_lost has said it */
	if (job->watcher.pid == 0) {
		ctl_fail("the watcher was killed", LEASED_EINTERNAL, "the command is ended");
		return;
	}
	snprintf(what, sizeof what, "lease \"%s\" is lost: it was not renewed in time",
		leased_name(job->lease));
	ctl_fail(what, LEASED_ELOST, "the command is ended");
}

static void run_command(struct job *job, struct job_outcome *outcome)
{
	struct watcher_report report;
	struct leased_error err;

	if (start_command(job, &err) < 0) {
		ctl_fail("run", err.status, err.text);
		if (err.status == LEASED_ELOST) {
			lost(outcome);
			return;
		}
		outcome->end = JOB_ENDED;
		outcome->code = status_exit_code(err.status);
		release(job, outcome);
		return;
	}
	follow(job, &report);
	if (report.killed || atomic_load(&job->lost)) {
		say_killed(job);
		if (leased_held(job->lease)) /* renewed after all, or still ours: of no use any more */
			leased_give_back(job->lease, NULL);
		lost(outcome);
		return;
	}
	outcome->end = JOB_ENDED;
	outcome->code = command_code(job, &report);
	note_interrupt(job, &report, outcome);
	release(job, outcome);
}

/* A signal that crossed the grant: nothing is started. */
static bool signalled(struct job *job, struct job_outcome *outcome)
{
	int signo = job_caught_signal();

	if (!signo)
		return false;
	if (job->lease)
		leased_give_back(job->lease, NULL);
	outcome->end = JOB_SIGNALLED;
	outcome->code = 128 + signo;
	outcome->interrupt = job_caught_interrupt();
	return true;
}

static void hold(struct job *job, struct job_outcome *outcome)
{
	bool granted;

	job_catch_signals(job->client);
	granted = acquire(job, outcome);
	read_signals(job);
	job_stop_catching();
	if (!signalled(job, outcome) && granted)
		run_command(job, outcome);
	stop_reading_signals(job);
	outcome->told_to_end = job->told_to_end;
}

void job_run(const struct ctl *ctl, const struct lease_options *o, struct job_outcome *ret_outcome)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct job job = { .o = o };
	struct sigaction on_pipe;
	struct leased_error err;
	int rc;

	*ret_outcome = (struct job_outcome){ 0 };
	rc = watcher_start(&job.watcher, &err);
	if (rc < 0) {
		not_granted(ret_outcome, rc, err.text);
		return;
	}
	sigaction(SIGPIPE, &ignore, &on_pipe); /* a log that nobody reads must not end the command */
	if (open_client(&job, ctl, ret_outcome)) {
		hold(&job, ret_outcome);
		leased_lease_free(job.lease); /* the command has ended: what is left of it is given back */
		leased_client_close(job.client);
	}
	watcher_stop(&job.watcher);
	sigaction(SIGPIPE, &on_pipe, NULL);
}

void job_die_of_interrupt(int signo, bool job_only)
{
	const struct sigaction fatal = { .sa_handler = SIG_DFL };
	const struct rlimit no_core = { 0 };
	sigset_t set;

	if (!signo)
		return;
	setrlimit(RLIMIT_CORE, &no_core);
	sigaction(signo, &fatal, NULL);
	sigemptyset(&set);
	sigaddset(&set, signo);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	kill(job_only ? 0 : getpid(), signo);
}

int job_check_grace(struct lease_options *o, const char *command)
{
	int64_t ttl_ms = o->acquire.ttl_ms > 0 ? o->acquire.ttl_ms : LEASED_TTL_DEFAULT_MS;

	if (o->grace_ms < 0)
		o->grace_ms = ttl_ms / 6 < GRACE_MAX_MS ? ttl_ms / 6 : GRACE_MAX_MS;
	if (o->grace_ms >= ttl_ms / 2)
		return ctl_usage(command, "the grace must be below half of the ttl");
	return 0;
}
