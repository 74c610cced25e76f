#include "call.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "name.h"
#include "sql.h"
#include "status.h"

static int take_acquire(struct session *s, struct call *call, const Leased__Acquire *m,
	struct leased_error *err);
static int take_renew(struct session *s, struct call *call, const Leased__Renew *m,
	struct leased_error *err);
static int take_release(struct session *s, struct call *call, const Leased__Release *m,
	struct leased_error *err);
static int take_get(struct call *call, const Leased__Get *m, struct leased_error *err);
static int take_list(struct call *call, const Leased__List *m, struct leased_error *err);
static void on_request_done(struct request *req);
static void reply(struct call *call);

void call_send(struct session *s, Leased__ServerMessage *message)
{
	size_t size = message_packed_size(&message->base);
	uint8_t *out;
	int len;

	if (s->state == SESSION_CLOSING || s->state == SESSION_CLOSED)
		return;
	out = transport_reserve(&s->transport, size);
	len = out ? message_pack(out, size, &message->base) : LEASED_EBUSY;
	if (len < 0) {
		/* A client that asks and never reads; its leases stay until they expire. */
		log_event(LOG_WARN, "client_does_not_read", "principal", 's', s->principal.name,
			NULL);
		s->transport.broken = true;
		session_close(s, LEASED_OK, NULL);
		return;
	}
	transport_commit(&s->transport, (size_t)len);
	if (list_empty(&s->dirty))
		list_append(&s->all->dirty, &s->dirty);
}

static void send_failure(struct session *s, uint64_t id, const struct leased_error *err,
	Leased__Lease *current)
{
	Leased__ServerMessage message = LEASED__SERVER_MESSAGE__INIT;
	Leased__Failure failure = LEASED__FAILURE__INIT;

	failure.status = (uint32_t)-err->status;
	failure.why = (char *)(uintptr_t)err->text;
	failure.current = current;
	message.id = id;
	message.body_case = LEASED__SERVER_MESSAGE__BODY_FAILURE;
	message.failure = &failure;
	call_send(s, &message);
}

/* Requests in. */

static struct text as_text(ProtobufCBinaryData data)
{
	return (struct text){ (const char *)data.data, data.len };
}

/* For an acquire the token is not known yet. */
static int read_claim(struct claim *ret_claim, const struct session *s, ProtobufCBinaryData name,
	const Leased__Holder *holder, uint64_t token, struct leased_error *err)
{
	int rc = name_check(name.data, name.len, err);

	if (rc < 0)
		return rc;
	if (!holder)
		return fail(err, LEASED_EDATA, "the holder is missing");
	rc = host_check(holder->host.data, holder->host.len, err);
	if (rc < 0)
		return rc;
	if (holder->pid == 0 || holder->pid > INT32_MAX)
		return fail(err, LEASED_EDATA, "the holder's pid must be 1 to %d", INT32_MAX);
	if (token > INT64_MAX)
		return fail(err, LEASED_EDATA, "a token is below 2^53");
	*ret_claim = (struct claim){ .name = as_text(name), .host = as_text(holder->host),
		.principal = { s->principal.name, s->principal.len }, .nonce = holder->nonce,
		.token = token, .pid = (int32_t)holder->pid };
	return 0;
}

/* The principal must outlive the session, as the requests do. */
static int keep_principal(struct call *call, struct claim *claim)
{
	char *copy = arena_alloc(&call->arena, claim->principal.len);

	if (!copy)
		return LEASED_ENOMEM;
	claim->principal.data = memcpy(copy, claim->principal.data, claim->principal.len);
	return 0;
}

static int check_ttl(const struct session *s, uint64_t ttl_ms, struct leased_error *err)
{
	const struct config *config = s->all->config;

	if (ttl_ms < (uint64_t)config->ttl_min_ms || ttl_ms > (uint64_t)config->ttl_max_ms)
		return fail(err, LEASED_EDATA, "a ttl is %lld ms to %lld ms here (ttl_min, ttl_max)",
			(long long)config->ttl_min_ms, (long long)config->ttl_max_ms);
	return 0;
}

static int take_acquire(struct session *s, struct call *call, const Leased__Acquire *m,
	struct leased_error *err)
{
	struct request *req = &call->requests[0];
	int rc;

