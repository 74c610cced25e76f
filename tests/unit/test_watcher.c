/* The life of a job from its start to its end, in the deadline's time or its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "watcher_rig.h"

static void exit_code_and_environment_pass_through(void **state)
{
	struct watcher_report report;
	struct rig rig;

	(void)state;
	rig_run_script(&rig, "echo $LEASED_NAME >&9; exit 7", 0, 0);
	rig_expect_line(&rig, "nightly");
	report = rig_expect_report(&rig, WATCHER_EXITED);
	rig_expect_exit(&report, 7);
	report = rig_expect_report(&rig, WATCHER_GONE);
	rig_expect_exit(&report, 7);
	assert_int_equal(report.exec_errno, 0);
	assert_false(report.killed);
	rig_expect_end(&rig);
	rig_finish(&rig);
}

static void signal_status_passes_through(void **state)
{
	struct watcher_report report;
	struct rig rig;

	(void)state;
	rig_run_script(&rig, "kill -USR1 $$", 0, 0);
	report = rig_expect_gone(&rig, false);
	rig_expect_killed_by(&report, SIGUSR1);
	rig_finish(&rig);
}

static void exec_failure_is_reported_with_its_errno(void **state)
{
	static const struct {
		const char *command;
		int want;
	} cases[] = {
		{ "leased-no-such-command", ENOENT },
		{ "/nonexistent/command", ENOENT },
		{ "/etc/passwd", EACCES },
		{ "/", EACCES },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct rig rig;
		char command[64];

		rig_start(&rig);
		snprintf(command, sizeof command, "%s", cases[i].command);
		assert_int_equal(watcher_start_job(&rig.w, (char *[]){ command, NULL },
			(char *[]){ NULL }, 0, 0, NULL), 0);
		assert_int_equal(rig_expect_gone(&rig, false).exec_errno, cases[i].want);
		rig_finish(&rig);
	}
}

static void no_job_starts_after_the_deadline(void **state)
{
	struct leased_error err;
	struct rig rig;
	char command[] = "true";

	(void)state;
	rig_start(&rig);
	assert_int_equal(watcher_start_job(&rig.w, (char *[]){ command, NULL }, (char *[]){ NULL },
		rig_now_ns(), 0, &err), LEASED_ELOST);
	assert_string_equal(err.text, "start true: the lease ran out before");
	rig_finish(&rig);
}

/* Asked an hour less a moment before the deadline; so a job that obeys is gone long before it. */
static void term_comes_the_grace_before_the_deadline(void **state)
{
	int64_t deadline = rig_now_ns() + HOUR;
	struct watcher_report report;
	struct rig rig;

	(void)state;
	rig_run_script(&rig, "trap 'echo term >&9; exit 3' TERM; while :; do sleep 0.05; done", deadline,
		HOUR / MS - 500);
	rig_expect_line(&rig, "term");
	report = rig_expect_gone(&rig, true);
	rig_expect_exit(&report, 3);
	assert_true(rig_now_ns() >= deadline - HOUR + 500 * MS);
	rig_expect_end(&rig);
	rig_finish(&rig);
}

static void job_that_ignores_term_is_killed_at_the_deadline(void **state)
{
	int64_t deadline = rig_now_ns() + 2000 * MS;
	struct watcher_report report;
	struct rig rig;

	(void)state;
	rig_run_script(&rig, "trap '' TERM; sleep 1000 & echo ready >&9; sleep 1000", deadline, 500);
	rig_expect_line(&rig, "ready");
	report = rig_expect_gone(&rig, true);
	rig_expect_killed_by(&report, SIGKILL);
	assert_true(rig_now_ns() >= deadline);
	rig_expect_end(&rig);
	rig_finish(&rig);
}

static void daemon_of_the_job_is_killed_at_the_deadline(void **state)
{
	struct rig rig;

	(void)state;
	rig_run_script(&rig, "setsid sh -c '(trap \"\" TERM; echo daemon >&9; sleep 1000) &' & "
		"sleep 1000", rig_now_ns() + HOUR, 100);
	rig_expect_line(&rig, "daemon");
	watcher_set_deadline(&rig.w, rig_now_ns() + 200 * MS);
	rig_expect_gone(&rig, true);
	rig_expect_end(&rig);
	rig_finish(&rig);
}

