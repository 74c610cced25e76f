/*
 * writer.h - one writer: a connection, what happens between connect and ready (probe, migrate, prepare),
 * and at most one batch in flight. Loop thread.
 */
#ifndef WRITER_H
#define WRITER_H

#include "batch.h"
#include "config.h"
#include "db_info.h"
#include "pg.h"
#include "request.h"

#define WRITER_LISTS_MAX 8 /* statements of each kind of list in one flight */
#define WRITER_BATCHES_MAX (VERB_COUNT + 2 * WRITER_LISTS_MAX)

/* The requests of one round trip, answered together once it is committed. */
struct flight {
	struct batch batches[WRITER_BATCHES_MAX];
	size_t n_batches, n_requests;
	int64_t sent_ms;
	bool solo;
	bool had_limited; /* see without() in store.c */
	bool aside; /* no lease is in it: see store.c */
};

struct writer;

struct writer_events {
	/* Ready for a flight: after set-up, and after each one. */
	void (*on_idle)(struct writer *w);
	/* The flight is committed; found and the outcomes are set. */
	void (*on_done)(struct writer *w);
	/* The flight failed as a whole and changed nothing. */
	void (*on_error)(struct writer *w, const char *sqlstate, const char *text);
	/* The connection was lost; whether the flight (if any) was committed is unknown. */
	void (*on_lost)(struct writer *w, const struct leased_error *why);
	/* Not ready, and why: for doctor and "unavailable" answers. */
	void (*on_problem)(struct writer *w, const struct leased_error *why);
	void (*on_closed)(struct writer *w);
};

enum writer_state { WRITER_DOWN, WRITER_PROBE, WRITER_VERSION, WRITER_MIGRATE, WRITER_PREPARE,
	WRITER_IDLE, WRITER_BUSY, WRITER_CLOSING };

struct writer {
	struct pg pg;
	enum writer_state state;
	const struct config *config;
	int64_t daemon;     /* see batch.h */
	const struct writer_events *events;
	void *owner;
	char application_name[64];
	struct db_info info;
	struct flight flight;
	struct params params;
	size_t at;          /* the statement whose results come next, 0 being the settings */
	size_t n_ahead;     /* statements of the pipeline before the flight's own */
	bool failed;        /* a statement of this round trip failed */
	char sqlstate[6], error_text[401];
	struct request *reqs[WRITER_BATCHES_MAX][BATCH_ROWS_MAX];
};

/* 0, or LEASED_ECONFIG for a bad conninfo. index is for application_name. */
int writer_start(struct writer *w, uv_loop_t *loop, const struct config *config, int64_t daemon, int index,
	const struct writer_events *events, void *owner, struct leased_error *err);

/*
 * Sends w->flight, which the owner has filled; the writer is IDLE. The answer is one of on_done,
 * on_error, on_lost in a later loop turn.
 */
void writer_send(struct writer *w);

/* Gives up on a flight that takes too long: drops the connection, on_lost runs. */
void writer_give_up(struct writer *w, const struct leased_error *why);

void writer_close(struct writer *w);

/* "idle", "busy", "down" ... for the log. */
const char *writer_state_name(enum writer_state state);

#endif
