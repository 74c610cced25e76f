#include "claim_message.h"

#include <string.h>

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
	ret_claim->name.data = (uint8_t *)(uintptr_t)name;
	ret_claim->name.len = strlen(name);
	ret_claim->token = token;
	ret_claim->holder = ret_holder;
}
