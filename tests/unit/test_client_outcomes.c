/* libleased where answers are late, cross each other or never come: nothing is believed too long. */
#include "client_rig.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "frame.h"
#include "verbs.h"

static void a_resent_acquire_counts_from_before_its_first_sending(void **state)
{
	struct world *w = *state;
	Leased__ClientMessage *m;
	struct acquiring c;

	rig_acquire(w, &c, "x", 60000, 0);
	peer_expect(&w->peer, KIND(ACQUIRE));
	rig_pause(400);
	peer_accept(&w->peer);
	m = peer_expect(&w->peer, KIND(ACQUIRE));
	peer_grant(&w->peer, m->id, 7, 60000);
	rig_finish(&c, 0);
	assert_true(leased_remaining_ms(c.lease) <= 60000 - 400 - 50);
}

static void a_shorter_ttl_counts_before_its_answer(void **state)
{
	struct world *w = *state;
	struct leased_lease *lease = rig_granted(w, "x", 60000);
	Leased__ClientMessage *m;
	struct renewing r;
	uint64_t id;

	rig_renew(&r, lease, 3000);
	m = peer_expect(&w->peer, KIND(RENEW));
	id = m->id;
	assert_int_equal(m->renew->renewals[0]->ttl_ms, 3000);
	assert_true(leased_remaining_ms(lease) <= 3000 - 50);
	peer_expect(&w->peer, KIND(RENEW)); /* one in the background, not answered either */
	peer_quiet(&w->peer, 3000);
	rig_wait_for(&w->lost, 1);
	peer_renewed(&w->peer, id, 1, LEASED_OK, 60000);
	rig_renewed(&r, LEASED_ELOST);
	assert_false(leased_held(lease));
}

static void an_older_answer_does_not_lengthen_a_shorter_ttl(void **state)
{
	struct world *w = *state;
	struct leased_lease *lease = rig_granted(w, "x", 6000);
	Leased__ClientMessage *m = peer_expect(&w->peer, KIND(RENEW));
	uint64_t older = m->id;
	struct renewing r;

	assert_int_equal(m->renew->renewals[0]->ttl_ms, 0); /* keeps what the database goes by */
	rig_renew(&r, lease, 2000);
	m = peer_expect(&w->peer, KIND(RENEW));
	peer_renewed(&w->peer, older, 1, LEASED_OK, 6000);
	rig_wait_for(&w->renewed, 1);
	assert_true(leased_remaining_ms(lease) <= 2000 - 50);
	peer_renewed(&w->peer, m->id, 1, LEASED_OK, 2000);
	rig_renewed(&r, 0);
	assert_true(leased_held(lease));
}

static void a_renewal_by_hand_that_crosses_a_release_does_not_revive(void **state)
{
	struct world *w = *state;
	struct leased_lease *lease = rig_granted(w, "x", 60000);
	struct releasing released;
	struct renewing renewed;
	uint64_t renewal;
	Leased__ClientMessage *m;

	rig_renew(&renewed, lease, 0);
	renewal = peer_expect(&w->peer, KIND(RENEW))->id;
	rig_release(&released, lease);
	m = peer_expect(&w->peer, KIND(RELEASE));
	peer_renewed(&w->peer, renewal, 1, LEASED_OK, 60000);
	rig_renewed(&renewed, LEASED_ELOST);
	assert_false(leased_held(lease));
	peer_released(&w->peer, m->id);
	rig_released(&released, 0);
	assert_false(leased_held(lease));
}

struct seen {
	struct world *world;
	pthread_t thread;
	int release_rc;
};

static void free_when_lost(struct leased_lease *lease, const struct leased_error *why, void *data)
{
	struct seen *seen = data;

	seen->thread = pthread_self();
	seen->release_rc = leased_release(lease, NULL, NULL);
	leased_lease_free(lease);
	if (why->status == LEASED_ELOST)
		seen->world->lost++;
}

