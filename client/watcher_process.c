/*
 * The life of the watcher, one turn of the loop after the other: take commands, reap, decide.
 *
 *   idle --start--> running --deadline - grace, or lost, or leasectl gone--> ending --kill_at--> killing
 *    |                 |                                                        |                  |
 *    '- leasectl gone  '- command ended, group empty --> GONE                   '- no descendants -'-> GONE
 *
 * Ending is for good: a renewal that comes later does not un-send a SIGTERM. Since this process is a
 * subreaper, "no children" means "no descendants". After GONE it exits; what left the job's group in
 * peace goes on.
 */
#include "watcher_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "descendants.h"

#define MS               INT64_C(1000000)
#define LOOK_AGAIN_FIRST (1 * MS)   /* for members of the group, for escaped descendants */
#define LOOK_AGAIN_MAX   (128 * MS)
#define CHASES           2000 /* at a time, while children die */
#define IDLE_CHASES      64   /* without a death, then look for others */

struct process {
	struct watcher_channels channels; /* control is -1 once leasectl is gone */
	sigset_t mask;                    /* the job's */
	struct sigaction on_child;        /* the job's disposition of SIGCHLD */
	int children, timer;              /* signalfd of SIGCHLD, timerfd */
	int exec_error;                   /* the job's errno comes here if it cannot be executed */
	pid_t self, job;
	int64_t deadline_ns, grace_ns;    /* deadline 0: none */
	int64_t kill_at_ns;               /* while ending */
	int64_t look_again_ns;
	struct watcher_report last;       /* of the command */
	bool has_ended;                   /* the command itself */
	bool group_empty, no_children;
	bool is_ending;
};

static void set_up(struct process *p);
static void wait_for_news(struct process *p);
static void take_commands(struct process *p);
static void start_job(struct process *p, const struct watcher_command *command);
static void run_job(const struct process *p, const struct watcher_command *command, char *strings,
	char **argv, int exec_error) __attribute__((noreturn));
static bool reap(struct process *p);
static void decide(struct process *p);
static void begin_ending(struct process *p, int64_t now);
static void kill_all(struct process *p);
static void report_gone(struct process *p);

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t)now.tv_sec * 1000 * MS + now.tv_nsec;
}

static int64_t add_capped(int64_t a, int64_t b)
{
	int64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

void watcher_process_run(const struct watcher_channels *channels, const sigset_t *mask)
{
	struct process p = { .channels = *channels, .mask = *mask, .exec_error = -1 };

	set_up(&p);
	for (;;) {
		wait_for_news(&p);
		take_commands(&p);
		reap(&p);
		decide(&p);
	}
}

/* Out of the terminal's and `killall leasectl`'s way, and in the way of orphans. */
static void set_up(struct process *p)
{
	struct sigaction by_default = { .sa_handler = SIG_DFL };
	sigset_t child;

	p->self = getpid();
	setpgid(0, 0);
	prctl(PR_SET_NAME, "leased-watcher");
	/* An inherited SIG_IGN would have the kernel reap the job and forget its status. */
	sigaction(SIGCHLD, &by_default, &p->on_child);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	p->children = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	p->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || p->children < 0 || p->timer < 0)
		_exit(EXIT_FAILURE); /* leasectl sees the report's end */
}

/* Soon at first, then less and less often. */
static int64_t look_again(struct process *p, int64_t now)
{
	int64_t delay = p->look_again_ns;

	p->look_again_ns = earlier(delay * 2, LOOK_AGAIN_MAX);
	return now + delay;
}

/* INT64_MAX: nothing will happen by itself. */
static int64_t next_moment(struct process *p, int64_t now)
{
	int64_t next = INT64_MAX;

	if (!p->job)
		return next;
	if (p->is_ending)
		return now < p->kill_at_ns ? p->kill_at_ns : look_again(p, now);
	if (p->deadline_ns)
		next = p->deadline_ns - p->grace_ns;
	if (p->has_ended)
		next = earlier(next, look_again(p, now));
	return next;
}

