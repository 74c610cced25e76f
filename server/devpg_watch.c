/*
 * make_cluster -> start_server -> wait for the end of the leash, or of the server -> stop_server ->
 * remove. The leash is a pair of sockets. When the server ends first, the watcher shuts its side
 * down, so that the daemon need not guess; and goes on waiting, since the directory is removed only
 * when both are gone.
 */
#include "devpg_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "log.h"
#include "status.h"

#define STOP_WAIT_MS 10000
#define LOOK_MS      200

void devpg_quote(char *out, const char *text, char mark, char escape)
{
	*out++ = mark;
	for (; *text; text++) {
		if (*text == mark || *text == escape)
			*out++ = escape;
		*out++ = *text;
	}
	*out++ = mark;
	*out = '\0';
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *walk)
{
	(void)st;
	(void)type;
	(void)walk;
	return remove(path);
}

void devpg_remove(const char *dir)
{
	nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* In a child of the watcher: speaks into DIR/log from now on, runs a program. */
static void run(const char *dir, const char *const argv[])
{
	char log[DEVPG_FILE_SIZE];
	sigset_t none;
	int fd;

	for (int signo = 1; signo < NSIG; signo++)
		signal(signo, SIG_DFL); /* what the watcher ignores, the server must hear */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	snprintf(log, sizeof log, "%s/log", dir);
	fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0 || chdir(dir) < 0)
		_exit(126);
	dup2(fd, STDOUT_FILENO);
	dup2(fd, STDERR_FILENO);
	prctl(PR_SET_PDEATHSIG, SIGINT);
	execv(argv[0], (char *const *)(uintptr_t)argv);
	_exit(127);
}

/* The watcher waits for initdb to its end: it takes a second or two. */
static bool make_cluster(const struct devpg *pg, const struct devpg_setup *setup)
{
	char initdb[DEVPG_BIN_SIZE + 16], data[DEVPG_FILE_SIZE], mark[DEVPG_FILE_SIZE];
	const char *argv[] = { initdb, "-D", data, "-U", "postgres", "--auth=trust",
		"--encoding=UTF8", "--locale=C.UTF-8", "--no-instructions", NULL };
	int status;
	pid_t pid;

	snprintf(data, sizeof data, "%s/data", pg->dir);
	snprintf(mark, sizeof mark, "%s/data/PG_VERSION", pg->dir);
	if (access(mark, F_OK) == 0)
		return true;
	snprintf(initdb, sizeof initdb, "%s/initdb", setup->bin);
	log_event(LOG_INFO, "dev_initdb", "dir", 's', pg->dir, NULL);
	pid = fork();
	if (pid == 0)
		run(pg->dir, argv);
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static pid_t start_server(const struct devpg *pg, const struct devpg_setup *setup)
{
	char program[DEVPG_BIN_SIZE + 16], data[DEVPG_FILE_SIZE], quoted[2 * DEVPG_PATH_SIZE + 3];
	char sockets[sizeof quoted + 32];
	const char *argv[] = { program, "-D", data, "-c", "listen_addresses=", "-c", sockets, "-c",
		"unix_socket_permissions=0700", "-c", "port=5432", "-c", "shared_buffers=32MB",
		"-c", "max_connections=50", NULL };
	pid_t pid;

	snprintf(program, sizeof program, "%s/postgres", setup->bin);
	snprintf(data, sizeof data, "%s/data", pg->dir);
	devpg_quote(quoted, pg->dir, '"', '"');
	snprintf(sockets, sizeof sockets, "unix_socket_directories=%s", quoted);
	pid = fork();
	if (pid == 0)
		run(pg->dir, argv);
	return pid;
}

/* Waits up to wait_ms for a child; true when it has ended. */
static bool ended_within(pid_t pid, int wait_ms)
{
	for (int waited = 0; waited <= wait_ms; waited += 20) {
		if (waitpid(pid, NULL, WNOHANG) != 0)
			return true;
		poll(NULL, 0, 20);
	}
	return false;
}

/* Fast shutdown first, then immediate, then no question any more. */
static void stop_server(pid_t postgres)
{
	static const int signals[] = { SIGINT, SIGQUIT, SIGKILL };

	for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
		kill(postgres, signals[i]);
		if (ended_within(postgres, STOP_WAIT_MS))
			return;
	}
}

/* From here on nothing reaches the watcher but the end of its leash. */
static void detach(int leash, int lock)
{
	unsigned low = (unsigned)(leash < lock ? leash : lock),
		 high = (unsigned)(leash + lock) - low;

	setsid(); /* signals to the daemon's group, a terminal's among them, are not for us */
	prctl(PR_SET_NAME, "leased-devpg");
	/* SIGCHLD ignored would lose the status of children. */
	for (int signo = 1; signo < NSIG; signo++)
		signal(signo, signo == SIGCHLD ? SIG_DFL : SIG_IGN);
	/* Listening sockets and other leashes end with the daemon, not with us. */
	close_range(STDERR_FILENO + 1, low - 1, 0);
	close_range(low + 1, high - 1, 0);
	close_range(high + 1, ~0u, 0);
}

/* Its whole life. Nobody writes to the leash: readable means that the other end is gone. */
static void watch(const struct devpg *pg, int leash, const struct devpg_setup *setup)
{
	struct pollfd fd = { .fd = leash, .events = POLLIN };
	pid_t postgres = -1;

	detach(leash, setup->lock);
	if (make_cluster(pg, setup))
		postgres = start_server(pg, setup);
	while (postgres > 0 && poll(&fd, 1, LOOK_MS) <= 0)
		if (waitpid(postgres, NULL, WNOHANG) == postgres)
			postgres = -1;
	if (postgres > 0) {
		stop_server(postgres);
	} else {
		shutdown(leash, SHUT_WR);
		while (poll(&fd, 1, -1) < 0)
			;
	}
	if (!pg->keep)
		devpg_remove(pg->dir);
	_exit(0);
}

int devpg_watch(struct devpg *pg, const struct devpg_setup *setup, struct leased_error *err)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return fail(err, LEASED_EINTERNAL, "make a pair of sockets: %s", strerror(errno));
	pg->watcher = fork();
	if (pg->watcher == 0) {
		close(ends[0]);
		watch(pg, ends[1], setup);
	}
	close(ends[1]);
	pg->leash = ends[0];
	if (pg->watcher > 0)
		return 0;
	close(pg->leash);
	return fail(err, LEASED_EINTERNAL, "fork: %s", strerror(errno));
}
