/*
 * Every request goes to the store and comes back: an acquire to turns.c, which knows whose turn it is;
 * the other verbs are decided here. What a statement left out is looked at before it is answered:
 *
 *   submit -> STORE --------------------------> done       renewed, released, read
 *               |  left out: look at the row
 *               |-> not ours ------------------> done       ELOST, ENOTHELD
 *               '-> should have worked -> PAUSED -> STORE   the row was locked: a little later
 */
#include "engine_state.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "errands.h"
#include "places.h"
#include "status.h"
#include "turns.h"

#define LOCKED_PAUSE_MS      10
#define LOCKED_PAUSE_MAX_MS  500

static void on_answer(void *owner, struct request *req);
static void on_name_due(void *owner, struct name_queue *queue);
static void on_request_due(void *owner, struct request *req);

int engine_new(struct engine **ret_engine, uv_loop_t *loop, const struct config *config,
	struct leased_error *err)
{
	struct engine *e = calloc(1, sizeof *e);
	int rc;

	if (!e)
		return fail(err, LEASED_ENOMEM, "out of memory");
	e->config = config;
	rc = store_new(&e->store, loop, config, on_answer, e, err);
	if (rc < 0) {
		free(e);
		return rc;
	}
	waiters_init(&e->waiters, loop, e, on_name_due, on_request_due);
	list_init(&e->paused);
	uv_timer_init(loop, &e->beat);
	e->beat.data = e;
	*ret_engine = e;
	return 0;
}

void engine_finish(struct engine *e, struct request *req, int status)
{
	waiters_stop_timer(&e->waiters, req);
	if (req->verb == VERB_ACQUIRE && req->place > 0) {
		if (!e->closing) /* else it may come back to another daemon, and find its place kept */
			errand_leave(e, req->claim.name, req->place);
		places_set(e, req, 0);
	}
	req->where = REQ_DONE;
	req->status = status;
	req->done(req);
}

void engine_ask(struct engine *e, struct request *req)
{
	req->where = REQ_STORE;
	req->looking = req->verb == VERB_LOOK;
	store_submit(e->store, req);
}

void engine_look(struct engine *e, struct request *req)
{
	req->where = REQ_STORE;
	req->looking = true;
	store_submit(e->store, req);
}

int engine_submit(struct engine *e, struct request *req)
{
	if (e->closing || engine_unanswered(e) >= (size_t)e->config->max_queued)
		return LEASED_EBUSY;
	req->deadline_ms = clock_ms() + e->config->request_timeout_ms;
	if (req->verb == VERB_ACQUIRE)
		return turns_submit(e, req);
	engine_ask(e, req);
	if (req->verb == VERB_RELEASE) /* the next in line asks in the same batch */
		turns_wake(e, req->claim.name);
	return 0;
}

bool engine_same_holder(const struct claim *a, const struct claim *b)
{
	return a->nonce == b->nonce && a->pid == b->pid && text_equal(a->host, b->host) &&
	       text_equal(a->principal, b->principal);
}

bool engine_is_held(const struct lease_view *view)
{
	return view && !view->released && view->expires_in_ms > 0;
}

int64_t engine_pause_ms(unsigned round)
{
	int64_t pause = (int64_t)LOCKED_PAUSE_MS << (round < 6 ? round : 6);

	return pause < LOCKED_PAUSE_MAX_MS ? pause : LOCKED_PAUSE_MAX_MS;
}

int engine_pause(struct engine *e, struct request *req)
{
	int rc = waiters_request_timer(&e->waiters, req, clock_ms() + engine_pause_ms(req->tries));

	if (rc < 0)
		return rc;
	request_fini(req);
	req->tries++;
	req->where = REQ_PAUSED;
	list_append(&e->paused, &req->link);
	e->n_paused++;
	return 0;
}

static void end_pause(struct engine *e, struct request *req)
{
	waiters_stop_timer(&e->waiters, req);
	list_remove(&req->link);
	e->n_paused--;
}

static void retry_claim(struct engine *e, struct request *req)
{
	if (req->tries < LOCKED_TRIES_AT_ONCE) {
		req->tries++;
		engine_ask(e, req);
		return;
	}
	if (clock_ms() < req->deadline_ms && engine_pause(e, req) == 0)
		return;
	req->why = strdup("its row is locked by another transaction");
	engine_finish(e, req, LEASED_EUNAVAILABLE);
}

/* Renew and release: named by the statement, or the row tells why not. */
static void take_claim(struct engine *e, struct request *req)
{
	const struct lease_view *view = req->view;
	bool ours;

	if (req->status < 0) {
		engine_finish(e, req, req->status);
		return;
	}
	if (!req->looking) {
		if (req->found && req->verb == VERB_RELEASE)
			turns_wake(e, req->claim.name);
		if (req->found && (req->verb == VERB_RELEASE || req->expires_in_ms > 0))
			engine_finish(e, req, LEASED_OK);
		else
			engine_look(e, req);
		return;
	}
	ours = view && view->claim.token == req->claim.token &&
	       engine_same_holder(&view->claim, &req->claim);
	if (ours && engine_is_held(view))
		retry_claim(e, req);
	else if (ours && view->released && req->verb == VERB_RELEASE && (req->retry || req->uncertain))
		engine_finish(e, req, LEASED_OK);
	else
		engine_finish(e, req, ours ? LEASED_ELOST : LEASED_ENOTHELD);
}

