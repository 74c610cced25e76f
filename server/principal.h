/*
 * principal.h - who is behind a connection. Loop thread. Only the principal that acquired a lease may
 * renew or release it.
 */
#ifndef PRINCIPAL_H
#define PRINCIPAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <uv.h>

#include "leased_status.h"
#include "noise_cipher.h"

#define PRINCIPAL_SIZE 256

struct principal {
	char name[PRINCIPAL_SIZE]; /* USER@HOST behind a Unix socket, loopback@HOST behind plain TCP; of a key the client's */
	size_t len;
	pid_t pid;                 /* of a Unix peer as the kernel tells it (SO_PEERCRED), else 0 */
	uid_t uid;                 /* likewise, else (uid_t)-1 */
	gid_t gid;                 /* likewise, else (gid_t)-1 */
	bool has_key;              /* of a sealed connection: */
	uint8_t key[NOISE_KEY_LEN]; /* the public key whose secret the client has shown to have */
};

/*
 * Asks the kernel who the peer of an accepted stream is, and the system for the name. 0, LEASED_EDENIED, or
 * LEASED_EUNAVAILABLE: it could not be looked up, but may be later.
 */
int principal_of_stream(struct principal *ret_principal, uv_stream_t *stream, struct leased_error *err);

/*
 * All groups of a Unix peer as they were when it connected, the first one included; the caller frees. None of
 * another stream. LEASED_EDENIED, LEASED_ENOMEM.
 */
int principal_groups(gid_t **ret_groups, size_t *ret_n, const struct principal *p, uv_stream_t *stream,
	struct leased_error *err);

/*
 * Who has this public key, proven by the handshake. It is named by the key itself: that the key is a known one,
 * and how its owner is called, is for the rules of authorized_clients to say.
 */
void principal_of_key(struct principal *ret_principal, const uint8_t key[static NOISE_KEY_LEN]);

#endif
