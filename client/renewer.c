/*
 * Every lease has a time when it wants something: its next renewal, or its deadline. The thread sleeps
 * until the nearest of all. Renewals that are due together travel in one message; what is not answered
 * by a twelfth of the ttl is asked again, until the lease's own deadline.
 */
#include "renewer.h"

#include <stdlib.h>
#include <string.h>

#include "frame.h"
#include "status.h"

#define NS_PER_MS     INT64_C(1000000)
#define RETRY_MIN_MS  50
#define BATCH_LEASES  1000
/* Of one renewal beside name and host: tags, lengths, token, pid, nonce. */
#define RENEWAL_BYTES 64

/* Renewals in flight. A lease that is freed meanwhile stays, as an orphan, until they are over. */
struct batch {
	struct call call;
	size_t n;
	struct leased_lease *leases[BATCH_LEASES];
	Leased__Renewal renewals[BATCH_LEASES], *places[BATCH_LEASES];
	Leased__Claim claims[BATCH_LEASES];
	Leased__Holder holders[BATCH_LEASES];
	Leased__Renew renew;
};

void holder_message(const struct holder *holder, Leased__Holder *ret_holder)
{
	leased__holder__init(ret_holder);
	ret_holder->host.data = (uint8_t *)(uintptr_t)holder->host;
	ret_holder->host.len = holder->host_len;
	ret_holder->pid = (uint32_t)holder->pid;
	ret_holder->nonce = holder->nonce;
}

void lease_claim(const struct leased_lease *lease, Leased__Claim *ret_claim,
	Leased__Holder *ret_holder)
{
	holder_message(&lease->holder, ret_holder);
	leased__claim__init(ret_claim);
	ret_claim->name.data = (uint8_t *)(uintptr_t)lease->name;
	ret_claim->name.len = strlen(lease->name);
	ret_claim->token = lease->token;
	ret_claim->holder = ret_holder;
}

int64_t renewer_deadline(const struct leased_client *client, int64_t sent_ns, int64_t ttl_ms,
	uint64_t expires_in_ms)
{
	int64_t margin = client->margin_ms ? client->margin_ms : ttl_ms / 10;
	int64_t left = expires_in_ms < (uint64_t)ttl_ms ? (int64_t)expires_in_ms : ttl_ms;

	if (!client->margin_ms && margin > 1000)
		margin = 1000;
	return sent_ns + (left - margin) * NS_PER_MS;
}

/* When a lease wants something next. */
static int64_t wants_at(const struct leased_lease *lease)
{
	int64_t deadline = atomic_load(&lease->deadline_ns);

	if (lease->no_renewal || lease->renewing)
		return deadline;
	return lease->due_ns < deadline ? lease->due_ns : deadline;
}

void renewer_schedule(struct leased_client *client, struct leased_lease *lease)
{
	int64_t at = wants_at(lease);

	if (at < client->next_due_ns) {
		client->next_due_ns = at;
		client_wake(client);
	}
}

void renewer_drop(struct leased_lease *lease, enum lease_state state)
{
	lease->state = state;
	atomic_store(&lease->deadline_ns, 0);
	list_remove(&lease->link);
}

/* Whoever frees the lease meanwhile waits until the callback is over. */
static void begin_callback(struct leased_lease *lease)
{
	lease->client->in_callback = lease;
	pthread_mutex_unlock(&lease->client->lock);
}

static void end_callback(struct leased_client *client)
{
	pthread_mutex_lock(&client->lock);
	client->in_callback = NULL;
	pthread_cond_broadcast(&client->changed);
}

void renewer_lose(struct leased_lease *lease, const struct leased_error *why)
{
	struct leased_client *client = lease->client;
	struct leased_error said;

	renewer_drop(lease, LEASE_LOST);
	if (!lease->on_lost)
		return;
	fail(&said, why->status, "lease \"%s\" is lost: %s", lease->name, why->text);
	begin_callback(lease);
	lease->on_lost(lease, &said, lease->data);
	end_callback(client);
}

static int64_t retry_ns(const struct leased_lease *lease)
{
	int64_t ms = lease->ttl_ms / 12;

	return (ms > RETRY_MIN_MS ? ms : RETRY_MIN_MS) * NS_PER_MS;
}

static void took(struct leased_lease *lease, int64_t sent_ns, uint64_t expires_in_ms)
{
	struct leased_client *client = lease->client;
	int64_t deadline = renewer_deadline(client, sent_ns, lease->ttl_ms, expires_in_ms);

	/* An answer that comes late never moves a deadline back. */
	if (deadline > atomic_load(&lease->deadline_ns))
		atomic_store(&lease->deadline_ns, deadline);
	lease->due_ns = sent_ns + lease->ttl_ms / 3 * NS_PER_MS;
	renewer_schedule(client, lease);
	if (!lease->on_renewed)
		return;
	begin_callback(lease);
	lease->on_renewed(lease, lease->data);
	end_callback(client);
}

