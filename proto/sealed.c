#include "sealed.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

#include "leased_status.h"

_Static_assert(SEALED_TEXT_MAX + NOISE_TAG_LEN <= NOISE_MESSAGE_MAX, "a record is one Noise message");

/* Padme (Nikitin and others, "Reducing Metadata Leakage from Encrypted Files", 2019): keeps few leading bits of a length. */
static size_t padded(size_t len)
{
	unsigned bits = 0, kept = 0;
	size_t mask;

	if (len <= SEALED_TEXT_MIN)
		return SEALED_TEXT_MIN;
	while (len >> (bits + 1))
		bits++;
	while (bits >> kept)
		kept++;
	mask = ((size_t)1 << (bits - kept)) - 1;
	return (len + mask) & ~mask;
}

void sealer_init(struct sealer *s, const struct noise_cipher *cipher, int64_t now_ms)
{
	s->cipher = *cipher; /* field by field: no copy of the key is made on the way */
	s->in_key = 0;
	s->since_ms = now_ms;
}

size_t sealed_size(size_t len)
{
	assert(len >= 1 && len <= SEALED_DATA_MAX);
	return SEALED_HEADER_LEN + padded(SEALED_PREFIX_LEN + len) + NOISE_TAG_LEN;
}

int seal(struct sealer *s, int64_t now_ms, const uint8_t *data, size_t len, uint8_t *out)
{
	size_t size = sealed_size(len), body = size - SEALED_HEADER_LEN;
	uint8_t *text = out + SEALED_HEADER_LEN;
	bool rekey = ++s->in_key >= SEALED_REKEY_RECORDS || now_ms - s->since_ms >= SEALED_REKEY_MS;

	out[0] = (uint8_t)(body >> 8);
	out[1] = (uint8_t)body;
	text[0] = rekey ? SEALED_REKEY : 0;
	text[1] = (uint8_t)(len >> 8);
	text[2] = (uint8_t)len;
	memcpy(text + SEALED_PREFIX_LEN, data, len);
	memset(text + SEALED_PREFIX_LEN + len, 0, body - NOISE_TAG_LEN - SEALED_PREFIX_LEN - len);
	if (noise_encrypt(&s->cipher, NULL, 0, text, body - NOISE_TAG_LEN, text) < 0) {
		sodium_memzero(out, size);
		return LEASED_EPROTO;
	}
	if (rekey) {
		noise_rekey(&s->cipher);
		s->in_key = 0;
		s->since_ms = now_ms;
	}
	return (int)size;
}

int sealed_parse(const uint8_t *data, size_t len, size_t max)
{
	size_t size;

	if (len < SEALED_HEADER_LEN)
		return 0;
	size = SEALED_HEADER_LEN + ((size_t)data[0] << 8 | data[1]);
	if (size < SEALED_HEADER_LEN + SEALED_PREFIX_LEN + 1 + NOISE_TAG_LEN || size > max)
		return LEASED_EPROTO;
	return len < size ? 0 : (int)size;
}

int sealed_open(struct noise_cipher *cipher, uint8_t *record, size_t len)
{
	uint8_t *text = record + SEALED_HEADER_LEN;
	int used = noise_decrypt(cipher, NULL, 0, text, len - SEALED_HEADER_LEN, text);
	size_t n;

	if (used < SEALED_PREFIX_LEN)
		return LEASED_EPROTO;
	n = (size_t)text[1] << 8 | text[2];
	if ((text[0] & ~SEALED_REKEY) || n == 0 || n > (size_t)used - SEALED_PREFIX_LEN)
		return LEASED_EPROTO;
	if (text[0] & SEALED_REKEY)
		noise_rekey(cipher);
	return (int)n;
}
