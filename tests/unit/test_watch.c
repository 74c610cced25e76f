/* What a watch is told, over a store by script: beginnings, changes that cross them, ends nobody tells of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "engine_rig.h"
#include "watch.h"

static struct config config = { .request_timeout_ms = 10000, .max_watches = 3, .max_watched = 4 };

/* A watch and what it was told: "S h:a:1 R g:b:2 " ... */
struct told {
	struct watch *watch;
	char text[8192];
	bool full;              /* takes no more than what it must */
	bool stops_itself;      /* at the next change */
	struct told *stops;     /* at the next change */
	int ended;              /* status */
};

struct world {
	struct rig *rig;
	struct notices notices;
	struct watches *all;
	struct told a, b;
};

static void note(struct told *t, const char *format, ...)
{
	size_t len = strlen(t->text);
	va_list args;

	va_start(args, format);
	vsnprintf(t->text + len, sizeof t->text - len, format, args);
	va_end(args);
}

static bool on_change(void *owner, const struct change *change)
{
	struct told *t = owner;

	if (change->kind == CHANGE_SNAPSHOT || change->kind == CHANGE_READY)
		note(t, "%c ", change->kind == CHANGE_READY ? 'R' : 'S');
	else
		note(t, "%c:%.*s:%llu ", "?h?gvrxs"[change->kind], (int)change->claim.name.len, change->claim.name.data,
			(unsigned long long)change->claim.token);
	if (t->stops_itself)
		watch_stop(t->watch);
	if (t->stops)
		watch_stop(t->stops->watch);
	return !t->full;
}

static void on_end(void *owner, const struct leased_error *why)
{
	struct told *t = owner;

	t->watch = NULL;
	t->ended = why->status;
	note(t, "END ");
}

static const struct watch_events events = { .on_change = on_change, .on_end = on_end };

static void is_told(struct told *t, const char *want)
{
	assert_string_equal(t->text, want);
	*t->text = '\0';
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof *w);

	rig_setup((void **)&w->rig);
	w->notices.proved = true;
	snprintf(w->notices.why, sizeof w->notices.why, "a pool");
	assert_int_equal(watches_new(&w->all, &w->rig->loop, &config, w->rig->engine, &w->notices), 0);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;
	struct told *both[] = { &w->a, &w->b };

	for (size_t i = 0; i < 2; i++)
		if (both[i]->watch && !both[i]->stops_itself)
			watch_stop(both[i]->watch);
	watches_close(w->all);
	rig_teardown((void **)&w->rig);
	free(w);
	return 0;
}

static void start(struct world *w, struct told *t, const char *prefix, bool exact)
{
	struct leased_error err;

	assert_int_equal(watch_start(w->all, text_of(prefix), exact, &events, t, &t->watch, &err), 0);
}

/* A beat that comes in between, since a second has passed, brings nothing new. */
static struct request *asked(struct world *w, enum verb verb)
{
	struct request *req = next_in_time(w->rig);

	while (req->verb == VERB_BEAT && verb != VERB_BEAT) {
		req->told = true;
		fake_store_hit(w->rig->store, req);
		req = next_in_time(w->rig);
	}
	assert_int_equal(req->verb, verb);
	return req;
}

static void beat(struct world *w, bool told)
{
	struct request *req = asked(w, VERB_BEAT);

	assert_true(req->watching);
	req->told = told;
	fake_store_hit(w->rig->store, req);
}

static void changing(struct world *w, const char *since, const char *others)
{
	struct request *req = asked(w, VERB_CHANGING);

	assert_int_equal(req->prefix.len, strlen(since));
	assert_memory_equal(req->prefix.data, since, strlen(since));
	req->others = strdup(others);
	req->claim.pid = 1;
	fake_store_hit(w->rig->store, req);
}

/* The watches are sure of what they are told, and the first asks for its page. */
static void settled(struct world *w)
{
	beat(w, false);
	changing(w, "", "");
}

/* "a1 b2- c3": names of a letter, tokens of a digit; a minus: not held (any more). */
static void page(struct world *w, const char *after, const char *rows, bool more)
{
	struct request *req = asked(w, VERB_HELD);

	assert_int_equal(req->after.len, strlen(after));
	assert_memory_equal(req->after.data, after, strlen(after));
	req->listing = calloc(10, sizeof *req->listing);
	for (; *rows; rows += strcspn(rows, " "), rows += *rows == ' ') {
		struct lease_view *view = calloc(1, sizeof *view);

		view->claim = claim_of("", 1);
		view->claim.name = (struct text){ rows, 1 };
		view->claim.token = (uint64_t)(rows[1] - '0');
		view->released = rows[2] == '-';
		view->expires_in_ms = 60000;
		view->value_changes = 1;
		req->listing[req->n_listed++] = view;
	}
	req->more = more;
	fake_store_hit(w->rig->store, req);
}

static void change_for(struct world *w, enum change_kind kind, const char *name, uint64_t token, int64_t ms)
{
	struct change change = { .kind = kind, .claim = claim_of(name, 1), .expires_in_ms = ms,
		.value_changes = kind == CHANGE_VALUE ? ms : 0 };

	change.claim.token = token;
	watches_take(w->all, &change);
}

static void change(struct world *w, enum change_kind kind, const char *name, uint64_t token)
{
	change_for(w, kind, name, token, 60000);
}

