/* libleased: watches over connections that break, daemons that refuse, and users that end them anywhere. */
#include "client_rig.h"

#include <stdio.h>
#include <string.h>

#define EVENT(name) LEASED__CHANGE__EVENT__##name

/* What a watch has told: "S h:x:7=v R " ... */
struct told {
	pthread_mutex_t lock;
	char text[2000];
	_Atomic int n;
	struct leased_watch *watch;
	_Atomic bool ends_itself, is_slow, is_in;
};

static void on_change(struct leased_watch *watch, const struct leased_change *change, void *data)
{
	struct told *t = data;
	size_t len;

	t->is_in = true;
	pthread_mutex_lock(&t->lock);
	len = strlen(t->text);
	snprintf(t->text + len, sizeof t->text - len, "%c", "ShRgvrxsAE"[change->kind]);
	len++;
	if (change->name)
		len += (size_t)snprintf(t->text + len, sizeof t->text - len, ":%s:%d%s%.*s", change->name,
			(int)change->token, change->value ? "=" : "", (int)change->value_len,
			change->value ? (const char *)change->value : "");
	snprintf(t->text + len, sizeof t->text - len, " ");
	pthread_mutex_unlock(&t->lock);
	if (change->name)
		assert_string_equal(change->holder, "peer:1:0000000000000007");
	if (t->is_slow)
		rig_pause(200);
	if (t->ends_itself)
		leased_unwatch(watch);
	t->is_in = false;
	t->n++;
}

static void is_told(struct told *t, int n, const char *want)
{
	rig_wait_for(&t->n, n);
	pthread_mutex_lock(&t->lock);
	assert_string_equal(t->text, want);
	*t->text = '\0';
	pthread_mutex_unlock(&t->lock);
	t->n = 0;
}

static void watch(struct world *w, struct told *t, const char *prefix, bool exact)
{
	struct leased_watch_options options = { .exact = exact, .on_change = on_change, .data = t };

	memset(t, 0, sizeof *t);
	pthread_mutex_init(&t->lock, NULL);
	assert_int_equal(leased_watch(w->client, prefix, &options, &t->watch, NULL), 0);
}

static uint64_t asked(struct peer *p, const char *prefix, bool exact)
{
	Leased__ClientMessage *m = peer_expect(p, KIND(WATCH));

	assert_int_equal(m->watch->prefix.len, strlen(prefix));
	if (*prefix)
		assert_memory_equal(m->watch->prefix.data, prefix, strlen(prefix));
	assert_int_equal(m->watch->exact, exact);
	return m->id;
}

static void begins(struct peer *p, uint64_t id)
{
	peer_change(p, id, EVENT(SNAPSHOT), NULL, 0, NULL);
	peer_change(p, id, EVENT(HELD), "a", 1, "v");
	peer_change(p, id, EVENT(READY), NULL, 0, NULL);
}

static void ends(struct world *w, struct told *t, uint64_t id)
{
	Leased__ClientMessage *m;

	leased_unwatch(t->watch);
	m = peer_expect(&w->peer, KIND(CANCEL));
	assert_true(m->cancel->request == id);
	peer_change(&w->peer, id, EVENT(GRANTED), "late", 99, NULL);
	peer_fail(&w->peer, id, LEASED_ECANCELLED, "the watch has ended");
	peer_quiet(&w->peer, 50);
	assert_int_equal(t->n, 0);
}

static void every_change_is_told(void **state)
{
	struct world *w = *state;
	struct told t;
	uint64_t id;

	watch(w, &t, "a/", false);
	id = asked(&w->peer, "a/", false);
	begins(&w->peer, id);
	peer_change(&w->peer, id, EVENT(GRANTED), "b", 2, NULL);
	peer_change(&w->peer, id, EVENT(VALUE), "b", 2, "new");
	peer_change(&w->peer, id, EVENT(RELEASED), "b", 2, NULL);
	peer_change(&w->peer, id, EVENT(EXPIRED), "a", 1, NULL);
	peer_change(&w->peer, id, EVENT(STOLEN), "c", 3, NULL);
	is_told(&t, 8, "S h:a:1=v R g:b:2 v:b:2=new r:b:2 x:a:1 s:c:3 ");
	ends(w, &t, id);
}

static void a_lost_connection_is_told_and_asked_over_the_next(void **state)
{
	struct world *w = *state;
	struct told t;

	watch(w, &t, "a", true);
	begins(&w->peer, asked(&w->peer, "a", true));
	is_told(&t, 3, "S h:a:1=v R ");
	peer_cut(&w->peer);
	is_told(&t, 1, "A ");
	peer_accept(&w->peer);
	begins(&w->peer, asked(&w->peer, "a", true));
	is_told(&t, 3, "S h:a:1=v R ");
}

static void what_is_refused_for_now_is_asked_again(void **state)
{
	struct world *w = *state;
	struct told t;
	uint64_t id;

	watch(w, &t, "", false);
	peer_fail(&w->peer, asked(&w->peer, "", false), LEASED_EUNAVAILABLE, "no notifications");
	is_told(&t, 1, "A ");
	peer_fail(&w->peer, asked(&w->peer, "", false), LEASED_EBUSY, "too many"); /* said once */
	id = asked(&w->peer, "", false);
	begins(&w->peer, id);
	peer_fail(&w->peer, id, LEASED_EBUSY, "too slow");
	is_told(&t, 4, "S h:a:1=v R A ");
	asked(&w->peer, "", false);
}

