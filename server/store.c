#include "store.h"

#include <assert.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "pending.h"
#include "sqlstate.h"
#include "status.h"

#define TICK_MS        250
#define FLIGHT_LONG_MS 20
#define FILL_ROUNDS    4 /* over the queue, to fill a batch */

static void on_help(uv_timer_t *timer);

struct store {
	struct pending pending;
	size_t n_flying;
	struct writer *writers;
	size_t n_writers, n_open;
	uv_timer_t tick, help;
	const struct config *config;
	int64_t daemon;                  /* a random number above zero */
	store_answer_cb answer;
	void (*closed)(void *owner);
	void *owner;
	bool closing;
	struct leased_error problem; /* why no connection is ready */
	struct log_limit problem_limit, failure_limit;
	struct store_stats stats;
};

/* Nothing is known of its outcome (any more). */
static void reset(struct request *req)
{
	request_fini(req);
	req->status = 0;
	req->found = false;
}

void store_submit(struct store *s, struct request *req)
{
	reset(req);
	pending_add(&s->pending, req);
}

static void answer(struct store *s, struct request *req, int status, const char *why)
{
	req->status = status;
	if (why) {
		free(req->why);
		req->why = strdup(why);
	}
	s->answer(s->owner, req);
}

/* Filling a flight. */

/*
 * What is in the batch already waits for a later one behind all others, whose places it would take again
 * and again. So that a crowd of the same costs no more than it brings, the search for others is bounded.
 */
static void add_batch(struct store *s, struct flight *f, enum verb verb, size_t max)
{
	struct batch *batch = &f->batches[f->n_batches];
	struct list surplus, *node; /* request.link */
	struct request *req;

	batch->verb = verb;
	batch->n = 0;
	list_init(&surplus);
	for (int round = 0; round < FILL_ROUNDS && batch->n < max; round++) {
		size_t before = batch->n, kept;

		while (batch->n < max && (req = pending_pop(&s->pending, verb)))
			batch->reqs[batch->n++] = req;
		if (batch->n == before)
			break;
		kept = batch_sort(batch);
		while (batch->n > kept)
			list_append(&surplus, &batch->reqs[--batch->n]->link);
	}
	while ((node = list_pop(&surplus)))
		pending_add(&s->pending, list_entry(node, struct request, link));
	if (batch->n == 0)
		return;
	f->n_requests += batch->n;
	f->n_batches++;
}

static bool has_solo(const struct store *s)
{
	return !list_empty(&s->pending.queues[PENDING_SOLO]);
}

static void fill_solo(struct store *s, struct flight *f)
{
	struct request *req = pending_pop(&s->pending, PENDING_SOLO);

	assert(req);
	f->batches[0].verb = pending_statement(req);
	f->batches[0].reqs[0] = req;
	f->batches[0].n = 1;
	f->n_batches = f->n_requests = 1;
	f->solo = true;
	f->aside = verb_is_aside(f->batches[0].verb);
}

/*
 * Both statements of acquires may make rows, each in the order of the names. In one transaction that would be no
 * order, and two daemons might wait for each other: when both are wanted they take turns.
 */
static enum verb without(const struct store *s, struct flight *f)
{
	if (list_empty(&s->pending.queues[VERB_ACQUIRE]) || list_empty(&s->pending.queues[VERB_ACQUIRE_LIMITED]))
		return VERB_COUNT;
	f->had_limited = !f->had_limited;
	return f->had_limited ? VERB_ACQUIRE : VERB_ACQUIRE_LIMITED;
}

static void fill(struct store *s, struct flight *f)
{
	bool was_solo = f->solo;
	enum verb left_out;

	f->n_batches = f->n_requests = 0;
	f->solo = f->aside = false;
	/* Turn about, so that neither kind waits for all of the other. */
	if (has_solo(s) && !was_solo) {
		fill_solo(s, f);
		return;
	}
	left_out = without(s, f);
	for (enum verb verb = VERB_RELEASE; verb < VERB_LIST; verb++)
		if (verb != left_out)
			add_batch(s, f, verb, (size_t)s->config->batch_max);
	for (enum verb verb = VERB_LIST; verb <= VERB_HELD; verb++)
		for (size_t i = 0; i < WRITER_LISTS_MAX && !list_empty(&s->pending.queues[verb]); i++)
			add_batch(s, f, verb, 1);
	if (f->n_batches == 0 && has_solo(s))
		fill_solo(s, f);
}

