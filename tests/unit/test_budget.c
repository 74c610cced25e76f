/* How many handshakes are paid for, and who is next; time is a number here. */
#include "budget.h"

#include <sodium.h>

#include "table.h"

#define DAY_MS 86400000

static struct neighbours all;
static struct budget budget;

static int set_up(void **state)
{
	(void)state;
	neighbours_init(&all);
	budget_init(&budget);
	return 0;
}

static int paid(int asked, int64_t rate, int64_t now_ms)
{
	int n = 0;

	for (int i = 0; i < asked; i++)
		n += budget_take(&budget, rate, now_ms);
	return n;
}

static void so_many_a_second_are_paid_for(void **state)
{
	int n = 0;

	(void)state;
	assert_int_equal(paid(1000, 500, 5000), 50); /* what a tenth of a second saves up */
	assert_int_equal(paid(1000, 500, 5001), 0);
	assert_int_equal(paid(1000, 500, 5002), 1);
	for (int64_t now = 5003; now < 15003; now++)
		n += paid(5, 500, now);
	assert_in_range(n, 4999, 5000);
	assert_int_equal(paid(1000, 500, DAY_MS), 50); /* never more */
}

static void a_low_rate_pays_for_one_at_a_time(void **state)
{
	(void)state;
	assert_int_equal(paid(10, 1, 5000), 1);
	assert_int_equal(paid(10, 1, 5999), 0);
	assert_int_equal(paid(10, 1, 6000), 1);
	assert_int_equal(paid(10, 1, 90000), 1);
}

static void who_goes_on_costs_nothing(void **state)
{
	struct neighbour *n = &all.all[7];

	(void)state;
	for (int i = 0; i < 2000; i++) {
		assert_true(neighbour_may_ask(n, 20, 5000));
		assert_true(budget_take(&budget, 500, 5000));
		budget_repay(&budget, n, 5000);
	}
	assert_int_equal(paid(1000, 500, 5000), 50);
	assert_int_equal(n->debt, 0);
	assert_true(neighbour_is_known(n, 5000 + DAY_MS - 1));
	assert_false(neighbour_is_known(n, 5000 + DAY_MS));
	assert_false(neighbour_is_known(&all.all[8], 5000));
}

/* Who waits: from the neighbour of this number, the how many-th of it. */
static struct list nodes[10][10];

static void waits(size_t neighbour, size_t which)
{
	budget_wait(&budget, &all.all[neighbour], &nodes[neighbour][which], 5000);
}

static void check_order(const char *order)
{
	for (const char *o = order; *o; o += 2) {
		struct list *next = budget_next(&budget);

		assert_non_null(next);
		assert_int_equal((next - &nodes[0][0]) / 10, o[0] - '0');
		assert_int_equal((next - &nodes[0][0]) % 10, o[1] - '0');
	}
	assert_false(budget_somebody_waits(&budget));
	assert_null(budget_next(&budget));
}

static void each_address_has_its_turn(void **state)
{
	(void)state;
	for (size_t i = 0; i < 4; i++)
		waits(1, i);
	for (size_t i = 0; i < 2; i++)
		waits(2, i);
	waits(3, 0);
	assert_true(budget_somebody_waits(&budget));
	check_order("10" "20" "30" "11" "21" "12" "13");
}

static void known_addresses_come_first(void **state)
{
	(void)state;
	neighbour_note_known(&all.all[3], 4000);
	neighbour_note_known(&all.all[4], 4000);
	waits(1, 0);
	waits(3, 0);
	waits(3, 1);
	waits(2, 0);
	waits(4, 0);
	check_order("30" "40" "31" "10" "20");
}

static void an_address_that_becomes_known_while_others_wait_there_comes_first_from_then_on(void **state)
{
	(void)state;
	waits(1, 0);
	waits(2, 0);
	waits(2, 1);
	budget_repay(&budget, &all.all[2], 5000);
	check_order("20" "21" "10");
}

static void who_leaves_has_no_turn(void **state)
{
	(void)state;
	for (size_t i = 1; i < 4; i++)
		waits(i, 0);
	waits(1, 1);
	budget_leave(&all.all[2], &nodes[2][0]);
	budget_leave(&all.all[1], &nodes[1][0]);
	check_order("11" "30");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(so_many_a_second_are_paid_for, set_up),
		cmocka_unit_test_setup(a_low_rate_pays_for_one_at_a_time, set_up),
		cmocka_unit_test_setup(who_goes_on_costs_nothing, set_up),
		cmocka_unit_test_setup(each_address_has_its_turn, set_up),
		cmocka_unit_test_setup(known_addresses_come_first, set_up),
		cmocka_unit_test_setup(
			an_address_that_becomes_known_while_others_wait_there_comes_first_from_then_on, set_up),
		cmocka_unit_test_setup(who_leaves_has_no_turn, set_up),
	};

	if (sodium_init() < 0)
		return 1;
	return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
