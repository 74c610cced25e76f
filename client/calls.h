/*
 * calls.h - requests on their way. Whoever wants something queues a call under the client's lock; the
 * background thread sends it, asks again over the next connection and takes its answer.
 */
#ifndef CALLS_H
#define CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "channel.h"
#include "leased_status.h"
#include "list.h"
#include "message.h"

/* How long an interrupted call, or a closing client, goes on for answers that are still to come. */
#define FAREWELL_MS 1000

struct leased_client;

/* On the stack of the thread that waits for it, or detached. All of it is under the client's lock. */
struct call {
	struct list link; /* in client.calls */
	/* Fills the body of message for this attempt; what it points to lives until the next one. */
	void (*fill)(struct call *call, Leased__ClientMessage *message);
	/*
	 * May be NULL. Runs on the background thread once the call is done, and may unlock only at its
	 * very end: a waiter may return then. Of a detached call it takes over the memory.
	 */
	void (*finished)(struct leased_client *client, struct call *call);
	/*
	 * NULL: it has one answer. Takes an answer that is not the last one; may unlock, and free the
	 * call. Then finished gets the Failure that ends it.
	 */
	void (*changed)(struct leased_client *client, struct call *call, const Leased__Change *change);
	/* May be NULL. The caller gives up a call that has been sent: what is left to be done? */
	void (*forsaken)(struct leased_client *client, struct call *call);
	void *data;
	bool detached;             /* nobody waits for it */
	bool once;                 /* it fails with its connection: a batch of renewals is made anew */
	bool can_cancel;           /* an acquire, a watch */
	bool survives_interrupt;   /* a release */
	bool cancelled;            /* the daemon shall be told that nobody wants it any more */
	bool cancel_sent;
	int64_t patience_ns;       /* its answer may be missing so long before another daemon is asked; 0: for ever */
	unsigned moves;            /* how often another daemon has been asked, because one did not do it */
	uint64_t id;               /* of the attempt in flight, 0: none is */
	unsigned attempts;
	int64_t not_before_ns;     /* CLOCK_BOOTTIME, as all of these: not sent earlier */
	int64_t until_ns;          /* detached: not worth asking for after this; 0: always */
	int64_t first_sent_ns;     /* before the first byte of the first attempt could leave */
	int64_t sent_ns;           /* the same of the last attempt */
	bool done;
	int status;                /* 0: reply is set */
	struct leased_error err;
	struct arena arena;        /* of reply */
	Leased__ServerMessage *reply;
};

/* Queues a call. Locked. */
void call_queue(struct leased_client *client, struct call *call);

/*
 * Queues a call and waits for its reply, at most until the client's timeout after wait_ms; after an
 * interrupt a moment longer. A daemon that cannot do it, or takes long where there is no wait, is left for
 * the next, each at most once. 0: call->reply is set; else call->status, worded in call->err. An acquire
 * that is given up is cancelled, and forsaken. call_fini afterwards, in either case.
 */
int call_run(struct leased_client *client, struct call *call, int64_t wait_ms);

void call_fini(struct call *call);

/* For the background thread; locked. */

/* Packs a message with a fresh id. 0, LEASED_EDATA: too large; LEASED_ENOMEM: not now. */
int call_put(struct leased_client *client, struct channel *ch, Leased__ClientMessage *message);

/* Sends all that is not in flight; whether anything went out. */
bool calls_send(struct leased_client *client, struct channel *ch);

/* Cancels or ends what nobody wants any more: by an interrupt, by its caller, by the time. */
bool calls_give_up(struct leased_client *client, struct channel *ch);

/*
 * Gives an answer to its call, with the arena. One to nobody is dropped; of one that sends the call to
 * another daemon only the words are kept.
 */
void calls_take_reply(struct leased_client *client, struct arena *arena,
	Leased__ServerMessage *message);

/* The connection is gone: what was in flight is asked again over the next one, or fails. */
void calls_lose_connection(struct leased_client *client);

/* All daemons deny us, and did so repeatedly: whatever is wanted fails with client->problem. */
void calls_refuse(struct leased_client *client);

/* When the patience with this daemon ends, as far as there is another to ask; INT64_MAX: never. */
int64_t calls_overdue_at(const struct leased_client *client);

/* Whether somebody still wants something that a closing client should wait for. */
bool calls_are_wanted(const struct leased_client *client);

/* The client closes. */
void calls_end(struct leased_client *client);

#endif
