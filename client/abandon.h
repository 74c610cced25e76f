/*
 * abandon.h - grants that nobody uses: acquires that their callers have given up while nobody knew whether
 * they would be, or had been, granted; what is left of leases that were lost by one of several names. The
 * background thread goes on until nothing is held, or as long as it could be.
 */
#ifndef ABANDON_H
#define ABANDON_H

#include "client.h"

/*
 * Goes on with an acquire of this lease's name, holder and ttl in place of call, which has been sent
 * and is no longer in the list. Without memory, or over ABANDONED_MAX of them, a grant stays until it
 * expires. Locked.
 */
void abandon_acquire(struct leased_client *client, const struct call *call,
	const struct leased_lease *lease);

/* Gives back a grant that nobody uses, or what is left of it, without waiting for it. Locked. */
void abandon_grant(struct leased_client *client, const struct leased_lease *lease);

#endif
