/* libleased with several holders of one lease, and several names of one. */
#include "client_rig.h"

#include <stdio.h>
#include <string.h>

#include "frame.h"
#include "name.h"

static const char *const further[] = { "b", "c/d" };

static bool is(ProtobufCBinaryData found, const char *want)
{
	return found.len == strlen(want) && memcmp(found.data, want, found.len) == 0;
}

static void assert_all_names(const Leased__Claim *claim)
{
	assert_true(is(claim->name, "a"));
	assert_int_equal(claim->n_also, 2);
	assert_true(is(claim->also[0], "b") && is(claim->also[1], "c/d"));
}

static struct leased_acquire_options group_of(struct world *w, int64_t ttl_ms)
{
	return (struct leased_acquire_options){ .ttl_ms = ttl_ms, .also = further, .n_also = 2,
		.on_lost = rig_on_lost, .data = w };
}

/* "a", "b" and "c/d", with token 7. */
static struct leased_lease *granted_group(struct world *w, int64_t ttl_ms)
{
	struct leased_acquire_options options = group_of(w, ttl_ms);
	Leased__ClientMessage *m;
	struct acquiring c;

	rig_acquire_with(w, &c, "a", &options);
	m = peer_expect(&w->peer, KIND(ACQUIRE));
	peer_grant(&w->peer, m->id, 7, (uint64_t)ttl_ms);
	rig_finish(&c, 0);
	return c.lease;
}

static void max_holders_is_sent_and_none_means_alone(void **state)
{
	static const int counts[] = { 0, 1, 3, LEASED_SHARED };
	struct world *w = *state;

	for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
		struct leased_acquire_options options = { .max_holders = counts[i] };
		Leased__ClientMessage *m;
		struct acquiring c;

		rig_acquire_with(w, &c, "x", &options);
		m = peer_expect(&w->peer, KIND(ACQUIRE));
		assert_int_equal(m->acquire->max_holders, counts[i]);
		assert_int_equal(m->acquire->n_also, 0);
		peer_fail(&w->peer, m->id, LEASED_EHELD, "held");
		rig_finish(&c, LEASED_EHELD);
	}
}

static void options_that_cannot_be_are_refused_at_once(void **state)
{
	static const char *many[10000];
	static const char *const twice[] = { "b", "b" }, *const first[] = { "x" }, *const bad[] = { "b", "", "c" };
	static const struct {
		struct leased_acquire_options options;
		int want;
	} cases[] = {
		{ { .max_holders = -1 }, LEASED_EUSAGE },
		{ { .max_holders = LEASED_SHARED + 1 }, LEASED_EUSAGE },
		{ { .max_holders = 2, .slot = "s" }, LEASED_EUSAGE },
		{ { .max_holders = LEASED_SHARED, .every_ms = 1 }, LEASED_EUSAGE },
		{ { .also = twice, .n_also = 2 }, LEASED_EDATA },
		{ { .also = first, .n_also = 1 }, LEASED_EDATA },
		{ { .also = bad, .n_also = 3 }, LEASED_EDATA },
		{ { .also = many, .n_also = LEASED_NAMES_MAX }, LEASED_EDATA },
		{ { .also = many, .n_also = 10000 }, LEASED_EDATA },
	};
	struct world *w = *state;
	struct leased_lease *lease = NULL;

	for (size_t i = 0; i < sizeof many / sizeof many[0]; i++)
		many[i] = "n";
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		assert_int_equal(leased_acquire(w->client, "x", &cases[i].options, &lease, NULL), cases[i].want);
	assert_null(lease);
	peer_quiet(&w->peer, 100);
}

static void all_names_are_asked_for_and_copied(void **state)
{
	struct world *w = *state;
	char b[] = "b", c[] = "c/d";
	const char *names[] = { b, c };
	struct leased_acquire_options options = { .ttl_ms = 60000, .also = names, .n_also = 2 };
	struct acquiring acquiring;
	struct releasing releasing;
	struct renewing renewing;
	Leased__ClientMessage *m;

	rig_acquire_with(w, &acquiring, "a", &options);
	m = peer_expect(&w->peer, KIND(ACQUIRE));
	assert_true(is(m->acquire->name, "a"));
	assert_int_equal(m->acquire->n_also, 2);
	assert_true(is(m->acquire->also[0], "b") && is(m->acquire->also[1], "c/d"));
	peer_grant(&w->peer, m->id, 7, 60000);
	rig_finish(&acquiring, 0);
	assert_string_equal(leased_name(acquiring.lease), "a");
	memset(b, '!', sizeof b);
	memset(c, '!', sizeof c);
	names[0] = names[1] = NULL;

	rig_renew(&renewing, acquiring.lease, 0);
	m = peer_expect(&w->peer, KIND(RENEW));
	assert_int_equal(m->renew->n_renewals, 1);
	assert_all_names(m->renew->renewals[0]->claim);
	peer_renewed(&w->peer, m->id, 1, LEASED_OK, 60000);
	rig_renewed(&renewing, 0);

	rig_release(&releasing, acquiring.lease);
	m = peer_expect(&w->peer, KIND(RELEASE));
	assert_all_names(m->release->claim);
	peer_released(&w->peer, m->id);
	rig_released(&releasing, 0);
	leased_lease_free(acquiring.lease);
	peer_quiet(&w->peer, 100); /* it was released: nothing is left to give back */
}

static void background_renewals_are_of_all_names(void **state)
{
	struct world *w = *state;
	Leased__ClientMessage *m;

	granted_group(w, 1500);
	m = peer_expect(&w->peer, KIND(RENEW));
	assert_all_names(m->renew->renewals[0]->claim);
	peer_renewed(&w->peer, m->id, 1, LEASED_OK, 1500);
}

