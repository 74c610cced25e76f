/*
 * engine_state.h - what the parts of the engine share: engine.c (verbs), turns.c (whose turn it is to
 * acquire a name) and errands.c (what the engine asks the database for itself). Loop thread.
 */
#ifndef ENGINE_STATE_H
#define ENGINE_STATE_H

#include "engine.h"
#include "waiters.h"

/* A row that should have been free or ours but was locked: asked again so often, in growing pauses. */
#define LOCKED_TRIES_AT_ONCE 2
#define LOCKED_TRIES_MAX     8

/* How often this daemon says that it is alive, while that matters. */
#define BEAT_MS 1000

struct engine {
	struct store *store;
	struct waiters waiters;
	const struct config *config;
	struct list paused;  /* request.link: asked again after a moment */
	size_t n_paused;
	uv_timer_t beat;     /* while somebody has a place or watches */
	size_t n_placed;     /* requests with a place in the queue of all daemons */
	bool beating;        /* a beat is in flight */
	bool beat_again;     /* another one is wanted behind it, at once */
	bool is_watching;    /* what the last beat said */
	void (*on_told)(void *owner, int64_t sent_ms, bool unbroken); /* NULL: nobody watches */
	void *on_told_owner;
	bool listening;      /* other daemons can tell us that it is our turn */
	bool closing;
	unsigned n_open;     /* parts that have not closed yet */
	void (*closed)(void *data);
	void *closed_data;
};

/* Asks the database what the request's verb is, or only reads its row. */
void engine_ask(struct engine *e, struct request *req);
void engine_look(struct engine *e, struct request *req);

/* Leaves the request alone for a moment, the longer the more tries it has made. 0 or LEASED_ENOMEM. */
int engine_pause(struct engine *e, struct request *req);

/* Answers the request; an acquire that still has a place leaves the queue. */
void engine_finish(struct engine *e, struct request *req, int status);

bool engine_same_holder(const struct claim *a, const struct claim *b);

/* Held by somebody. view may be NULL: no row. */
bool engine_is_held(const struct lease_view *view);

/* How long to leave a locked row alone, the more rounds the longer. */
int64_t engine_pause_ms(unsigned round);

#endif
