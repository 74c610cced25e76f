/* libleased with two daemons: what one cannot do is asked of the other. */
#include "client_rig.h"

#include <string.h>


/* The same acquire comes to the other daemon. */
static Leased__ClientMessage *moved_to_other(struct world *w, uint64_t nonce)
{
	Leased__ClientMessage *m;

	peer_accept(&w->other);
	m = peer_expect(&w->other, KIND(ACQUIRE));
	assert_true(m->acquire->holder->nonce == nonce);
	return m;
}

static void what_one_daemon_refuses(struct world *w, int64_t wait_ms, int status)
{
	Leased__ClientMessage *m;
	struct acquiring c;
	uint64_t nonce;

	rig_acquire(w, &c, "x", 60000, wait_ms);
	m = peer_expect(&w->peer, KIND(ACQUIRE));
	nonce = m->acquire->holder->nonce;
	peer_fail(&w->peer, m->id, status, "not now");
	m = moved_to_other(w, nonce);
	peer_grant(&w->other, m->id, 9, 60000);
	rig_finish(&c, 0);
	assert_int_equal(leased_token(c.lease), 9);
}

static void what_is_unavailable_here_is_asked_there(void **state)
{
	what_one_daemon_refuses(*state, 0, LEASED_EUNAVAILABLE);
}

static void a_busy_daemon_is_left_for_the_next(void **state)
{
	what_one_daemon_refuses(*state, 60000, LEASED_EBUSY);
}

static void each_daemon_is_asked_once(void **state)
{
	struct world *w = *state;
	Leased__ClientMessage *m;
	struct acquiring c;
	uint64_t nonce;

	rig_acquire(w, &c, "x", 60000, 0);
	m = peer_expect(&w->peer, KIND(ACQUIRE));
	nonce = m->acquire->holder->nonce;
	peer_fail(&w->peer, m->id, LEASED_EUNAVAILABLE, "no database here");
	m = moved_to_other(w, nonce);
	peer_fail(&w->other, m->id, LEASED_EUNAVAILABLE, "none there either");
	rig_finish(&c, LEASED_EUNAVAILABLE);
	assert_non_null(strstr(c.err.text, "none there either"));
	peer_quiet(&w->other, 100); /* the client stays where it is */
}

static void what_is_wrong_everywhere_is_not_asked_again(void **state)
{
	struct world *w = *state;
	Leased__ClientMessage *m;
	struct acquiring c;

	rig_acquire(w, &c, "x", 60000, 0);
	m = peer_expect(&w->peer, KIND(ACQUIRE));
	peer_fail(&w->peer, m->id, LEASED_EHELD, "somebody holds it");
	rig_finish(&c, LEASED_EHELD);
	peer_quiet(&w->peer, 100);
}

static void a_slow_daemon_is_left_for_the_next_in_time(void **state)
{
	struct world *w = *state;
	Leased__ClientMessage *m;
	struct acquiring c;
	uint64_t nonce;

	rig_acquire(w, &c, "x", 60000, 0);
	nonce = peer_expect(&w->peer, KIND(ACQUIRE))->acquire->holder->nonce;
	peer_stall(&w->peer);
	m = moved_to_other(w, nonce);
	peer_quiet(&w->other, 700); /* as slow: but there is nobody else to ask */
	peer_grant(&w->other, m->id, 9, 60000);
	rig_finish(&c, 0);
}

static void a_release_goes_to_the_next_when_its_daemon_is_slow(void **state)
{
	struct world *w = *state;
	Leased__ClientMessage *m;
	struct releasing r;

	rig_release(&r, rig_granted(w, "x", 60000));
	peer_expect(&w->peer, KIND(RELEASE));
	peer_stall(&w->peer);
	peer_accept(&w->other);
	m = peer_expect(&w->other, KIND(RELEASE));
	assert_true(m->release->retry);
	peer_released(&w->other, m->id);
	rig_released(&r, 0);
}

