#include "leased.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abandon.h"
#include "acquire.h"
#include "claim.h"
#include "claim_message.h"
#include "duration.h"
#include "renewer.h"
#include "status.h"

#define NS_PER_MS INT64_C(1000000)

/* Acquire. */

/* Each attempt waits only for what is left of the wait. */
static void fill_acquire(struct call *call, Leased__ClientMessage *message)
{
	struct acquire *a = call->data;
	int64_t left = (a->wait_until_ns - boottime_ns()) / NS_PER_MS;

	leased__acquire__init(&a->message);
	holder_message(&a->lease->holder, &a->holder);
	a->message.name = bytes_of(a->lease->name);
	a->message.also = (ProtobufCBinaryData *)(uintptr_t)a->lease->also;
	a->message.n_also = a->lease->n_also;
	a->message.max_holders = (uint32_t)a->options->max_holders;
	a->message.holder = &a->holder;
	a->message.ttl_ms = (uint64_t)a->lease->ttl_ms;
	a->message.wait_ms = a->options->wait_ms > 0 ? (uint64_t)(left > 1 ? left : 1) : 0;
	a->message.min_hold_ms = (uint64_t)a->options->min_hold_ms;
	a->message.value.data = (uint8_t *)(uintptr_t)a->options->value;
	a->message.value.len = a->options->value_len;
	a->message.release_on_disconnect = a->lease->release_on_disconnect;
	a->message.watched_pid = (uint32_t)a->lease->watched_pid;
	if (a->options->slot)
		a->message.slot = bytes_of(a->options->slot);
	if (a->options->slot_again)
		a->message.slot_on_failure = LEASED__ACQUIRE__SLOT_ON_FAILURE__AGAIN;
	a->message.every_ms = (uint64_t)a->options->every_ms;
	message->body_case = LEASED__CLIENT_MESSAGE__BODY_ACQUIRE;
	message->acquire = &a->message;
}

int acquire_check(const struct leased_client *client, const char *name,
	const struct leased_acquire_options *o, struct leased_error *err)
{
	int rc = claim_check_names(name, o->also, o->n_also, err);

	if (rc == 0)
		rc = value_check(o->value, o->value_len, err);
	if (rc == 0 && o->slot)
		rc = slot_check((const uint8_t *)o->slot, strlen(o->slot), err);
	if (rc == 0 && o->slot_again && !o->slot)
		rc = fail(err, LEASED_EUSAGE, "slot_again without a slot");
	if (rc == 0 && o->ttl_ms < 0)
		rc = fail(err, LEASED_EUSAGE, "a ttl is not negative");
	if (rc < 0)
		return rc;
	if (o->wait_ms < 0 || o->wait_ms > DURATION_MAX_MS || o->min_hold_ms < 0 ||
		o->min_hold_ms > DURATION_MAX_MS || o->every_ms < 0 || o->every_ms > DURATION_MAX_MS)
		return fail(err, LEASED_EUSAGE,
			"wait, minimum hold and interval are not negative and at most ten years");
	if (o->max_holders < 0 || o->max_holders > LEASED_SHARED)
		return fail(err, LEASED_EUSAGE, "max_holders is not negative and at most %d", LEASED_SHARED);
	if (o->max_holders > 1 && (o->slot || o->every_ms > 0))
		return fail(err, LEASED_EUSAGE, "a slot and an interval are for a lease with one holder");
	if (o->watched_pid < 0 || (o->watched_pid > 0 && !o->release_on_disconnect))
		return fail(err, LEASED_EUSAGE, "watched_pid is a process, and goes with release_on_disconnect");
	return claim_check_ttl(client, o->ttl_ms > 0 ? o->ttl_ms : LEASED_TTL_DEFAULT_MS, err);
}

struct leased_lease *lease_new(struct leased_client *client, const char *name,
	const struct leased_acquire_options *o)
{
	ProtobufCBinaryData also[LEASED_NAMES_MAX] = { { 0 } };
	struct leased_lease *lease;

	for (size_t i = 0; i < o->n_also; i++)
		also[i] = bytes_of(o->also[i]);
	lease = calloc(1, sizeof *lease + names_room(also, o->n_also));
	if (!lease)
		return NULL;
	lease->also = names_copy(lease + 1, also, o->n_also);
	lease->n_also = o->n_also;
	lease->client = client;
	lease->state = LEASE_PENDING;
	strcpy(lease->name, name);
	holder_new(&lease->holder);
	holder_format(lease->holder_text, &lease->holder);
	lease->ttl_ms = o->ttl_ms > 0 ? o->ttl_ms : LEASED_TTL_DEFAULT_MS;
	lease->no_renewal = o->no_renewal;
	lease->release_on_disconnect = o->release_on_disconnect;
	lease->watched_pid = o->watched_pid;
	lease->on_lost = o->on_lost;
	lease->on_renewed = o->on_renewed;
	lease->data = o->data;
	list_init(&lease->link);
	list_init(&lease->owned);
	return lease;
}

/*
 * What the grant itself proves. An earlier attempt may have made it, so the ttl counts from before the
 * first one; the time left was read for the last one.
 */
static int64_t proven_deadline(const struct acquire *a)
{
	const struct leased_client *client = a->lease->client;
	const struct call *call = &a->call;
	int64_t ttl_ms = a->lease->ttl_ms;
	int64_t first = renewer_deadline(client, call->first_sent_ns, ttl_ms, UINT64_MAX);
	int64_t last = renewer_deadline(client, call->sent_ns, ttl_ms,
		call->reply->granted->expires_in_ms);

	return first < last ? first : last;
}

