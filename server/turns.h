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

/* The others took us for dead: all places are lost, and drawn anew. */
void turns_draw_places(struct engine *e);

/* Timers of waiters.h. */
void turns_on_pause_over(struct engine *e, struct request *req);
void turns_on_name_due(struct engine *e, struct name_queue *queue);
void turns_on_wait_over(struct engine *e, struct request *req);

/* See engine_cancel() and engine_abandon(). */
void turns_cancel(struct engine *e, struct request *req);
void turns_abandon(struct engine *e, struct request *req);

/* Gives or takes (0) a place; keeps count of them. */
void turns_set_place(struct engine *e, struct request *req, int64_t place);

#endif
