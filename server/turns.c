/*
 * The life of an acquire:
 *
 *   submit -> ask -----------------------------> granted
 *              '-> look -> held by another ----> EHELD       it does not wait
 *                   |-> slot, interval is over -> EDONE      also when it waits
 *                   |        '-> place -> ask -> parked ---> ask    its turn: release, notice, expiry
 *                   '-> should have worked ----> ask         the row was locked: a little later
 *
 * Of each name only one acquire asks at a time, the one whose turn it is on this daemon. One that waits
 * draws a place (leased.waiters), and asks once more when that is committed: from then on no release
 * can miss it. The database grants nothing to a request that has somebody alive before it.
 */
#include "turns.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "errands.h"
#include "places.h"
#include "status.h"

#define STRAYS_EVERY 5 /* rounds */

static void granted(struct engine *e, struct request *req);
static void held(struct engine *e, struct request *req);
static void not_to_be_had(struct engine *e, struct request *req);
static void look_came_back(struct engine *e, struct request *req);
static void failed(struct engine *e, struct request *req);
static void already_done(struct engine *e, struct request *req);

/* Its turn is over: the line may go on. */
static struct name_queue *step_down(struct request *req)
{
	struct name_queue *queue = req->queue;

	req->queue = NULL;
	if (queue)
		queue->asking = NULL;
	return queue;
}

/* When the database must have answered; while there is none, nobody waits longer than wished. */
int64_t turns_answer_by(const struct engine *e, const struct request *req)
{
	int64_t by = clock_ms() + e->config->request_timeout_ms;

	if (req->wait_ms > 0 && req->wait_until_ms < by && !store_is_ready(e->store))
		return req->wait_until_ms;
	return by;
}

static void ask_first(struct engine *e, struct name_queue *queue, struct request *req)
{
	waiters_stop_name_timer(&e->waiters, queue);
	queue->asking = req;
	queue->again = false;
	req->queue = queue;
	req->asked = true;
	req->deadline_ms = turns_answer_by(e, req);
	engine_ask(e, req);
}

/* Why a request that found the name held does not wait (any longer); 0 when it does. */
int turns_why_not_wait(const struct engine *e, const struct request *req)
{
	if (req->cancelled)
		return LEASED_ECANCELLED;
	if (req->wait_ms == 0)
		return LEASED_EHELD;
	if (clock_ms() >= req->wait_until_ms)
		return LEASED_ETIMEDOUT;
	if (req->place == 0 && engine_waiters(e) >= (size_t)e->config->max_waiters)
		return LEASED_EBUSY;
	return 0;
}

/* Joins the line. One that does not wait stays only until the one that asks has its answer. */
static int join(struct engine *e, struct name_queue *queue, struct request *req)
{
	int rc = waiters_request_timer(&e->waiters, req,
		req->wait_ms > 0 ? req->wait_until_ms : req->deadline_ms);

	if (rc == 0)
		waiters_join(&e->waiters, queue, req);
	return rc;
}

void turns_wait_on(struct engine *e, struct name_queue *queue, struct request *req)
{
	request_fini(req);
	if (join(e, queue, req) < 0)
		engine_finish(e, req, LEASED_ENOMEM);
}

int turns_submit(struct engine *e, struct request *req)
{
	struct name_queue *queue = waiters_get(&e->waiters, req->claim.name);

	if (!queue)
		return LEASED_ENOMEM;
	req->wait_until_ms = clock_ms() + req->wait_ms;
	if (waiters_is_idle(queue)) {
		ask_first(e, queue, req);
		return 0;
	}
	if (req->wait_ms == 0 && queue->asking)
		return join(e, queue, req);
	engine_look(e, req); /* behind those in line, unless the lease is its own already */
	return 0;
}

void turns_take(struct engine *e, struct request *req)
{
	if (req->queueing)
		places_take(e, req);
	else if (req->status < 0)
		failed(e, req);
	else if (req->looking)
		look_came_back(e, req);
	else if (req->found && req->expires_in_ms > 0) {
		places_set(e, req, 0); /* gone with the grant */
		granted(e, req);
	} else
		engine_look(e, req);
}

/*
 * Whoever holds it keeps this one out; or there would be room, but not for somebody before it, who keeps it out as
 * long. No row: nobody does.
 */
static bool is_kept_out(const struct request *req)
{
	return req->view && (!req->has_room || (req->is_behind && req->view->holders > 0));
}

/*
 * Of several leases another one refuses it than that in whose line it stands: it changes over, with its
 * place, and holds nobody up in the line that it leaves.
 */
static void change_over(struct engine *e, struct request *req)
{
	struct text left = req->claim.name;
	struct name_queue *queue = step_down(req);

	for (size_t i = 0; i < req->n_names; i++)
		if (text_equal(req->names[i], req->view->claim.name))
			req->claim.name = req->names[i];
	if (queue)
		turns_next(e, queue);
	if (req->place > 0)
		errand_leave(e, left, req->place);
}

