/* Reads of the past: parameters, rows, and cursors that lead from page to page. */
#include "table.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "duration.h"
#include "history.h"

#define COLUMNS 15

static struct text text_of(const char *s)
{
	return (struct text){ s, strlen(s) };
}

static struct request request_of(enum verb verb)
{
	struct request req = { .verb = verb, .limit = 2, .claim.name = text_of("n"), .prefix = text_of("p/") };

	history_begin(&req);
	return req;
}

/* A result with room for rows of the three statements, in binary form. */
static PGresult *result_new(int columns)
{
	static char name[] = "c";
	PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
	PGresAttDesc attributes[COLUMNS];

	for (int i = 0; i < columns; i++)
		attributes[i] = (PGresAttDesc){ .name = name, .format = 1 };
	PQsetResultAttrs(result, columns, attributes);
	return result;
}

static void set(PGresult *result, int row, int column, const void *value, size_t len)
{
	assert_true(PQsetvalue(result, row, column, (char *)(uintptr_t)value, (int)len));
}

static void set_text(PGresult *result, int row, int column, const char *value)
{
	set(result, row, column, value, strlen(value));
}

static void set_i64(PGresult *result, int row, int column, int64_t value)
{
	uint64_t wire = htobe64((uint64_t)value);

	set(result, row, column, &wire, sizeof wire);
}

static void set_i32(PGresult *result, int row, int column, int32_t value)
{
	uint32_t wire = htobe32((uint32_t)value);

	set(result, row, column, &wire, sizeof wire);
}

static void set_bool(PGresult *result, int row, int column, bool value)
{
	set(result, row, column, value ? "\1" : "\0", 1);
}

static void set_null(PGresult *result, int row, int column)
{
	PQsetvalue(result, row, column, NULL, -1);
}

/* Acquired 10 s before the end at `ended_s`, both counted from PostgreSQL's epoch; now is 100 s. */
static void add_row(PGresult *result, bool mark, const char *name, int64_t token, const char *ended,
	int64_t ended_s)
{
	int row = PQntuples(result);

	set_bool(result, row, 0, mark);
	set_i64(result, row, 1, 100000000);
	set_text(result, row, 2, name);
	set_i64(result, row, 3, token);
	set_text(result, row, 4, ended);
	set_text(result, row, 5, "web1");
	set_i32(result, row, 6, 4711);
	set_i64(result, row, 7, -1);
	set_text(result, row, 8, "root@web1");
	set_i64(result, row, 9, (ended_s - 10) * 1000000);
	if (strcmp(ended, "held") == 0)
		set_null(result, row, 10);
	else
		set_i64(result, row, 10, ended_s * 1000000);
	if (strcmp(ended, "released") == 0)
		set_i32(result, row, 11, 3);
	else
		set_null(result, row, 11);
	if (strcmp(ended, "stolen") == 0) {
		set_text(result, row, 12, "ops@web2");
		set_text(result, row, 13, "hangs");
	} else {
		set_null(result, row, 12);
		set_null(result, row, 13);
	}
	set_bool(result, row, 14, false);
}

static void rows_become_grants(void **state)
{
	struct request req = request_of(VERB_HISTORY);
	PGresult *result = result_new(COLUMNS);
	const struct grant_view *v;

	(void)state;
	req.limit = 3;
	add_row(result, false, "n", 9, "held", 50);
	add_row(result, false, "n", 8, "stolen", 40);
	add_row(result, false, "n", 7, "released", 30);
	assert_int_equal(history_decode(&req, result), 0);
	assert_true(req.found && !req.more && !req.mark);
	assert_int_equal(req.n_listed, 3);
	v = req.grants[0];
	assert_true(v->ended == ENDING_HELD && v->held_for_ms == 60000 && v->ended_at_us == 0);
	assert_true(!v->has_exit_status && v->stolen_by.len == 0);
	v = req.grants[1];
	assert_true(v->ended == ENDING_STOLEN && v->held_for_ms == 10000);
	assert_true(v->stolen_by.len == 8 && memcmp(v->stolen_by.data, "ops@web2", 8) == 0);
	assert_true(v->reason.len == 5 && memcmp(v->reason.data, "hangs", 5) == 0);
	v = req.grants[2];
	assert_true(v->ended == ENDING_RELEASED && v->has_exit_status && v->exit_status == 3);
	assert_true(v->claim.token == 7 && v->claim.pid == 4711 && v->claim.nonce == UINT64_MAX);
	assert_int_equal(v->ended_at_us, PG_EPOCH_US + 30000000);
	PQclear(result);
	request_fini(&req);
}

