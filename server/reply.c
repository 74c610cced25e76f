#include "reply.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "gate.h"
#include "history.h"
#include "log.h"
#include "name.h"
#include "status.h"

/* Without an answer that it waits for, a session is of no use; its leases stay until they expire. */
static void give_up(struct session *s, const char *event)
{
	uint32_t left_out;

	if (log_allowed(&s->all->stranger_limit, clock_ms(), &left_out))
		log_event(LOG_WARN, event, "principal", 's', s->principal.name, "left_out", 'u',
			(uint64_t)left_out, NULL);
	s->transport.broken = true;
	session_close(s, LEASED_OK, NULL);
}

void reply_send(struct session *s, Leased__ServerMessage *message)
{
	struct leased_error why;
	uint8_t *out;
	size_t size;
	int len;

	if (s->state == SESSION_CLOSING || s->state == SESSION_CLOSED)
		return;
	len = gate_out(s->client, message, &why);
	if (len < 0)
		reply_failure(s, message->id, &why, NULL);
	if (len != 0)
		return;
	size = message_packed_size(&message->base);
	if (size > transport_room(&s->transport)) {
		give_up(s, "client_does_not_read");
		return;
	}
	out = transport_reserve(&s->transport, size);
	len = out ? message_pack(out, size, &message->base) : LEASED_ENOMEM;
	if (len < 0) {
		give_up(s, out ? "answer_too_large" : "no_memory_for_an_answer");
		return;
	}
	transport_commit(&s->transport, (size_t)len);
	if (list_empty(&s->dirty))
		list_append(&s->all->dirty, &s->dirty);
}

/* What the database says may quote hosts and settings: that is for who may ask for a report. */
static void hide_cause(const struct session *s, struct leased_error *why)
{
	bool is_cause = why->status == LEASED_EUNAVAILABLE || why->status == LEASED_EINTERNAL;

	if (is_cause && !access_may_begin(s->client, ACCESS_REPORT, (struct text){ "", 0 }))
		fail(why, why->status, "%s: the log of the daemon says why", status_text(why->status));
}

void reply_failure(struct session *s, uint64_t id, const struct leased_error *err,
	Leased__Lease *current)
{
	Leased__ServerMessage message = LEASED__SERVER_MESSAGE__INIT;
	Leased__Failure failure = LEASED__FAILURE__INIT;
	struct leased_error why = *err;

	hide_cause(s, &why);
	failure.status = (uint32_t)-why.status;
	failure.why = why.text;
	failure.current = current;
	message.id = id;
	message.body_case = LEASED__SERVER_MESSAGE__BODY_FAILURE;
	message.failure = &failure;
	reply_send(s, &message);
}

void reply_pong(struct session *s, uint64_t id)
{
	Leased__ServerMessage message = LEASED__SERVER_MESSAGE__INIT;
	Leased__Pong pong = LEASED__PONG__INIT;

	pong.no_database = !store_is_ready(engine_store(s->all->engine));
	message.id = id;
	message.body_case = LEASED__SERVER_MESSAGE__BODY_PONG;
	message.pong = &pong;
	reply_send(s, &message);
}

/* Health is about the daemon, not about a lease: answered without the engine. */
void reply_health(struct session *s, uint64_t id)
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
	h.schema_wanted = info.schema_wanted;
	h.pooled = info.pooled;
	h.synchronous_commit = info.synchronous_commit;
	h.daemon_clock_us = clock_wall_us();
	h.database_clock_us = h.daemon_clock_us + info.clock_offset_us;
	h.timeline = (uint32_t)info.timeline;
	h.epoch = info.epoch;
	h.connections = (uint32_t)s->all->config->writers + 1; /* the listener */
	h.sessions = (uint32_t)s->all->n;
	h.waiters = (uint32_t)engine_waiters(s->all->engine);
	h.queued = (uint32_t)engine_unanswered(s->all->engine);
	h.principal.data = (uint8_t *)s->principal.name;
	h.principal.len = s->principal.len;
	h.app_role_present = info.has_app_role;
	h.transaction_isolation = info.isolation;
	h.schema_owner = info.schema_owner;
	h.schema_owner_is_superuser = info.owner_is_superuser;
	h.excess_rights = info.excess;
	h.notifications_problem = (char *)(uintptr_t)s->all->notices_problem;
	message.id = id;
	message.body_case = LEASED__SERVER_MESSAGE__BODY_HEALTH;
	message.health = &h;
	reply_send(s, &message);
}

