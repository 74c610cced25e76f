/* Acquires that are refused for what was done already: at once, out of a wait, and nobody behind stalls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sodium.h>
#include <string.h>

#include "engine_rig.h"

static void submit_slot(struct rig *w, struct asked *a, uint64_t nonce, int64_t wait_ms)
{
	*a = (struct asked){ .req = { .verb = VERB_ACQUIRE, .claim = claim_of("n", nonce),
				     .ttl_ms = 1000, .wait_ms = wait_ms, .slot = text_of("03:00") } };
	submit_as_is(w, a);
}

static void done(struct asked *a, const char *word)
{
	struct leased_error why;

	request_explain(&a->req, &why);
	if (!strstr(why.text, word))
		fail_msg("%s", why.text);
	ended(a, LEASED_EDONE);
}

static void a_completed_slot_names_who_completed_it(void **state)
{
	struct rig *w = *state;
	struct claim by = claim_of("n", 0xabc);
	struct asked a;

	by.token = 17;
	submit_slot(w, &a, 1, 0);
	fake_store_miss(w->store, next_is(w, &a));
	fake_store_show_done(w->store, next_is(w, &a), NULL, 0, &by); /* the row itself may be gone */
	done(&a, "\"03:00\" was completed 0s ago by h:1:0000000000000abc (p) with token 17");
	nothing_is_asked(w);
}

static void it_does_not_wait_though_another_holds_the_lease(void **state)
{
	struct rig *w = *state;
	struct claim holder = claim_of("n", 2), by = claim_of("n", 3);
	struct asked a;

	submit_slot(w, &a, 1, 60000);
	fake_store_miss(w->store, next_is(w, &a));
	fake_store_show_done(w->store, next_is(w, &a), &holder, 30000, &by);
	done(&a, "completed");
	assert_int_equal(engine_waiters(w->engine), 0);
}

/* The same holder asks again: what it has it keeps, whatever else is done. */
static void our_own_grant_comes_first(void **state)
{
	struct rig *w = *state;
	struct claim mine = claim_of("n", 1), by = claim_of("n", 3);
	struct asked a;

	mine.token = 5;
	submit_slot(w, &a, 1, 0);
	fake_store_miss(w->store, next_is(w, &a));
	fake_store_show_done(w->store, next_is(w, &a), &mine, 500, &by);
	assert_int_equal(a.req.claim.token, 5);
	ended(&a, LEASED_OK);
}

static void leaves(struct rig *w, int64_t place)
{
	struct request *req = fake_store_take(w->store);

	assert_non_null(req);
	assert_int_equal(req->verb, VERB_LEAVE);
	assert_int_equal(req->place, place);
	fake_store_hit(w->store, req);
}

/* The first in line, with a place; the lease is held. */
static void waits(struct rig *w, struct asked *a, const struct claim *holder)
{
	submit_slot(w, a, 2, 60000);
	fake_store_miss(w->store, next_is(w, a));
	fake_store_show(w->store, next_is(w, a), holder, false, 30000);
	fake_store_place(w->store, next_is(w, a), 1);
	fake_store_miss(w->store, next_is(w, a));
	fake_store_show(w->store, next_is(w, a), holder, false, 30000);
}

/* Three wait for the lease. The tick of the first two is completed: each learns it at its turn. */
static void a_wait_ends_when_the_slot_is_completed(void **state)
{
	struct rig *w = *state;
	struct claim holder = claim_of("n", 1);
	struct asked waiting[2], plain, release;

	waits(w, &waiting[0], &holder);
	submit_slot(w, &waiting[1], 3, 60000);
	fake_store_show(w->store, next_is(w, &waiting[1]), &holder, false, 30000);
	fake_store_place(w->store, next_is(w, &waiting[1]), 2);
	submit(w, &plain, VERB_ACQUIRE, 4, 60000);
	fake_store_show(w->store, next_is(w, &plain), &holder, false, 30000);
	fake_store_place(w->store, next_is(w, &plain), 3);
	nothing_is_asked(w);

	submit(w, &release, VERB_RELEASE, 1, 0);
	fake_store_hit(w->store, next_is(w, &release));
	ended(&release, LEASED_OK);
	for (int i = 0; i < 2; i++) {
		fake_store_miss(w->store, next_is(w, &waiting[i]));
		if (i > 0)
			leaves(w, i);
		fake_store_show_done(w->store, next_is(w, &waiting[i]), &holder, -1, &holder);
		done(&waiting[i], "completed");
	}
	fake_store_grant(w->store, next_is(w, &plain), 9, 1000);
	leaves(w, 2);
	ended(&plain, LEASED_OK);
	nothing_is_asked(w);
	assert_int_equal(engine_waiters(w->engine), 0);
}

