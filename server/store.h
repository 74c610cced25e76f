/*
 * store.h - the few connections behind one submit: gathers requests, sends each free connection what
 * there is, and hands back each request once its transaction is committed or has failed; or as unavailable,
 * when its deadline passes before it is sent, or request_timeout after that. So the last answer may come
 * request_timeout after the deadline. The only part that knows SQL lies behind it. Loop thread; never blocks.
 *
 * A request whose batch was lost with its connection is asked again (the statements are idempotent by
 * the holder's nonce); one whose batch failed is asked again in a batch of its own, so that it harms
 * nobody else.
 */
#ifndef STORE_H
#define STORE_H

#include <uv.h>

#include "config.h"
#include "request.h"
#include "writer.h"

struct store;

/*
 * Whose request it is hears of it: req->status 0 and req->found tell whether the statement named it;
 * a negative status (LEASED_EUNAVAILABLE, LEASED_EDATA, LEASED_EINTERNAL) comes with req->why.
 */
typedef void (*store_answer_cb)(void *owner, struct request *req);

struct store_stats {
	uint64_t flights, rows, lost, failed;
};

/* config must live as long. Connections come up by themselves. LEASED_ECONFIG, LEASED_ENOMEM. */
int store_new(struct store **ret_store, uv_loop_t *loop, const struct config *config,
	store_answer_cb answer, void *owner, struct leased_error *err);

/*
 * Takes a request up; req->looking reads its row instead of what its verb does. The answer comes in a
 * later loop turn. Its owner has checked store_queued() against its bound.
 */
void store_submit(struct store *s, struct request *req);

/* Sends what has gathered. Called once a loop turn, after the input of all clients was read. */
void store_flush(struct store *s);

/* Requests submitted and not answered. */
size_t store_queued(const struct store *s);

/* Whether any connection is ready. */
bool store_is_ready(const struct store *s);

/* The newest probe; problem is "" when ready, else a sentence. */
void store_info(const struct store *s, struct db_info *ret_info, char *problem, size_t size);

/* Who this daemon is in the tables of waiters and daemons. */
int64_t store_daemon(const struct store *s);

const struct store_stats *store_stats(const struct store *s);

/* Answers what is queued as unavailable, closes; closed runs at the end and s is freed before. */
void store_close(struct store *s, void (*closed)(void *owner));

#endif