static ProtobufCBinaryData as_bytes(struct text text)
{
	return (ProtobufCBinaryData){ text.len, (uint8_t *)(uintptr_t)text.data };
}

static void fill_holder(Leased__Holder *ret_holder, const struct claim *claim)
{
	leased__holder__init(ret_holder);
	ret_holder->host = as_bytes(claim->host);
	ret_holder->pid = (uint32_t)claim->pid;
	ret_holder->nonce = claim->nonce;
}

/* A row as the protocol shows it; holder is memory for the inner message. */
static void fill_lease(Leased__Lease *ret_lease, Leased__Holder *holder,
	const struct lease_view *v)
{
	bool taken = v->expires_in_ms > 0;

	leased__lease__init(ret_lease);
	ret_lease->name = as_bytes(v->claim.name);
	ret_lease->token = v->claim.token;
	ret_lease->ttl_ms = (uint64_t)v->ttl_ms;
	ret_lease->acquired_at_us = v->acquired_at_us;
	ret_lease->expires_at_us = v->expires_at_us;
	ret_lease->waiters = (uint32_t)v->waiters;
	if (!taken)
		return;
	ret_lease->expires_in_ms = (uint64_t)v->expires_in_ms;
	ret_lease->max_holders = (uint32_t)v->max_holders;
	ret_lease->holders = (uint32_t)v->holders;
	ret_lease->state = v->released ? LEASED__LEASE__STATE__MIN_HOLD : LEASED__LEASE__STATE__HELD;
	if (v->released)
		return;
	fill_holder(holder, &v->claim);
	ret_lease->holder = holder;
	ret_lease->principal = as_bytes(v->claim.principal);
	ret_lease->held_for_ms = (uint64_t)(v->held_for_ms > 0 ? v->held_for_ms : 0);
	ret_lease->value = as_bytes(v->value);
}

void reply_lost(struct session *s, struct text name, uint64_t token, struct text why)
{
	Leased__ServerMessage message = LEASED__SERVER_MESSAGE__INIT;
	Leased__Lost lost = LEASED__LOST__INIT;
	char said[LEASED_ERROR_LEN];

	snprintf(said, sizeof said, "stolen by %.*s", (int)why.len, why.data);
	text_make_safe(said);
	lost.name = as_bytes(name);
	lost.token = token;
	lost.why = said;
	message.body_case = LEASED__SERVER_MESSAGE__BODY_LOST;
	message.lost = &lost;
	reply_send(s, &message);
}

/* Who holds or held a lease is for those who may get it, whatever else they asked for. */
static bool may_get(const struct session *s, const struct request *req)
{
	return access_may(s->client, ACCESS_GET, req->view ? req->view->claim.name : req->claim.name);
}

static void explain(const struct session *s, const struct request *req, struct leased_error *ret_why)
{
	bool tells_holder = req->view || req->done_by;

	request_explain(req, ret_why);
	if (tells_holder && !may_get(s, req))
		fail(ret_why, req->status, "%s", status_text(req->status));
	hide_cause(s, ret_why);
}

static void reply_stolen(struct call *call, Leased__ServerMessage *message)
{
	const struct request *req = &call->requests[0];
	Leased__Stolen stolen = LEASED__STOLEN__INIT;
	Leased__Lease lease;
	Leased__Holder holder;

	fill_lease(&lease, &holder, req->view);
	if (!may_get(call->session, req)) {
		leased__lease__init(&lease);
		lease.name = as_bytes(req->view->claim.name);
		lease.token = req->view->claim.token;
	}
	stolen.ended = &lease;
	message->body_case = LEASED__SERVER_MESSAGE__BODY_STOLEN;
	message->stolen = &stolen;
	reply_send(call->session, message);
}

static void reply_refused(struct call *call, const struct request *req)
{
	struct leased_error why;
	Leased__Lease lease;
	Leased__Holder holder;

	explain(call->session, req, &why);
	if (call->denied && why.status == LEASED_ECANCELLED)
		gate_deny(&why, call->session->client, ACCESS_ACQUIRE, req->claim.name);
	if (req->view)
		fill_lease(&lease, &holder, req->view);
	reply_failure(call->session, call->id, &why, req->view ? &lease : NULL);
}

