/*
 * stream.h - the watches of a native client: one request, any number of Changes. A client that does not
 * read loses its watch, with a reason behind what it has not read yet; its leases stay. Loop thread.
 */
#ifndef STREAM_H
#define STREAM_H

#include "message.h"
#include "session.h"

/* Unsent output over this holds changes back (watch.h bounds how many). */
#define STREAM_OUT_MAX 65536

/* Watches of one client. */
#define STREAMS_MAX 1000

/* Begins to answer a Watch, or refuses it. */
void stream_take(struct session *s, uint64_t id, const Leased__Watch *m);

/* Ends the watch of this id, if there is one, with ECANCELLED. */
void stream_cancel(struct session *s, uint64_t id);

/* Other rules are in force: each begins anew with what may be seen now, or ends if that is nothing. */
void streams_check(struct session *s);

/* All output has been written. */
void streams_resume(struct session *s);

/* The session closes. */
void streams_close(struct session *s);

#endif
