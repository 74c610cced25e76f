#include "secure.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "key.h"
#include "status.h"

bool bytes_grow(struct bytes *b, size_t len)
{
	uint8_t *bigger;

	if (len <= b->size)
		return true;
	bigger = realloc(b->data, 2 * len);
	if (!bigger)
		return false;
	b->data = bigger;
	b->size = 2 * len;
	return true;
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t); /* a key is also an hour old after an hour asleep */
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

struct secure *secure_new(const struct noise_keypair *own, const uint8_t server[static NOISE_KEY_LEN],
	struct leased_error *err)
{
	struct secure *s = calloc(1, sizeof *s);
	struct noise_keypair ephemeral;
	int rc;

	if (!s || !bytes_grow(&s->raw_out, HANDSHAKE_FIRST_LEN)) {
		secure_free(s);
		fail(err, LEASED_ENOMEM, "out of memory");
		return NULL;
	}
	s->own = own;
	noise_new_keypair(&ephemeral);
	rc = handshake_ask(&s->handshake, own, &ephemeral, server, s->raw_out.data);
	sodium_memzero(&ephemeral, sizeof ephemeral);
	if (rc < 0) {
		secure_free(s);
		fail(err, rc, "the key in the address is none that a daemon can have");
		return NULL;
	}
	s->raw_out.len = HANDSHAKE_FIRST_LEN;
	return s;
}

int secure_seal(struct secure *s, struct bytes *plain, struct leased_error *err)
{
	size_t at = 0;

	if (!s->established || s->raw_sent < s->raw_out.len)
		return 0;
	s->raw_out.len = s->raw_sent = 0;
	while (at < plain->len) {
		size_t len = plain->len - at < SEALED_DATA_MAX ? plain->len - at : SEALED_DATA_MAX;
		int used;

		if (!bytes_grow(&s->raw_out, s->raw_out.len + sealed_size(len)))
			return fail(err, LEASED_ENOMEM, "out of memory");
		used = seal(&s->sealer, now_ms(), plain->data + at, len, s->raw_out.data + s->raw_out.len);
		if (used < 0)
			return fail(err, used, "this connection has sealed all that it may");
		s->raw_out.len += (size_t)used;
		at += len;
	}
	plain->len = 0;
	return 0;
}

/* The answer to our first packet. Returns the bytes used, 0 when more are needed. */
static int take_answer(struct secure *s, struct leased_error *err)
{
	struct handshake_keys keys;

	if (s->raw_in.len < HANDSHAKE_SECOND_LEN)
		return 0;
	if (handshake_finish(&s->handshake, s->raw_in.data, &keys) < 0)
		return fail(err, LEASED_EPROTO, "what answers is not the daemon with the key of this address");
	s->established = true;
	s->opener = keys.from_server;
	sealer_init(&s->sealer, &keys.from_client, now_ms());
	sodium_memzero(&keys, sizeof keys);
	return HANDSHAKE_SECOND_LEN;
}

static int take_record(struct secure *s, uint8_t *at, size_t len, struct bytes *plain, struct leased_error *err)
{
	int used = sealed_parse(at, len, SEALED_MAX), n;

	if (used == 0)
		return 0;
	n = used < 0 ? used : sealed_open(&s->opener, at, (size_t)used);
	if (n < 0)
		return fail(err, LEASED_EPROTO, "a record does not open: something on the way has changed it");
	if (!bytes_grow(plain, plain->len + (size_t)n))
		return fail(err, LEASED_ENOMEM, "out of memory");
	memcpy(plain->data + plain->len, at + SEALED_HEADER_LEN + SEALED_PREFIX_LEN, (size_t)n);
	plain->len += (size_t)n;
	s->heard = true;
	return used;
}

int secure_open(struct secure *s, struct bytes *plain, struct leased_error *err)
{
	size_t at = 0;
	int used;

	do {
		if (s->established)
			used = take_record(s, s->raw_in.data + at, s->raw_in.len - at, plain, err);
		else
			used = take_answer(s, err);
		at += used > 0 ? (size_t)used : 0;
	} while (used > 0);
	s->raw_in.len -= at;
	if (s->raw_in.len > 0)
		memmove(s->raw_in.data, s->raw_in.data + at, s->raw_in.len);
	return used;
}

int secure_closed(const struct secure *s, const char *how, struct leased_error *err)
{
	char own[KEY_TEXT_SIZE];

	if (s->heard)
		return fail(err, LEASED_EUNAVAILABLE, "%s", how);
	if (!s->established)
		return fail(err, LEASED_EUNAVAILABLE,
			"%s in the handshake: is its key the one in the address, and has it room?", how);
	key_format(own, KEY_CLIENT_PUBLIC, s->own->public);
	return fail(err, LEASED_EDENIED, "%s after the handshake: is our key in its authorized_clients? It is %s",
		how, own);
}

static void bytes_wipe(struct bytes *b)
{
	if (b->data)
		sodium_memzero(b->data, b->size);
	free(b->data);
}

void secure_free(struct secure *s)
{
	if (!s)
		return;
	bytes_wipe(&s->raw_in); /* records are opened in place */
	free(s->raw_out.data);
	sodium_memzero(s, sizeof *s);
	free(s);
}
