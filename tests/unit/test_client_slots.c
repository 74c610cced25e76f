/* libleased: what it sends of slots, intervals and values, and which releases complete nothing. */
#include "client_rig.h"

#include <string.h>

static void an_acquire_says_what_may_refuse_it(void **state)
{
	static const struct leased_acquire_options options = { .ttl_ms = 60000, .slot = "03:00",
		.slot_again = true, .every_ms = 3600000 };
	struct world *w = *state;
	Leased__ClientMessage *m;
	struct acquiring c;

	rig_acquire_with(w, &c, "x", &options);
	m = peer_expect(&w->peer, KIND(ACQUIRE));
	assert_int_equal(m->acquire->slot.len, 5);
	assert_memory_equal(m->acquire->slot.data, "03:00", 5);
	assert_int_equal(m->acquire->slot_on_failure, LEASED__ACQUIRE__SLOT_ON_FAILURE__AGAIN);
	assert_int_equal(m->acquire->every_ms, 3600000);
	peer_fail(&w->peer, m->id, LEASED_EDONE, "the slot was completed");
	rig_finish(&c, LEASED_EDONE);
	assert_string_equal(c.err.text, "acquire \"x\": the slot was completed");
}

static void limits_that_cannot_be_used_are_refused(void **state)
{
	static char longest[257];
	const struct {
		struct leased_acquire_options options;
		int want;
	} bad[] = {
		{ { .slot = "" }, LEASED_EDATA },
		{ { .slot = "a\nb" }, LEASED_EDATA },
		{ { .slot = "\xff" }, LEASED_EDATA },
		{ { .slot = longest }, LEASED_EDATA },
		{ { .slot_again = true }, LEASED_EUSAGE },
		{ { .every_ms = -1 }, LEASED_EUSAGE },
		{ { .every_ms = INT64_MAX }, LEASED_EUSAGE },
	};
	struct world *w = *state;
	struct leased_lease *lease = NULL;

	memset(longest, 's', sizeof longest - 1);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_int_equal(leased_acquire(w->client, "x", &bad[i].options, &lease, NULL),
			bad[i].want);
	assert_null(lease);
	peer_quiet(&w->peer, 100);
}

struct setting {
	pthread_t thread;
	struct leased_lease *lease;
	const char *value;
	int rc;
};

static void *run_set_value(void *arg)
{
	struct setting *s = arg;

	s->rc = leased_set_value(s->lease, s->value, strlen(s->value), NULL);
	return NULL;
}

static void set_value(struct setting *s, struct leased_lease *lease, const char *value)
{
	*s = (struct setting){ .lease = lease, .value = value };
	pthread_create(&s->thread, NULL, run_set_value, s);
}

static void value_was_set(struct setting *s, int want)
{
	pthread_join(s->thread, NULL);
	assert_int_equal(s->rc, want);
}

static const Leased__Renewal *next_renewal(struct world *w, uint64_t *ret_id)
{
	Leased__ClientMessage *m = peer_expect(&w->peer, KIND(RENEW));

	assert_int_equal(m->renew->n_renewals, 1);
	*ret_id = m->id;
	return m->renew->renewals[0];
}

static void carries(const Leased__Renewal *renewal, const char *value)
{
	assert_true(renewal->set_value);
	assert_int_equal(renewal->ttl_ms, 0);
	assert_int_equal(renewal->value.len, strlen(value));
	if (*value)
		assert_memory_equal(renewal->value.data, value, strlen(value));
}

/* So no later one can bring an old value back. */
static void only_the_renewal_that_changes_the_value_carries_it(void **state)
{
	struct world *w = *state;
	struct leased_lease *lease = rig_granted(w, "x", 1500);
	const Leased__Renewal *renewal;
	struct setting s;
	uint64_t id;

	set_value(&s, lease, "10.0.0.6");
	carries(next_renewal(w, &id), "10.0.0.6");
	peer_renewed(&w->peer, id, 1, LEASED_OK, 1500);
	value_was_set(&s, 0);
	for (int i = 0; i < 2; i++) {
		renewal = next_renewal(w, &id);
		assert_false(renewal->set_value);
		assert_int_equal(renewal->value.len, 0);
		peer_renewed(&w->peer, id, 1, LEASED_OK, 1500);
	}
	set_value(&s, lease, "");
	renewal = next_renewal(w, &id);
	carries(renewal, "");
	peer_renewed(&w->peer, id, 1, LEASED_OK, 1500);
	value_was_set(&s, 0);
}

