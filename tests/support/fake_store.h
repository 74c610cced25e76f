/*
 * fake_store.h - store.h by script: requests pile up here until the test answers them. For what a real
 * database will not do on command: answer late, in another order, or never.
 */
#ifndef FAKE_STORE_H
#define FAKE_STORE_H

#include "store.h"

/* The oldest request that is not answered yet, taken out; NULL: none. */
struct request *fake_store_take(struct store *s);

/* Answers one: left out by its statement, or named by it. */
void fake_store_miss(struct store *s, struct request *req);
void fake_store_hit(struct store *s, struct request *req);

/* As a hit of an acquire or renewal, with what the database would tell. */
void fake_store_grant(struct store *s, struct request *req, uint64_t token, int64_t expires_in_ms);

/* Answers a look: a row held by `claim` (or released), expires_in_ms from now. */
void fake_store_show(struct store *s, struct request *req, const struct claim *claim, bool released,
	int64_t expires_in_ms);

/* The same, or without a row when claim is NULL: refused, since the slot was completed by `by`. */
void fake_store_show_done(struct store *s, struct request *req, const struct claim *claim,
	int64_t expires_in_ms, const struct claim *by);

/* Answers a request that draws a place. */
void fake_store_place(struct store *s, struct request *req, int64_t place);

void fake_store_fail(struct store *s, struct request *req, int status);

#endif
