#include "watcher_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SELF "/proc/self/exe"

int64_t rig_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t)now.tv_sec * 1000 * MS + now.tv_nsec;
}

/* Out of the way of GATE and LIFE. */
static int move_up(int fd)
{
	int up = fcntl(fd, F_DUPFD_CLOEXEC, 20);

	assert_true(up >= 0);
	close(fd);
	return up;
}

void rig_open_pipes(struct rig *rig)
{
	int life[2], gate[2];

	assert_int_equal(pipe2(life, O_CLOEXEC), 0);
	assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
	for (int i = 0; i < 2; i++) {
		life[i] = move_up(life[i]);
		gate[i] = move_up(gate[i]);
	}
	assert_int_equal(dup2(life[1], LIFE), LIFE);
	assert_int_equal(dup2(gate[0], GATE), GATE);
	close(life[1]);
	close(gate[0]);
	rig->life = life[0];
	rig->gate = gate[1];
}

void rig_close_jobs_ends(void)
{
	close(LIFE);
	close(GATE);
}

void rig_start(struct rig *rig)
{
	rig_open_pipes(rig);
	assert_int_equal(watcher_start(&rig->w, NULL), 0);
	rig_close_jobs_ends();
}

int rig_start_script(struct rig *rig, const char *script, int64_t deadline_ns, int64_t grace_ms)
{
	char shell[] = "sh", option[] = "-c", name[] = "LEASED_NAME=nightly";
	char *text = strdup(script);
	int rc;

	rc = watcher_start_job(&rig->w, (char *[]){ shell, option, text, NULL },
		(char *[]){ name, NULL }, deadline_ns, grace_ms, NULL);
	free(text);
	return rc;
}

void rig_run_script(struct rig *rig, const char *script, int64_t deadline_ns, int64_t grace_ms)
{
	rig_start(rig);
	assert_int_equal(rig_start_script(rig, script, deadline_ns, grace_ms), 0);
}

void rig_run_self(struct rig *rig, const char *mode, int64_t deadline_ns)
{
	char self[] = SELF, copy[16];

	snprintf(copy, sizeof copy, "%s", mode);
	assert_int_equal(watcher_start_job(&rig->w, (char *[]){ self, copy, NULL }, (char *[]){ NULL },
		deadline_ns, 0, NULL), 0);
}

static void await(int fd)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	int rc;

	do
		rc = poll(&ready, 1, RIG_GIVE_UP_MS);
	while (rc < 0 && errno == EINTR);
	assert_int_equal(rc, 1);
}

void rig_read_line(int fd, char *line, size_t size)
{
	size_t len = 0;

	for (;;) {
		assert_true(len < size);
		await(fd);
		if (read(fd, line + len, 1) != 1 || line[len] == '\n')
			break;
		len++;
	}
	line[len] = '\0';
}

void rig_expect_line(const struct rig *rig, const char *want)
{
	char line[256];

	rig_read_line(rig->life, line, sizeof line);
	assert_string_equal(line, want);
}

void rig_expect_end(const struct rig *rig)
{
	char c;

	await(rig->life);
	assert_int_equal(read(rig->life, &c, 1), 0);
}

void rig_open_gate(const struct rig *rig)
{
	assert_int_equal(write(rig->gate, "\n", 1), 1);
}

struct watcher_report rig_expect_report(struct rig *rig, enum watcher_event want)
{
	struct watcher_report report;

	do {
		await(rig->w.report);
		watcher_read(&rig->w, &report);
	} while (report.event == WATCHER_NONE);
	assert_int_equal(report.event, want);
	return report;
}

struct watcher_report rig_expect_gone(struct rig *rig, bool killed)
{
	struct watcher_report report;

	do {
		await(rig->w.report);
		watcher_read(&rig->w, &report);
	} while (report.event != WATCHER_GONE);
	assert_int_equal(report.killed, killed);
	return report;
}

void rig_expect_exit(const struct watcher_report *report, int code)
{
	assert_true(WIFEXITED(report->wait_status));
	assert_int_equal(WEXITSTATUS(report->wait_status), code);
}

void rig_expect_killed_by(const struct watcher_report *report, int signo)
{
	assert_true(WIFSIGNALED(report->wait_status));
	assert_int_equal(WTERMSIG(report->wait_status), signo);
}

void rig_finish(struct rig *rig)
{
	watcher_stop(&rig->w);
	close(rig->life);
	close(rig->gate);
}
