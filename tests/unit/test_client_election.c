/* libleased: elections, against a daemon by script. */
#include "client_rig.h"

#include <stdio.h>
#include <string.h>

#define EVENT(name) LEASED__CHANGE__EVENT__##name
#define TTL_MS      1500

struct candidate {
	struct leased_election *election;
	struct leased_lease *lease;
	_Atomic int leading, lost, problems, leaders;
	char leader[100];
	enum { STAYS, ENDS_LEADING, ENDS_LOST, ENDS_LEADER, ENDS_PROBLEM } what;
};

static void end_if(struct candidate *c, int what)
{
	if ((int)c->what == what)
		leased_step_down(c->election);
}

static void on_leading(struct leased_election *e, struct leased_lease *lease, void *data)
{
	struct candidate *c = data;

	(void)e;
	assert_true(leased_held(lease));
	c->lease = lease;
	end_if(c, ENDS_LEADING);
	c->leading++;
}

static void on_lost(struct leased_election *e, const struct leased_error *why, void *data)
{
	struct candidate *c = data;

	(void)e;
	assert_int_equal(why->status, LEASED_ELOST);
	end_if(c, ENDS_LOST);
	c->lost++;
}

static void on_problem(struct leased_election *e, const struct leased_error *why, void *data)
{
	struct candidate *c = data;

	(void)e;
	assert_non_null(strstr(why->text, "elect \"x\": "));
	end_if(c, ENDS_PROBLEM);
	c->problems++;
}

static void on_leader(struct leased_election *e, const struct leased_change *leader, void *data)
{
	struct candidate *c = data;

	(void)e;
	if (leader)
		snprintf(c->leader, sizeof c->leader, "%s:%d=%.*s", leader->name, (int)leader->token,
			(int)leader->value_len, leader->value ? (const char *)leader->value : "");
	else
		snprintf(c->leader, sizeof c->leader, "nobody");
	end_if(c, ENDS_LEADER);
	c->leaders++;
}

static void elect(struct world *w, struct candidate *c, int what, bool observe)
{
	char value[] = "addr";
	struct leased_election_options options = { .ttl_ms = TTL_MS, .value = value, .value_len = 4,
		.on_leading = on_leading, .on_lost = on_lost, .on_problem = on_problem,
		.on_leader = observe ? on_leader : NULL, .data = c };

	memset(c, 0, sizeof *c);
	c->what = what;
	assert_int_equal(leased_elect(w->client, "x", &options, &c->election, NULL), 0);
	memset(value, 'z', sizeof value); /* it was copied */
}

/* The id of the acquire that comes now. */
static uint64_t campaigns(struct world *w, uint64_t *ret_nonce)
{
	Leased__ClientMessage *m = peer_expect(&w->peer, KIND(ACQUIRE));

	assert_true(m->acquire->wait_ms > 200000);
	assert_int_equal(m->acquire->ttl_ms, TTL_MS);
	assert_memory_equal(m->acquire->value.data, "addr", 4);
	*ret_nonce = m->acquire->holder->nonce;
	return m->id;
}

static uint64_t leads(struct world *w, struct candidate *c, uint64_t token)
{
	uint64_t nonce, id = campaigns(w, &nonce);

	peer_grant(&w->peer, id, token, TTL_MS);
	rig_wait_for(&c->leading, 1);
	return nonce;
}

static void released(struct world *w, uint64_t token)
{
	Leased__ClientMessage *m = peer_expect(&w->peer, KIND(RELEASE));

	assert_true(m->release->claim->token == token);
	peer_released(&w->peer, m->id);
}

static void loses(struct world *w, struct candidate *c)
{
	Leased__ClientMessage *m = peer_expect(&w->peer, KIND(RENEW));

	peer_renewed(&w->peer, m->id, 1, LEASED_ELOST, 0);
	rig_wait_for(&c->lost, 1);
}

static void *step_down(void *arg)
{
	leased_step_down(((struct candidate *)arg)->election);
	return NULL;
}

static void who_leads_steps_down_by_a_release(void **state)
{
	struct world *w = *state;
	struct candidate c;
	pthread_t thread;

	elect(w, &c, STAYS, false);
	leads(w, &c, 7);
	assert_int_equal(leased_token(c.lease), 7);
	pthread_create(&thread, NULL, step_down, &c);
	released(w, 7);
	pthread_join(thread, NULL);
	peer_quiet(&w->peer, 50);
	assert_int_equal(c.lost, 0);
}

