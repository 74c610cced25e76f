/*
 * Each connection comes up the same way, one round trip a step:
 *
 *   on_up -> PROBE -> VERSION -> [MIGRATE -> start over] -> PREPARE -> IDLE <-> BUSY
 *
 * Up to VERSION simple queries are used, then the pipeline: a flight is the settings (through a pool),
 * one statement a verb, and one sync, which makes it one transaction (PostgreSQL, libpq, "Pipeline
 * Mode"). Releases go first, so that whoever waits for them is granted in the same flight.
 */
#include "writer.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "sql.h"
#include "status.h"

static void on_up(void *owner);
static void take_probe(struct writer *w, PGresult *result);
static void take_version(struct writer *w, PGresult *result);
static void prepare(struct writer *w);
static void round_trip_over(struct writer *w);

static const struct statement {
	const char *name, *text;
} statements[VERB_COUNT] = {
	[VERB_RELEASE] = { "release", sql_release },
	[VERB_RELEASE_AGAIN] = { "release_again", sql_release_again },
	[VERB_RENEW] = { "renew", sql_renew },
	[VERB_RENEW_VALUE] = { "renew_value", sql_renew_value },
	[VERB_ACQUIRE] = { "acquire", sql_acquire },
	[VERB_ACQUIRE_LIMITED] = { "acquire_limited", sql_acquire_limited },
	[VERB_STEAL] = { "steal", sql_steal },
	[VERB_LOOK] = { "look", sql_look },
	[VERB_QUEUE] = { "queue", sql_queue },
	[VERB_LEAVE] = { "leave", sql_leave },
	[VERB_BEAT] = { "beat", sql_beat },
	[VERB_EXPIRY] = { "expiry", sql_expiry },
	[VERB_CHANGING] = { "changing", sql_changing },
	[VERB_LOOK_SEVERAL] = { "look_several", sql_look_several },
	[VERB_LIST] = { "list", sql_list },
	[VERB_HELD] = { "held", sql_held },
	[VERB_HISTORY] = { "history", sql_history },
	[VERB_LAPSED] = { "lapsed", sql_lapsed },
	[VERB_FAILED] = { "failed", sql_failed },
	[VERB_TRIM] = { "trim", sql_trim },
};

/*
 * A flight that changes nothing but the line of waiters need not reach the disk: see
 * engine_set_listening(). Nor need one that trims, since a crash only makes it trim once more; so it
 * has its rows locked for a moment only.
 */
static const char not_durable[] = "SELECT set_config('synchronous_commit', 'off', true)";

/* READ COMMITTED whatever the database's default, where a session setting cannot do it. */
static const char set_isolation[] = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED";

const char *writer_state_name(enum writer_state state)
{
	static const char *const names[] = { "down", "probe", "version", "migrate", "prepare", "idle",
		"busy", "closing" };

	return names[state];
}

static void move_to(struct writer *w, enum writer_state state)
{
	log_event(LOG_DEBUG, "writer", "name", 's', w->application_name, "from", 's',
		writer_state_name(w->state), "to", 's', writer_state_name(state), NULL);
	w->state = state;
}

/* Not a server to work with: say so and try again later, perhaps on another host. */
static void refuse(struct writer *w, const struct leased_error *why)
{
	w->events->on_problem(w, why);
	pg_reset(&w->pg, why);
}

static void send_query(struct writer *w, enum writer_state state, const char *text)
{
	struct leased_error why;

	move_to(w, state);
	if (PQsendQuery(w->pg.conn, text)) {
		pg_flush(&w->pg);
		return;
	}
	fail(&why, LEASED_EUNAVAILABLE, "cannot send to the database");
	refuse(w, &why);
}

static void on_up(void *owner)
{
	send_query(owner, WRITER_PROBE, sql_probe);
}

static void take_probe(struct writer *w, PGresult *result)
{
	struct leased_error why;

	if (db_info_take_probe(&w->info, w->pg.conn, result, &why) < 0 ||
		(w->info.is_superuser && !w->config->allow_superuser &&
			db_info_refuse_superuser(w->info.user, &why) < 0))
		refuse(w, &why);
}

