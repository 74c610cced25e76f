/*
 * pg.h - one non-blocking libpq connection on the loop: resolve, connect, flush, read, back off and
 * try again for ever. It knows no SQL. Loop thread; never blocks.
 *
 * The conninfo may name several hosts; each is tried in turn with its own timeout, and only a
 * server that takes writes is accepted (target_session_attrs=read-write unless the conninfo says
 * otherwise). Names are resolved by the loop's thread pool and handed to libpq as hostaddr, since
 * PQconnectStart would block on them (PostgreSQL, libpq, "Database Connection Control Functions").
 */
#ifndef PG_H
#define PG_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <uv.h>

#include "leased_status.h"

struct pg;

struct pg_events {
	/* Connected, in simple query mode. The owner sets up, may enter pipeline mode. */
	void (*on_up)(void *owner);
	/* A result, in order, the owner's to PQclear; NULL ends each query (libpq's PQgetResult). */
	void (*on_result)(void *owner, PGresult *result);
	/* A notification (LISTEN); may be NULL. */
	void (*on_notify)(void *owner, const PGnotify *notify);
	/* The connection is gone; whatever was in flight has an unknown outcome. */
	void (*on_down)(void *owner, const struct leased_error *why);
	/* An attempt on every host has failed; the next one starts by itself. */
	void (*on_failed)(void *owner, const struct leased_error *why);
	/* pg_close has finished; the memory of pg may go. */
	void (*on_closed)(void *owner);
};

struct pg_options {
	const char *conninfo;         /* lives as long as pg */
	const char *application_name; /* likewise */
	int64_t connect_timeout_ms;   /* for each host */
};

enum pg_state { PG_RESOLVING, PG_CONNECTING, PG_UP, PG_WAITING, PG_CLOSING, PG_CLOSED };
#define PG_TARGETS_MAX 16

struct pg {
	enum pg_state state;
	PGconn *conn;
	uv_loop_t *loop;
	uv_poll_t *poll;      /* a handle for each connection; freed in its close callback */
	int watched;          /* what poll waits for */
	uv_timer_t timer;     /* of the attempt, or until the next one */
	uv_getaddrinfo_t resolver;
	struct pg_target {
		char *host, *port;
		char hostaddr[64]; /* "": nothing to resolve */
	} targets[PG_TARGETS_MAX];
	size_t n_targets, next_target;
	char *hosts[PG_TARGETS_MAX], *ports[PG_TARGETS_MAX]; /* as in the conninfo */
	size_t n_hosts, next_host;
	bool in_query;        /* a result has come, the NULL that ends its query has not */
	unsigned failures;    /* rounds in a row, for the back-off */
	unsigned pending;     /* handles and look-ups that must finish before CLOSED */
	struct leased_error last;
	struct pg_options options;
	const struct pg_events *events;
	void *owner;
};

/* Starts to connect. The callbacks run in later loop turns. 0, or LEASED_ECONFIG for a bad conninfo. */
int pg_start(struct pg *pg, uv_loop_t *loop, const struct pg_options *options,
	const struct pg_events *events, void *owner, struct leased_error *err);

/* Call after queueing anything on pg->conn: flushes, and watches for what is needed. */
void pg_flush(struct pg *pg);

/* The owner is content with the server: the back-off starts from its beginning next time. */
void pg_settled(struct pg *pg);

/* Drops the connection on purpose (wrong schema, became read-only) and starts over; on_down runs. */
void pg_reset(struct pg *pg, const struct leased_error *why);

/* The same in a later loop turn, for a caller in the middle of queueing. */
void pg_break(struct pg *pg, const struct leased_error *why);

/* Closes for good. Idempotent; on_closed runs later. on_down does not run. */
void pg_close(struct pg *pg);

/*
 * Words a libpq error text into one line without what may hold secrets: the first line, at most
 * 400 bytes.
 */
void pg_error_text(char *out, size_t size, const char *text);

#endif
