/*
 * engine_rig.h - an engine over a store by script (fake_store.h), and requests that remember what became of
 * them. Each test begins with one of its own.
 */
#ifndef ENGINE_RIG_H
#define ENGINE_RIG_H

#include <uv.h>

#include "engine.h"
#include "fake_store.h"

#define RIG_WAITERS_MAX 100

struct rig {
	uv_loop_t loop;
	struct engine *engine;
	struct store *store;
	bool closed;
};

/* A request and what became of it. */
struct asked {
	struct request req;
	int done;
};

/* cmocka's setup and teardown; *state is the rig. */
int rig_setup(void **state);
int rig_teardown(void **state);

struct text text_of(const char *s);
struct claim claim_of(const char *name, uint64_t nonce);

/* Submits a request for the name "n", or one that the test has filled. */
void submit(struct rig *w, struct asked *a, enum verb verb, uint64_t nonce, int64_t wait_ms);
void submit_as_is(struct rig *w, struct asked *a);

/* The next request at the store must be this one. */
struct request *next_is(struct rig *w, struct asked *a);

/* The next request at the store, however long it takes to come. */
struct request *next_in_time(struct rig *w);

void nothing_is_asked(struct rig *w);

/* It was answered once, with this. */
void ended(struct asked *a, int status);

#endif
