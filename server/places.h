/*
 * places.h - where an acquire that waits stands in the line of all daemons (leased.waiters): its place is
 * drawn once, and again when it may have been lost. Loop thread.
 */
#ifndef PLACES_H
#define PLACES_H

#include "engine_state.h"

/* Draws a place for a request that nobody asks for at the moment; it may have one, which it keeps then. */
void places_draw(struct engine *e, struct name_queue *queue, struct request *req);

/* The store's answer to that. */
void places_take(struct engine *e, struct request *req);

/* Gives or takes (0) a place; keeps count of them. */
void places_set(struct engine *e, struct request *req, int64_t place);

/* The others took us for dead: all places are lost, and drawn anew. */
void places_draw_all(struct engine *e);

/* A timer of waiters.h: the place is asked for once more. */
void places_on_pause_over(struct engine *e, struct request *req);

#endif
