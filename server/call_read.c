#include "call_read.h"

#include <string.h>

#include "duration.h"
#include "history.h"
#include "name.h"
#include "status.h"

static struct text as_text(ProtobufCBinaryData data)
{
	return (struct text){ (const char *)data.data, data.len };
}

static int read_holder(struct claim *ret_claim, const struct session *s, ProtobufCBinaryData name,
	const Leased__Holder *holder, struct leased_error *err)
{
	int rc;

	if (!holder)
		return fail(err, LEASED_EDATA, "the holder is missing");
	rc = host_check(holder->host.data, holder->host.len, err);
	if (rc < 0)
		return rc;
	if (holder->pid == 0 || holder->pid > INT32_MAX)
		return fail(err, LEASED_EDATA, "the holder's pid must be 1 to %d", INT32_MAX);
	*ret_claim = (struct claim){ .name = as_text(name), .host = as_text(holder->host),
		.principal = { s->principal.name, s->principal.len }, .nonce = holder->nonce,
		.pid = (int32_t)holder->pid };
	return 0;
}

static int read_claim(struct claim *ret_claim, const struct session *s, const Leased__Claim *m,
	struct leased_error *err)
{
	int rc = names_check(m->name, m->also, m->n_also, err);

	if (rc == 0)
		rc = read_holder(ret_claim, s, m->name, m->holder, err);
	if (rc == 0 && m->token > INT64_MAX)
		rc = fail(err, LEASED_EDATA, "a token is below 2^53");
	ret_claim->token = m->token;
	return rc;
}

