/*
 * Every lease has a time when it wants something: its next renewal, or its deadline. The thread sleeps
 * until the nearest of all. When one renewal is due, those that would soon be travel with it in one
 * message, so that many leases are looked through rarely. What fails is asked again after a twelfth of
 * the ttl, until the lease's own deadline; what a daemon does not answer, at the next one (connection.c).
 */
#include "renewer.h"

#include <stdlib.h>
#include <string.h>

#include "claim_message.h"
#include "frame.h"
#include "status.h"

#define NS_PER_MS     INT64_C(1000000)
#define MARGIN_MAX_MS 1000
#define RETRY_MIN_MS  50
#define BATCH_NAMES   1000 /* each is a renewal for the daemon; and so at most as many leases */
#define SLOW_MAX_MS   15000 /* then another daemon is asked, if there is one */
/* Of one renewal beside its names and host: tags, lengths, token, pid, nonce. */
#define RENEWAL_BYTES 64
/* Of one further name beside its text. */
#define ALSO_BYTES    3

/* Renewals in flight. A lease that is freed meanwhile stays, as an orphan, until they are over. */
struct batch {
	struct call call;
	size_t n;
	struct leased_lease *leases[BATCH_NAMES];
	Leased__Renewal renewals[BATCH_NAMES], *places[BATCH_NAMES];
	Leased__Claim claims[BATCH_NAMES];
	Leased__Holder holders[BATCH_NAMES];
	Leased__Renew renew;
};

void lease_claim(const struct leased_lease *lease, Leased__Claim *ret_claim,
	Leased__Holder *ret_holder)
{
	claim_message(lease->name, &lease->holder, lease->token, ret_claim, ret_holder);
	ret_claim->also = (ProtobufCBinaryData *)(uintptr_t)lease->also;
	ret_claim->n_also = lease->n_also;
}

/* No ttl: only leased_renew changes it. */
void renewal_message(const struct leased_lease *lease, Leased__Claim *claim, Leased__Renewal *ret_renewal)
{
	leased__renewal__init(ret_renewal);
	ret_renewal->claim = claim;
	ret_renewal->release_on_disconnect = lease->release_on_disconnect;
	ret_renewal->watched_pid = (uint32_t)lease->watched_pid;
}

int64_t renewer_margin_ms(const struct leased_client *client, int64_t ttl_ms)
{
	int64_t tenth = ttl_ms / 10;

	if (client->margin_ms)
		return client->margin_ms;
	return tenth < MARGIN_MAX_MS ? tenth : MARGIN_MAX_MS;
}

int64_t renewer_deadline(const struct leased_client *client, int64_t sent_ns, int64_t ttl_ms,
	uint64_t expires_in_ms)
{
	int64_t left = expires_in_ms < (uint64_t)ttl_ms ? (int64_t)expires_in_ms : ttl_ms;

	return sent_ns + (left - renewer_margin_ms(client, ttl_ms)) * NS_PER_MS;
}

int64_t renewer_patience_ns(const struct leased_client *client, int64_t part, int64_t max_ms)
{
	int64_t ms = client->shortest_ttl_ms / part;

	if (ms > max_ms)
		ms = max_ms;
	return (ms > PATIENCE_MIN_MS ? ms : PATIENCE_MIN_MS) * NS_PER_MS;
}

/* When a lease wants something next. */
static int64_t wants_at(const struct leased_lease *lease)
{
	int64_t deadline = atomic_load(&lease->deadline_ns);

	if (lease->no_renewal || lease->renewing || !lease->client->ready)
		return deadline;
	return lease->due_ns < deadline ? lease->due_ns : deadline;
}

static bool ends_with_connection(const struct leased_lease *lease)
{
	return lease->release_on_disconnect && lease->watched_pid == 0;
}

