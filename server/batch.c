#include "batch.h"

#include <stdlib.h>
#include <string.h>

#include "history.h"

/* Type oids of PostgreSQL (src/include/catalog/pg_type.dat); they never change. */
enum { OID_BOOL = 16, OID_INT8 = 20, OID_INT4 = 23, OID_TEXT = 25 };

/* What a row of list.sql is, and one of look.sql, steal.sql and held.sql begins with; all of look.sql. */
#define VIEW_COLUMNS 15
#define LOOK_COLUMNS 28

enum column {
	COL_END,
	COL_NAME,
	COL_TOKEN,
	COL_HOST,
	COL_PID,
	COL_NONCE,
	COL_PRINCIPAL,
	COL_TTL_MS,
	COL_MIN_HOLD_MS,
	COL_VALUE,
	COL_EXIT_STATUS,
	COL_PLACE,
	COL_REASON,
	COL_UNDONE,
	COL_SLOT,
	COL_SLOT_AGAIN,
	COL_EVERY_MS,
	COL_MAX_HOLDERS,
};

/* The arrays of each statement, in the order of its parameters. */
static const enum column columns[VERB_COUNT][PARAMS_MAX + 1] = {
	[VERB_ACQUIRE] = { COL_NAME, COL_HOST, COL_PID, COL_NONCE, COL_PRINCIPAL, COL_TTL_MS,
		COL_MIN_HOLD_MS, COL_VALUE, COL_PLACE, COL_END },
	[VERB_ACQUIRE_LIMITED] = { COL_NAME, COL_HOST, COL_PID, COL_NONCE, COL_PRINCIPAL, COL_TTL_MS,
		COL_MIN_HOLD_MS, COL_VALUE, COL_PLACE, COL_SLOT, COL_SLOT_AGAIN, COL_EVERY_MS,
		COL_MAX_HOLDERS, COL_END },
	[VERB_RENEW] = { COL_NAME, COL_TOKEN, COL_HOST, COL_PID, COL_NONCE, COL_PRINCIPAL,
		COL_TTL_MS, COL_END },
	[VERB_RENEW_VALUE] = { COL_NAME, COL_TOKEN, COL_HOST, COL_PID, COL_NONCE, COL_PRINCIPAL,
		COL_TTL_MS, COL_VALUE, COL_END },
	[VERB_RELEASE] = { COL_NAME, COL_TOKEN, COL_HOST, COL_PID, COL_NONCE, COL_PRINCIPAL,
		COL_EXIT_STATUS, COL_UNDONE, COL_END },
	[VERB_RELEASE_AGAIN] = { COL_NAME, COL_TOKEN, COL_HOST, COL_PID, COL_NONCE, COL_PRINCIPAL,
		COL_EXIT_STATUS, COL_UNDONE, COL_END },
	[VERB_STEAL] = { COL_NAME, COL_TOKEN, COL_PRINCIPAL, COL_REASON, COL_END },
	[VERB_LOOK] = { COL_NAME, COL_SLOT, COL_EVERY_MS, COL_TOKEN, COL_HOST, COL_PID, COL_NONCE,
		COL_PRINCIPAL, COL_MAX_HOLDERS, COL_PLACE, COL_END },
	[VERB_QUEUE] = { COL_NAME, COL_HOST, COL_PID, COL_NONCE, COL_PRINCIPAL, COL_PLACE, COL_END },
	[VERB_LEAVE] = { COL_NAME, COL_PLACE, COL_END },
	[VERB_BEAT] = { COL_END },
	[VERB_EXPIRY] = { COL_NAME, COL_TOKEN, COL_END },
	[VERB_CHANGING] = { COL_END },
};

static uint32_t column_oid(enum column column)
{
	switch (column) {
	case COL_NAME:
	case COL_HOST:
	case COL_PRINCIPAL:
	case COL_REASON:
	case COL_VALUE:
	case COL_SLOT: return OID_TEXT;
	case COL_UNDONE:
	case COL_SLOT_AGAIN: return OID_BOOL;
	case COL_PID:
	case COL_MAX_HOLDERS:
	case COL_EXIT_STATUS: return OID_INT4;
	default: return OID_INT8;
	}
}

