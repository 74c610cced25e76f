/* Whose turn it is to acquire, over a store by script: who waits, who asks, who is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sodium.h>
#include <string.h>

#include "clock.h"
#include "engine_rig.h"

/* A request that waits: refused, it draws a place, asks once more, and is refused again. */
static void stands_in_line(struct rig *w, struct asked *a, uint64_t nonce, int64_t place,
	const struct claim *holder, int64_t expires_in_ms)
{
	submit(w, a, VERB_ACQUIRE, nonce, 60000);
	fake_store_miss(w->store, next_is(w, a));
	fake_store_show(w->store, next_is(w, a), holder, false, expires_in_ms);
	assert_true(a->req.queueing);
	fake_store_place(w->store, next_is(w, a), place);
	assert_false(a->req.looking);
	assert_int_equal(a->req.place, place);
	fake_store_miss(w->store, next_is(w, a));
	fake_store_show(w->store, next_is(w, a), holder, false, expires_in_ms);
}

/* One behind others looks, draws its place and asks for nothing more. */
static void stands_behind(struct rig *w, struct asked *a, uint64_t nonce, int64_t place,
	const struct claim *holder)
{
	submit(w, a, VERB_ACQUIRE, nonce, 60000);
	fake_store_show(w->store, next_is(w, a), holder, false, 30000);
	fake_store_place(w->store, next_is(w, a), place);
	nothing_is_asked(w);
}

static void leaves(struct rig *w, int64_t place)
{
	struct request *req = fake_store_take(w->store);

	assert_non_null(req);
	assert_int_equal(req->verb, VERB_LEAVE);
	assert_int_equal(req->place, place);
	fake_store_hit(w->store, req);
}

static void one_of_a_crowd_asks_at_a_time(void **state)
{
	struct rig *w = *state;
	struct asked crowd[50];
	struct claim winner = claim_of("n", 1);
	size_t looks = 0, places = 0;
	struct request *req;

	for (size_t i = 0; i < 50; i++)
		submit(w, &crowd[i], VERB_ACQUIRE, i + 1, i % 2 ? 60000 : 0);
	fake_store_grant(w->store, next_is(w, &crowd[0]), 1, 30000);
	ended(&crowd[0], LEASED_OK);
	while ((req = fake_store_take(w->store))) {
		if (req->queueing) {
			fake_store_place(w->store, req, (int64_t)++places);
		} else if (req->looking) {
			fake_store_show(w->store, req, &winner, false, 30000);
			looks++;
		} else { /* the first in line asks once more, now that it has a place */
			assert_ptr_equal(req, &crowd[1].req);
			fake_store_miss(w->store, req);
		}
	}
	assert_int_equal(looks, 49 + 1);
	assert_int_equal(places, 25);
	assert_int_equal(engine_waiters(w->engine), 25);
	for (size_t i = 2; i < 50; i += 2)
		ended(&crowd[i], LEASED_EHELD);
	for (size_t i = 1; i < 50; i += 2) {
		engine_cancel(w->engine, &crowd[i].req);
		ended(&crowd[i], LEASED_ECANCELLED);
		leaves(w, (int64_t)(i / 2 + 1));
	}
}

static void a_release_hands_over_to_the_first_in_line_in_the_same_turn(void **state)
{
	struct rig *w = *state;
	struct asked holder, first, second, release;
	struct claim held = claim_of("n", 1);

	submit(w, &holder, VERB_ACQUIRE, 1, 0);
	fake_store_grant(w->store, next_is(w, &holder), 1, 30000);
	ended(&holder, LEASED_OK);
	stands_in_line(w, &first, 2, 1, &held, 30000);
	stands_behind(w, &second, 3, 2, &held);

	submit(w, &release, VERB_RELEASE, 1, 0);
	fake_store_hit(w->store, next_is(w, &release));
	fake_store_grant(w->store, next_is(w, &first), 2, 30000);
	ended(&release, LEASED_OK);
	ended(&first, LEASED_OK);
	nothing_is_asked(w);
	assert_int_equal(second.done, 0);
	engine_cancel(w->engine, &second.req);
	ended(&second, LEASED_ECANCELLED);
	leaves(w, 2);
}

/* The acquire may reach the database before the release does. */
static void a_release_that_comes_second_still_wakes(void **state)
{
	struct rig *w = *state;
	struct asked waiter, release;
	struct claim held = claim_of("n", 1);
	struct request *first, *second;

	stands_in_line(w, &waiter, 2, 1, &held, 30000);
	submit(w, &release, VERB_RELEASE, 1, 0);
	first = next_is(w, &release);
	second = next_is(w, &waiter);
	fake_store_miss(w->store, second);
	fake_store_hit(w->store, first); /* now it is free */
	ended(&release, LEASED_OK);
	fake_store_show(w->store, next_is(w, &waiter), &held, false, 30000); /* seen before */
	second = next_in_time(w);
	assert_ptr_equal(second, &waiter.req);
	fake_store_grant(w->store, second, 2, 30000);
	ended(&waiter, LEASED_OK);
}

