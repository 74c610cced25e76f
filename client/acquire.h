/*
 * acquire.h - one acquisition, for those who wait for it (lease.c) and those who go on without (election.c).
 */
#ifndef ACQUIRE_H
#define ACQUIRE_H

#include "client.h"

struct acquire {
	struct call call;
	struct leased_lease *lease;
	const struct leased_acquire_options *options;
	int64_t wait_until_ns;
	Leased__Acquire message;
	Leased__Holder holder;
};

/* Whether name and options can be used. 0, LEASED_EDATA, LEASED_EUSAGE. */
int acquire_check(const struct leased_client *client, const char *name,
	const struct leased_acquire_options *o, struct leased_error *err);

/* A PENDING lease with a fresh nonce; acquire_check has passed the options. NULL: out of memory. */
struct leased_lease *lease_new(struct leased_client *client, const char *name,
	const struct leased_acquire_options *o);

/* Prepares a->call, which is not queued yet; the wait counts from now. lease and options live as long. */
void acquire_begin(struct acquire *a, struct leased_lease *lease,
	const struct leased_acquire_options *options);

/*
 * Granted: takes the token, and the deadline if the grant itself proves one. False: the wait has used it
 * up, and only a renewal that is sent now proves that the lease is held.
 */
bool acquire_take_proof(struct acquire *a);

/*
 * From here on the lease is held, and renewed unless its user does that. LEASED_ECANCELLED: it is given
 * back, because nobody wants it any more. Locked.
 */
int acquire_hold(struct leased_lease *lease, struct leased_error *err);

#endif
