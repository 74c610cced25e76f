/*
 * trim.h - housekeeping: has the database delete old history and idle leases in small steps, and tells it
 * the settings that go with that (schema/0002_trim.sql makes a step, for all daemons of a database
 * together). Loop thread.
 */
#ifndef TRIM_H
#define TRIM_H

#include <uv.h>

#include "config.h"
#include "engine.h"

struct trim {
	struct engine *engine;
	const struct config *config;
	uv_timer_t timer;
	struct request step;
	bool in_flight;
	int64_t told_history_keep_ms, told_idle_keep_ms; /* -1: the database has not heard from us */
};

/* engine and config must live as long. The first step comes a moment later. */
void trim_start(struct trim *t, uv_loop_t *loop, struct engine *engine, const struct config *config);

/* The configuration may have changed: the database hears of it soon. */
void trim_reload(struct trim *t);

/* Makes no further step. One that is under way still ends, at the latest with the engine. */
void trim_stop(struct trim *t);

/* Ends the timer; t must live until the loop has run dry. */
void trim_close(struct trim *t);

#endif
