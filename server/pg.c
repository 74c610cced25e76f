/*
 * A round goes over the hosts of the conninfo, each resolved, each address tried:
 *
 *   start_round -> try_next -> [resolve] -> attempt -> step (PQconnectPoll) -> UP -> read_results
 *        ^             ^                        |                               |
 *        |             '------ attempt_failed <-'                               |
 *        '-- timer <- WAITING (back off) <--- all failed, or the connection was lost
 */
#include "pg.h"

#include <netdb.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "status.h"

#define BACKOFF_FIRST_MS 50
#define BACKOFF_MAX_MS   2000

static void start_round(struct pg *pg);
static void try_next(struct pg *pg);
static void resolve(struct pg *pg, const char *host);
static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *res);
static void attempt(struct pg *pg, const struct pg_target *target);
static void step(struct pg *pg);
static void attempt_failed(struct pg *pg);
static void connected(struct pg *pg);
static void read_results(struct pg *pg);
static void lost(struct pg *pg);
static void back_off(struct pg *pg);
static void on_wait_over(uv_timer_t *timer);

void pg_error_text(char *out, size_t size, const char *text)
{
	size_t len = strcspn(text, "\n");

	if (len > 400)
		len = 400;
	if (len >= size)
		len = size - 1;
	memcpy(out, text, len);
	out[len] = '\0';
}

static void note_error(struct pg *pg, const char *what)
{
	char text[401];

	pg_error_text(text, sizeof text, PQerrorMessage(pg->conn));
	fail(&pg->last, LEASED_EUNAVAILABLE, "%s: %s", what, text);
}

/* Splits a comma-separated list of libpq into out; returns how many, at most PG_TARGETS_MAX. */
static size_t split(char *out[static PG_TARGETS_MAX], const char *list)
{
	size_t n = 0;

	while (list && n < PG_TARGETS_MAX) {
		const char *comma = strchrnul(list, ',');

		out[n] = strndup(list, (size_t)(comma - list));
		if (!out[n])
			break;
		n++;
		list = *comma ? comma + 1 : NULL;
	}
	return n;
}

static const char *option_value(const PQconninfoOption *options, const char *keyword)
{
	for (; options && options->keyword; options++)
		if (strcmp(options->keyword, keyword) == 0 && options->val && *options->val)
			return options->val;
	return NULL;
}

/*
 * Which hosts there are. With hostaddr or a service file libpq decides alone: it has no name to
 * resolve, or we cannot see it.
 */
static int read_hosts(struct pg *pg, struct leased_error *err)
{
	PQconninfoOption *given = PQconninfoParse(pg->options.conninfo, NULL);
	PQconninfoOption *defaults;
	const char *host, *port;

	if (!given) /* what libpq says of it may quote a part of its password */
		return fail(err, LEASED_ECONFIG, "libpq cannot read the conninfo of the database");
	defaults = PQconndefaults();
	host = option_value(given, "host");
	port = option_value(given, "port");
	if (!host && !option_value(given, "service")) {
		host = option_value(defaults, "host");
		port = port ? port : option_value(defaults, "port");
	}
	if (!host || option_value(given, "hostaddr") || option_value(defaults, "hostaddr")) {
		pg->n_hosts = 1;
	} else {
		size_t n_ports = split(pg->ports, port);

		pg->n_hosts = split(pg->hosts, host);
		for (size_t i = n_ports; n_ports == 1 && i < pg->n_hosts; i++)
			pg->ports[i] = strdup(pg->ports[0]); /* one port serves all hosts */
	}
	PQconninfoFree(given);
	PQconninfoFree(defaults);
	return 0;
}

int pg_start(struct pg *pg, uv_loop_t *loop, const struct pg_options *options,
	const struct pg_events *events, void *owner, struct leased_error *err)
{
	int rc;

	*pg = (struct pg){ .loop = loop, .options = *options, .events = events, .owner = owner };
	rc = read_hosts(pg, err);
	if (rc < 0)
		return rc;
	uv_timer_init(loop, &pg->timer);
	pg->timer.data = pg;
	pg->pending = 1;
	pg->state = PG_WAITING;
	uv_timer_start(&pg->timer, on_wait_over, 0, 0); /* no callback from inside this call */
	return 0;
}

