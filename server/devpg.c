/*
 * devpg_start -> find binaries -> make DIR -> initdb -> fork the watcher -> it starts postgres -> wait
 * until it answers. The watcher lives in a session of its own and holds the read end of a pipe: its end
 * (devpg_stop, or the daemon's death in whatever way) tells it to stop the cluster and clean up.
 */
#include "devpg.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <grp.h>
#include <libpq-fe.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "status.h"

#define BIN_SIZE      256
#define START_WAIT_MS 60000
#define STOP_WAIT_MS  10000

static void pause_ms(int ms)
{
	poll(NULL, 0, ms);
}

/* PostgreSQL refuses to run as root. */
static const struct passwd *server_user(void)
{
	const struct passwd *user;

	if (geteuid() != 0)
		return NULL;
	user = getpwnam("postgres");
	return user ? user : getpwnam("nobody");
}

static bool has_both(const char *bin)
{
	char path[BIN_SIZE + 16];

	snprintf(path, sizeof path, "%s/initdb", bin);
	if (access(path, X_OK) < 0)
		return false;
	snprintf(path, sizeof path, "%s/postgres", bin);
	return access(path, X_OK) == 0;
}

static bool find_in_path(char bin[static BIN_SIZE])
{
	const char *path = getenv("PATH");

	while (path && *path) {
		size_t len = strcspn(path, ":");

		if (len > 0 && len < BIN_SIZE) {
			memcpy(bin, path, len);
			bin[len] = '\0';
			if (has_both(bin))
				return true;
		}
		path += len + (path[len] == ':');
	}
	return false;
}

/* Debian keeps them out of PATH; the newest version wins. */
static bool find_in_debian(char bin[static BIN_SIZE])
{
	glob_t found;
	int best = 0;

	if (glob("/usr/lib/postgresql/*/bin", 0, NULL, &found) != 0)
		return false;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		int version = atoi(found.gl_pathv[i] + strlen("/usr/lib/postgresql/"));

		if (version <= best || strlen(found.gl_pathv[i]) >= BIN_SIZE ||
			!has_both(found.gl_pathv[i]))
			continue;
		best = version;
		strcpy(bin, found.gl_pathv[i]);
	}
	globfree(&found);
	return best > 0;
}

static int make_directory(struct devpg *pg, const char *dir, const struct passwd *user,
	struct leased_error *err)
{
	const char *tmp = getenv("TMPDIR");
	int n;

	pg->keep = dir != NULL;
	n = dir ? snprintf(pg->dir, sizeof pg->dir, "%s", dir) :
		  snprintf(pg->dir, sizeof pg->dir, "%s/leased-dev.XXXXXX", tmp && *tmp ? tmp : "/tmp");
	/* The longest path below it is a socket's. */
	if ((size_t)n + strlen("/.s.PGSQL.5432") >= DEVPG_PATH_SIZE)
		return fail(err, LEASED_ECONFIG, "%s: too long for a socket's path: use --data with a shorter one",
			dir ? dir : tmp);
	if (!dir && !mkdtemp(pg->dir))
		return fail(err, LEASED_ECONFIG, "make a directory %s: %s", pg->dir, strerror(errno));
	if (dir && mkdir(dir, 0700) < 0 && errno != EEXIST)
		return fail(err, LEASED_ECONFIG, "make the directory %s: %s", dir, strerror(errno));
	if (user && chown(pg->dir, user->pw_uid, user->pw_gid) < 0)
		return fail(err, LEASED_ECONFIG, "give %s to user %s: %s", pg->dir, user->pw_name,
			strerror(errno));
	if (chmod(pg->dir, 0700) < 0)
		return fail(err, LEASED_ECONFIG, "protect %s: %s", pg->dir, strerror(errno));
	return 0;
}

/* In a child: becomes the user, says what it says into DIR/log, and runs a program. */
static void run_as(const struct passwd *user, const char *dir, const char *const argv[])
{
	char log[DEVPG_PATH_SIZE + 8];
	int fd;

	if (user && (initgroups(user->pw_name, user->pw_gid) < 0 || setgid(user->pw_gid) < 0 ||
			    setuid(user->pw_uid) < 0))
		_exit(126);
	snprintf(log, sizeof log, "%s/log", dir);
	fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0 || chdir(dir) < 0)
		_exit(126);
	dup2(fd, STDOUT_FILENO);
	dup2(fd, STDERR_FILENO);
	prctl(PR_SET_PDEATHSIG, SIGINT); /* after setuid, which clears it */
	execv(argv[0], (char *const *)(uintptr_t)argv);
	_exit(127);
}

/* What the server said last, for the error. */
static void last_words(const struct devpg *pg, char *out, size_t size)
{
	char path[DEVPG_PATH_SIZE + 8], line[512];
	FILE *in;

	snprintf(path, sizeof path, "%s/log", pg->dir);
	snprintf(out, size, "nothing was said");
	in = fopen(path, "re");
	if (!in)
		return;
	while (fgets(line, sizeof line, in))
		if (line[strspn(line, " \t\n")] && !strstr(line, "database system is shut down"))
			snprintf(out, size, "%.*s", (int)strcspn(line, "\n"), line);
	fclose(in);
}

static int make_cluster(struct devpg *pg, const char *bin, const struct passwd *user,
	struct leased_error *err)
{
	char initdb[BIN_SIZE + 16], data[DEVPG_PATH_SIZE + 16], mark[DEVPG_PATH_SIZE + 32];
	const char *argv[] = { initdb, "-D", data, "-U", "leased", "--auth=trust", "--encoding=UTF8",
		"--locale=C.UTF-8", "--no-instructions", NULL };
	char said[256];
	int status;
	pid_t pid;

