/* leased_history: pages that are asked for one by one, and two runs that become one order. */
#include "client_rig.h"

#include <string.h>

#define TOLD_MAX 16

struct reading {
	pthread_t thread;
	struct world *world;
	struct leased_history_options options;
	size_t stop_after; /* 0: never */
	uint64_t tokens[TOLD_MAX];
	size_t n;
	struct leased_grant last; /* its texts are gone */
	char name[300], reason[64];
	int64_t keep_ms;
	struct leased_error err;
	int rc;
};

static bool on_grant(const struct leased_grant *grant, void *data)
{
	struct reading *r = data;

	assert_true(r->n < TOLD_MAX);
	r->tokens[r->n++] = grant->token;
	r->last = *grant;
	strncpy(r->name, grant->name, sizeof r->name - 1);
	strncpy(r->reason, grant->reason ? grant->reason : "", sizeof r->reason - 1);
	return r->n != r->stop_after;
}

static void *run(void *arg)
{
	struct reading *r = arg;

	r->rc = leased_history(r->world->client, &r->options, on_grant, r, &r->keep_ms, &r->err);
	return NULL;
}

static void start(struct reading *r, struct world *w, const char *name)
{
	*r = (struct reading){ .world = w, .options.name = name };
	pthread_create(&r->thread, NULL, run, r);
}

static void told(struct reading *r, const uint64_t *tokens, size_t n)
{
	pthread_join(r->thread, NULL);
	assert_int_equal(r->rc, 0);
	assert_int_equal(r->n, n);
	assert_memory_equal(r->tokens, tokens, n * sizeof *tokens);
	assert_int_equal(r->keep_ms, 1000);
}

static Leased__Grant grant_of(uint64_t token, int64_t ended_at_us, bool is_newest)
{
	static Leased__Holder holder = LEASED__HOLDER__INIT;
	Leased__Grant g = LEASED__GRANT__INIT;

	holder.host = (ProtobufCBinaryData){ 1, (uint8_t *)(uintptr_t)"h" };
	g.holder = &holder;
	g.token = token;
	g.ended = LEASED__GRANT__ENDING__EXPIRED;
	g.ended_at_us = ended_at_us;
	g.is_newest = is_newest;
	return g;
}

static void pages_are_asked_for_until_the_last(void **state)
{
	static const uint64_t want[] = { 9, 8 };
	struct world *w = *state;
	Leased__Grant a = grant_of(9, 0, false), b = grant_of(8, 50, false);
	Leased__ClientMessage *m;
	struct reading r;

	a.ended = LEASED__GRANT__ENDING__HELD;
	b.ended = LEASED__GRANT__ENDING__STOLEN;
	b.name = (ProtobufCBinaryData){ 3, (uint8_t *)(uintptr_t)"x/y" };
	b.reason = (ProtobufCBinaryData){ 5, (uint8_t *)(uintptr_t)"hangs" };
	start(&r, w, "x/y");
	m = peer_expect(&w->peer, KIND(HISTORY));
	assert_true(m->history->name.len == 3 && !m->history->failed && m->history->after.len == 0);
	peer_grants(&w->peer, m->id, (Leased__Grant *[]){ &a }, 1, "to b");
	m = peer_expect(&w->peer, KIND(HISTORY));
	assert_memory_equal(m->history->after.data, "to b", 4);
	peer_grants(&w->peer, m->id, NULL, 0, "further"); /* nothing in this one, and yet not the last */
	m = peer_expect(&w->peer, KIND(HISTORY));
	assert_memory_equal(m->history->after.data, "further", 7);
	peer_grants(&w->peer, m->id, (Leased__Grant *[]){ &b }, 1, "");
	told(&r, want, 2);
	assert_true(r.last.ended == LEASED_STOLEN && r.last.ended_at_us == 50 && !r.last.has_exit_status);
	assert_string_equal(r.name, "x/y");
	assert_string_equal(r.reason, "hangs");
}

