/* A private cluster, for real: it answers its owner only, and ends with its owner however that ends. */
#include "table.h"

#include <errno.h>
#include <fcntl.h>
#include <libpq-fe.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "devpg.h"
#include "devpg_watch.h"

#define GIVE_UP_MS 60000 /* far above what a loaded machine needs */

/* A directory for each test, which the server's user may enter. */
struct place {
	char dir[64];
	int old_cwd;
};

static int enter_place(void **state)
{
	struct place *place = malloc(sizeof *place);

	*place = (struct place){ .dir = "/tmp/devpg.XXXXXX" };
	place->old_cwd = open(".", O_PATH);
	if (!mkdtemp(place->dir) || chmod(place->dir, 0755) < 0 || chdir(place->dir) < 0)
		return -1;
	*state = place;
	return setenv("TMPDIR", place->dir, 1);
}

static int leave_place(void **state)
{
	struct place *place = *state;
	int rc = fchdir(place->old_cwd);

	close(place->old_cwd);
	devpg_remove(place->dir);
	unsetenv("TMPDIR");
	free(place);
	return rc;
}

static bool is_gone(const char *path)
{
	return access(path, F_OK) < 0 && errno == ENOENT;
}

static void until_gone(const char *path)
{
	for (int waited = 0; waited < GIVE_UP_MS && !is_gone(path); waited += 20)
		poll(NULL, 0, 20);
	assert_true(is_gone(path));
}

static PGconn *connect_to(const struct devpg *pg)
{
	PGconn *conn = PQconnectdb(pg->admin);

	assert_string_equal(PQerrorMessage(conn), "");
	return conn;
}

/* Runs one statement and compares its only value. */
static void expect(PGconn *conn, const char *sql, const char *value)
{
	PGresult *result = PQexec(conn, sql);

	assert_string_equal(PQresultErrorMessage(result), "");
	if (value)
		assert_string_equal(PQgetvalue(result, 0, 0), value);
	PQclear(result);
}

static void start(struct devpg *pg, const char *dir)
{
	struct leased_error err = { 0 };
	int rc = devpg_start(pg, dir, &err);

	assert_string_equal(err.text, "");
	assert_int_equal(rc, 0);
}

static void expect_refusal(const char *dir, int status, const char *words)
{
	struct leased_error err = { 0 };
	struct devpg pg;

	assert_int_equal(devpg_start(&pg, dir, &err), status);
	if (!strstr(err.text, words))
		print_error("\"%s\" does not say \"%s\"\n", err.text, words);
	assert_non_null(strstr(err.text, words));
	assert_int_equal(pg.watcher, 0);
	devpg_stop(&pg);
}

static void it_answers_in_its_own_directory_only(void **state)
{
	char dir[DEVPG_PATH_SIZE];
	struct devpg pg;
	struct stat st;
	PGconn *conn;

	(void)state;
	start(&pg, NULL);
	strcpy(dir, pg.dir);
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	conn = connect_to(&pg);
	assert_string_equal(PQhost(conn), dir);
	expect(conn, "SHOW listen_addresses", "");
	expect(conn, "SELECT trim('\"' FROM current_setting('unix_socket_directories'))", dir);
	expect(conn, "SHOW unix_socket_permissions", "0700");
	expect(conn, "SHOW fsync", "on"); /* leases are durable in dev mode too */
	expect(conn, "SHOW server_encoding", "UTF8");
	PQfinish(conn);
	devpg_stop(&pg);
	assert_true(is_gone(dir));
}

/* A daemon that only waits; what it started is told over a pipe. */
static pid_t fork_owner(struct devpg *ret_pg, const char *data)
{
	int ends[2];
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		struct devpg pg = { 0 };

		setpgid(0, 0);
		if (devpg_start(&pg, data, NULL) < 0 || write(ends[1], &pg, sizeof pg) < 0)
			_exit(1);
		signal(SIGINT, SIG_IGN);
		signal(SIGTERM, SIG_IGN);
		signal(SIGHUP, SIG_IGN);
		close(ends[1]);
		for (;;)
			pause();
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], ret_pg, sizeof *ret_pg), sizeof *ret_pg);
	assert_int_equal(read(ends[0], &(char){ 0 }, 1), 0); /* signals are ignored from here */
	close(ends[0]);
	return pid;
}