static void start_round(struct pg *pg)
{
	pg->next_host = 0;
	pg->n_targets = pg->next_target = 0;
	try_next(pg);
}

static void free_targets(struct pg *pg)
{
	for (size_t i = 0; i < pg->n_targets; i++) {
		free(pg->targets[i].host);
		free(pg->targets[i].port);
	}
	pg->n_targets = pg->next_target = 0;
}

static void add_target(struct pg *pg, const char *host, const char *port, const char *hostaddr)
{
	struct pg_target *t = &pg->targets[pg->n_targets];

	if (pg->n_targets == PG_TARGETS_MAX)
		return;
	t->host = host ? strdup(host) : NULL;
	t->port = port ? strdup(port) : NULL;
	snprintf(t->hostaddr, sizeof t->hostaddr, "%s", hostaddr);
	pg->n_targets++;
}

/* The next address of this host, or the next host, or the end of the round. */
static void try_next(struct pg *pg)
{
	const char *host, *port;

	if (pg->next_target < pg->n_targets) {
		attempt(pg, &pg->targets[pg->next_target++]);
		return;
	}
	free_targets(pg);
	if (pg->next_host == pg->n_hosts) {
		pg->events->on_failed(pg->owner, &pg->last);
		if (pg->state != PG_CLOSING && pg->state != PG_CLOSED)
			back_off(pg);
		return;
	}
	host = pg->hosts[pg->next_host];
	port = pg->ports[pg->next_host];
	pg->next_host++;
	if (!host || *host == '/' || *host == '@' || *host == '\0') {
		add_target(pg, host, port, "");
		try_next(pg);
	} else {
		resolve(pg, host);
	}
}

static void resolve(struct pg *pg, const char *host)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	int rc;

	pg->state = PG_RESOLVING;
	pg->resolver.data = pg;
	rc = strlen(host) > 253 ? UV_ENAMETOOLONG : /* CVE-2024-24806: older libuv cuts them */
	     uv_getaddrinfo(pg->loop, &pg->resolver, on_resolved, host, NULL, &hints);
	if (rc == 0) {
		pg->pending++;
		return;
	}
	fail(&pg->last, LEASED_EUNAVAILABLE, "resolve %s: %s", host, uv_strerror(rc));
	try_next(pg);
}

static void maybe_closed(struct pg *pg)
{
	if (pg->state != PG_CLOSING || pg->pending > 0)
		return;
	pg->state = PG_CLOSED;
	free_targets(pg);
	for (size_t i = 0; i < PG_TARGETS_MAX; i++) {
		free(pg->hosts[i]);
		free(pg->ports[i]);
	}
	pg->events->on_closed(pg->owner);
}

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *res)
{
	struct pg *pg = req->data;
	size_t index = pg->next_host - 1;

	pg->pending--;
	if (pg->state == PG_CLOSING) {
		uv_freeaddrinfo(res);
		maybe_closed(pg);
		return;
	}
	if (status < 0)
		fail(&pg->last, LEASED_EUNAVAILABLE, "resolve %s: %s", pg->hosts[index],
			uv_strerror(status));
	for (struct addrinfo *a = res; status == 0 && a; a = a->ai_next) {
		char literal[64];

		if (getnameinfo(a->ai_addr, a->ai_addrlen, literal, sizeof literal, NULL, 0,
			    NI_NUMERICHOST) == 0)
			add_target(pg, pg->hosts[index], pg->ports[index], literal);
	}
	uv_freeaddrinfo(res);
	try_next(pg);
}

static void ignore_notice(void *arg, const PGresult *result)
{
	char text[401];

	(void)arg;
	pg_error_text(text, sizeof text, PQresultErrorMessage(result));
	log_event(LOG_DEBUG, "database_notice", "text", 's', text, NULL);
}

static void on_timeout(uv_timer_t *timer)
{
	struct pg *pg = timer->data;

	fail(&pg->last, LEASED_EUNAVAILABLE, "connect: no answer within %lld ms",
		(long long)pg->options.connect_timeout_ms);
	attempt_failed(pg);
}

