/*
 * notices.h - what the database tells this daemon without being asked: LISTEN on a connection of its
 * own, which must be direct, since a transaction pool hands notifications to nobody. The channel is one that
 * only daemons know (leased.channel), for they believe what comes. A notification to itself proves that they
 * arrive. Where they do not, waiters fall back to known expiries and a slow poll; it is tried again every
 * minute. Loop thread.
 */
#ifndef NOTICES_H
#define NOTICES_H

#include "change.h"
#include "config.h"
#include "pg.h"
#include "request.h"

/* One line of a payload: kind, number, name; and of a steal whose it was, and who did it why. */
struct notice {
	char kind;      /* 'w': a turn, 's': stolen */
	int64_t number; /* daemon, or token */
	struct text name, principal, why;
};

struct notices_events {
	/* It is the turn of a waiter of this daemon for a name. */
	void (*on_turn)(void *owner, int64_t daemon, struct text name);
	/* A grant was ended by somebody else. */
	void (*on_stolen)(void *owner, const struct notice *notice);
	/* A lease has changed in another way. change and its texts are gone when the call returns. */
	void (*on_change)(void *owner, const struct change *change);
	/* They arrive from now on, or no longer: what came between is lost. */
	void (*on_state)(void *owner, bool listening);
	void (*on_closed)(void *owner);
};

struct notices {
	struct pg pg;
	uv_timer_t timer; /* for the proof, or until the next attempt */
	unsigned pending; /* pg and timer */
	bool open, proved;
	bool given_up;    /* none arrive, and nothing is under way to change that soon */
	const struct config *config;
	int64_t daemon;
	char why[LEASED_ERROR_LEN]; /* why none arrive, "": they do */
	const struct notices_events *events;
	void *owner;
};

/* daemon: who we are, see store_daemon(). 0, or LEASED_ECONFIG for a bad conninfo. */
int notices_start(struct notices *n, uv_loop_t *loop, const struct config *config, int64_t daemon,
	const struct notices_events *events, void *owner, struct leased_error *err);

/* on_closed runs later, and no event after it. At once for one that was never started. */
void notices_close(struct notices *n);

/*
 * Takes one line of a payload apart that tells of a turn or a steal (change.h: the others). False for a line that
 * is not ours. The texts point into it.
 */
bool notices_parse(const char *line, size_t len, struct notice *ret_notice);

#endif