static void start_migration(struct writer *w)
{
	char *script = sql_migration(w->info.schema_found);
	struct leased_error why;

	if (!script) {
		fail(&why, LEASED_ENOMEM, "out of memory");
		refuse(w, &why);
		return;
	}
	send_query(w, WRITER_MIGRATE, script);
	free(script);
}

/* Told by the one that has done it: the others were too late, and only look again. */
static void migrated(struct writer *w)
{
	log_event(LOG_INFO, "schema_apply", "from", 'd', (int64_t)w->info.schema_found, "to", 'd',
		(int64_t)w->info.schema_wanted, NULL);
	on_up(w);
}

static void after_version(struct writer *w)
{
	int found = w->info.schema_found, wanted = w->info.schema_wanted;
	struct leased_error why;

	if (found == wanted) {
		prepare(w);
	} else if (found > wanted) {
		fail(&why, LEASED_ECONFIG,
			"the schema is at version %d, newer than %d of this daemon: use a newer leased",
			found, wanted);
		refuse(w, &why);
	} else if (w->config->schema_apply) {
		start_migration(w);
	} else {
		fail(&why, LEASED_ECONFIG,
			"the schema is at version %d, %d is needed: run `leased schema apply`", found,
			wanted);
		refuse(w, &why);
	}
}

static void after_probe(struct writer *w)
{
	if (w->info.schema_found < 0)
		send_query(w, WRITER_VERSION, sql_version);
	else
		after_version(w);
}

static void take_version(struct writer *w, PGresult *result)
{
	struct leased_error why;

	if (db_info_take_version(&w->info, result, &why) < 0)
		refuse(w, &why);
}

static int send_settings(struct writer *w)
{
	char statement_timeout[24], lock_timeout[24];
	const char *values[] = { statement_timeout, lock_timeout, w->info.pooled ? "t" : "f" };

	snprintf(statement_timeout, sizeof statement_timeout, "%lld",
		(long long)w->config->statement_timeout_ms);
	snprintf(lock_timeout, sizeof lock_timeout, "%lld", (long long)w->config->lock_timeout_ms);
	return PQsendQueryParams(w->pg.conn, sql_settings, 3, NULL, values, NULL, NULL, 0);
}

/* Through a pool nothing of a session lasts: then each flight brings its settings and its statements. */
static void prepare(struct writer *w)
{
	struct leased_error why;
	int ok = PQenterPipelineMode(w->pg.conn);

	move_to(w, WRITER_PREPARE);
	w->failed = false;
	ok = ok && send_settings(w);
	/* Looks at the system identifier too, once for each connection. */
	ok = ok && PQsendQueryParams(w->pg.conn, "SELECT leased.epoch_base() >> 41, leased.timeline()", 0, NULL, NULL,
			   NULL, NULL, 0);
	for (size_t i = 0; ok && !w->info.pooled && i < VERB_COUNT; i++)
		ok = PQsendPrepare(w->pg.conn, statements[i].name, statements[i].text, 0, NULL);
	ok = ok && PQpipelineSync(w->pg.conn);
	if (ok) {
		pg_flush(&w->pg);
		return;
	}
	fail(&why, LEASED_EUNAVAILABLE, "prepare: cannot send");
	refuse(w, &why);
}

static void note_failure(struct writer *w, const PGresult *result)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

	if (w->failed)
		return;
	w->failed = true;
	snprintf(w->sqlstate, sizeof w->sqlstate, "%s", sqlstate ? sqlstate : "");
	pg_error_text(w->error_text, sizeof w->error_text,
		text ? text : PQresultErrorMessage(result));
}

static void refuse_by_failure(struct writer *w, const char *what)
{
	struct leased_error why;
	bool raced = strcmp(w->sqlstate, "LE004") == 0;
	const char *advice = "";

	if (strcmp(w->sqlstate, "42501") == 0)
		advice = w->state == WRITER_MIGRATE ?
				 ": let the owner of the schema, or an administrator, run `leased schema apply`" :
				 ": GRANT leased_daemon TO the daemon's role (`leased schema roles` makes leased_daemon)";
	fail(&why, raced ? LEASED_ECANCELLED : LEASED_EUNAVAILABLE, "%s: %s%s", what, w->error_text, advice);
	if (raced) /* another daemon was faster: look again, nothing to tell */
		pg_reset(&w->pg, &why);
	else
		refuse(w, &why);
}

