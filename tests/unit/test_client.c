/* libleased against a daemon by script: what it believes, and what it sends again. */
#include "client_rig.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void an_acquire_whose_answer_was_lost_is_asked_again_with_the_same_nonce(void **state)
{
	struct world *w = *state;
	Leased__ClientMessage *m;
	struct acquiring c;
	uint64_t nonce;

	rig_acquire(w, &c, "x", 60000, 0);
	m = peer_expect(&w->peer, KIND(ACQUIRE));
	nonce = m->acquire->holder->nonce;
	peer_accept(&w->peer); /* cuts the connection first */
	m = peer_expect(&w->peer, KIND(ACQUIRE));
	assert_true(m->acquire->holder->nonce == nonce);
	peer_grant(&w->peer, m->id, 9, 60000);
	rig_finish(&c, 0);
	assert_true(leased_held(c.lease));
	assert_int_equal(leased_token(c.lease), 9);
}

static void two_acquisitions_have_different_nonces(void **state)
{
	struct world *w = *state;
	struct leased_lease *a = rig_granted(w, "x", 60000), *b = rig_granted(w, "y", 60000);

	assert_string_not_equal(leased_holder(a), leased_holder(b));
}

static void the_deadline_counts_from_before_the_send(void **state)
{
	struct world *w = *state;
	Leased__ClientMessage *m;
	struct acquiring c;

	rig_acquire(w, &c, "x", 60000, 0);
	m = peer_expect(&w->peer, KIND(ACQUIRE));
	rig_pause(300);
	peer_grant(&w->peer, m->id, 7, 60000);
	rig_finish(&c, 0);
	assert_true(leased_remaining_ms(c.lease) <= 60000 - 300 - 50);
}

static void time_left_only_shortens(void **state)
{
	struct world *w = *state;
	Leased__ClientMessage *m;
	struct acquiring c;

	rig_acquire(w, &c, "x", 60000, 0);
	m = peer_expect(&w->peer, KIND(ACQUIRE));
	peer_grant(&w->peer, m->id, 7, 99000000);
	rig_finish(&c, 0);
	assert_true(leased_remaining_ms(c.lease) <= 60000);
	rig_acquire(w, &c, "y", 60000, 0);
	m = peer_expect(&w->peer, KIND(ACQUIRE));
	peer_grant(&w->peer, m->id, 7, 40000);
	rig_finish(&c, 0);
	assert_true(leased_remaining_ms(c.lease) <= 40000);
}

static void a_grant_after_a_long_wait_is_confirmed_before_it_counts(void **state)
{
	struct world *w = *state;
	Leased__ClientMessage *m;
	struct acquiring c;

	rig_acquire(w, &c, "x", 1000, 60000);
	m = peer_expect(&w->peer, KIND(ACQUIRE));
	assert_true(m->acquire->wait_ms > 59000 && m->acquire->wait_ms <= 60000);
	rig_pause(1100);
	peer_grant(&w->peer, m->id, 7, 1000);
	m = peer_expect(&w->peer, KIND(RENEW));
	assert_int_equal(m->renew->renewals[0]->claim->token, 7);
	peer_renewed(&w->peer, m->id, 1, LEASED_OK, 1000);
	rig_finish(&c, 0);
	assert_true(leased_held(c.lease));
}

static void a_lost_answer_to_a_renewal_is_a_loss_only_when_the_daemon_says_so(void **state)
{
	struct world *w = *state;
	struct leased_lease *lease = rig_granted(w, "x", 1500);
	Leased__ClientMessage *m = peer_expect(&w->peer, KIND(RENEW));

	peer_renewed(&w->peer, m->id, 1, LEASED_EUNAVAILABLE, 0);
	m = peer_expect(&w->peer, KIND(RENEW));
	peer_fail(&w->peer, m->id, LEASED_EBUSY, "too much");
	m = peer_expect(&w->peer, KIND(RENEW));
	assert_true(leased_held(lease));
	peer_renewed(&w->peer, m->id, 1, LEASED_OK, 1500);
	rig_wait_for(&w->renewed, 1);
	assert_int_equal(atomic_load(&w->lost), 0);
	m = peer_expect(&w->peer, KIND(RENEW));
	peer_renewed(&w->peer, m->id, 1, LEASED_ELOST, 0);
	rig_wait_for(&w->lost, 1);
	assert_false(leased_held(lease));
}

