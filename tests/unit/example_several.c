#include "example_several.h"

#include <string.h>

static ProtobufCBinaryData text(const char *s)
{
	return (ProtobufCBinaryData){ strlen(s), (uint8_t *)(uintptr_t)s };
}

static ProtobufCBinaryData also[1];

static Leased__Holder *holder(void)
{
	static Leased__Holder holder = LEASED__HOLDER__INIT;

	holder.host = text("web1");
	holder.pid = 4711;
	holder.nonce = 0x0123456789abcdef;
	also[0] = text("reports");
	return &holder;
}

void example_acquire_several(Leased__ClientMessage *m)
{
	static Leased__Acquire body = LEASED__ACQUIRE__INIT;

	body.name = text("nightly");
	body.holder = holder();
	body.ttl_ms = 90000;
	body.also = also;
	body.n_also = 1;
	body.max_holders = 3;
	m->acquire = &body;
}

void example_renew_several(Leased__ClientMessage *m)
{
	static Leased__Claim claim = LEASED__CLAIM__INIT;
	static Leased__Renewal renewal = LEASED__RENEWAL__INIT, *list[] = { &renewal };
	static Leased__Renew body = LEASED__RENEW__INIT;

	claim.name = text("nightly");
	claim.token = 42;
	claim.holder = holder();
	claim.also = also;
	claim.n_also = 1;
	renewal.claim = &claim;
	body.renewals = list;
	body.n_renewals = 1;
	m->renew = &body;
}

void example_get_holder(Leased__ClientMessage *m)
{
	static Leased__Get body = LEASED__GET__INIT;

	body.name = text("nightly");
	body.holder = holder();
	m->get = &body;
}