static void attempt(struct pg *pg, const struct pg_target *target)
{
	/* What stands before dbname may be overridden by the conninfo, what stands after may not. */
	const char *keywords[] = { "target_session_attrs", "keepalives_idle", "keepalives_interval",
		"keepalives_count", "tcp_user_timeout", "fallback_application_name", "dbname",
		"client_encoding", target->host ? "host" : "", target->port ? "port" : "",
		*target->hostaddr ? "hostaddr" : "", NULL };
	const char *values[] = { "read-write", "10", "5", "2", "10000",
		pg->options.application_name, pg->options.conninfo, "UTF8", target->host,
		target->port, target->hostaddr, NULL };
	size_t n = 8;

	for (size_t i = 8; keywords[i]; i++) {
		if (!*keywords[i])
			continue;
		keywords[n] = keywords[i];
		values[n++] = values[i];
	}
	keywords[n] = NULL;
	pg->state = PG_CONNECTING;
	pg->conn = PQconnectStartParams(keywords, values, 1);
	if (!pg->conn || PQstatus(pg->conn) == CONNECTION_BAD) {
		note_error(pg, "connect");
		attempt_failed(pg);
		return;
	}
	PQsetNoticeReceiver(pg->conn, ignore_notice, NULL);
	uv_timer_start(&pg->timer, on_timeout, (uint64_t)pg->options.connect_timeout_ms, 0);
	step(pg);
}

static void on_poll_closed(uv_handle_t *handle)
{
	struct pg *pg = handle->data;

	free(handle);
	pg->pending--;
	maybe_closed(pg);
}

/* Before libpq may close its socket: libuv must not watch a descriptor that is another one now. */
static void drop_poll(struct pg *pg)
{
	if (!pg->poll)
		return;
	uv_poll_stop(pg->poll);
	uv_close((uv_handle_t *)pg->poll, on_poll_closed);
	pg->poll = NULL;
	pg->watched = 0;
}

static void on_poll(uv_poll_t *handle, int status, int events);

static int watch(struct pg *pg, int events)
{
	int rc;

	if (!pg->poll) {
		pg->poll = malloc(sizeof *pg->poll);
		if (!pg->poll)
			return UV_ENOMEM;
		rc = uv_poll_init(pg->loop, pg->poll, PQsocket(pg->conn));
		if (rc < 0) {
			free(pg->poll);
			pg->poll = NULL;
			return rc;
		}
		pg->poll->data = pg;
		pg->pending++;
	}
	if (pg->watched == events)
		return 0; /* starting again would cost libuv two system calls */
	rc = uv_poll_start(pg->poll, events, on_poll);
	if (rc == 0)
		pg->watched = events;
	return rc;
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
	struct pg *pg = handle->data;

	if (pg->poll != handle)
		return;
	if (status < 0)
		pg->watched = 0; /* libuv has stopped the handle */
	if (pg->state == PG_CONNECTING) {
		step(pg);
		return;
	}
	if (pg->state != PG_UP)
		return;
	if (events & UV_WRITABLE)
		pg_flush(pg);
	if (pg->state == PG_UP && (status < 0 || events & (UV_READABLE | UV_DISCONNECT)))
		read_results(pg);
}

static void step(struct pg *pg)
{
	PostgresPollingStatusType status;
	int rc = 0;

	drop_poll(pg);
	status = PQconnectPoll(pg->conn);
	if (status == PGRES_POLLING_READING)
		rc = watch(pg, UV_READABLE);
	else if (status == PGRES_POLLING_WRITING)
		rc = watch(pg, UV_WRITABLE);

	if (status == PGRES_POLLING_FAILED) {
		note_error(pg, "connect");
		attempt_failed(pg);
	} else if (rc < 0) {
		fail(&pg->last, LEASED_EUNAVAILABLE, "watch the connection: %s", uv_strerror(rc));
		attempt_failed(pg);
	} else if (status == PGRES_POLLING_OK) {
		connected(pg);
	}
}

static void drop_connection(struct pg *pg)
{
	uv_timer_stop(&pg->timer);
	drop_poll(pg);
	PQfinish(pg->conn);
	pg->conn = NULL;
}

