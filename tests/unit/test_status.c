#include "status.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "table.h"

static const struct row {
	int wire, exit_code;
	const char *name;
} rows[] = {
#define ROW(name, wire, exit_code, text) { wire, exit_code, #name },
	LEASED_STATUSES(ROW)
#undef ROW
};

static void wire_values_are_unique(void **state)
{
	(void)state;
	for (size_t i = 0; i < TABLE_LEN(rows); i++)
		for (size_t k = i + 1; k < TABLE_LEN(rows); k++)
			assert_int_not_equal(rows[i].wire, rows[k].wire);
}

static void wire_values_come_back(void **state)
{
	(void)state;
	assert_int_equal(status_from_wire(0), LEASED_OK);
	for (size_t i = 0; i < TABLE_LEN(rows); i++) {
		int status = status_from_wire((unsigned)rows[i].wire);

		assert_int_equal(status, -rows[i].wire);
		assert_string_equal(status_name(status), rows[i].name);
		assert_int_equal(status_exit_code(status), rows[i].exit_code);
		assert_true(strlen(status_text(status)) > 0);
	}
}

static void exit_codes_are_documented(void **state)
{
	static const int allowed[] = { 64, 65, 69, 70, 75, 76, 77, 78 };

	(void)state;
	for (size_t i = 0; i < TABLE_LEN(rows); i++) {
		bool found = false;

		for (size_t k = 0; k < TABLE_LEN(allowed); k++)
			found = found || rows[i].exit_code == allowed[k];
		assert_true(found);
	}
}

static void unknown_is_internal(void **state)
{
	static const unsigned unknown[] = { TABLE_LEN(rows) + 1, 255, INT_MAX, 0x80000000u,
		UINT_MAX };

	(void)state;
	for (size_t i = 0; i < TABLE_LEN(unknown); i++)
		assert_int_equal(status_from_wire(unknown[i]), LEASED_EINTERNAL);
	assert_int_equal(status_exit_code(-1000), 70);
	assert_int_equal(status_exit_code(1), 70);
	assert_int_equal(status_exit_code(INT_MIN), 70);
	assert_non_null(status_text(INT_MIN));
	assert_non_null(status_name(INT_MIN));
}

static void success_is_zero(void **state)
{
	(void)state;
	assert_int_equal(status_exit_code(LEASED_OK), 0);
	assert_string_equal(status_name(LEASED_OK), "OK");
}

static void fail_words_one_line(void **state)
{
	struct leased_error err;

	(void)state;
	assert_int_equal(fail(&err, LEASED_EDATA, "a%sb", "\n\x1b\x7f\t"), LEASED_EDATA);
	assert_int_equal(err.status, LEASED_EDATA);
	assert_string_equal(err.text, "a????b");
	fail(&err, LEASED_EDATA, "a\\%s", "\xe2\x80\xaeg\xff\xc3\xb6\xc2\x9b");
	assert_string_equal(err.text, "a\\???g?\xc3\xb6??");
}

static void fail_cuts_long_text(void **state)
{
	static char text[2 * LEASED_ERROR_LEN];
	struct leased_error err;

	(void)state;
	memset(text, 'x', sizeof text - 1);
	fail(&err, LEASED_EDATA, "%s", text);
	assert_int_equal(strlen(err.text), LEASED_ERROR_LEN - 1);
	text[LEASED_ERROR_LEN - 2] = '\xc3'; /* a character of two bytes, of which one has room */
	text[LEASED_ERROR_LEN - 1] = '\xb6';
	fail(&err, LEASED_EDATA, "%s", text);
	assert_int_equal(err.text[LEASED_ERROR_LEN - 2], '?');
}

static void fail_without_error(void **state)
{
	(void)state;
	assert_int_equal(fail(NULL, LEASED_EBUSY, "nobody %s", "listens"), LEASED_EBUSY);
}

int main(void)
{
	struct table table = { 0 };

	table_add(&table, "every status has a wire value of its own", wire_values_are_unique, NULL);
	table_add(&table, "every wire value comes back as its status", wire_values_come_back, NULL);
	table_add(&table, "every exit code is a documented one", exit_codes_are_documented, NULL);
	table_add(&table, "what is unknown is an internal error", unknown_is_internal, NULL);
	table_add(&table, "success exits with 0", success_is_zero, NULL);
	table_add(&table, "a failure is worded in one line", fail_words_one_line, NULL);
	table_add(&table, "a long text is cut", fail_cuts_long_text, NULL);
	table_add(&table, "nobody needs to take the text", fail_without_error, NULL);
	return table_run(&table, "status");
}