/* What a request does not say is NULL: the statement keeps what there is, or does without. */
static bool is_null(enum column column, const struct request *req)
{
	switch (column) {
	case COL_TTL_MS: return req->ttl_ms == 0;
	case COL_VALUE: return !req->has_value;
	case COL_EXIT_STATUS: return !req->has_exit_status;
	case COL_SLOT:
	case COL_SLOT_AGAIN: return req->slot.len == 0;
	case COL_EVERY_MS: return req->every_ms == 0;
	default: return false;
	}
}

static void put_element(struct params *p, enum column column, const struct request *req)
{
	const struct claim *c = &req->claim;

	if (is_null(column, req)) {
		put_null(p);
		return;
	}
	switch (column) {
	case COL_NAME: put_text_element(p, c->name); break;
	case COL_HOST: put_text_element(p, c->host); break;
	case COL_PRINCIPAL: put_text_element(p, c->principal); break;
	case COL_TOKEN: put_i64_element(p, (int64_t)c->token); break;
	case COL_PID: put_i32_element(p, c->pid); break;
	case COL_NONCE: put_i64_element(p, (int64_t)c->nonce); break;
	case COL_TTL_MS: put_i64_element(p, req->ttl_ms); break;
	case COL_MIN_HOLD_MS: put_i64_element(p, req->min_hold_ms); break;
	case COL_VALUE: put_text_element(p, req->value); break;
	case COL_EXIT_STATUS: put_i32_element(p, req->exit_status); break;
	case COL_PLACE: put_i64_element(p, req->place); break;
	case COL_REASON: put_text_element(p, req->reason); break;
	case COL_UNDONE: put_bool_element(p, req->undone); break;
	case COL_SLOT: put_text_element(p, req->slot); break;
	case COL_SLOT_AGAIN: put_bool_element(p, req->slot_again); break;
	case COL_EVERY_MS: put_i64_element(p, req->every_ms); break;
	case COL_MAX_HOLDERS: put_i32_element(p, req->max_holders > 0 ? req->max_holders : 1); break;
	case COL_END: break;
	}
}

/* An array as array_recv takes it: dimensions, has-nulls, element type, then length and lower bound. */
static void begin_array(struct params *p, bool has_nulls, uint32_t oid, size_t n)
{
	begin_param(p);
	put_i32(p, 1);
	put_i32(p, has_nulls);
	put_i32(p, (int32_t)oid);
	put_i32(p, (int32_t)n);
	put_i32(p, 1);
}

static void put_array(struct params *p, enum column column, const struct batch *batch)
{
	bool has_nulls = false;

	for (size_t i = 0; i < batch->n && !has_nulls; i++)
		has_nulls = is_null(column, batch->reqs[i]);
	begin_array(p, has_nulls, column_oid(column), batch->n);
	for (size_t i = 0; i < batch->n; i++)
		put_element(p, column, batch->reqs[i]);
}

/* All names of an acquire of several, which is alone in its batch; else none. */
static void put_names(struct params *p, const struct request *req)
{
	if (req->n_names > 0) {
		begin_array(p, false, OID_TEXT, req->n_names);
	} else { /* an empty array has no dimension */
		begin_param(p);
		put_i32(p, 0);
		put_i32(p, 0);
		put_i32(p, OID_TEXT);
	}
	for (size_t i = 0; i < req->n_names; i++)
		put_text_element(p, req->names[i]);
}

/* The request of a look at several leases. */
static void put_several(struct params *p, const struct request *req)
{
	const struct claim *c = &req->claim;

	put_names(p, req);
	put_text_param(p, req->slot);
	put_i64_param(p, req->every_ms);
	put_text_param(p, c->host);
	put_i32_param(p, c->pid);
	put_i64_param(p, (int64_t)c->nonce);
	put_text_param(p, c->principal);
	put_i32_param(p, req->max_holders);
	put_i64_param(p, req->place);
}

