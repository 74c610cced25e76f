/*
 * request.h - the value that travels: who wants what until when, what came of it, and whom to tell.
 * A transport makes it, the engine decides it, the store asks the database. Loop thread.
 */
#ifndef REQUEST_H
#define REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "heap.h"
#include "leased_status.h"
#include "list.h"

/* In the order in which a batch does them. */
enum verb {
	VERB_RELEASE,
	VERB_RELEASE_AGAIN,   /* the statement of a RELEASE that may have been done already */
	VERB_RENEW,
	VERB_RENEW_VALUE,     /* the statement of a RENEW that changes the value */
	VERB_STEAL,
	VERB_ACQUIRE,
	VERB_ACQUIRE_LIMITED, /* the statement of an ACQUIRE that takes more than a look at one row */
	VERB_LOOK,
	VERB_LEAVE, /* from here on the engine's own: leave the line; whoever comes in the same flight stays */
	VERB_QUEUE, /* stand in line */
	VERB_BEAT,  /* this daemon is alive */
	VERB_EXPIRY,   /* of watches (watch.c): has it expired? */
	VERB_CHANGING, /* which transactions may be changing leases? */
	VERB_LIST,     /* from here on each is a statement of its own */
	VERB_LOOK_SEVERAL, /* the look of an ACQUIRE of several leases */
	VERB_HELD,     /* of watches: a page of what is held */
	VERB_HISTORY, /* from here on aside, see store.c: the grants of one lease */
	VERB_LAPSED,  /* of a prefix: those that expired, and nobody has taken the lease since */
	VERB_FAILED,  /* of a prefix: those that ended badly */
	VERB_TRIM,    /* a step of the housekeeping */
};
#define VERB_COUNT 20

static inline bool verb_is_aside(enum verb verb)
{
	return verb >= VERB_HISTORY;
}

/* Bytes owned by somebody else, not ended by NUL. */
struct text {
	const char *data;
	size_t len;
};

struct claim {
	struct text name;
	struct text host;
	struct text principal;
	uint64_t nonce;
	uint64_t token; /* RENEW, RELEASE, STEAL (0: any), LIST and HELD (see after); after a grant the token given */
	int32_t pid;
};

bool text_equal(struct text a, struct text b);
bool text_begins(struct text text, struct text with);

/* As memcmp orders bytes; of two of which one begins the other, the shorter comes first. */
int text_compare(struct text a, struct text b);

/* A row of the table as it was seen, in one block with its texts. */
struct lease_view {
	struct claim claim;
	struct text value;
	bool has_value, released;
	int64_t ttl_ms;
	int64_t expires_in_ms; /* negative: so long ago */
	int64_t held_for_ms;
	int64_t acquired_at_us, expires_at_us; /* since 1970, the database's clock */
	int64_t waiters;       /* on all daemons */
	int64_t holders;       /* LOOK: grants that are not over */
	int32_t max_holders;
	int64_t value_changes; /* HELD: since the grant */
};

/* Why an acquire is refused: its slot was completed, or the interval since the last run is not over. */
struct done_view {
	struct claim claim; /* whose run it was, without its name; an empty host: not known any more */
	bool by_slot;
	bool has_exit_status;
	int32_t exit_status;
	int64_t ago_ms;     /* since the slot was completed, or since the last run began */
	int64_t left_ms;    /* not by_slot: until the next run may begin */
};

/* What a read of the past asks for, beside a name or a prefix, and where it goes on. */
struct past_query {
	int64_t since_ms;    /* ended less than so long ago */
	int64_t ended_at_us; /* FAILED: below this, request.after and token; since 1970 */
	uint64_t token;      /* HISTORY: below this one. LAPSED: above it, of request.after */
};

struct trim_step {
	int64_t history_keep_ms, idle_keep_ms; /* the settings; -1 leaves them */
	int64_t n_events, n_leases; /* the outcome: rows that went */
	int64_t due_in_ms;          /* and when the next step is due */
};

struct request;
struct grant_view; /* history.h */
typedef void (*request_done_cb)(struct request *req);

