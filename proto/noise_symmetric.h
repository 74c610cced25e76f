/*
 * noise_symmetric.h - the SymmetricState of Noise (revision 34, section 5.2) with BLAKE2b: what both sides
 * have agreed on so far, as a hash of all that was said and a chain of keys. Pure; any thread.
 */
#ifndef NOISE_SYMMETRIC_H
#define NOISE_SYMMETRIC_H

#include "noise_cipher.h"

#define NOISE_HASH_LEN 64

struct noise_symmetric {
	struct noise_cipher cipher;
	uint8_t ck[NOISE_HASH_LEN]; /* the chain of keys */
	uint8_t h[NOISE_HASH_LEN];  /* of the whole handshake */
};

/* InitializeSymmetric. */
void noise_symmetric_init(struct noise_symmetric *s, const char *protocol_name);

void noise_mix_hash(struct noise_symmetric *s, const void *data, size_t len);
void noise_mix_key(struct noise_symmetric *s, const uint8_t *input, size_t len);

/* EncryptAndHash, DecryptAndHash; room and results as of noise_encrypt and noise_decrypt. */
int noise_encrypt_and_hash(struct noise_symmetric *s, const uint8_t *text, size_t len, uint8_t *out);
int noise_decrypt_and_hash(struct noise_symmetric *s, const uint8_t *sealed, size_t len, uint8_t *out);

/* Split: one cipher for what the initiator says, one for what the responder does. */
void noise_symmetric_split(const struct noise_symmetric *s, struct noise_cipher *ret_initiator,
	struct noise_cipher *ret_responder);

#endif