/* One that does not wait, and for which there was room beside those who hold it: unless others stand in line. */
static void try_again(struct engine *e, struct request *req)
{
	struct name_queue *queue = waiters_get(&e->waiters, req->claim.name);

	if (queue && waiters_is_idle(queue))
		ask_first(e, queue, req);
	else if (!queue || !queue->asking || req->tries++ == LOCKED_TRIES_MAX || join(e, queue, req) < 0)
		engine_finish(e, req, queue ? LEASED_EHELD : LEASED_ENOMEM);
}

static void look_came_back(struct engine *e, struct request *req)
{
	struct name_queue *queue;
	int status;

	req->by_call = req->has_extras;
	if (engine_is_held(req->view) && engine_same_holder(&req->view->claim, &req->claim)) {
		req->claim.token = req->view->claim.token; /* asked again with the same nonce */
		req->expires_in_ms = req->view->expires_in_ms;
		granted(e, req);
		return;
	}
	if (req->done_by) {
		already_done(e, req);
		return;
	}
	if (req->n_names > 0 && req->view && !text_equal(req->view->claim.name, req->claim.name))
		change_over(e, req);
	if (req->queue) {
		if (is_kept_out(req))
			held(e, req);
		else
			not_to_be_had(e, req);
		return;
	}
	status = turns_why_not_wait(e, req);
	if (status == LEASED_EHELD && req->max_holders > 1 && !is_kept_out(req)) {
		try_again(e, req);
		return;
	}
	queue = status < 0 ? NULL : waiters_get(&e->waiters, req->claim.name);
	if (!queue)
		engine_finish(e, req, status < 0 ? status : LEASED_ENOMEM);
	else if (waiters_is_idle(queue) && !is_kept_out(req) && req->place == 0)
		ask_first(e, queue, req);
	else
		places_draw(e, queue, req);
}

/* Nobody asks now: when is it worth while again? */
static void park(struct engine *e, struct name_queue *queue, int64_t expires_in_ms)
{
	const struct request *first = waiters_first(queue);
	int64_t wait = queue->again ? 0 : expires_in_ms + 1;

	if (!first) {
		waiters_put(&e->waiters, queue);
		return;
	}
	if (first->place > 0 && !first->asked) { /* a release may have missed it */
		turns_next(e, queue);
		return;
	}
	if (!e->listening && wait > e->config->poll_interval_ms)
		wait = e->config->poll_interval_ms;
	waiters_name_timer(&e->waiters, queue, clock_ms() + wait);
}

/* A wait outlasts an outage of the database. */
void turns_outlast(struct engine *e, struct name_queue *queue, struct request *req)
{
	turns_wait_on(e, queue, req);
	if (!queue->asking && queue->timer.place == 0)
		park(e, queue, e->config->poll_interval_ms);
}

/* Those that do not wait and stand behind one that could not be answered: neither can they. */
static void fail_the_others(struct engine *e, struct name_queue *queue, int status)
{
	struct list *node = queue->waiting.next;

	while (node != &queue->waiting) {
		struct request *req = list_entry(node, struct request, link);

		node = node->next;
		if (req->wait_ms > 0)
			continue;
		waiters_leave(&e->waiters, req);
		engine_finish(e, req, status);
	}
}

static void failed(struct engine *e, struct request *req)
{
	struct name_queue *queue = step_down(req);
	bool unavailable = req->status == LEASED_EUNAVAILABLE;

	if (unavailable && !turns_why_not_wait(e, req) && !e->closing) {
		queue = queue ? queue : waiters_get(&e->waiters, req->claim.name);
		if (queue) {
			turns_outlast(e, queue, req);
			return;
		}
	}
	if (queue) {
		if (unavailable)
			fail_the_others(e, queue, req->status);
		turns_next(e, queue);
	}
	engine_finish(e, req, req->status);
}

/* Nothing is left to do, whoever holds the lease: its place goes, and the next in line may try. */
static void already_done(struct engine *e, struct request *req)
{
	struct name_queue *queue = step_down(req);

	if (queue)
		turns_next(e, queue);
	engine_finish(e, req, LEASED_EDONE);
}

/* Those behind one that has its answer: whoever does not wait, and whoever holds the lease already. */
static void tell_the_others(struct engine *e, struct name_queue *queue, const struct claim *holder)
{
	struct list *node = queue->waiting.next;

	while (node != &queue->waiting) {
		struct request *req = list_entry(node, struct request, link);

		node = node->next;
		if (req->wait_ms > 0 && !engine_same_holder(&req->claim, holder))
			continue;
		waiters_leave(&e->waiters, req);
		engine_look(e, req);
	}
}