	rc = read_claim(&req->claim, s, m->name, m->holder, 0, err);
	if (rc == 0)
		rc = check_ttl(s, m->ttl_ms, err);
	if (rc == 0)
		rc = value_check(m->value.data, m->value.len, err);
	if (rc < 0)
		return rc;
	if (m->wait_ms > (uint64_t)s->all->config->wait_max_ms)
		return fail(err, LEASED_EDATA, "a wait is at most %lld ms here (wait_max)",
			(long long)s->all->config->wait_max_ms);
	if (m->min_hold_ms > (uint64_t)s->all->config->ttl_max_ms)
		return fail(err, LEASED_EDATA, "a minimum hold is at most %lld ms here (ttl_max)",
			(long long)s->all->config->ttl_max_ms);
	req->verb = VERB_ACQUIRE;
	req->ttl_ms = (int64_t)m->ttl_ms;
	req->wait_ms = (int64_t)m->wait_ms;
	req->min_hold_ms = (int64_t)m->min_hold_ms;
	req->value = as_text(m->value);
	req->has_value = m->value.len > 0;
	return keep_principal(call, &req->claim);
}

static int take_renew(struct session *s, struct call *call, const Leased__Renew *m,
	struct leased_error *err)
{
	struct text principal;
	int rc;

	if (m->n_renewals == 0)
		return fail(err, LEASED_EDATA, "a renew without leases");
	for (size_t i = 0; i < m->n_renewals; i++) {
		const Leased__Renewal *r = m->renewals[i];
		struct request *req = &call->requests[i];

		if (!r->claim)
			return fail(err, LEASED_EDATA, "a renewal without a claim");
		rc = read_claim(&req->claim, s, r->claim->name, r->claim->holder, r->claim->token,
			err);
		if (rc == 0 && r->ttl_ms > 0)
			rc = check_ttl(s, r->ttl_ms, err);
		if (rc == 0 && i == 0)
			rc = keep_principal(call, &req->claim);
		if (rc < 0)
			return rc;
		if (i == 0)
			principal = req->claim.principal;
		req->claim.principal = principal;
		req->verb = VERB_RENEW;
		req->ttl_ms = (int64_t)r->ttl_ms;
	}
	return 0;
}

static int take_release(struct session *s, struct call *call, const Leased__Release *m,
	struct leased_error *err)
{
	struct request *req = &call->requests[0];
	int rc;

	if (!m->claim)
		return fail(err, LEASED_EDATA, "a release without a claim");
	rc = read_claim(&req->claim, s, m->claim->name, m->claim->holder, m->claim->token, err);
	if (rc < 0)
		return rc;
	req->verb = VERB_RELEASE;
	req->has_exit_status = m->ending_case == LEASED__RELEASE__ENDING_EXIT_STATUS;
	req->exit_status = m->exit_status;
	req->retry = m->retry;
	return keep_principal(call, &req->claim);
}

static int take_get(struct call *call, const Leased__Get *m, struct leased_error *err)
{
	struct request *req = &call->requests[0];
	int rc = name_check(m->name.data, m->name.len, err);

	if (rc < 0)
		return rc;
	req->verb = VERB_LOOK;
	req->claim.name = as_text(m->name);
	return 0;
}

#define LIST_LIMIT_MAX 100

static int take_list(struct call *call, const Leased__List *m, struct leased_error *err)
{
	struct request *req = &call->requests[0];
	int rc = prefix_check(m->prefix.data, m->prefix.len, err);

	if (rc == 0)
		rc = prefix_check(m->after.data, m->after.len, err);
	if (rc < 0)
		return rc;
	req->verb = VERB_LIST;
	req->prefix = as_text(m->prefix);
	req->after = as_text(m->after);
	req->limit = m->limit > 0 && m->limit < LIST_LIMIT_MAX ? m->limit : LIST_LIMIT_MAX;
	return 0;
}

static int fill_requests(struct session *s, struct call *call, const Leased__ClientMessage *m,
	struct leased_error *err)
{
	switch (m->body_case) {
	case LEASED__CLIENT_MESSAGE__BODY_ACQUIRE: return take_acquire(s, call, m->acquire, err);
	case LEASED__CLIENT_MESSAGE__BODY_RENEW: return take_renew(s, call, m->renew, err);
	case LEASED__CLIENT_MESSAGE__BODY_RELEASE: return take_release(s, call, m->release, err);
	case LEASED__CLIENT_MESSAGE__BODY_GET: return take_get(call, m->get, err);
	case LEASED__CLIENT_MESSAGE__BODY_LIST: return take_list(call, m->list, err);
	default: return fail(err, LEASED_EPROTO, "an unknown request");
	}
}