static void a_value_whose_answer_was_lost_is_sent_again(void **state)
{
	struct world *w = *state;
	struct leased_lease *lease = rig_granted(w, "x", 60000);
	struct setting s;
	uint64_t id;

	set_value(&s, lease, "v");
	carries(next_renewal(w, &id), "v");
	peer_accept(&w->peer);
	carries(next_renewal(w, &id), "v");
	peer_renewed(&w->peer, id, 1, LEASED_OK, 60000);
	value_was_set(&s, 0);
}

/* The first must be over before the second is sent: whichever is last in the database is the last set. */
static void two_values_never_cross(void **state)
{
	struct world *w = *state;
	struct leased_lease *lease = rig_granted(w, "x", 60000);
	const char *other;
	struct setting a, b;
	uint64_t id;

	set_value(&a, lease, "a");
	set_value(&b, lease, "b");
	other = memcmp(next_renewal(w, &id)->value.data, "a", 1) == 0 ? "b" : "a";
	peer_quiet(&w->peer, 200);
	peer_renewed(&w->peer, id, 1, LEASED_OK, 60000);
	carries(next_renewal(w, &id), other);
	peer_renewed(&w->peer, id, 1, LEASED_OK, 60000);
	value_was_set(&a, 0);
	value_was_set(&b, 0);
}

static void a_bad_value_is_refused_without_a_round_trip(void **state)
{
	static char longest[4097];
	struct world *w = *state;
	struct leased_lease *lease = rig_granted(w, "x", 60000);

	memset(longest, 'v', sizeof longest);
	assert_int_equal(leased_set_value(lease, longest, sizeof longest, NULL), LEASED_EDATA);
	assert_int_equal(leased_set_value(lease, "a\0b", 3, NULL), LEASED_EDATA);
	assert_int_equal(leased_set_value(lease, "\xff", 1, NULL), LEASED_EDATA);
	peer_quiet(&w->peer, 100);
	assert_true(leased_held(lease));
}

static void the_value_of_a_lost_lease_is_a_loss(void **state)
{
	struct world *w = *state;
	struct leased_lease *lease = rig_granted(w, "x", 60000);
	struct setting s;
	uint64_t id;

	set_value(&s, lease, "v");
	next_renewal(w, &id);
	peer_renewed(&w->peer, id, 1, LEASED_ENOTHELD, 0);
	value_was_set(&s, LEASED_ELOST);
	assert_int_equal(leased_set_value(lease, "v", 1, NULL), LEASED_ELOST);
	assert_int_equal(atomic_load(&w->lost), 1);
}

static void *run_give_back(void *arg)
{
	struct releasing *r = arg;

	r->rc = leased_give_back(r->lease, NULL);
	return NULL;
}

static void what_is_given_back_is_undone(void **state)
{
	struct world *w = *state;
	struct leased_lease *lease = rig_granted(w, "x", 60000);
	struct releasing r = { .lease = lease };
	Leased__ClientMessage *m;

	pthread_create(&r.thread, NULL, run_give_back, &r);
	m = peer_expect(&w->peer, KIND(RELEASE));
	assert_true(m->release->undone);
	assert_int_equal(m->release->ending_case, LEASED__RELEASE__ENDING__NOT_SET);
	peer_released(&w->peer, m->id);
	rig_released(&r, 0);
	assert_false(leased_held(lease));

	lease = rig_granted(w, "y", 60000);
	rig_release(&r, lease);
	m = peer_expect(&w->peer, KIND(RELEASE));
	assert_false(m->release->undone);
	peer_released(&w->peer, m->id);
	rig_released(&r, 0);
}

static void a_grant_that_nobody_wanted_is_undone(void **state)
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
	assert_true(m->release->undone);
	peer_released(&w->peer, m->id);
	rig_finish(&c, LEASED_ECANCELLED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(function) cmocka_unit_test_setup_teardown(function, rig_setup, rig_teardown)
		TEST(an_acquire_says_what_may_refuse_it),
		TEST(limits_that_cannot_be_used_are_refused),
		TEST(only_the_renewal_that_changes_the_value_carries_it),
		TEST(a_value_whose_answer_was_lost_is_sent_again),
		TEST(two_values_never_cross),
		TEST(a_bad_value_is_refused_without_a_round_trip),
		TEST(the_value_of_a_lost_lease_is_a_loss),
		TEST(what_is_given_back_is_undone),
		TEST(a_grant_that_nobody_wanted_is_undone),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
