/*
 * table.h - table-driven tests with cmocka: one test for each row, under the row's own name.
 */
#ifndef TABLE_H
#define TABLE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* cmocka's would hide ours, status.h; its fail_msg would then call ours without arguments, and crash. */
#undef fail
#undef fail_msg
#define fail_msg(...) (print_error(__VA_ARGS__), print_error("\n"), _fail(__FILE__, __LINE__))

#define TABLE_MAX    200
#define TABLE_LEN(a) (sizeof(a) / sizeof(a)[0])

struct table {
	struct CMUnitTest tests[TABLE_MAX];
	size_t n;
};

static inline void table_add(struct table *table, const char *claim, CMUnitTestFunction check,
	void *row)
{
	assert_true(table->n < TABLE_MAX);
	table->tests[table->n++] =
		(struct CMUnitTest){ .name = claim, .test_func = check, .initial_state = row };
}

static inline int table_run(struct table *table, const char *group)
{
	return _cmocka_run_group_tests(group, table->tests, table->n, NULL, NULL);
}

#endif
