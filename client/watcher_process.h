/*
 * watcher_process.h - what goes over the two channels between leasectl and the watcher process, and
 * the process itself. Only watcher.c includes this.
 */
#ifndef WATCHER_PROCESS_H
#define WATCHER_PROCESS_H

#include <signal.h>
#include <stddef.h>

#include "watcher.h"

enum watcher_command_kind {
	WATCHER_START_JOB,    /* all fields but signo */
	WATCHER_SET_DEADLINE, /* deadline_ns */
	WATCHER_END_JOB,
	WATCHER_SIGNAL_JOB,   /* signo */
};

/* leasectl to watcher, one packet each. */
struct watcher_command {
	enum watcher_command_kind kind;
	int signo;
	int64_t deadline_ns; /* CLOCK_BOOTTIME, 0 for none */
	int64_t grace_ns;
	size_t args, env, size; /* the strings in the shared file: first args, then env; bytes in all */
	bool to_foreground;
};

/* Watcher to leasectl, one write each, small enough to be whole (PIPE_BUF). */
struct watcher_note {
	bool is_answer;  /* to WATCHER_START_JOB: the next field counts; else the report */
	pid_t job;       /* its process group, or a negative errno: ETIME when the deadline had passed */
	struct watcher_report report;
};

struct watcher_channels {
	int control; /* SOCK_SEQPACKET; its end means that leasectl is gone */
	int report;  /* pipe, not blocking */
	int strings; /* the shared file */
};

/*
 * Runs the watcher in a freshly forked process with all signals blocked (which keeps out TERM, INT,
 * HUP and the like, and leaves the dispositions to the job as they were); mask is the job's.
 */
void watcher_process_run(const struct watcher_channels *channels, const sigset_t *mask)
	__attribute__((noreturn));

#endif