static void who_waits_for_a_lease_stays(void **state)
{
	struct world *w = *state;
	Leased__ClientMessage *m;
	struct acquiring c;

	rig_acquire(w, &c, "x", 60000, 60000);
	m = peer_expect(&w->peer, KIND(ACQUIRE));
	peer_quiet(&w->peer, 700);
	peer_grant(&w->peer, m->id, 9, 60000);
	rig_finish(&c, 0);
}

static void a_daemon_without_database_is_passed_by(void **state)
{
	struct world *w = *state;
	Leased__ClientMessage *m;
	struct acquiring c;

	w->other.no_database = true;
	peer_cut(&w->peer);
	peer_accept(&w->other);
	peer_accept(&w->peer);
	w->peer.no_database = true; /* then nobody has one: any will do */
	peer_cut(&w->peer);
	peer_accept(&w->other);
	peer_accept(&w->peer);
	rig_acquire(w, &c, "x", 60000, 0);
	m = peer_expect(&w->peer, KIND(ACQUIRE));
	peer_grant(&w->peer, m->id, 9, 60000);
	rig_finish(&c, 0);
}

static void a_daemon_that_loses_its_database_loses_those_who_wait(void **state)
{
	struct world *w = *state;
	Leased__ClientMessage *m;
	struct acquiring c;
	uint64_t nonce;

	rig_acquire(w, &c, "x", 60000, 60000);
	nonce = peer_expect(&w->peer, KIND(ACQUIRE))->acquire->holder->nonce;
	w->peer.no_database = true;
	peer_end(&w->peer);
	m = moved_to_other(w, nonce);
	peer_grant(&w->other, m->id, 9, 60000);
	rig_finish(&c, 0);
}

static void a_call_that_is_not_answered_says_by_whom(void **state)
{
	struct world *w = *state;
	struct acquiring c;

	rig_acquire(w, &c, "x", 60000, 0);
	rig_finish(&c, LEASED_EUNAVAILABLE);
	assert_non_null(strstr(c.err.text, w->peer.address));
}

/* A daemon that is left gives back what hangs on the connection; the other call can fail. */
static void a_lease_that_ends_with_its_connection_keeps_the_client(void **state)
{
	struct world *w = *state;
	struct leased_acquire_options options = { .ttl_ms = 60000, .release_on_disconnect = true };
	Leased__ClientMessage *m;
	struct acquiring c;

	rig_acquire_with(w, &c, "x", &options);
	m = peer_expect(&w->peer, KIND(ACQUIRE));
	peer_grant(&w->peer, m->id, 9, 60000);
	rig_finish(&c, 0);
	rig_acquire(w, &c, "y", 60000, 0);
	m = peer_expect(&w->peer, KIND(ACQUIRE));
	peer_fail(&w->peer, m->id, LEASED_EBUSY, "too much");
	rig_finish(&c, LEASED_EBUSY);
	peer_quiet(&w->peer, 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(fixture, function) cmocka_unit_test_setup_teardown(function, fixture, rig_teardown)
		TEST(rig_setup_pair, what_is_unavailable_here_is_asked_there),
		TEST(rig_setup_pair, a_busy_daemon_is_left_for_the_next),
		TEST(rig_setup_pair, each_daemon_is_asked_once),
		TEST(rig_setup_pair, what_is_wrong_everywhere_is_not_asked_again),
		TEST(rig_setup_pair_impatient, a_slow_daemon_is_left_for_the_next_in_time),
		TEST(rig_setup_pair_impatient, a_release_goes_to_the_next_when_its_daemon_is_slow),
		TEST(rig_setup_pair_impatient, who_waits_for_a_lease_stays),
		TEST(rig_setup_pair, a_daemon_without_database_is_passed_by),
		TEST(rig_setup_pair, a_lease_that_ends_with_its_connection_keeps_the_client),
		TEST(rig_setup_pair_impatient, a_daemon_that_loses_its_database_loses_those_who_wait),
		TEST(rig_setup_impatient, a_call_that_is_not_answered_says_by_whom),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
