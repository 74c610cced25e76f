#include "history.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "duration.h"
#include "name.h"
#include "status.h"

/* The columns of history.sql, failed.sql and lapsed.sql. */
enum { COL_MARK, COL_CLOCK, COL_NAME, COL_TOKEN, COL_ENDED, COL_HOST, COL_PID, COL_NONCE, COL_PRINCIPAL,
	COL_ACQUIRED_AT, COL_ENDED_AT, COL_EXIT_STATUS, COL_STOLEN_BY, COL_REASON, COL_IS_NEWEST, COL_COUNT };

/* No end is above this one: PostgreSQL's infinity. */
#define NO_TIME  INT64_MAX
#define NO_TOKEN INT64_MAX

static int64_t since_ms(const struct request *req)
{
	return req->past.since_ms > 0 ? req->past.since_ms : DURATION_MAX_MS;
}

static void put_page(struct params *p, const struct request *req)
{
	put_i32_param(p, (int32_t)req->limit + 1); /* one more tells whether there is more */
	put_i32_param(p, HISTORY_STEP);
}

void history_encode(const struct request *req, struct params *p)
{
	const struct past_query *past = &req->past;

	switch (req->verb) {
	case VERB_HISTORY:
		put_text_param(p, req->claim.name);
		put_i64_param(p, since_ms(req));
		put_i64_param(p, (int64_t)past->token);
		put_page(p, req);
		break;
	case VERB_LAPSED:
		put_text_param(p, req->prefix);
		put_i64_param(p, since_ms(req));
		put_text_param(p, req->after);
		put_i64_param(p, (int64_t)past->token);
		put_page(p, req);
		break;
	case VERB_FAILED:
		put_text_param(p, req->prefix);
		put_i64_param(p, since_ms(req));
		put_i64_param(p, past->ended_at_us == NO_TIME ? NO_TIME : past->ended_at_us - PG_EPOCH_US);
		put_text_param(p, req->after);
		put_i64_param(p, (int64_t)past->token);
		put_page(p, req);
		break;
	default:
		put_i64_param(p, req->trim.history_keep_ms);
		put_i64_param(p, req->trim.idle_keep_ms);
		break;
	}
}

/* Rows. */

static bool read_ending(struct text text, enum ending *ret_ending)
{
	static const char *const names[] = { [ENDING_HELD] = "held", [ENDING_RELEASED] = "released",
		[ENDING_EXPIRED] = "expired", [ENDING_STOLEN] = "stolen" };

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		if (strlen(names[i]) == text.len && memcmp(names[i], text.data, text.len) == 0) {
			*ret_ending = (enum ending)i;
			return true;
		}
	}
	return false;
}

static bool read_times(struct grant_view *v, const PGresult *result, int row)
{
	int64_t now, acquired, ended = 0;

	if (!get_i64(result, row, COL_CLOCK, &now) || !get_i64(result, row, COL_ACQUIRED_AT, &acquired))
		return false;
	if (v->ended == ENDING_HELD) {
		v->held_for_ms = (now - acquired) / 1000;
	} else if (get_i64(result, row, COL_ENDED_AT, &ended)) {
		v->held_for_ms = (ended - acquired) / 1000;
		v->ended_at_us = ended + PG_EPOCH_US;
	} else {
		return false;
	}
	v->acquired_at_us = acquired + PG_EPOCH_US;
	return true;
}

/* NULL: out of memory, or not such a row. */
static struct grant_view *read_grant(const PGresult *result, int row)
{
	static const int texts[] = { COL_NAME, COL_HOST, COL_PRINCIPAL, COL_STOLEN_BY, COL_REASON };
	struct grant_view v = { 0 }, *view;
	int64_t token, nonce;
	size_t size = 0;
	char *at;

	if (!get_i64(result, row, COL_TOKEN, &token) || !get_i32(result, row, COL_PID, &v.claim.pid) ||
		!get_i64(result, row, COL_NONCE, &nonce) ||
		!get_bool(result, row, COL_IS_NEWEST, &v.is_newest) ||
		!read_ending(get_text(result, row, COL_ENDED), &v.ended) || !read_times(&v, result, row))
		return NULL;
	v.has_exit_status = get_i32(result, row, COL_EXIT_STATUS, &v.exit_status);
	v.claim.token = (uint64_t)token;
	v.claim.nonce = (uint64_t)nonce;
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
		size += get_text(result, row, texts[i]).len;
	view = malloc(sizeof *view + size);
	if (!view)
		return NULL;
	*view = v;
	at = (char *)(view + 1);
	view->claim.name = copy_text(&at, get_text(result, row, COL_NAME));
	view->claim.host = copy_text(&at, get_text(result, row, COL_HOST));
	view->claim.principal = copy_text(&at, get_text(result, row, COL_PRINCIPAL));
	view->stolen_by = copy_text(&at, get_text(result, row, COL_STOLEN_BY));
	view->reason = copy_text(&at, get_text(result, row, COL_REASON));
	return view;
}