static void callbacks_run_on_the_background_thread_and_may_free(void **state)
{
	struct world *w = *state;
	struct seen seen = { .world = w };
	struct leased_acquire_options options = { .ttl_ms = 60000, .on_lost = free_when_lost,
		.data = &seen };
	Leased__ClientMessage *m;
	struct acquiring c;
	struct renewing r;

	rig_acquire_with(w, &c, "x", &options);
	m = peer_expect(&w->peer, KIND(ACQUIRE));
	peer_grant(&w->peer, m->id, 7, 60000);
	rig_finish(&c, 0);
	rig_renew(&r, c.lease, 0);
	m = peer_expect(&w->peer, KIND(RENEW));
	peer_renewed(&w->peer, m->id, 1, LEASED_ENOTHELD, 0);
	rig_renewed(&r, LEASED_ELOST);
	rig_wait_for(&w->lost, 1);
	assert_false(pthread_equal(seen.thread, r.thread));
	assert_int_equal(seen.release_rc, LEASED_EUSAGE);
}

static void a_grant_that_comes_after_the_caller_has_left_is_released(void **state)
{
	struct world *w = *state;
	Leased__ClientMessage *m;
	struct acquiring c;
	uint64_t id;

	rig_acquire(w, &c, "x", 60000, 0);
	id = peer_expect(&w->peer, KIND(ACQUIRE))->id;
	m = peer_expect(&w->peer, KIND(CANCEL));
	assert_true(m->cancel->request == id);
	rig_finish(&c, LEASED_EUNAVAILABLE);
	peer_grant(&w->peer, id, 9, 60000);
	m = peer_expect(&w->peer, KIND(RELEASE));
	assert_int_equal(m->release->claim->token, 9);
	assert_true(m->release->retry);
	peer_fail(&w->peer, m->id, LEASED_EUNAVAILABLE, "no database");
	m = peer_expect(&w->peer, KIND(RELEASE));
	peer_released(&w->peer, m->id);
	peer_quiet(&w->peer, 1200);
}

static void a_grant_of_unknown_outcome_is_looked_for_and_released(void **state)
{
	struct world *w = *state;
	Leased__Holder holder = rig_give_up_while_away(w, "x", &(struct leased_acquire_options){ .ttl_ms = 60000 });
	Leased__ClientMessage *m = peer_expect(&w->peer, KIND(GET));

	assert_int_equal(m->get->name.len, 1);
	peer_lease(&w->peer, m->id, &holder, 11);
	m = peer_expect(&w->peer, KIND(RELEASE));
	assert_int_equal(m->release->claim->token, 11);
	assert_true(m->release->claim->holder->nonce == holder.nonce);
	peer_released(&w->peer, m->id);
}

static void a_lease_of_somebody_else_is_let_alone(void **state)
{
	struct world *w = *state;
	Leased__Holder holder = rig_give_up_while_away(w, "x", &(struct leased_acquire_options){ .ttl_ms = 60000 });
	Leased__ClientMessage *m = peer_expect(&w->peer, KIND(GET));

	peer_lease(&w->peer, m->id, NULL, 0);
	holder.nonce++;
	m = peer_expect(&w->peer, KIND(GET)); /* it may have come late to the database */
	peer_lease(&w->peer, m->id, &holder, 11);
	peer_quiet(&w->peer, 1200);
}

static void an_interrupt_ends_an_acquire_whose_cancel_is_not_answered(void **state)
{
	struct world *w = *state;
	Leased__ClientMessage *m;
	struct acquiring c;
	uint64_t id;

	rig_acquire(w, &c, "x", 60000, 600000);
	id = peer_expect(&w->peer, KIND(ACQUIRE))->id;
	leased_client_interrupt(w->client);
	peer_expect(&w->peer, KIND(CANCEL));
	rig_finish(&c, LEASED_ECANCELLED);
	peer_grant(&w->peer, id, 7, 60000);
	m = peer_expect(&w->peer, KIND(RELEASE));
	peer_released(&w->peer, m->id);
}

static void times_that_cannot_be_used_are_refused(void **state)
{
	struct world *w = *state;
	static const struct leased_options no_margin = { .margin_ms = -1 };
	static const struct leased_options no_timeout = { .timeout_ms = INT64_MAX };
	static const struct leased_acquire_options bad[] = { { .ttl_ms = INT64_MAX }, { .ttl_ms = 99 },
		{ .wait_ms = INT64_MAX }, { .min_hold_ms = INT64_MAX }, { .wait_ms = -1 } };
	struct leased_client *client = NULL;
	struct leased_lease *lease = NULL;

	assert_int_equal(leased_client_open(&client, &no_margin, NULL), LEASED_EUSAGE);
	assert_int_equal(leased_client_open(&client, &no_timeout, NULL), LEASED_EUSAGE);
	assert_null(client);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_int_equal(leased_acquire(w->client, "x", &bad[i], &lease, NULL), LEASED_EUSAGE);
	assert_null(lease);
	lease = rig_granted(w, "x", 60000);
	assert_int_equal(leased_renew(lease, -1, NULL), LEASED_EUSAGE);
	assert_int_equal(leased_renew(lease, INT64_MAX, NULL), LEASED_EUSAGE);
	peer_quiet(&w->peer, 100);
}

