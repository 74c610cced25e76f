/*
 * transport_seal.h - the seal on a transport's bytes: records in, records out. Loop thread.
 */
#ifndef TRANSPORT_SEAL_H
#define TRANSPORT_SEAL_H

#include "handshake.h"
#include "sealed.h"

struct transport_seal {
	struct sealer sealer;
	struct noise_cipher opener;
	uint8_t *raw;          /* the start of a record whose end has not come */
	size_t raw_len, raw_size;
};

/* A seal with these keys, which may have been used already. NULL: out of memory. */
struct transport_seal *transport_seal_new(const struct handshake_keys *keys);

/*
 * Takes the next whole record from data, which it may change, whole or with what is left of the one before, and
 * moves *data and *len beyond what it has used. Returns the bytes of *ret_text, which live until the next call;
 * 0: no whole record is left; LEASED_EPROTO; LEASED_ENOMEM. data_max bounds what a record may hold.
 */
int transport_seal_open(struct transport_seal *ts, size_t data_max, uint8_t **data, size_t *len,
	const uint8_t **ret_text);

/* The last text is not needed any more: a client that says nothing keeps no room. */
void transport_seal_forget(struct transport_seal *ts);

/* Seals len bytes into a buffer of their own, which the caller frees. NULL: no memory, or no more can be sealed. */
uint8_t *transport_seal_close(struct transport_seal *ts, const uint8_t *data, size_t len, size_t *ret_len);

/* Wipes and frees; NULL is fine. */
void transport_seal_free(struct transport_seal *ts);

#endif