static void a_lost_lead_begins_a_new_campaign(void **state)
{
	struct world *w = *state;
	struct candidate c;
	uint64_t first, second;

	elect(w, &c, STAYS, false);
	first = leads(w, &c, 7);
	loses(w, &c);
	campaigns(w, &second);
	assert_true(first != second);
}

/* The wait has used up what the grant could prove. */
static uint64_t granted_late(struct world *w)
{
	uint64_t nonce, id = campaigns(w, &nonce);

	rig_pause(TTL_MS * 2 / 3);
	peer_grant(&w->peer, id, 7, TTL_MS);
	return nonce;
}

static void a_grant_after_a_long_wait_is_confirmed_first(void **state)
{
	struct world *w = *state;
	Leased__ClientMessage *m;
	struct candidate c;

	elect(w, &c, STAYS, false);
	granted_late(w);
	m = peer_expect(&w->peer, KIND(RENEW));
	assert_int_equal(c.leading, 0);
	peer_renewed(&w->peer, m->id, 1, 0, TTL_MS);
	rig_wait_for(&c.leading, 1);
}

static void an_unconfirmed_grant_is_given_back(void **state)
{
	struct world *w = *state;
	uint64_t first, second;
	Leased__ClientMessage *m;
	struct candidate c;

	elect(w, &c, STAYS, false);
	first = granted_late(w);
	m = peer_expect(&w->peer, KIND(RENEW));
	peer_renewed(&w->peer, m->id, 1, LEASED_ELOST, 0);
	released(w, 7);
	campaigns(w, &second);
	assert_true(first != second);
	assert_int_equal(c.leading, 0);
	assert_int_equal(c.problems, 1);
}

static void who_waits_steps_down_by_a_cancel(void **state)
{
	struct world *w = *state;
	Leased__ClientMessage *m;
	struct candidate c;
	uint64_t nonce, id;

	elect(w, &c, STAYS, false);
	id = campaigns(w, &nonce);
	leased_step_down(c.election);
	m = peer_expect(&w->peer, KIND(CANCEL));
	assert_true(m->cancel->request == id);
	peer_grant(&w->peer, id, 9, TTL_MS); /* it has crossed */
	released(w, 9);
	peer_quiet(&w->peer, 50);
	assert_int_equal(c.leading, 0);
}

static void a_wait_that_ran_out_is_no_trouble(void **state)
{
	struct world *w = *state;
	struct candidate c;
	uint64_t first, second;

	elect(w, &c, STAYS, false);
	peer_fail(&w->peer, campaigns(w, &first), LEASED_ETIMEDOUT, "the wait ran out");
	campaigns(w, &second);
	assert_true(first == second); /* it may keep its place */
	assert_int_equal(c.problems, 0);
}

static void trouble_is_told_and_the_campaign_goes_on(void **state)
{
	struct world *w = *state;
	struct candidate c;
	uint64_t first, second;

	elect(w, &c, STAYS, false);
	peer_fail(&w->peer, campaigns(w, &first), LEASED_EUNAVAILABLE, "no database");
	rig_wait_for(&c.problems, 1);
	peer_cut(&w->peer);
	peer_accept(&w->peer);
	campaigns(w, &second);
	assert_true(first == second); /* whether it was granted nobody knows */
}

static void it_may_end_when_it_leads(void **state)
{
	struct world *w = *state;
	struct candidate c;

	elect(w, &c, ENDS_LEADING, true);
	peer_expect(&w->peer, KIND(WATCH));
	leads(w, &c, 7);
	peer_expect(&w->peer, KIND(CANCEL)); /* of the watch */
	released(w, 7);
	peer_quiet(&w->peer, 50);
}

static void it_may_end_when_it_has_lost(void **state)
{
	struct world *w = *state;
	struct candidate c;

	elect(w, &c, ENDS_LOST, false);
	leads(w, &c, 7);
	loses(w, &c);
	peer_quiet(&w->peer, 50);
}

static void it_may_end_when_there_is_trouble(void **state)
{
	struct world *w = *state;
	struct candidate c;
	uint64_t nonce;

	elect(w, &c, ENDS_PROBLEM, false);
	peer_fail(&w->peer, campaigns(w, &nonce), LEASED_EDENIED, "not you");
	rig_wait_for(&c.problems, 1);
	peer_quiet(&w->peer, 1200);
}