/* The lease is renewed there in time. */
static void renewed_at_the_other(struct world *w, struct leased_lease *lease)
{
	Leased__ClientMessage *m;

	peer_accept(&w->other);
	m = peer_expect(&w->other, KIND(RENEW));
	peer_renewed(&w->other, m->id, 1, LEASED_OK, 6000);
	rig_wait_for(&w->renewed, 1);
	assert_true(leased_held(lease));
	assert_int_equal(atomic_load(&w->lost), 0);
}

static void a_daemon_that_cannot_renew_is_left_for_the_next(void **state)
{
	struct world *w = *state;
	struct leased_lease *lease = rig_granted(w, "x", 6000);
	Leased__ClientMessage *m = peer_expect(&w->peer, KIND(RENEW));

	peer_renewed(&w->peer, m->id, 1, LEASED_EUNAVAILABLE, 0);
	peer_end(&w->peer);
	renewed_at_the_other(w, lease);
}

static void a_daemon_that_answers_only_pings_is_left_for_the_next(void **state)
{
	struct world *w = *state;
	struct leased_lease *lease = rig_granted(w, "x", 6000);

	peer_stall(&w->peer);
	renewed_at_the_other(w, lease);
}

static void what_is_due_after_an_outage_goes_into_as_many_frames_as_it_needs(void **state)
{
	enum { N = 300, LONG = 250 };
	struct world *w = *state;
	char names[N][LONG + 1];
	size_t renewed = 0, messages = 0;

	for (int i = 0; i < N; i++) {
		snprintf(names[i], sizeof names[i], "%0*d", LONG, i);
		rig_granted(w, names[i], 30000);
	}
	peer_away(&w->peer);
	rig_pause(10100); /* a third of the ttl: all are due now */
	peer_back(&w->peer);
	peer_accept(&w->peer);
	while (renewed < N) {
		Leased__ClientMessage *m = peer_expect(&w->peer, KIND(RENEW));

		assert_true(protobuf_c_message_get_packed_size(&m->base) <= FRAME_BODY_MAX);
		renewed += m->renew->n_renewals;
		messages++;
		peer_renewed(&w->peer, m->id, m->renew->n_renewals, LEASED_OK, 30000);
	}
	assert_int_equal(renewed, N);
	assert_int_equal(messages, 2);
	rig_wait_for(&w->renewed, N);
}

struct verb {
	pthread_t thread;
	struct leased_client *client;
	int rc;
};

static void *run_verb_release(void *arg)
{
	struct verb *v = arg;
	struct holder holder;
	const struct verb_claim claimed = { .name = "x", .holder = &holder, .token = 7 };
	struct leased_error err;

	holder_new(&holder);
	v->rc = verb_release(v->client, &claimed, NULL, &err);
	return NULL;
}

static void a_release_by_claim_whose_answer_was_lost_says_that_it_is_a_retry(void **state)
{
	struct world *w = *state;
	struct verb v = { .client = w->client };
	Leased__ClientMessage *m;

	pthread_create(&v.thread, NULL, run_verb_release, &v);
	m = peer_expect(&w->peer, KIND(RELEASE));
	assert_false(m->release->retry);
	peer_accept(&w->peer);
	m = peer_expect(&w->peer, KIND(RELEASE));
	assert_true(m->release->retry);
	peer_released(&w->peer, m->id);
	pthread_join(v.thread, NULL);
	assert_int_equal(v.rc, 0);
}

