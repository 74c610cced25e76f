/* Requests that wait for a connection: who is next, who is late, and what travels aside. */
#include "table.h"

#include "pending.h"

static struct request request_of(enum verb verb, int64_t deadline_ms)
{
	return (struct request){ .verb = verb, .deadline_ms = deadline_ms };
}

static void first_in_is_first_out_of_each_queue(void **state)
{
	struct request a = request_of(VERB_RENEW, 0), b = request_of(VERB_RENEW, 0), look = a, solo = a;
	struct pending p;

	(void)state;
	look.looking = true;
	solo.solo = true;
	pending_init(&p);
	pending_add(&p, &a);
	pending_add(&p, &look);
	pending_add(&p, &solo);
	pending_add_first(&p, &b);
	assert_int_equal(p.n, 4);
	assert_ptr_equal(pending_pop(&p, VERB_LOOK), &look);
	assert_ptr_equal(pending_pop(&p, VERB_RENEW), &b);
	assert_ptr_equal(pending_pop(&p, VERB_RENEW), &a);
	assert_null(pending_pop(&p, VERB_RENEW));
	assert_ptr_equal(pending_pop(&p, PENDING_SOLO), &solo);
	assert_int_equal(p.n, 0);
}

static void the_late_ones_are_taken_from_between_the_others(void **state)
{
	struct request a = request_of(VERB_LIST, 30), b = request_of(VERB_LIST, 10), c = request_of(VERB_LIST, 20);
	struct pending p;

	(void)state;
	pending_init(&p);
	pending_add(&p, &a);
	pending_add(&p, &b);
	pending_add(&p, &c);
	assert_null(pending_pop_overdue(&p, VERB_LIST, 9));
	assert_ptr_equal(pending_pop_overdue(&p, VERB_LIST, 20), &b);
	assert_ptr_equal(pending_pop_overdue(&p, VERB_LIST, 20), &c);
	assert_null(pending_pop_overdue(&p, VERB_LIST, 20));
	assert_int_equal(p.n, 1);
	assert_ptr_equal(pending_pop(&p, VERB_LIST), &a);
}

static void what_travels_aside_is_no_lease(void **state)
{
	struct request trim = request_of(VERB_TRIM, 0), history = request_of(VERB_HISTORY, 0);
	struct request renew = request_of(VERB_RENEW, 0);
	struct pending p;

	(void)state;
	pending_init(&p);
	assert_int_equal(pending_first_aside(&p), VERB_COUNT);
	pending_add(&p, &trim);
	assert_int_equal(pending_first_aside(&p), VERB_TRIM);
	pending_add(&p, &history); /* somebody waits for that one */
	assert_int_equal(pending_first_aside(&p), VERB_HISTORY);
	assert_false(pending_has_leases(&p));
	pending_add(&p, &renew);
	assert_true(pending_has_leases(&p));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_in_is_first_out_of_each_queue),
		cmocka_unit_test(the_late_ones_are_taken_from_between_the_others),
		cmocka_unit_test(what_travels_aside_is_no_lease),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
