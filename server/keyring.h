/*
 * keyring.h - the daemon's own keys: the one in use, and the next one while a rotation lasts. Loop thread, or
 * before the loop; loading blocks.
 *
 * A rotation without downtime: name the new key in key_next and reload, so that both are good; give clients the
 * new public key, in their own time; then make it key, leave key_next out, and reload. Connections that were
 * made with the old one go on: their keys do not depend on it any more.
 */
#ifndef KEYRING_H
#define KEYRING_H

#include "config.h"
#include "handshake.h"

#define KEYRING_MAX 2

struct keyring {
	size_t n; /* 0: TCP travels as it is, and on loopback only */
	struct {
		const struct noise_keypair *pair;
		uint8_t mac_key[NOISE_KEY_LEN];
	} keys[KEYRING_MAX];
};

/* The keys that config names. 0; or LEASED_ECONFIG, LEASED_ENOMEM with a sentence, and ret_ring is untouched. */
int keyring_load(struct keyring *ret_ring, const struct config *config, struct leased_error *err);

/* The key that a first packet was made for, by its mac; NULL: none of ours. */
const struct noise_keypair *keyring_find(
	const struct keyring *ring, const uint8_t packet[static HANDSHAKE_FIRST_LEN]);

/* Logs the public keys: clients need them in their addresses. */
void keyring_log(const struct keyring *ring);

/* Wipes; accepts a zeroed struct. */
void keyring_fini(struct keyring *ring);

#endif
