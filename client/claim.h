/*
 * claim.h - renewing and releasing a lease that one has: what leased_acquire needs of it. The public
 * calls stand beside it.
 */
#ifndef CLAIM_H
#define CLAIM_H

#include "client.h"

/* One renewal, waited for; ttl_ms 0 keeps the ttl. A PENDING lease gets its times only. */
int claim_renew(struct leased_lease *lease, int64_t ttl_ms, struct leased_error *err);

/* Whether a ttl can be used with this client. 0 or LEASED_EUSAGE. */
int claim_check_ttl(const struct leased_client *client, int64_t ttl_ms, struct leased_error *err);

/* An error that says what was tried, on what. */
int claim_fail(struct leased_error *err, const char *verb, const char *name, int status,
	const char *why);

#endif
