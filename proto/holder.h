/*
 * holder.h - who holds a lease: hostname, pid and a 64-bit random nonce, written host:pid:nonce with
 * the nonce as 16 lower-case hex digits. Any thread.
 */
#ifndef HOLDER_H
#define HOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leased_status.h"
#include "name.h"

struct holder {
	char host[HOST_MAX_LEN + 1];
	uint8_t host_len;
	int32_t pid; /* 1 to INT32_MAX */
	uint64_t nonce;
};

#define HOLDER_TEXT_SIZE (HOST_MAX_LEN + 1 + 10 + 1 + 16 + 1)

/*
 * This host, this process and a fresh nonce from libsodium: one call for each acquisition, so that
 * a retry is recognised and no two threads or containers pass for each other. Characters that a
 * host may not hold become '-'; no host name at all becomes "localhost".
 * The caller has called sodium_init.
 */
void holder_new(struct holder *ret_holder);

/* 0, or LEASED_EUSAGE with a sentence in err. The last two colons divide. */
int holder_parse(struct holder *ret_holder, const char *text, struct leased_error *err);

/* Writes host:pid:nonce and returns its length. */
size_t holder_format(char out[static HOLDER_TEXT_SIZE], const struct holder *holder);

#endif