static void call_free(struct call *call)
{
	struct session *s = call->session;

	for (size_t i = 0; i < call->n_requests; i++)
		request_fini(&call->requests[i]);
	list_remove(&call->link);
	if (s && s->n_calls-- == SESSION_CALLS_MAX)
		transport_resume(&s->transport);
	arena_free(&call->arena);
	free(call);
}

/* Hands the requests to the engine. One that is refused is answered like any other. */
static void submit(struct session *s, struct call *call)
{
	call->verb = call->requests[0].verb;
	call->n_open = call->n_requests;
	for (size_t i = 0; i < call->n_requests; i++) {
		struct request *req = &call->requests[i];
		int rc;

		req->owner = call;
		req->done = on_request_done;
		list_init(&req->link);
		rc = engine_submit(s->all->engine, req);
		if (rc < 0) {
			req->status = rc;
			call->n_open--;
		}
	}
	if (call->n_open == 0)
		reply(call);
}

static struct call *call_new(struct session *s, struct arena *arena,
	const Leased__ClientMessage *m)
{
	size_t n = m->body_case == LEASED__CLIENT_MESSAGE__BODY_RENEW ? m->renew->n_renewals : 1;
	struct call *call = calloc(1, sizeof *call + n * sizeof call->requests[0]);

	if (!call)
		return NULL;
	call->id = m->id;
	call->session = s;
	call->arena = *arena;
	*arena = (struct arena){ 0 };
	call->n_requests = n;
	list_append(&s->calls, &call->link);
	if (++s->n_calls == SESSION_CALLS_MAX)
		transport_pause(&s->transport);
	return call;
}

static int take_requests(struct session *s, struct arena *arena, const Leased__ClientMessage *m)
{
	struct leased_error err = { 0 };
	struct call *call = call_new(s, arena, m);
	int rc;

	if (!call) {
		fail(&err, LEASED_ENOMEM, "out of memory");
		send_failure(s, m->id, &err, NULL);
		return 0;
	}
	rc = fill_requests(s, call, m, &err);
	if (rc == 0) {
		submit(s, call);
		return 0;
	}
	err.status = rc;
	send_failure(s, m->id, &err, NULL);
	call_free(call);
	return 0;
}

static void take_cancel(struct session *s, uint64_t id)
{
	for (struct list *node = s->calls.next; node != &s->calls; node = node->next) {
		struct call *call = list_entry(node, struct call, link);

		if (call->id != id || call->verb != VERB_ACQUIRE)
			continue;
		engine_cancel(s->all->engine, &call->requests[0]);
		return;
	}
}

static void send_pong(struct session *s, uint64_t id)
{
	Leased__ServerMessage message = LEASED__SERVER_MESSAGE__INIT;
	Leased__Pong pong = LEASED__PONG__INIT;

	message.id = id;
	message.body_case = LEASED__SERVER_MESSAGE__BODY_PONG;
	message.pong = &pong;
	call_send(s, &message);
}

