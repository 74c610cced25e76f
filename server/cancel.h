/*
 * cancel.h - which acquire a Cancel means: those of a session by their ids. A client may have thousands in
 * flight and cancel one after the other, so that a list would not do. Loop thread.
 */
#ifndef CANCEL_H
#define CANCEL_H

#include "call.h"

/* An acquire that can be cancelled. One for which there is no memory cannot. */
void cancel_add(struct session *s, struct call *call);

/* It is over, or its session is. One that was not added is left alone. */
void cancel_remove(struct session *s, struct call *call);

/* The acquire with this id, or NULL. */
struct call *cancel_find(const struct session *s, uint64_t id);

#endif
