/*
 * The life of a request:
 *
 *   submit -> STORE --------------------------------> done        granted, renewed, released, read
 *               |  left out: look at the row (STORE)
 *               |-> held by another ----------------> done        EHELD, ELOST, ENOTHELD ...
 *               |-> held, and it waits -> PARKED ---> STORE       its turn: release, expiry or poll
 *               '-> should have worked -> PAUSED ---> STORE       the row was locked: a little later
 *
 * Of each name only one acquire is in the store at a time, the one whose turn it is; the others stand
 * behind it in the name's queue. So a crowd costs one statement a turn, whatever its size.
 */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "status.h"
#include "waiters.h"

/* A row that should have been free or ours but was locked: asked again so often, in growing pauses. */
#define LOCKED_TRIES_AT_ONCE 2
#define LOCKED_TRIES_MAX     8
#define LOCKED_PAUSE_MS      10
#define LOCKED_PAUSE_MAX_MS  500

struct engine {
	struct store *store;
	struct waiters waiters;
	const struct config *config;
	bool closing;
	unsigned n_open; /* parts that have not closed yet */
	void (*closed)(void *data);
	void *closed_data;
};

static void on_answer(void *owner, struct request *req);
static void take_acquire(struct engine *e, struct request *req);
static void granted(struct engine *e, struct request *req);
static void held(struct engine *e, struct request *req);
static void not_to_be_had(struct engine *e, struct request *req);
static void take_claim(struct engine *e, struct request *req);
static void next_turn(struct engine *e, struct name_queue *queue);
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
	*ret_engine = e;
	return 0;
}

static void finish(struct engine *e, struct request *req, int status)
{
	waiters_stop_timer(&e->waiters, req);
	req->status = status;
	req->done(req);
}

static void ask(struct engine *e, struct request *req)
{
	req->where = REQ_STORE;
	req->looking = req->verb == VERB_LOOK;
	store_submit(e->store, req);
}

/* Reads the row: why was it left out? */
static void look(struct engine *e, struct request *req)
{
	req->where = REQ_STORE;
	req->looking = true;
	store_submit(e->store, req);
}

static void ask_first(struct engine *e, struct name_queue *queue, struct request *req)
{
	queue->asking = req;
	queue->again = false;
	req->queue = queue;
	ask(e, req);
}

/* A name somebody stands in line for: behind them, unless the row says that it is ours already. */
static int join(struct engine *e, struct name_queue *queue, struct request *req)
{
	int rc;

	if (req->wait_ms == 0 && !queue->asking) {
		look(e, req); /* not in the queue: it only learns who holds it */
		return 0;
	}
	if (req->wait_ms > 0) {
		rc = waiters_request_timer(&e->waiters, req, req->wait_until_ms);
		if (rc < 0)
			return rc;
	}
	waiters_join(&e->waiters, queue, req, false);
	return 0;
}

static int submit_acquire(struct engine *e, struct request *req)
{
	struct name_queue *queue = waiters_get(&e->waiters, req->claim.name);

	if (!queue)
		return LEASED_ENOMEM;
	req->wait_until_ms = clock_ms() + req->wait_ms;
	if (!queue->asking && list_empty(&queue->waiting)) {
		ask_first(e, queue, req);
		return 0;
	}
	if (e->waiters.n_waiting >= (size_t)e->config->max_waiters)
		return LEASED_EBUSY;
	return join(e, queue, req);
}

/* The next in line asks now, in the same batch as what made it worth while. */
static void wake(struct engine *e, struct text name)
{
	struct name_queue *queue = waiters_find(&e->waiters, name);

	if (!queue)
		return;
	if (queue->asking)
		queue->again = true;
	else
		next_turn(e, queue);
}

int engine_submit(struct engine *e, struct request *req)
{
	if (e->closing || store_queued(e->store) >= (size_t)e->config->max_queued)
		return LEASED_EBUSY;
	req->deadline_ms = clock_ms() + e->config->request_timeout_ms;
	if (req->verb == VERB_ACQUIRE)
		return submit_acquire(e, req);
	ask(e, req);
	if (req->verb == VERB_RELEASE)
		wake(e, req->claim.name);
	return 0;
}

