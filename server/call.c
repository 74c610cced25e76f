#include "call.h"

#include <stdlib.h>
#include <string.h>

#include "audit.h"
#include "call_read.h"
#include "cancel.h"
#include "clock.h"
#include "gate.h"
#include "name.h"
#include "page.h"
#include "reply.h"
#include "status.h"
#include "stream.h"
#include "whoami.h"

/* What is larger, be it by fields that we do not know, counts as several requests. */
#define REQUEST_SIZE 4096

static void on_request_done(struct request *req);

static size_t count_leases(const struct call *call)
{
	return call->requests[0].n_names > 0 ? call->requests[0].n_names : 1;
}

static void call_free(struct call *call)
{
	struct session *s = call->session;

	for (size_t i = 0; i < call->n_requests; i++)
		request_fini(&call->requests[i]);
	list_remove(&call->link);
	if (call->is_counted)
		quota_acquired(call->quota, count_leases(call), call->waits);
	if (call->quota)
		quota_put(call->quota);
	if (s) {
		s->n_requests -= call->n_counted;
		s->n_waits -= call->waits;
		cancel_remove(s, call);
		session_regulate(s);
	}
	arena_free(&call->arena);
	free(call->texts);
	free(call);
}

/* Each of several leases is given back by itself. */
static void keep_all(struct holdings *holdings, struct session *s, const struct request *grant)
{
	struct request one = *grant;

	if (grant->n_names == 0)
		holdings_keep(holdings, s, grant);
	for (size_t i = 0; i < grant->n_names; i++) {
		one.claim.name = grant->names[i];
		holdings_keep(holdings, s, &one);
	}
}

/* What the outcome means for leases that are given back when their holder goes. */
static void note_holdings(struct holdings *holdings, const struct call *call)
{
	for (size_t i = 0; i < call->n_requests; i++) {
		const struct request *req = &call->requests[i];

		if (req->status == LEASED_OK && req->release_on_disconnect)
			keep_all(holdings, call->session, req);
		else if (req->status == LEASED_OK && req->verb == VERB_RELEASE)
			holdings_drop(holdings, &req->claim);
		else if (req->status == LEASED_OK && req->verb == VERB_STEAL)
			holdings_drop(holdings, &req->view->claim);
	}
}

/* The same for who has a bound on the leases it holds. */
static void note_quota(const struct call *call)
{
	for (size_t i = 0; call->quota && i < call->n_requests; i++) {
		const struct request *req = &call->requests[i];
		struct claim claim = req->claim;
		int64_t until_ms = clock_ms() + req->expires_in_ms;

		if (req->verb == VERB_RELEASE || req->status == LEASED_ELOST || req->status == LEASED_ENOTHELD)
			quota_drop(call->quota, &claim);
		if (req->status != LEASED_OK || (req->verb != VERB_ACQUIRE && req->verb != VERB_RENEW))
			continue;
		if (req->n_names == 0)
			quota_keep(call->quota, &claim, until_ms);
		for (size_t k = 0; k < req->n_names; k++) {
			claim.name = req->names[k];
			quota_keep(call->quota, &claim, until_ms);
		}
	}
}

/* Where notifications arrive, all daemons hear of it, this one too. */
static void tell_loser(struct sessions *all, const struct request *req)
{
	const struct claim *loser = &req->view->claim;
	char why[PRINCIPAL_SIZE + REASON_MAX_LEN + 3];
	int len = snprintf(why, sizeof why, "%.*s: %.*s", (int)req->claim.principal.len,
		req->claim.principal.data, (int)req->reason.len, req->reason.data);

	if (*all->notices_problem)
		sessions_tell_lost(all, loser->principal, loser->name, loser->token,
			(struct text){ why, (size_t)len });
}

static void finish(struct call *call)
{
	note_holdings(call->all->holdings, call);
	note_quota(call);
	if (call->verb == VERB_STEAL && call->requests[0].status == LEASED_OK) {
		quota_lose(&call->all->quotas, &call->requests[0].view->claim);
		tell_loser(call->all, &call->requests[0]);
	}
	if (call->session) /* otherwise nobody is left to be told */
		reply_outcome(call);
	call_free(call);
}

static bool is_wait(const struct request *req)
{
	return req->verb == VERB_ACQUIRE && req->wait_ms > 0;
}