static void member_of_the_group_delays_gone(void **state)
{
	struct watcher_report report;
	struct rig rig;

	(void)state;
	rig_run_script(&rig, "(read x <&8; echo member >&9) & exit 5", 0, 0);
	report = rig_expect_report(&rig, WATCHER_EXITED);
	rig_expect_exit(&report, 5);
	/* A silence proves little, but on any machine: nothing may come while the member waits. */
	assert_int_equal(poll(&(struct pollfd){ .fd = rig.w.report, .events = POLLIN }, 1, 300), 0);
	rig_open_gate(&rig);
	report = rig_expect_report(&rig, WATCHER_GONE);
	rig_expect_exit(&report, 5);
	assert_false(report.killed);
	rig_expect_line(&rig, "member");
	rig_expect_end(&rig);
	rig_finish(&rig);
}

static void deadline_holds_while_only_members_of_the_group_are_left(void **state)
{
	struct rig rig;

	(void)state;
	rig_run_script(&rig, "(trap '' TERM; echo ready >&9; sleep 1000) & exit 0", rig_now_ns() + HOUR, 0);
	rig_expect_report(&rig, WATCHER_EXITED);
	rig_expect_line(&rig, "ready");
	watcher_set_deadline(&rig.w, rig_now_ns());
	rig_expect_gone(&rig, true);
	rig_expect_end(&rig);
	rig_finish(&rig);
}

static void daemon_neither_delays_gone_nor_dies_of_it(void **state)
{
	struct watcher_report report;
	struct rig rig;

	(void)state;
	rig_run_script(&rig, "setsid sh -c 'echo daemon >&9; read x <&8; echo alive >&9' & exit 0", 0, 0);
	rig_expect_line(&rig, "daemon");
	report = rig_expect_gone(&rig, false);
	rig_expect_exit(&report, 0);
	watcher_stop(&rig.w);
	rig_open_gate(&rig);
	rig_expect_line(&rig, "alive");
	rig_expect_end(&rig);
	rig_finish(&rig);
}

static void renewal_keeps_the_job_alive(void **state)
{
	int64_t first_deadline = rig_now_ns() + 3000 * MS;
	struct rig rig;

	(void)state;
	rig_run_script(&rig, "trap 'echo term >&9' TERM; read x <&8; echo done >&9", first_deadline, 0);
	watcher_set_deadline(&rig.w, first_deadline + HOUR);
	while (rig_now_ns() < first_deadline + 100 * MS)
		poll(&(struct pollfd){ .fd = rig.life, .events = POLLIN }, 1, 50);
	rig_open_gate(&rig);
	rig_expect_line(&rig, "done");
	rig_expect_gone(&rig, false);
	rig_finish(&rig);
}

static void late_renewal_does_not_stop_the_ending(void **state)
{
	struct rig rig;

	(void)state;
	rig_run_script(&rig, "trap 'echo term >&9' TERM; echo ready >&9; while :; do sleep 0.05; done",
		rig_now_ns() + HOUR, 300);
	rig_expect_line(&rig, "ready");
	watcher_set_deadline(&rig.w, rig_now_ns() + 200 * MS);
	rig_expect_line(&rig, "term");
	watcher_set_deadline(&rig.w, rig_now_ns() + HOUR);
	rig_expect_gone(&rig, true);
	rig_expect_end(&rig);
	rig_finish(&rig);
}

static void end_job_asks_before_it_kills(void **state)
{
	struct watcher_report report;
	struct rig rig;

	(void)state;
	rig_run_script(&rig, "trap 'echo term >&9; exit 4' TERM; echo ready >&9; "
		"while :; do sleep 0.05; done", rig_now_ns() + HOUR, HOUR / MS / 2);
	rig_expect_line(&rig, "ready");
	watcher_end_job(&rig.w);
	rig_expect_line(&rig, "term");
	report = rig_expect_gone(&rig, true);
	rig_expect_exit(&report, 4);
	rig_finish(&rig);
}