/* What the store answers. */

static bool same_holder(const struct claim *a, const struct claim *b)
{
	return a->nonce == b->nonce && a->pid == b->pid && a->host.len == b->host.len &&
	       memcmp(a->host.data, b->host.data, a->host.len) == 0 &&
	       a->principal.len == b->principal.len &&
	       memcmp(a->principal.data, b->principal.data, a->principal.len) == 0;
}

static bool is_held(const struct lease_view *view)
{
	return view && !view->released && view->expires_in_ms > 0;
}

static bool is_taken(const struct lease_view *view)
{
	return view && view->expires_in_ms > 0;
}

static void on_answer(void *owner, struct request *req)
{
	struct engine *e = owner;

	if (req->verb == VERB_ACQUIRE)
		take_acquire(e, req);
	else if (req->verb == VERB_RENEW || req->verb == VERB_RELEASE)
		take_claim(e, req);
	else
		finish(e, req, req->status);
}

/* Its turn is over: the queue may go on. */
static struct name_queue *step_down(struct request *req)
{
	struct name_queue *queue = req->queue;

	req->queue = NULL;
	if (queue)
		queue->asking = NULL;
	return queue;
}

static void fail_acquire(struct engine *e, struct request *req, int status)
{
	struct name_queue *queue = step_down(req);

	if (queue)
		next_turn(e, queue);
	finish(e, req, status);
}

static void park(struct engine *e, struct name_queue *queue, int64_t expires_in_ms)
{
	int64_t wait = expires_in_ms + 1;

	if (list_empty(&queue->waiting)) {
		waiters_put(&e->waiters, queue);
		return;
	}
	if (wait > e->config->poll_interval_ms)
		wait = e->config->poll_interval_ms;
	waiters_name_timer(&e->waiters, queue, clock_ms() + wait);
}

/* Why a request that found the name held does not wait (any longer); 0 when it does. */
static int why_not_wait(const struct request *req)
{
	if (req->cancelled)
		return LEASED_ECANCELLED;
	if (req->wait_ms == 0)
		return LEASED_EHELD;
	return clock_ms() >= req->wait_until_ms ? LEASED_ETIMEDOUT : 0;
}

/* A wait can be longer than the timeout of one question. */
static void wait_on(struct engine *e, struct name_queue *queue, struct request *req)
{
	request_fini(req);
	if (req->wait_ms > 0 && waiters_request_timer(&e->waiters, req, req->wait_until_ms) < 0) {
		finish(e, req, LEASED_ENOMEM);
		return;
	}
	waiters_join(&e->waiters, queue, req, true);
}

/* Its turn brought no answer: it stays first in line and asks again after a pause. */
static void stay_first(struct engine *e, struct request *req, int64_t pause_ms)
{
	struct name_queue *queue = step_down(req);

	wait_on(e, queue, req);
	park(e, queue, pause_ms);
}

static void take_acquire(struct engine *e, struct request *req)
{
	if (req->status == LEASED_EUNAVAILABLE && req->queue && !why_not_wait(req) && !e->closing) {
		stay_first(e, req, e->config->poll_interval_ms); /* a wait outlasts an outage */
	} else if (req->status < 0) {
		fail_acquire(e, req, req->status);
	} else if (!req->looking) {
		if (req->found && req->expires_in_ms > 0)
			granted(e, req);
		else
			look(e, req);
	} else if (is_held(req->view) && same_holder(&req->view->claim, &req->claim)) {
		req->claim.token = req->view->claim.token; /* asked again with the same nonce */
		req->expires_in_ms = req->view->expires_in_ms;
		granted(e, req);
	} else if (is_taken(req->view)) {
		held(e, req);
	} else {
		not_to_be_had(e, req);
	}
}

/* A release that the engine itself makes, for a grant that nobody wants any more. */
struct own_release {
	struct request req;
	struct engine *engine;
	struct request *grant; /* answered when the lease is free again */
	char texts[];
};

static void own_release_done(struct request *req)
{
	struct own_release *own = req->owner;

	if (req->status < 0)
		log_event(LOG_WARN, "cancelled_grant_not_released", "status", 's',
			status_name(req->status), NULL);
	finish(own->engine, own->grant, LEASED_ECANCELLED);
	request_fini(req);
	free(own);
}

