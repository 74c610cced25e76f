/*
 * admit.h - which client of authorized_clients a session is: when it connects, and again after each reload.
 * Loop thread.
 */
#ifndef ADMIT_H
#define ADMIT_H

#include "session.h"

/*
 * From what is known of the peer (session.principal), whose name becomes that of its line if it has a key. LEASED_EDENIED: it is nobody we know, or its time is
 * over; LEASED_EBUSY: it has too many connections; LEASED_ENOMEM. To be closed then, with err.
 */
int admit_session(struct session *s, struct leased_error *err);

/* The session closes: it counts no more. */
void admit_leave(struct session *s);

/*
 * Other rules are in force, and fresh is the sessions' from now on. Whoever is not in it any more is closed; waits
 * that are not allowed any more end; watches begin anew.
 */
void admit_reload(struct sessions *all, struct access *fresh);

/* Closes those whose time is over; called every second or so. */
void admit_tick(struct sessions *all);

#endif