static void send_to(struct store *s, struct writer *w)
{
	s->n_flying += w->flight.n_requests;
	s->stats.flights++;
	s->stats.rows += w->flight.n_requests;
	writer_send(w);
}

/*
 * One busy connection gathers larger batches than two that share the work: the next one helps only
 * when there is a batch's worth to do, or when a flight lasts long (a row lock, a slow disk).
 */
static bool needs_help(const struct store *s, int64_t now)
{
	if (s->pending.n >= (size_t)s->config->batch_max)
		return true;
	for (size_t i = 0; i < s->n_writers; i++)
		if (s->writers[i].state == WRITER_BUSY && !s->writers[i].flight.aside &&
			now - s->writers[i].flight.sent_ms < FLIGHT_LONG_MS)
			return false;
	return true;
}

/*
 * Reads of the past and housekeeping: one at a time, alone in its flight, on the last idle connection.
 * So the leases find the first one free; where there is only one, they take turns with it.
 */
static void send_aside(struct store *s)
{
	enum verb verb = pending_first_aside(&s->pending);
	struct writer *w = NULL;
	size_t n_idle = 0;

	for (size_t i = 0; i < s->n_writers && verb < VERB_COUNT; i++) {
		if (s->writers[i].state == WRITER_BUSY && s->writers[i].flight.aside)
			return;
		if (s->writers[i].state == WRITER_IDLE) {
			w = &s->writers[i];
			n_idle++;
		}
	}
	if (!w || (n_idle == 1 && w->flight.aside && pending_has_leases(&s->pending)))
		return;
	w->flight.n_batches = w->flight.n_requests = 0;
	w->flight.solo = false;
	w->flight.aside = true;
	add_batch(s, &w->flight, verb, 1);
	send_to(s, w);
}

void store_flush(struct store *s)
{
	int64_t now = s->pending.n > 0 ? clock_ms() : 0;

	if (s->pending.n > 0)
		send_aside(s);
	for (size_t i = 0; i < s->n_writers && pending_has_leases(&s->pending); i++) {
		if (s->writers[i].state == WRITER_IDLE && needs_help(s, now)) {
			fill(s, &s->writers[i].flight);
			send_to(s, &s->writers[i]);
		}
	}
	if (s->pending.n > 0 && !uv_is_active((uv_handle_t *)&s->help))
		uv_timer_start(&s->help, on_help, FLIGHT_LONG_MS, 0);
}

static void on_help(uv_timer_t *timer)
{
	store_flush(timer->data);
}

/* Landing. */

typedef void (*land_cb)(struct store *s, struct request *req, const void *arg);

static void land(struct store *s, struct flight *f, land_cb each, const void *arg)
{
	size_t n_batches = f->n_batches;

	s->n_flying -= f->n_requests;
	f->n_batches = f->n_requests = 0;
	for (size_t i = 0; i < n_batches; i++)
		for (size_t k = 0; k < f->batches[i].n; k++)
			each(s, f->batches[i].reqs[k], arg);
}

static void land_done(struct store *s, struct request *req, const void *arg)
{
	(void)arg;
	req->solo = false;
	answer(s, req, 0, NULL);
}

static void on_done(struct writer *w)
{
	land(w->owner, &w->flight, land_done, NULL);
}

static void land_again(struct store *s, struct request *req, const void *arg)
{
	(void)arg;
	reset(req);
	req->solo = true;
	pending_add(&s->pending, req);
}

static void land_lost(struct store *s, struct request *req, const void *arg)
{
	(void)arg;
	reset(req);
	req->uncertain = true;
	pending_add_first(&s->pending, req);
}