/* Gives a cancelled grant back, then answers it: whoever was told that it is cancelled finds it free. */
static void give_back(struct engine *e, struct request *grant)
{
	const struct claim *c = &grant->claim;
	struct own_release *own;
	char *at;

	own = calloc(1, sizeof *own + c->name.len + c->host.len + c->principal.len);
	if (!own) {
		finish(e, grant, LEASED_ECANCELLED); /* it expires by itself */
		return;
	}
	at = own->texts;
	own->engine = e;
	own->grant = grant;
	own->req = (struct request){ .verb = VERB_RELEASE, .claim = *c, .retry = true,
		.done = own_release_done, .owner = own };
	own->req.claim.name.data = memcpy(at, c->name.data, c->name.len);
	own->req.claim.host.data = memcpy(at + c->name.len, c->host.data, c->host.len);
	own->req.claim.principal.data =
		memcpy(at + c->name.len + c->host.len, c->principal.data, c->principal.len);
	if (engine_submit(e, &own->req) < 0) {
		free(own);
		finish(e, grant, LEASED_ECANCELLED);
	}
}

/* Those behind a grant: the same holder asked twice, those that do not wait, and those that do. */
static void tell_the_others(struct engine *e, struct name_queue *queue, const struct request *grant)
{
	struct list *node = queue->waiting.next;

	while (node != &queue->waiting) {
		struct request *req = list_entry(node, struct request, link);

		node = node->next;
		if (req->wait_ms > 0 && !same_holder(&req->claim, &grant->claim))
			continue;
		waiters_leave(&e->waiters, req);
		look(e, req);
	}
}

static void granted(struct engine *e, struct request *req)
{
	struct name_queue *queue = step_down(req);
	bool again = queue && queue->again;

	if (queue) {
		queue->rounds = 0;
		tell_the_others(e, queue, req);
		park(e, queue, again ? 0 : req->expires_in_ms);
	}
	if (req->cancelled)
		give_back(e, req);
	else
		finish(e, req, LEASED_OK);
}

static void held(struct engine *e, struct request *req)
{
	struct name_queue *queue = step_down(req);
	int64_t expires_in_ms = req->view->expires_in_ms;
	int status = why_not_wait(req);

	if (!queue) {
		finish(e, req, req->wait_ms > 0 ? LEASED_ETIMEDOUT : LEASED_EHELD);
		return;
	}
	queue->rounds = 0;
	tell_the_others(e, queue, req);
	if (status == 0)
		wait_on(e, queue, req);
	if (queue->again)
		expires_in_ms = 0;
	park(e, queue, expires_in_ms);
	if (status < 0)
		finish(e, req, status);
}

static int64_t pause_ms(unsigned round)
{
	int64_t pause = (int64_t)LOCKED_PAUSE_MS << (round < 6 ? round : 6);

	return pause < LOCKED_PAUSE_MAX_MS ? pause : LOCKED_PAUSE_MAX_MS;
}

/* Expired or absent, and yet not granted: it just changed hands, or a guarded transaction has it. */
static void not_to_be_had(struct engine *e, struct request *req)
{
	struct name_queue *queue = req->queue;
	int status;

	if (!queue) { /* a bystander; the row was between two holders */
		finish(e, req, req->wait_ms > 0 ? LEASED_ETIMEDOUT : LEASED_EHELD);
		return;
	}
	if (queue->rounds++ < LOCKED_TRIES_AT_ONCE) {
		ask(e, req);
		return;
	}
	status = why_not_wait(req);
	if (status == LEASED_EHELD && queue->rounds <= LOCKED_TRIES_MAX)
		status = 0;
	else if (status == LEASED_EHELD)
		status = req->view ? LEASED_EGUARDED : LEASED_EUNAVAILABLE;
	if (status < 0) {
		fail_acquire(e, req, status);
		return;
	}
	tell_the_others(e, queue, req);
	stay_first(e, req, pause_ms(queue->rounds));
}

