/* The engine over a store by script: who is asked for, who waits, who is told what. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "engine.h"
#include "fake_store.h"

static struct config config = { .request_timeout_ms = 10000, .poll_interval_ms = 60000,
	.max_queued = 1000, .max_waiters = 1000 };

struct world {
	uv_loop_t loop;
	struct engine *engine;
	struct store *store;
	bool closed;
};

/* A request and what became of it. */
struct asked {
	struct request req;
	int done;
};

static void on_done(struct request *req)
{
	((struct asked *)req->owner)->done++;
}

static struct text text_of(const char *s)
{
	return (struct text){ s, strlen(s) };
}

static struct claim claim_of(const char *name, uint64_t nonce)
{
	return (struct claim){ .name = text_of(name), .host = { "h", 1 }, .principal = { "p", 1 },
		.nonce = nonce, .pid = 1 };
}

static void submit(struct world *w, struct asked *a, enum verb verb, uint64_t nonce, int64_t wait_ms)
{
	*a = (struct asked){ .req = { .verb = verb, .claim = claim_of("n", nonce), .ttl_ms = 1000,
				     .wait_ms = wait_ms, .done = on_done, .owner = a } };
	list_init(&a->req.link);
	assert_int_equal(engine_submit(w->engine, &a->req), 0);
	assert_int_equal(a->done, 0); /* never from inside submit */
}

/* The next request at the store must be this one. */
static struct request *next_is(struct world *w, struct asked *a)
{
	struct request *req = fake_store_take(w->store);

	assert_ptr_equal(req, &a->req);
	return req;
}

static void nothing_is_asked(struct world *w)
{
	assert_null(fake_store_take(w->store));
}

static void ended(struct asked *a, int status)
{
	assert_int_equal(a->done, 1);
	assert_int_equal(a->req.status, status);
	request_fini(&a->req);
}

static void on_closed(void *data)
{
	((struct world *)data)->closed = true;
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof *w);
	struct leased_error err;

	uv_loop_init(&w->loop);
	assert_int_equal(engine_new(&w->engine, &w->loop, &config, &err), 0);
	w->store = engine_store(w->engine);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	engine_close(w->engine, on_closed, w);
	uv_run(&w->loop, UV_RUN_DEFAULT);
	assert_true(w->closed);
	assert_int_equal(uv_loop_close(&w->loop), 0);
	free(w);
	return 0;
}

static void a_grant_is_answered(void **state)
{
	struct world *w = *state;
	struct asked a;

	submit(w, &a, VERB_ACQUIRE, 1, 0);
	fake_store_grant(w->store, next_is(w, &a), 7, 900);
	ended(&a, LEASED_OK);
	assert_int_equal(a.req.claim.token, 7);
}

