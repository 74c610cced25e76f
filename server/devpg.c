/*
 * devpg_start -> find binaries -> make and lock DIR -> fork the watcher -> wait until the server
 * answers. The watcher (devpg_watch.c) holds one end of the leash; the daemon's end closes with
 * devpg_stop or with the daemon's death in whatever way.
 */
#include "devpg.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <libpq-fe.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "devpg_watch.h"
#include "status.h"

#define DIR_LEN_MAX   (DEVPG_PATH_SIZE - sizeof "/.s.PGSQL.5432")
#define START_WAIT_MS 60000

static bool has_both(const char *bin)
{
	char path[DEVPG_BIN_SIZE + 16];

	snprintf(path, sizeof path, "%s/initdb", bin);
	if (access(path, X_OK) < 0)
		return false;
	snprintf(path, sizeof path, "%s/postgres", bin);
	return access(path, X_OK) == 0;
}

static bool find_in_path(char bin[static DEVPG_BIN_SIZE])
{
	const char *path = getenv("PATH");

	while (path && *path) {
		size_t len = strcspn(path, ":");

		if (*path == '/' && len < DEVPG_BIN_SIZE) {
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
static bool find_in_debian(char bin[static DEVPG_BIN_SIZE])
{
	glob_t found;
	int best = 0;

	if (glob("/usr/lib/postgresql/*/bin", 0, NULL, &found) != 0)
		return false;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		int version = atoi(found.gl_pathv[i] + strlen("/usr/lib/postgresql/"));

		if (version <= best || strlen(found.gl_pathv[i]) >= DEVPG_BIN_SIZE ||
			!has_both(found.gl_pathv[i]))
			continue;
		best = version;
		strcpy(bin, found.gl_pathv[i]);
	}
	globfree(&found);
	return best > 0;
}

static int make_private(const char *dir, struct leased_error *err)
{
	if (chmod(dir, 0700) < 0)
		return fail(err, LEASED_ECONFIG, "protect %s: %s", dir, strerror(errno));
	return 0;
}

/* Of a socket's path there is a limit, and a comma in a host means two of them to libpq. */
static bool fits_libpq(const char *dir, size_t more)
{
	return strlen(dir) + more <= DIR_LEN_MAX && !strchr(dir, ',');
}

static int make_temporary(struct devpg *pg, struct leased_error *err)
{
	const char *tmp = getenv("TMPDIR");
	int rc;

	if (!tmp || *tmp != '/' || !fits_libpq(tmp, strlen("/leased-dev.XXXXXX")) ||
		access(tmp, X_OK) < 0)
		tmp = "/tmp";
	snprintf(pg->dir, sizeof pg->dir, "%s/leased-dev.XXXXXX", tmp);
	if (!mkdtemp(pg->dir)) {
		rc = fail(err, LEASED_ECONFIG, "make a directory in %s: %s", tmp, strerror(errno));
		*pg->dir = '\0';
		return rc;
	}
	return make_private(pg->dir, err);
}

static bool is_empty(const char *path)
{
	const struct dirent *entry;
	DIR *dir = opendir(path);
	bool empty = true;

	if (!dir)
		return false;
	while ((entry = readdir(dir)))
		empty = empty && (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."));
	closedir(dir);
	return empty;
}

/* A directory that was there before is only used if it is empty, or ours from an earlier time. */
static int check_earlier(const char *dir, struct leased_error *err)
{
	const struct passwd *owner;
	char lock[DEVPG_FILE_SIZE];
	struct stat st;

	snprintf(lock, sizeof lock, "%s/leased.lock", dir);
	if (stat(dir, &st) < 0)
		return fail(err, LEASED_ECONFIG, "look at %s: %s", dir, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return fail(err, LEASED_ECONFIG, "%s is not a directory", dir);
	if (is_empty(dir) && st.st_uid == geteuid())
		return make_private(dir, err);
	if (st.st_uid != geteuid()) {
		owner = getpwuid(st.st_uid);
		return fail(err, LEASED_ECONFIG,
			"%s belongs to %s: start leased as that user, or choose another --data DIR",
			dir, owner ? owner->pw_name : "someone else");
	}
	if (access(lock, F_OK) < 0)
		return fail(err, LEASED_ECONFIG,
			"%s is not empty, and leased --dev has not made it: choose another --data "
			"DIR",
			dir);
	return 0;
}

static int use_directory(struct devpg *pg, const char *dir, struct leased_error *err)
{
	bool made = mkdir(dir, 0700) == 0;
	char whole[PATH_MAX];

	pg->keep = true;
	if (!made && errno != EEXIST)
		return fail(err, LEASED_ECONFIG, "make the directory %s: %s", dir, strerror(errno));
	if (!realpath(dir, whole)) /* the server and libpq want it to start with a slash */
		return fail(err, LEASED_ECONFIG, "find %s: %s", dir, strerror(errno));
	if (!fits_libpq(whole, 0))
		return fail(err, LEASED_ECONFIG,
			"%s is no path for a socket of PostgreSQL: choose a --data DIR of at most "
			"%zu bytes without a comma",
			whole, DIR_LEN_MAX);
	strcpy(pg->dir, whole);
	return made ? make_private(pg->dir, err) : check_earlier(pg->dir, err);
}

static int lock_directory(const struct devpg *pg, int *ret_lock, struct leased_error *err)
{
	char path[DEVPG_FILE_SIZE];
	int fd, rc;

	snprintf(path, sizeof path, "%s/leased.lock", pg->dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return fail(err, LEASED_ECONFIG, "open %s: %s", path, strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		rc = errno == EWOULDBLOCK
			     ? fail(err, LEASED_ECONFIG, "%s is in use by another leased --dev",
				       pg->dir)
			     : fail(err, LEASED_ECONFIG, "lock %s: %s", path, strerror(errno));
		close(fd);
		return rc;
	}
	*ret_lock = fd;
	return 0;
}

/* What was said last since the log was `from` bytes long; rather an error than what came after it.
 */
static void last_words(const struct devpg *pg, long from, char *out, size_t size)
{
	char path[DEVPG_FILE_SIZE], line[512];
	bool is_error, has_error = false;
	FILE *in;

	snprintf(path, sizeof path, "%s/log", pg->dir);
	snprintf(out, size, "it said nothing");
	in = fopen(path, "re");
	if (!in)
		return;
	fseek(in, from, SEEK_SET);
	while (fgets(line, sizeof line, in)) {
		is_error = strstr(line, "FATAL") || strstr(line, "error:");
		if (line[strspn(line, " \t\n")] && (is_error || !has_error))
			snprintf(out, size, "%.*s", (int)strcspn(line, "\n"), line);
		has_error = has_error || is_error;
	}
	fclose(in);
}

static int wait_until_ready(const struct devpg *pg, long log_from, struct leased_error *err)
{
	struct pollfd leash = { .fd = pg->leash, .events = POLLIN };
	int64_t give_up_ms = clock_ms() + START_WAIT_MS;
	char said[256];

	while (clock_ms() < give_up_ms && poll(&leash, 1, 50) <= 0)
		if (PQping(pg->conninfo) == PQPING_OK)
			return 0;
	last_words(pg, log_from, said, sizeof said);
	return fail(err, LEASED_EUNAVAILABLE, "PostgreSQL in %s does not start: %s", pg->dir, said);
}

static long log_size(const struct devpg *pg)
{
	char path[DEVPG_FILE_SIZE];
	struct stat st;

	snprintf(path, sizeof path, "%s/log", pg->dir);
	return stat(path, &st) == 0 ? (long)st.st_size : 0;
}

static int start_in(struct devpg *pg, struct devpg_setup *setup, struct leased_error *err)
{
	char quoted[2 * DEVPG_PATH_SIZE + 3];
	long log_from = log_size(pg);
	int rc;

	devpg_quote(quoted, pg->dir, '\'', '\\');
	snprintf(pg->conninfo, sizeof pg->conninfo, "host=%s port=5432 user=leased dbname=postgres",
		quoted);
	snprintf(pg->admin, sizeof pg->admin, "host=%s port=5432 user=postgres dbname=postgres", quoted);
	rc = lock_directory(pg, &setup->lock, err);
	if (rc < 0)
		return rc;
	rc = devpg_watch(pg, setup, err);
	close(setup->lock);
	if (rc < 0)
		return rc;
	return wait_until_ready(pg, log_from, err);
}

int devpg_start(struct devpg *pg, const char *dir, struct leased_error *err)
{
	struct devpg_setup setup = { 0 };
	int rc;

	*pg = (struct devpg){ .leash = -1 };
	if (!find_in_path(setup.bin) && !find_in_debian(setup.bin))
		return fail(err, LEASED_ECONFIG,
			"--dev needs PostgreSQL's initdb and postgres, found neither in PATH nor "
			"in /usr/lib/postgresql: apt-get install postgresql");
	rc = dir ? use_directory(pg, dir, err) : make_temporary(pg, err);
	if (rc == 0)
		rc = start_in(pg, &setup, err);
	if (rc < 0)
		devpg_stop(pg);
	return rc;
}

void devpg_stop(struct devpg *pg)
{
	if (pg->watcher > 0) {
		close(pg->leash);
		while (waitpid(pg->watcher, NULL, 0) < 0 && errno == EINTR)
			;
	} else if (*pg->dir && !pg->keep) {
		devpg_remove(pg->dir);
	}
	*pg = (struct devpg){ .leash = -1 };
}