/* The scalars behind the arrays, or instead of them. */
static void put_scalars(struct params *p, const struct batch *batch)
{
	const struct request *req = batch->reqs[0];

	switch (batch->verb) {
	case VERB_ACQUIRE:
		put_i32_param(p, batch->epoch);
		put_i64_param(p, batch->daemon);
		break;
	case VERB_LOOK_SEVERAL: put_several(p, req); break;
	case VERB_ACQUIRE_LIMITED:
		put_names(p, req);
		put_i64_param(p, batch->slot_keep_ms);
		put_i64_param(p, batch->daemon);
		break;
	case VERB_RELEASE:
	case VERB_RELEASE_AGAIN:
	case VERB_STEAL:
	case VERB_QUEUE:
	case VERB_LEAVE: put_i64_param(p, batch->daemon); break;
	case VERB_BEAT:
		put_i64_param(p, batch->daemon);
		put_flag(p, req->watching);
		break;
	case VERB_CHANGING: put_text_param(p, req->prefix); break;
	case VERB_LIST:
	case VERB_HELD:
		put_text_param(p, req->prefix);
		put_text_param(p, req->after);
		put_i64_param(p, (int64_t)req->claim.token);
		/* One more row tells whether there is more. */
		put_i32_param(p, (int32_t)req->limit + (batch->verb == VERB_LIST));
		put_flag(p, req->exact);
		break;
	default: break;
	}
	if (batch->verb == VERB_ACQUIRE || batch->verb == VERB_RELEASE ||
		batch->verb == VERB_RELEASE_AGAIN || batch->verb == VERB_STEAL)
		put_flag(p, batch->keeps_history);
}

int batch_encode(const struct batch *batch, struct params *params)
{
	params_begin(params);
	if (verb_is_aside(batch->verb))
		history_encode(batch->reqs[0], params);
	for (const enum column *c = columns[batch->verb]; *c != COL_END; c++)
		put_array(params, *c, batch);
	put_scalars(params, batch);
	return params_finish(params);
}

/* Reading rows. */

/* The request that a position (from 1) names. */
static struct request *by_position(struct batch *batch, const PGresult *result, int row)
{
	int64_t i;

	if (!get_i64(result, row, 0, &i) || i < 1 || (uint64_t)i > batch->n)
		return NULL;
	return batch->reqs[i - 1];
}

/* Columns `at` and `at + 1` are an expiry and the clock: what is left, rounded down. */
static bool get_time_left(const PGresult *result, int row, int at, int64_t *ret_ms)
{
	int64_t expires, now;

	if (!get_i64(result, row, at, &expires) || !get_i64(result, row, at + 1, &now))
		return false;
	*ret_ms = (expires - now) / 1000;
	return true;
}

static int decode_grant(struct batch *batch, const PGresult *result, int row)
{
	struct request *req = batch_find(batch, get_text(result, row, 0));
	int64_t token;

	if (!req || !get_i64(result, row, 1, &token) ||
		!get_time_left(result, row, 2, &req->expires_in_ms))
		return LEASED_EINTERNAL;
	req->claim.token = (uint64_t)token;
	req->found = true;
	return 0;
}

static int decode_renewal(struct batch *batch, const PGresult *result, int row)
{
	struct request *req = by_position(batch, result, row);

	if (!req || !get_time_left(result, row, 1, &req->expires_in_ms))
		return LEASED_EINTERNAL;
	req->found = true;
	return 0;
}

static int decode_release(struct batch *batch, const PGresult *result, int row)
{
	struct request *req = by_position(batch, result, row);

	if (!req)
		return LEASED_EINTERNAL;
	req->found = true;
	return 0;
}

/* The columns that look.sql, list.sql, steal.sql and held.sql begin with. NULL: out of memory, or not such a row. */
static struct lease_view *read_view(const PGresult *result, int row)
{
	struct text name, host, principal, value;
	struct lease_view v = { 0 }, *view;
	int64_t token, nonce, acquired, expires, now;
	char *at;

