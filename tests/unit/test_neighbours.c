/* What strangers of one address may cost; time is a number here. */
#include "neighbours.h"

#include <arpa/inet.h>
#include <sodium.h>
#include <string.h>

#include "table.h"

static struct neighbours all;

static struct neighbour *at(const char *text)
{
	struct sockaddr_storage address = { .ss_family = strchr(text, ':') ? AF_INET6 : AF_INET };

	if (address.ss_family == AF_INET6)
		assert_int_equal(inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)&address)->sin6_addr), 1);
	else
		assert_int_equal(inet_pton(AF_INET, text, &((struct sockaddr_in *)&address)->sin_addr), 1);
	return neighbours_find(&all, &address);
}

static void an_ipv4_address_counts_alone_and_an_ipv6_one_with_its_64(void **state)
{
	(void)state;
	neighbours_init(&all);
	assert_ptr_equal(at("192.0.2.7"), at("192.0.2.7"));
	assert_ptr_not_equal(at("192.0.2.7"), at("192.0.2.8"));
	assert_ptr_equal(at("192.0.2.7"), at("::ffff:192.0.2.7"));
	assert_ptr_not_equal(at("::ffff:192.0.2.7"), at("::ffff:192.0.2.8"));
	assert_ptr_equal(at("2001:db8:1:2::1"), at("2001:db8:1:2:ffff:ffff:ffff:ffff"));
	assert_ptr_not_equal(at("2001:db8:1:2::1"), at("2001:db8:1:3::1"));
}

static void nobody_can_choose_with_whom_to_share(void **state)
{
	size_t moved = 0;

	(void)state;
	for (int i = 0; i < 20; i++) {
		size_t before;

		neighbours_init(&all);
		before = (size_t)(at("192.0.2.7") - all.all);
		neighbours_init(&all);
		moved += before != (size_t)(at("192.0.2.7") - all.all);
	}
	assert_true(moved > 10);
}

static void debts_are_bounded_repaid_and_forgiven(void **state)
{
	struct neighbour n = { 0 };
	int64_t now = 5000;

	(void)state;
	for (int i = 0; i < 20; i++)
		assert_true(neighbour_may_ask(&n, 20, now));
	assert_false(neighbour_may_ask(&n, 20, now));
	neighbour_repay(&n);
	assert_true(neighbour_may_ask(&n, 20, now));
	assert_false(neighbour_may_ask(&n, 20, now + 499)); /* a tenth of 20 a second */
	assert_true(neighbour_may_ask(&n, 20, now + 500));
	assert_false(neighbour_may_ask(&n, 20, now + 501));
	assert_true(neighbour_may_ask(&n, 20, now + 100000));
	assert_int_equal(n.debt, 1);
	neighbour_repay(&n);
	neighbour_repay(&n);
	assert_int_equal(n.debt, 0);
}

static void asking_all_the_time_does_not_stop_forgiveness(void **state)
{
	struct neighbour n = { 0 };
	int granted = 0;

	(void)state;
	for (int64_t now = 0; now < 10000; now++)
		granted += neighbour_may_ask(&n, 20, 1000000 + now);
	assert_in_range(granted, 38, 41); /* 20, and 2 a second */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_ipv4_address_counts_alone_and_an_ipv6_one_with_its_64),
		cmocka_unit_test(nobody_can_choose_with_whom_to_share),
		cmocka_unit_test(debts_are_bounded_repaid_and_forgiven),
		cmocka_unit_test(asking_all_the_time_does_not_stop_forgiveness),
	};

	if (sodium_init() < 0)
		return 1;
	return cmocka_run_group_tests_name("neighbours", tests, NULL, NULL);
}
