/*
 * noise_cipher.h - the CipherState of Noise (revision 34, section 5.1): ChaCha20-Poly1305 under one key,
 * with a counter as the nonce. Pure; any thread.
 */
#ifndef NOISE_CIPHER_H
#define NOISE_CIPHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NOISE_KEY_LEN 32
#define NOISE_TAG_LEN 16
/* A message on the wire is no longer than this (section 3). */
#define NOISE_MESSAGE_MAX 65535
/* Messages under one CipherState; far below where its counter would wrap. Rekeying does not set it back. */
#define NOISE_COUNT_MAX (UINT64_C(1) << 60)

struct noise_cipher {
	uint8_t key[NOISE_KEY_LEN];
	uint64_t n;   /* the next message's nonce */
	bool has_key; /* without one text passes as it is */
};

/* InitializeKey. */
void noise_cipher_init(struct noise_cipher *c, const uint8_t key[static NOISE_KEY_LEN]);

/*
 * EncryptWithAd. out has room for len + NOISE_TAG_LEN and may be text itself. Returns the bytes written, or
 * LEASED_EPROTO: the counter has come to its end, or the message would be too long; out is untouched then.
 */
int noise_encrypt(struct noise_cipher *c, const uint8_t *ad, size_t ad_len, const uint8_t *text,
	size_t len, uint8_t *out);

/*
 * DecryptWithAd. out has room for len and may be sealed itself. Returns the bytes of text, or LEASED_EPROTO
 * when the tag does not fit: then the counter stays, nothing of the text is in out, and the connection is of
 * no more use.
 */
int noise_decrypt(struct noise_cipher *c, const uint8_t *ad, size_t ad_len, const uint8_t *sealed,
	size_t len, uint8_t *out);

/* Rekey (sections 4.2 and 11.3): the key that was cannot be found from the one that is. The counter stays. */
void noise_rekey(struct noise_cipher *c);

#endif
