/*
 * follow.h - prints what a watch tells, until a signal: what `watch` and `elect --observe` have in common.
 */
#ifndef FOLLOW_H
#define FOLLOW_H

#include "ctl.h"

/*
 * Watches prefix (or exactly that name) and prints each change, which runs on another thread, one at a
 * time; AWAY and ENDED are not for it. 0 when SIGINT, SIGTERM or SIGHUP ends it; else the exit code,
 * after having said why: also when nothing can be told before the first snapshot is complete.
 */
int follow(const struct ctl *ctl, const char *command, const char *prefix, bool exact,
	void (*print)(const struct leased_change *change, void *data), void *data);

#endif
