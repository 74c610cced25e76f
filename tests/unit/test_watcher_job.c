/* What a job is given by leasectl: signals, files, the terminal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "watcher_rig.h"

#define SELF "/proc/self/exe"

static int show_signals(int fd)
{
	char line[256];
	FILE *status = fopen("/proc/self/status", "re");

	if (!status)
		return 1;
	while (fgets(line, sizeof line, status))
		if (strncmp(line, "SigBlk", 6) == 0 || strncmp(line, "SigIgn", 6) == 0)
			dprintf(fd, "%s", line);
	fclose(status);
	return 0;
}

static void job_gets_the_signals_of_the_start(void **state)
{
	char lines[2][256];
	sigset_t usr2, all, before;
	struct rig rig;
	int own[2];

	(void)state;
	sigemptyset(&usr2);
	sigaddset(&usr2, SIGUSR2);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &usr2, &before);
	signal(SIGHUP, SIG_IGN);
	signal(SIGCHLD, SIG_IGN);
	rig_start(&rig);
	assert_int_equal(pipe2(own, O_CLOEXEC), 0);
	show_signals(own[1]);
	signal(SIGHUP, SIG_DFL);
	signal(SIGCHLD, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	sigprocmask(SIG_SETMASK, &all, NULL);
	rig_run_self(&rig, "signals", 0);
	sigprocmask(SIG_SETMASK, &before, NULL);
	signal(SIGPIPE, SIG_DFL);
	for (int i = 0; i < 2; i++) {
		rig_read_line(own[0], lines[i], sizeof lines[i]);
		rig_expect_line(&rig, lines[i]);
	}
	rig_expect_gone(&rig, false);
	close(own[0]);
	close(own[1]);
	rig_finish(&rig);
}

static int show_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;

	if (!dir)
		return 1;
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(dir))
			dprintf(LIFE, "%s ", entry->d_name);
	dprintf(LIFE, "\n");
	closedir(dir);
	return 0;
}

static void job_inherits_no_more_than_from_an_exec(void **state)
{
	char want[256];
	struct rig rig;
	pid_t pid;

	(void)state;
	rig_open_pipes(&rig);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		execl(SELF, SELF, "fds", NULL);
		_exit(1);
	}
	rig_read_line(rig.life, want, sizeof want);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(watcher_start(&rig.w, NULL), 0);
	rig_close_jobs_ends();
	rig_run_self(&rig, "fds", 0);
	rig_expect_line(&rig, want);
	rig_expect_gone(&rig, false);
	rig_finish(&rig);
}

/*
 * In the session of a new terminal, as a shell's foreground job. After each stop it does what `fg`
 * does: it gets the foreground back, then SIGCONT. The exit status tells where it went wrong.
 */
static void terminal_stand_in(struct rig *rig)
{
	struct watcher_report report;

	signal(SIGTTOU, SIG_IGN);
	if (watcher_start(&rig->w, NULL) < 0)
		_exit(1);
	if (rig_start_script(rig, "for i in 1 2; do read x; echo got-$x >&9; done", 0, 0) < 0)
		_exit(2);
	for (;;) {
		poll(&(struct pollfd){ .fd = rig->w.report, .events = POLLIN }, 1, -1);
		watcher_read(&rig->w, &report);
		if (report.event == WATCHER_GONE)
			break;
		if (report.event != WATCHER_STOPPED)
			continue;
		if (tcsetpgrp(STDIN_FILENO, getpgrp()) < 0)
			_exit(3);
		watcher_signal(&rig->w, SIGCONT);
		dprintf(LIFE, "stopped\n");
	}
	watcher_stop(&rig->w);
	_exit(tcgetpgrp(STDIN_FILENO) == getpgrp() ? 42 : 4);
}

static void terminal_goes_to_the_job_and_back(void **state)
{
	struct rig rig;
	int terminal, status;
	pid_t pid;

	(void)state;
	rig_open_pipes(&rig);
	pid = forkpty(&terminal, NULL, NULL, NULL);
	assert_true(pid >= 0);
	if (pid == 0)
		terminal_stand_in(&rig);
	rig_close_jobs_ends();
	assert_int_equal(write(terminal, "one\n", 4), 4);
	rig_expect_line(&rig, "got-one");
	assert_int_equal(write(terminal, "\x1a", 1), 1); /* ^Z */
	rig_expect_line(&rig, "stopped");
	assert_int_equal(write(terminal, "two\n", 4), 4);
	rig_expect_line(&rig, "got-two");
	rig_expect_end(&rig);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 42);
	close(terminal);
	close(rig.life);
	close(rig.gate);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(job_gets_the_signals_of_the_start),
		cmocka_unit_test(job_inherits_no_more_than_from_an_exec),
		cmocka_unit_test(terminal_goes_to_the_job_and_back),
	};

	if (argc == 2 && strcmp(argv[1], "signals") == 0)
		return show_signals(LIFE);
	if (argc == 2 && strcmp(argv[1], "fds") == 0)
		return show_fds();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