/* The first in line asks the database. */
static void next_turn(struct engine *e, struct name_queue *queue)
{
	struct request *req = waiters_first(queue);

	if (!req) {
		waiters_put(&e->waiters, queue);
		return;
	}
	waiters_leave(&e->waiters, req);
	req->deadline_ms = clock_ms() + e->config->request_timeout_ms;
	ask_first(e, queue, req);
}

static void on_name_due(void *owner, struct name_queue *queue)
{
	if (!queue->asking)
		next_turn(owner, queue);
}

static void retry_claim(struct engine *e, struct request *req)
{
	if (req->tries < LOCKED_TRIES_AT_ONCE) {
		req->tries++;
		ask(e, req);
		return;
	}
	if (clock_ms() >= req->deadline_ms ||
		waiters_request_timer(&e->waiters, req, clock_ms() + pause_ms(req->tries)) < 0) {
		req->why = strdup("its row is locked by another transaction");
		finish(e, req, LEASED_EUNAVAILABLE);
		return;
	}
	req->tries++;
	req->where = REQ_PAUSED;
	request_fini(req);
}

/* Renew and release: named by the statement, or the row tells why not. */
static void take_claim(struct engine *e, struct request *req)
{
	const struct lease_view *view = req->view;
	bool ours;

	if (req->status < 0) {
		finish(e, req, req->status);
		return;
	}
	if (!req->looking) {
		if (req->found && req->verb == VERB_RELEASE)
			wake(e, req->claim.name);
		if (req->found && (req->verb == VERB_RELEASE || req->expires_in_ms > 0))
			finish(e, req, LEASED_OK);
		else
			look(e, req);
		return;
	}
	ours = view && view->claim.token == req->claim.token && same_holder(&view->claim, &req->claim);
	if (ours && is_held(view))
		retry_claim(e, req);
	else if (ours && view->released && req->verb == VERB_RELEASE && (req->retry || req->uncertain))
		finish(e, req, LEASED_OK);
	else
		finish(e, req, ours ? LEASED_ELOST : LEASED_ENOTHELD);
}

static void on_request_due(void *owner, struct request *req)
{
	struct engine *e = owner;

	if (req->where == REQ_PAUSED) {
		ask(e, req);
	} else if (req->where == REQ_PARKED) {
		struct name_queue *queue = req->queue;

		waiters_leave(&e->waiters, req);
		waiters_put(&e->waiters, queue);
		req->deadline_ms = clock_ms() + e->config->request_timeout_ms;
		look(e, req); /* to tell who holds it */
	}
}

static void leave_queue(struct engine *e, struct request *req)
{
	struct name_queue *queue = req->queue;

	waiters_leave(&e->waiters, req);
	waiters_put(&e->waiters, queue);
	finish(e, req, LEASED_ECANCELLED);
}

void engine_cancel(struct engine *e, struct request *req)
{
	if (req->verb != VERB_ACQUIRE)
		return;
	if (req->where == REQ_PARKED)
		leave_queue(e, req);
	else
		req->cancelled = true;
}

void engine_abandon(struct engine *e, struct request *req)
{
	if (req->where == REQ_PARKED)
		leave_queue(e, req);
	else if (req->verb == VERB_ACQUIRE)
		req->wait_ms = 0; /* it does not queue again */
}

void engine_flush(struct engine *e)
{
	store_flush(e->store);
}

uint32_t engine_waiters(struct engine *e, struct text name)
{
	const struct name_queue *queue = waiters_find(&e->waiters, name);

	return queue ? queue->n_waiting : 0;
}

size_t engine_all_waiters(const struct engine *e)
{
	return e->waiters.n_waiting;
}

struct store *engine_store(struct engine *e)
{
	return e->store;
}

/* Of the store and of the waiters, in whatever order. */
static void on_part_closed(void *owner)
{
	struct engine *e = owner;

	if (--e->n_open > 0)
		return;
	e->closed(e->closed_data);
	free(e);
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
			finish(e, req, LEASED_EUNAVAILABLE);
		}
		waiters_put(&e->waiters, queue);
	}
	e->n_open = 2;
	store_close(e->store, on_part_closed);
	waiters_close(&e->waiters, on_part_closed);
}