static int decode_trim(struct request *req, const PGresult *result)
{
	struct trim_step *t = &req->trim;

	if (PQntuples(result) != 1 || PQnfields(result) < 3 || !get_i64(result, 0, 0, &t->n_events) ||
		!get_i64(result, 0, 1, &t->n_leases) || !get_i64(result, 0, 2, &t->due_in_ms))
		return LEASED_EINTERNAL;
	req->found = true;
	return 0;
}

int history_decode(struct request *req, const PGresult *result)
{
	int n = PQntuples(result);
	bool is_mark;

	if (req->verb == VERB_TRIM)
		return decode_trim(req, result);
	if (PQnfields(result) != COL_COUNT)
		return LEASED_EINTERNAL;
	req->found = true;
	req->grants = calloc(n ? (size_t)n : 1, sizeof(struct grant_view *));
	if (!req->grants)
		return LEASED_ENOMEM;
	for (int row = 0; row < n; row++) {
		struct grant_view *view;

		if (!get_bool(result, row, COL_MARK, &is_mark))
			return LEASED_EINTERNAL;
		if (!is_mark && req->n_listed == req->limit) {
			req->more = true;
			continue;
		}
		view = read_grant(result, row);
		if (!view)
			return LEASED_ENOMEM;
		if (!is_mark) {
			req->grants[req->n_listed++] = view;
		} else {
			free(req->mark);
			req->mark = view;
		}
	}
	return 0;
}

/* Pages. A cursor is a letter, an end, a token, and a name. */

#define CURSOR_NAME 17

static const char letters[VERB_COUNT] = { [VERB_HISTORY] = 'h', [VERB_LAPSED] = 'l', [VERB_FAILED] = 'f' };

void history_begin(struct request *req)
{
	req->past.ended_at_us = NO_TIME;
	req->past.token = NO_TOKEN;
	req->after = (struct text){ "", 0 };
}

static size_t put_cursor(uint8_t out[static HISTORY_CURSOR_MAX], enum verb verb, int64_t ended_at_us,
	uint64_t token, struct text name)
{
	uint64_t wire[2] = { htobe64((uint64_t)ended_at_us), htobe64(token) };

	if (name.len > NAME_MAX_LEN)
		return 0;
	out[0] = (uint8_t)letters[verb];
	memcpy(out + 1, wire, sizeof wire);
	memcpy(out + CURSOR_NAME, name.data, name.len);
	return CURSOR_NAME + name.len;
}

size_t history_next(uint8_t out[static HISTORY_CURSOR_MAX], const struct request *req, uint32_t n_told)
{
	const struct grant_view *last = req->mark;

	if (n_told < req->n_listed || req->more)
		last = n_told > 0 ? req->grants[n_told - 1] : NULL;
	if (last)
		return put_cursor(out, req->verb, last->ended_at_us, last->claim.token, last->claim.name);
	if (req->verb == VERB_LAPSED) /* the others come after these */
		return put_cursor(out, VERB_FAILED, NO_TIME, NO_TOKEN, (struct text){ "", 0 });
	return 0;
}

int history_resume(struct request *req, struct text cursor, struct leased_error *err)
{
	bool of_one = req->verb == VERB_HISTORY;
	uint64_t wire[2];
	struct text name;

	if (cursor.len < CURSOR_NAME || strchr(of_one ? "h" : "lf", *cursor.data) == NULL || !*cursor.data)
		return fail(err, LEASED_EDATA, "a cursor that no page has brought");
	name = (struct text){ cursor.data + CURSOR_NAME, cursor.len - CURSOR_NAME };
	if (prefix_check((const uint8_t *)name.data, name.len, err) < 0)
		return err->status;
	memcpy(wire, cursor.data + 1, sizeof wire);
	req->past.ended_at_us = (int64_t)be64toh(wire[0]);
	req->past.token = be64toh(wire[1]);
	if (req->past.token > NO_TOKEN || req->past.ended_at_us < 0)
		return fail(err, LEASED_EDATA, "a cursor that no page has brought");
	req->after = name;
	if (!of_one)
		req->verb = *cursor.data == 'l' ? VERB_LAPSED : VERB_FAILED;
	return 0;
}
