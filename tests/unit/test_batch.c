/* Requests into arrays and deadlines into a heap: the pure parts between engine and database. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "heap.h"

static void name(struct request *req, const char *text, uint64_t nonce)
{
	*req = (struct request){ .verb = VERB_RENEW, .claim = { .name = { text, strlen(text) },
		.host = { "h", 1 }, .principal = { "p", 1 }, .nonce = nonce, .token = nonce, .pid = 9 } };
}

static void names_are_sorted_by_bytes_and_one_a_name_stays(void **state)
{
	static const char *const given[] = { "b", "a", "B", "a", "ab", "a", "\xc3\xa9", "a/b" };
	static const char *const want[] = { "B", "a", "a/b", "ab", "b", "\xc3\xa9" };
	struct request reqs[8], *places[8];
	struct batch batch = { .verb = VERB_ACQUIRE, .reqs = places, .n = 8 };

	(void)state;
	for (size_t i = 0; i < 8; i++) {
		name(&reqs[i], given[i], i);
		places[i] = &reqs[i];
	}
	assert_int_equal(batch_sort(&batch), 6);
	for (size_t i = 0; i < 6; i++)
		assert_memory_equal(places[i]->claim.name.data, want[i], strlen(want[i]));
	for (size_t i = 6; i < 8; i++) /* the others are kept, for the next batch */
		assert_memory_equal(places[i]->claim.name.data, "a", 1);
}

/* A stranger's wrong claims on a name must not keep its holder's renewal out. */
static void all_claims_on_a_name_travel_together_and_each_once(void **state)
{
	static const enum verb verbs[] = { VERB_RENEW, VERB_RELEASE };
	struct request reqs[6], *places[6];

	(void)state;
	for (size_t v = 0; v < 2; v++) {
		struct batch batch = { .verb = verbs[v], .reqs = places, .n = 6 };

		for (size_t i = 0; i < 6; i++) {
			name(&reqs[i], "a", 7);
			places[i] = &reqs[i];
		}
		reqs[1].claim.token = 8;
		reqs[2].claim.nonce = 8;
		reqs[3].claim.principal = (struct text){ "q", 1 };
		reqs[4].claim.host = (struct text){ "hh", 2 };
		assert_int_equal(batch_sort(&batch), 5);
		assert_true(places[5] == &reqs[0] || places[5] == &reqs[5]);
	}
}

static void looks_are_not_thinned_out(void **state)
{
	struct request reqs[2], *places[2] = { &reqs[0], &reqs[1] };
	struct batch batch = { .verb = VERB_LOOK, .reqs = places, .n = 2 };

	(void)state;
	name(&reqs[0], "x", 1);
	name(&reqs[1], "x", 2);
	assert_int_equal(batch_sort(&batch), 2);
}