static void renewals_that_are_never_answered_end_at_the_deadline(void **state)
{
	struct world *w = *state;
	struct leased_lease *lease = rig_granted(w, "x", 600);
	struct leased_error err;

	rig_wait_for(&w->lost, 1);
	assert_false(leased_held(lease));
	assert_int_equal(leased_remaining_ms(lease), 0);
	assert_int_equal(leased_renew(lease, 0, &err), LEASED_ELOST);
	assert_int_equal(leased_release(lease, NULL, &err), LEASED_ENOTHELD);
}

static void renewals_go_on_over_the_next_connection(void **state)
{
	struct world *w = *state;
	struct leased_lease *lease = rig_granted(w, "x", 3000);
	Leased__ClientMessage *m = peer_expect(&w->peer, KIND(RENEW));

	(void)m;
	peer_accept(&w->peer);
	m = peer_expect(&w->peer, KIND(RENEW));
	peer_renewed(&w->peer, m->id, 1, LEASED_OK, 3000);
	rig_wait_for(&w->renewed, 1);
	assert_true(leased_held(lease));
}

static void leases_that_are_due_together_travel_together(void **state)
{
	struct world *w = *state;
	Leased__ClientMessage *m;
	size_t renewed = 0, most = 0;

	for (int i = 0; i < 200; i++) {
		char name[16];

		snprintf(name, sizeof name, "n%d", i);
		rig_granted(w, name, 6000);
	}
	while (renewed < 200) {
		m = peer_expect(&w->peer, KIND(RENEW));
		renewed += m->renew->n_renewals;
		most = m->renew->n_renewals > most ? m->renew->n_renewals : most;
		peer_renewed(&w->peer, m->id, m->renew->n_renewals, LEASED_OK, 6000);
	}
	assert_true(most > 1);
	rig_wait_for(&w->renewed, 200);
}

static void a_released_lease_stays_released_whatever_comes_back(void **state)
{
	struct world *w = *state;
	struct releasing r;
	struct leased_lease *lease = rig_granted(w, "x", 3000);
	Leased__ClientMessage *m = peer_expect(&w->peer, KIND(RENEW));
	uint64_t renewal = m->id;

	rig_release(&r, lease);
	m = peer_expect(&w->peer, KIND(RELEASE));
	assert_int_equal(m->release->exit_status, 5);
	assert_false(m->release->retry);
	assert_false(leased_held(lease));
	peer_released(&w->peer, m->id);
	peer_renewed(&w->peer, renewal, 1, LEASED_OK, 3000);
	rig_released(&r, 0);
	assert_false(leased_held(lease));
	peer_quiet(&w->peer, 1500); /* longer than a third of the ttl: no renewal comes any more */
	assert_int_equal(atomic_load(&w->renewed), 0);
	assert_int_equal(atomic_load(&w->lost), 0);
}

static void a_release_whose_answer_was_lost_says_that_it_is_a_retry(void **state)
{
	struct world *w = *state;
	struct releasing r;
	Leased__ClientMessage *m;

	rig_release(&r, rig_granted(w, "x", 60000));
	peer_expect(&w->peer, KIND(RELEASE));
	peer_accept(&w->peer);
	m = peer_expect(&w->peer, KIND(RELEASE));
	assert_true(m->release->retry);
	peer_released(&w->peer, m->id);
	rig_released(&r, 0);
}

static void an_interrupt_leaves_the_queue(void **state)
{
	struct world *w = *state;
	Leased__ClientMessage *m;
	struct acquiring c;
	uint64_t id;

	rig_acquire(w, &c, "x", 60000, 600000);
	id = peer_expect(&w->peer, KIND(ACQUIRE))->id;
	leased_client_interrupt(w->client);
	m = peer_expect(&w->peer, KIND(CANCEL));
	assert_true(m->cancel->request == id);
	peer_fail(&w->peer, id, LEASED_ECANCELLED, "cancelled");
	rig_finish(&c, LEASED_ECANCELLED);
}

static void a_grant_that_crosses_an_interrupt_is_released(void **state)
{
	struct world *w = *state;
	Leased__ClientMessage *m;
	struct acquiring c;
	uint64_t id;

	rig_acquire(w, &c, "x", 60000, 600000);
	id = peer_expect(&w->peer, KIND(ACQUIRE))->id;
	leased_client_interrupt(w->client);
	peer_expect(&w->peer, KIND(CANCEL));
	peer_grant(&w->peer, id, 7, 60000);
	m = peer_expect(&w->peer, KIND(RELEASE));
	assert_int_equal(m->release->claim->token, 7);
	peer_released(&w->peer, m->id);
	rig_finish(&c, LEASED_ECANCELLED);
}

