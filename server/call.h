/*
 * call.h - one message of a client: from protobuf to requests for the engine, and from their outcomes
 * to the one reply. Loop thread.
 */
#ifndef CALL_H
#define CALL_H

#include <uthash.h>

#include "message.h"
#include "request.h"
#include "session.h"

/* Rows of one listing. */
#define LIST_LIMIT_MAX 100

/* A message in flight: the memory of its requests and of all their texts. */
struct call {
	struct list link;         /* in session.calls */
	struct session *session;  /* NULL once it has closed */
	struct sessions *all;
	uint64_t id;
	UT_hash_handle hh;        /* in session.acquires, if it is one: see cancel.h */
	struct arena arena;
	char *texts;              /* of one that waits, instead of the arena; or of page.c */
	size_t n_requests, n_open;
	size_t n_counted; /* in session.n_requests */
	bool waits;       /* an acquire in session.n_waits */
	bool is_counted;  /* an acquire in its quota */
	bool denied;      /* the rule for what it waits for was withdrawn */
	struct quota *quota;      /* used by it, also once the session is gone; NULL: nobody counts its leases */
	uint32_t limit;           /* LIST and the like: as the client asked, see page.h */
	int64_t begun_ms;
	enum verb verb;
	struct request requests[];
};

/*
 * Takes one message of a READY session: answers at once, or when the engine has decided.
 * 0, or LEASED_EPROTO (with err) when the client has broken the protocol and must go.
 */
int call_take(struct session *s, struct frame frame, struct leased_error *err);

/* Other rules are in force: waits for what is not allowed any more end. */
void call_check_waits(struct session *s);

/* The session closes: waiting requests leave their queues; the others finish without an answer. */
void call_abandon_all(struct session *s);

#endif