struct request {
	/* Filled by the maker, whose memory all texts are. */
	enum verb verb;
	struct claim claim;
	int64_t ttl_ms;        /* RENEW: 0 keeps the ttl */
	int64_t min_hold_ms;
	struct text value;     /* ACQUIRE, RENEW: published with the lease */
	bool has_value;        /* RENEW: false keeps the value */
	struct text slot;      /* ACQUIRE: a schedule tick; empty: none */
	bool slot_again;       /* ACQUIRE: a release with a non-zero exit status leaves the slot open */
	int64_t every_ms;      /* ACQUIRE: at most one run in so long; 0: no such bound */
	int32_t max_holders;   /* ACQUIRE: how many may hold it at once; 0: 1 */
	/*
	 * ACQUIRE of several leases, all or none: their names, as they were given. claim.name is the one in
	 * whose line it stands: the first, or whichever has refused it last. Else 0.
	 */
	struct text *names;
	size_t n_names;
	bool joined;           /* RENEW, RELEASE: a further name of the same grant as the request before it */
	bool release_on_disconnect; /* ACQUIRE, RENEW: see holdings.h */
	pid_t watched_pid;
	bool has_exit_status;  /* RELEASE */
	int32_t exit_status;
	bool undone;           /* RELEASE: nothing was done under it, so that the slot stays open */
	bool retry;            /* RELEASE: having been released by this claim is success */
	int64_t wait_ms;       /* ACQUIRE: 0 does not wait */
	struct text reason;    /* STEAL, by claim.principal */
	struct text prefix, after; /* LIST, HELD (after its claim.token), LAPSED, FAILED; CHANGING: prefix is `others` of the one before */
	uint32_t limit;            /* and HISTORY */
	bool exact;                /* LIST, HELD: the lease of this very name */
	bool watching;             /* BEAT: changes shall be told to this daemon */
	struct past_query past;
	struct trim_step trim;     /* TRIM */
	request_done_cb done;  /* runs exactly once for each request that was taken up */
	void *owner;

	/* The outcome, to be read in done. */
	int status;
	int64_t expires_in_ms;       /* granted, renewed: time left by the database's clock */
	struct lease_view *view;     /* LOOK, STEAL, and why not; NULL: no row. Freed by request_fini */
	struct done_view *done_by;   /* ACQUIRE, once looked at: refused for it, whatever the row. Likewise */
	struct lease_view **listing; /* LIST, HELD */
	struct grant_view **grants;  /* HISTORY, LAPSED, FAILED */
	struct grant_view *mark;     /* their step was full and ended here; NULL: there is no more */
	uint32_t n_listed;
	bool more;
	bool told;                   /* BEAT: they were, since the last one */
	bool has_room;               /* ACQUIRE, once looked at: nobody who holds it keeps it out */
	bool has_extras;             /* ... several hold it, or did */
	bool is_behind;              /* ... somebody stands in line before it */
	bool expired;                /* EXPIRY: certainly */
	char *others;                /* CHANGING: the transactions; claim.pid is one's. Freed likewise */
	char *why;                   /* what the database said, or NULL. Freed by request_fini */

	/* The engine's. */
	struct list link;        /* in a queue of waiters or of the store */
	struct heap_node timer;  /* when to look again, or when the wait ends */
	struct name_queue *queue;
	int64_t deadline_ms;     /* answer by then */
	int64_t wait_until_ms;
	enum { REQ_NEW, REQ_STORE, REQ_PARKED, REQ_PAUSED, REQ_DONE } where;
	uint16_t tries;
	int64_t place;    /* ACQUIRE: in the queue over all daemons, 0: none. LEAVE: see leave.sql */
	bool asked;       /* since it has this place */
	bool place_lost;  /* perhaps; it is drawn again before it waits on */
	bool looking;     /* the store reads the row for it, whatever its verb */
	bool queueing;    /* the store puts it in the queue */
	bool cancelled;   /* nobody wants the grant any more */
	bool by_call;     /* ACQUIRE: its lease is one that several hold, or did */

	/* The store's. */
	bool found;       /* the statement named this request */
	int64_t place_drawn; /* QUEUE */
	bool place_sure;     /* QUEUE: from now on no release can miss it, see queue.sql */
	bool place_fresh;    /* QUEUE: this daemon was alive for the others until now */
	bool solo;        /* its last batch failed: ask in one of its own */
	bool uncertain;   /* a batch with it was lost with its connection */
};

/*
 * Copies all texts of an acquire into one block, the caller's to free: the memory that they came in can go.
 * NULL: out of memory; nothing has changed.
 */
char *request_copy_texts(struct request *req);

/* Frees the outcome. The request itself is its maker's. */
void request_fini(struct request *req);

/* A sentence for people about an outcome that is not LEASED_OK. */
void request_explain(const struct request *req, struct leased_error *ret_why);

#endif