static void an_expiry_is_a_timer(void **state)
{
	struct rig *w = *state;
	struct claim held = claim_of("n", 1);
	struct request *req;
	struct asked a;
	int64_t start = clock_ms();

	stands_in_line(w, &a, 2, 1, &held, 30);
	req = next_in_time(w);
	assert_true(clock_ms() - start >= 30);
	fake_store_grant(w->store, req, 2, 30000);
	ended(&a, LEASED_OK);
}

static void a_wait_that_runs_out_names_the_holder(void **state)
{
	struct rig *w = *state;
	struct claim held = claim_of("n", 1);
	struct request *req;
	struct asked a;

	submit(w, &a, VERB_ACQUIRE, 2, 20);
	fake_store_miss(w->store, next_is(w, &a));
	fake_store_show(w->store, next_is(w, &a), &held, false, 30000);
	fake_store_place(w->store, next_is(w, &a), 1);
	fake_store_miss(w->store, next_is(w, &a));
	fake_store_show(w->store, next_is(w, &a), &held, false, 30000);
	req = next_in_time(w);
	assert_true(req->looking);
	fake_store_show(w->store, req, &held, false, 29000);
	assert_int_equal(a.req.view->claim.nonce, 1);
	ended(&a, LEASED_ETIMEDOUT);
	leaves(w, 1);
}

static void a_grant_that_crosses_a_cancel_is_released(void **state)
{
	struct rig *w = *state;
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
	struct rig *w = *state;
	struct asked a;

	submit(w, &a, VERB_ACQUIRE, 1, 60000);
	engine_abandon(w->engine, &a.req);
	fake_store_grant(w->store, next_is(w, &a), 7, 900);
	ended(&a, LEASED_OK);
	nothing_is_asked(w);
}

static void a_waiter_whose_connection_ends_leaves_the_queue(void **state)
{
	struct rig *w = *state;
	struct claim held = claim_of("n", 1);
	struct asked a;

	stands_in_line(w, &a, 2, 1, &held, 30000);
	assert_int_equal(engine_waiters(w->engine), 1);
	engine_abandon(w->engine, &a.req);
	ended(&a, LEASED_ECANCELLED);
	assert_int_equal(engine_waiters(w->engine), 0);
	leaves(w, 1);
}

static void a_locked_expired_row_is_reported_as_guarded(void **state)
{
	struct rig *w = *state;
	struct claim expired = claim_of("n", 9);
	struct request *req;
	struct asked a;

	submit(w, &a, VERB_ACQUIRE, 1, 0);
	while (!a.done) {
		req = next_in_time(w);
		if (req->looking)
			fake_store_show(w->store, req, &expired, false, -5000);
		else
			fake_store_miss(w->store, req);
	}
	ended(&a, LEASED_EGUARDED);
}

