/*
 * secure.h - the sealed side of a channel: the handshake as a client, then records. Bytes in, bytes out; the
 * socket is channel.c's. The background thread's alone.
 */
#ifndef SECURE_H
#define SECURE_H

#include "handshake.h"
#include "leased_status.h"
#include "sealed.h"

struct bytes {
	uint8_t *data;
	size_t len, size;
};

struct secure {
	const struct noise_keypair *own;
	struct noise_handshake handshake;
	struct noise_cipher opener;
	struct sealer sealer;
	struct bytes raw_in, raw_out; /* sealed: not yet opened, not yet sent */
	size_t raw_sent;
	bool established; /* the daemon has the key of its address */
	bool heard;       /* and lets us in: it has sealed something for us */
};

/* Room for len more bytes in total. False: out of memory. */
bool bytes_grow(struct bytes *b, size_t len);

/*
 * Begins a handshake: its first packet is in raw_out. own stays the caller's and must live as long. NULL and a
 * reason: LEASED_ENOMEM, LEASED_EPROTO.
 */
struct secure *secure_new(const struct noise_keypair *own, const uint8_t server[static NOISE_KEY_LEN],
	struct leased_error *err);

/* Once established, seals all of plain into raw_out, if that has been sent, and empties it. 0, LEASED_ENOMEM, LEASED_EPROTO. */
int secure_seal(struct secure *s, struct bytes *plain, struct leased_error *err);

/* Opens what raw_in holds, as far as it is whole, and appends it to plain. 0, LEASED_ENOMEM, LEASED_EPROTO. */
int secure_open(struct secure *s, struct bytes *plain, struct leased_error *err);

/*
 * Words the end of a connection: a daemon does not tell strangers why it closes. how is what was seen. Returns
 * LEASED_EUNAVAILABLE, or LEASED_EDENIED when it has closed as soon as it could know our key.
 */
int secure_closed(const struct secure *s, const char *how, struct leased_error *err);

/* Wipes and frees; NULL is fine. */
void secure_free(struct secure *s);

#endif
