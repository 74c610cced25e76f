/* How a watch begins, over a store by script: pages of what is held, and changes that cross them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sodium.h>

#include "watches_rig.h"

static void it_waits_for_those_who_did_not_know(void **state)
{
	struct world *w = *state;

	start(w, &w->a, "", false);
	beat(w, false);
	changing(w, "", "3/17 4/5");
	changing(w, "3/17 4/5", "4/5"); /* the others, and no new ones */
	change(w, CHANGE_GRANTED, "x", 1); /* a page to come shows it */
	changing(w, "4/5", "");
	is_told(&w->a, "");
	page(w, "", "a1 b2- c3", false);
	is_told(&w->a, "S h:a:1 h:c:3 R ");
	nothing_is_asked(w->rig);
}

static void changes_that_cross_the_pages(void **state)
{
	struct world *w = *state;

	start(w, &w->a, "", false);
	settled(w);
	change(w, CHANGE_RELEASED, "b", 2);  /* the first page may show it held, or not */
	change(w, CHANGE_GRANTED, "e", 5);   /* a later page shows it */
	page(w, "", "a1 b2 c3 d1-", true);
	change(w, CHANGE_GRANTED, "c", 4);   /* listed: behind the snapshot */
	change(w, CHANGE_GRANTED, "d", 7);   /* the second page may show it */
	change(w, CHANGE_RELEASED, "f", 6);
	is_told(&w->a, "S h:a:1 h:b:2 h:c:3 ");
	page(w, "d0", "d7 e5 f6", false);
	is_told(&w->a, "h:d:7 END "); /* more than four */
	assert_int_equal(w->a.ended, LEASED_EBUSY);
}

static void changes_behind_the_snapshot_come_after_it(void **state)
{
	struct world *w = *state;

	start(w, &w->a, "", false);
	settled(w);
	change(w, CHANGE_RELEASED, "b", 2);
	change(w, CHANGE_RELEASED, "f", 6);
	page(w, "", "a1 b2 c1-", true);
	change(w, CHANGE_GRANTED, "b", 4);
	change(w, CHANGE_RELEASED, "f", 6);
	page(w, "c0", "f6", false);
	is_told(&w->a, "S h:a:1 h:b:2 h:f:6 R r:b:2 g:b:4 r:f:6 ");
}

static void a_page_ends_between_two_names(void **state)
{
	struct world *w = *state;

	start(w, &w->a, "", false);
	settled(w);
	page(w, "", "a1 b2 b3", true);
	is_told(&w->a, "S h:a:1 ");
	change(w, CHANGE_EXPIRED, "a", 1);
	change(w, CHANGE_EXPIRED, "b", 2); /* the next page does not show it */
	change(w, CHANGE_GRANTED, "b", 4);
	page(w, "b0", "b3 b4 c5", false);
	is_told(&w->a, "h:b:3 h:b:4 h:c:5 R x:a:1 ");
}

static void a_name_that_fills_its_page_is_told_in_parts(void **state)
{
	struct world *w = *state;

	start(w, &w->a, "", false);
	settled(w);
	page(w, "", "a1 a2", true);
	is_told(&w->a, "S ");
	page(w, "a0", "a1 a2-", true);
	is_told(&w->a, "h:a:1 ");
	change(w, CHANGE_EXPIRED, "a", 1); /* listed */
	change(w, CHANGE_EXPIRED, "a", 4); /* not yet, and the page under way may show it */
	page(w, "a2", "a4 a5-", true);
	change(w, CHANGE_GRANTED, "a", 5); /* it was over when that page was asked for */
	change(w, CHANGE_RELEASED, "a", 5);
	change(w, CHANGE_GRANTED, "a", 6);
	change(w, CHANGE_GRANTED, "b", 7);
	page(w, "a5", "a6 b7", false);
	is_told(&w->a, "h:a:4 h:a:6 h:b:7 R x:a:1 x:a:4 ");
}

static void what_a_later_page_of_a_name_shows_is_not_told_again(void **state)
{
	struct world *w = *state;

	start(w, &w->a, "", false);
	settled(w);
	page(w, "", "a1 a2-", true);
	w->a.full = true;
	page(w, "a0", "a1 a2-", true);
	change(w, CHANGE_GRANTED, "a", 6); /* the next page is asked for only when there is room */
	change(w, CHANGE_RELEASED, "a", 6);
	w->a.full = false;
	watch_resume(w->a.watch);
	page(w, "a2", "b7", false);
	is_told(&w->a, "S h:a:1 h:b:7 R ");
}

static void a_page_of_free_leases_goes_on_behind_them(void **state)
{
	struct world *w = *state;

	start(w, &w->a, "", false);
	settled(w);
	page(w, "", "a1- b2-", true);
	is_told(&w->a, "S ");
	page(w, "b0", "b2-", true);
	page(w, "b2", "", false);
	is_told(&w->a, "R ");
}

static void a_failed_page_ends_the_watch(void **state)
{
	struct world *w = *state;

	start(w, &w->a, "", false);
	settled(w);
	fake_store_fail(w->rig->store, asked(w, VERB_HELD), LEASED_EUNAVAILABLE);
	is_told(&w->a, "END ");
	assert_int_equal(w->a.ended, LEASED_EUNAVAILABLE);
}

static void a_page_from_before_a_gap_counts_no_more(void **state)
{
	struct world *w = *state;
	struct request *old;

	start(w, &w->a, "", false);
	settled(w);
	old = asked(w, VERB_HELD);
	w->notices.proved = false;
	watches_set_listening(w->all, false);
	w->notices.proved = true;
	watches_set_listening(w->all, true);
	fake_store_hit(w->rig->store, old);
	is_told(&w->a, "");
	settled(w);
	page(w, "", "a1", false);
	is_told(&w->a, "S h:a:1 R ");
}

static void a_slow_reader_holds_its_snapshot_up(void **state)
{
	struct world *w = *state;

	start(w, &w->a, "", false);
	w->a.full = true;
	settled(w);
	page(w, "", "a1 b2 c3-", true);
	change(w, CHANGE_RELEASED, "a", 1);
	is_told(&w->a, "S ");
	watch_resume(w->a.watch);
	is_told(&w->a, "h:a:1 ");
	w->a.full = false;
	watch_resume(w->a.watch);
	page(w, "c0", "", false);
	is_told(&w->a, "h:b:2 R r:a:1 ");
}

int main(void)
{
#define TEST(claim) cmocka_unit_test_setup_teardown(claim, watches_setup, watches_teardown)
	const struct CMUnitTest tests[] = {
		TEST(it_waits_for_those_who_did_not_know),
		TEST(changes_that_cross_the_pages),
		TEST(changes_behind_the_snapshot_come_after_it),
		TEST(a_page_ends_between_two_names),
		TEST(a_name_that_fills_its_page_is_told_in_parts),
		TEST(what_a_later_page_of_a_name_shows_is_not_told_again),
		TEST(a_page_of_free_leases_goes_on_behind_them),
		TEST(a_failed_page_ends_the_watch),
		TEST(a_page_from_before_a_gap_counts_no_more),
		TEST(a_slow_reader_holds_its_snapshot_up),
	};
#undef TEST

	if (sodium_init() < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
