/*
 * pending.h - requests that wait for a connection: one queue a statement, and one of those that travel
 * alone because their batch failed. Loop thread.
 */
#ifndef PENDING_H
#define PENDING_H

#include "request.h"

#define PENDING_SOLO   VERB_COUNT
#define PENDING_QUEUES (VERB_COUNT + 1)

struct pending {
	/* request.link, oldest first: by statement (looks of all verbs under LOOK), and PENDING_SOLO. */
	struct list queues[PENDING_QUEUES];
	size_t n;
};

void pending_init(struct pending *p);

/* The statement that a request needs. */
enum verb pending_statement(const struct request *req);

/* Last in line; or back to the front, where it came from. */
void pending_add(struct pending *p, struct request *req);
void pending_add_first(struct pending *p, struct request *req);

/* Takes the first of a queue. NULL: none. */
struct request *pending_pop(struct pending *p, size_t queue);

/* Moves those that should have been answered by now into a list of the caller's, request.link. */
void pending_take_overdue(struct pending *p, int64_t now_ms, struct list *ret_overdue);

/* Whether there is work that does not travel aside. */
bool pending_has_leases(const struct pending *p);

/* The first statement that travels aside and that somebody waits for; VERB_COUNT: none. */
enum verb pending_first_aside(const struct pending *p);

#endif
