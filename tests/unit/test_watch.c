/* What a watch is told, over a store by script: changes, ends nobody tells of, gaps, readers that are slow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sodium.h>
#include <string.h>

#include "watches_rig.h"

static void what_the_snapshot_shows_is_not_told_again(void **state)
{
	struct world *w = *state;

	follows(w, "a5");
	change(w, CHANGE_GRANTED, "a", 4);
	change(w, CHANGE_RELEASED, "a", 4);
	change(w, CHANGE_GRANTED, "a", 5);
	change(w, CHANGE_RELEASED, "b", 7); /* before the snapshot, which does not show it */
	is_told(&w->a, "");
	change(w, CHANGE_RELEASED, "a", 5);
	change(w, CHANGE_RELEASED, "a", 5);
	change(w, CHANGE_GRANTED, "a", 6);
	change(w, CHANGE_STOLEN, "a", 6);
	is_told(&w->a, "r:a:5 g:a:6 s:a:6 ");
}

static void only_newer_values_are_told(void **state)
{
	struct world *w = *state;

	follows(w, "a5"); /* its value was changed once */
	change_for(w, CHANGE_VALUE, "a", 5, 1);
	change_for(w, CHANGE_VALUE, "a", 4, 9);
	is_told(&w->a, "");
	change_for(w, CHANGE_VALUE, "a", 5, 2);
	change_for(w, CHANGE_VALUE, "a", 5, 2);
	change(w, CHANGE_RELEASED, "a", 5);
	change_for(w, CHANGE_VALUE, "a", 5, 3);
	is_told(&w->a, "v:a:5 r:a:5 ");
}

static void several_grants_of_a_name_end_each_for_itself(void **state)
{
	struct world *w = *state;

	follows(w, "a3 a5");
	change(w, CHANGE_GRANTED, "a", 4); /* was over before the snapshot */
	change(w, CHANGE_RELEASED, "a", 4);
	change(w, CHANGE_GRANTED, "a", 8);
	is_told(&w->a, "g:a:8 ");
	change_for(w, CHANGE_VALUE, "a", 3, 2);
	change_for(w, CHANGE_VALUE, "a", 5, 2);
	change(w, CHANGE_EXPIRED, "a", 5);
	change(w, CHANGE_EXPIRED, "a", 5);
	change(w, CHANGE_RELEASED, "a", 8);
	change(w, CHANGE_GRANTED, "a", 8); /* it has been told, though it is over */
	change(w, CHANGE_GRANTED, "a", 9);
	change(w, CHANGE_STOLEN, "a", 3);
	change(w, CHANGE_RELEASED, "a", 9);
	is_told(&w->a, "v:a:3 v:a:5 x:a:5 r:a:8 g:a:9 s:a:3 r:a:9 ");
}

/* The names of a group share a token, and are told apart by it no less. */
static void one_token_may_be_that_of_several_names(void **state)
{
	struct world *w = *state;

	follows(w, "a5 b5");
	change(w, CHANGE_GRANTED, "c", 5);
	change(w, CHANGE_RELEASED, "b", 5);
	change(w, CHANGE_RELEASED, "a", 5);
	change(w, CHANGE_EXPIRED, "c", 5);
	is_told(&w->a, "g:c:5 r:b:5 r:a:5 x:c:5 ");
}

static void each_is_told_what_it_asked_for(void **state)
{
	struct world *w = *state;

	start(w, &w->a, "ab", false);
	settled(w);
	page(w, "", "", false);
	start(w, &w->b, "ab", true);
	page(w, "", "", false);
	change(w, CHANGE_GRANTED, "ab", 1);
	change(w, CHANGE_GRANTED, "abc", 2);
	change(w, CHANGE_GRANTED, "a", 3);
	change(w, CHANGE_GRANTED, "b", 4);
	is_told(&w->a, "S R g:ab:1 g:abc:2 ");
	is_told(&w->b, "S R g:ab:1 ");
}

/* Answers the next question whether a lease has expired. */
static void expiry(struct world *w, bool found, bool expired, int64_t expires_in_ms)
{
	struct request *req = asked(w, VERB_EXPIRY);

	req->expired = expired;
	req->expires_in_ms = expires_in_ms;
	if (found)
		fake_store_hit(w->rig->store, req);
	else
		fake_store_miss(w->rig->store, req);
}

static void an_expiry_is_told_when_it_is_certain(void **state)
{
	struct world *w = *state;

	follows(w, "");
	change_for(w, CHANGE_GRANTED, "a", 1, 10);
	expiry(w, true, false, 20);  /* renewed */
	expiry(w, true, false, -20); /* its row is locked */
	is_told(&w->a, "g:a:1 ");
	expiry(w, true, true, -120);
	is_told(&w->a, "x:a:1 ");
	nothing_is_asked(w->rig);
}