/* The grant that was ended is in view; or the row that tells why none was. */
static void take_steal(struct engine *e, struct request *req)
{
	const struct lease_view *view = req->view;

	if (req->status < 0) {
		engine_finish(e, req, req->status);
	} else if (!req->looking && req->found) {
		turns_wake(e, req->claim.name);
		engine_finish(e, req, LEASED_OK);
	} else if (!req->looking) {
		engine_look(e, req);
	} else if (!engine_is_held(view)) {
		engine_finish(e, req, LEASED_EFREE);
	} else if (req->claim.token == 0 && view->holders > 1) {
		req->why = strdup("several hold it: say whose grant by its token");
		engine_finish(e, req, LEASED_EDATA);
	} else if (req->claim.token > 0 && view->claim.token != req->claim.token) {
		engine_finish(e, req, LEASED_ENOTHELD);
	} else {
		retry_claim(e, req);
	}
}

/* Whoever leaves while the lease may be just released leaves once more. */
static void take_leave(struct engine *e, struct request *req)
{
	if (req->status == 0 && !req->found && clock_ms() < req->deadline_ms && engine_pause(e, req) == 0)
		return;
	engine_finish(e, req, req->status);
}

static void on_answer(void *owner, struct request *req)
{
	struct engine *e = owner;

	if (req->verb == VERB_ACQUIRE)
		turns_take(e, req);
	else if (req->verb == VERB_LEAVE)
		take_leave(e, req);
	else if (req->verb == VERB_STEAL)
		take_steal(e, req);
	else if (req->verb == VERB_RENEW || req->verb == VERB_RELEASE)
		take_claim(e, req);
	else
		engine_finish(e, req, req->status);
}

static void on_name_due(void *owner, struct name_queue *queue)
{
	turns_on_name_due(owner, queue);
}

/* Rows that nobody here knew of were to go, and somebody may stand among them by now: who finds them again asks anew. */
static bool is_outdated(struct engine *e, const struct request *req)
{
	return req->verb == VERB_LEAVE && req->place < 0 && waiters_find(&e->waiters, req->claim.name);
}

static void on_request_due(void *owner, struct request *req)
{
	struct engine *e = owner;

	if (req->where == REQ_PARKED) {
		turns_on_wait_over(e, req);
	} else if (req->where == REQ_PAUSED) {
		end_pause(e, req);
		if (req->verb == VERB_ACQUIRE)
			places_on_pause_over(e, req);
		else if (is_outdated(e, req))
			engine_finish(e, req, LEASED_OK);
		else
			engine_ask(e, req);
	}
}

void engine_cancel(struct engine *e, struct request *req)
{
	if (req->verb == VERB_ACQUIRE && req->where != REQ_DONE)
		turns_cancel(e, req);
}

void engine_abandon(struct engine *e, struct request *req)
{
	if (req->verb == VERB_ACQUIRE && req->where != REQ_DONE)
		turns_abandon(e, req);
}

void engine_notified(struct engine *e, int64_t daemon, struct text name)
{
	if (daemon == store_daemon(e->store) && !turns_wake(e, name))
		errand_leave(e, name, -INT64_MAX); /* nobody here: a row that was left behind */
}

void engine_set_listening(struct engine *e, bool listening)
{
	e->listening = listening;
	if (listening) /* what the line lost with the server, and what was said meanwhile, is made good */
		places_draw_all(e);
	else
		turns_wake_all(e);
}

void engine_watch(struct engine *e, void (*on_told)(void *owner, int64_t sent_ms, bool unbroken),
	void *owner)
{
	e->on_told = on_told;
	e->on_told_owner = owner;
	if (!on_told || e->closing)
		return;
	if (!uv_is_active((uv_handle_t *)&e->beat))
		uv_timer_start(&e->beat, errand_on_beat, BEAT_MS, BEAT_MS);
	e->beat_again = true;
	errand_on_beat(&e->beat);
}

void engine_flush(struct engine *e)
{
	store_flush(e->store);
}

size_t engine_unanswered(const struct engine *e)
{
	return store_queued(e->store) + e->n_paused + e->waiters.n_brief;
}

size_t engine_waiters(const struct engine *e)
{
	return e->waiters.n_waiting;
}

struct store *engine_store(struct engine *e)
{
	return e->store;
}

/* Of the store, of the waiters and of the beat, in whatever order. */
static void on_part_closed(void *owner)
{
	struct engine *e = owner;

	if (--e->n_open > 0)
		return;
	e->closed(e->closed_data);
	free(e);
}

static void on_beat_closed(uv_handle_t *handle)
{
	on_part_closed(handle->data);
}

void engine_close(struct engine *e, void (*closed)(void *data), void *data)
{
	struct name_queue *queue, *next;

	e->closing = true;
	e->closed = closed;
	e->closed_data = data;
	HASH_ITER(hh, e->waiters.queues, queue, next)
	{
		struct request *req;

		while ((req = waiters_first(queue))) {
			waiters_leave(&e->waiters, req);
			engine_finish(e, req, LEASED_EUNAVAILABLE);
		}
		waiters_put(&e->waiters, queue);
	}
	while (!list_empty(&e->paused)) {
		struct request *req = list_entry(e->paused.next, struct request, link);

		end_pause(e, req);
		if (req->queue)
			req->queue->n_drawing--;
		engine_finish(e, req, LEASED_EUNAVAILABLE);
	}
	e->n_open = 3;
	uv_close((uv_handle_t *)&e->beat, on_beat_closed);
	store_close(e->store, on_part_closed);
	waiters_close(&e->waiters, on_part_closed);
}
