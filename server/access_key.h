/*
 * access_key.h - the public key of a client in its text form, as it stands in authorized_clients. Pure.
 */
#ifndef ACCESS_KEY_H
#define ACCESS_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "request.h"

#define ACCESS_KEY_LEN    32
#define ACCESS_KEY_PREFIX "leased-client-pub:"

/* Whether a word means to be a key, of whatever kind. */
bool access_key_is(struct text word);

/* LEASED_ECONFIG with a sentence, which does not quote a private key. */
int access_key_decode(uint8_t ret_key[static ACCESS_KEY_LEN], struct text word, struct leased_error *err);

#endif