/* Whoever would stand in line for a job of hours is told at once that its tick is over. */
static void it_is_looked_at_before_it_stands_in_line(void **state)
{
	struct rig *w = *state;
	struct claim holder = claim_of("n", 1), by = claim_of("n", 5);
	struct asked first, a;

	waits(w, &first, &holder);
	submit_slot(w, &a, 3, 60000);
	fake_store_show_done(w->store, next_is(w, &a), &holder, 30000, &by);
	done(&a, "completed");
	nothing_is_asked(w);
	engine_cancel(w->engine, &first.req);
	ended(&first, LEASED_ECANCELLED);
	leaves(w, 1);
}

/* It has drawn its place when it is told: the place goes, or nobody behind it would ever get the lease. */
static void its_place_goes_with_it(void **state)
{
	struct rig *w = *state;
	struct claim holder = claim_of("n", 1), by = claim_of("n", 5);
	struct asked a;

	submit_slot(w, &a, 2, 60000);
	fake_store_miss(w->store, next_is(w, &a));
	fake_store_show(w->store, next_is(w, &a), &holder, false, 30000);
	fake_store_place(w->store, next_is(w, &a), 1);
	fake_store_miss(w->store, next_is(w, &a));
	fake_store_show_done(w->store, next_is(w, &a), &holder, 30000, &by);
	done(&a, "completed");
	leaves(w, 1);
	nothing_is_asked(w);
}

static void a_wait_that_runs_out_is_told_too(void **state)
{
	struct rig *w = *state;
	struct claim holder = claim_of("n", 1), by = claim_of("n", 5);
	struct asked a;

	submit_slot(w, &a, 2, 20);
	fake_store_miss(w->store, next_is(w, &a));
	fake_store_show(w->store, next_is(w, &a), &holder, false, 30000);
	fake_store_place(w->store, next_is(w, &a), 1);
	fake_store_miss(w->store, next_is(w, &a));
	fake_store_show(w->store, next_is(w, &a), &holder, false, 30000);
	assert_ptr_equal(next_in_time(w), &a.req);
	fake_store_show_done(w->store, &a.req, &holder, 30000, &by);
	done(&a, "completed");
	leaves(w, 1);
}

static void what_is_given_back_completes_nothing(void **state)
{
	struct rig *w = *state;
	struct request *release;
	struct asked a;

	submit_slot(w, &a, 1, 60000);
	engine_cancel(w->engine, &a.req);
	fake_store_grant(w->store, next_is(w, &a), 7, 900);
	release = fake_store_take(w->store);
	assert_true(release->verb == VERB_RELEASE && release->undone);
	fake_store_hit(w->store, release);
	ended(&a, LEASED_ECANCELLED);
}

static void an_interval_says_when_the_next_run_may_begin(void **state)
{
	struct claim nobody = { 0 };
	struct done_view by = { .claim = claim_of("n", 1), .ago_ms = 1800000, .left_ms = 1790000 };
	struct request req = { .status = LEASED_EDONE, .done_by = &by, .every_ms = 3600000 };
	struct leased_error why;

	(void)state;
	request_explain(&req, &why);
	assert_string_equal(why.text,
		"it ran 30m ago, by h:1:0000000000000001 (p), the next run may start in 29m50s");
	by.claim = nobody; /* its row has been taken meanwhile, in vain */
	request_explain(&req, &why);
	assert_string_equal(why.text, "it ran 30m ago, the next run may start in 29m50s");
}

static void the_longest_of_all_still_fits_a_sentence(void **state)
{
	static char longest[255];
	struct text text = { longest, sizeof longest };
	struct done_view by = { .by_slot = true, .has_exit_status = true, .exit_status = INT32_MIN,
		.ago_ms = INT64_MAX / 2, .claim = { .host = text, .principal = text, .pid = INT32_MAX,
		.nonce = UINT64_MAX, .token = UINT64_MAX } };
	struct request req = { .status = LEASED_EDONE, .done_by = &by, .slot = text };
	struct leased_error why;

	(void)state;
	memset(longest, '\x1b', sizeof longest);
	request_explain(&req, &why);
	assert_true(strlen(why.text) < sizeof why.text);
	assert_null(strchr(why.text, '\x1b'));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(function) cmocka_unit_test_setup_teardown(function, rig_setup, rig_teardown)
		TEST(a_completed_slot_names_who_completed_it),
		TEST(it_does_not_wait_though_another_holds_the_lease),
		TEST(our_own_grant_comes_first),
		TEST(a_wait_ends_when_the_slot_is_completed),
		TEST(it_is_looked_at_before_it_stands_in_line),
		TEST(its_place_goes_with_it),
		TEST(a_wait_that_runs_out_is_told_too),
		TEST(what_is_given_back_completes_nothing),
		cmocka_unit_test(an_interval_says_when_the_next_run_may_begin),
		cmocka_unit_test(the_longest_of_all_still_fits_a_sentence),
#undef TEST
	};

	if (sodium_init() < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
