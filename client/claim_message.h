/*
 * claim_message.h - holders and claims as the protocol wants them. The messages point into what they are
 * made of.
 */
#ifndef CLAIM_MESSAGE_H
#define CLAIM_MESSAGE_H

#include "holder.h"
#include "leased.pb-c.h"

void holder_message(const struct holder *holder, Leased__Holder *ret_holder);

/* ret_holder is memory for the inner message. */
void claim_message(const char *name, const struct holder *holder, uint64_t token,
	Leased__Claim *ret_claim, Leased__Holder *ret_holder);

#endif
