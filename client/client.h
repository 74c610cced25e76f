/*
 * client.h - what the files of libleased share: the client, its leases and the calls in flight.
 * Everything in these structs is under client.lock unless it says otherwise.
 */
#ifndef CLIENT_H
#define CLIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "address.h"
#include "holder.h"
#include "leased.h"
#include "list.h"
#include "message.h"
#include "name.h"

#define SERVERS_MAX 16

/* A request on its way: on the stack of the thread that waits, or in a renewal batch. */
struct call {
	struct list link;        /* in client.calls */
	uint64_t id;             /* of the attempt in flight, 0: not sent */
	/* Fills the body of message for this attempt; the texts live as long as the call. */
	void (*fill)(struct call *call, Leased__ClientMessage *message);
	/* Batches: runs instead of waking a waiter; call->status and reply are set. Thread, locked. */
	void (*finished)(struct leased_client *client, struct call *call);
	void *data;
	unsigned attempts;
	int64_t sent_ns;         /* CLOCK_BOOTTIME before this attempt was sent */
	bool waits;              /* may be answered late: an acquire that queues */
	bool survives_interrupt; /* a release */
	bool cancelled;          /* given up by its caller */
	bool cancel_sent;        /* the daemon has been told, on this connection */
	bool done;
	int status;              /* 0: reply is set */
	struct leased_error err;
	struct arena arena;      /* of reply; freed by call_fini */
	Leased__ServerMessage *reply;
	pthread_cond_t *wake;
};

enum lease_state { LEASE_HELD, LEASE_LOST, LEASE_RELEASED };

struct leased_lease {
	struct list link;        /* in client.leases while held, else alone */
	struct list owned;       /* in client.owned until freed */
	struct leased_client *client;
	enum lease_state state;
	char name[NAME_MAX_LEN + 1];
	struct holder holder;
	char holder_text[HOLDER_TEXT_SIZE];
	uint64_t token;
	int64_t ttl_ms;
	_Atomic int64_t deadline_ns; /* CLOCK_BOOTTIME; 0: not held. Read without the lock */
	int64_t due_ns;          /* next renewal */
	bool renewing;           /* part of a batch in flight */
	bool no_renewal;
	bool orphan;             /* freed by its user, while renewing */
	leased_lost_cb on_lost;
	leased_renewed_cb on_renewed;
	void *data;
};

struct leased_client {
	pthread_mutex_t lock;
	pthread_cond_t changed;  /* ready, failed, a call done, a callback over */
	pthread_t thread;
	pid_t pid;               /* who opened it: a child of fork must not use it */
	int wake_fd;             /* eventfd: the thread shall look again */
	_Atomic bool interrupted;
	struct address servers[SERVERS_MAX];
	size_t n_servers;
	char program[64];
	int64_t timeout_ms, margin_ms;
	struct list calls;       /* call.link, oldest first */
	struct list leases;      /* leased_lease.link, held */
	struct list owned;       /* leased_lease.owned, all */
	int64_t next_due_ns;     /* when some lease wants something */
	uint64_t next_id;
	bool ready, closing;
	unsigned failed_rounds;  /* all servers tried in vain, in a row */
	struct leased_error problem; /* why there is no connection */
	struct leased_lease *in_callback;
};

/* CLOCK_BOOTTIME: it goes on while the machine sleeps. */
int64_t boottime_ns(void);

/* Tells the thread to look again; async-signal-safe. */
void client_wake(struct leased_client *client);

/* Queues a call that somebody waits for or a batch owns. Locked. */
void client_queue(struct leased_client *client, struct call *call);

/*
 * Sends a call and waits for its reply, at most until the client's timeout after wait_ms.
 * 0: call->reply is one of the messages wanted; else call->status, worded in call->err.
 * An acquire that is given up is cancelled first. call_fini afterwards, in either case.
 */
int client_call(struct leased_client *client, struct call *call, int64_t wait_ms);
void call_fini(struct call *call);

/* 0, or why this process or client cannot make calls. */
int client_check(struct leased_client *client, struct leased_error *err);

#endif
