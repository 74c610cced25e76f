/*
 * leasectl's side: fork the watcher, send it commands, read what it reports, and take its place when
 * it has been killed. Nothing here waits for the watcher but the start of the job, for a while.
 */
#include "watcher.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "descendants.h"
#include "status.h"
#include "watcher_process.h"

#define ANSWER_TIMEOUT_MS 10000
#define LOOK_AGAIN_NS     INT64_C(2000000)

static int open_channels(struct watcher *w, struct watcher_channels *ret_theirs,
	struct leased_error *err);
static int fork_watcher(struct watcher *w, struct watcher_channels *theirs,
	struct leased_error *err);
static int hand_over_strings(const struct watcher *w, struct watcher_command *command,
	char *const argv[], char *const env[], struct leased_error *err);
static int await_answer(struct watcher *w, const char *what, struct leased_error *err);
static void end_all(struct watcher *w);
static void close_fd(int *fd);

int watcher_start(struct watcher *w, struct leased_error *err)
{
	struct watcher_channels theirs = { -1, -1, -1 };
	int rc;

	*w = (struct watcher){ .control = -1, .report = -1, .strings = -1 };
	/* Should the watcher be killed, its orphans come to us. */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		return fail(err, LEASED_EINTERNAL, "become subreaper: %s", strerror(errno));
	rc = open_channels(w, &theirs, err);
	if (rc < 0)
		return rc;
	rc = fork_watcher(w, &theirs, err);
	if (rc < 0) {
		close_fd(&w->control);
		close_fd(&w->report);
		close_fd(&w->strings);
	}
	close(theirs.control);
	close(theirs.report);
	return rc;
}

static int open_channels(struct watcher *w, struct watcher_channels *ret_theirs,
	struct leased_error *err)
{
	int control[2], report[2];

	/* A socket, because send can do without SIGPIPE; packets, because they are whole. */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) < 0)
		return fail(err, LEASED_EINTERNAL, "open a socket pair: %s", strerror(errno));
	if (pipe2(report, O_CLOEXEC | O_NONBLOCK) < 0) {
		fail(err, LEASED_EINTERNAL, "open a pipe: %s", strerror(errno));
		goto close_control;
	}
	w->strings = memfd_create("leased-job", MFD_CLOEXEC);
	if (w->strings < 0) {
		fail(err, LEASED_EINTERNAL, "open a file in memory: %s", strerror(errno));
		goto close_report;
	}
	w->control = control[0];
	w->report = report[0];
	*ret_theirs = (struct watcher_channels){ control[1], report[1], w->strings };
	return 0;
close_report:
	close(report[0]);
	close(report[1]);
close_control:
	close(control[0]);
	close(control[1]);
	return LEASED_EINTERNAL;
}

static int fork_watcher(struct watcher *w, struct watcher_channels *theirs,
	struct leased_error *err)
{
	sigset_t all, mask;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &mask); /* the watcher is born deaf */
	w->pid = fork();
	if (w->pid == 0) {
		close(w->control);
		close(w->report);
		watcher_process_run(theirs, &mask);
	}
	sigprocmask(SIG_SETMASK, &mask, NULL);
	if (w->pid < 0)
		return fail(err, LEASED_EINTERNAL, "fork: %s", strerror(errno));
	/* Without /proc it stays 0, and all our children count as the job's. */
	descendants_start_time(w->pid, &w->start);
	return 0;
}

/* The controlling terminal if there is one and our group is its foreground, else -1. */
static int open_our_terminal(void)
{
	int tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (tty >= 0 && tcgetpgrp(tty) != getpgrp()) {
		close(tty);
		return -1;
	}
	return tty;
}

/*
 * Into a pipe, as in `leasectl run ... | less`: the other end is in our group and may need the terminal
 * too. Then the job gets it only when it asks for it, by being stopped.
 */
static bool may_take_terminal(const struct watcher *w)
{
	return w->own_terminal || isatty(STDOUT_FILENO);
}

