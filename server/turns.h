/*
 * turns.h - whose turn it is to acquire a name. Waiters stand in one line over all daemons, kept in
 * leased.waiters; of those on this daemon only the first asks the database, when a release, a
 * notification or the known expiry says that it may be worth while. Loop thread.
 */
#ifndef TURNS_H
#define TURNS_H

#include "engine_state.h"

/* An acquire comes in. As engine_submit(). */
int turns_submit(struct engine *e, struct request *req);

/* The store's answer to an acquire. */
void turns_take(struct engine *e, struct request *req);

/* The first in line for name asks now. False: nobody here waits for it. */
bool turns_wake(struct engine *e, struct text name);

/* The same for every name: notifications may have been missed. */
void turns_wake_all(struct engine *e);

/* Timers of waiters.h. */
void turns_on_name_due(struct engine *e, struct name_queue *queue);
void turns_on_wait_over(struct engine *e, struct request *req);

/* See engine_cancel() and engine_abandon(). */
void turns_cancel(struct engine *e, struct request *req);
void turns_abandon(struct engine *e, struct request *req);

/* For places.c: the first in line asks the database, unless somebody does. */
void turns_next(struct engine *e, struct name_queue *queue);

/* When the database must have answered a request; while there is none, nobody waits longer than wished. */
int64_t turns_answer_by(const struct engine *e, const struct request *req);

/* Why a request that found the name held does not wait (any longer); 0 when it does. */
int turns_why_not_wait(const struct engine *e, const struct request *req);

/* It waits, in line; or through an outage of the database. */
void turns_wait_on(struct engine *e, struct name_queue *queue, struct request *req);
void turns_outlast(struct engine *e, struct name_queue *queue, struct request *req);

#endif