static void wait_for_news(struct process *p)
{
	struct pollfd polls[] = {
		{ .fd = p->channels.control, .events = POLLIN },
		{ .fd = p->children, .events = POLLIN },
		{ .fd = p->timer, .events = POLLIN },
	};
	int64_t next = next_moment(p, now_ns());
	struct itimerspec at = { 0 };
	struct signalfd_siginfo infos[8];

	if (next <= 0)
		next = 1; /* 0 would disarm */
	if (next < INT64_MAX) {
		at.it_value.tv_sec = (time_t)(next / (1000 * MS));
		at.it_value.tv_nsec = (long)(next % (1000 * MS));
	}
	timerfd_settime(p->timer, TFD_TIMER_ABSTIME, &at, NULL);
	poll(polls, sizeof polls / sizeof polls[0], -1);
	while (read(p->children, infos, sizeof infos) > 0)
		;
}

static void signal_group(const struct process *p, int signo)
{
	if (p->job && !p->group_empty)
		kill(-p->job, signo);
}

static void obey(struct process *p, const struct watcher_command *command)
{
	switch (command->kind) {
	case WATCHER_START_JOB:
		start_job(p, command);
		break;
	case WATCHER_SET_DEADLINE:
		p->deadline_ns = command->deadline_ns;
		break;
	case WATCHER_END_JOB:
		if (p->job)
			begin_ending(p, now_ns());
		break;
	case WATCHER_SIGNAL_JOB:
		signal_group(p, command->signo);
		break;
	}
}

static void take_commands(struct process *p)
{
	struct watcher_command command;

	while (p->channels.control >= 0) {
		ssize_t n = recv(p->channels.control, &command, sizeof command, MSG_DONTWAIT);

		if (n == (ssize_t)sizeof command) {
			obey(p, &command);
			continue;
		}
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		close(p->channels.control); /* leasectl has ended, or died */
		p->channels.control = -1;
		if (p->job)
			begin_ending(p, now_ns());
	}
}

/* Whole or not at all; what leasectl must know comes again with GONE. */
static void send_note(const struct process *p, const struct watcher_note *note)
{
	while (write(p->channels.report, note, sizeof *note) < 0 && errno == EINTR)
		;
}

static void answer(const struct process *p, pid_t job)
{
	struct watcher_note note = { .is_answer = true, .job = job };

	send_note(p, &note);
}

static void report(struct process *p, enum watcher_event event)
{
	struct watcher_note note = { .report = p->last };

	note.report.event = event;
	note.report.killed = event == WATCHER_GONE && p->is_ending;
	send_note(p, &note);
}