/* The results of simple queries before the pipeline; NULL ends one. */
static void take_setup(struct writer *w, PGresult *result)
{
	ExecStatusType status = PQresultStatus(result);

	if (!result) {
		if (w->failed)
			refuse_by_failure(w, w->state == WRITER_MIGRATE ? "apply the schema" :
					     w->state == WRITER_VERSION ? "read the schema" : "probe");
		else if (w->state == WRITER_PROBE)
			after_probe(w);
		else if (w->state == WRITER_VERSION)
			after_version(w);
		else
			migrated(w);
		return;
	}
	if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
		note_failure(w, result);
	else if (w->state == WRITER_PROBE && PQntuples(result) == 1)
		take_probe(w, result);
	else if (w->state == WRITER_VERSION && PQntuples(result) == 1)
		take_version(w, result);
}

static void log_ready(const struct writer *w)
{
	const struct db_info *info = &w->info;

	log_event(LOG_INFO, "database_ready", "connection", 's', w->application_name, "host", 's',
		info->host, "database", 's', info->database, "version", 's', info->version,
		"schema", 'd', (int64_t)info->schema_found, "timeline", 'd', (int64_t)info->timeline,
		"pooled", 's', info->pooled ? "yes" : "no", "synchronous_commit", 's',
		info->synchronous_commit, "clock_offset_ms", 'd', info->clock_offset_us / 1000, NULL);
}

/* The results of the pipeline: of each statement its result, then NULL; at the end the sync. */
static void take_pipeline(struct writer *w, PGresult *result)
{
	struct flight *f = &w->flight;

	if (!result) {
		w->at++;
		return;
	}
	switch (PQresultStatus(result)) {
	case PGRES_PIPELINE_SYNC: round_trip_over(w); break;
	case PGRES_PIPELINE_ABORTED: break;
	case PGRES_COMMAND_OK: break;
	case PGRES_TUPLES_OK:
		if (w->state == WRITER_PREPARE && PQnfields(result) == 2) {
			w->info.epoch = (uint32_t)atoi(PQgetvalue(result, 0, 0));
			w->info.timeline = atoi(PQgetvalue(result, 0, 1));
		}
		if (w->state != WRITER_BUSY || w->at < w->n_ahead)
			break;
		if (w->at - w->n_ahead < f->n_batches &&
			batch_decode(&f->batches[w->at - w->n_ahead], result) == 0)
			break;
		/* The transaction may commit all the same: the outcome is unknown. */
		writer_give_up(w, &(struct leased_error){ .status = LEASED_EINTERNAL,
					.text = "the database answered with rows of another shape" });
		break;
	default: note_failure(w, result); break;
	}
}

static void round_trip_over(struct writer *w)
{
	bool prepared = w->state == WRITER_PREPARE;
	bool failed = w->failed;

	w->failed = false;
	if (prepared && failed) {
		w->failed = true;
		refuse_by_failure(w, "prepare");
		return;
	}
	move_to(w, WRITER_IDLE);
	if (prepared)
		log_ready(w);
	else if (failed)
		w->events->on_error(w, w->sqlstate, w->error_text);
	else
		w->events->on_done(w);
	if (w->state != WRITER_IDLE)
		return;
	if (!prepared) /* that it lets us in does not prove that it works */
		pg_settled(&w->pg);
	w->events->on_idle(w);
}

static void on_result(void *owner, PGresult *result)
{
	struct writer *w = owner;

	if (w->state >= WRITER_PREPARE)
		take_pipeline(w, result);
	else
		take_setup(w, result);
	PQclear(result);
}

static void on_down(void *owner, const struct leased_error *why)
{
	struct writer *w = owner;

	move_to(w, WRITER_DOWN);
	w->failed = false;
	w->events->on_lost(w, why);
}

static void on_failed(void *owner, const struct leased_error *why)
{
	struct writer *w = owner;

	w->events->on_problem(w, why);
}

