/*
 * batch.h - many requests of one verb as one statement: requests, sorted by name, a row a name, into
 * binary arrays for unnest; rows back into outcomes. Pure: no connection, no loop.
 */
#ifndef BATCH_H
#define BATCH_H

#include "pgbin.h"
#include "request.h"

#define BATCH_ROWS_MAX 10000

/* The requests of one verb that travel together; reqs has room for BATCH_ROWS_MAX. */
struct batch {
	enum verb verb;
	struct request **reqs;
	size_t n;
	int64_t slot_keep_ms; /* ACQUIRE_LIMITED: how long its slot is remembered */
	int32_t epoch;      /* ACQUIRE: see $10 of acquire.sql */
	bool keeps_history; /* ACQUIRE, RELEASE, STEAL: what ends is written to events */
	int64_t daemon;     /* who asks, in the tables of waiters and daemons */
};

/*
 * Sorts by name. A statement takes a row of the table once: all but one of several requests for one name,
 * of renewals and releases all but one of several by one claim, are moved to the end; returns how many
 * stay in the batch. Statements that change no lease keep all, in their order.
 */
size_t batch_sort(struct batch *batch);

/* The request for a name in a sorted batch of acquires, or NULL. */
struct request *batch_find(const struct batch *batch, struct text name);

/* Fills params for the verb's statement. 0 or LEASED_ENOMEM. */
int batch_encode(const struct batch *batch, struct params *params);

/*
 * Takes the rows of the verb's statement: marks each request that a row names as found and fills its
 * outcome. LEASED_EINTERNAL when the rows are not what the statement can return; LEASED_ENOMEM.
 */
int batch_decode(struct batch *batch, const PGresult *result);

#endif
