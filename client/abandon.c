/*
 *   in flight -> cancelled -+-> no grant -------------------------> over
 *                           +-> granted: the answers crossed -----> RELEASE -> over
 *   connection lost --------> LOOK (Get) -+-> held by us ---------> RELEASE -> over
 *                              ^          '-> not (yet), look again ---------> over
 *                              '-- no answer, or the daemon cannot tell
 *
 * Looking does not take a lease as asking again would. It is done twice, for the acquire may still be
 * on its way to the database when its connection ends. A grant expires by itself a ttl after it was
 * asked for: then there is nothing left to do.
 */
#include "abandon.h"

#include <stdlib.h>
#include <string.h>

#include "claim_message.h"
#include "renewer.h"

#define LOOKS    2
#define PAUSE_NS INT64_C(1000000000)

struct abandoned {
	struct call call;
	enum { ACQUIRE, LOOK, RELEASE } step; /* what is in flight, or was last */
	unsigned looks;                       /* answered */
	struct leased_lease lease;            /* a copy: names, holder, token */
	Leased__Get get;
	Leased__Release release;
	Leased__Claim claim;
	Leased__Holder holder;
};

static void fill_look(struct abandoned *a, Leased__ClientMessage *message)
{
	leased__get__init(&a->get);
	a->get.name = bytes_of(a->lease.name); /* all of its names are granted, or none */
	holder_message(&a->lease.holder, &a->holder);
	a->get.holder = &a->holder;
	message->body_case = LEASED__CLIENT_MESSAGE__BODY_GET;
	message->get = &a->get;
}

static void fill_release(struct abandoned *a, Leased__ClientMessage *message)
{
	lease_claim(&a->lease, &a->claim, &a->holder);
	leased__release__init(&a->release);
	a->release.claim = &a->claim;
	a->release.undone = true;
	a->release.retry = true; /* the daemon may have released a grant that crossed the cancel */
	message->body_case = LEASED__CLIENT_MESSAGE__BODY_RELEASE;
	message->release = &a->release;
}

/* The acquire itself is not sent again: what it has left behind is looked for. */
static void fill(struct call *call, Leased__ClientMessage *message)
{
	struct abandoned *a = call->data;

	call->can_cancel = false;
	if (a->step == ACQUIRE)
		a->step = LOOK;
	if (a->step == LOOK)
		fill_look(a, message);
	else
		fill_release(a, message);
}

static bool is_ours(const struct abandoned *a, const Leased__Lease *seen)
{
	const struct holder *ours = &a->lease.holder;

	return seen->state == LEASED__LEASE__STATE__HELD && seen->holder &&
	       seen->holder->nonce == ours->nonce && seen->holder->pid == (uint32_t)ours->pid &&
	       seen->holder->host.len == ours->host_len &&
	       memcmp(seen->holder->host.data, ours->host, ours->host_len) == 0;
}

/* The token to release with; 0: none that is known of. */
static uint64_t token_of(const struct abandoned *a)
{
	const Leased__ServerMessage *reply = a->call.reply;

	if (a->call.status < 0)
		return 0;
	if (reply->body_case == LEASED__SERVER_MESSAGE__BODY_GRANTED)
		return reply->granted->token;
	if (reply->body_case == LEASED__SERVER_MESSAGE__BODY_LEASE && is_ours(a, reply->lease))
		return reply->lease->token;
	return 0;
}

static bool is_passing(int status)
{
	return status == LEASED_EUNAVAILABLE || status == LEASED_EBUSY || status == LEASED_ENOMEM;
}

/* Whether there is something left to do, and what. */
static bool goes_on(struct abandoned *a)
{
	int status = a->call.status;

	a->call.not_before_ns = boottime_ns() + PAUSE_NS;
	if (is_passing(status))
		return true;
	if (a->step == RELEASE)
		return false;
	a->lease.token = token_of(a);
	if (a->lease.token) {
		a->step = RELEASE;
		a->call.not_before_ns = 0;
		return true;
	}
	return status == LEASED_OK && a->step == LOOK && ++a->looks < LOOKS;
}

static void finish(struct leased_client *client, struct call *call)
{
	struct abandoned *a = call->data;
	bool more = goes_on(a);

	call_fini(call);
	if (more) {
		call_queue(client, call);
		return;
	}
	client->n_abandoned--;
	free(a);
}

/* Not queued yet. NULL: no memory, too many, or too late. */
static struct abandoned *abandoned_new(struct leased_client *client, const struct leased_lease *lease,
	int64_t from_ns)
{
	struct abandoned *a;

	if (client->n_abandoned == ABANDONED_MAX || client->ended)
		return NULL;
	a = calloc(1, sizeof *a + names_room(lease->also, lease->n_also));
	if (!a)
		return NULL;
	a->lease.also = names_copy(a + 1, lease->also, lease->n_also);
	a->lease.n_also = lease->n_also;
	a->lease.holder = lease->holder;
	a->lease.token = lease->token;
	strcpy(a->lease.name, lease->name);
	a->call = (struct call){ .fill = fill, .finished = finish, .data = a, .detached = true,
		.until_ns = from_ns + lease->ttl_ms * 1000000 };
	client->n_abandoned++;
	return a;
}

void abandon_acquire(struct leased_client *client, const struct call *call,
	const struct leased_lease *lease)
{
	struct abandoned *a = abandoned_new(client, lease, call->sent_ns);

	if (!a)
		return;
	a->call.can_cancel = a->call.cancelled = true;
	a->call.cancel_sent = call->cancel_sent;
	a->call.sent_ns = call->sent_ns;
	call_queue(client, &a->call);
	a->call.id = call->id; /* in flight or not, as the one it replaces */
}

void abandon_grant(struct leased_client *client, const struct leased_lease *lease)
{
	struct abandoned *a = abandoned_new(client, lease, boottime_ns());

	if (!a)
		return;
	a->step = RELEASE;
	call_queue(client, &a->call);
}