static void with_any_of_its_names_a_lease_is_lost(void **state)
{
	static const char *const names[] = { "a", "b", "c/d" };
	struct world *w = *state;

	for (int i = 0; i < 3; i++) {
		struct leased_lease *lease = granted_group(w, 60000);
		Leased__ClientMessage *m;

		peer_lost(&w->peer, "b", 8);      /* another grant */
		peer_lost(&w->peer, "c", 7);      /* another name */
		peer_lost(&w->peer, "c/dd", 7);
		rig_pause(50);
		assert_true(leased_held(lease));
		peer_lost(&w->peer, names[i], 7);
		rig_wait_for(&w->lost, i + 1);
		assert_false(leased_held(lease));
		peer_quiet(&w->peer, 50);         /* its work may still have to end */
		leased_lease_free(lease);
		m = peer_expect(&w->peer, KIND(RELEASE));
		assert_all_names(m->release->claim);
		assert_true(m->release->undone && m->release->retry);
		peer_fail(&w->peer, m->id, LEASED_ENOTHELD, "stolen"); /* of one; the others are free now */
	}
	peer_quiet(&w->peer, 1200);
}

static void a_renewal_that_finds_one_lost_gives_the_others_back(void **state)
{
	struct world *w = *state;
	struct leased_lease *lease = granted_group(w, 1500);
	Leased__ClientMessage *m = peer_expect(&w->peer, KIND(RENEW));

	peer_renewed(&w->peer, m->id, 1, LEASED_ENOTHELD, 0);
	rig_wait_for(&w->lost, 1);
	leased_lease_free(lease);
	m = peer_expect(&w->peer, KIND(RELEASE));
	assert_all_names(m->release->claim);
	peer_released(&w->peer, m->id);
}

static void a_lost_lease_of_one_name_is_just_freed(void **state)
{
	struct world *w = *state;
	struct leased_lease *lease = rig_granted(w, "x", 60000);

	peer_lost(&w->peer, "x", 7);
	rig_wait_for(&w->lost, 1);
	leased_lease_free(lease);
	peer_quiet(&w->peer, 100);
}

static void an_abandoned_group_is_looked_for_by_its_holder_and_released_whole(void **state)
{
	struct world *w = *state;
	struct leased_acquire_options options = group_of(w, 60000);
	Leased__Holder holder = rig_give_up_while_away(w, "a", &options);
	Leased__ClientMessage *m = peer_expect(&w->peer, KIND(GET));

	assert_true(is(m->get->name, "a"));
	assert_true(m->get->holder && m->get->holder->nonce == holder.nonce);
	peer_lease(&w->peer, m->id, &holder, 11);
	m = peer_expect(&w->peer, KIND(RELEASE));
	assert_all_names(m->release->claim);
	assert_int_equal(m->release->claim->token, 11);
	peer_released(&w->peer, m->id);
}

static void large_groups_are_renewed_in_as_many_messages_as_they_need(void **state)
{
	enum { LEASES = 40, FURTHER = LEASED_NAMES_MAX - 1, LONG = 60 };
	static char texts[LEASES][FURTHER][LONG + 1];
	static const char *also[LEASES][FURTHER];
	struct world *w = *state;
	size_t renewed = 0;

	for (int i = 0; i < LEASES; i++) {
		struct leased_acquire_options options = { .ttl_ms = 6000, .also = also[i], .n_also = FURTHER };
		Leased__ClientMessage *m;
		struct acquiring c;

		for (int k = 0; k < FURTHER; k++) {
			snprintf(texts[i][k], LONG + 1, "%d/%0*d", i, i % 2 ? LONG - 3 : 2, k);
			also[i][k] = texts[i][k];
		}
		rig_acquire_with(w, &c, "first", &options);
		m = peer_expect(&w->peer, KIND(ACQUIRE));
		peer_grant(&w->peer, m->id, (uint64_t)i + 1, 6000);
		rig_finish(&c, 0);
	}
	while (renewed < LEASES) {
		Leased__ClientMessage *m = peer_expect(&w->peer, KIND(RENEW));
		size_t names = 0;

		assert_true(protobuf_c_message_get_packed_size(&m->base) <= FRAME_BODY_MAX);
		for (size_t i = 0; i < m->renew->n_renewals; i++)
			names += 1 + m->renew->renewals[i]->claim->n_also;
		assert_in_range(names, LEASED_NAMES_MAX, 1000);
		renewed += m->renew->n_renewals;
		peer_renewed(&w->peer, m->id, m->renew->n_renewals, LEASED_OK, 6000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(fixture, function) cmocka_unit_test_setup_teardown(function, fixture, rig_teardown)
		TEST(rig_setup, max_holders_is_sent_and_none_means_alone),
		TEST(rig_setup, options_that_cannot_be_are_refused_at_once),
		TEST(rig_setup, all_names_are_asked_for_and_copied),
		TEST(rig_setup, background_renewals_are_of_all_names),
		TEST(rig_setup, with_any_of_its_names_a_lease_is_lost),
		TEST(rig_setup, a_renewal_that_finds_one_lost_gives_the_others_back),
		TEST(rig_setup, a_lost_lease_of_one_name_is_just_freed),
		TEST(rig_setup_impatient, an_abandoned_group_is_looked_for_by_its_holder_and_released_whole),
		TEST(rig_setup, large_groups_are_renewed_in_as_many_messages_as_they_need),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