static void an_end_that_crosses_the_question_counts_once(void **state)
{
	struct world *w = *state;
	struct request *req;

	follows(w, "");
	change_for(w, CHANGE_GRANTED, "a", 1, 10);
	req = asked(w, VERB_EXPIRY);
	change(w, CHANGE_EXPIRED, "a", 1);
	change(w, CHANGE_GRANTED, "a", 2);
	req->expired = true;
	fake_store_hit(w->rig->store, req);
	is_told(&w->a, "g:a:1 x:a:1 g:a:2 ");
}

static void a_gap_brings_a_fresh_snapshot(void **state)
{
	struct world *w = *state;

	follows(w, "a5");
	beat(w, true);
	nothing_is_asked(w->rig);
	beat(w, false); /* the others took this daemon for dead */
	change(w, CHANGE_RELEASED, "a", 5);
	changing(w, "", "");
	page(w, "", "a6", false);
	is_told(&w->a, "S h:a:6 R ");
}

static void lost_notifications_bring_a_fresh_snapshot(void **state)
{
	struct world *w = *state;

	follows(w, "a5");
	w->notices.proved = false;
	watches_set_listening(w->all, false);
	change(w, CHANGE_RELEASED, "a", 5);
	is_told(&w->a, "");
	w->notices.proved = true;
	watches_set_listening(w->all, true);
	settled(w);
	page(w, "", "", false);
	is_told(&w->a, "S R ");
}

static void a_slow_reader_is_waited_for_and_then_left(void **state)
{
	static char value[4096];
	struct world *w = *state;
	struct change big = { .kind = CHANGE_VALUE, .claim = claim_of("a", 1), .value = { value, sizeof value },
		.has_value = true };

	follows(w, "a1"); /* its value was changed once */
	big.claim.token = 1;
	w->a.full = true;
	for (big.value_changes = 2; big.value_changes < 5; big.value_changes++)
		watches_take(w->all, &big);
	is_told(&w->a, "v:a:1 ");
	w->a.full = false;
	watch_resume(w->a.watch);
	is_told(&w->a, "v:a:1 v:a:1 ");
	w->a.full = true;
	for (; w->a.watch && big.value_changes < 1000; big.value_changes++)
		watches_take(w->all, &big);
	is_told(&w->a, "v:a:1 END ");
	assert_int_equal(w->a.ended, LEASED_EBUSY);
	assert_in_range(big.value_changes, WATCH_QUEUE_MAX / 4500, WATCH_QUEUE_MAX / 4096 + 7);
}

static void a_watch_may_end_in_what_it_is_told(void **state)
{
	struct world *w = *state;

	start(w, &w->a, "", false);
	start(w, &w->b, "", false);
	settled(w);
	page(w, "", "", false);
	page(w, "", "", false);
	*w->a.text = *w->b.text = '\0';
	w->a.stops = &w->b; /* it stands behind in the same line */
	change(w, CHANGE_GRANTED, "x", 1);
	w->b.watch = NULL;
	w->a.stops = NULL;
	w->a.stops_itself = true;
	change(w, CHANGE_EXPIRED, "x", 1);
	change(w, CHANGE_GRANTED, "x", 2);
	is_told(&w->a, "g:x:1 x:x:1 ");
	is_told(&w->b, "");
}

static void what_cannot_be_watched_is_refused(void **state)
{
	struct world *w = *state;
	struct leased_error err;
	struct watch *more[4];
	size_t n = 0;

	while (n < 3) {
		assert_int_equal(watch_start(w->all, text_of(""), false, &told_events, &w->b, &more[n], &err), 0);
		n++;
	}
	assert_int_equal(watch_start(w->all, text_of(""), false, &told_events, &w->b, &more[3], &err), LEASED_EBUSY);
	while (n > 0)
		watch_stop(more[--n]);
	w->notices.proved = false;
	w->notices.given_up = true;
	assert_int_equal(watch_start(w->all, text_of(""), false, &told_events, &w->b, &more[3], &err),
		LEASED_EUNAVAILABLE);
	assert_non_null(strstr(err.text, "a pool"));
}

int main(void)
{
#define TEST(claim) cmocka_unit_test_setup_teardown(claim, watches_setup, watches_teardown)
	const struct CMUnitTest tests[] = {
		TEST(what_the_snapshot_shows_is_not_told_again),
		TEST(only_newer_values_are_told),
		TEST(several_grants_of_a_name_end_each_for_itself),
		TEST(one_token_may_be_that_of_several_names),
		TEST(each_is_told_what_it_asked_for),
		TEST(an_expiry_is_told_when_it_is_certain),
		TEST(an_end_that_crosses_the_question_counts_once),
		TEST(a_gap_brings_a_fresh_snapshot),
		TEST(lost_notifications_bring_a_fresh_snapshot),
		TEST(a_slow_reader_is_waited_for_and_then_left),
		TEST(a_watch_may_end_in_what_it_is_told),
		TEST(what_cannot_be_watched_is_refused),
	};
#undef TEST

	if (sodium_init() < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