bool acquire_take_proof(struct acquire *a)
{
	struct leased_lease *lease = a->lease;
	int64_t whole_ms = lease->ttl_ms - renewer_margin_ms(lease->client, lease->ttl_ms);
	int64_t deadline = proven_deadline(a);

	lease->token = a->call.reply->granted->token;
	if (deadline - boottime_ns() < whole_ms / 2 * NS_PER_MS)
		return false;
	lease->due_ns = a->call.first_sent_ns + lease->ttl_ms / 3 * NS_PER_MS;
	atomic_store(&lease->deadline_ns, deadline);
	return true;
}

static void give_back(struct leased_lease *lease)
{
	pthread_mutex_lock(&lease->client->lock);
	abandon_grant(lease->client, lease);
	pthread_mutex_unlock(&lease->client->lock);
}

int acquire_hold(struct leased_lease *lease, struct leased_error *err)
{
	struct leased_client *client = lease->client;
	int rc = 0;

	if (atomic_load(&client->interrupted) || client->closing) {
		abandon_grant(client, lease);
		rc = fail(err, LEASED_ECANCELLED, client->closing ? "the client closes" : "interrupted");
	} else {
		lease->state = LEASE_HELD;
		list_append(&client->leases, &lease->link);
		list_append(&client->owned, &lease->owned);
		renewer_schedule(client, lease);
	}
	return rc;
}

static int hold(struct leased_lease *lease, struct leased_error *err)
{
	int rc;

	pthread_mutex_lock(&lease->client->lock);
	rc = acquire_hold(lease, err);
	pthread_mutex_unlock(&lease->client->lock);
	return rc;
}

/*
 * The deadline counts from before the send, and the wait has used it up: the lease is held only once
 * a renewal, sent now, has been answered.
 */
static int confirm(struct leased_lease *lease, struct leased_error *err)
{
	const struct claim_change none = { 0 };
	struct leased_error why;
	int rc = claim_renew(lease, &none, &why);

	if (rc == 0)
		return 0;
	give_back(lease); /* not ours to use: rather than let it expire */
	return fail(err, rc, "granted after the wait, but not confirmed: %s", why.text);
}

static int take_grant(struct acquire *a, struct leased_error *err)
{
	int rc = acquire_take_proof(a) ? 0 : confirm(a->lease, err);

	return rc < 0 ? rc : hold(a->lease, err);
}

static int acquire(struct acquire *a, struct leased_error *err)
{
	int rc = call_run(a->lease->client, &a->call, a->options->wait_ms);

	if (rc < 0) {
		rc = fail(err, rc, "%s", a->call.err.text);
	} else if (a->call.reply->body_case != LEASED__SERVER_MESSAGE__BODY_GRANTED) {
		rc = fail(err, LEASED_EPROTO, "the daemon answered something else");
	} else {
		rc = take_grant(a, err);
	}
	call_fini(&a->call);
	return rc;
}

static void forsake_acquire(struct leased_client *client, struct call *call)
{
	const struct acquire *a = call->data;

	abandon_acquire(client, call, a->lease);
}

void acquire_begin(struct acquire *a, struct leased_lease *lease, const struct leased_acquire_options *options)
{
	*a = (struct acquire){ .lease = lease, .options = options };
	a->wait_until_ns = boottime_ns() + options->wait_ms * NS_PER_MS;
	a->call = (struct call){ .fill = fill_acquire, .forsaken = forsake_acquire, .data = a,
		.can_cancel = true };
}

static int acquire_new(struct leased_client *client, const char *name,
	const struct leased_acquire_options *o, struct leased_lease **ret_lease,
	struct leased_error *err)
{
	struct leased_lease *lease = lease_new(client, name, o);
	struct acquire a;
	int rc;

	if (!lease)
		return fail(err, LEASED_ENOMEM, "out of memory");
	acquire_begin(&a, lease, o);
	rc = acquire(&a, err);
	if (rc < 0)
		free(lease);
	else
		*ret_lease = lease;
	return rc;
}

int leased_acquire(struct leased_client *client, const char *name,
	const struct leased_acquire_options *options, struct leased_lease **ret_lease,
	struct leased_error *err)
{
	static const struct leased_acquire_options defaults;
	const struct leased_acquire_options *o = options ? options : &defaults;
	struct leased_error why = { 0 };
	int rc;

	rc = client_enter(client, &why);
	if (rc < 0)
		return claim_fail(err, "acquire", name, rc, why.text);
	rc = acquire_check(client, name, o, &why);
	if (rc == 0)
		rc = acquire_new(client, name, o, ret_lease, &why);
	client_leave(client);
	return rc < 0 ? claim_fail(err, "acquire", name, rc, why.text) : 0;
}

/* Looking at it. */

int64_t leased_deadline_ns(const struct leased_lease *lease)
{
	return lease->client->pid == getpid() ? atomic_load(&lease->deadline_ns) : 0;
}

int64_t leased_remaining_ms(const struct leased_lease *lease)
{
	int64_t left = atomic_load(&lease->deadline_ns) - boottime_ns();

	if (lease->client->pid != getpid() || left < 0)
		return 0;
	return left / NS_PER_MS;
}

bool leased_held(const struct leased_lease *lease)
{
	return lease->client->pid == getpid() && atomic_load(&lease->deadline_ns) > boottime_ns();
}

uint64_t leased_token(const struct leased_lease *lease)
{
	return lease->token;
}

const char *leased_name(const struct leased_lease *lease)
{
	return lease->name;
}

const char *leased_holder(const struct leased_lease *lease)
{
	return lease->holder_text;
}
