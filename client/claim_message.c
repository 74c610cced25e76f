#include "claim_message.h"

#include <string.h>

#include "name.h"

ProtobufCBinaryData bytes_of(const char *text)
{
	return (ProtobufCBinaryData){ strlen(text), (uint8_t *)(uintptr_t)text };
}

int claim_check_names(const char *name, const char *const also[], size_t n_also, struct leased_error *err)
{
	ProtobufCBinaryData further[LEASED_NAMES_MAX] = { { 0 } };

	for (size_t i = 0; i < n_also && i < LEASED_NAMES_MAX; i++)
		further[i] = bytes_of(also[i]);
	return names_check(bytes_of(name), further, n_also, err);
}

size_t names_room(const ProtobufCBinaryData names[], size_t n)
{
	size_t room = n * sizeof names[0];

	for (size_t i = 0; i < n; i++)
		room += names[i].len;
	return room;
}

ProtobufCBinaryData *names_copy(void *room, const ProtobufCBinaryData names[], size_t n)
{
	ProtobufCBinaryData *copy = room;
	uint8_t *at = (uint8_t *)(copy + n);

	for (size_t i = 0; i < n; i++) {
		copy[i] = (ProtobufCBinaryData){ names[i].len, memcpy(at, names[i].data, names[i].len) };
		at += names[i].len;
	}
	return copy;
}

void holder_message(const struct holder *holder, Leased__Holder *ret_holder)
{
	leased__holder__init(ret_holder);
	ret_holder->host.data = (uint8_t *)(uintptr_t)holder->host;
	ret_holder->host.len = holder->host_len;
	ret_holder->pid = (uint32_t)holder->pid;
	ret_holder->nonce = holder->nonce;
}

void claim_message(const char *name, const struct holder *holder, uint64_t token,
	Leased__Claim *ret_claim, Leased__Holder *ret_holder)
{
	holder_message(holder, ret_holder);
	leased__claim__init(ret_claim);
	ret_claim->name = bytes_of(name);
	ret_claim->token = token;
	ret_claim->holder = ret_holder;
}