static void two_runs_become_one_newest_first(void **state)
{
	static const uint64_t want[] = { 3, 12, 1, 11, 10, 2 };
	struct world *w = *state;
	Leased__Grant lapsed[] = { grant_of(1, 500, true), grant_of(2, 100, true), grant_of(3, 900, true) };
	Leased__Grant failed[] = { grant_of(12, 800, false), grant_of(11, 400, false), grant_of(10, 200, false) };
	Leased__ClientMessage *m;
	struct reading r;

	start(&r, w, NULL);
	m = peer_expect(&w->peer, KIND(HISTORY));
	assert_true(m->history->failed);
	peer_grants(&w->peer, m->id, (Leased__Grant *[]){ &lapsed[0], &lapsed[1] }, 2, "1");
	m = peer_expect(&w->peer, KIND(HISTORY));
	peer_grants(&w->peer, m->id, (Leased__Grant *[]){ &lapsed[2] }, 1, "2");
	m = peer_expect(&w->peer, KIND(HISTORY));
	peer_grants(&w->peer, m->id, (Leased__Grant *[]){ &failed[0], &failed[1], &failed[2] }, 3, "");
	told(&r, want, 6);
}

static void a_page_lost_with_its_connection_is_asked_for_again(void **state)
{
	static const uint64_t want[] = { 9, 8 };
	struct world *w = *state;
	Leased__Grant a = grant_of(9, 60, false), b = grant_of(8, 50, false);
	Leased__ClientMessage *m;
	struct reading r;

	start(&r, w, "x");
	m = peer_expect(&w->peer, KIND(HISTORY));
	peer_grants(&w->peer, m->id, (Leased__Grant *[]){ &a }, 1, "to b");
	peer_expect(&w->peer, KIND(HISTORY));
	peer_accept(&w->peer);
	m = peer_expect(&w->peer, KIND(HISTORY));
	assert_memory_equal(m->history->after.data, "to b", 4);
	peer_grants(&w->peer, m->id, (Leased__Grant *[]){ &b }, 1, "");
	told(&r, want, 2);
}

static void who_has_seen_enough_is_asked_no_more(void **state)
{
	static const uint64_t want[] = { 9 };
	struct world *w = *state;
	Leased__Grant a = grant_of(9, 60, false), b = grant_of(8, 50, false);
	Leased__ClientMessage *m;
	struct reading r = { .world = w, .options.name = "x", .stop_after = 1 };

	pthread_create(&r.thread, NULL, run, &r);
	m = peer_expect(&w->peer, KIND(HISTORY));
	peer_grants(&w->peer, m->id, (Leased__Grant *[]){ &a, &b }, 2, "more");
	told(&r, want, 1);
}

static void an_error_in_the_middle_is_told(void **state)
{
	struct world *w = *state;
	Leased__Grant lapsed = grant_of(1, 500, true);
	Leased__ClientMessage *m;
	struct reading r;

	start(&r, w, NULL);
	m = peer_expect(&w->peer, KIND(HISTORY));
	peer_grants(&w->peer, m->id, (Leased__Grant *[]){ &lapsed }, 1, "1");
	m = peer_expect(&w->peer, KIND(HISTORY));
	peer_fail(&w->peer, m->id, LEASED_EUNAVAILABLE, "the database is away");
	pthread_join(r.thread, NULL);
	assert_int_equal(r.rc, LEASED_EUNAVAILABLE);
	assert_string_equal(r.err.text, "history: the database is away");
}

static void what_cannot_be_asked_is_refused(void **state)
{
	struct world *w = *state;
	static const struct leased_history_options bad[] = { { .name = "" }, { .name = "a\nb" },
		{ .prefix = "a\nb" }, { .name = "x", .prefix = "y" }, { .since_ms = -1 },
		{ .since_ms = INT64_MAX } };

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_true(leased_history(w->client, &bad[i], on_grant, NULL, NULL, NULL) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(function) cmocka_unit_test_setup_teardown(function, rig_setup, rig_teardown)
		TEST(pages_are_asked_for_until_the_last),
		TEST(two_runs_become_one_newest_first),
		TEST(a_page_lost_with_its_connection_is_asked_for_again),
		TEST(who_has_seen_enough_is_asked_no_more),
		TEST(an_error_in_the_middle_is_told),
		TEST(what_cannot_be_asked_is_refused),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