static int compare_fds(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

/* Pipes and files meant for the job must not stay open because of us. */
static void close_all_but(int keep[], size_t n)
{
	int from = 0;

	qsort(keep, n, sizeof *keep, compare_fds);
	for (size_t i = 0; i < n; i++) {
		if (keep[i] > from)
			close_range((unsigned)from, (unsigned)keep[i] - 1, 0);
		from = keep[i] + 1;
	}
	close_range((unsigned)from, ~0u, 0);
}

static pid_t fork_job(struct process *p, const struct watcher_command *command)
{
	int exec_error[2];
	char *strings, **argv;
	pid_t pid;

	argv = calloc(command->args + 1, sizeof *argv);
	strings = mmap(NULL, command->size, PROT_READ | PROT_WRITE, MAP_PRIVATE, p->channels.strings, 0);
	if (!argv || strings == MAP_FAILED || pipe2(exec_error, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno; /* leasectl gives up on us: nothing to undo */
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		run_job(p, command, strings, argv, exec_error[1]);
	setpgid(pid, pid); /* in both, so that neither has to wait for the other */
	munmap(strings, command->size);
	free(argv);
	p->exec_error = exec_error[0];
	return pid;
}

static void start_job(struct process *p, const struct watcher_command *command)
{
	pid_t job;

	if (command->deadline_ns && now_ns() >= command->deadline_ns) {
		answer(p, -ETIME);
		return;
	}
	job = fork_job(p, command);
	answer(p, job);
	if (job < 0)
		return;
	p->job = job;
	p->deadline_ns = command->deadline_ns;
	p->grace_ns = command->grace_ns;
	p->look_again_ns = LOOK_AGAIN_FIRST;
	close_all_but((int[]){ p->channels.control, p->channels.report, p->children, p->timer,
		p->exec_error }, 5);
}

/* SIGTTOU is blocked: asking for the terminal from behind does not stop us. */
static void take_terminal(void)
{
	int tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (tty < 0)
		return;
	tcsetpgrp(tty, getpgrp());
	close(tty);
}

/* In the job's process. */
static void run_job(const struct process *p, const struct watcher_command *command, char *strings,
	char **argv, int exec_error)
{
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != p->self)
		_exit(EXIT_FAILURE); /* the watcher died before the line above: nobody to report to */
	if (command->to_foreground)
		take_terminal();
	for (size_t i = 0; i < command->args; i++, strings += strlen(strings) + 1)
		argv[i] = strings;
	for (size_t i = 0; i < command->env; i++, strings += strlen(strings) + 1)
		putenv(strings);
	sigaction(SIGCHLD, &p->on_child, NULL);
	sigprocmask(SIG_SETMASK, &p->mask, NULL);
	execvp(argv[0], argv);
	if (write(exec_error, &errno, sizeof errno) < 0)
		_exit(126);
	_exit(127);
}

static void command_ended(struct process *p, int status)
{
	int exec_errno;

	p->has_ended = true;
	p->last.wait_status = status;
	if (read(p->exec_error, &exec_errno, sizeof exec_errno) == (ssize_t)sizeof exec_errno)
		p->last.exec_errno = exec_errno;
	report(p, WATCHER_EXITED);
}

static void command_changed(struct process *p, int status)
{
	if (WIFSTOPPED(status)) {
		p->last.wait_status = status;
		report(p, WATCHER_STOPPED);
	} else if (WIFCONTINUED(status)) {
		report(p, WATCHER_CONTINUED);
	} else {
		command_ended(p, status);
	}
}

/* Whether there was news of any child. */
static bool reap(struct process *p)
{
	bool news = false;
	pid_t pid;
	int status;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
		news = true;
		if (pid == p->job && !p->has_ended)
			command_changed(p, status);
	}
	p->no_children = pid < 0 && errno == ECHILD;
	/* Signal 0 only asks. Not asked again once empty: the number may be another's by then. */
	if (p->has_ended && !p->group_empty)
		p->group_empty = kill(-p->job, 0) < 0 && errno == ESRCH;
	return news;
}

static void decide(struct process *p)
{
	int64_t now = now_ns();

	if (!p->job) {
		if (p->channels.control < 0)
			_exit(EXIT_SUCCESS);
		return;
	}
	if (p->is_ending ? p->no_children : p->group_empty)
		report_gone(p);
	if (!p->is_ending && p->deadline_ns && now >= p->deadline_ns - p->grace_ns)
		begin_ending(p, now);
	if (p->is_ending && now >= p->kill_at_ns)
		kill_all(p);
}

/* Nobody twice: to many programs a second SIGTERM means "at once". */
static void signal_all_once(const struct process *p, int signo)
{
	signal_group(p, signo);
	descendants_signal(signo, 0, p->job);
}

/* SIGCONT, so that a stopped job can act on SIGTERM. */
static void begin_ending(struct process *p, int64_t now)
{
	if (p->is_ending)
		return;
	p->is_ending = true;
	p->look_again_ns = LOOK_AGAIN_FIRST;
	p->kill_at_ns = add_capped(now, p->grace_ns);
	if (p->deadline_ns)
		p->kill_at_ns = earlier(p->kill_at_ns, p->deadline_ns);
	signal_all_once(p, SIGTERM);
	signal_all_once(p, SIGCONT);
}

/*
 * The group at one stroke: it cannot outrun that by forking. Then those that left it: quickly what is
 * near, since a job may flee from process to process; then all that can be found.
 */
static void kill_all(struct process *p)
{
	signal_group(p, SIGKILL);
	for (int i = 0, idle = 0; i < CHASES && idle < IDLE_CHASES && !p->no_children; i++) {
		descendants_kill_nearest();
		idle = reap(p) ? 0 : idle + 1;
	}
	if (!p->no_children)
		descendants_signal(SIGKILL, 0, 0);
}

/* Nothing is left to be done in time, so this may wait for a stopped leasectl to make room. */
static void report_gone(struct process *p)
{
	fcntl(p->channels.report, F_SETFL, 0);
	report(p, WATCHER_GONE);
	_exit(EXIT_SUCCESS);
}
