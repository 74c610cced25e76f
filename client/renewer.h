/*
 * renewer.h - renews leases in time, or declares their loss. Any thread, with the lock held, unless it
 * says otherwise; what runs callbacks is the background thread's alone, and runs them unlocked.
 */
#ifndef RENEWER_H
#define RENEWER_H

#include "client.h"

/* A lease is held from now on, or its times have changed: when to look at it. */
void renewer_schedule(struct leased_client *client, struct leased_lease *lease);

/* What a client takes off a deadline. Needs no lock. */
int64_t renewer_margin_ms(const struct leased_client *client, int64_t ttl_ms);

/*
 * A deadline from the moment before sending, less the margin. expires_in_ms is what the answer says;
 * it can only shorten. Needs no lock.
 */
int64_t renewer_deadline(const struct leased_client *client, int64_t sent_ns, int64_t ttl_ms,
	uint64_t expires_in_ms);

/* How long an answer may be missing: a part of the shortest ttl, so that time is left for other tries. */
int64_t renewer_patience_ns(const struct leased_client *client, int64_t part, int64_t max_ms);

/* Declares what has passed its deadline lost and queues renewals that are due. Background thread. */
void renewer_run(struct leased_client *client);

/* Ends a lease: off the list, not held. */
void renewer_drop(struct leased_lease *lease, enum lease_state state);

/* Frees a lease that its user has freed already, once nobody renews it any more. */
void renewer_collect(struct leased_lease *lease);

/* Ends a lease as lost and runs on_lost. Background thread. */
void renewer_lose(struct leased_lease *lease, const struct leased_error *why);

/*
 * A renewal with this ttl is about to be sent: if it is shorter, the database may go by it long before
 * the answer comes.
 */
void renewer_expect_ttl(struct leased_lease *lease, int64_t ttl_ms);

/*
 * Takes the result of a renewal that was sent at sent_ns; ret_why->status is what it means for the
 * lease, 0 or an error in words, set before any callback; those come last. Background thread.
 */
void renewer_take_result(struct leased_lease *lease, int64_t sent_ns,
	const Leased__RenewalResult *result, struct leased_error *ret_why);

/* The daemon says that a grant was ended by somebody else; one that we do not hold is ignored. */
void renewer_take_lost(struct leased_client *client, const Leased__Lost *lost);

/* A renewal as the protocol wants it. */
void renewal_message(const struct leased_lease *lease, Leased__Claim *claim, Leased__Renewal *ret_renewal);

/* A claim as the protocol wants it, from a lease; holder is memory for the inner message. */
void lease_claim(const struct leased_lease *lease, Leased__Claim *ret_claim,
	Leased__Holder *ret_holder);

#endif