	if (PQnfields(result) < VIEW_COLUMNS || !get_i64(result, row, 13, &v.waiters) ||
		!get_i32(result, row, 14, &v.max_holders) || !get_i64(result, row, 2, &token) ||
		!get_i32(result, row, 4, &v.claim.pid) || !get_i64(result, row, 5, &nonce) ||
		!get_i64(result, row, 7, &acquired) || !get_i64(result, row, 8, &expires) ||
		!get_bool(result, row, 9, &v.released) || !get_i64(result, row, 10, &v.ttl_ms) ||
		!get_i64(result, row, 12, &now))
		return NULL;
	name = get_text(result, row, 1);
	host = get_text(result, row, 3);
	principal = get_text(result, row, 6);
	value = get_text(result, row, 11);
	view = malloc(sizeof *view + name.len + host.len + principal.len + value.len);
	if (!view)
		return NULL;
	v.claim.token = (uint64_t)token;
	v.claim.nonce = (uint64_t)nonce;
	v.has_value = !PQgetisnull(result, row, 11);
	v.expires_in_ms = (expires - now) / 1000;
	v.held_for_ms = (now - acquired) / 1000;
	v.acquired_at_us = acquired + PG_EPOCH_US;
	v.expires_at_us = expires + PG_EPOCH_US;
	*view = v;
	at = (char *)(view + 1);
	view->claim.name = copy_text(&at, name);
	view->claim.host = copy_text(&at, host);
	view->claim.principal = copy_text(&at, principal);
	view->value = copy_text(&at, value);
	return view;
}

/* The rest of the columns of look.sql: the slot was completed. NULL: as for read_view. */
static struct done_view *read_slot(const PGresult *result, int row)
{
	struct text host = get_text(result, row, 16), principal = get_text(result, row, 19);
	struct done_view d = { .by_slot = true }, *done;
	int64_t token, nonce, at, now;
	char *texts;

	if (!get_i64(result, row, 15, &token) || !get_i32(result, row, 17, &d.claim.pid) ||
		!get_i64(result, row, 18, &nonce) || !get_i64(result, row, 21, &at) ||
		!get_i64(result, row, 12, &now))
		return NULL;
	done = malloc(sizeof *done + host.len + principal.len);
	if (!done)
		return NULL;
	d.claim.token = (uint64_t)token;
	d.claim.nonce = (uint64_t)nonce;
	d.has_exit_status = get_i32(result, row, 20, &d.exit_status);
	d.ago_ms = (now - at) / 1000;
	*done = d;
	texts = (char *)(done + 1);
	done->claim.host = copy_text(&texts, host);
	done->claim.principal = copy_text(&texts, principal);
	return done;
}

/* The interval is not over. Whose run it was, the row tells as long as it is the last grant. */
static struct done_view *read_interval(const PGresult *result, int row, const struct lease_view *view)
{
	struct done_view *done = calloc(1, sizeof *done);
	int64_t ran, next, now;

	if (!done || !view || !get_i64(result, row, 22, &ran) || !get_i64(result, row, 23, &next) ||
		!get_i64(result, row, 12, &now)) {
		free(done);
		return NULL;
	}
	if (view->acquired_at_us == ran + PG_EPOCH_US)
		done->claim = view->claim; /* whose texts live as long */
	done->ago_ms = (now - ran) / 1000;
	done->left_ms = (next - now) / 1000;
	return done;
}

static int decode_look(struct batch *batch, const PGresult *result, int row)
{
	struct request *req = by_position(batch, result, row);

	if (!req || req->view || req->done_by)
		return LEASED_EINTERNAL;
	req->found = true;
	if (!PQgetisnull(result, row, 1)) {
		req->view = read_view(result, row);
		if (!req->view)
			return LEASED_ENOMEM;
	}
	if (batch->verb == VERB_STEAL)
		return 0;
	if (PQnfields(result) != LOOK_COLUMNS ||
		(req->view && !get_i64(result, row, 24, &req->view->holders)) ||
		!get_bool(result, row, 25, &req->has_room) || !get_bool(result, row, 26, &req->has_extras) ||
		!get_bool(result, row, 27, &req->is_behind))
		return LEASED_EINTERNAL;
	if (!PQgetisnull(result, row, 15))
		req->done_by = read_slot(result, row);
	else if (!PQgetisnull(result, row, 22))
		req->done_by = read_interval(result, row, req->view);
	else
		return 0;
	return req->done_by ? 0 : LEASED_ENOMEM;
}

/* Each request has a row, in order. */
static int decode_place(struct batch *batch, const PGresult *result, int row)
{
	struct request *req = (size_t)row < batch->n ? batch->reqs[row] : NULL;
	int64_t nonce;

	if (!req || !get_i64(result, row, 0, &req->place_drawn) || !get_i64(result, row, 1, &nonce) ||
		(uint64_t)nonce != req->claim.nonce || !get_bool(result, row, 2, &req->place_sure) ||
		!get_bool(result, row, 3, &req->place_fresh))
		return LEASED_EINTERNAL;
	req->found = true;
	return 0;
}