static void a_wait_outlasts_an_outage(void **state)
{
	struct rig *w = *state;
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

/* It comes back to this daemon from another one, where it stood before all others. */
static void an_old_place_is_kept(void **state)
{
	struct rig *w = *state;
	struct claim held = claim_of("n", 1);
	struct asked young, old;

	stands_in_line(w, &young, 2, 7, &held, 30000);
	submit(w, &old, VERB_ACQUIRE, 3, 60000);
	fake_store_show(w->store, next_is(w, &old), &held, false, 30000);
	fake_store_place(w->store, next_is(w, &old), 4);
	fake_store_miss(w->store, next_is(w, &old)); /* it is the first now, and asks once */
	fake_store_show(w->store, next_is(w, &old), &held, false, 30000);
	engine_notified(w->engine, store_daemon(w->store), text_of("n"));
	fake_store_grant(w->store, next_is(w, &old), 9, 30000);
	ended(&old, LEASED_OK);
	nothing_is_asked(w);
	engine_cancel(w->engine, &young.req);
	ended(&young, LEASED_ECANCELLED);
	leaves(w, 7);
}

static void a_notice_wakes_the_first_in_line_only(void **state)
{
	struct rig *w = *state;
	struct claim held = claim_of("n", 1);
	struct asked first, second;

	stands_in_line(w, &first, 2, 1, &held, 30000);
	stands_behind(w, &second, 3, 2, &held);
	engine_notified(w->engine, store_daemon(w->store) + 1, text_of("n")); /* another daemon's turn */
	nothing_is_asked(w);
	engine_notified(w->engine, store_daemon(w->store), text_of("n"));
	fake_store_grant(w->store, next_is(w, &first), 2, 30000);
	ended(&first, LEASED_OK);
	nothing_is_asked(w);
	engine_cancel(w->engine, &second.req);
	ended(&second, LEASED_ECANCELLED);
	leaves(w, 2);
}

/* Its waiter left, or its row was left behind by a lost connection: the next one must hear of it. */
static void a_notice_for_nobody_is_passed_on(void **state)
{
	struct rig *w = *state;

	engine_notified(w->engine, store_daemon(w->store), text_of("n"));
	leaves(w, -INT64_MAX);
}

/* Free, and yet not granted: a row of ours that nobody here knows of stands before the first. */
static void a_stray_place_is_given_up(void **state)
{
	struct rig *w = *state;
	struct claim held = claim_of("n", 1), expired = held;
	struct request *req;
	struct asked a;
	bool forgotten = false;

	stands_in_line(w, &a, 2, 8, &held, 30000);
	engine_notified(w->engine, store_daemon(w->store), text_of("n"));
	while (!forgotten) {
		req = next_in_time(w);
		if (req->verb == VERB_LEAVE) {
			assert_int_equal(req->place, -8);
			fake_store_hit(w->store, req);
			forgotten = true;
		} else if (req->looking) {
			fake_store_show(w->store, req, &expired, false, -10);
		} else {
			fake_store_miss(w->store, req);
		}
	}
	while (!a.done) {
		req = next_in_time(w);
		fake_store_grant(w->store, req, 2, 30000);
	}
	ended(&a, LEASED_OK);
}

static void a_cancel_while_the_place_is_drawn_leaves_the_line(void **state)
{
	struct rig *w = *state;
	struct claim held = claim_of("n", 1);
	struct asked a;

	submit(w, &a, VERB_ACQUIRE, 2, 60000);
	fake_store_miss(w->store, next_is(w, &a));
	fake_store_show(w->store, next_is(w, &a), &held, false, 30000);
	engine_cancel(w->engine, &a.req);
	fake_store_place(w->store, next_is(w, &a), 5);
	ended(&a, LEASED_ECANCELLED);
	leaves(w, 5);
	nothing_is_asked(w);
}

/* The answer was lost; the client asks again with the same nonce, though others wait by now. */
static void a_grant_is_found_again_behind_a_line(void **state)
{
	struct rig *w = *state;
	struct claim mine = claim_of("n", 1);
	struct asked waiter, again;

	mine.token = 5;
	stands_in_line(w, &waiter, 2, 1, &mine, 30000);
	submit(w, &again, VERB_ACQUIRE, 1, 60000);
	fake_store_show(w->store, next_is(w, &again), &mine, false, 30000);
	assert_int_equal(again.req.claim.token, 5);
	ended(&again, LEASED_OK);
	engine_cancel(w->engine, &waiter.req);
	ended(&waiter, LEASED_ECANCELLED);
	leaves(w, 1);
}

/* Nobody who does not wait has to, when the one before it cannot be answered. */
static void an_outage_answers_all_that_do_not_wait(void **state)
{
	struct rig *w = *state;
	struct asked first, second, third;

	submit(w, &first, VERB_ACQUIRE, 1, 0);
	submit(w, &second, VERB_ACQUIRE, 2, 0);
	submit(w, &third, VERB_ACQUIRE, 3, 0);
	fake_store_fail(w->store, next_is(w, &first), LEASED_EUNAVAILABLE);
	ended(&first, LEASED_EUNAVAILABLE);
	ended(&second, LEASED_EUNAVAILABLE);
	ended(&third, LEASED_EUNAVAILABLE);
	nothing_is_asked(w);
}

/* Whoever does not wait takes no place from those who do, nor is refused for their number. */
static void max_waiters_is_for_those_that_wait(void **state)
{
	struct rig *w = *state;
	struct claim held = claim_of("n", 1);
	static struct asked crowd[RIG_WAITERS_MAX];
	struct asked first, brief, late;

	submit(w, &first, VERB_ACQUIRE, 2, 0);
	for (size_t i = 0; i < RIG_WAITERS_MAX; i++)
		submit(w, &crowd[i], VERB_ACQUIRE, 10 + i, 0);
	assert_int_equal(engine_waiters(w->engine), 0);
	assert_int_equal(engine_unanswered(w->engine), 1 + RIG_WAITERS_MAX);
	fake_store_fail(w->store, next_is(w, &first), LEASED_EUNAVAILABLE);
	ended(&first, LEASED_EUNAVAILABLE);
	for (size_t i = 0; i < RIG_WAITERS_MAX; i++)
		ended(&crowd[i], LEASED_EUNAVAILABLE);

	stands_in_line(w, &crowd[0], 10, 1, &held, 30000);
	for (size_t i = 1; i < RIG_WAITERS_MAX; i++)
		stands_behind(w, &crowd[i], 10 + i, (int64_t)i + 1, &held);
	submit(w, &brief, VERB_ACQUIRE, 3, 0);
	fake_store_show(w->store, next_is(w, &brief), &held, false, 30000);
	ended(&brief, LEASED_EHELD);
	submit(w, &late, VERB_ACQUIRE, 4, 60000);
	fake_store_show(w->store, next_is(w, &late), &held, false, 30000);
	ended(&late, LEASED_EBUSY);
	submit(w, &late, VERB_ACQUIRE, 1, 60000); /* it is the holder's own */
	fake_store_show(w->store, next_is(w, &late), &held, false, 30000);
	ended(&late, LEASED_OK);
	for (size_t i = 0; i < RIG_WAITERS_MAX; i++) {
		engine_cancel(w->engine, &crowd[i].req);
		ended(&crowd[i], LEASED_ECANCELLED);
		leaves(w, (int64_t)i + 1);
	}
}

/* The others took this daemon for dead: its waiters draw new places, in their old order. */
static void lost_places_are_drawn_anew(void **state)
{
	struct rig *w = *state;
	struct claim held = claim_of("n", 1);
	struct asked first, second;
	struct request *req;

	stands_in_line(w, &first, 2, 1, &held, 30000);
	stands_behind(w, &second, 3, 2, &held);
	req = next_in_time(w);
	assert_int_equal(req->verb, VERB_BEAT);
	fake_store_miss(w->store, req);
	fake_store_place(w->store, next_is(w, &first), 11);
	fake_store_place(w->store, next_is(w, &second), 12);
	fake_store_grant(w->store, next_is(w, &first), 2, 30000); /* asked once more */
	ended(&first, LEASED_OK);
	engine_cancel(w->engine, &second.req);
	ended(&second, LEASED_ECANCELLED);
	leaves(w, 12);
}

/* The one that asks when places may have been lost makes sure of its own before it waits on. */
static void a_place_lost_while_asking_is_drawn_anew(void **state)
{
	struct rig *w = *state;
	struct claim held = claim_of("n", 1);
	struct asked a;

	stands_in_line(w, &a, 2, 1, &held, 30000);
	engine_notified(w->engine, store_daemon(w->store), text_of("n"));
	engine_set_listening(w->engine, true); /* the server was gone meanwhile */
	fake_store_miss(w->store, next_is(w, &a));
	fake_store_show(w->store, next_is(w, &a), &held, false, 30000);
	assert_true(a.req.queueing);
	fake_store_place(w->store, next_is(w, &a), 5);
	fake_store_grant(w->store, next_is(w, &a), 2, 30000);
	ended(&a, LEASED_OK);
}

/* A reply that cannot be sent ends the session, which then abandons what it is being told. */
static void one_that_is_answered_can_no_longer_be_taken_back(void **state)
{
	struct rig *w = *state;
	struct claim held = claim_of("n", 1);
	struct asked a;

	stands_in_line(w, &a, 2, 1, &held, 30000);
	engine_cancel(w->engine, &a.req);
	engine_abandon(w->engine, &a.req);
	engine_cancel(w->engine, &a.req);
	ended(&a, LEASED_ECANCELLED);
	leaves(w, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(function) cmocka_unit_test_setup_teardown(function, rig_setup, rig_teardown)
		TEST(one_of_a_crowd_asks_at_a_time),
		TEST(a_release_hands_over_to_the_first_in_line_in_the_same_turn),
		TEST(a_release_that_comes_second_still_wakes),
		TEST(an_expiry_is_a_timer),
		TEST(a_wait_that_runs_out_names_the_holder),
		TEST(a_grant_that_crosses_a_cancel_is_released),
		TEST(a_grant_that_crosses_a_disconnect_stays),
		TEST(a_waiter_whose_connection_ends_leaves_the_queue),
		TEST(a_locked_expired_row_is_reported_as_guarded),
		TEST(a_wait_outlasts_an_outage),
		TEST(an_old_place_is_kept),
		TEST(a_notice_wakes_the_first_in_line_only),
		TEST(a_notice_for_nobody_is_passed_on),
		TEST(a_stray_place_is_given_up),
		TEST(a_cancel_while_the_place_is_drawn_leaves_the_line),
		TEST(a_grant_is_found_again_behind_a_line),
		TEST(an_outage_answers_all_that_do_not_wait),
		TEST(max_waiters_is_for_those_that_wait),
		TEST(lost_places_are_drawn_anew),
		TEST(a_place_lost_while_asking_is_drawn_anew),
		TEST(one_that_is_answered_can_no_longer_be_taken_back),
#undef TEST
	};

	if (sodium_init() < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