/* Many leases are renewed by one message: what one of them lacks must not end the others. */
static int submit_one(struct session *s, struct request *req)
{
	struct leased_error why;

	if (req->verb != VERB_RENEW || gate_one(s->client, ACCESS_RENEW, req->claim.name, &why) == 0)
		return engine_submit(s->all->engine, req);
	audit_part(s, ACCESS_RENEW, req->claim.name, &why);
	req->why = strdup(why.text);
	return LEASED_EDENIED;
}

/* Hands the requests to the engine. One that is refused is answered like any other. */
static void submit(struct session *s, struct call *call)
{
	call->verb = call->requests[0].verb;
	call->n_open = call->n_requests;
	call->waits = is_wait(&call->requests[0]);
	call->n_counted = call->waits ? 0 : call->n_requests + call->arena.used / REQUEST_SIZE;
	s->n_waits += call->waits;
	s->n_requests += call->n_counted;
	if (call->verb == VERB_ACQUIRE)
		cancel_add(s, call);
	session_regulate(s);
	for (size_t i = 0; i < call->n_requests; i++) {
		struct request *req = &call->requests[i];
		int rc;

		req->owner = call;
		req->done = on_request_done;
		list_init(&req->link);
		rc = submit_one(s, req);
		if (rc < 0) {
			req->status = rc;
			call->n_open--;
		}
	}
	if (call->n_open == 0)
		finish(call);
}

static size_t count_names(const Leased__Claim *claim)
{
	return claim ? 1 + claim->n_also : 1;
}

/* A request for each name that is renewed or released. */
static size_t count_requests(const Leased__ClientMessage *m)
{
	size_t n = 0;

	if (m->body_case == LEASED__CLIENT_MESSAGE__BODY_RELEASE)
		return count_names(m->release->claim);
	if (m->body_case != LEASED__CLIENT_MESSAGE__BODY_RENEW)
		return 1;
	for (size_t i = 0; i < m->renew->n_renewals; i++)
		n += count_names(m->renew->renewals[i]->claim);
	return n;
}

static struct call *call_new(struct session *s, struct arena *arena,
	const Leased__ClientMessage *m)
{
	size_t n = count_requests(m);
	struct call *call = calloc(1, sizeof *call + n * sizeof call->requests[0]);

	if (!call)
		return NULL;
	call->id = m->id;
	call->session = s;
	call->all = s->all;
	call->arena = *arena;
	*arena = (struct arena){ 0 };
	call->n_requests = n;
	call->begun_ms = clock_ms();
	if (s->client->limits.leases > 0 || s->client->limits.waiters > 0) {
		quota_use(s->quota);
		call->quota = s->quota;
	}
	list_append(&s->calls, &call->link);
	return call;
}

/* A wait may last for hours: it need not keep the room that unpacking takes, 32 times its size. */
static void leave_arena(struct call *call)
{
	call->texts = request_copy_texts(&call->requests[0]);
	if (call->texts)
		arena_free(&call->arena);
}

/* What is over a bound of the connection, or of the principal. */
static int check_bounds(struct session *s, struct call *call, struct leased_error *err)
{
	const struct request *req = &call->requests[0];
	int rc = 0;

	if (is_wait(req) && s->n_waits >= SESSION_WAITS_MAX)
		return fail(err, LEASED_EBUSY,
			"%d acquires wait on this connection already: open another one, or wait for fewer leases",
			SESSION_WAITS_MAX);
	if (req->verb == VERB_ACQUIRE && call->quota)
		rc = quota_acquire(call->quota, &s->client->limits, req, clock_ms(), err);
	call->is_counted = rc == 0 && req->verb == VERB_ACQUIRE && call->quota;
	return rc;
}

static void take_requests(struct session *s, struct arena *arena, const Leased__ClientMessage *m)
{
	struct leased_error err = { 0 };
	struct call *call = call_new(s, arena, m);
	int rc;

	if (!call) {
		fail(&err, LEASED_ENOMEM, "out of memory");
		reply_failure(s, m->id, &err, NULL);
		return;
	}
	rc = call_read(s, call, m, &err);
	if (rc == 0)
		rc = check_bounds(s, call, &err);
	if (rc == 0)
		page_begin(call);
	if (rc == 0 && is_wait(&call->requests[0]))
		leave_arena(call);
	if (rc == 0) {
		submit(s, call);
		return;
	}
	err.status = rc;
	reply_failure(s, m->id, &err, NULL);
	call_free(call);
}

