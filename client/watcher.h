/*
 * watcher.h - a small process that ends a job in time, whatever becomes of leasectl.
 *
 * leasectl forks the watcher before it has threads; the watcher forks the job into a process group of
 * its own. A stopped, swapped or traced leasectl cannot kill anything, so the watcher holds the
 * deadline itself (CLOCK_BOOTTIME), is told of each renewal over a socket, and ends the job's process
 * group and all other descendants (it is their subreaper) before the deadline: SIGTERM `grace` before
 * it, SIGKILL at it. When leasectl dies (the socket ends), the same: SIGTERM at once, SIGKILL after
 * grace, at the deadline at the latest. If the watcher itself is killed, the kernel kills the job
 * (parent-death signal) and leasectl, the next subreaper, ends what is left.
 */
#ifndef WATCHER_H
#define WATCHER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "leased_status.h"

struct watcher {
	_Atomic pid_t pid; /* the watcher process; 0 when it has died before its time */
	pid_t job;    /* the job's process group, 0 before watcher_start_job */
	int control;  /* commands to the watcher */
	int strings;  /* a file in memory that hands over the job's arguments and environment */
	int report;   /* reports from it; poll for POLLIN, then watcher_read */
	uint64_t start; /* of the watcher, in the kernel's ticks: older children are not the job's */
	bool own_terminal; /* the job's group has been given the terminal */
	bool gone;         /* WATCHER_GONE has been reported */
};

enum watcher_event {
	WATCHER_NONE,     /* nothing whole has come yet */
	WATCHER_EXITED,   /* the command itself ended; others of its group may still run */
	WATCHER_STOPPED,  /* the job was stopped (terminal): stop as well, pass SIGCONT on when continued */
	WATCHER_CONTINUED,
	WATCHER_GONE,     /* the whole group has ended: the lease may be released */
};

struct watcher_report {
	enum watcher_event event;
	int wait_status;  /* EXITED, GONE, STOPPED: of the command, as waitpid gives it */
	bool killed;      /* GONE: the watcher ended the job because the lease ran out or was lost */
	int exec_errno;   /* EXITED, GONE: non-zero when the command could not be started */
};

/*
 * Fork the watcher. Call first of all: while single-threaded, and before signal mask or dispositions
 * change, for the job gets those of this moment. 0 or LEASED_EINTERNAL.
 */
int watcher_start(struct watcher *w, struct leased_error *err);

/*
 * Start the job: argv is searched in PATH; env holds NAME=VALUE strings added to the environment,
 * NULL-terminated. deadline_ns is on CLOCK_BOOTTIME, 0 for none. When leasectl is in the foreground
 * of a terminal and writes to one, the job's group becomes the foreground; else when it first needs it. 0, LEASED_EINTERNAL, or LEASED_ELOST when
 * the deadline has passed already: then no job runs, and only watcher_stop may follow. A command that
 * cannot be executed is reported by WATCHER_GONE with exec_errno.
 */
int watcher_start_job(struct watcher *w, char *const argv[], char *const env[], int64_t deadline_ns,
	int64_t grace_ms, struct leased_error *err);

/* A renewal: the new deadline. Async-signal-safe, any thread. */
void watcher_set_deadline(struct watcher *w, int64_t deadline_ns);

/* The lease is lost: SIGTERM now, SIGKILL after grace, at the known deadline at the latest. */
void watcher_end_job(struct watcher *w);

/*
 * Pass a signal on to the job's process group. Before SIGCONT the job gets the terminal if leasectl
 * is in its foreground (again), unless it has not had it yet and leasectl writes to a pipe. Async-signal-safe.
 */
void watcher_signal(struct watcher *w, int signo);

/*
 * Read one report. WATCHER_NONE when none is there. If the watcher has died unexpectedly, ends
 * all that is left of the job itself and reports WATCHER_GONE. Reaps children, so leasectl must have
 * no others that it waits for.
 */
void watcher_read(struct watcher *w, struct watcher_report *ret_report);

/* Take the terminal back, close the pipes, reap. The job must be gone or never started. */
void watcher_stop(struct watcher *w);

#endif