void reply_change(struct session *s, uint64_t id, const struct change *change)
{
	static const Leased__Change__Event events[] = {
		[CHANGE_SNAPSHOT] = LEASED__CHANGE__EVENT__SNAPSHOT,
		[CHANGE_HELD] = LEASED__CHANGE__EVENT__HELD,
		[CHANGE_READY] = LEASED__CHANGE__EVENT__READY,
		[CHANGE_GRANTED] = LEASED__CHANGE__EVENT__GRANTED,
		[CHANGE_VALUE] = LEASED__CHANGE__EVENT__VALUE,
		[CHANGE_RELEASED] = LEASED__CHANGE__EVENT__RELEASED,
		[CHANGE_EXPIRED] = LEASED__CHANGE__EVENT__EXPIRED,
		[CHANGE_STOLEN] = LEASED__CHANGE__EVENT__STOLEN,
	};
	Leased__ServerMessage message = LEASED__SERVER_MESSAGE__INIT;
	Leased__Change m = LEASED__CHANGE__INIT;
	Leased__Holder holder;

	m.event = events[change->kind];
	m.name = as_bytes(change->claim.name);
	m.token = change->claim.token;
	m.expires_in_ms = (uint64_t)change->expires_in_ms;
	m.value = as_bytes(change->value);
	if (change->claim.pid > 0) {
		fill_holder(&holder, &change->claim);
		m.holder = &holder;
	}
	message.id = id;
	message.body_case = LEASED__SERVER_MESSAGE__BODY_CHANGE;
	message.change = &m;
	reply_send(s, &message);
}

static void reply_acquire(struct call *call, Leased__ServerMessage *message)
{
	const struct request *req = &call->requests[0];
	Leased__Granted granted = LEASED__GRANTED__INIT;

	granted.token = req->claim.token;
	granted.expires_in_ms = (uint64_t)req->expires_in_ms;
	message->body_case = LEASED__SERVER_MESSAGE__BODY_GRANTED;
	message->granted = &granted;
	reply_send(call->session, message);
}

static void reply_release(struct call *call, Leased__ServerMessage *message)
{
	Leased__Released released = LEASED__RELEASED__INIT;

	message->body_case = LEASED__SERVER_MESSAGE__BODY_RELEASED;
	message->released = &released;
	reply_send(call->session, message);
}

static void reply_get(struct call *call, Leased__ServerMessage *message)
{
	const struct request *req = &call->requests[0];
	Leased__Lease lease = LEASED__LEASE__INIT;
	Leased__Holder holder;

	if (req->view)
		fill_lease(&lease, &holder, req->view);
	else
		lease.name = as_bytes(req->claim.name);
	message->body_case = LEASED__SERVER_MESSAGE__BODY_LEASE;
	message->lease = &lease;
	reply_send(call->session, message);
}

/* A sentence as long as the frame has room; it lives in the call's arena. */
static void explain_result(struct call *call, const struct request *req,
	Leased__RenewalResult *result, size_t *room)
{
	struct leased_error why;
	size_t size;
	char *copy;

	explain(call->session, req, &why);
	size = strlen(why.text) + 1;
	if (size > *room)
		return;
	copy = arena_alloc(&call->arena, size);
	if (!copy)
		return;
	*room -= size;
	result->why = memcpy(copy, why.text, size);
}

/* What a retry cannot change. */
static bool is_lost(int status)
{
	return status == LEASED_ELOST || status == LEASED_ENOTHELD;
}

/* What became of a grant: the shortest time, or the worst failure, of all its names. */
static void add_result(struct call *call, const struct request *req, Leased__RenewalResult *result, size_t *room)
{
	uint64_t left = (uint64_t)req->expires_in_ms;

	if (result->status != 0 && !(is_lost(req->status) && !is_lost(-(int)result->status)))
		return;
	if (req->status < 0) {
		result->status = (uint32_t)-req->status;
		result->expires_in_ms = 0;
		explain_result(call, req, result, room);
	} else if (!req->joined || left < result->expires_in_ms) {
		result->expires_in_ms = left;
	}
}

