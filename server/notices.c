#include "notices.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "db_info.h"
#include "log.h"
#include "name.h"
#include "sqlstate.h"
#include "status.h"

#define PROOF_MS 3000
#define AGAIN_MS 60000

#define BEHIND_POOL "a pool stands before the database: name a direct connection in notify_database"

static void on_proof_late(uv_timer_t *timer);

static void say(struct notices *n, bool listening, const char *why)
{
	bool is_new = strcmp(n->why, why) != 0;

	snprintf(n->why, sizeof n->why, "%s", why);
	if (listening)
		log_event(LOG_INFO, "notifications_ready", NULL);
	else if (is_new)
		log_event(LOG_WARN, "notifications_unavailable", "why", 's', why, "then", 's',
			"waiters look for releases elsewhere every poll_interval", NULL);
	if (n->proved != listening) {
		n->proved = listening;
		n->events->on_state(n->owner, listening);
	}
}

/*
 * All in one: a pool that moves us to another server connection shows in the process number. The name of the channel
 * is in no statement, since pg_stat_activity shows them.
 */
static void on_up(void *owner)
{
	struct notices *n = owner;
	struct leased_error why;
	char query[400];

	n->given_up = false;
	snprintf(query, sizeof query,
		"SET LOCAL search_path = pg_catalog, pg_temp; "
		"DO $$ BEGIN EXECUTE (SELECT format('LISTEN %%I', name) FROM leased.channel); END $$; "
		"SELECT pg_notify(name, '%lld'), pg_backend_pid(), current_user, "
		"EXISTS (SELECT FROM pg_roles WHERE rolname IN (session_user, current_user) AND rolsuper) "
		"FROM leased.channel",
		(long long)n->daemon);
	if (PQsendQuery(n->pg.conn, query)) {
		uv_timer_start(&n->timer, on_proof_late, PROOF_MS, 0);
		pg_flush(&n->pg);
	} else {
		fail(&why, LEASED_EUNAVAILABLE, "cannot send to the database");
		pg_break(&n->pg, &why);
	}
}

static void on_again(uv_timer_t *timer)
{
	struct notices *n = timer->data;
	struct leased_error why;

	fail(&why, LEASED_EUNAVAILABLE, "%s", n->why);
	pg_reset(&n->pg, &why);
}

/* The connection stays as it is, and is made anew after a while. */
static void give_up(struct notices *n, const char *why)
{
	n->given_up = true;
	say(n, false, why);
	uv_timer_start(&n->timer, on_again, AGAIN_MS, 0);
}

static void on_proof_late(uv_timer_t *timer)
{
	give_up(timer->data, BEHIND_POOL);
}

/* There is no schema yet: one of the writers makes it at this moment, or says what is missing. */
static bool is_too_early(const PGresult *result)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	return sqlstate && sqlstate_is_one_of(sqlstate, "42P01 3F000");
}

static void on_result(void *owner, PGresult *result)
{
	struct notices *n = owner;
	struct leased_error refusal;
	char why[401];

	if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1) {
		if (*PQgetvalue(result, 0, 3) == 't' && !n->config->allow_superuser) {
			db_info_refuse_superuser(PQgetvalue(result, 0, 2), &refusal);
			pg_reset(&n->pg, &refusal);
		} else if (atoi(PQgetvalue(result, 0, 1)) != PQbackendPID(n->pg.conn)) {
			give_up(n, BEHIND_POOL);
		}
	} else if (result && is_too_early(result)) {
		fail(&refusal, LEASED_EUNAVAILABLE, "%s", n->why);
		pg_reset(&n->pg, &refusal);
	} else if (result && PQresultStatus(result) != PGRES_COMMAND_OK) {
		pg_error_text(why, sizeof why, PQresultErrorMessage(result));
		give_up(n, why);
	}
	PQclear(result);
}

/* The next field, up to a tab or the end. */
static struct text take_field(struct text *rest)
{
	const char *tab = memchr(rest->data, '\t', rest->len);
	size_t len = tab ? (size_t)(tab - rest->data) : rest->len;
	struct text field = { rest->data, len };

