/*
 * engine.h - decides every lease request and answers each exactly once. Requests that come while the
 * connections are busy share the next batch; those that find a name held wait, first come first
 * served. Knows leases, waiters and deadlines; nothing of sockets or SQL. Loop thread; never blocks.
 */
#ifndef ENGINE_H
#define ENGINE_H

#include <uv.h>

#include "config.h"
#include "request.h"
#include "store.h"

struct engine;

/* config must live as long. */
int engine_new(struct engine **ret_engine, uv_loop_t *loop, const struct config *config,
	struct leased_error *err);

/*
 * Takes up one request, whose fields for its verb are filled and valid.
 * 0: the engine keeps it until it has called req->done, exactly once, in a later loop turn.
 * LEASED_EBUSY: too much is queued; LEASED_ENOMEM: refused. Then it stays the caller's, and done
 * never runs. An acquire that would have to wait where too many do is answered with LEASED_EBUSY.
 */
int engine_submit(struct engine *e, struct request *req);

/*
 * The client takes an acquire back: answered with LEASED_ECANCELLED, perhaps from inside this call.
 * A grant that crosses is released, for the client has promised not to use its nonce again; if that fails
 * it is answered with LEASED_EUNAVAILABLE, and expires by itself.
 */
void engine_cancel(struct engine *e, struct request *req);

/*
 * The client's connection is gone. One that waits is taken out and answered (from inside this call);
 * one that the database is deciding stays, since the client may come back with the same nonce.
 */
void engine_abandon(struct engine *e, struct request *req);

/* Sends what has gathered; called once a loop turn. */
void engine_flush(struct engine *e);

/* It is the turn of a waiter of this daemon (store_daemon), the database says; others are ignored. */
void engine_notified(struct engine *e, int64_t daemon, struct text name);

/*
 * Whether such words arrive: until then, waiters look for themselves every poll_interval. From then on
 * each asks for its place once more: the line is not durable, and a crash of the server may shorten it.
 */
void engine_set_listening(struct engine *e, bool listening);

/*
 * From now on the database tells this daemon of every change of a lease. on_told runs each time that it
 * has confirmed this, about once a second: it is so from sent_ms (monotonic) for WATCH_GRACE_MS, and
 * unbroken says that nothing was left out since the time before. NULL: nobody watches any more.
 */
#define WATCH_GRACE_MS 5000
void engine_watch(struct engine *e, void (*on_told)(void *owner, int64_t sent_ms, bool unbroken),
	void *owner);

/* How many have been taken up and not been answered, waiters aside. */
size_t engine_unanswered(const struct engine *e);

/* How many wait on this daemon. */
size_t engine_waiters(const struct engine *e);

struct store *engine_store(struct engine *e);

/* Answers everything that waits or is queued as unavailable; closed runs at the end, e is freed. */
void engine_close(struct engine *e, void (*closed)(void *data), void *data);

#endif