static void take_cancel(struct session *s, uint64_t id)
{
	struct call *call = cancel_find(s, id);

	if (call)
		engine_cancel(s->all->engine, &call->requests[0]);
	else
		stream_cancel(s, id);
}

/* Before anything looks at it. False: it was refused, and answered. */
static bool is_allowed(struct session *s, const Leased__ClientMessage *m)
{
	struct gate_denial denial = { 0 };
	struct leased_error err = { 0 };
	int rc = 0;

	if (m->body_case == LEASED__CLIENT_MESSAGE__BODY_PING || m->body_case == LEASED__CLIENT_MESSAGE__BODY_CANCEL)
		return true; /* they only keep and end what has passed */
	rc = quota_request(s->quota, &s->client->limits, clock_ms() * 1000000, &err);
	if (rc == 0)
		rc = gate_in(s->client, m, &denial, &err);
	audit_request(s, m, &denial, rc, &err);
	if (rc < 0)
		reply_failure(s, m->id, &err, NULL);
	return rc == 0;
}

static void take_message(struct session *s, struct arena *arena, const Leased__ClientMessage *m)
{
	switch (m->body_case) {
	case LEASED__CLIENT_MESSAGE__BODY_PING: reply_pong(s, m->id); break;
	case LEASED__CLIENT_MESSAGE__BODY_REPORT: reply_health(s, m->id); break;
	case LEASED__CLIENT_MESSAGE__BODY_CANCEL: take_cancel(s, m->cancel->request); break;
	case LEASED__CLIENT_MESSAGE__BODY_WATCH: stream_take(s, m->id, m->watch); break;
	case LEASED__CLIENT_MESSAGE__BODY_WHOAMI: whoami_reply(s, m->id); break;
	default: take_requests(s, arena, m); break;
	}
}

int call_take(struct session *s, struct frame frame, struct leased_error *err)
{
	Leased__ClientMessage *m;
	struct arena arena;
	int rc = arena_init(&arena, message_arena_size(frame.len));

	if (rc < 0)
		return fail(err, rc, "out of memory");
	m = message_unpack_client(&arena, frame.body, frame.len, err);
	if (!m) {
		arena_free(&arena);
		return LEASED_EPROTO;
	}
	if (m->body_case == LEASED__CLIENT_MESSAGE__BODY_HELLO)
		rc = fail(err, LEASED_EPROTO, "a second hello");
	else if (m->body_case == LEASED__CLIENT_MESSAGE__BODY__NOT_SET)
		rc = fail(err, LEASED_EPROTO, "a message without a request we know");
	else if (is_allowed(s, m))
		take_message(s, &arena, m);
	arena_free(&arena); /* nothing, once a call owns it */
	return rc;
}

static void on_request_done(struct request *req)
{
	struct call *call = req->owner;

	if (--call->n_open == 0 && !page_goes_on(call))
		finish(call);
}

static bool may_wait(const struct session *s, const struct request *req)
{
	bool ok = req->n_names > 0 || access_may(s->client, ACCESS_ACQUIRE, req->claim.name);

	for (size_t i = 0; i < req->n_names; i++)
		ok = ok && access_may(s->client, ACCESS_ACQUIRE, req->names[i]);
	return ok;
}

void call_check_waits(struct session *s)
{
	struct list *node = s->calls.next;

	while (node != &s->calls) {
		struct call *call = list_entry(node, struct call, link);

		node = node->next; /* a wait that ends is answered, and gone */
		if (call->verb != VERB_ACQUIRE || may_wait(s, &call->requests[0]))
			continue;
		call->denied = true;
		engine_cancel(s->all->engine, &call->requests[0]);
	}
}

void call_abandon_all(struct session *s)
{
	struct list *node;

	while ((node = list_pop(&s->calls))) {
		struct call *call = list_entry(node, struct call, link);

		call->session = NULL;
		cancel_remove(s, call);
		/* May finish the call, and so free it: only acquires wait, and they come alone. */
		if (call->verb == VERB_ACQUIRE)
			engine_abandon(s->all->engine, &call->requests[0]);
	}
}
