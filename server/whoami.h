/*
 * whoami.h - answers Whoami: whom a session is taken for, what it may do, and how much of it is in use. Loop thread.
 */
#ifndef WHOAMI_H
#define WHOAMI_H

#include "session.h"

void whoami_reply(struct session *s, uint64_t id);

#endif