struct failure {
	int status;
	const char *why;
};

static void land_failed(struct store *s, struct request *req, const void *arg)
{
	const struct failure *failure = arg;

	answer(s, req, failure->status, failure->why);
}

static void on_error(struct writer *w, const char *sqlstate, const char *text)
{
	struct store *s = w->owner;
	char why[512];
	struct failure failure = { LEASED_EUNAVAILABLE, why };
	struct leased_error problem;
	uint32_t left_out;

	s->stats.failed++;
	if (log_allowed(&s->failure_limit, clock_ms(), &left_out))
		log_event(LOG_WARN, "batch_failed", "sqlstate", 's', sqlstate, "text", 's', text,
			"requests", 'u', (uint64_t)w->flight.n_requests, "solo", 's',
			w->flight.solo ? "yes" : "no", "left_out", 'u', (uint64_t)left_out, NULL);
	if (sqlstate_is_of_the_connection(sqlstate) ||
		(sqlstate_is_of_the_schema(sqlstate) && !w->flight.aside)) {
		fail(&problem, LEASED_EUNAVAILABLE, "the database refuses to work: %s (%s)", text,
			sqlstate);
		land(s, &w->flight, land_lost, NULL);
		s->problem = problem;
		writer_give_up(w, &problem);
		return;
	}
	if ((!w->flight.solo && !w->flight.aside) || sqlstate_is_one_of(sqlstate, "40001 40P01")) {
		land(s, &w->flight, land_again, NULL);
		return;
	}
	if (sqlstate_is_one_of(sqlstate, "55P03 57014"))
		snprintf(why, sizeof why, "the lease's row is locked by another transaction, or the database is too slow: %s",
			text);
	else
		snprintf(why, sizeof why, "the database refused it: %s (%s)", text, sqlstate);
	/* Class 22: a text that the database's encoding cannot hold, say. */
	if (strncmp(sqlstate, "22", 2) == 0)
		failure.status = LEASED_EDATA;
	land(s, &w->flight, land_failed, &failure);
}

static void say_problem(struct store *s, const struct leased_error *why)
{
	uint32_t left_out;
	bool is_new = strcmp(s->problem.text, why->text) != 0;

	s->problem = *why;
	if (is_new && log_allowed(&s->problem_limit, clock_ms(), &left_out))
		log_event(LOG_WARN, "database_unavailable", "why", 's', why->text, "left_out", 'u',
			(uint64_t)left_out, NULL);
}

static void on_lost(struct writer *w, const struct leased_error *why)
{
	struct store *s = w->owner;

	if (w->flight.n_requests > 0)
		s->stats.lost++;
	land(s, &w->flight, land_lost, NULL);
	if (why->status != LEASED_ECANCELLED) /* its own doing: another daemon was faster */
		say_problem(s, why);
}

static void on_problem(struct writer *w, const struct leased_error *why)
{
	say_problem(w->owner, why);
}

static void on_idle(struct writer *w)
{
	struct store *s = w->owner;

	(void)w;
	s->problem = (struct leased_error){ 0 };
	if (!s->closing)
		store_flush(s);
}

/* Deadlines. */

static void answer_overdue(struct store *s, int64_t now)
{
	char why[LEASED_ERROR_LEN];
	struct list overdue, *node;

	snprintf(why, sizeof why, "the database did not answer in time%s%s", *s->problem.text ? ": " : "",
		s->problem.text);
	pending_take_overdue(&s->pending, now, &overdue);
	while ((node = list_pop(&overdue)))
		answer(s, list_entry(node, struct request, link), LEASED_EUNAVAILABLE, why);
}