static void end_job_kills_after_the_grace_or_at_the_deadline(void **state)
{
	static const int64_t limits[][2] = { { HOUR, 200 }, { 0, 200 }, { 2000 * MS, 1000 } };

	(void)state;
	for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
		int64_t deadline = limits[i][0] ? rig_now_ns() + limits[i][0] : 0;
		struct watcher_report report;
		struct rig rig;

		rig_run_script(&rig, "trap '' TERM; echo ready >&9; sleep 1000", deadline, limits[i][1]);
		rig_expect_line(&rig, "ready");
		watcher_end_job(&rig.w);
		report = rig_expect_gone(&rig, true);
		rig_expect_killed_by(&report, SIGKILL);
		rig_expect_end(&rig);
		rig_finish(&rig);
	}
}

static void stopped_job_can_act_on_term(void **state)
{
	struct watcher_report report;
	struct rig rig;

	(void)state;
	rig_run_script(&rig, "trap 'echo term >&9; exit 4' TERM; kill -STOP $$; sleep 1000 & wait", 0,
		HOUR / MS);
	report = rig_expect_report(&rig, WATCHER_STOPPED);
	assert_int_equal(WSTOPSIG(report.wait_status), SIGSTOP);
	watcher_end_job(&rig.w);
	rig_expect_line(&rig, "term");
	report = rig_expect_gone(&rig, true);
	rig_expect_exit(&report, 4);
	rig_expect_end(&rig);
	rig_finish(&rig);
}

static void stopped_watcher_still_ends_the_job(void **state)
{
	struct rig rig;

	(void)state;
	rig_run_script(&rig, "echo ready >&9; sleep 1000", 0, 0);
	rig_expect_line(&rig, "ready");
	assert_int_equal(kill(rig.w.pid, SIGSTOP), 0);
	watcher_end_job(&rig.w);
	rig_expect_gone(&rig, true);
	rig_expect_end(&rig);
	rig_finish(&rig);
}

static void signals_reach_the_whole_group(void **state)
{
	static const int signals[] = { SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM };
	struct watcher_report report;
	struct rig rig;

	(void)state;
	for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
		char script[256];

		signal(signals[i], SIG_DFL); /* a shell cannot trap what it was told to ignore */
		snprintf(script, sizeof script, "trap 'echo got >&9; exit 9' %d; sleep 1000 & "
			"echo ready >&9; while :; do sleep 0.05; done", signals[i]);
		rig_run_script(&rig, script, 0, 0);
		rig_expect_line(&rig, "ready");
		watcher_signal(&rig.w, signals[i]);
		rig_expect_line(&rig, "got");
		report = rig_expect_report(&rig, WATCHER_EXITED);
		rig_expect_exit(&report, 9);
		watcher_signal(&rig.w, SIGKILL); /* the background command, which may ignore others */
		rig_expect_gone(&rig, false);
		rig_expect_end(&rig);
		rig_finish(&rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exit_code_and_environment_pass_through),
		cmocka_unit_test(signal_status_passes_through),
		cmocka_unit_test(exec_failure_is_reported_with_its_errno),
		cmocka_unit_test(no_job_starts_after_the_deadline),
		cmocka_unit_test(term_comes_the_grace_before_the_deadline),
		cmocka_unit_test(job_that_ignores_term_is_killed_at_the_deadline),
		cmocka_unit_test(daemon_of_the_job_is_killed_at_the_deadline),
		cmocka_unit_test(member_of_the_group_delays_gone),
		cmocka_unit_test(deadline_holds_while_only_members_of_the_group_are_left),
		cmocka_unit_test(daemon_neither_delays_gone_nor_dies_of_it),
		cmocka_unit_test(renewal_keeps_the_job_alive),
		cmocka_unit_test(late_renewal_does_not_stop_the_ending),
		cmocka_unit_test(end_job_asks_before_it_kills),
		cmocka_unit_test(end_job_kills_after_the_grace_or_at_the_deadline),
		cmocka_unit_test(stopped_job_can_act_on_term),
		cmocka_unit_test(stopped_watcher_still_ends_the_job),
		cmocka_unit_test(signals_reach_the_whole_group),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