static int decode_beat(struct request *req, const PGresult *result, int row)
{
	return get_bool(result, row, 0, &req->found) && get_bool(result, row, 1, &req->told)
		       ? 0
		       : LEASED_EINTERNAL;
}

static int decode_expiry(struct batch *batch, const PGresult *result, int row)
{
	struct request *req = by_position(batch, result, row);

	if (!req || !get_time_left(result, row, 1, &req->expires_in_ms) ||
		!get_bool(result, row, 3, &req->expired))
		return LEASED_EINTERNAL;
	req->found = true;
	return 0;
}

static int decode_changing(struct request *req, const PGresult *result, int row)
{
	struct text others = get_text(result, row, 0);

	if (PQnfields(result) != 2 || !get_i32(result, row, 1, &req->claim.pid))
		return LEASED_EINTERNAL;
	req->found = true;
	req->others = strndup(others.data, others.len);
	return req->others ? 0 : LEASED_ENOMEM;
}

/* Rows of held.sql; its last one says how many were looked at. */
static int decode_held(struct request *req, const PGresult *result)
{
	uint32_t n = (uint32_t)PQntuples(result);
	int64_t changes;

	req->found = true;
	req->listing = calloc(n ? n : 1, sizeof(struct lease_view *));
	if (!req->listing)
		return LEASED_ENOMEM;
	for (; req->n_listed < n; req->n_listed++) {
		struct lease_view *view = read_view(result, (int)req->n_listed);

		if (!view)
			return LEASED_ENOMEM;
		req->listing[req->n_listed] = view;
		req->more = view->waiters >= req->limit;
		view->waiters = 0;
		if (!get_i64(result, (int)req->n_listed, VIEW_COLUMNS, &changes)) {
			req->n_listed++; /* the view is freed with the others */
			return LEASED_EINTERNAL;
		}
		view->value_changes = changes;
	}
	return 0;
}

static int decode_list(struct request *req, const PGresult *result)
{
	uint32_t n = (uint32_t)PQntuples(result);

	req->found = true;
	req->more = n > req->limit;
	if (req->more)
		n = req->limit;
	req->listing = calloc(n ? n : 1, sizeof(struct lease_view *));
	if (!req->listing)
		return LEASED_ENOMEM;
	for (; req->n_listed < n; req->n_listed++) {
		struct lease_view *view = read_view(result, (int)req->n_listed);

		if (!view)
			return LEASED_ENOMEM;
		req->listing[req->n_listed] = view;
	}
	return 0;
}

int batch_decode(struct batch *batch, const PGresult *result)
{
	int rc = 0;

	if (verb_is_aside(batch->verb))
		return history_decode(batch->reqs[0], result);
	if (batch->verb == VERB_LIST)
		return decode_list(batch->reqs[0], result);
	if (batch->verb == VERB_HELD)
		return decode_held(batch->reqs[0], result);
	for (int row = 0; row < PQntuples(result) && rc == 0; row++) {
		switch (batch->verb) {
		case VERB_ACQUIRE_LIMITED:
		case VERB_ACQUIRE: rc = decode_grant(batch, result, row); break;
		case VERB_RENEW_VALUE:
		case VERB_RENEW: rc = decode_renewal(batch, result, row); break;
		case VERB_RELEASE:
		case VERB_RELEASE_AGAIN:
		case VERB_LEAVE: rc = decode_release(batch, result, row); break;
		case VERB_STEAL:
		case VERB_LOOK:
		case VERB_LOOK_SEVERAL: rc = decode_look(batch, result, row); break;
		case VERB_QUEUE: rc = decode_place(batch, result, row); break;
		case VERB_BEAT: rc = decode_beat(batch->reqs[0], result, row); break;
		case VERB_EXPIRY: rc = decode_expiry(batch, result, row); break;
		case VERB_CHANGING: rc = decode_changing(batch->reqs[0], result, row); break;
		default: break;
		}
	}
	return rc;
}