/* Health is about the daemon, not about a lease: answered without the engine. */
static void send_health(struct session *s, uint64_t id)
{
	static char program[] = "leased " LEASED_VERSION;
	Leased__ServerMessage message = LEASED__SERVER_MESSAGE__INIT;
	Leased__Health h = LEASED__HEALTH__INIT;
	const struct store *store = engine_store(s->all->engine);
	struct db_info info;
	char problem[LEASED_ERROR_LEN];

	store_info(store, &info, problem, sizeof problem);
	h.program = program;
	h.uptime_ms = (uint64_t)(clock_ms() - s->all->started_ms);
	h.database_ready = store_is_ready(store);
	h.database_problem = problem;
	h.database_version = info.version;
	h.database_host = info.host;
	h.database_is_primary = *info.version && !info.in_recovery && !info.read_only;
	h.schema_found = info.schema_found;
	h.schema_wanted = sql_schema_version();
	h.pooled = info.pooled;
	h.synchronous_commit = info.synchronous_commit;
	h.daemon_clock_us = clock_wall_us();
	h.database_clock_us = h.daemon_clock_us + info.clock_offset_us;
	h.timeline = (uint32_t)info.timeline;
	h.connections = (uint32_t)s->all->config->writers;
	h.sessions = (uint32_t)s->all->n;
	h.waiters = (uint32_t)engine_all_waiters(s->all->engine);
	h.queued = (uint32_t)store_queued(store);
	h.principal.data = (uint8_t *)s->principal.name;
	h.principal.len = s->principal.len;
	h.app_role_present = info.has_app_role;
	h.transaction_isolation = info.isolation;
	message.id = id;
	message.body_case = LEASED__SERVER_MESSAGE__BODY_HEALTH;
	message.health = &h;
	call_send(s, &message);
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
	switch (m->body_case) {
	case LEASED__CLIENT_MESSAGE__BODY_PING: send_pong(s, m->id); break;
	case LEASED__CLIENT_MESSAGE__BODY_REPORT: send_health(s, m->id); break;
	case LEASED__CLIENT_MESSAGE__BODY_CANCEL: take_cancel(s, m->cancel->request); break;
	case LEASED__CLIENT_MESSAGE__BODY_HELLO:
		rc = fail(err, LEASED_EPROTO, "a second hello");
		break;
	case LEASED__CLIENT_MESSAGE__BODY__NOT_SET:
		rc = fail(err, LEASED_EPROTO, "a message without a request we know");
		break;
	default: rc = take_requests(s, &arena, m); break;
	}
	arena_free(&arena); /* nothing, once a call owns it */
	return rc;
}

/* Outcomes out. */

static void on_request_done(struct request *req)
{
	struct call *call = req->owner;

	if (--call->n_open == 0)
		reply(call);
}

static ProtobufCBinaryData as_bytes(struct text text)
{
	return (ProtobufCBinaryData){ text.len, (uint8_t *)(uintptr_t)text.data };
}

/* A row as the protocol shows it; holder is memory for the inner message. */
static void fill_lease(Leased__Lease *ret_lease, Leased__Holder *holder, struct session *s,
	const struct lease_view *v)
{
	bool taken = v->expires_in_ms > 0;

	leased__lease__init(ret_lease);
	ret_lease->name = as_bytes(v->claim.name);
	ret_lease->token = v->claim.token;
	ret_lease->ttl_ms = (uint64_t)v->ttl_ms;
	ret_lease->acquired_at_us = v->acquired_at_us;
	ret_lease->expires_at_us = v->expires_at_us;
	ret_lease->waiters = engine_waiters(s->all->engine, v->claim.name);
	if (!taken)
		return;
	ret_lease->expires_in_ms = (uint64_t)v->expires_in_ms;
	ret_lease->state = v->released ? LEASED__LEASE__STATE__MIN_HOLD : LEASED__LEASE__STATE__HELD;
	if (v->released)
		return;
	leased__holder__init(holder);
	holder->host = as_bytes(v->claim.host);
	holder->pid = (uint32_t)v->claim.pid;
	holder->nonce = v->claim.nonce;
	ret_lease->holder = holder;
	ret_lease->principal = as_bytes(v->claim.principal);
	ret_lease->held_for_ms = (uint64_t)(v->held_for_ms > 0 ? v->held_for_ms : 0);
	ret_lease->value = as_bytes(v->value);
}

static void reply_failure(struct call *call, const struct request *req)
{
	struct leased_error why;
	Leased__Lease lease;
	Leased__Holder holder;

	request_explain(req, &why);
	if (req->view)
		fill_lease(&lease, &holder, call->session, req->view);
	send_failure(call->session, call->id, &why, req->view ? &lease : NULL);
}

static void reply_acquire(struct call *call, Leased__ServerMessage *message)
{
	const struct request *req = &call->requests[0];
	Leased__Granted granted = LEASED__GRANTED__INIT;

	granted.token = req->claim.token;
	granted.expires_in_ms = (uint64_t)req->expires_in_ms;
	message->body_case = LEASED__SERVER_MESSAGE__BODY_GRANTED;
	message->granted = &granted;
	call_send(call->session, message);
}

