#include "example_watch.h"

#include <string.h>

static ProtobufCBinaryData text(const char *s)
{
	return (ProtobufCBinaryData){ strlen(s), (uint8_t *)(uintptr_t)s };
}

void example_watch(Leased__ClientMessage *m)
{
	static Leased__Watch body = LEASED__WATCH__INIT;

	body.prefix = text("billing/");
	m->watch = &body;
}

void example_change(Leased__ServerMessage *m)
{
	static Leased__Holder holder = LEASED__HOLDER__INIT;
	static Leased__Change body = LEASED__CHANGE__INIT;

	holder.host = text("web1");
	holder.pid = 4711;
	holder.nonce = 0x0123456789abcdef;
	body.event = LEASED__CHANGE__EVENT__GRANTED;
	body.name = text("billing/eu");
	body.token = 42;
	body.holder = &holder;
	body.expires_in_ms = 90000;
	body.value = text("10.0.0.5");
	m->change = &body;
}
