#include "noise_cipher.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

#include "leased_status.h"

_Static_assert(NOISE_KEY_LEN == crypto_aead_chacha20poly1305_IETF_KEYBYTES &&
		       NOISE_TAG_LEN == crypto_aead_chacha20poly1305_IETF_ABYTES,
	"ChaChaPoly of section 12.3");

#define NONCE_LEN crypto_aead_chacha20poly1305_IETF_NPUBBYTES

/* Section 12.3: 32 bits of zeros, then n in little-endian. */
static void put_nonce(uint8_t nonce[static NONCE_LEN], uint64_t n)
{
	memset(nonce, 0, NONCE_LEN);
	for (unsigned i = 0; i < 8; i++)
		nonce[4 + i] = (uint8_t)(n >> 8 * i);
}

void noise_cipher_init(struct noise_cipher *c, const uint8_t key[static NOISE_KEY_LEN])
{
	memcpy(c->key, key, NOISE_KEY_LEN);
	c->n = 0;
	c->has_key = true;
}

int noise_encrypt(struct noise_cipher *c, const uint8_t *ad, size_t ad_len, const uint8_t *text,
	size_t len, uint8_t *out)
{
	uint8_t nonce[NONCE_LEN];
	unsigned long long used;

	if (!c->has_key) {
		memmove(out, text, len);
		return (int)len;
	}
	if (c->n >= NOISE_COUNT_MAX || len > NOISE_MESSAGE_MAX - NOISE_TAG_LEN)
		return LEASED_EPROTO;
	put_nonce(nonce, c->n++);
	crypto_aead_chacha20poly1305_ietf_encrypt(out, &used, text, len, ad, ad_len, NULL, nonce, c->key);
	return (int)used;
}

int noise_decrypt(struct noise_cipher *c, const uint8_t *ad, size_t ad_len, const uint8_t *sealed,
	size_t len, uint8_t *out)
{
	uint8_t nonce[NONCE_LEN];
	unsigned long long used;

	if (!c->has_key) {
		memmove(out, sealed, len);
		return (int)len;
	}
	if (c->n >= NOISE_COUNT_MAX || len < NOISE_TAG_LEN || len > NOISE_MESSAGE_MAX)
		return LEASED_EPROTO;
	put_nonce(nonce, c->n);
	if (crypto_aead_chacha20poly1305_ietf_decrypt(out, &used, NULL, sealed, len, ad, ad_len, nonce, c->key) < 0)
		return LEASED_EPROTO;
	c->n++; /* only now: a forged message must not shift it (section 5.1) */
	return (int)used;
}

/* Section 4.2: the first 32 bytes of ENCRYPT(k, 2^64 - 1, no ad, 32 zeros). */
void noise_rekey(struct noise_cipher *c)
{
	static const uint8_t zeros[NOISE_KEY_LEN];
	uint8_t sealed[NOISE_KEY_LEN + NOISE_TAG_LEN], nonce[NONCE_LEN];

	assert(c->has_key);
	put_nonce(nonce, UINT64_MAX);
	crypto_aead_chacha20poly1305_ietf_encrypt(sealed, NULL, zeros, sizeof zeros, NULL, 0, NULL, nonce, c->key);
	memcpy(c->key, sealed, NOISE_KEY_LEN);
	sodium_memzero(sealed, sizeof sealed);
}