static void reply_release(struct call *call, Leased__ServerMessage *message)
{
	Leased__Released released = LEASED__RELEASED__INIT;

	message->body_case = LEASED__SERVER_MESSAGE__BODY_RELEASED;
	message->released = &released;
	call_send(call->session, message);
}

static void reply_get(struct call *call, Leased__ServerMessage *message)
{
	const struct request *req = &call->requests[0];
	Leased__Lease lease = LEASED__LEASE__INIT;
	Leased__Holder holder;

	if (req->view)
		fill_lease(&lease, &holder, call->session, req->view);
	else
		lease.name = as_bytes(req->claim.name);
	message->body_case = LEASED__SERVER_MESSAGE__BODY_LEASE;
	message->lease = &lease;
	call_send(call->session, message);
}

/* Each result has a status of its own; the sentences live in the call's arena. */
static void reply_renew(struct call *call, Leased__ServerMessage *message)
{
	size_t n = call->n_requests;
	Leased__Renewed renewed = LEASED__RENEWED__INIT;
	Leased__RenewalResult *results = calloc(n, sizeof *results);
	Leased__RenewalResult **places = calloc(n, sizeof *places);
	struct leased_error why;

	for (size_t i = 0; results && places && i < n; i++) {
		const struct request *req = &call->requests[i];

		leased__renewal_result__init(&results[i]);
		places[i] = &results[i];
		if (req->status == LEASED_OK) {
			results[i].expires_in_ms = (uint64_t)req->expires_in_ms;
			continue;
		}
		request_explain(req, &why);
		results[i].status = (uint32_t)-req->status;
		results[i].why = arena_alloc(&call->arena, strlen(why.text) + 1);
		if (results[i].why)
			strcpy(results[i].why, why.text);
		else
			results[i].why = (char *)(uintptr_t)status_text(req->status);
	}
	renewed.n_results = n;
	renewed.results = places;
	message->body_case = LEASED__SERVER_MESSAGE__BODY_RENEWED;
	message->renewed = &renewed;
	if (results && places)
		call_send(call->session, message);
	else
		session_close(call->session, LEASED_ENOMEM, "out of memory");
	free(results);
	free(places);
}

/* As many rows as fit one frame; the client asks for those after them. */
static void reply_list(struct call *call, Leased__ServerMessage *message)
{
	const struct request *req = &call->requests[0];
	Leased__Listing listing = LEASED__LISTING__INIT;
	Leased__Lease leases[LIST_LIMIT_MAX], *places[LIST_LIMIT_MAX];
	Leased__Holder holders[LIST_LIMIT_MAX];

	message->body_case = LEASED__SERVER_MESSAGE__BODY_LISTING;
	message->listing = &listing;
	listing.leases = places;
	listing.more = req->more;
	for (uint32_t i = 0; i < req->n_listed; i++) {
		fill_lease(&leases[i], &holders[i], call->session, req->listing[i]);
		places[i] = &leases[i];
		listing.n_leases = i + 1;
		if (message_packed_size(&message->base) > FRAME_BODY_MAX) {
			listing.n_leases = i;
			listing.more = true;
			break;
		}
	}
	call_send(call->session, message);
}

static void reply(struct call *call)
{
	const struct request *req = &call->requests[0];
	Leased__ServerMessage message = LEASED__SERVER_MESSAGE__INIT;

	message.id = call->id;
	if (!call->session)
		; /* nobody is left to be told */
	else if (call->verb == VERB_RENEW)
		reply_renew(call, &message);
	else if (req->status < 0)
		reply_failure(call, req);
	else if (call->verb == VERB_ACQUIRE)
		reply_acquire(call, &message);
	else if (call->verb == VERB_RELEASE)
		reply_release(call, &message);
	else if (call->verb == VERB_LOOK)
		reply_get(call, &message);
	else
		reply_list(call, &message);
	call_free(call);
}

void call_abandon_all(struct session *s)
{
	struct list *node;

	while ((node = list_pop(&s->calls))) {
		struct call *call = list_entry(node, struct call, link);

		call->session = NULL;
		s->n_calls--;
		/* May finish the call, and so free it: only acquires wait, and they come alone. */
		if (call->verb == VERB_ACQUIRE)
			engine_abandon(s->all->engine, &call->requests[0]);
	}
}
