#include "example_access.h"

#include <string.h>

static ProtobufCBinaryData text(const char *s)
{
	return (ProtobufCBinaryData){ strlen(s), (uint8_t *)(uintptr_t)s };
}

void example_whoami(Leased__ClientMessage *m)
{
	static Leased__Whoami body = LEASED__WHOAMI__INIT;

	m->whoami = &body;
}

void example_identity(Leased__ServerMessage *m)
{
	static char client[] = "web", acquire[] = "acquire", renew[] = "renew", get[] = "get", watch[] = "watch";
	static char *first_verbs[] = { acquire, renew, get }, *second_verbs[] = { watch };
	static Leased__Rule first = LEASED__RULE__INIT, second = LEASED__RULE__INIT, *rules[] = { &first, &second };
	static Leased__Identity body = LEASED__IDENTITY__INIT;

	first.verbs = first_verbs;
	first.n_verbs = 3;
	first.pattern = text("billing/**");
	second.verbs = second_verbs;
	second.n_verbs = 1;
	second.pattern = text("**");
	body.principal = text("web");
	body.client = client;
	body.rules = rules;
	body.n_rules = 2;
	body.until_us = INT64_C(1798761600000000);
	body.leases_max = 10;
	body.leases = 3;
	m->identity = &body;
}