/* PostgreSQL's array_send format: dimensions, nulls, type, length, lower bound, then the elements. */
static void arrays_have_postgresqls_binary_form(void **state)
{
	static const uint8_t names[] = "\0\0\0\1" "\0\0\0\0" "\0\0\0\x19" "\0\0\0\2" "\0\0\0\1"
				       "\0\0\0\1" "a" "\0\0\0\2" "bc";
	static const uint8_t tokens[] = "\0\0\0\1" "\0\0\0\0" "\0\0\0\x14" "\0\0\0\2" "\0\0\0\1"
					"\0\0\0\x8" "\0\0\0\0\0\0\0\1" "\0\0\0\x8" "\xff\xff\xff\xff\xff\xff\xff\xff";
	static const uint8_t values[] = "\0\0\0\1" "\0\0\0\1" "\0\0\0\x19" "\0\0\0\2" "\0\0\0\1"
					"\0\0\0\0" "\xff\xff\xff\xff";
	static const uint8_t ttls[] = "\0\0\0\1" "\0\0\0\1" "\0\0\0\x14" "\0\0\0\2" "\0\0\0\1"
				      "\xff\xff\xff\xff" "\0\0\0\x8" "\0\0\0\0\0\0\x3\xe8";
	struct request reqs[2], *places[2] = { &reqs[0], &reqs[1] };
	struct batch batch = { .verb = VERB_RENEW_VALUE, .reqs = places, .n = 2 };
	struct params params = { 0 };

	(void)state;
	name(&reqs[0], "a", 1);
	name(&reqs[1], "bc", UINT64_MAX);
	reqs[1].ttl_ms = 1000; /* the other one keeps its ttl: NULL */
	reqs[0].has_value = true; /* taken away; the other one keeps its value */
	assert_int_equal(batch_encode(&batch, &params), 0);
	assert_int_equal(params.n, 8);
	assert_int_equal(params.lengths[0], sizeof names - 1);
	assert_memory_equal(params.values[0], names, sizeof names - 1);
	assert_int_equal(params.lengths[1], sizeof tokens - 1);
	assert_memory_equal(params.values[1], tokens, sizeof tokens - 1);
	assert_int_equal(params.lengths[6], sizeof ttls - 1);
	assert_memory_equal(params.values[6], ttls, sizeof ttls - 1);
	assert_int_equal(params.lengths[7], sizeof values - 1);
	assert_memory_equal(params.values[7], values, sizeof values - 1);
	params_fini(&params);
}

static void limits_that_are_not_there_are_nulls(void **state)
{
	static const uint8_t slots[] = "\0\0\0\1" "\0\0\0\1" "\0\0\0\x19" "\0\0\0\2" "\0\0\0\1"
				       "\xff\xff\xff\xff" "\0\0\0\1" "s";
	static const uint8_t again[] = "\0\0\0\1" "\0\0\0\1" "\0\0\0\x10" "\0\0\0\2" "\0\0\0\1"
				       "\xff\xff\xff\xff" "\0\0\0\1" "\1";
	static const uint8_t every[] = "\0\0\0\1" "\0\0\0\1" "\0\0\0\x14" "\0\0\0\2" "\0\0\0\1"
				       "\xff\xff\xff\xff" "\0\0\0\x8" "\0\0\0\0\0\0\0\x9";
	static const uint8_t holders[] = "\0\0\0\1" "\0\0\0\0" "\0\0\0\x17" "\0\0\0\2" "\0\0\0\1"
					 "\0\0\0\4" "\0\0\0\1" "\0\0\0\4" "\0\0\0\3";
	struct request reqs[2], *places[2] = { &reqs[0], &reqs[1] };
	struct batch batch = { .verb = VERB_ACQUIRE_LIMITED, .reqs = places, .n = 2,
		.slot_keep_ms = 258 };
	struct params params = { 0 };

	(void)state;
	name(&reqs[0], "a", 1);
	name(&reqs[1], "b", 1);
	reqs[1].slot = (struct text){ "s", 1 };
	reqs[1].slot_again = true;
	reqs[1].every_ms = 9;
	reqs[1].max_holders = 3;
	assert_int_equal(batch_encode(&batch, &params), 0);
	assert_int_equal(params.n, 16);
	assert_int_equal(params.lengths[9], sizeof slots - 1);
	assert_memory_equal(params.values[9], slots, sizeof slots - 1);
	assert_int_equal(params.lengths[10], sizeof again - 1);
	assert_memory_equal(params.values[10], again, sizeof again - 1);
	assert_int_equal(params.lengths[11], sizeof every - 1);
	assert_memory_equal(params.values[11], every, sizeof every - 1);
	assert_int_equal(params.lengths[12], sizeof holders - 1);
	assert_memory_equal(params.values[12], holders, sizeof holders - 1);
	assert_int_equal(params.lengths[13], 12); /* no names: an empty array */
	assert_memory_equal(params.values[13], "\0\0\0\0" "\0\0\0\0" "\0\0\0\x19", 12);
	assert_int_equal(params.lengths[14], 8);
	assert_memory_equal(params.values[14], "\0\0\0\0\0\0\1\2", 8);
	params_fini(&params);
}