static void a_waiter_queues_again_over_the_next_connection_for_the_rest_of_its_wait(void **state)
{
	struct world *w = *state;
	Leased__ClientMessage *m;
	struct acquiring c;

	rig_acquire(w, &c, "x", 60000, 10000);
	peer_expect(&w->peer, KIND(ACQUIRE));
	rig_pause(300);
	peer_accept(&w->peer);
	m = peer_expect(&w->peer, KIND(ACQUIRE));
	assert_true(m->acquire->wait_ms > 0 && m->acquire->wait_ms <= 9700);
	peer_fail(&w->peer, m->id, LEASED_ETIMEDOUT, "the wait ran out");
	rig_finish(&c, LEASED_ETIMEDOUT);
}

static void bad_arguments_are_refused_without_a_round_trip(void **state)
{
	struct world *w = *state;
	struct leased_acquire_options bad_ttl = { .ttl_ms = -1 };
	struct leased_acquire_options bad_value = { .value = "\0", .value_len = 1 };
	struct leased_lease *lease = NULL;
	struct leased_error err;

	assert_int_equal(leased_acquire(w->client, "", NULL, &lease, &err), LEASED_EDATA);
	assert_int_equal(leased_acquire(w->client, "a\nb", NULL, &lease, &err), LEASED_EDATA);
	assert_int_equal(leased_acquire(w->client, "x", &bad_ttl, &lease, &err), LEASED_EUSAGE);
	assert_int_equal(leased_acquire(w->client, "x", &bad_value, &lease, &err), LEASED_EDATA);
	assert_null(lease);
	peer_quiet(&w->peer, 100);
}

static void a_child_of_fork_holds_nothing(void **state)
{
	struct world *w = *state;
	struct leased_lease *lease = rig_granted(w, "x", 60000);
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct leased_lease *other;
		bool ok = !leased_held(lease) && leased_remaining_ms(lease) == 0 &&
			  leased_deadline_ns(lease) == 0 &&
			  leased_renew(lease, 0, NULL) == LEASED_ENOTHELD &&
			  leased_release(lease, NULL, NULL) == LEASED_ENOTHELD &&
			  leased_acquire(w->client, "y", NULL, &other, NULL) == LEASED_ENOTHELD;

		leased_client_close(w->client);
		_exit(ok ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_true(leased_held(lease));
	peer_quiet(&w->peer, 100); /* the child has not touched the connection */
}

static void a_lease_that_is_freed_while_renewing_is_gone(void **state)
{
	struct world *w = *state;
	struct leased_lease *lease = rig_granted(w, "x", 900);
	Leased__ClientMessage *m = peer_expect(&w->peer, KIND(RENEW));

	leased_lease_free(lease);
	peer_renewed(&w->peer, m->id, 1, LEASED_OK, 900);
	peer_quiet(&w->peer, 600);
	assert_int_equal(atomic_load(&w->renewed), 0);
}

static void a_silent_daemon_is_left_for_the_next(void **state)
{
	struct world *w = *state;
	struct leased_lease *lease = rig_granted(w, "x", 3000);
	Leased__ClientMessage *m;

	/* Nothing is read or answered any more, pings neither: the client comes back by itself. */
	peer_await(&w->peer);
	peer_accept(&w->peer);
	m = peer_expect(&w->peer, KIND(RENEW));
	peer_renewed(&w->peer, m->id, 1, LEASED_OK, 3000);
	rig_wait_for(&w->renewed, 1);
	assert_true(leased_held(lease));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(function) cmocka_unit_test_setup_teardown(function, rig_setup, rig_teardown)
		TEST(an_acquire_whose_answer_was_lost_is_asked_again_with_the_same_nonce),
		TEST(two_acquisitions_have_different_nonces),
		TEST(the_deadline_counts_from_before_the_send),
		TEST(time_left_only_shortens),
		TEST(a_grant_after_a_long_wait_is_confirmed_before_it_counts),
		TEST(a_lost_answer_to_a_renewal_is_a_loss_only_when_the_daemon_says_so),
		TEST(renewals_that_are_never_answered_end_at_the_deadline),
		TEST(renewals_go_on_over_the_next_connection),
		TEST(leases_that_are_due_together_travel_together),
		TEST(a_released_lease_stays_released_whatever_comes_back),
		TEST(a_release_whose_answer_was_lost_says_that_it_is_a_retry),
		TEST(an_interrupt_leaves_the_queue),
		TEST(a_grant_that_crosses_an_interrupt_is_released),
		TEST(a_waiter_queues_again_over_the_next_connection_for_the_rest_of_its_wait),
		TEST(bad_arguments_are_refused_without_a_round_trip),
		TEST(a_child_of_fork_holds_nothing),
		TEST(a_lease_that_is_freed_while_renewing_is_gone),
		TEST(a_silent_daemon_is_left_for_the_next),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
