/*
 * noise.h - the handshake Noise_IK_25519_ChaChaPoly_BLAKE2b (Noise revision 34), packet to packet: no socket,
 * no clock, no state but what the caller holds. Pure; any thread.
 *
 * IK: the initiator knows the responder's public key beforehand and sends its own, sealed, in its first
 * message (section 7.5):
 *
 *   <- s
 *   ...
 *   -> e, es, s, ss        noise_write_first     noise_read_first
 *   <- e, ee, se           noise_read_second     noise_write_second
 *
 * What the first message says proves nothing yet (section 7.7): it may be a replay, and a thief of the
 * responder's key can make one in anybody's name. The responder knows the initiator by its first message after
 * the handshake, under the keys of noise_split.
 *
 * A failure (LEASED_EPROTO) wipes the handshake, which is of no more use.
 */
#ifndef NOISE_H
#define NOISE_H

#include "noise_symmetric.h"

/* Of the messages with an empty payload. */
#define NOISE_FIRST_LEN  (NOISE_KEY_LEN + NOISE_KEY_LEN + NOISE_TAG_LEN + NOISE_TAG_LEN)
#define NOISE_SECOND_LEN (NOISE_KEY_LEN + NOISE_TAG_LEN)

struct noise_keypair {
	uint8_t secret[NOISE_KEY_LEN], public[NOISE_KEY_LEN];
};

struct noise_handshake {
	struct noise_symmetric symmetric;
	const struct noise_keypair *own;     /* the caller's; until the handshake is over */
	uint8_t ephemeral[NOISE_KEY_LEN];    /* our secret one */
	uint8_t their_static[NOISE_KEY_LEN]; /* public; of the responder from noise_read_first on */
	uint8_t their_ephemeral[NOISE_KEY_LEN];
};

/* The public key of ret->secret. */
void noise_complete_keypair(struct noise_keypair *ret);

/* A fresh key pair, from the system's random source: one a connection for each side. */
void noise_new_keypair(struct noise_keypair *ret);

/* Both sides have to name the same prologue and the same responder's key, or no message can be read. */
void noise_init_initiator(struct noise_handshake *hs, const void *prologue, size_t len,
	const struct noise_keypair *own, const uint8_t responder[static NOISE_KEY_LEN]);
void noise_init_responder(struct noise_handshake *hs, const void *prologue, size_t len,
	const struct noise_keypair *own);

/*
 * Each in its turn. ephemeral is a fresh pair, whose secret the caller wipes. Those that write need room for
 * the payload and NOISE_FIRST_LEN or NOISE_SECOND_LEN, and return the bytes written; those that read need room
 * for the payload, which is shorter than the packet by as much, and return its bytes. A packet that is too short
 * or too long, or was changed, a key of low order (section 12.1), a message beyond 65,535 bytes: LEASED_EPROTO.
 */
int noise_write_first(struct noise_handshake *hs, const struct noise_keypair *ephemeral,
	const uint8_t *payload, size_t len, uint8_t *out);
int noise_read_first(struct noise_handshake *hs, const uint8_t *packet, size_t len, uint8_t *payload);
int noise_write_second(struct noise_handshake *hs, const struct noise_keypair *ephemeral,
	const uint8_t *payload, size_t len, uint8_t *out);
int noise_read_second(struct noise_handshake *hs, const uint8_t *packet, size_t len, uint8_t *payload);

/* The end: a cipher for each direction. Wipes the handshake; its hash (section 11.2) is in hs->symmetric.h until then. */
void noise_split(struct noise_handshake *hs, struct noise_cipher *ret_initiator,
	struct noise_cipher *ret_responder);

#endif
