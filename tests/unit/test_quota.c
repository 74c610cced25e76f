/* Bounds of a principal: what is counted, what is refused, and when it is forgotten. Time by hand. */
#include "table.h"

#include <malloc.h>
#include <sodium.h>
#include <string.h>

#include "quota.h"

static struct quotas all;
static const struct text anna = { "anna", 4 };

static struct claim claim(const char *name, uint64_t nonce)
{
	return (struct claim){ .name = { name, strlen(name) }, .principal = anna, .nonce = nonce };
}

static int teardown(void **state)
{
	(void)state;
	quotas_fini(&all);
	return 0;
}

static void connections(void **state)
{
	struct access_limits limits = { .connections = 2 }, none = { 0 };
	struct quota *q = quota_take(&all, anna);
	struct leased_error err;

	(void)state;
	assert_int_equal(quota_connect(q, &limits, &err), 0);
	assert_int_equal(quota_connect(q, &limits, &err), 0);
	assert_int_equal(quota_connect(q, &limits, &err), LEASED_EBUSY);
	assert_non_null(strstr(err.text, "2 connections of yours"));
	assert_int_equal(quota_connect(q, &none, &err), 0);
	quota_disconnect(q);
	quota_disconnect(q);
	assert_int_equal(quota_connect(q, &limits, &err), 0);
}

/* A second's worth at once, then as fast as the rate. */
static void requests_a_second(void **state)
{
	struct access_limits limits = { .rate = 10 };
	struct quota *q = quota_take(&all, anna);
	int64_t now = INT64_C(5000000000), passed = 0;
	struct leased_error err;

	(void)state;
	for (int i = 0; i < 10; i++)
		assert_int_equal(quota_request(q, &limits, now, &err), 0);
	assert_int_equal(quota_request(q, &limits, now, &err), LEASED_EBUSY);
	assert_non_null(strstr(err.text, "more than 10 requests a second"));
	assert_int_equal(quota_request(q, &limits, now + 99000000, &err), LEASED_EBUSY);
	for (int ms = 0; ms < 10000; ms++)
		passed += quota_request(q, &limits, now + ms * INT64_C(1000000), &err) == 0;
	assert_in_range(passed, 98, 100);
	limits.rate = 0;
	assert_int_equal(quota_request(q, &limits, now, &err), 0);
}

static int acquire(struct quota *q, const struct access_limits *limits, const char *name, uint64_t nonce, bool waits,
	int64_t now_ms)
{
	struct request req = { .claim = claim(name, nonce), .wait_ms = waits };

	return quota_acquire(q, limits, &req, now_ms, NULL);
}

static void waiters(void **state)
{
	struct access_limits limits = { .waiters = 1 };
	struct quota *q = quota_take(&all, anna);

	(void)state;
	assert_int_equal(acquire(q, &limits, "a", 1, true, 0), 0);
	assert_int_equal(acquire(q, &limits, "b", 2, true, 0), LEASED_EBUSY);
	assert_int_equal(acquire(q, &limits, "b", 3, false, 0), 0); /* does not wait */
	quota_acquired(q, 1, true);
	assert_int_equal(acquire(q, &limits, "b", 2, true, 0), 0);
}

static void leases(void **state)
{
	struct access_limits limits = { .leases = 3 };
	struct quota *q = quota_take(&all, anna);
	struct claim a = claim("a", 1), b = claim("b", 2);
	struct text names[] = { { "c", 1 }, { "d", 1 } };
	struct request group = { .claim = claim("c", 3), .names = names, .n_names = 2 };

	(void)state;
	quota_keep(q, &a, 1000);
	quota_keep(q, &b, 2000);
	quota_keep(q, &b, 3000); /* renewed */
	assert_int_equal(quota_held(q, 0), 2);
	assert_int_equal(quota_acquire(q, &limits, &group, 0, NULL), LEASED_EBUSY);
	assert_int_equal(acquire(q, &limits, "c", 3, false, 0), 0);
	assert_int_equal(acquire(q, &limits, "d", 4, false, 0), LEASED_EBUSY); /* c may be granted */
	assert_int_equal(acquire(q, &limits, "a", 1, false, 0), 0); /* the answer was lost: it is held already */
	quota_acquired(q, 1, false);
	quota_acquired(q, 1, false);
	assert_int_equal(quota_held(q, 1000), 1); /* a has expired */
	assert_int_equal(quota_held(q, 2000), 1);
	quota_drop(q, &b);
	assert_int_equal(quota_held(q, 2000), 0);
	quota_keep(q, &b, 9000);
	quota_lose(&all, &b); /* stolen */
	assert_int_equal(quota_held(q, 2000), 0);
	quota_lose(&all, &b);
}

/* What a client chooses, or says wrongly, does not make a lease of it uncounted. */
static void each_grant_counts(void **state)
{
	struct access_limits limits = { .leases = 2 };
	struct quota *q = quota_take(&all, anna);
	struct claim first = claim("a", 1), second = claim("a", 1), wrong;
	struct text names[] = { { "a", 1 }, { "b", 1 } };
	struct request group = { .claim = claim("a", 1), .names = names, .n_names = 2 };

	(void)state;
	first.token = 7;
	quota_keep(q, &first, 1000);
	second.pid = 2; /* another holder, though of the same nonce */
	second.token = 8;
	quota_keep(q, &second, 1000);
	assert_int_equal(quota_held(q, 0), 2);
	assert_int_equal(quota_acquire(q, &limits, &group, 0, NULL), LEASED_EBUSY); /* b is new */
	wrong = first;
	wrong.token = 6;
	quota_drop(q, &wrong);
	assert_int_equal(quota_held(q, 0), 2);
	quota_drop(q, &second);
	assert_int_equal(quota_acquire(q, &limits, &group, 0, NULL), 0);
}

static void an_unused_one_is_forgotten(void **state)
{
	struct quota *q = quota_take(&all, anna);
	struct claim a = claim("a", 1);

	(void)state;
	quota_keep(q, &a, 1000);
	quota_use(q);
	quota_put(q);
	quota_put(q);
	quotas_tick(&all, INT64_C(999) * 1000000);
	assert_ptr_equal(quota_take(&all, anna), q); /* it still holds a lease */
	quota_put(q);
	quotas_tick(&all, INT64_C(1000) * 1000000);
	assert_null(all.by_name);
}

/* Also where only the waiters have a bound, so that nobody asks how many leases there are. */
static void what_has_expired_is_forgotten(void **state)
{
	struct quota *q = quota_take(&all, anna);
	size_t before = mallinfo2().uordblks; /* 0 under a sanitizer, which has a malloc of its own */
	struct claim a = claim("a", 0);

	(void)state;
	for (a.nonce = 1; a.nonce <= 1000; a.nonce++)
		quota_keep(q, &a, 1000);
	quotas_tick(&all, INT64_C(1000) * 1000000);
	assert_in_range(mallinfo2().uordblks, 0, before + 10000);
	quota_put(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(connections, teardown),
		cmocka_unit_test_teardown(requests_a_second, teardown),
		cmocka_unit_test_teardown(waiters, teardown),
		cmocka_unit_test_teardown(leases, teardown),
		cmocka_unit_test_teardown(each_grant_counts, teardown),
		cmocka_unit_test_teardown(what_has_expired_is_forgotten, teardown),
		cmocka_unit_test_teardown(an_unused_one_is_forgotten, teardown),
	};

	return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