static void on_tick(uv_timer_t *timer)
{
	struct store *s = timer->data;
	int64_t now = clock_ms();
	struct leased_error why;

	for (size_t i = 0; i < s->n_writers; i++) {
		struct writer *w = &s->writers[i];

		if (w->state != WRITER_BUSY ||
			now - w->flight.sent_ms < s->config->request_timeout_ms)
			continue;
		fail(&why, LEASED_EUNAVAILABLE, "the database has not answered a batch for %lld ms",
			(long long)(now - w->flight.sent_ms));
		writer_give_up(w, &why);
	}
	answer_overdue(s, now);
}

/* Life. */

static void maybe_closed(struct store *s)
{
	void (*closed)(void *) = s->closed;
	void *owner = s->owner;

	if (s->n_open > 0)
		return;
	free(s->writers);
	free(s);
	if (closed)
		closed(owner);
}

static void on_writer_closed(struct writer *w)
{
	struct store *s = w->owner;

	s->n_open--;
	maybe_closed(s);
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct store *s = handle->data;

	s->n_open--;
	maybe_closed(s);
}

static const struct writer_events writer_events = {
	.on_idle = on_idle,
	.on_done = on_done,
	.on_error = on_error,
	.on_lost = on_lost,
	.on_problem = on_problem,
	.on_closed = on_writer_closed,
};

int store_new(struct store **ret_store, uv_loop_t *loop, const struct config *config,
	store_answer_cb answer_cb, void *owner, struct leased_error *err)
{
	struct store *s = calloc(1, sizeof *s);
	int rc = 0;

	if (!s)
		return fail(err, LEASED_ENOMEM, "out of memory");
	pending_init(&s->pending);
	s->config = config;
	randombytes_buf(&s->daemon, sizeof s->daemon);
	s->daemon = (s->daemon & INT64_MAX) | 1;
	s->answer = answer_cb;
	s->owner = owner;
	fail(&s->problem, LEASED_EUNAVAILABLE, "not connected to the database yet");
	s->writers = calloc((size_t)config->writers, sizeof *s->writers);
	if (!s->writers) {
		free(s);
		return fail(err, LEASED_ENOMEM, "out of memory");
	}
	uv_timer_init(loop, &s->tick);
	s->tick.data = s;
	uv_timer_start(&s->tick, on_tick, TICK_MS, TICK_MS);
	uv_timer_init(loop, &s->help);
	s->help.data = s;
	s->n_open = 2;
	for (int i = 0; i < config->writers && rc == 0; i++) {
		rc = writer_start(&s->writers[i], loop, config, s->daemon, i + 1, &writer_events, s, err);
		if (rc == 0) {
			s->n_writers++;
			s->n_open++;
		}
	}
	if (rc < 0)
		store_close(s, NULL);
	else
		*ret_store = s;
	return rc;
}

size_t store_queued(const struct store *s)
{
	return s->pending.n + s->n_flying;
}

static const struct writer *ready_writer(const struct store *s)
{
	for (size_t i = 0; i < s->n_writers; i++)
		if (s->writers[i].state == WRITER_IDLE || s->writers[i].state == WRITER_BUSY)
			return &s->writers[i];
	return NULL;
}

bool store_is_ready(const struct store *s)
{
	return ready_writer(s) != NULL;
}

void store_info(const struct store *s, struct db_info *ret_info, char *problem, size_t size)
{
	const struct writer *w = ready_writer(s);

	*ret_info = w ? w->info : s->writers[0].info;
	snprintf(problem, size, "%s", w ? "" : s->problem.text);
}

int64_t store_daemon(const struct store *s)
{
	return s->daemon;
}

const struct store_stats *store_stats(const struct store *s)
{
	return &s->stats;
}

void store_close(struct store *s, void (*closed)(void *owner))
{
	s->closing = true;
	s->closed = closed;
	for (size_t i = 0; i < s->n_writers; i++) {
		land(s, &s->writers[i].flight, land_lost, NULL);
		writer_close(&s->writers[i]);
	}
	while (s->pending.n > 0) /* what an answer brings forth is answered too */
		answer_overdue(s, INT64_MAX);
	uv_close((uv_handle_t *)&s->tick, on_timer_closed);
	uv_close((uv_handle_t *)&s->help, on_timer_closed);
}