static void several_leases_at_once_are_an_array_of_their_own(void **state)
{
	static const uint8_t expected[] = "\0\0\0\1" "\0\0\0\0" "\0\0\0\x19" "\0\0\0\2" "\0\0\0\1"
					  "\0\0\0\1" "b" "\0\0\0\1" "a";
	struct text names[] = { { "b", 1 }, { "a", 1 } };
	struct request req, *place = &req;
	struct batch batch = { .verb = VERB_ACQUIRE_LIMITED, .reqs = &place, .n = 1 };
	struct params params = { 0 };

	(void)state;
	name(&req, "b", 1);
	req.names = names;
	req.n_names = 2;
	assert_int_equal(batch_encode(&batch, &params), 0);
	assert_int_equal(params.lengths[13], sizeof expected - 1);
	assert_memory_equal(params.values[13], expected, sizeof expected - 1);
	params_fini(&params);
}

/* What answers is not always what we expect: a row of another shape is an error, never a guess. */
static void rows_of_another_shape_are_refused(void **state)
{
	static const struct {
		int columns;
		const char *value;
		int len;
	} cases[] = { { 1, "x", 1 }, { 3, "\0\0\0\0\0\0\0\0", 8 }, { 3, "\0\0\0\0\0\0\0\3", 8 }, { 3, NULL, -1 } };
	struct request req, *places[1] = { &req };

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct batch batch = { .verb = VERB_RENEW, .reqs = places, .n = 1 };
		PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
		static char column[] = "c";
		PGresAttDesc columns[3] = { { .name = column, .format = 1 },
			{ .name = column, .format = 1 }, { .name = column, .format = 1 } };

		name(&req, "a", 1);
		PQsetResultAttrs(result, cases[i].columns, columns);
		for (int c = 0; c < cases[i].columns; c++)
			PQsetvalue(result, 0, c, (char *)(uintptr_t)cases[i].value, cases[i].len);
		assert_true(batch_decode(&batch, result) < 0);
		assert_false(req.found);
		PQclear(result);
	}
}

static void a_heap_gives_the_earliest_whatever_is_moved_or_taken_out(void **state)
{
	enum { N = 300 };
	struct heap_node nodes[N] = { 0 };
	struct heap heap = { 0 };
	int64_t last = INT64_MIN;
	size_t left = 0;

	(void)state;
	srand(1);
	for (int i = 0; i < N; i++)
		assert_int_equal(heap_set(&heap, &nodes[i], rand() % 100), 0);
	for (int i = 0; i < N; i += 3)
		assert_int_equal(heap_set(&heap, &nodes[i], rand() % 100), 0);
	for (int i = 0; i < N; i += 5) {
		heap_remove(&heap, &nodes[i]);
		heap_remove(&heap, &nodes[i]); /* again does no harm */
	}
	for (struct heap_node *first; (first = heap_first(&heap)); left++) {
		assert_true(first->due_ms >= last);
		last = first->due_ms;
		heap_remove(&heap, first);
	}
	assert_int_equal(left, N - N / 5);
	heap_fini(&heap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_sorted_by_bytes_and_one_a_name_stays),
		cmocka_unit_test(all_claims_on_a_name_travel_together_and_each_once),
		cmocka_unit_test(looks_are_not_thinned_out),
		cmocka_unit_test(arrays_have_postgresqls_binary_form),
		cmocka_unit_test(limits_that_are_not_there_are_nulls),
		cmocka_unit_test(several_leases_at_once_are_an_array_of_their_own),
		cmocka_unit_test(rows_of_another_shape_are_refused),
		cmocka_unit_test(a_heap_gives_the_earliest_whatever_is_moved_or_taken_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
