/*
 * handshake.h - the two packets that open a sealed connection: what Noise leaves to its user. Packet to packet;
 * pure but for randomness; any thread.
 *
 *   client -> server   mac, 16 bytes | first message of IK, 96 bytes
 *   client <- server   second message of IK, 48 bytes
 *
 * Then both sides send sealed records (sealed.h). The mac is keyed with what anybody can compute from the
 * server's public key: it is no proof of anything, but lets a server drop what was not meant for it in less
 * than a microsecond, before the first operation on the curve. After WireGuard's mac1.
 *
 * Name and version of the protocol are in prologue and mac, so that another version is not taken for this one,
 * and nothing of it travels in clear. Payloads are empty: no act may come of a first packet, which can be a
 * replay. A client is who it says it is once sealed_open has opened a record of it.
 */
#ifndef HANDSHAKE_H
#define HANDSHAKE_H

#include "noise.h"

#define HANDSHAKE_PROLOGUE   "leased 1"
#define HANDSHAKE_MAC_LABEL  "leased 1 mac"
#define HANDSHAKE_MAC_LEN    16
#define HANDSHAKE_FIRST_LEN  (HANDSHAKE_MAC_LEN + NOISE_FIRST_LEN)
#define HANDSHAKE_SECOND_LEN NOISE_SECOND_LEN

/* For each direction the key to begin with. */
struct handshake_keys {
	struct noise_cipher from_client, from_server;
};

/* The key of the macs for a server: BLAKE2b, 32 bytes, of label and public key. No secret. */
void handshake_mac_key(uint8_t ret_key[static NOISE_KEY_LEN], const uint8_t server[static NOISE_KEY_LEN]);

/* Client: the first packet. own and ephemeral stay the caller's, own until handshake_finish. LEASED_EPROTO: no good server key. */
int handshake_ask(struct noise_handshake *hs, const struct noise_keypair *own,
	const struct noise_keypair *ephemeral, const uint8_t server[static NOISE_KEY_LEN],
	uint8_t out[static HANDSHAKE_FIRST_LEN]);

/* Server: whether a packet was meant for the holder of this mac key. Cheap. */
bool handshake_is_for(const uint8_t mac_key[static NOISE_KEY_LEN], const uint8_t packet[static HANDSHAKE_FIRST_LEN]);

/*
 * Server: reads a packet that handshake_is_for and writes the second one; costs five multiplications. ret_client
 * is the public key that the client claims to have. LEASED_EPROTO: nothing is said to the client.
 */
int handshake_answer(const struct noise_keypair *own, const struct noise_keypair *ephemeral,
	const uint8_t packet[static HANDSHAKE_FIRST_LEN], uint8_t out[static HANDSHAKE_SECOND_LEN],
	uint8_t ret_client[static NOISE_KEY_LEN], struct handshake_keys *ret_keys);

/* Client: reads the second packet: from here on it is known that the server is the one. 0 or LEASED_EPROTO. */
int handshake_finish(struct noise_handshake *hs, const uint8_t packet[static HANDSHAKE_SECOND_LEN],
	struct handshake_keys *ret_keys);

#endif
