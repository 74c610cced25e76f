/*
 * renewer.h - renews leases in time, or declares their loss. Called by the background thread with the
 * lock held; callbacks run with it released.
 */
#ifndef RENEWER_H
#define RENEWER_H

#include "client.h"

/* A new lease is held from now on, or its times have changed: when to look at it. Locked. */
void renewer_schedule(struct leased_client *client, struct leased_lease *lease);

/* A deadline from the moment before sending and the time left in the answer, less the margin. */
int64_t renewer_deadline(const struct leased_client *client, int64_t sent_ns, int64_t ttl_ms,
	uint64_t expires_in_ms);

/* Declares what has passed its deadline lost and queues renewals that are due. Locked. */
void renewer_run(struct leased_client *client);

/* Ends a lease: off the list, not held. Locked. */
void renewer_drop(struct leased_lease *lease, enum lease_state state);

/* Ends a lease as lost and runs on_lost. Locked; unlocked during the callback. */
void renewer_lose(struct leased_lease *lease, const struct leased_error *why);

/* Takes the result of a renewal that was sent at sent_ns. Locked; unlocked during callbacks. */
void renewer_take_result(struct leased_lease *lease, int64_t sent_ns,
	const Leased__RenewalResult *result);

/* A claim as the protocol wants it, from a lease; holder is memory for the inner message. */
void lease_claim(const struct leased_lease *lease, Leased__Claim *ret_claim,
	Leased__Holder *ret_holder);
void holder_message(const struct holder *holder, Leased__Holder *ret_holder);

#endif
