/* The value that travels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "request.h"

static struct text text_of(char *memory)
{
	return (struct text){ memory, strlen(memory) };
}

static void is(struct text text, const char *want)
{
	assert_int_equal(text.len, strlen(want));
	assert_memory_equal(text.data, want, text.len);
}

/* A wait outlives the frame that it came in. */
static void a_copy_needs_nothing_of_the_memory_it_came_in(void **state)
{
	char name[] = "name", host[] = "host", principal[] = "principal", value[] = "value", slot[] = "slot";
	struct request req = { .verb = VERB_ACQUIRE, .claim = { .name = text_of(name), .host = text_of(host),
		.principal = text_of(principal) }, .value = text_of(value), .slot = text_of(slot) };
	char *block = request_copy_texts(&req);

	(void)state;
	assert_non_null(block);
	memset(name, 'x', sizeof name);
	memset(host, 'x', sizeof host);
	memset(principal, 'x', sizeof principal);
	memset(value, 'x', sizeof value);
	memset(slot, 'x', sizeof slot);
	is(req.claim.name, "name");
	is(req.claim.host, "host");
	is(req.claim.principal, "principal");
	is(req.value, "value");
	is(req.slot, "slot");
	free(block);
}

static void what_was_not_sent_stays_empty(void **state)
{
	char name[] = "name";
	struct request req = { .verb = VERB_ACQUIRE, .claim = { .name = text_of(name) } };
	char *block = request_copy_texts(&req);

	(void)state;
	is(req.claim.name, "name");
	is(req.slot, "");
	is(req.value, "");
	free(block);
}

static const char *explained(const struct request *req)
{
	static struct leased_error why;

	request_explain(req, &why);
	assert_int_equal(why.status, req->status);
	return why.text;
}

static void of_several_names_it_is_said_which_one_is_held(void **state)
{
	char a[] = "a", b[] = "b", host[] = "host", principal[] = "p";
	struct text names[] = { text_of(a), text_of(b) };
	struct lease_view view = { .claim = { .name = names[1], .host = text_of(host), .pid = 7,
		.principal = text_of(principal), .token = 9 }, .expires_in_ms = 1000, .holders = 3 };
	struct request req = { .verb = VERB_ACQUIRE, .status = LEASED_EHELD, .claim.name = names[1],
		.view = &view, .names = names, .n_names = 2 };

	(void)state;
	assert_string_equal(explained(&req),
		"\"b\": host:7:0000000000000000 (p) holds it with token 9, for 1s more, and 2 besides");
	req.view = NULL;
	assert_string_equal(explained(&req), "others wait for it");
}

static void of_several_names_it_is_said_which_one_was_lost(void **state)
{
	char b[] = "b";
	struct request req = { .verb = VERB_RENEW, .status = LEASED_ENOTHELD, .claim.name = text_of(b) };

	(void)state;
	assert_string_equal(explained(&req), "nobody holds it, there is no such lease");
	req.joined = true;
	assert_string_equal(explained(&req), "\"b\": nobody holds it, there is no such lease");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_needs_nothing_of_the_memory_it_came_in),
		cmocka_unit_test(what_was_not_sent_stays_empty),
		cmocka_unit_test(of_several_names_it_is_said_which_one_is_held),
		cmocka_unit_test(of_several_names_it_is_said_which_one_was_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