static void is_leader(struct candidate *c, int n, const char *want)
{
	rig_wait_for(&c->leaders, n);
	assert_string_equal(c->leader, want);
	c->leaders = 0;
}

static void leaders_are_told_once(void **state)
{
	struct world *w = *state;
	struct candidate c;
	uint64_t nonce, id;

	elect(w, &c, STAYS, true);
	id = peer_expect(&w->peer, KIND(WATCH))->id;
	campaigns(w, &nonce);
	peer_change(&w->peer, id, EVENT(SNAPSHOT), NULL, 0, NULL);
	peer_change(&w->peer, id, EVENT(READY), NULL, 0, NULL);
	is_leader(&c, 1, "nobody");
	peer_change(&w->peer, id, EVENT(GRANTED), "x", 3, "a");
	is_leader(&c, 1, "x:3=a");
	for (int i = 0; i < 2; i++) { /* of the second snapshot only the new value is new */
		peer_change(&w->peer, id, EVENT(SNAPSHOT), NULL, 0, NULL);
		peer_change(&w->peer, id, EVENT(HELD), "x", 3, i ? "b" : "a");
		peer_change(&w->peer, id, EVENT(READY), NULL, 0, NULL);
	}
	is_leader(&c, 1, "x:3=b");
	peer_change(&w->peer, id, EVENT(VALUE), "x", 3, NULL);
	is_leader(&c, 1, "x:3=");
	peer_change(&w->peer, id, EVENT(EXPIRED), "x", 3, NULL);
	peer_change(&w->peer, id, EVENT(SNAPSHOT), NULL, 0, NULL);
	peer_change(&w->peer, id, EVENT(READY), NULL, 0, NULL);
	is_leader(&c, 1, "nobody");
	peer_quiet(&w->peer, 50);
	assert_int_equal(c.leaders, 0);
}

static void it_may_end_when_somebody_else_leads(void **state)
{
	struct world *w = *state;
	struct candidate c;
	uint64_t nonce, id;

	elect(w, &c, ENDS_LEADER, true);
	id = peer_expect(&w->peer, KIND(WATCH))->id;
	campaigns(w, &nonce);
	peer_change(&w->peer, id, EVENT(HELD), "x", 3, NULL);
	for (int i = 0; i < 2; i++) { /* of the watch and of the acquire, in any order */
		Leased__ClientMessage *m = peer_expect(&w->peer, KIND(CANCEL));

		peer_fail(&w->peer, m->cancel->request, LEASED_ECANCELLED, "cancelled");
	}
	peer_quiet(&w->peer, 50);
	assert_int_equal(c.leaders, 1);
}

static void what_cannot_be_elected_is_refused(void **state)
{
	struct world *w = *state;
	struct leased_election_options options = { .ttl_ms = -1 };
	struct leased_election *none = NULL;
	struct leased_error err;

	assert_int_equal(leased_elect(w->client, "", NULL, &none, &err), LEASED_EDATA);
	assert_int_equal(leased_elect(w->client, "x", &options, &none, &err), LEASED_EUSAGE);
	options = (struct leased_election_options){ .value = "\xff", .value_len = 1 };
	assert_int_equal(leased_elect(w->client, "x", &options, &none, &err), LEASED_EDATA);
	leased_client_interrupt(w->client);
	assert_int_equal(leased_elect(w->client, "x", NULL, &none, &err), LEASED_ECANCELLED);
	assert_null(none);
	leased_step_down(NULL);
	peer_quiet(&w->peer, 50);
}

int main(void)
{
#define TEST(claim) cmocka_unit_test_setup_teardown(claim, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(who_leads_steps_down_by_a_release),
		TEST(a_lost_lead_begins_a_new_campaign),
		TEST(a_grant_after_a_long_wait_is_confirmed_first),
		TEST(an_unconfirmed_grant_is_given_back),
		TEST(who_waits_steps_down_by_a_cancel),
		TEST(a_wait_that_ran_out_is_no_trouble),
		TEST(trouble_is_told_and_the_campaign_goes_on),
		TEST(it_may_end_when_it_leads),
		TEST(it_may_end_when_it_has_lost),
		TEST(it_may_end_when_there_is_trouble),
		TEST(leaders_are_told_once),
		TEST(it_may_end_when_somebody_else_leads),
		TEST(what_cannot_be_elected_is_refused),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}
