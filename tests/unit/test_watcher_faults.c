/* Jobs that will not go, and deaths and stops of leasectl and of the watcher. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "watcher_rig.h"

/* In a child: what leasectl does, in short. Leaves with 42 when the job was killed in time. */
static void stand_in(struct rig *rig, const char *script, int64_t deadline_ns)
{
	struct watcher_report report;

	if (watcher_start(&rig->w, NULL) < 0)
		_exit(1);
	rig_close_jobs_ends();
	if (rig_start_script(rig, script, deadline_ns, 0) < 0)
		_exit(2);
	do {
		poll(&(struct pollfd){ .fd = rig->w.report, .events = POLLIN }, 1, -1);
		watcher_read(&rig->w, &report);
	} while (report.event != WATCHER_GONE);
	_exit(report.killed ? 42 : 43);
}

static pid_t fork_stand_in(struct rig *rig, const char *script, int64_t deadline_ns)
{
	pid_t pid;

	rig_open_pipes(rig);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		stand_in(rig, script, deadline_ns);
	rig_close_jobs_ends();
	rig->w = (struct watcher){ .control = -1, .report = -1, .strings = -1 };
	return pid;
}

#define STUBBORN                                                                                   \
	"trap '' TERM HUP; sleep 1000 & setsid sh -c '(echo ready >&9; sleep 1000) &' & sleep 1000"

static void job_dies_with_leasectl(void **state)
{
	struct rig rig;
	pid_t pid;

	(void)state;
	pid = fork_stand_in(&rig, STUBBORN, rig_now_ns() + HOUR);
	rig_expect_line(&rig, "ready");
	assert_int_equal(kill(pid, SIGKILL), 0);
	rig_expect_end(&rig);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	rig_finish(&rig);
}

static void job_dies_in_time_while_leasectl_is_stopped(void **state)
{
	struct rig rig;
	siginfo_t info = { 0 };
	int status;
	pid_t pid;

	(void)state;
	pid = fork_stand_in(&rig, STUBBORN, rig_now_ns() + 2000 * MS);
	rig_expect_line(&rig, "ready");
	assert_int_equal(kill(pid, SIGSTOP), 0);
	rig_expect_end(&rig);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WEXITED | WNOWAIT), 0);
	assert_int_equal(info.si_code, CLD_STOPPED);
	assert_int_equal(kill(pid, SIGCONT), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 42);
	rig_finish(&rig);
}

static void nothing_outlives_a_killed_watcher(void **state)
{
	struct watcher_report report;
	struct rig rig;

	(void)state;
	rig_run_script(&rig, STUBBORN, rig_now_ns() + HOUR, 100);
	rig_expect_line(&rig, "ready");
	assert_int_equal(kill(rig.w.pid, SIGKILL), 0);
	report = rig_expect_gone(&rig, true);
	rig_expect_killed_by(&report, SIGKILL);
	rig_expect_end(&rig);
	watcher_set_deadline(&rig.w, rig_now_ns()); /* and nobody is hurt by what comes after */
	watcher_read(&rig.w, &report);
	assert_int_equal(report.event, WATCHER_NONE);
	rig_finish(&rig);
}

static void older_children_outlive_a_killed_watcher(void **state)
{
	struct rig rig;
	int status;
	pid_t older;

	(void)state;
	older = fork();
	assert_true(older >= 0);
	if (older == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	usleep(30000); /* ages of processes are known in ticks of 10 ms: let one pass between them */
	rig_run_script(&rig, STUBBORN, rig_now_ns() + HOUR, 100);
	rig_expect_line(&rig, "ready");
	assert_int_equal(kill(rig.w.pid, SIGKILL), 0);
	rig_expect_gone(&rig, true);
	rig_expect_end(&rig);
	assert_int_equal(waitpid(older, &status, WNOHANG), 0);
	kill(older, SIGKILL);
	assert_int_equal(waitpid(older, &status, 0), older);
	rig_finish(&rig);
}

static void job_that_forks_without_end_is_ended(void **state)
{
	struct rig rig;

	(void)state;
	rig_run_script(&rig, "trap '' TERM; echo ready >&9; while :; do setsid sleep 1000 & done",
		rig_now_ns() + HOUR, 100);
	rig_expect_line(&rig, "ready");
	watcher_set_deadline(&rig.w, rig_now_ns() + 300 * MS);
	rig_expect_gone(&rig, true);
	rig_expect_end(&rig);
	rig_finish(&rig);
}

static void job_that_flees_from_process_to_process_is_ended(void **state)
{
	struct rig rig;

	(void)state;
	rig_start(&rig);
	rig_run_self(&rig, "flee", rig_now_ns() + HOUR);
	rig_expect_line(&rig, "ready");
	watcher_set_deadline(&rig.w, rig_now_ns());
	rig_expect_gone(&rig, true);
	rig_expect_end(&rig);
	rig_finish(&rig);
}

/* Each process forks the next one into a new session and exits. Ends by itself, if it must. */
static int flee(void)
{
	int64_t give_up = rig_now_ns() + RIG_GIVE_UP_MS / 2 * MS;

	signal(SIGTERM, SIG_IGN);
	if (fork() > 0)
		pause(); /* the job itself stays, or the others would be free to go */
	for (int n = 0; rig_now_ns() < give_up; n++) {
		if (fork() > 0)
			_exit(0);
		setsid();
		if (n == 100)
			dprintf(LIFE, "ready\n");
	}
	dprintf(LIFE, "escaped\n");
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(job_dies_with_leasectl),
		cmocka_unit_test(job_dies_in_time_while_leasectl_is_stopped),
		cmocka_unit_test(nothing_outlives_a_killed_watcher),
		cmocka_unit_test(older_children_outlive_a_killed_watcher),
		cmocka_unit_test(job_that_forks_without_end_is_ended),
		cmocka_unit_test(job_that_flees_from_process_to_process_is_ended),
	};

	if (argc == 2 && strcmp(argv[1], "flee") == 0)
		return flee();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