static int send_command(const struct watcher *w, const struct watcher_command *command)
{
	int before = errno;
	ssize_t n;

	n = send(w->control, command, sizeof *command, MSG_DONTWAIT | MSG_NOSIGNAL);
	errno = before;
	return n < 0 ? -1 : 0;
}

int watcher_start_job(struct watcher *w, char *const argv[], char *const env[], int64_t deadline_ns,
	int64_t grace_ms, struct leased_error *err)
{
	struct watcher_command command = {
		.kind = WATCHER_START_JOB, .deadline_ns = deadline_ns,
	};
	int rc, tty;

	if (__builtin_mul_overflow(grace_ms, INT64_C(1000000), &command.grace_ns))
		command.grace_ns = INT64_MAX;
	rc = hand_over_strings(w, &command, argv, env, err);
	if (rc < 0)
		return rc;
	tty = open_our_terminal();
	command.to_foreground = tty >= 0 && may_take_terminal(w);
	close_fd(&tty);
	if (send_command(w, &command) < 0)
		return fail(err, LEASED_EINTERNAL, "start %s: the watcher is gone", argv[0]);
	rc = await_answer(w, argv[0], err);
	if (rc == 0)
		w->own_terminal = command.to_foreground;
	return rc;
}

static size_t measure(char *const strings[], size_t *ret_count)
{
	size_t size = 0;

	for (*ret_count = 0; strings[*ret_count]; ++*ret_count)
		size += strlen(strings[*ret_count]) + 1;
	return size;
}

static int hand_over_strings(const struct watcher *w, struct watcher_command *command,
	char *const argv[], char *const env[], struct leased_error *err)
{
	char *all, *at;

	command->size = measure(argv, &command->args) + measure(env, &command->env);
	if (ftruncate(w->strings, (off_t)command->size) < 0)
		return fail(err, LEASED_EINTERNAL, "start %s: %s", argv[0], strerror(errno));
	all = mmap(NULL, command->size, PROT_READ | PROT_WRITE, MAP_SHARED, w->strings, 0);
	if (all == MAP_FAILED)
		return fail(err, LEASED_EINTERNAL, "start %s: %s", argv[0], strerror(errno));
	at = all;
	for (size_t i = 0; i < command->args; i++)
		at = stpcpy(at, argv[i]) + 1;
	for (size_t i = 0; i < command->env; i++)
		at = stpcpy(at, env[i]) + 1;
	munmap(all, command->size);
	return 0;
}

/* One note, 0 when none is there, -1 when the watcher has died. */
static int read_note(const struct watcher *w, struct watcher_note *ret_note)
{
	ssize_t n;

	do
		n = read(w->report, ret_note, sizeof *ret_note);
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)sizeof *ret_note)
		return 1;
	return n < 0 && errno == EAGAIN ? 0 : -1;
}

static int64_t monotonic_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int await_note(const struct watcher *w, struct watcher_note *ret_note)
{
	int64_t give_up = monotonic_ms() + ANSWER_TIMEOUT_MS, left;
	struct pollfd report = { .fd = w->report, .events = POLLIN };
	int rc;

	while ((rc = read_note(w, ret_note)) == 0 && (left = give_up - monotonic_ms()) > 0)
		poll(&report, 1, (int)left);
	return rc;
}

/* A watcher that does not answer could start the job at any later time: it must not live. */
static int await_answer(struct watcher *w, const char *what, struct leased_error *err)
{
	struct watcher_note note;

	if (await_note(w, &note) <= 0) {
		kill(w->pid, SIGKILL);
		end_all(w);
		return fail(err, LEASED_EINTERNAL, "start %s: the watcher does not answer", what);
	}
	if (note.job == -ETIME)
		return fail(err, LEASED_ELOST, "start %s: the lease ran out before", what);
	if (note.job < 0)
		return fail(err, LEASED_EINTERNAL, "start %s: %s", what, strerror(-note.job));
	w->job = note.job;
	return 0;
}

