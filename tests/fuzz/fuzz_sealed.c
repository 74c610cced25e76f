/*
 * Records: as they come from the wire, and what a peer may seal into them. The daemon's side of it
 * (transport_seal.c) takes them in any pieces, and gets the same out.
 */
#include <sodium.h>

#include "fuzz.h"
#include "leased_status.h"
#include "sealed.h"
#include "transport_seal.h"

static const uint8_t key[NOISE_KEY_LEN] = { 9 };

/* Bytes that nobody has sealed never open. */
static void check_wire(const uint8_t *data, size_t size)
{
	int used = sealed_parse(data, size, SEALED_MAX);
	struct noise_cipher cipher;
	uint8_t *record;

	assert(used == 0 || used == LEASED_EPROTO || (used > 0 && (size_t)used <= size && used <= SEALED_MAX));
	if (used <= 0)
		return;
	record = malloc((size_t)used);
	assert(record);
	memcpy(record, data, (size_t)used);
	noise_cipher_init(&cipher, key);
	assert(sealed_open(&cipher, record, (size_t)used) == LEASED_EPROTO && cipher.n == 0);
	free(record);
}

/* The input as the text of a record, well sealed. */
static void check_text(const uint8_t *data, size_t size)
{
	struct noise_cipher ours, theirs;
	uint8_t *record = malloc(SEALED_HEADER_LEN + size + NOISE_TAG_LEN);
	int n;

	assert(record);
	noise_cipher_init(&ours, key);
	theirs = ours;
	noise_encrypt(&theirs, NULL, 0, data, size, record + SEALED_HEADER_LEN);
	n = sealed_open(&ours, record, SEALED_HEADER_LEN + size + NOISE_TAG_LEN);
	assert(n == LEASED_EPROTO || (n >= 1 && (size_t)n <= size - SEALED_PREFIX_LEN));
	if (n > 0)
		assert(memcmp(record + SEALED_HEADER_LEN + SEALED_PREFIX_LEN, data + SEALED_PREFIX_LEN, (size_t)n) == 0);
	free(record);
}

/* Takes the next piece of a stream; what comes out has to be what went in. */
static const uint8_t *take_piece(struct transport_seal *ts, uint8_t *piece, size_t len, const uint8_t *want)
{
	const uint8_t *text;
	int n;

	do {
		n = transport_seal_open(ts, SEALED_DATA_MAX, &piece, &len, &text);
		assert(n >= 0);
		assert(n == 0 || memcmp(text, want, (size_t)n) == 0);
		want += n;
	} while (n > 0 && len > 0);
	assert(len == 0);
	return want;
}

/* The input as a stream, in records whose lengths and pieces it chooses itself. */
static void check_stream(const uint8_t *data, size_t size)
{
	struct handshake_keys keys;
	struct transport_seal *out, *in;
	const uint8_t *want = data;
	uint8_t *wire, *piece;
	size_t len, take;

	noise_cipher_init(&keys.from_client, key);
	keys.from_server = keys.from_client; /* one seals what the other opens */
	out = transport_seal_new(&keys);
	in = transport_seal_new(&keys);
	assert(out && in);
	for (size_t at = 0; at < size; at += take) {
		take = 1 + data[at] % 250;
		take = take < size - at ? take : size - at;
		wire = transport_seal_close(out, data + at, take, &len);
		assert(wire);
		for (size_t i = 0; i < len; i += 1 + data[at] % 97) {
			size_t n = 1 + data[at] % 97u < len - i ? 1 + data[at] % 97u : len - i;

			piece = malloc(n);
			assert(piece);
			memcpy(piece, wire + i, n);
			want = take_piece(in, piece, n, want);
			free(piece);
		}
		free(wire);
	}
	assert(want == data + size);
	transport_seal_free(out);
	transport_seal_free(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	assert(sodium_init() >= 0);
	check_wire(data, size);
	check_text(data, size);
	check_stream(data, size < 1000 ? size : 1000); /* more takes long, and is the same again */
	return 0;
}
