/*
 * confine.h - what the daemon gives up before it opens a socket or speaks to anybody. Blocking; before
 * the loop, while there is one thread.
 */
#ifndef CONFINE_H
#define CONFINE_H

#include "leased_status.h"

/*
 * Becomes the user for good, with the groups of that user and no others; user "" names nobody, and then root
 * is refused. From here on no program that is started gains rights (no_new_privs), there is no core dump, no
 * other process of the same user can read our memory or environment, and new files are the user's alone.
 * LEASED_ECONFIG: there is no such user, only root can become another one, or there would be a way back.
 */
int confine(const char *user, struct leased_error *err);

#endif