/* What answers is not always what we expect: a row of another shape is an error, never a guess. */
static void rows_of_another_shape_are_refused(void **state)
{
	static const int needed[] = { 0, 1, 3, 4, 6, 7, 9, 10, 14 };

	(void)state;
	for (size_t i = 0; i < TABLE_LEN(needed); i++) {
		struct request req = request_of(VERB_FAILED);
		PGresult *result = result_new(COLUMNS);

		add_row(result, false, "n", 9, "expired", 50);
		set(result, 0, needed[i], "xyz", 3);
		assert_true(history_decode(&req, result) < 0);
		PQclear(result);
		request_fini(&req);
	}
	for (int columns = 1; columns < COLUMNS; columns += COLUMNS - 2) {
		struct request req = request_of(VERB_LAPSED);
		PGresult *result = result_new(columns);

		set_bool(result, 0, 0, false);
		assert_int_equal(history_decode(&req, result), LEASED_EINTERNAL);
		PQclear(result);
		request_fini(&req);
	}
}

static void a_step_of_the_housekeeping(void **state)
{
	struct request req = { .verb = VERB_TRIM, .trim = { .history_keep_ms = 5, .idle_keep_ms = -1 } };
	PGresult *result = result_new(4), *none = result_new(4);
	struct params params = { 0 };

	(void)state;
	params_begin(&params);
	history_encode(&req, &params);
	assert_int_equal(params_finish(&params), 0);
	assert_int_equal(params.n, 2);
	assert_memory_equal(params.values[0], "\0\0\0\0\0\0\0\5", 8);
	assert_memory_equal(params.values[1], "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
	params_fini(&params);
	for (int i = 0; i < 3; i++)
		set_i64(result, 0, i, i + 1);
	set_text(result, 0, 3, "off");
	assert_int_equal(history_decode(&req, result), 0);
	assert_true(req.found && req.trim.n_events == 1 && req.trim.n_leases == 2 && req.trim.due_in_ms == 3);
	assert_int_equal(history_decode(&req, none), LEASED_EINTERNAL);
	PQclear(result);
	PQclear(none);
}

/* Each statement takes what its text says; a limit is asked for with one row more. */
static void parameters_are_those_of_the_statements(void **state)
{
	static const struct {
		enum verb verb;
		int n, limit_at;
	} cases[] = { { VERB_HISTORY, 5, 3 }, { VERB_LAPSED, 6, 4 }, { VERB_FAILED, 7, 5 } };
	uint64_t since = htobe64(DURATION_MAX_MS);

	(void)state;
	for (size_t i = 0; i < TABLE_LEN(cases); i++) {
		struct request req = request_of(cases[i].verb);
		struct params params = { 0 };

		params_begin(&params);
		history_encode(&req, &params);
		assert_int_equal(params_finish(&params), 0);
		assert_int_equal(params.n, cases[i].n);
		assert_memory_equal(params.values[0], cases[i].verb == VERB_HISTORY ? "n" : "p/",
			(size_t)params.lengths[0]);
		assert_memory_equal(params.values[1], &since, 8); /* none was given: all there is */
		assert_memory_equal(params.values[cases[i].limit_at], "\0\0\0\3", 4);
		params_fini(&params);
	}
}

/* Resumes at what history_next says, as a client would, and gives the new request. */
static struct request follow(const struct request *req, uint32_t n_told)
{
	static uint8_t cursor[HISTORY_CURSOR_MAX];
	struct request next = request_of(req->verb == VERB_HISTORY ? VERB_HISTORY : VERB_LAPSED);
	struct leased_error err;
	size_t len = history_next(cursor, req, n_told);

	assert_true(len > 0);
	assert_int_equal(history_resume(&next, (struct text){ (char *)cursor, len }, &err), 0);
	return next;
}

static void a_page_goes_on_after_the_last_row_that_was_told(void **state)
{
	struct request req = request_of(VERB_FAILED), next;
	PGresult *result = result_new(COLUMNS);
	uint8_t cursor[HISTORY_CURSOR_MAX];

	(void)state;
	add_row(result, false, "p/b", 9, "expired", 50);
	add_row(result, false, "p/a", 8, "released", 40);
	assert_int_equal(history_decode(&req, result), 0);
	assert_int_equal(history_next(cursor, &req, 2), 0); /* all has been told */
	next = follow(&req, 1);                             /* the frame had no room for the other */
	assert_true(next.verb == VERB_FAILED && next.past.token == 9);
	assert_int_equal(next.past.ended_at_us, PG_EPOCH_US + 50000000);
	assert_true(next.after.len == 3 && memcmp(next.after.data, "p/b", 3) == 0);
	request_fini(&req);

	add_row(result, false, "p/a", 7, "released", 30); /* one over the limit */
	req = request_of(VERB_FAILED);
	assert_int_equal(history_decode(&req, result), 0);
	assert_true(req.more && req.n_listed == 2);
	assert_int_equal(follow(&req, 2).past.token, 8);
	request_fini(&req);
	PQclear(result);
}

static void a_full_step_goes_on_at_its_mark_even_without_rows(void **state)
{
	struct request req = request_of(VERB_HISTORY), next;
	PGresult *result = result_new(COLUMNS);

	(void)state;
	add_row(result, true, "n", 5, "released", 20);
	assert_int_equal(history_decode(&req, result), 0);
	assert_true(req.n_listed == 0 && !req.more && req.mark);
	next = follow(&req, 0);
	assert_true(next.verb == VERB_HISTORY && next.past.token == 5);
	PQclear(result);
	request_fini(&req);
}

static void those_that_failed_come_after_those_that_lapsed(void **state)
{
	struct request req = request_of(VERB_LAPSED), next;
	PGresult *result = result_new(COLUMNS);

	(void)state;
	add_row(result, false, "p/a", 5, "expired", 20);
	assert_int_equal(history_decode(&req, result), 0);
	next = follow(&req, 1);
	assert_true(next.verb == VERB_FAILED && next.after.len == 0);
	assert_true(next.past.ended_at_us == INT64_MAX); /* from the newest on */
	PQclear(result);
	request_fini(&req);
}

static const struct cursor_case {
	const char *claim, *cursor;
	size_t len;
	enum verb verb;
} cursor_cases[] = {
	{ "an empty cursor", "", 0, VERB_HISTORY },
	{ "one cut short", "h0000000000000000", 16, VERB_HISTORY },
	{ "of another kind", "f\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1n", 18, VERB_HISTORY },
	{ "of another kind, the other way", "h\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 17, VERB_LAPSED },
	{ "of no kind", "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 17, VERB_LAPSED },
	{ "a token beyond 2^63", "h\0\0\0\0\0\0\0\0\x80\0\0\0\0\0\0\0", 17, VERB_HISTORY },
	{ "an end before 1970", "f\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1n", 18, VERB_LAPSED },
	{ "a name with a control character", "l\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1a\nb", 20, VERB_LAPSED },
};

static void check_cursor(void **state)
{
	const struct cursor_case *c = *state;
	struct request req = request_of(c->verb);
	struct leased_error err = { 0 };

	assert_int_equal(history_resume(&req, (struct text){ c->cursor, c->len }, &err), LEASED_EDATA);
	assert_true(*err.text);
}

int main(void)
{
	struct table table = { 0 };

	table_add(&table, "rows become grants", rows_become_grants, NULL);
	table_add(&table, "rows of another shape are refused", rows_of_another_shape_are_refused, NULL);
	table_add(&table, "a step of the housekeeping", a_step_of_the_housekeeping, NULL);
	table_add(&table, "parameters are those of the statements", parameters_are_those_of_the_statements, NULL);
	table_add(&table, "a page goes on after the last row that was told",
		a_page_goes_on_after_the_last_row_that_was_told, NULL);
	table_add(&table, "a full step goes on at its mark", a_full_step_goes_on_at_its_mark_even_without_rows, NULL);
	table_add(&table, "those that failed come after those that lapsed",
		those_that_failed_come_after_those_that_lapsed, NULL);
	for (size_t i = 0; i < TABLE_LEN(cursor_cases); i++)
		table_add(&table, cursor_cases[i].claim, check_cursor, (void *)(uintptr_t)&cursor_cases[i]);
	return table_run(&table, "history");
}