static void a_refusal_looks_and_names_the_holder(void **state)
{
	struct world *w = *state;
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
	struct world *w = *state;
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
	struct world *w = *state;
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
	struct world *w = *state;
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

static void one_of_a_crowd_asks_at_a_time(void **state)
{
	struct world *w = *state;
	struct asked crowd[50];
	struct claim winner = claim_of("n", 1);
	size_t looks = 0;
	struct request *req;

	for (size_t i = 0; i < 50; i++)
		submit(w, &crowd[i], VERB_ACQUIRE, i + 1, i % 2 ? 60000 : 0);
	fake_store_grant(w->store, next_is(w, &crowd[0]), 1, 30000);
	ended(&crowd[0], LEASED_OK);
	while ((req = fake_store_take(w->store))) { /* those that do not wait learn who has it */
		assert_true(req->looking);
		assert_int_equal(req->wait_ms, 0);
		fake_store_show(w->store, req, &winner, false, 30000);
		looks++;
	}
	assert_int_equal(looks, 24);
	assert_int_equal(engine_waiters(w->engine, text_of("n")), 25);
	for (size_t i = 1; i < 50; i++) {
		if (i % 2) {
			engine_cancel(w->engine, &crowd[i].req);
			ended(&crowd[i], LEASED_ECANCELLED);
		} else {
			ended(&crowd[i], LEASED_EHELD);
		}
	}
}

static void a_release_hands_over_to_the_first_in_line_in_the_same_turn(void **state)
{
	struct world *w = *state;
	struct asked holder, first, second, release;
	struct claim held = claim_of("n", 1);

	submit(w, &holder, VERB_ACQUIRE, 1, 0);
	fake_store_grant(w->store, next_is(w, &holder), 1, 30000);
	ended(&holder, LEASED_OK);
	submit(w, &first, VERB_ACQUIRE, 2, 60000);
	fake_store_miss(w->store, next_is(w, &first));
	fake_store_show(w->store, next_is(w, &first), &held, false, 30000);
	submit(w, &second, VERB_ACQUIRE, 3, 60000);
	nothing_is_asked(w);

	submit(w, &release, VERB_RELEASE, 1, 0);
	fake_store_hit(w->store, next_is(w, &release));
	fake_store_grant(w->store, next_is(w, &first), 2, 30000);
	ended(&release, LEASED_OK);
	ended(&first, LEASED_OK);
	nothing_is_asked(w);
	assert_int_equal(second.done, 0);
	engine_cancel(w->engine, &second.req);
	ended(&second, LEASED_ECANCELLED);
}

/* The acquire may reach the database before the release does. */
static void a_release_that_comes_second_still_wakes(void **state)
{
	struct world *w = *state;
	struct asked waiter, release;
	struct claim held = claim_of("n", 1);
	struct request *first, *second;

	submit(w, &waiter, VERB_ACQUIRE, 2, 60000);
	fake_store_miss(w->store, next_is(w, &waiter));
	fake_store_show(w->store, next_is(w, &waiter), &held, false, 30000);
	submit(w, &release, VERB_RELEASE, 1, 0);
	first = next_is(w, &release);
	second = next_is(w, &waiter);
	fake_store_miss(w->store, second);
	fake_store_hit(w->store, first); /* now it is free */
	ended(&release, LEASED_OK);
	fake_store_show(w->store, next_is(w, &waiter), &held, false, 30000); /* seen before */
	while (!(second = fake_store_take(w->store)))
		uv_run(&w->loop, UV_RUN_ONCE);
	assert_ptr_equal(second, &waiter.req);
	fake_store_grant(w->store, second, 2, 30000);
	ended(&waiter, LEASED_OK);
}

static void an_expiry_is_a_timer(void **state)
{
	struct world *w = *state;
	struct claim held = claim_of("n", 1);
	struct request *req;
	struct asked a;
	int64_t start = clock_ms();

	submit(w, &a, VERB_ACQUIRE, 2, 60000);
	fake_store_miss(w->store, next_is(w, &a));
	fake_store_show(w->store, next_is(w, &a), &held, false, 30);
	while (!(req = fake_store_take(w->store)))
		uv_run(&w->loop, UV_RUN_ONCE);
	assert_true(clock_ms() - start >= 30);
	fake_store_grant(w->store, req, 2, 30000);
	ended(&a, LEASED_OK);
}

static void a_wait_that_runs_out_names_the_holder(void **state)
{
	struct world *w = *state;
	struct claim held = claim_of("n", 1);
	struct request *req;
	struct asked a;

	submit(w, &a, VERB_ACQUIRE, 2, 20);
	fake_store_miss(w->store, next_is(w, &a));
	fake_store_show(w->store, next_is(w, &a), &held, false, 30000);
	while (!(req = fake_store_take(w->store)))
		uv_run(&w->loop, UV_RUN_ONCE);
	assert_true(req->looking);
	fake_store_show(w->store, req, &held, false, 29000);
	assert_int_equal(a.req.view->claim.nonce, 1);
	ended(&a, LEASED_ETIMEDOUT);
}

static void a_grant_that_crosses_a_cancel_is_released(void **state)
{
	struct world *w = *state;
	struct request *release;
	struct asked a;

	submit(w, &a, VERB_ACQUIRE, 1, 60000);
	engine_cancel(w->engine, &a.req);
	fake_store_grant(w->store, next_is(w, &a), 7, 900);
	assert_int_equal(a.done, 0); /* whoever hears of the cancel finds the lease free */
	release = fake_store_take(w->store);
	assert_non_null(release);
	assert_int_equal(release->verb, VERB_RELEASE);
	assert_int_equal(release->claim.token, 7);
	assert_int_equal(release->claim.nonce, 1);
	fake_store_hit(w->store, release);
	ended(&a, LEASED_ECANCELLED);
}

/* The client may come back with the same nonce: what the database decides for it stays. */
static void a_grant_that_crosses_a_disconnect_stays(void **state)
{
	struct world *w = *state;
	struct asked a;

	submit(w, &a, VERB_ACQUIRE, 1, 60000);
	engine_abandon(w->engine, &a.req);
	fake_store_grant(w->store, next_is(w, &a), 7, 900);
	ended(&a, LEASED_OK);
	nothing_is_asked(w);
}

static void a_waiter_whose_connection_ends_leaves_the_queue(void **state)
{
	struct world *w = *state;
	struct claim held = claim_of("n", 1);
	struct asked a;

	submit(w, &a, VERB_ACQUIRE, 2, 60000);
	fake_store_miss(w->store, next_is(w, &a));
	fake_store_show(w->store, next_is(w, &a), &held, false, 30000);
	assert_int_equal(engine_all_waiters(w->engine), 1);
	engine_abandon(w->engine, &a.req);
	ended(&a, LEASED_ECANCELLED);
	assert_int_equal(engine_all_waiters(w->engine), 0);
}

static void a_locked_expired_row_is_reported_as_guarded(void **state)
{
	struct world *w = *state;
	struct claim expired = claim_of("n", 9);
	struct request *req;
	struct asked a;

	submit(w, &a, VERB_ACQUIRE, 1, 0);
	while (!a.done) {
		while (!(req = fake_store_take(w->store)))
			uv_run(&w->loop, UV_RUN_ONCE);
		if (req->looking)
			fake_store_show(w->store, req, &expired, false, -5000);
		else
			fake_store_miss(w->store, req);
	}
	ended(&a, LEASED_EGUARDED);
}

static void a_renewal_of_a_locked_row_is_asked_again(void **state)
{
	struct world *w = *state;
	struct claim mine = claim_of("n", 1);
	struct request *req;
	struct asked a;

	submit(w, &a, VERB_RENEW, 1, 0);
	for (int i = 0; i < 4; i++) {
		while (!(req = fake_store_take(w->store)))
			uv_run(&w->loop, UV_RUN_ONCE);
		fake_store_miss(w->store, req);
		fake_store_show(w->store, next_is(w, &a), &mine, false, 800);
	}
	while (!(req = fake_store_take(w->store)))
		uv_run(&w->loop, UV_RUN_ONCE);
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
	struct world *w = *state;

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

static void a_wait_outlasts_an_outage(void **state)
{
	struct world *w = *state;
	struct asked a, b;

	submit(w, &a, VERB_ACQUIRE, 1, 60000);
	fake_store_fail(w->store, next_is(w, &a), LEASED_EUNAVAILABLE);
	assert_int_equal(a.done, 0);
	submit(w, &b, VERB_RELEASE, 9, 0); /* whatever wakes the name */
	fake_store_hit(w->store, next_is(w, &b));
	ended(&b, LEASED_OK);
	fake_store_grant(w->store, next_is(w, &a), 3, 900);
	ended(&a, LEASED_OK);
}

static void too_much_is_refused(void **state)
{
	struct world *w = *state;
	static struct asked many[1001];

	for (size_t i = 0; i < 1000; i++)
		submit(w, &many[i], VERB_RENEW, i, 0);
	many[1000].req = (struct request){ .verb = VERB_RENEW, .claim = claim_of("n", 1) };
	assert_int_equal(engine_submit(w->engine, &many[1000].req), LEASED_EBUSY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
		TEST(a_grant_is_answered),
		TEST(a_refusal_looks_and_names_the_holder),
		TEST(the_same_nonce_gets_the_same_grant),
		TEST(the_same_nonce_of_another_principal_is_refused),
		TEST(a_grant_without_time_left_is_asked_again),
		TEST(one_of_a_crowd_asks_at_a_time),
		TEST(a_release_hands_over_to_the_first_in_line_in_the_same_turn),
		TEST(a_release_that_comes_second_still_wakes),
		TEST(an_expiry_is_a_timer),
		TEST(a_wait_that_runs_out_names_the_holder),
		TEST(a_grant_that_crosses_a_cancel_is_released),
		TEST(a_grant_that_crosses_a_disconnect_stays),
		TEST(a_waiter_whose_connection_ends_leaves_the_queue),
		TEST(a_locked_expired_row_is_reported_as_guarded),
		TEST(a_renewal_of_a_locked_row_is_asked_again),
		TEST(claims_that_miss_are_explained),
		TEST(a_wait_outlasts_an_outage),
		TEST(too_much_is_refused),
#undef TEST
	};

	if (sodium_init() < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