static void on_pg_closed(void *owner)
{
	struct writer *w = owner;

	params_fini(&w->params);
	w->events->on_closed(w);
}

static const struct pg_events pg_events = {
	.on_up = on_up,
	.on_result = on_result,
	.on_down = on_down,
	.on_failed = on_failed,
	.on_closed = on_pg_closed,
};

int writer_start(struct writer *w, uv_loop_t *loop, const struct config *config, int64_t daemon, int index,
	const struct writer_events *events, void *owner, struct leased_error *err)
{
	struct pg_options options = { .conninfo = config->database,
		.application_name = w->application_name,
		.connect_timeout_ms = config->connect_timeout_ms };

	db_info_init(&w->info);
	w->config = config;
	w->daemon = daemon;
	w->events = events;
	w->owner = owner;
	for (size_t i = 0; i < WRITER_BATCHES_MAX; i++)
		w->flight.batches[i].reqs = w->reqs[i];
	snprintf(w->application_name, sizeof w->application_name, "leased writer %d", index);
	return pg_start(&w->pg, loop, &options, &pg_events, w, err);
}

static int send_batch(struct writer *w, struct batch *batch)
{
	const struct statement *s = &statements[batch->verb];
	struct params *p = &w->params;

	batch->epoch = w->info.pooled ? -1 : (int32_t)w->info.epoch;
	batch->daemon = w->daemon;
	batch->slot_keep_ms = w->config->slot_keep_ms;
	batch->keeps_history = w->config->history_keep_ms > 0;
	if (batch_encode(batch, p) < 0)
		return 0;
	if (w->info.pooled)
		return PQsendQueryParams(w->pg.conn, s->text, p->n, NULL, p->values, p->lengths,
			p->formats, 1);
	return PQsendQueryPrepared(w->pg.conn, s->name, p->n, p->values, p->lengths, p->formats, 1);
}

static bool must_be_durable(const struct flight *f)
{
	for (size_t i = 0; i < f->n_batches; i++)
		if (f->batches[i].verb < VERB_LOOK)
			return true;
	return false;
}

static bool writes(const struct flight *f)
{
	for (size_t i = 0; i < f->n_batches; i++)
		if (f->batches[i].verb != VERB_LOOK && f->batches[i].verb != VERB_CHANGING &&
			(f->batches[i].verb < VERB_LIST || f->batches[i].verb == VERB_TRIM))
			return true;
	return false;
}

/* What goes ahead of the statements; through a pool also the isolation level and the settings. */
static int send_ahead(struct writer *w)
{
	int ok = 1;

	w->n_ahead = 0;
	if (w->info.pooled && strcmp(w->info.isolation, "read committed") != 0) {
		ok = PQsendQueryParams(w->pg.conn, set_isolation, 0, NULL, NULL, NULL, NULL, 0);
		w->n_ahead++;
	}
	if (w->info.pooled) {
		ok = ok && send_settings(w);
		w->n_ahead++;
	}
	if (writes(&w->flight) && !must_be_durable(&w->flight)) {
		ok = ok && PQsendQueryParams(w->pg.conn, not_durable, 0, NULL, NULL, NULL, NULL, 0);
		w->n_ahead++;
	}
	return ok;
}

void writer_send(struct writer *w)
{
	struct flight *f = &w->flight;
	struct leased_error why;
	int ok;

	move_to(w, WRITER_BUSY);
	w->at = 0;
	w->failed = false;
	f->sent_ms = clock_ms();
	ok = send_ahead(w);
	for (size_t i = 0; ok && i < f->n_batches; i++)
		ok = send_batch(w, &f->batches[i]);
	ok = ok && PQpipelineSync(w->pg.conn);
	if (ok) {
		pg_flush(&w->pg);
		return;
	}
	/* Half a flight is queued in libpq: it cannot be taken back, only dropped with the connection. */
	fail(&why, LEASED_ENOMEM, "out of memory while a batch was sent");
	pg_break(&w->pg, &why);
}

void writer_give_up(struct writer *w, const struct leased_error *why)
{
	pg_reset(&w->pg, why);
}

void writer_close(struct writer *w)
{
	move_to(w, WRITER_CLOSING);
	pg_close(&w->pg);
}
