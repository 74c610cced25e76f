/* The engine over a store by script: who is asked for, and who is told what. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sodium.h>
#include <string.h>

#include "clock.h"
#include "engine_rig.h"

static void a_grant_is_answered(void **state)
{
	struct rig *w = *state;
	struct asked a;

	submit(w, &a, VERB_ACQUIRE, 1, 0);
	fake_store_grant(w->store, next_is(w, &a), 7, 900);
	ended(&a, LEASED_OK);
	assert_int_equal(a.req.claim.token, 7);
}

static void a_refusal_looks_and_names_the_holder(void **state)
{
	struct rig *w = *state;
	struct claim other = claim_of("n", 2);
	struct asked a;

	submit(w, &a, VERB_ACQUIRE, 1, 0);
	fake_store_miss(w->store, next_is(w, &a));
	fake_store_show(w->store, next_is(w, &a), &other, false, 500);
	assert_int_equal(a.req.view->claim.nonce, 2);
	ended(&a, LEASED_EHELD);
}

static void the_same_nonce_gets_the_same_grant(void **state)
{
	struct rig *w = *state;
	struct claim mine = claim_of("n", 1);
	struct asked a;

	mine.token = 41;
	submit(w, &a, VERB_ACQUIRE, 1, 0);
	fake_store_miss(w->store, next_is(w, &a));
	fake_store_show(w->store, next_is(w, &a), &mine, false, 500);
	assert_int_equal(a.req.claim.token, 41);
	ended(&a, LEASED_OK);
}

static void the_same_nonce_of_another_principal_is_refused(void **state)
{
	struct rig *w = *state;
	struct claim other = claim_of("n", 1);
	struct asked a;

	other.principal = text_of("q");
	submit(w, &a, VERB_ACQUIRE, 1, 0);
	fake_store_miss(w->store, next_is(w, &a));
	fake_store_show(w->store, next_is(w, &a), &other, false, 500);
	ended(&a, LEASED_EHELD);
}

static void a_grant_without_time_left_is_asked_again(void **state)
{
	struct rig *w = *state;
	struct claim mine = claim_of("n", 1);
	struct asked a;

	submit(w, &a, VERB_ACQUIRE, 1, 0);
	fake_store_grant(w->store, next_is(w, &a), 7, -2);
	fake_store_show(w->store, next_is(w, &a), &mine, false, -2);
	assert_false(a.req.looking);
	fake_store_grant(w->store, next_is(w, &a), 8, 900);
	assert_int_equal(a.req.claim.token, 8);
	ended(&a, LEASED_OK);
}

static void a_renewal_of_a_locked_row_is_asked_again(void **state)
{
	struct rig *w = *state;
	struct claim mine = claim_of("n", 1);
	struct request *req;
	struct asked a;

	submit(w, &a, VERB_RENEW, 1, 0);
	for (int i = 0; i < 4; i++) {
		req = next_in_time(w);
		fake_store_miss(w->store, req);
		fake_store_show(w->store, next_is(w, &a), &mine, false, 800);
	}
	req = next_in_time(w);
	req->expires_in_ms = 1000;
	fake_store_hit(w->store, req);
	ended(&a, LEASED_OK);
}

static const struct claim_case {
	const char *name;
	enum verb verb;
	uint64_t row_token, row_nonce;
	bool row_exists, released;
	int64_t expires_in_ms;
	bool retry;
	int want;
} claim_cases[] = {
	{ "renewed after expiry is lost", VERB_RENEW, 0, 1, true, false, -1, false, LEASED_ELOST },
	{ "renewed after release is lost", VERB_RENEW, 0, 1, true, true, -1, false, LEASED_ELOST },
	{ "a wrong token is not held", VERB_RENEW, 5, 1, true, false, 9, false, LEASED_ENOTHELD },
	{ "a wrong holder is not held", VERB_RENEW, 0, 2, true, false, 9, false, LEASED_ENOTHELD },
	{ "no row is not held", VERB_RELEASE, 0, 0, false, false, 0, false, LEASED_ENOTHELD },
	{ "released twice is lost", VERB_RELEASE, 0, 1, true, true, -1, false, LEASED_ELOST },
	{ "a repeated release is done", VERB_RELEASE, 0, 1, true, true, -1, true, LEASED_OK },
	{ "a repeated wrong release is not", VERB_RELEASE, 0, 2, true, true, -1, true,
		LEASED_ENOTHELD },
};

static void claims_that_miss_are_explained(void **state)
{
	struct rig *w = *state;

	for (size_t i = 0; i < sizeof claim_cases / sizeof claim_cases[0]; i++) {
		const struct claim_case *c = &claim_cases[i];
		struct claim row = claim_of("n", c->row_nonce);
		struct leased_error why;
		struct asked a;

		row.token = c->row_token;
		submit(w, &a, c->verb, 1, 0);
		a.req.retry = c->retry;
		fake_store_miss(w->store, next_is(w, &a));
		if (c->row_exists)
			fake_store_show(w->store, next_is(w, &a), &row, c->released,
				c->expires_in_ms);
		else
			fake_store_miss(w->store, next_is(w, &a));
		if (a.req.status != c->want)
			fail_msg("%s: got %d", c->name, a.req.status);
		request_explain(&a.req, &why);
		assert_true(strlen(why.text) > 0);
		ended(&a, c->want);
	}
}

/* "Cancelled" says that nothing is held: it is not said of a lease that is still there. */
static void a_grant_that_cannot_be_given_back_is_not_called_cancelled(void **state)
{
	static const struct {
		int release, want;
	} cases[] = { { LEASED_EUNAVAILABLE, LEASED_EUNAVAILABLE }, { LEASED_EDATA, LEASED_EUNAVAILABLE },
		{ LEASED_ELOST, LEASED_ECANCELLED } };
	struct rig *w = *state;
	struct leased_error why;
	struct asked a;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		submit(w, &a, VERB_ACQUIRE, 1, 60000);
		engine_cancel(w->engine, &a.req);
		fake_store_grant(w->store, next_is(w, &a), 7, 900);
		fake_store_fail(w->store, fake_store_take(w->store), cases[i].release);
		request_explain(&a.req, &why);
		assert_true(cases[i].want == LEASED_ECANCELLED || strstr(why.text, "expires by itself"));
		ended(&a, cases[i].want);
	}
}

static void too_much_is_refused(void **state)
{
	struct rig *w = *state;
	static struct asked many[1001];

	for (size_t i = 0; i < 1000; i++)
		submit(w, &many[i], VERB_RENEW, i, 0);
	many[1000].req = (struct request){ .verb = VERB_RENEW, .claim = claim_of("n", 1) };
	assert_int_equal(engine_submit(w->engine, &many[1000].req), LEASED_EBUSY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(function) cmocka_unit_test_setup_teardown(function, rig_setup, rig_teardown)
		TEST(a_grant_is_answered),
		TEST(a_refusal_looks_and_names_the_holder),
		TEST(the_same_nonce_gets_the_same_grant),
		TEST(the_same_nonce_of_another_principal_is_refused),
		TEST(a_grant_without_time_left_is_asked_again),
		TEST(a_renewal_of_a_locked_row_is_asked_again),
		TEST(claims_that_miss_are_explained),
		TEST(a_grant_that_cannot_be_given_back_is_not_called_cancelled),
		TEST(too_much_is_refused),
#undef TEST
	};

	if (sodium_init() < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
