/*
 * observe.h - `elect --observe`: prints each leader and its value.
 */
#ifndef OBSERVE_H
#define OBSERVE_H

#include "ctl.h"

/* Until a signal; the exit code. */
int observe(const struct ctl *ctl, const char *name);

#endif
