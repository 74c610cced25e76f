/*
 * One pass reads /proc in the order of the pids and signals on the way: parents mostly come before
 * their children, so a pass finds nearly all, and a process that forks and exits in a loop is chased
 * without a pause between seeing and signalling. Passes repeat until one finds nothing new, for the
 * children that got a lower pid than their parent.
 */
#include "descendants.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#define PID_LIMIT  (4 * 1024 * 1024) /* the kernel's PID_MAX_LIMIT */
#define PASSES_MAX 16
#define NEAREST    4 /* generations; one that flees is never longer: each exits after its fork */

struct process {
	pid_t pid, parent, group;
	char state;
	int threads;
	uint64_t start; /* ticks since boot */
};

struct hunt {
	pid_t self;
	uint64_t since;
	pid_t but_group;
	int signo;
	int signalled; /* but zombies */
};

/* Pids known to be below us in this hunt. Static, so that a hunt cannot fail for want of memory. */
static uint8_t below[PID_LIMIT / CHAR_BIT];

static bool is_below(pid_t pid)
{
	return pid > 0 && pid < PID_LIMIT && below[pid / CHAR_BIT] & (1u << (pid % CHAR_BIT));
}

static void mark_below(pid_t pid)
{
	if (pid < PID_LIMIT)
		below[pid / CHAR_BIT] |= (uint8_t)(1u << (pid % CHAR_BIT));
}

/* The command's name, in parentheses, may hold anything; the fields follow the last one. */
static int parse_stat(const char *text, struct process *ret_process)
{
	const char *fields = strrchr(text, ')');
	unsigned long long start;

	if (!fields || sscanf(fields + 1,
			" %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d %*d %llu",
			&ret_process->state, &ret_process->parent, &ret_process->group,
			&ret_process->threads, &start) != 5)
		return -1;
	ret_process->start = start;
	return 0;
}

/* dir is /proc/PID: it goes on meaning that process when the pid is given to another. */
static int read_process(int dir, struct process *ret_process)
{
	char text[1024];
	ssize_t len;
	int fd;

	fd = openat(dir, "stat", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	len = read(fd, text, sizeof text - 1);
	close(fd);
	if (len <= 0)
		return -1;
	text[len] = '\0';
	return parse_stat(text, ret_process);
}

int descendants_start_time(pid_t pid, uint64_t *ret_ticks)
{
	struct process process;
	char path[32];
	int dir, rc;

	snprintf(path, sizeof path, "/proc/%d", (int)pid);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -1;
	rc = read_process(dir, &process);
	close(dir);
	if (rc == 0)
		*ret_ticks = process.start;
	return rc;
}

static bool is_descendant(const struct hunt *hunt, const struct process *process)
{
	if (process->parent == hunt->self)
		return process->start >= hunt->since;
	return is_below(process->parent);
}

/* A thread group whose first thread has ended looks like a zombie but lives on. */
static bool is_zombie(const struct process *process)
{
	return process->state == 'Z' && process->threads <= 1;
}

/* Through the directory, so that a pid given away in between is not hit; by pid where that fails. */
static void signal_process(int dir, pid_t pid, int signo)
{
	if (pidfd_send_signal(dir, signo, NULL, 0) < 0 && errno != ESRCH)
		kill(pid, signo);
}

static void hit(struct hunt *hunt, int dir, const struct process *process)
{
	if (hunt->but_group && process->group == hunt->but_group)
		return;
	signal_process(dir, process->pid, hunt->signo);
	if (!is_zombie(process))
		hunt->signalled++;
}

/* Whether the process is a descendant not seen before in this hunt. */
static bool visit(struct hunt *hunt, int proc, const char *name)
{
	struct process process = { .pid = (pid_t)strtol(name, NULL, 10) };
	bool found = false;
	int dir;

	if (process.pid <= 0 || is_below(process.pid))
		return false;
	dir = openat(proc, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return false;
	if (read_process(dir, &process) == 0 && is_descendant(hunt, &process)) {
		found = true;
		mark_below(process.pid);
		hit(hunt, dir, &process);
	}
	close(dir);
	return found;
}

static bool pass_finds_more(struct hunt *hunt, DIR *proc)
{
	const struct dirent *entry;
	bool found = false;

	rewinddir(proc);
	while ((entry = readdir(proc)))
		if (visit(hunt, dirfd(proc), entry->d_name))
			found = true;
	return found;
}

int descendants_signal(int signo, uint64_t since, pid_t but_group)
{
	struct hunt hunt = {
		.self = getpid(), .since = since, .but_group = but_group, .signo = signo,
	};
	DIR *proc;

	proc = opendir("/proc");
	if (!proc)
		return -1;
	memset(below, 0, sizeof below);
	for (int pass = 0; pass < PASSES_MAX; pass++)
		if (!pass_finds_more(&hunt, proc))
			break;
	closedir(proc);
	return hunt.signalled;
}

/* The kernel's list of a thread's children, whole numbers only. "" when there is none. */
static void read_children(pid_t pid, char *list, size_t size)
{
	char path[64];
	ssize_t len = 0;
	int fd;

	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		len = read(fd, list, size - 1);
		close(fd);
	}
	/* Each number is followed by a space; a number cut short would be somebody else's. */
	while (len > 0 && list[len - 1] != ' ')
		len--;
	list[len > 0 ? len : 0] = '\0';
}

/* Parents first, so that they cannot go on forking. */
static void kill_children(pid_t pid, int generations)
{
	char list[4096], *end;

	read_children(pid, list, sizeof list);
	for (char *at = list; *at; at = *end ? end + 1 : end) {
		pid_t child = (pid_t)strtol(at, &end, 10);

		if (child <= 0)
			return;
		kill(child, SIGKILL);
		if (generations > 1)
			kill_children(child, generations - 1);
	}
}

void descendants_kill_nearest(void)
{
	kill_children(getpid(), NEAREST);
}
