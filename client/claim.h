/*
 * claim.h - renewing and releasing a lease that one has: what leased_acquire needs of it. The public
 * calls stand beside it.
 */
#ifndef CLAIM_H
#define CLAIM_H

#include "client.h"

/* What a renewal changes besides the expiry. */
struct claim_change {
	int64_t ttl_ms;    /* 0 keeps the ttl */
	bool set_value;
	const void *value; /* set_value */
	size_t value_len;
};

/* One renewal, waited for. A PENDING lease gets its times only. */
int claim_renew(struct leased_lease *lease, const struct claim_change *change,
	struct leased_error *err);

/* Whether a ttl can be used with this client. 0 or LEASED_EUSAGE. */
int claim_check_ttl(const struct leased_client *client, int64_t ttl_ms, struct leased_error *err);

/* An error that says what was tried, on what. */
int claim_fail(struct leased_error *err, const char *verb, const char *name, int status,
	const char *why);

#endif
