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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_needs_nothing_of_the_memory_it_came_in),
		cmocka_unit_test(what_was_not_sent_stays_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