	rest->data += tab ? len + 1 : len;
	rest->len -= tab ? len + 1 : len;
	return field;
}

static bool read_number(struct text field, int64_t *ret_number)
{
	char digits[24], *end;

	if (field.len == 0 || field.len >= sizeof digits || *field.data < '0' || *field.data > '9')
		return false;
	memcpy(digits, field.data, field.len);
	digits[field.len] = '\0';
	errno = 0;
	*ret_number = strtoll(digits, &end, 10);
	return !errno && !*end;
}

bool notices_parse(const char *line, size_t len, struct notice *ret_notice)
{
	struct text rest = { line, len }, kind = take_field(&rest);
	struct notice n = { .kind = kind.len == 1 ? *kind.data : '\0' };

	if ((n.kind != 'w' && n.kind != 's') || !read_number(take_field(&rest), &n.number))
		return false;
	n.name = take_field(&rest);
	if (n.kind == 's') {
		n.principal = take_field(&rest);
		n.why = take_field(&rest);
	}
	*ret_notice = n;
	return rest.len == 0 && name_check((const uint8_t *)n.name.data, n.name.len, NULL) == 0;
}

static void take_lines(struct notices *n, const char *at)
{
	uint8_t value[VALUE_MAX_LEN];
	struct change change;
	struct notice notice;

	while (*at) {
		size_t len = strcspn(at, "\n");

		if (notices_parse(at, len, &notice) && notice.kind == 'w')
			n->events->on_turn(n->owner, notice.number, notice.name);
		else if (notices_parse(at, len, &notice))
			n->events->on_stolen(n->owner, &notice);
		else if (change_parse(&change, at, len, value))
			n->events->on_change(n->owner, &change);
		at += len + (at[len] == '\n');
	}
}

static void on_notify(void *owner, const PGnotify *notify)
{
	struct notices *n = owner;

	if (notify->be_pid == PQbackendPID(n->pg.conn) && *notify->extra >= '0' && *notify->extra <= '9') {
		uv_timer_stop(&n->timer);
		pg_settled(&n->pg);
		say(n, true, "");
		return;
	}
	take_lines(n, notify->extra);
}

static void on_down(void *owner, const struct leased_error *why)
{
	struct notices *n = owner;

	uv_timer_stop(&n->timer);
	say(n, false, why->text);
}

static void on_part_closed(struct notices *n)
{
	if (--n->pending == 0)
		n->events->on_closed(n->owner);
}

static void on_pg_closed(void *owner)
{
	on_part_closed(owner);
}

static void on_timer_closed(uv_handle_t *handle)
{
	on_part_closed(handle->data);
}

static const struct pg_events pg_events = {
	.on_up = on_up,
	.on_result = on_result,
	.on_notify = on_notify,
	.on_down = on_down,
	.on_failed = on_down,
	.on_closed = on_pg_closed,
};

int notices_start(struct notices *n, uv_loop_t *loop, const struct config *config, int64_t daemon,
	const struct notices_events *events, void *owner, struct leased_error *err)
{
	struct pg_options options = {
		.conninfo = *config->notify_database ? config->notify_database : config->database,
		.application_name = "leased listener",
		.connect_timeout_ms = config->connect_timeout_ms };
	int rc;

	*n = (struct notices){ .config = config, .daemon = daemon, .events = events, .owner = owner };
	snprintf(n->why, sizeof n->why, "not connected yet");
	rc = pg_start(&n->pg, loop, &options, &pg_events, n, err);
	if (rc < 0)
		return rc;
	uv_timer_init(loop, &n->timer);
	n->timer.data = n;
	n->open = true;
	n->pending = 2;
	return 0;
}

void notices_close(struct notices *n)
{
	if (!n->open)
		return;
	n->open = false;
	uv_close((uv_handle_t *)&n->timer, on_timer_closed);
	pg_close(&n->pg);
}