/* A watch that follows all, with these leases held. */
static void follows(struct world *w, const char *rows)
{
	start(w, &w->a, "", false);
	settled(w);
	page(w, "", rows, false);
	*w->a.text = '\0';
}

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

static void a_grant_over_a_known_one_tells_its_expiry(void **state)
{
	struct world *w = *state;

	follows(w, "a5");
	change(w, CHANGE_GRANTED, "a", 8);
	is_told(&w->a, "x:a:5 g:a:8 ");
}

static void changes_that_cross_the_pages(void **state)
{
	struct world *w = *state;

	start(w, &w->a, "", false);
	settled(w);
	change(w, CHANGE_RELEASED, "b", 2);  /* the first page may show it held, or not */
	change(w, CHANGE_GRANTED, "e", 5);   /* a later page shows it */
	page(w, "", "a1 b2 c3", true);
	change(w, CHANGE_GRANTED, "c", 4);   /* listed: behind the snapshot */
	change(w, CHANGE_GRANTED, "d", 7);   /* the second page may show it */
	change(w, CHANGE_RELEASED, "f", 6);
	is_told(&w->a, "S h:a:1 h:b:2 h:c:3 ");
	page(w, "c", "d7 e5 f6", false);
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
	page(w, "", "a1 b2", true);
	change(w, CHANGE_GRANTED, "b", 4);
	change(w, CHANGE_RELEASED, "f", 6);
	page(w, "b", "f6", false);
	is_told(&w->a, "S h:a:1 h:b:2 h:f:6 R r:b:2 g:b:4 r:f:6 ");
}

static void a_page_of_free_leases_goes_on_behind_them(void **state)
{
	struct world *w = *state;

	start(w, &w->a, "", false);
	settled(w);
	page(w, "", "a1- b2-", true);
	is_told(&w->a, "S ");
	page(w, "b", "", false);
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

static void a_slow_reader_is_waited_for_and_then_left(void **state)
{
	static char value[4096];
	struct world *w = *state;
	struct change big = { .kind = CHANGE_GRANTED, .claim = claim_of("a", 1), .value = { value, sizeof value },
		.has_value = true, .expires_in_ms = 60000 };

	follows(w, "");
	w->a.full = true;
	for (big.claim.token = 1; big.claim.token < 4; big.claim.token++)
		watches_take(w->all, &big);
	is_told(&w->a, "g:a:1 ");
	w->a.full = false;
	watch_resume(w->a.watch);
	is_told(&w->a, "x:a:1 g:a:2 x:a:2 g:a:3 ");
	w->a.full = true;
	for (; w->a.watch && big.claim.token < 1000; big.claim.token++)
		watches_take(w->all, &big);
	is_told(&w->a, "x:a:3 g:a:4 END ");
	assert_int_equal(w->a.ended, LEASED_EBUSY);
	assert_in_range(big.claim.token, WATCH_QUEUE_MAX / 4500, WATCH_QUEUE_MAX / 4096 + 5);
}

static void a_slow_reader_holds_its_snapshot_up(void **state)
{
	struct world *w = *state;

	start(w, &w->a, "", false);
	w->a.full = true;
	settled(w);
	page(w, "", "a1 b2", true);
	change(w, CHANGE_RELEASED, "a", 1);
	is_told(&w->a, "S ");
	watch_resume(w->a.watch);
	is_told(&w->a, "h:a:1 ");
	w->a.full = false;
	watch_resume(w->a.watch);
	page(w, "b", "", false);
	is_told(&w->a, "h:b:2 R r:a:1 ");
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
	change(w, CHANGE_GRANTED, "x", 2); /* two things to tell */
	change(w, CHANGE_GRANTED, "x", 3);
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
		assert_int_equal(watch_start(w->all, text_of(""), false, &events, &w->b, &more[n], &err), 0);
		n++;
	}
	assert_int_equal(watch_start(w->all, text_of(""), false, &events, &w->b, &more[3], &err), LEASED_EBUSY);
	while (n > 0)
		watch_stop(more[--n]);
	w->notices.proved = false;
	w->notices.given_up = true;
	assert_int_equal(watch_start(w->all, text_of(""), false, &events, &w->b, &more[3], &err),
		LEASED_EUNAVAILABLE);
	assert_non_null(strstr(err.text, "a pool"));
}

int main(void)
{
#define TEST(claim) cmocka_unit_test_setup_teardown(claim, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(it_waits_for_those_who_did_not_know),
		TEST(what_the_snapshot_shows_is_not_told_again),
		TEST(only_newer_values_are_told),
		TEST(a_grant_over_a_known_one_tells_its_expiry),
		TEST(changes_that_cross_the_pages),
		TEST(changes_behind_the_snapshot_come_after_it),
		TEST(a_page_of_free_leases_goes_on_behind_them),
		TEST(a_failed_page_ends_the_watch),
		TEST(each_is_told_what_it_asked_for),
		TEST(an_expiry_is_told_when_it_is_certain),
		TEST(an_end_that_crosses_the_question_counts_once),
		TEST(a_gap_brings_a_fresh_snapshot),
		TEST(lost_notifications_bring_a_fresh_snapshot),
		TEST(a_page_from_before_a_gap_counts_no_more),
		TEST(a_slow_reader_is_waited_for_and_then_left),
		TEST(a_slow_reader_holds_its_snapshot_up),
		TEST(a_watch_may_end_in_what_it_is_told),
		TEST(what_cannot_be_watched_is_refused),
	};
#undef TEST

	if (sodium_init() < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