static void kill_owner(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void it_ends_with_an_owner_killed_by_sigkill(void **state)
{
	char pidfile[DEVPG_FILE_SIZE];
	struct devpg pg;
	PGconn *conn;
	pid_t owner;
	FILE *in;
	int postmaster = 0;

	(void)state;
	owner = fork_owner(&pg, NULL);
	conn = connect_to(&pg);
	snprintf(pidfile, sizeof pidfile, "%s/data/postmaster.pid", pg.dir);
	in = fopen(pidfile, "re");
	assert_non_null(in);
	assert_int_equal(fscanf(in, "%d", &postmaster), 1);
	fclose(in);
	kill_owner(owner);
	until_gone(pg.dir);
	assert_int_equal(kill(postmaster, 0), -1);
	PQclear(PQexec(conn, "SELECT 1"));
	assert_int_equal(PQstatus(conn), CONNECTION_BAD);
	PQfinish(conn);
}

static void signals_to_the_owners_group_do_not_reach_it(void **state)
{
	struct devpg pg;
	PGconn *conn;
	pid_t owner;

	(void)state;
	owner = fork_owner(&pg, NULL);
	conn = connect_to(&pg);
	kill(-owner, SIGINT);
	kill(-owner, SIGTERM);
	kill(-owner, SIGHUP);
	/* The watcher is in no group of the owner, so there is nothing to wait for. */
	assert_int_not_equal(getpgid(pg.watcher), owner);
	assert_int_not_equal(getsid(pg.watcher), getsid(0));
	/* Not even its own signals: only the end of the leash counts. */
	kill(pg.watcher, SIGTERM);
	kill(pg.watcher, SIGINT);
	expect(conn, "SELECT pg_sleep(0.5)", "");
	expect(conn, "SELECT 1", "1");
	PQfinish(conn);
	kill_owner(owner);
	until_gone(pg.dir);
}

static void a_named_directory_is_kept_and_started_again(void **state)
{
	static const char odd[] = "a 'b' \"c\" \\d"; /* relative, and in need of quotes everywhere */
	struct devpg pg;
	PGconn *conn;

	(void)state;
	for (int i = 0; i < 2; i++) {
		start(&pg, odd);
		assert_true(pg.dir[0] == '/');
		conn = connect_to(&pg);
		if (i == 0)
			expect(conn, "CREATE TABLE kept AS SELECT 42 AS n", NULL);
		expect(conn, "SELECT n FROM kept", "42");
		PQfinish(conn);
		devpg_stop(&pg);
		assert_false(is_gone(odd));
	}
}

static void a_kept_cluster_survives_an_owner_killed_by_sigkill(void **state)
{
	struct devpg pg;
	PGconn *conn;
	pid_t owner;

	(void)state;
	owner = fork_owner(&pg, "data");
	conn = connect_to(&pg);
	expect(conn, "CREATE TABLE kept AS SELECT 42 AS n", NULL);
	PQfinish(conn);
	kill_owner(owner);
	until_gone("data/data/postmaster.pid");
	for (;;) { /* the watcher may still hold its lock for a moment */
		struct leased_error err = { 0 };
		int rc = devpg_start(&pg, "data", &err);

		if (rc == 0)
			break;
		assert_int_equal(rc, LEASED_ECONFIG);
		assert_non_null(strstr(err.text, "in use"));
		poll(NULL, 0, 20);
	}
	conn = connect_to(&pg);
	expect(conn, "SELECT n FROM kept", "42");
	PQfinish(conn);
	devpg_stop(&pg);
}

static void a_directory_in_use_is_refused(void **state)
{
	struct devpg pg;
	PGconn *conn;

	(void)state;
	start(&pg, "data");
	conn = connect_to(&pg);
	expect_refusal("data", LEASED_ECONFIG, "in use by another leased --dev");
	expect(conn, "SELECT 1", "1");
	PQfinish(conn);
	devpg_stop(&pg);
}

static void a_directory_of_something_else_is_left_alone(void **state)
{
	struct stat before, after;

	(void)state;
	assert_int_equal(mkdir("home", 0755), 0);
	assert_int_equal(mkdir("home/photos", 0755), 0);
	assert_int_equal(stat("home", &before), 0);
	expect_refusal("home", LEASED_ECONFIG, "is not empty");
	assert_int_equal(stat("home", &after), 0);
	assert_int_equal(after.st_mode, before.st_mode);
	assert_int_equal(after.st_uid, before.st_uid);
	assert_false(is_gone("home/photos"));

	close(open("file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	expect_refusal("file", LEASED_ECONFIG, "not a directory");
	expect_refusal("none/data", LEASED_ECONFIG, "No such file or directory");
}

static void a_path_that_libpq_cannot_use_is_refused(void **state)
{
	char dir[DEVPG_PATH_SIZE];

	(void)state;
	memset(dir, 'x', sizeof dir - 1);
	dir[sizeof dir - 1] = '\0';
	expect_refusal(dir, LEASED_ECONFIG, "without a comma");
	expect_refusal("a,b", LEASED_ECONFIG, "without a comma");
}

static void a_server_that_does_not_start_is_quoted(void **state)
{
	struct devpg pg;
	FILE *conf;

	(void)state;
	start(&pg, "data");
	devpg_stop(&pg);
	conf = fopen("data/data/postgresql.conf", "ae");
	assert_non_null(conf);
	fputs("\nmax_wal_size = purple\n", conf);
	fclose(conf);
	expect_refusal("data", LEASED_EUNAVAILABLE, "contains errors");
	/* Our own watcher has let go of it. */
	expect_refusal("data", LEASED_EUNAVAILABLE, "contains errors");
}

static void a_tmpdir_that_the_server_cannot_reach_is_not_used(void **state)
{
	char closed[128];
	const struct place *place = *state;
	struct devpg pg;

	snprintf(closed, sizeof closed, "%s/closed", place->dir);
	assert_int_equal(mkdir("closed", 0600), 0);
	setenv("TMPDIR", closed, 1);
	start(&pg, NULL);
	assert_int_equal(strncmp(pg.dir, "/tmp/leased-dev.", 16), 0);
	devpg_stop(&pg);
}

/* Runs where /usr/lib/postgresql is empty; exits 0 when the refusal is right, 2 when that cannot be had. */
static void start_without_binaries(void)
{
	struct leased_error err = { 0 };
	struct devpg pg;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 ||
		mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("none", "/usr/lib/postgresql", "tmpfs", 0, NULL) < 0)
		_exit(2);
	setenv("PATH", "/nonexistent:.::/", 1);
	if (devpg_start(&pg, NULL, &err) != LEASED_ECONFIG)
		_exit(1);
	_exit(!strstr(err.text, "apt-get install postgresql") || *pg.dir || pg.watcher);
}

static void missing_binaries_are_told_with_what_to_do(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	if (pid == 0)
		start_without_binaries();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
		skip(); /* this machine lets us hide nothing */
	assert_int_equal(status, 0);
}

static void stopping_nothing_is_fine(void **state)
{
	struct devpg pg = { 0 };

	(void)state;
	devpg_stop(&pg);
	devpg_stop(&pg);
	assert_int_equal(pg.watcher, 0);
}

#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, enter_place, leave_place)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_PLACE(it_answers_in_its_own_directory_only),
		IN_PLACE(it_ends_with_an_owner_killed_by_sigkill),
		IN_PLACE(signals_to_the_owners_group_do_not_reach_it),
		IN_PLACE(a_named_directory_is_kept_and_started_again),
		IN_PLACE(a_kept_cluster_survives_an_owner_killed_by_sigkill),
		IN_PLACE(a_directory_in_use_is_refused),
		IN_PLACE(a_directory_of_something_else_is_left_alone),
		IN_PLACE(a_path_that_libpq_cannot_use_is_refused),
		IN_PLACE(a_server_that_does_not_start_is_quoted),
		IN_PLACE(a_tmpdir_that_the_server_cannot_reach_is_not_used),
		IN_PLACE(missing_binaries_are_told_with_what_to_do),
		cmocka_unit_test(stopping_nothing_is_fine),
	};

	return cmocka_run_group_tests_name("devpg", tests, NULL, NULL);
}
#undef IN_PLACE
