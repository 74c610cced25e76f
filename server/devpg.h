/*
 * devpg.h - --dev: makes, starts and removes a private PostgreSQL cluster. Blocking; used before the
 * loop runs and after it has ended.
 *
 * The cluster listens on a Unix socket in its own directory (0700) only. A watcher process stops it
 * when the daemon dies in whatever way.
 */
#ifndef DEVPG_H
#define DEVPG_H

#include <stdbool.h>
#include <sys/types.h>

#include "leased_status.h"

#define DEVPG_PATH_SIZE 108

struct devpg {
	char dir[DEVPG_PATH_SIZE];      /* holds data/, the socket and the log */
	char conninfo[256];             /* of the daemon's own role, "leased", which the caller makes */
	char admin[256];                /* of the superuser */
	bool keep;                      /* given by --data: stays after exit */
	pid_t watcher;
	int leash;                      /* its end tells the watcher to stop; readable: the server has ended */
};

/*
 * Finds PostgreSQL's binaries (PATH, then the newest of /usr/lib/postgresql/N/bin; needs initdb,
 * postgres), makes the cluster in dir (NULL: a new temporary directory) unless there is one
 * already, starts it and waits until it answers. Not for root, as whom PostgreSQL refuses to run. A dir
 * that was there before must be empty, or made by an earlier call. Forks: no other thread may run yet.
 * LEASED_ECONFIG with what to do when binaries are missing, or dir is in use or of no use;
 * LEASED_EUNAVAILABLE with what the server said when it does not start.
 */
int devpg_start(struct devpg *pg, const char *dir, struct leased_error *err);

/* Stops the cluster (fast) and removes a temporary directory. Accepts a zeroed struct. */
void devpg_stop(struct devpg *pg);

#endif
