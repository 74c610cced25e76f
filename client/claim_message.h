/*
 * claim_message.h - names, holders and claims as the protocol wants them. The messages point into what they
 * are made of.
 */
#ifndef CLAIM_MESSAGE_H
#define CLAIM_MESSAGE_H

#include "holder.h"
#include "leased.pb-c.h"
#include "leased_status.h"

ProtobufCBinaryData bytes_of(const char *text);

/* names_check for texts of C: 0 or LEASED_EDATA. */
int claim_check_names(const char *name, const char *const also[], size_t n_also, struct leased_error *err);

/* The memory that a copy of n names takes, and the copy there: the array, and the texts behind it. */
size_t names_room(const ProtobufCBinaryData names[], size_t n);
ProtobufCBinaryData *names_copy(void *room, const ProtobufCBinaryData names[], size_t n);

void holder_message(const struct holder *holder, Leased__Holder *ret_holder);

/* ret_holder is memory for the inner message. */
void claim_message(const char *name, const struct holder *holder, uint64_t token,
	Leased__Claim *ret_claim, Leased__Holder *ret_holder);

#endif