void renewer_take_result(struct leased_lease *lease, int64_t sent_ns,
	const Leased__RenewalResult *result)
{
	int status = status_from_wire(result->status);
	struct leased_error why;

	if (lease->state != LEASE_HELD)
		return; /* released or lost meanwhile: a renewal must not revive it */
	if (status == LEASED_OK) {
		took(lease, sent_ns, result->expires_in_ms);
	} else if (status == LEASED_ELOST || status == LEASED_ENOTHELD) {
		fail(&why, LEASED_ELOST, "%s", result->why);
		renewer_lose(lease, &why);
	} else {
		lease->due_ns = boottime_ns() + retry_ns(lease);
		renewer_schedule(lease->client, lease);
	}
}

static void fill_renew(struct call *call, Leased__ClientMessage *message)
{
	struct batch *batch = call->data;

	message->body_case = LEASED__CLIENT_MESSAGE__BODY_RENEW;
	message->renew = &batch->renew;
}

/* The daemon answered all, or could not: then each is due again after its pause. */
static void finish_batch(struct leased_client *client, struct call *call)
{
	struct batch *batch = call->data;
	const Leased__Renewed *renewed = NULL;

	if (call->status == LEASED_OK &&
		call->reply->body_case == LEASED__SERVER_MESSAGE__BODY_RENEWED &&
		call->reply->renewed->n_results == batch->n)
		renewed = call->reply->renewed;
	for (size_t i = 0; i < batch->n; i++) {
		struct leased_lease *lease = batch->leases[i];

		lease->renewing = false;
		if (lease->orphan) {
			list_remove(&lease->owned);
			free(lease);
		} else if (renewed) {
			renewer_take_result(lease, call->sent_ns, renewed->results[i]);
		} else if (lease->state == LEASE_HELD) {
			lease->due_ns = boottime_ns() + retry_ns(lease);
			renewer_schedule(client, lease);
		}
	}
	call_fini(call);
	free(batch);
}

static void send_batch(struct leased_client *client, struct batch *batch)
{
	leased__renew__init(&batch->renew);
	batch->renew.n_renewals = batch->n;
	batch->renew.renewals = batch->places;
	batch->call.fill = fill_renew;
	batch->call.finished = finish_batch;
	batch->call.data = batch;
	client_queue(client, &batch->call);
}

static void add(struct batch *batch, struct leased_lease *lease)
{
	size_t i = batch->n++;

	batch->leases[i] = lease;
	lease_claim(lease, &batch->claims[i], &batch->holders[i]);
	leased__renewal__init(&batch->renewals[i]);
	batch->renewals[i].claim = &batch->claims[i];
	batch->renewals[i].ttl_ms = (uint64_t)lease->ttl_ms;
	batch->places[i] = &batch->renewals[i];
	lease->renewing = true;
}

/* All that are due now, in messages that fit a frame. */
static void renew_due(struct leased_client *client, int64_t now)
{
	struct batch *batch = NULL;
	size_t bytes = 0;

	for (struct list *node = client->leases.next; node != &client->leases; node = node->next) {
		struct leased_lease *lease = list_entry(node, struct leased_lease, link);
		size_t size = strlen(lease->name) + lease->holder.host_len + RENEWAL_BYTES;

		if (lease->no_renewal || lease->renewing || lease->due_ns > now)
			continue;
		if (batch && (batch->n == BATCH_LEASES || bytes + size > FRAME_BODY_MAX)) {
			send_batch(client, batch);
			batch = NULL;
		}
		if (!batch) {
			batch = calloc(1, sizeof *batch);
			bytes = 0;
		}
		if (!batch) { /* no memory: tried again soon, until the deadline */
			lease->due_ns = now + retry_ns(lease);
			continue;
		}
		add(batch, lease);
		bytes += size;
	}
	if (batch)
		send_batch(client, batch);
}

static struct leased_lease *first_expired(struct leased_client *client, int64_t now)
{
	for (struct list *node = client->leases.next; node != &client->leases; node = node->next) {
		struct leased_lease *lease = list_entry(node, struct leased_lease, link);

		if (atomic_load(&lease->deadline_ns) <= now)
			return lease;
	}
	return NULL;
}

void renewer_run(struct leased_client *client)
{
	int64_t now = boottime_ns();
	struct leased_lease *lease;
	struct leased_error why;

	if (now < client->next_due_ns)
		return;
	while ((lease = first_expired(client, now))) { /* the list may change during a callback */
		fail(&why, LEASED_ELOST, "no renewal was answered in time%s%s",
			*client->problem.text ? ": " : "", client->problem.text);
		renewer_lose(lease, &why);
	}
	renew_due(client, now);
	client->next_due_ns = INT64_MAX;
	for (struct list *node = client->leases.next; node != &client->leases; node = node->next) {
		int64_t at = wants_at(list_entry(node, struct leased_lease, link));

		if (at < client->next_due_ns)
			client->next_due_ns = at;
	}
}