static void what_is_refused_for_good_ends(void **state)
{
	struct world *w = *state;
	struct told t;

	watch(w, &t, "", false);
	peer_fail(&w->peer, asked(&w->peer, "", false), LEASED_EDENIED, "not you");
	is_told(&t, 1, "E ");
	peer_quiet(&w->peer, 1200);
	leased_unwatch(t.watch);
	peer_quiet(&w->peer, 50);
}

static void another_daemon_is_asked_once(void **state)
{
	struct world *w = *state;
	struct told t;

	watch(w, &t, "", false);
	peer_fail(&w->peer, asked(&w->peer, "", false), LEASED_EUNAVAILABLE, "no notifications");
	peer_accept(&w->other);
	peer_fail(&w->other, asked(&w->other, "", false), LEASED_EUNAVAILABLE, "none here either");
	begins(&w->other, asked(&w->other, "", false)); /* the client stays where it is */
	rig_wait_for(&t.n, 4);
}

static void it_may_end_in_its_callback(void **state)
{
	struct world *w = *state;
	Leased__ClientMessage *m;
	struct told t;
	uint64_t id;

	watch(w, &t, "", false);
	t.ends_itself = true;
	id = asked(&w->peer, "", false);
	begins(&w->peer, id);
	m = peer_expect(&w->peer, KIND(CANCEL));
	assert_true(m->cancel->request == id);
	peer_fail(&w->peer, id, LEASED_ECANCELLED, "the watch has ended");
	peer_quiet(&w->peer, 50);
	is_told(&t, 1, "S ");
}

static void unwatch_waits_for_the_callback(void **state)
{
	struct world *w = *state;
	struct told t;

	watch(w, &t, "", false);
	t.is_slow = true;
	begins(&w->peer, asked(&w->peer, "", false));
	while (!t.is_in)
		rig_pause(1);
	leased_unwatch(t.watch);
	assert_false(t.is_in);
	peer_expect(&w->peer, KIND(CANCEL));
	peer_quiet(&w->peer, 300);
	is_told(&t, 1, "S ");
}

static void one_that_ends_with_its_connection_is_not_asked_again(void **state)
{
	struct world *w = *state;
	struct told t;

	watch(w, &t, "", false);
	asked(&w->peer, "", false);
	leased_unwatch(t.watch);
	peer_expect(&w->peer, KIND(CANCEL));
	peer_cut(&w->peer);
	peer_accept(&w->peer);
	peer_quiet(&w->peer, 100);
}

static void one_that_ends_while_away_is_not_asked_again(void **state)
{
	struct world *w = *state;
	struct told t;

	watch(w, &t, "", false);
	asked(&w->peer, "", false);
	peer_away(&w->peer);
	is_told(&t, 1, "A ");
	leased_unwatch(t.watch);
	peer_back(&w->peer);
	peer_accept(&w->peer);
	peer_quiet(&w->peer, 100);
}

static void an_interrupt_does_not_end_it(void **state)
{
	struct world *w = *state;
	struct leased_watch_options options = { .on_change = on_change };
	struct leased_watch *late;
	struct told t;
	uint64_t id;

	watch(w, &t, "", false);
	id = asked(&w->peer, "", false);
	leased_client_interrupt(w->client);
	begins(&w->peer, id);
	is_told(&t, 3, "S h:a:1=v R ");
	assert_int_equal(leased_watch(w->client, "", &options, &late, NULL), LEASED_ECANCELLED);
}

static void bad_prefixes_are_refused(void **state)
{
	struct world *w = *state;
	struct leased_watch_options options = { .on_change = on_change };
	struct leased_watch *none = NULL;
	struct leased_error err;

	assert_int_equal(leased_watch(w->client, "a\tb", &options, &none, &err), LEASED_EDATA);
	assert_non_null(strstr(err.text, "watch \"a"));
	options.exact = true;
	assert_int_equal(leased_watch(w->client, "", &options, &none, &err), LEASED_EDATA);
	assert_null(none);
	leased_unwatch(NULL);
}

static void what_makes_no_sense_is_not_told(void **state)
{
	struct world *w = *state;
	struct told t;
	uint64_t id;

	watch(w, &t, "", false);
	id = asked(&w->peer, "", false);
	peer_change(&w->peer, id, EVENT(GRANTED), NULL, 0, NULL);
	peer_change(&w->peer, id, (Leased__Change__Event)77, "x", 1, NULL);
	peer_change(&w->peer, id + 5, EVENT(GRANTED), "x", 1, NULL);
	peer_change(&w->peer, id, EVENT(READY), NULL, 0, NULL);
	is_told(&t, 1, "R ");
}

int main(void)
{
#define TEST(claim) cmocka_unit_test_setup_teardown(claim, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(every_change_is_told),
		TEST(a_lost_connection_is_told_and_asked_over_the_next),
		TEST(what_is_refused_for_now_is_asked_again),
		TEST(what_is_refused_for_good_ends),
		cmocka_unit_test_setup_teardown(another_daemon_is_asked_once, rig_setup_pair, rig_teardown),
		TEST(it_may_end_in_its_callback),
		TEST(unwatch_waits_for_the_callback),
		TEST(one_that_ends_with_its_connection_is_not_asked_again),
		TEST(one_that_ends_while_away_is_not_asked_again),
		TEST(an_interrupt_does_not_end_it),
		TEST(bad_prefixes_are_refused),
		TEST(what_makes_no_sense_is_not_told),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}