/* Each grant has a result of its own. */
static void reply_renew(struct call *call, Leased__ServerMessage *message)
{
	size_t n = call->n_requests;
	Leased__Renewed renewed = LEASED__RENEWED__INIT;
	Leased__RenewalResult *results = calloc(n, sizeof *results);
	Leased__RenewalResult **places = calloc(n, sizeof *places);
	/* Each result takes less than 16 bytes beside its sentence. */
	size_t room = FRAME_BODY_MAX - 64 - (16 * n < FRAME_BODY_MAX - 64 ? 16 * n : FRAME_BODY_MAX - 64);

	for (size_t i = 0; results && places && i < n; i++) {
		const struct request *req = &call->requests[i];

		if (!req->joined) {
			places[renewed.n_results] = &results[renewed.n_results];
			leased__renewal_result__init(places[renewed.n_results++]);
		}
		add_result(call, req, places[renewed.n_results - 1], &room);
	}
	renewed.results = places;
	message->body_case = LEASED__SERVER_MESSAGE__BODY_RENEWED;
	message->renewed = &renewed;
	if (results && places)
		reply_send(call->session, message);
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
		fill_lease(&leases[i], &holders[i], req->listing[i]);
		places[i] = &leases[i];
		listing.n_leases = i + 1;
		if (message_packed_size(&message->base) > FRAME_BODY_MAX) {
			listing.n_leases = i;
			listing.more = true;
			break;
		}
	}
	reply_send(call->session, message);
}

static void fill_grant(Leased__Grant *ret_grant, Leased__Holder *holder, const struct grant_view *v)
{
	static const Leased__Grant__Ending endings[] = { [ENDING_HELD] = LEASED__GRANT__ENDING__HELD,
		[ENDING_RELEASED] = LEASED__GRANT__ENDING__RELEASED,
		[ENDING_EXPIRED] = LEASED__GRANT__ENDING__EXPIRED,
		[ENDING_STOLEN] = LEASED__GRANT__ENDING__STOLEN };

	leased__grant__init(ret_grant);
	fill_holder(holder, &v->claim);
	ret_grant->holder = holder;
	ret_grant->name = as_bytes(v->claim.name);
	ret_grant->token = v->claim.token;
	ret_grant->ended = endings[v->ended];
	ret_grant->principal = as_bytes(v->claim.principal);
	ret_grant->acquired_at_us = v->acquired_at_us;
	ret_grant->ended_at_us = v->ended_at_us;
	ret_grant->held_for_ms = (uint64_t)(v->held_for_ms > 0 ? v->held_for_ms : 0);
	if (v->has_exit_status) {
		ret_grant->ending_case = LEASED__GRANT__ENDING_EXIT_STATUS;
		ret_grant->exit_status = v->exit_status;
	}
	ret_grant->stolen_by = as_bytes(v->stolen_by);
	ret_grant->reason = as_bytes(v->reason);
	ret_grant->is_newest = v->is_newest && v->ended == ENDING_EXPIRED;
}

static void reply_history(struct call *call, Leased__ServerMessage *message)
{
	const struct request *req = &call->requests[0];
	Leased__Grants page = LEASED__GRANTS__INIT;
	Leased__Grant grants[LIST_LIMIT_MAX], *places[LIST_LIMIT_MAX];
	Leased__Holder holders[LIST_LIMIT_MAX];
	uint8_t next[HISTORY_CURSOR_MAX];

	message->body_case = LEASED__SERVER_MESSAGE__BODY_GRANTS;
	message->grants = &page;
	page.grants = places;
	page.keep_ms = (uint64_t)call->session->all->config->history_keep_ms;
	for (uint32_t i = 0; i < req->n_listed; i++) {
		fill_grant(&grants[i], &holders[i], req->grants[i]);
		places[i] = &grants[i];
		page.n_grants = i + 1;
		if (message_packed_size(&message->base) > FRAME_BODY_MAX - sizeof next) {
			page.n_grants = i;
			break;
		}
	}
	page.next.data = next;
	page.next.len = history_next(next, req, (uint32_t)page.n_grants);
	reply_send(call->session, message);
}

/* Of a release of several the first that failed. */
static const struct request *decisive(const struct call *call)
{
	for (size_t i = 0; i < call->n_requests; i++)
		if (call->requests[i].status < 0)
			return &call->requests[i];
	return &call->requests[0];
}

void reply_outcome(struct call *call)
{
	const struct request *req = decisive(call);
	Leased__ServerMessage message = LEASED__SERVER_MESSAGE__INIT;

	message.id = call->id;
	if (call->verb == VERB_RENEW)
		reply_renew(call, &message);
	else if (req->status < 0)
		reply_refused(call, req);
	else if (call->verb == VERB_ACQUIRE)
		reply_acquire(call, &message);
	else if (call->verb == VERB_RELEASE)
		reply_release(call, &message);
	else if (call->verb == VERB_STEAL)
		reply_stolen(call, &message);
	else if (call->verb == VERB_LOOK)
		reply_get(call, &message);
	else if (verb_is_aside(call->verb))
		reply_history(call, &message);
	else
		reply_list(call, &message);
}
