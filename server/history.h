/*
 * history.h - grants of the past: how the statements that read and trim them are asked, what their rows
 * say, and where the next page begins. Pure: no connection, no loop.
 */
#ifndef HISTORY_H
#define HISTORY_H

#include "pgbin.h"
#include "request.h"

enum ending { ENDING_HELD, ENDING_RELEASED, ENDING_EXPIRED, ENDING_STOLEN };

/* A grant as it was recorded, or as it lasts; one block with its texts. */
struct grant_view {
	struct claim claim;
	enum ending ended;
	bool is_newest;  /* EXPIRED: nobody has taken the lease since */
	bool has_exit_status;
	int32_t exit_status;
	int64_t acquired_at_us, ended_at_us; /* since 1970, the database's clock; HELD: ended_at_us is 0 */
	int64_t held_for_ms;
	struct text stolen_by, reason; /* STOLEN */
};

/* Rows that one statement looks at, so that no prefix and no since makes it long. */
#define HISTORY_STEP 2000

/* Puts the parameters of the statement of an aside verb. */
void history_encode(const struct request *req, struct params *params);

/* Takes its rows. LEASED_EINTERNAL when they are not what it can return; LEASED_ENOMEM. */
int history_decode(struct request *req, const PGresult *result);

/* Where a read of the past goes on, as clients carry it: nothing in it is theirs to understand. */
#define HISTORY_CURSOR_MAX 300

/* For the first page. */
void history_begin(struct request *req);

/* After the request's row i was the last that was told. Returns the length; 0: all has been told. */
size_t history_next(uint8_t out[static HISTORY_CURSOR_MAX], const struct request *req, uint32_t n_told);

/* The page that a cursor means. The text stays the caller's, and lives as long. LEASED_EDATA. */
int history_resume(struct request *req, struct text cursor, struct leased_error *err);

#endif
