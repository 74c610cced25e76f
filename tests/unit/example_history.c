#include "example_history.h"

#include <stdbool.h>
#include <string.h>

static ProtobufCBinaryData text(const char *s)
{
	return (ProtobufCBinaryData){ strlen(s), (uint8_t *)(uintptr_t)s };
}

void example_history(Leased__ClientMessage *m)
{
	static Leased__History body = LEASED__HISTORY__INIT;

	body.failed = true;
	body.prefix = text("billing/");
	body.since_ms = 86400000;
	m->history = &body;
}

void example_grants(Leased__ServerMessage *m)
{
	static Leased__Holder holder = LEASED__HOLDER__INIT;
	static Leased__Grant row = LEASED__GRANT__INIT, *rows[] = { &row };
	static Leased__Grants body = LEASED__GRANTS__INIT;

	holder.host = text("web1");
	holder.pid = 4711;
	holder.nonce = 0x0123456789abcdef;
	row.name = text("billing/eu");
	row.token = 42;
	row.ended = LEASED__GRANT__ENDING__RELEASED;
	row.holder = &holder;
	row.principal = text("root@web1");
	row.acquired_at_us = INT64_C(1767225600000000);
	row.ended_at_us = INT64_C(1767225660000000);
	row.held_for_ms = 60000;
	row.ending_case = LEASED__GRANT__ENDING_EXIT_STATUS;
	row.exit_status = 3;
	body.grants = rows;
	body.n_grants = 1;
	body.next = text("f7");
	body.keep_ms = 1209600000;
	m->grants = &body;
}