static void attempt_failed(struct pg *pg)
{
	drop_connection(pg);
	try_next(pg);
}

static void connected(struct pg *pg)
{
	int rc;

	uv_timer_stop(&pg->timer);
	free_targets(pg);
	if (PQsetnonblocking(pg->conn, 1) < 0 || (rc = watch(pg, UV_READABLE)) < 0) {
		fail(&pg->last, LEASED_EUNAVAILABLE, "connect: cannot watch the connection");
		attempt_failed(pg);
		return;
	}
	pg->state = PG_UP;
	pg->in_query = false;
	pg->events->on_up(pg->owner);
}

void pg_settled(struct pg *pg)
{
	pg->failures = 0;
}

static void on_broken(uv_timer_t *timer)
{
	lost(timer->data);
}

/* Not from inside the caller: it may be in the middle of queueing. */
static void lose_later(struct pg *pg)
{
	drop_poll(pg);
	uv_timer_start(&pg->timer, on_broken, 0, 0);
}

void pg_break(struct pg *pg, const struct leased_error *why)
{
	pg->last = *why;
	lose_later(pg);
}

void pg_flush(struct pg *pg)
{
	int rc = PQflush(pg->conn);

	if (rc < 0) {
		note_error(pg, "send");
		lose_later(pg);
	} else if (watch(pg, rc == 1 ? UV_READABLE | UV_WRITABLE : UV_READABLE) < 0) {
		lose_later(pg);
	}
}

static void take_notifications(struct pg *pg)
{
	PGnotify *notify;

	while (pg->state == PG_UP && pg->events->on_notify && (notify = PQnotifies(pg->conn))) {
		pg->events->on_notify(pg->owner, notify);
		PQfreemem(notify);
	}
}

static void read_results(struct pg *pg)
{
	PGconn *conn = pg->conn;

	if (!PQconsumeInput(conn)) {
		note_error(pg, "receive");
		lost(pg);
		return;
	}
	/* Each query ends with NULL, a sync does not; a second NULL in a row means idle. */
	while (pg->conn == conn && pg->state == PG_UP && !PQisBusy(conn)) {
		PGresult *result = PQgetResult(conn);

		if (!result && !pg->in_query)
			break;
		pg->in_query = result && PQresultStatus(result) != PGRES_PIPELINE_SYNC;
		pg->events->on_result(pg->owner, result);
	}
	take_notifications(pg);
	if (pg->conn != conn || pg->state != PG_UP)
		return;
	if (PQstatus(conn) == CONNECTION_BAD) {
		note_error(pg, "receive");
		lost(pg);
		return;
	}
	pg_flush(pg);
}

static void lost(struct pg *pg)
{
	struct leased_error why = pg->last;

	drop_connection(pg);
	pg->state = PG_WAITING;
	pg->events->on_down(pg->owner, &why);
	if (pg->state == PG_WAITING)
		back_off(pg);
}

void pg_reset(struct pg *pg, const struct leased_error *why)
{
	if (pg->state != PG_UP)
		return;
	pg->last = *why;
	lost(pg);
}

static void on_wait_over(uv_timer_t *timer)
{
	start_round(timer->data);
}

static void back_off(struct pg *pg)
{
	unsigned shift = pg->failures < 6 ? pg->failures : 6;
	uint32_t base = (uint32_t)BACKOFF_FIRST_MS << shift;
	uint32_t wait = base < BACKOFF_MAX_MS ? base : BACKOFF_MAX_MS;

	pg->failures++;
	pg->state = PG_WAITING;
	/* Jitter: many daemons must not come back to a restarted server in step. */
	uv_timer_start(&pg->timer, on_wait_over, wait / 2 + randombytes_uniform(wait / 2 + 1), 0);
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct pg *pg = handle->data;

	pg->pending--;
	maybe_closed(pg);
}

void pg_close(struct pg *pg)
{
	if (pg->state == PG_CLOSING || pg->state == PG_CLOSED)
		return;
	drop_connection(pg);
	if (pg->state == PG_RESOLVING)
		uv_cancel((uv_req_t *)&pg->resolver);
	pg->state = PG_CLOSING;
	uv_close((uv_handle_t *)&pg->timer, on_timer_closed);
}
