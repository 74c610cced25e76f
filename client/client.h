/*
 * client.h - what the files of libleased share: the client and its leases.
 * Everything in these structs is under client.lock unless it says otherwise.
 */
#ifndef CLIENT_H
#define CLIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <time.h>

#include "address.h"
#include "calls.h"
#include "holder.h"
#include "leased.h"
#include "list.h"
#include "name.h"

#define SERVERS_MAX   16
#define ABANDONED_MAX 1000
/* However short a ttl or a timeout is, an answer may take so long. */
#define PATIENCE_MIN_MS 200

/*
 * PENDING -> HELD -> LOST or RELEASED. PENDING: asked for, or granted and not yet confirmed; nobody but
 * the acquire that makes it looks at it.
 */
enum lease_state { LEASE_PENDING, LEASE_HELD, LEASE_LOST, LEASE_RELEASED };

struct leased_lease {
	struct list link;        /* in client.leases while held, else alone */
	struct list owned;       /* in client.owned until freed */
	struct leased_client *client;
	enum lease_state state;
	char name[NAME_MAX_LEN + 1];
	const ProtobufCBinaryData *also; /* further names; in the same memory, behind this */
	size_t n_also;
	struct holder holder;
	char holder_text[HOLDER_TEXT_SIZE];
	uint64_t token;
	int64_t ttl_ms;          /* the shortest that the database may go by */
	_Atomic int64_t deadline_ns; /* CLOCK_BOOTTIME; 0: not held. Read without the lock */
	int64_t due_ns;          /* next renewal */
	bool renewing;           /* part of a batch in flight */
	bool renewing_by_hand;   /* by leased_renew, one at a time */
	unsigned callers;        /* threads in leased_renew */
	bool no_renewal;
	bool release_on_disconnect;
	int watched_pid;
	bool orphan;             /* freed by its user, while somebody renews */
	leased_lost_cb on_lost;
	leased_renewed_cb on_renewed;
	void *data;
};

struct leased_client {
	pthread_mutex_t lock;
	pthread_cond_t changed;  /* ready, failed, a call done, a caller gone, a callback over */
	pthread_t thread;
	pid_t pid;               /* who opened it: a child of fork must not use it */
	int wake_fd;             /* eventfd: the thread shall look again */
	_Atomic int socket_fd;   /* the connection's, -1: none; only for a child of fork to close */
	_Atomic bool interrupted;
	bool interrupt_told;     /* those who wait have been woken for it */
	struct address servers[SERVERS_MAX];
	size_t n_servers, server; /* how many, and the one in use */
	const struct noise_keypair *key; /* our own; NULL: no server has one */
	char program[64];
	int64_t timeout_ms, margin_ms;
	struct list calls;       /* call.link, oldest first */
	struct list leases;      /* leased_lease.link, held */
	struct list owned;       /* leased_lease.owned, all */
	struct list watches;     /* leased_watch.owned, all */
	struct list elections;   /* leased_election.owned, all */
	int64_t next_due_ns;     /* when some lease wants something */
	int64_t shortest_ttl_ms; /* of the leases held, INT64_MAX: none */
	bool bound;              /* one of them ends with this connection: it is not left for others */
	uint64_t next_id;
	bool ready, closing;
	bool ended;              /* the thread sends nothing any more */
	unsigned callers;        /* threads in calls that may wait */
	bool move_on;            /* the daemon cannot do what is asked of it: another may */
	unsigned n_abandoned;    /* see abandon.h */
	unsigned failed_rounds;  /* all servers tried in vain, in a row */
	bool denied;             /* all of them do not let us in, and did so repeatedly */
	struct leased_error problem; /* why there is no connection */
	const void *in_callback; /* whose callback runs: a lease's, a watch's, an election's */
};

/* CLOCK_BOOTTIME: it goes on while the machine sleeps. */
int64_t boottime_ns(void);

/* Tells the thread to look again; async-signal-safe. */
void client_wake(struct leased_client *client);

/* The addresses of a comma-separated list; NULL: of the environment, or the default. 0, LEASED_EUSAGE. */
int client_read_servers(struct address ret_servers[static SERVERS_MAX], size_t *ret_n,
	const char *servers, struct leased_error *err);

/* The address in use, without its key. Locked. */
void client_server(const struct leased_client *client, char out[static ADDRESS_TEXT_SIZE]);

/* CLOCK_MONOTONIC, ms from now: for waits on client.changed. */
struct timespec monotonic_in(int64_t ms);

/*
 * Around each public call that may wait: closing the client waits until all have left. 0; or why this
 * process or thread cannot make calls (a child of fork, a callback, a client that closes), then without
 * client_leave.
 */
int client_enter(struct leased_client *client, struct leased_error *err);
void client_leave(struct leased_client *client);

#endif