static void granted(struct engine *e, struct request *req)
{
	struct name_queue *queue = step_down(req);

	if (queue) {
		queue->rounds = 0;
		if (req->max_holders > 1) { /* there may be room for the next one beside it */
			turns_next(e, queue);
		} else {
			tell_the_others(e, queue, &req->claim);
			park(e, queue, req->expires_in_ms);
		}
	}
	if (req->cancelled)
		errand_give_back(e, req);
	else
		engine_finish(e, req, LEASED_OK);
}

/* Whoever waits and has no place draws one; the others stay where they are. */
static void stay(struct engine *e, struct name_queue *queue, struct request *req)
{
	if (req->place == 0 || req->place_lost)
		places_draw(e, queue, req);
	else
		turns_wait_on(e, queue, req);
}

/* Rows that are ours and stand before the first we know of: left behind by a lost connection. */
static void forget_strays(struct engine *e, const struct name_queue *queue, const struct request *req)
{
	const struct request *first = req->place > 0 ? req : waiters_first(queue);

	if (queue->n_drawing > 0 || (first && first->place == 0))
		return;
	errand_leave(e, req->claim.name, first ? -first->place : -INT64_MAX);
}

static void held(struct engine *e, struct request *req)
{
	struct name_queue *queue = step_down(req);
	int64_t expires_in_ms = req->view->expires_in_ms;
	int status = turns_why_not_wait(e, req);

	queue->rounds = 0;
	if (req->has_room && req->place > 0)
		forget_strays(e, queue, req);
	tell_the_others(e, queue, &req->view->claim);
	if (status == 0)
		stay(e, queue, req);
	park(e, queue, expires_in_ms);
	if (status < 0)
		engine_finish(e, req, status);
}

/* Expired or absent, and yet not granted: taken just now, guarded, or somebody elsewhere is before us. */
static void not_to_be_had(struct engine *e, struct request *req)
{
	struct name_queue *queue = req->queue;
	int status = turns_why_not_wait(e, req);

	if (status == 0 && req->place == 0) {
		step_down(req);
		places_draw(e, queue, req);
		return;
	}
	if (queue->rounds++ < LOCKED_TRIES_AT_ONCE) {
		engine_ask(e, req);
		return;
	}
	if (queue->rounds % STRAYS_EVERY == LOCKED_TRIES_AT_ONCE + 1)
		forget_strays(e, queue, req);
	if (status == LEASED_EHELD && queue->rounds <= LOCKED_TRIES_MAX)
		status = 0;
	else if (status == LEASED_EHELD && !req->is_behind)
		status = req->view ? LEASED_EGUARDED : LEASED_EUNAVAILABLE;
	step_down(req);
	tell_the_others(e, queue, &req->claim);
	if (status == 0 && req->wait_ms == 0)
		turns_wait_on(e, queue, req);
	else if (status == 0)
		stay(e, queue, req);
	park(e, queue, engine_pause_ms(queue->rounds));
	if (status < 0)
		engine_finish(e, req, status);
}

/* The first in line asks the database. */
void turns_next(struct engine *e, struct name_queue *queue)
{
	struct request *req = waiters_first(queue);

	if (!req) {
		waiters_put(&e->waiters, queue);
		return;
	}
	waiters_leave(&e->waiters, req);
	ask_first(e, queue, req);
}

bool turns_wake(struct engine *e, struct text name)
{
	struct name_queue *queue = waiters_find(&e->waiters, name);

	if (!queue)
		return false;
	if (queue->asking)
		queue->again = true;
	else
		turns_next(e, queue);
	return true;
}

void turns_wake_all(struct engine *e)
{
	struct name_queue *queue, *next;

	HASH_ITER(hh, e->waiters.queues, queue, next)
	{
		if (queue->asking)
			queue->again = true;
		else
			turns_next(e, queue);
	}
}

void turns_on_name_due(struct engine *e, struct name_queue *queue)
{
	if (!queue->asking)
		turns_next(e, queue);
}

void turns_on_wait_over(struct engine *e, struct request *req)
{
	struct name_queue *queue = req->queue;

	waiters_leave(&e->waiters, req);
	waiters_put(&e->waiters, queue);
	if (req->wait_ms == 0) {
		engine_finish(e, req, LEASED_EUNAVAILABLE);
		return;
	}
	req->deadline_ms = turns_answer_by(e, req);
	engine_look(e, req); /* to tell who holds it */
}

static void leave_line(struct engine *e, struct request *req)
{
	struct name_queue *queue = req->queue;

	waiters_leave(&e->waiters, req);
	waiters_put(&e->waiters, queue);
	engine_finish(e, req, LEASED_ECANCELLED);
}

void turns_cancel(struct engine *e, struct request *req)
{
	if (req->where == REQ_PARKED)
		leave_line(e, req);
	else
		req->cancelled = true;
}

void turns_abandon(struct engine *e, struct request *req)
{
	if (req->where == REQ_PARKED)
		leave_line(e, req);
	else
		req->wait_ms = 0; /* it does not queue again */
}