/* The further names of a claim, in the requests behind that of its first one. */
static void join_names(struct request *first, const ProtobufCBinaryData also[], size_t n_also)
{
	for (size_t i = 1; i <= n_also; i++) {
		first[i] = *first;
		first[i].claim.name = as_text(also[i - 1]);
		first[i].joined = true;
	}
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

/* Whether, and by whose death, the lease is to be given back. */
static int read_departure(struct request *req, const struct session *s, bool wanted, uint32_t pid,
	struct leased_error *err)
{
	if (pid > INT32_MAX || (pid > 0 && !wanted))
		return fail(err, LEASED_EDATA, "watched_pid is a process, and goes with release_on_disconnect");
	req->release_on_disconnect = wanted;
	req->watched_pid = (pid_t)pid;
	return pid > 0 ? holdings_check_pid((pid_t)pid, s->principal.pid, s->principal.uid, err) : 0;
}

/* Several names, and several holders. */
static int take_several(struct request *req, struct call *call, const Leased__Acquire *m, struct leased_error *err)
{
	if (m->max_holders > LEASED_SHARED)
		return fail(err, LEASED_EDATA, "at most %d can hold a lease at once", LEASED_SHARED);
	if (m->max_holders > 1 && (m->slot.len > 0 || m->every_ms > 0))
		return fail(err, LEASED_EDATA, "a slot and an interval are for a lease with one holder");
	req->max_holders = m->max_holders > 0 ? (int32_t)m->max_holders : 1;
	if (m->n_also == 0)
		return 0;
	req->n_names = m->n_also + 1;
	req->names = arena_alloc(&call->arena, req->n_names * sizeof *req->names);
	if (!req->names)
		return LEASED_ENOMEM;
	req->names[0] = req->claim.name;
	for (size_t i = 0; i < m->n_also; i++)
		req->names[i + 1] = as_text(m->also[i]);
	return 0;
}

/* What may refuse it besides a holder: the slot, and the interval. */
static int take_limits(struct request *req, const Leased__Acquire *m, struct leased_error *err)
{
	int rc = m->slot.len > 0 ? slot_check(m->slot.data, m->slot.len, err) : 0;

	if (rc < 0)
		return rc;
	if (m->slot_on_failure != LEASED__ACQUIRE__SLOT_ON_FAILURE__DONE &&
		m->slot_on_failure != LEASED__ACQUIRE__SLOT_ON_FAILURE__AGAIN)
		return fail(err, LEASED_EDATA, "slot_on_failure is DONE or AGAIN");
	if (m->slot_on_failure && m->slot.len == 0)
		return fail(err, LEASED_EDATA, "slot_on_failure without a slot");
	if (m->every_ms > DURATION_MAX_MS)
		return fail(err, LEASED_EDATA, "an interval is at most ten years");
	req->slot = as_text(m->slot);
	req->slot_again = m->slot_on_failure == LEASED__ACQUIRE__SLOT_ON_FAILURE__AGAIN;
	req->every_ms = (int64_t)m->every_ms;
	return 0;
}

static int take_acquire(struct session *s, struct call *call, const Leased__Acquire *m,
	struct leased_error *err)
{
	struct request *req = &call->requests[0];
	int rc;

	rc = names_check(m->name, m->also, m->n_also, err);
	if (rc == 0)
		rc = read_holder(&req->claim, s, m->name, m->holder, err);
	if (rc == 0)
		rc = check_ttl(s, m->ttl_ms, err);
	if (rc == 0)
		rc = value_check(m->value.data, m->value.len, err);
	if (rc == 0)
		rc = take_limits(req, m, err);
	if (rc == 0)
		rc = take_several(req, call, m, err);
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
	rc = read_departure(req, s, m->release_on_disconnect, m->watched_pid, err);
	if (rc < 0)
		return rc;
	return keep_principal(call, &req->claim);
}

static int read_renewal(struct request *req, struct session *s, const Leased__Renewal *r,
	struct leased_error *err)
{
	int rc;

	if (!r->claim)
		return fail(err, LEASED_EDATA, "a renewal without a claim");
	rc = read_claim(&req->claim, s, r->claim, err);
	if (rc == 0 && r->ttl_ms > 0)
		rc = check_ttl(s, r->ttl_ms, err);
	if (rc == 0)
		rc = value_check(r->value.data, r->value.len, err);
	if (rc == 0 && r->value.len > 0 && !r->set_value)
		rc = fail(err, LEASED_EDATA, "a value without set_value");
	req->verb = VERB_RENEW;
	req->ttl_ms = (int64_t)r->ttl_ms;
	req->value = as_text(r->value);
	req->has_value = r->set_value;
	return rc == 0 ? read_departure(req, s, r->release_on_disconnect, r->watched_pid, err) : rc;
}

static int take_renew(struct session *s, struct call *call, const Leased__Renew *m,
	struct leased_error *err)
{
	struct request *req = call->requests;
	int rc;

	if (m->n_renewals == 0)
		return fail(err, LEASED_EDATA, "a renew without leases");
	for (size_t i = 0; i < m->n_renewals; i++) {
		const Leased__Renewal *r = m->renewals[i];

		rc = read_renewal(req, s, r, err);
		if (rc == 0 && i == 0)
			rc = keep_principal(call, &req->claim);
		if (rc < 0)
			return rc;
		req->claim.principal = call->requests[0].claim.principal;
		join_names(req, r->claim->also, r->claim->n_also);
		req += 1 + r->claim->n_also;
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
	rc = read_claim(&req->claim, s, m->claim, err);
	if (rc < 0)
		return rc;
	req->verb = VERB_RELEASE;
	req->has_exit_status = m->ending_case == LEASED__RELEASE__ENDING_EXIT_STATUS;
	req->exit_status = m->exit_status;
	req->retry = m->retry;
	req->undone = m->undone;
	rc = keep_principal(call, &req->claim);
	join_names(req, m->claim->also, m->claim->n_also);
	return rc;
}

static int take_steal(struct session *s, struct call *call, const Leased__Steal *m,
	struct leased_error *err)
{
	struct request *req = &call->requests[0];
	int rc = name_check(m->name.data, m->name.len, err);

	if (rc == 0)
		rc = reason_check(m->reason.data, m->reason.len, err);
	if (rc < 0)
		return rc;
	if (m->token > INT64_MAX)
		return fail(err, LEASED_EDATA, "a token is below 2^53");
	req->verb = VERB_STEAL;
	req->claim.name = as_text(m->name);
	req->claim.token = m->token;
	req->claim.principal = (struct text){ s->principal.name, s->principal.len };
	req->reason = as_text(m->reason);
	return keep_principal(call, &req->claim);
}

static int take_get(struct session *s, struct call *call, const Leased__Get *m, struct leased_error *err)
{
	struct request *req = &call->requests[0];
	int rc = name_check(m->name.data, m->name.len, err);

	if (rc < 0)
		return rc;
	req->verb = VERB_LOOK;
	req->claim.name = as_text(m->name);
	if (!m->holder)
		return 0;
	rc = read_holder(&req->claim, s, m->name, m->holder, err);
	return rc == 0 ? keep_principal(call, &req->claim) : rc;
}

/* A client that knows of no after_token goes on behind all grants of the name. */
static int take_list(struct call *call, const Leased__List *m, struct leased_error *err)
{
	struct request *req = &call->requests[0];
	int rc = m->exact ? name_check(m->prefix.data, m->prefix.len, err)
			  : prefix_check(m->prefix.data, m->prefix.len, err);

	if (rc == 0)
		rc = prefix_check(m->after.data, m->after.len, err);
	if (rc == 0 && m->after_token > INT64_MAX)
		rc = fail(err, LEASED_EDATA, "a token is below 2^53");
	if (rc < 0)
		return rc;
	req->verb = VERB_LIST;
	req->prefix = as_text(m->prefix);
	req->after = as_text(m->after);
	req->claim.token = m->after_token > 0 ? m->after_token : INT64_MAX;
	req->exact = m->exact;
	req->limit = m->limit > 0 && m->limit < LIST_LIMIT_MAX ? m->limit : LIST_LIMIT_MAX;
	return 0;
}

static int take_history(struct call *call, const Leased__History *m, struct leased_error *err)
{
	struct request *req = &call->requests[0];
	int rc;

	if (m->failed ? m->name.len > 0 : m->prefix.len > 0)
		return fail(err, LEASED_EDATA, "a history is of one name, or of what failed under a prefix");
	rc = m->failed ? prefix_check(m->prefix.data, m->prefix.len, err)
		       : name_check(m->name.data, m->name.len, err);
	if (rc < 0)
		return rc;
	if (m->since_ms > DURATION_MAX_MS)
		return fail(err, LEASED_EDATA, "a history goes back at most %lld ms",
			(long long)DURATION_MAX_MS);
	req->verb = m->failed ? VERB_LAPSED : VERB_HISTORY;
	req->claim.name = as_text(m->name);
	req->prefix = as_text(m->prefix);
	req->past.since_ms = (int64_t)m->since_ms;
	req->limit = m->limit > 0 && m->limit < LIST_LIMIT_MAX ? m->limit : LIST_LIMIT_MAX;
	history_begin(req);
	return m->after.len > 0 ? history_resume(req, as_text(m->after), err) : 0;
}

int call_read(struct session *s, struct call *call, const Leased__ClientMessage *m,
	struct leased_error *err)
{
	switch (m->body_case) {
	case LEASED__CLIENT_MESSAGE__BODY_ACQUIRE: return take_acquire(s, call, m->acquire, err);
	case LEASED__CLIENT_MESSAGE__BODY_RENEW: return take_renew(s, call, m->renew, err);
	case LEASED__CLIENT_MESSAGE__BODY_RELEASE: return take_release(s, call, m->release, err);
	case LEASED__CLIENT_MESSAGE__BODY_STEAL: return take_steal(s, call, m->steal, err);
	case LEASED__CLIENT_MESSAGE__BODY_GET: return take_get(s, call, m->get, err);
	case LEASED__CLIENT_MESSAGE__BODY_LIST: return take_list(call, m->list, err);
	case LEASED__CLIENT_MESSAGE__BODY_HISTORY: return take_history(call, m->history, err);
	default: return fail(err, LEASED_EPROTO, "an unknown request");
	}
}
