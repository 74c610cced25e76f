#include "noise_symmetric.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

#define BLOCK_LEN 128  /* BLOCKLEN of BLAKE2b, section 12.6 */
#define STACK_LEN 4096 /* more than a hash takes */

_Static_assert(NOISE_HASH_LEN == crypto_generichash_blake2b_BYTES_MAX, "HASHLEN of BLAKE2b, section 12.6");

/* HASH(first || second). */
static void hash(uint8_t out[static NOISE_HASH_LEN], const void *first, size_t first_len, const void *second,
	size_t second_len)
{
	crypto_generichash_blake2b_state state;

	crypto_generichash_blake2b_init(&state, NULL, 0, NOISE_HASH_LEN);
	crypto_generichash_blake2b_update(&state, first, first_len);
	crypto_generichash_blake2b_update(&state, second, second_len);
	crypto_generichash_blake2b_final(&state, out, NOISE_HASH_LEN);
	sodium_memzero(&state, sizeof state);
}

/*
 * HMAC-HASH(key, data || number): HMAC of RFC 2104 as section 4.3 wants it, not BLAKE2b's own keyed mode. A
 * number of 0 is none.
 */
static void hmac(uint8_t out[static NOISE_HASH_LEN], const uint8_t key[static NOISE_HASH_LEN],
	const uint8_t *data, size_t len, uint8_t number)
{
	uint8_t pad[BLOCK_LEN], text[NOISE_HASH_LEN + 1];

	assert(len <= NOISE_HASH_LEN);
	if (len > 0)
		memcpy(text, data, len);
	if (number)
		text[len++] = number;
	memset(pad, 0x36, sizeof pad);
	for (unsigned i = 0; i < NOISE_HASH_LEN; i++)
		pad[i] ^= key[i];
	hash(out, pad, sizeof pad, text, len);
	for (unsigned i = 0; i < sizeof pad; i++)
		pad[i] ^= 0x36 ^ 0x5c;
	hash(out, pad, sizeof pad, out, NOISE_HASH_LEN);
	sodium_memzero(pad, sizeof pad);
	sodium_memzero(text, sizeof text);
}

/*
 * HKDF with two outputs (section 4.3). first may be the chaining key itself. libsodium's hash leaves its last output
 * on the stack, which is a key here.
 */
static void hkdf(uint8_t first[static NOISE_HASH_LEN], uint8_t second[static NOISE_HASH_LEN],
	const uint8_t ck[static NOISE_HASH_LEN], const uint8_t *input, size_t len)
{
	uint8_t temp[NOISE_HASH_LEN];

	hmac(temp, ck, input, len, 0);
	hmac(first, temp, NULL, 0, 1);
	hmac(second, temp, first, NOISE_HASH_LEN, 2);
	sodium_memzero(temp, sizeof temp);
	sodium_stackzero(STACK_LEN);
}

void noise_symmetric_init(struct noise_symmetric *s, const char *protocol_name)
{
	size_t len = strlen(protocol_name);

	assert(len <= NOISE_HASH_LEN);
	*s = (struct noise_symmetric){ .cipher = { .has_key = false } };
	memcpy(s->h, protocol_name, len); /* not over HASHLEN: padded with zeros, not hashed */
	memcpy(s->ck, s->h, NOISE_HASH_LEN);
}

void noise_mix_hash(struct noise_symmetric *s, const void *data, size_t len)
{
	hash(s->h, s->h, NOISE_HASH_LEN, data, len);
}

void noise_mix_key(struct noise_symmetric *s, const uint8_t *input, size_t len)
{
	uint8_t key[NOISE_HASH_LEN];

	hkdf(s->ck, key, s->ck, input, len);
	noise_cipher_init(&s->cipher, key); /* of HASHLEN 64 the first 32 bytes */
	sodium_memzero(key, sizeof key);
}

int noise_encrypt_and_hash(struct noise_symmetric *s, const uint8_t *text, size_t len, uint8_t *out)
{
	int used = noise_encrypt(&s->cipher, s->h, NOISE_HASH_LEN, text, len, out);

	if (used >= 0)
		noise_mix_hash(s, out, (size_t)used);
	return used;
}

int noise_decrypt_and_hash(struct noise_symmetric *s, const uint8_t *sealed, size_t len, uint8_t *out)
{
	uint8_t before[NOISE_HASH_LEN];

	memcpy(before, s->h, sizeof before);
	noise_mix_hash(s, sealed, len); /* before the text takes its place */
	return noise_decrypt(&s->cipher, before, sizeof before, sealed, len, out);
}

void noise_symmetric_split(const struct noise_symmetric *s, struct noise_cipher *ret_initiator,
	struct noise_cipher *ret_responder)
{
	uint8_t first[NOISE_HASH_LEN], second[NOISE_HASH_LEN];

	hkdf(first, second, s->ck, NULL, 0);
	noise_cipher_init(ret_initiator, first);
	noise_cipher_init(ret_responder, second);
	sodium_memzero(first, sizeof first);
	sodium_memzero(second, sizeof second);
}