	snprintf(data, sizeof data, "%s/data", pg->dir);
	snprintf(mark, sizeof mark, "%s/PG_VERSION", data);
	if (access(mark, F_OK) == 0)
		return 0;
	snprintf(initdb, sizeof initdb, "%s/initdb", bin);
	log_event(LOG_INFO, "dev_initdb", "dir", 's', pg->dir, NULL);
	pid = fork();
	if (pid == 0)
		run_as(user, pg->dir, argv);
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return fail(err, LEASED_EINTERNAL, "run initdb: %s", strerror(errno));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	last_words(pg, said, sizeof said);
	return fail(err, LEASED_EUNAVAILABLE, "initdb in %s failed: %s", pg->dir, said);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *walk)
{
	(void)st;
	(void)type;
	(void)walk;
	return remove(path);
}

/* Waits up to wait_ms for a child; true when it has ended. */
static bool ended_within(pid_t pid, int wait_ms)
{
	for (int waited = 0; waited <= wait_ms; waited += 20) {
		if (waitpid(pid, NULL, WNOHANG) != 0)
			return true;
		pause_ms(20);
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

static pid_t start_server(const struct devpg *pg, const char *bin, const struct passwd *user)
{
	char program[BIN_SIZE + 16], data[DEVPG_PATH_SIZE + 16], sockets[DEVPG_PATH_SIZE + 32];
	const char *argv[] = { program, "-D", data, "-c", "listen_addresses=", "-c", sockets, "-c",
		"unix_socket_permissions=0700", "-c", "shared_buffers=32MB", "-c",
		"max_connections=50", NULL };
	pid_t pid;

	snprintf(program, sizeof program, "%s/postgres", bin);
	snprintf(data, sizeof data, "%s/data", pg->dir);
	snprintf(sockets, sizeof sockets, "unix_socket_directories=%s", pg->dir);
	pid = fork();
	if (pid == 0)
		run_as(user, pg->dir, argv);
	return pid;
}

static void ignore_signals(void)
{
	static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2 };

	for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
		signal(ignored[i], SIG_IGN);
}

/* The watcher's whole life. postgres was started before signals are ignored: it must hear them. */
static void watch(const struct devpg *pg, int leash, const char *bin, const struct passwd *user)
{
	struct pollfd fd = { .fd = leash, .events = POLLIN };
	pid_t postgres;

	setsid();
	prctl(PR_SET_NAME, "leased-devpg");
	postgres = start_server(pg, bin, user);
	ignore_signals();
	/* Nobody ever writes: readable means that the other end is gone. */
	while (postgres > 0 && poll(&fd, 1, 200) <= 0)
		if (waitpid(postgres, NULL, WNOHANG) == postgres)
			postgres = -1;
	if (postgres > 0)
		stop_server(postgres);
	while (poll(&fd, 1, -1) < 0) /* the server died before us: still wait for the end */
		;
	if (!pg->keep)
		nftw(pg->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	_exit(0);
}

static int start_watcher(struct devpg *pg, const char *bin, const struct passwd *user,
	struct leased_error *err)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return fail(err, LEASED_EINTERNAL, "make a pipe: %s", strerror(errno));
	pg->watcher = fork();
	if (pg->watcher == 0) {
		close(ends[1]);
		watch(pg, ends[0], bin, user);
	}
	close(ends[0]);
	pg->leash = ends[1];
	if (pg->watcher > 0)
		return 0;
	close(ends[1]);
	return fail(err, LEASED_EINTERNAL, "fork: %s", strerror(errno));
}

/* The postmaster removes its pid file when it ends, and never makes one when it cannot start. */
static int wait_until_ready(struct devpg *pg, struct leased_error *err)
{
	char said[256];

	for (int waited = 0; waited < START_WAIT_MS; waited += 50) {
		if (PQping(pg->conninfo) == PQPING_OK)
			return 0;
		pause_ms(50);
		last_words(pg, said, sizeof said);
		if (strstr(said, "FATAL") && waited > 1000)
			break;
	}
	last_words(pg, said, sizeof said);
	return fail(err, LEASED_EUNAVAILABLE, "PostgreSQL in %s does not start: %s", pg->dir, said);
}

int devpg_start(struct devpg *pg, const char *dir, struct leased_error *err)
{
	const struct passwd *user = server_user();
	char bin[BIN_SIZE];
	int rc;

	*pg = (struct devpg){ .leash = -1 };
	if (!find_in_path(bin) && !find_in_debian(bin))
		return fail(err, LEASED_ECONFIG,
			"--dev needs PostgreSQL's initdb and postgres, found neither in PATH nor in /usr/lib/postgresql: apt-get install postgresql");
	rc = make_directory(pg, dir, user, err);
	if (rc < 0)
		return rc;
	snprintf(pg->conninfo, sizeof pg->conninfo, "host=%s user=leased dbname=postgres", pg->dir);
	rc = make_cluster(pg, bin, user, err);
	if (rc == 0)
		rc = start_watcher(pg, bin, user, err);
	if (rc == 0)
		rc = wait_until_ready(pg, err);
	if (rc < 0)
		devpg_stop(pg);
	return rc;
}

void devpg_stop(struct devpg *pg)
{
	if (pg->watcher > 0) {
		close(pg->leash);
		waitpid(pg->watcher, NULL, 0);
	} else if (*pg->dir && !pg->keep) {
		nftw(pg->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	}
	*pg = (struct devpg){ .leash = -1 };
}
