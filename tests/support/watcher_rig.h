/*
 * watcher_rig.h - a real watcher with a real job, for cmocka tests; failures fail the running test.
 *
 * Every process of the job inherits the writing end of a pipe as fd LIFE, and nobody else keeps it: its
 * end proves that nothing of the job is left. Jobs tell on it what they did, and wait for the test by
 * reading a line from fd GATE. Waits give up after RIG_GIVE_UP_MS.
 */
#ifndef WATCHER_RIG_H
#define WATCHER_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watcher.h"

#define GATE           8
#define LIFE           9
#define MS             INT64_C(1000000)
#define HOUR           (INT64_C(3600000) * MS)
#define RIG_GIVE_UP_MS 60000

struct rig {
	struct watcher w;
	int life, gate; /* our ends */
};

/* CLOCK_BOOTTIME. */
int64_t rig_now_ns(void);

/* The two parts of rig_start around watcher_start, for those who fork in between. */
void rig_open_pipes(struct rig *rig);
void rig_close_jobs_ends(void);

void rig_start(struct rig *rig);

/* Starts a shell script as the job of a started watcher; returns what watcher_start_job did. */
int rig_start_script(struct rig *rig, const char *script, int64_t deadline_ns, int64_t grace_ms);

/* rig_start and rig_start_script. */
void rig_run_script(struct rig *rig, const char *script, int64_t deadline_ns, int64_t grace_ms);

/* Starts the test program itself with one argument as the job of a started watcher. */
void rig_run_self(struct rig *rig, const char *mode, int64_t deadline_ns);

/* Without its newline; "" at the end of the file. */
void rig_read_line(int fd, char *line, size_t size);

/* The job's next line; that all of the job is gone and said nothing more. */
void rig_expect_line(const struct rig *rig, const char *want);
void rig_expect_end(const struct rig *rig);

/* Lets one waiting process of the job go on. */
void rig_open_gate(const struct rig *rig);

/* The next report. expect_gone skips what is reported before. */
struct watcher_report rig_expect_report(struct rig *rig, enum watcher_event want);
struct watcher_report rig_expect_gone(struct rig *rig, bool killed);
void rig_expect_exit(const struct watcher_report *report, int code);
void rig_expect_killed_by(const struct watcher_report *report, int signo);

/* Stops the watcher. */
void rig_finish(struct rig *rig);

#endif