/* One that is lost because the watcher was stopped for long costs safety margin, never safety. */
void watcher_set_deadline(struct watcher *w, int64_t deadline_ns)
{
	struct watcher_command command = {
		.kind = WATCHER_SET_DEADLINE, .deadline_ns = deadline_ns,
	};

	send_command(w, &command);
}

/* Somebody may have stopped the watcher; now it has to act. */
void watcher_end_job(struct watcher *w)
{
	struct watcher_command command = { .kind = WATCHER_END_JOB };
	pid_t pid;

	send_command(w, &command);
	pid = w->pid;
	if (pid > 0)
		kill(pid, SIGCONT);
}

/* Whether the job's group is the foreground now. */
static bool give_terminal(struct watcher *w)
{
	int tty = open_our_terminal();
	bool given;

	if (tty < 0)
		return false;
	given = tcsetpgrp(tty, w->job) == 0;
	close(tty);
	w->own_terminal = w->own_terminal || given;
	return given;
}

void watcher_signal(struct watcher *w, int signo)
{
	struct watcher_command command = { .kind = WATCHER_SIGNAL_JOB, .signo = signo };
	int before = errno;

	if (signo == SIGCONT && w->job && may_take_terminal(w))
		give_terminal(w);
	send_command(w, &command);
	errno = before;
}

/* Stopped for want of the terminal while it is ours to give: the shell's `fg` gave it to us alone. */
static bool continued_in_foreground(struct watcher *w, const struct watcher_report *report)
{
	int signo = WSTOPSIG(report->wait_status);

	if (report->event != WATCHER_STOPPED || (signo != SIGTTIN && signo != SIGTTOU))
		return false;
	if (!give_terminal(w))
		return false;
	watcher_signal(w, SIGCONT);
	return true;
}

void watcher_read(struct watcher *w, struct watcher_report *ret_report)
{
	struct watcher_note note = { 0 };
	int rc = 0;

	*ret_report = (struct watcher_report){ .event = WATCHER_NONE };
	if (!w->gone)
		rc = read_note(w, &note);
	if (rc < 0) {
		end_all(w);
		*ret_report = (struct watcher_report){
			.event = WATCHER_GONE, .wait_status = W_EXITCODE(0, SIGKILL), .killed = true,
		};
	} else if (rc > 0 && !continued_in_foreground(w, &note.report)) {
		*ret_report = note.report;
	}
	w->gone = ret_report->event == WATCHER_GONE || w->gone;
}

/* Until nothing is left: as the next subreaper, whatever the watcher had below it came to us. */
static void end_all(struct watcher *w)
{
	const struct timespec pause = { .tv_nsec = LOOK_AGAIN_NS };
	int left;

	w->pid = 0; /* first: libleased's thread must not signal whoever gets the number next */
	if (w->job)
		kill(-w->job, SIGKILL);
	for (;;) {
		left = descendants_signal(SIGKILL, w->start, 0);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (left <= 0)
			break;
		nanosleep(&pause, NULL);
	}
}

/*
 * From behind, as SIGTTOU would stop us. If another living group is the foreground, a shell has taken
 * the terminal back already; a dead one is what the job left behind.
 */
static void take_terminal_back(struct watcher *w)
{
	sigset_t ttou, mask;
	pid_t foreground;
	int tty;

	tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (tty < 0)
		return;
	sigemptyset(&ttou);
	sigaddset(&ttou, SIGTTOU);
	pthread_sigmask(SIG_BLOCK, &ttou, &mask);
	foreground = tcgetpgrp(tty);
	if (foreground == w->job || (kill(-foreground, 0) < 0 && errno == ESRCH))
		tcsetpgrp(tty, getpgrp());
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	close(tty);
	w->own_terminal = false;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void watcher_stop(struct watcher *w)
{
	if (w->own_terminal)
		take_terminal_back(w);
	close_fd(&w->control);
	close_fd(&w->report);
	close_fd(&w->strings);
	if (w->pid > 0) {
		kill(w->pid, SIGCONT); /* it leaves at the end of its socket, unless it was stopped */
		while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	*w = (struct watcher){ .control = -1, .report = -1, .strings = -1 };
}
