#include "batch.h"

#include <stdlib.h>
#include <string.h>

#include "history.h"

/* Type oids of PostgreSQL (src/include/catalog/pg_type.dat); they never change. */
enum { OID_BOOL = 16, OID_INT8 = 20, OID_INT4 = 23, OID_TEXT = 25 };

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
	COL_RETRY,
	COL_REASON,
};

/* The arrays of each statement, in the order of its parameters. */
static const enum column columns[VERB_COUNT][PARAMS_MAX + 1] = {
	[VERB_ACQUIRE] = { COL_NAME, COL_HOST, COL_PID, COL_NONCE, COL_PRINCIPAL, COL_TTL_MS,
		COL_MIN_HOLD_MS, COL_VALUE, COL_PLACE, COL_END },
	[VERB_RENEW] = { COL_NAME, COL_TOKEN, COL_HOST, COL_PID, COL_NONCE, COL_PRINCIPAL,
		COL_TTL_MS, COL_END },
	[VERB_RELEASE] = { COL_NAME, COL_TOKEN, COL_HOST, COL_PID, COL_NONCE, COL_PRINCIPAL,
		COL_EXIT_STATUS, COL_RETRY, COL_END },
	[VERB_STEAL] = { COL_NAME, COL_TOKEN, COL_PRINCIPAL, COL_REASON, COL_END },
	[VERB_LOOK] = { COL_NAME, COL_END },
	[VERB_QUEUE] = { COL_NAME, COL_HOST, COL_PID, COL_NONCE, COL_PRINCIPAL, COL_END },
	[VERB_LEAVE] = { COL_NAME, COL_PLACE, COL_END },
	[VERB_BEAT] = { COL_END },
};

static uint32_t column_oid(enum column column)
{
	switch (column) {
	case COL_NAME:
	case COL_HOST:
	case COL_PRINCIPAL:
	case COL_REASON:
	case COL_VALUE: return OID_TEXT;
	case COL_RETRY: return OID_BOOL;
	case COL_PID:
	case COL_EXIT_STATUS: return OID_INT4;
	default: return OID_INT8;
	}
}

static void put_element(struct params *p, enum column column, const struct request *req)
{
	const struct claim *c = &req->claim;

	switch (column) {
	case COL_NAME: put_text_element(p, c->name); break;
	case COL_HOST: put_text_element(p, c->host); break;
	case COL_PRINCIPAL: put_text_element(p, c->principal); break;
	case COL_TOKEN: put_i64_element(p, (int64_t)c->token); break;
	case COL_PID: put_i32_element(p, c->pid); break;
	case COL_NONCE: put_i64_element(p, (int64_t)c->nonce); break;
	case COL_MIN_HOLD_MS: put_i64_element(p, req->min_hold_ms); break;
	case COL_REASON: put_text_element(p, req->reason); break;
	case COL_PLACE: put_i64_element(p, req->place); break;
	case COL_RETRY: put_bool_element(p, req->retry || req->uncertain); break;
	case COL_TTL_MS:
		if (req->ttl_ms > 0)
			put_i64_element(p, req->ttl_ms);
		else
			put_null(p);
		break;
	case COL_VALUE:
		if (req->has_value)
			put_text_element(p, req->value);
		else
			put_null(p);
		break;
	case COL_EXIT_STATUS:
		if (req->has_exit_status)
			put_i32_element(p, req->exit_status);
		else
			put_null(p);
		break;
	case COL_END: break;
	}
}

/* An array as array_recv takes it: dimensions, has-nulls, element type, then length and lower bound. */
static void put_array(struct params *p, enum column column, const struct batch *batch)
{
	bool nullable = column == COL_TTL_MS || column == COL_VALUE || column == COL_EXIT_STATUS;

	begin_param(p);
	put_i32(p, 1);
	put_i32(p, nullable);
	put_i32(p, (int32_t)column_oid(column));
	put_i32(p, (int32_t)batch->n);
	put_i32(p, 1);
	for (size_t i = 0; i < batch->n; i++)
		put_element(p, column, batch->reqs[i]);
}

/* One list is one statement with scalars. */
static void put_list(struct params *p, const struct request *req)
{
	put_text_param(p, req->prefix);
	put_text_param(p, req->after);
	put_i32_param(p, (int32_t)req->limit + 1); /* one more tells whether there is more */
}

int batch_encode(const struct batch *batch, struct params *params)
{
	params_begin(params);
	if (verb_is_aside(batch->verb))
		history_encode(batch->reqs[0], params);
	else if (batch->verb == VERB_LIST)
		put_list(params, batch->reqs[0]);
	else
		for (const enum column *c = columns[batch->verb]; *c != COL_END; c++)
			put_array(params, *c, batch);
	if (batch->verb == VERB_ACQUIRE)
		put_flag(params, batch->short_epoch);
	switch (batch->verb) {
	case VERB_ACQUIRE:
	case VERB_RELEASE:
	case VERB_STEAL:
	case VERB_QUEUE:
	case VERB_LEAVE:
	case VERB_BEAT: put_i64_param(params, batch->daemon); break;
	default: break;
	}
	if (batch->verb == VERB_ACQUIRE || batch->verb == VERB_RELEASE || batch->verb == VERB_STEAL)
		put_flag(params, batch->keeps_history);
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

/* Columns of look.sql, list.sql and steal.sql. NULL: out of memory, or not such a row. */
static struct lease_view *read_view(const PGresult *result, int row)
{
	struct text name, host, principal, value;
	struct lease_view v = { 0 }, *view;
	int64_t token, nonce, acquired, expires, now;
	char *at;

	if (PQnfields(result) < 14 || !get_i64(result, row, 13, &v.waiters) || !get_i64(result, row, 2, &token) ||
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

static int decode_look(struct batch *batch, const PGresult *result, int row)
{
	struct request *req = by_position(batch, result, row);

	if (!req || req->view)
		return LEASED_EINTERNAL;
	req->view = read_view(result, row);
	req->found = true;
	return req->view ? 0 : LEASED_ENOMEM;
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
	return get_bool(result, row, 0, &req->found) ? 0 : LEASED_EINTERNAL;
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
	for (int row = 0; row < PQntuples(result) && rc == 0; row++) {
		switch (batch->verb) {
		case VERB_ACQUIRE: rc = decode_grant(batch, result, row); break;
		case VERB_RENEW: rc = decode_renewal(batch, result, row); break;
		case VERB_RELEASE:
		case VERB_LEAVE: rc = decode_release(batch, result, row); break;
		case VERB_STEAL:
		case VERB_LOOK: rc = decode_look(batch, result, row); break;
		case VERB_QUEUE: rc = decode_place(batch, result, row); break;
		case VERB_BEAT: rc = decode_beat(batch->reqs[0], result, row); break;
		default: break;
		}
	}
	return rc;
}