static void a_child_that_closes_does_not_keep_the_connection_open(void **state)
{
	struct world *w = *state;
	int closed[2], end[2], status;
	char byte;
	pid_t pid;

	assert_int_equal(pipe(closed), 0);
	assert_int_equal(pipe(end), 0);
	pid = fork();
	if (pid == 0) {
		leased_client_close(w->client);
		close(end[1]);
		close(w->peer.fd);
		(void)!write(closed[1], "x", 1);
		(void)!read(end[0], &byte, 1); /* until the parent has seen it */
		_exit(0);
	}
	close(end[0]);
	assert_int_equal(read(closed[0], &byte, 1), 1);
	leased_client_close(w->client);
	w->client = NULL;
	peer_end(&w->peer); /* although the child lives */
	close(end[1]);
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	close(closed[0]);
	close(closed[1]);
}

/* Each of them is in its own thread; none may touch what close has freed. */
static void close_waits_for_those_who_wait(void **state)
{
	struct world *w = *state;
	struct leased_lease *lease = rig_granted(w, "x", 60000), *other = rig_granted(w, "y", 60000);
	struct acquiring acquiring;
	struct releasing releasing;
	struct renewing renewing, renewing_too;

	rig_acquire(w, &acquiring, "z", 60000, 60000);
	peer_expect(&w->peer, KIND(ACQUIRE));
	rig_release(&releasing, lease);
	peer_expect(&w->peer, KIND(RELEASE));
	rig_renew(&renewing, other, 0);
	peer_expect(&w->peer, KIND(RENEW));
	rig_renew(&renewing_too, other, 0); /* behind the first, without a call yet */
	rig_pause(50);
	leased_client_close(w->client);
	w->client = NULL;
	rig_finish(&acquiring, LEASED_ECANCELLED);
	rig_released(&releasing, LEASED_ECANCELLED);
	rig_renewed(&renewing, LEASED_ECANCELLED);
	rig_renewed(&renewing_too, LEASED_ECANCELLED);
}

struct closing {
	pthread_t thread;
	struct leased_client *client;
};

static void *run_close(void *arg)
{
	struct closing *c = arg;

	leased_client_close(c->client);
	return NULL;
}

static void a_grant_that_crosses_a_close_is_given_back(void **state)
{
	struct world *w = *state;
	struct closing closing = { .client = w->client };
	Leased__ClientMessage *m;
	struct acquiring c;
	uint64_t id;

	rig_acquire(w, &c, "x", 60000, 60000);
	id = peer_expect(&w->peer, KIND(ACQUIRE))->id;
	pthread_create(&closing.thread, NULL, run_close, &closing);
	w->client = NULL;
	rig_pause(200);
	peer_grant(&w->peer, id, 7, 60000);
	m = peer_expect(&w->peer, KIND(RELEASE));
	assert_int_equal(m->release->claim->token, 7);
	peer_released(&w->peer, m->id);
	rig_finish(&c, LEASED_ECANCELLED);
	pthread_join(closing.thread, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(fixture, function) cmocka_unit_test_setup_teardown(function, fixture, rig_teardown)
		TEST(rig_setup, a_resent_acquire_counts_from_before_its_first_sending),
		TEST(rig_setup, a_shorter_ttl_counts_before_its_answer),
		TEST(rig_setup, an_older_answer_does_not_lengthen_a_shorter_ttl),
		TEST(rig_setup, a_renewal_by_hand_that_crosses_a_release_does_not_revive),
		TEST(rig_setup, callbacks_run_on_the_background_thread_and_may_free),
		TEST(rig_setup_impatient, a_grant_that_comes_after_the_caller_has_left_is_released),
		TEST(rig_setup_impatient, a_grant_of_unknown_outcome_is_looked_for_and_released),
		TEST(rig_setup_impatient, a_lease_of_somebody_else_is_let_alone),
		TEST(rig_setup, an_interrupt_ends_an_acquire_whose_cancel_is_not_answered),
		TEST(rig_setup, times_that_cannot_be_used_are_refused),
		TEST(rig_setup_pair, a_daemon_that_cannot_renew_is_left_for_the_next),
		TEST(rig_setup_pair, a_daemon_that_answers_only_pings_is_left_for_the_next),
		TEST(rig_setup, what_is_due_after_an_outage_goes_into_as_many_frames_as_it_needs),
		TEST(rig_setup, a_release_by_claim_whose_answer_was_lost_says_that_it_is_a_retry),
		TEST(rig_setup, a_child_that_closes_does_not_keep_the_connection_open),
		TEST(rig_setup, close_waits_for_those_who_wait),
		TEST(rig_setup, a_grant_that_crosses_a_close_is_given_back),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