void renewer_schedule(struct leased_client *client, struct leased_lease *lease)
{
	int64_t at = wants_at(lease);

	if (lease->ttl_ms < client->shortest_ttl_ms)
		client->shortest_ttl_ms = lease->ttl_ms;
	client->bound |= ends_with_connection(lease);
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

void renewer_collect(struct leased_lease *lease)
{
	if (!lease->orphan || lease->renewing || lease->callers > 0)
		return;
	list_remove(&lease->owned);
	free(lease);
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

static bool is_name_of(const struct leased_lease *lease, ProtobufCBinaryData name)
{
	bool found = strlen(lease->name) == name.len && memcmp(lease->name, name.data, name.len) == 0;

	for (size_t i = 0; !found && i < lease->n_also; i++)
		found = lease->also[i].len == name.len &&
			memcmp(lease->also[i].data, name.data, name.len) == 0;
	return found;
}

/* With one of several names, all are lost. */
void renewer_take_lost(struct leased_client *client, const Leased__Lost *lost)
{
	struct leased_error why;

	for (struct list *node = client->leases.next; node != &client->leases; node = node->next) {
		struct leased_lease *lease = list_entry(node, struct leased_lease, link);

		if (lease->token != lost->token || !is_name_of(lease, lost->name))
			continue;
		if (lease->n_also > 0)
			fail(&why, LEASED_ELOST, "\"%.*s\" was %s", (int)lost->name.len,
				(const char *)lost->name.data, lost->why);
		else
			fail(&why, LEASED_ELOST, "%s", lost->why);
		renewer_lose(lease, &why);
		return;
	}
}

static int64_t retry_ns(const struct leased_lease *lease)
{
	int64_t ms = lease->ttl_ms / 12;

	return (ms > RETRY_MIN_MS ? ms : RETRY_MIN_MS) * NS_PER_MS;
}

void renewer_expect_ttl(struct leased_lease *lease, int64_t ttl_ms)
{
	int64_t now = boottime_ns();
	int64_t deadline = renewer_deadline(lease->client, now, ttl_ms, UINT64_MAX);

	if (ttl_ms >= lease->ttl_ms)
		return;
	lease->ttl_ms = ttl_ms;
	if (deadline < atomic_load(&lease->deadline_ns))
		atomic_store(&lease->deadline_ns, deadline);
	if (now + ttl_ms / 3 * NS_PER_MS < lease->due_ns)
		lease->due_ns = now + ttl_ms / 3 * NS_PER_MS;
	renewer_schedule(lease->client, lease);
}

static void took(struct leased_lease *lease, int64_t sent_ns, uint64_t expires_in_ms)
{
	struct leased_client *client = lease->client;
	int64_t deadline = renewer_deadline(client, sent_ns, lease->ttl_ms, expires_in_ms);

	/* An answer that comes late never moves a deadline back. */
	if (deadline > atomic_load(&lease->deadline_ns))
		atomic_store(&lease->deadline_ns, deadline);
	lease->due_ns = sent_ns + lease->ttl_ms / 3 * NS_PER_MS;
	if (lease->state == LEASE_PENDING)
		return;
	renewer_schedule(client, lease);
	if (!lease->on_renewed)
		return;
	begin_callback(lease);
	lease->on_renewed(lease, lease->data);
	end_callback(client);
}

/* What a result means, which is not all that the daemon knows. */
static int judge(const struct leased_lease *lease, const Leased__RenewalResult *result,
	struct leased_error *ret_why)
{
	int status = status_from_wire(result->status);

	if (lease->state == LEASE_LOST || lease->state == LEASE_RELEASED)
		return fail(ret_why, LEASED_ELOST, "it is not held any more");
	if (lease->state == LEASE_HELD && atomic_load(&lease->deadline_ns) <= boottime_ns())
		return fail(ret_why, LEASED_ELOST, "the renewal was answered after the deadline");
	if (status == LEASED_OK) {
		*ret_why = (struct leased_error){ 0 };
		return LEASED_OK;
	}
	return fail(ret_why, status == LEASED_ENOTHELD ? LEASED_ELOST : status, "%s", result->why);
}

void renewer_take_result(struct leased_lease *lease, int64_t sent_ns,
	const Leased__RenewalResult *result, struct leased_error *ret_why)
{
	struct leased_client *client = lease->client;
	int status = judge(lease, result, ret_why);

	if (lease->state == LEASE_LOST || lease->state == LEASE_RELEASED)
		return; /* released or lost meanwhile: a renewal must not revive it */
	if (status == LEASED_OK) {
		took(lease, sent_ns, result->expires_in_ms);
	} else if (lease->state == LEASE_PENDING) {
		return; /* its acquire sees to it */
	} else if (status == LEASED_ELOST) {
		renewer_lose(lease, ret_why);
	} else {
		client->move_on |= status == LEASED_EUNAVAILABLE;
		lease->due_ns = boottime_ns() + retry_ns(lease);
		renewer_schedule(client, lease);
	}
}

static void fill_renew(struct call *call, Leased__ClientMessage *message)
{
	struct batch *batch = call->data;

	message->body_case = LEASED__CLIENT_MESSAGE__BODY_RENEW;
	message->renew = &batch->renew;
}

/* What was not answered is due again after its pause; at once, if the connection was lost. */
static void ask_again(struct leased_client *client, struct leased_lease *lease)
{
	lease->due_ns = boottime_ns() + (client->ready ? retry_ns(lease) : 0);
	renewer_schedule(client, lease);
}

/* The daemon answered all, or none. */
static void finish_batch(struct leased_client *client, struct call *call)
{
	struct batch *batch = call->data;
	const Leased__Renewed *renewed = NULL;
	struct leased_error why;

	if (call->status == LEASED_OK &&
		call->reply->body_case == LEASED__SERVER_MESSAGE__BODY_RENEWED &&
		call->reply->renewed->n_results == batch->n)
		renewed = call->reply->renewed;
	for (size_t i = 0; i < batch->n; i++) {
		struct leased_lease *lease = batch->leases[i];

		lease->renewing = false;
		if (lease->orphan) {
			renewer_collect(lease);
		} else if (renewed) {
			renewer_take_result(lease, call->sent_ns, renewed->results[i], &why);
		} else if (lease->state == LEASE_HELD) {
			ask_again(client, lease);
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
	batch->call = (struct call){ .fill = fill_renew, .finished = finish_batch, .data = batch,
		.detached = true, .once = true,
		.patience_ns = renewer_patience_ns(client, 6, SLOW_MAX_MS) };
	call_queue(client, &batch->call);
}

static void add(struct batch *batch, struct leased_lease *lease)
{
	size_t i = batch->n++;

	batch->leases[i] = lease;
	lease_claim(lease, &batch->claims[i], &batch->holders[i]);
	renewal_message(lease, &batch->claims[i], &batch->renewals[i]);
	batch->places[i] = &batch->renewals[i];
	lease->renewing = true;
}

static bool is_due(const struct leased_lease *lease, int64_t now, int64_t early_ns)
{
	return !lease->no_renewal && !lease->renewing && lease->due_ns - early_ns <= now;
}

static bool any_due(const struct leased_client *client, int64_t now)
{
	for (struct list *node = client->leases.next; node != &client->leases; node = node->next)
		if (is_due(list_entry(node, struct leased_lease, link), now, 0))
			return true;
	return false;
}

/* The most that its renewal takes in a message. */
static size_t renewal_size(const struct leased_lease *lease)
{
	size_t size = strlen(lease->name) + lease->holder.host_len + RENEWAL_BYTES;

	for (size_t i = 0; i < lease->n_also; i++)
		size += lease->also[i].len + ALSO_BYTES;
	return size;
}

/* All that are due now or soon, in messages that fit a frame and are not too much work at once. */
static void renew_due(struct leased_client *client, int64_t now)
{
	struct batch *batch = NULL;
	size_t bytes = 0, names = 0;

	for (struct list *node = client->leases.next; node != &client->leases; node = node->next) {
		struct leased_lease *lease = list_entry(node, struct leased_lease, link);
		size_t size;

		if (!is_due(lease, now, lease->ttl_ms / 24 * NS_PER_MS))
			continue;
		size = renewal_size(lease);
		if (batch && (names + 1 + lease->n_also > BATCH_NAMES || bytes + size > FRAME_BODY_MAX)) {
			send_batch(client, batch);
			batch = NULL;
		}
		if (!batch) {
			batch = calloc(1, sizeof *batch);
			bytes = names = 0;
		}
		if (!batch) { /* no memory: tried again soon, until the deadline */
			lease->due_ns = now + retry_ns(lease);
			continue;
		}
		add(batch, lease);
		bytes += size;
		names += 1 + lease->n_also;
	}
	if (batch)
		send_batch(client, batch);
}

/* All at once, so that a callback finds none held that is not; the list may change during it. */
static void lose_expired(struct leased_client *client, int64_t now)
{
	struct list expired, *node = client->leases.next;
	struct leased_error why;

	list_init(&expired);
	while (node != &client->leases) {
		struct leased_lease *lease = list_entry(node, struct leased_lease, link);

		node = node->next;
		if (atomic_load(&lease->deadline_ns) > now)
			continue;
		list_remove(&lease->link);
		list_append(&expired, &lease->link);
	}
	fail(&why, LEASED_ELOST, "no renewal was answered in time%s%s",
		*client->problem.text ? ": " : "", client->problem.text);
	while (!list_empty(&expired))
		renewer_lose(list_entry(expired.next, struct leased_lease, link), &why);
}

void renewer_run(struct leased_client *client)
{
	int64_t now = boottime_ns();

	if (now < client->next_due_ns || client->closing)
		return;
	lose_expired(client, now);
	if (client->ready && any_due(client, now))
		renew_due(client, now);
	client->next_due_ns = client->shortest_ttl_ms = INT64_MAX;
	client->bound = false;
	for (struct list *node = client->leases.next; node != &client->leases; node = node->next) {
		const struct leased_lease *lease = list_entry(node, struct leased_lease, link);
		int64_t at = wants_at(lease);

		if (at < client->next_due_ns)
			client->next_due_ns = at;
		if (lease->ttl_ms < client->shortest_ttl_ms)
			client->shortest_ttl_ms = lease->ttl_ms;
		client->bound |= ends_with_connection(lease);
	}
}
