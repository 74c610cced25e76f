#include "leased.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "renewer.h"
#include "status.h"

#define NS_PER_MS INT64_C(1000000)

/* Every error says what was tried, on what. */
static int told(struct leased_error *err, const char *verb, const char *name, int status,
	const char *why)
{
	return fail(err, status, "%s \"%s\": %s", verb, name, why);
}

/* Acquire. */

struct acquire {
	struct call call;
	struct leased_lease *lease;
	const struct leased_acquire_options *options;
	int64_t wait_until_ns;
	Leased__Acquire message;
	Leased__Holder holder;
};

/* Each attempt waits only for what is left of the wait. */
static void fill_acquire(struct call *call, Leased__ClientMessage *message)
{
	struct acquire *a = call->data;
	int64_t left = (a->wait_until_ns - boottime_ns()) / NS_PER_MS;

	leased__acquire__init(&a->message);
	holder_message(&a->lease->holder, &a->holder);
	a->message.name.data = (uint8_t *)a->lease->name;
	a->message.name.len = strlen(a->lease->name);
	a->message.holder = &a->holder;
	a->message.ttl_ms = (uint64_t)a->lease->ttl_ms;
	a->message.wait_ms = a->options->wait_ms > 0 ? (uint64_t)(left > 1 ? left : 1) : 0;
	a->message.min_hold_ms = (uint64_t)a->options->min_hold_ms;
	a->message.value.data = (uint8_t *)(uintptr_t)a->options->value;
	a->message.value.len = a->options->value_len;
	message->body_case = LEASED__CLIENT_MESSAGE__BODY_ACQUIRE;
	message->acquire = &a->message;
}

static int check_options(const char *name, const struct leased_acquire_options *o,
	struct leased_error *err)
{
	int rc = name_check((const uint8_t *)name, strlen(name), err);

	if (rc == 0)
		rc = value_check(o->value, o->value_len, err);
	if (rc < 0)
		return rc;
	if (o->ttl_ms < 0 || o->wait_ms < 0 || o->min_hold_ms < 0)
		return fail(err, LEASED_EUSAGE, "ttl, wait and minimum hold are not negative");
	return 0;
}

static struct leased_lease *lease_new(struct leased_client *client, const char *name,
	const struct leased_acquire_options *o)
{
	struct leased_lease *lease = calloc(1, sizeof *lease);

	if (!lease)
		return NULL;
	lease->client = client;
	lease->state = LEASE_RELEASED;
	strcpy(lease->name, name);
	holder_new(&lease->holder);
	holder_format(lease->holder_text, &lease->holder);
	lease->ttl_ms = o->ttl_ms > 0 ? o->ttl_ms : LEASED_TTL_DEFAULT_MS;
	lease->no_renewal = o->no_renewal;
	lease->on_lost = o->on_lost;
	lease->on_renewed = o->on_renewed;
	lease->data = o->data;
	list_init(&lease->link);
	list_init(&lease->owned);
	return lease;
}

static int renew_now(struct leased_lease *lease, int64_t ttl_ms, struct leased_error *err);
static int release_now(struct leased_lease *lease, const int *exit_status, struct leased_error *err);

/* Of a lease that is not held yet, so that nobody else looks at it. */
static void set_times(struct leased_lease *lease, int64_t sent_ns, uint64_t expires_in_ms)
{
	lease->due_ns = sent_ns + lease->ttl_ms / 3 * NS_PER_MS;
	atomic_store(&lease->deadline_ns,
		renewer_deadline(lease->client, sent_ns, lease->ttl_ms, expires_in_ms));
}

/* From here on the lease is held, and renewed unless the caller does that. */
static void hold(struct leased_lease *lease)
{
	struct leased_client *client = lease->client;

	pthread_mutex_lock(&client->lock);
	lease->state = LEASE_HELD;
	list_append(&client->leases, &lease->link);
	list_append(&client->owned, &lease->owned);
	renewer_schedule(client, lease);
	pthread_mutex_unlock(&client->lock);
}

/*
 * The deadline counts from before the send, and the wait has used it up: the lease is held only once
 * a renewal, sent now, has been answered.
 */
static int confirm(struct leased_lease *lease, struct leased_error *err)
{
	struct leased_error why;
	int rc = renew_now(lease, lease->ttl_ms, &why);

	if (rc == 0)
		return 0;
	release_now(lease, NULL, NULL); /* not ours to use: give it back rather than let it expire */
	return fail(err, rc, "granted after the wait, but not confirmed: %s", why.text);
}

static int take_grant(struct acquire *a, struct leased_error *err)
{
	struct leased_lease *lease = a->lease;
	struct leased_client *client = lease->client;
	const Leased__Granted *granted = a->call.reply->granted;
	int64_t deadline = renewer_deadline(client, a->call.sent_ns, lease->ttl_ms,
		granted->expires_in_ms);

	lease->token = granted->token;
	if (a->call.cancelled || atomic_load(&client->interrupted)) {
		release_now(lease, NULL, NULL);
		return fail(err, LEASED_ECANCELLED, "interrupted");
	}
	if (deadline - boottime_ns() < lease->ttl_ms / 2 * NS_PER_MS) {
		int rc = confirm(lease, err);

		if (rc < 0)
			return rc;
	} else {
		set_times(lease, a->call.sent_ns, granted->expires_in_ms);
	}
	hold(lease);
	return 0;
}

static int acquire(struct acquire *a, struct leased_error *err)
{
	int rc = client_call(a->lease->client, &a->call, a->options->wait_ms);

	if (rc < 0) {
		/* Given up locally: whether by time or by an interrupt, the daemon says CANCELLED. */
		if (rc == LEASED_ECANCELLED && !atomic_load(&a->lease->client->interrupted))
			rc = LEASED_EUNAVAILABLE;
		rc = fail(err, rc, "%s", a->call.err.text);
	} else if (a->call.reply->body_case != LEASED__SERVER_MESSAGE__BODY_GRANTED) {
		rc = fail(err, LEASED_EPROTO, "the daemon answered something else");
	} else {
		rc = take_grant(a, err);
	}
	call_fini(&a->call);
	return rc;
}

int leased_acquire(struct leased_client *client, const char *name,
	const struct leased_acquire_options *options, struct leased_lease **ret_lease,
	struct leased_error *err)
{
	static const struct leased_acquire_options defaults;
	const struct leased_acquire_options *o = options ? options : &defaults;
	struct acquire a = { .options = o };
	struct leased_error why = { 0 };
	int rc;

	rc = client_check(client, &why);
	if (rc == 0)
		rc = check_options(name, o, &why);
	if (rc < 0)
		return told(err, "acquire", name, rc, why.text);
	a.lease = lease_new(client, name, o);
	if (!a.lease)
		return told(err, "acquire", name, LEASED_ENOMEM, "out of memory");
	a.wait_until_ns = boottime_ns() + o->wait_ms * NS_PER_MS;
	a.call = (struct call){ .fill = fill_acquire, .data = &a, .waits = true };
	rc = acquire(&a, &why);
	if (rc < 0) {
		free(a.lease);
		return told(err, "acquire", name, rc, why.text);
	}
	*ret_lease = a.lease;
	return 0;
}

/* Renew. */

struct renewal {
	struct call call;
	const struct leased_lease *lease;
	int64_t ttl_ms;
	Leased__Renew renew;
	Leased__Renewal renewal, *place;
	Leased__Claim claim;
	Leased__Holder holder;
};

static void fill_renewal(struct call *call, Leased__ClientMessage *message)
{
	struct renewal *r = call->data;

	lease_claim(r->lease, &r->claim, &r->holder);
	leased__renewal__init(&r->renewal);
	r->renewal.claim = &r->claim;
	r->renewal.ttl_ms = (uint64_t)r->ttl_ms;
	r->place = &r->renewal;
	leased__renew__init(&r->renew);
	r->renew.n_renewals = 1;
	r->renew.renewals = &r->place;
	message->body_case = LEASED__CLIENT_MESSAGE__BODY_RENEW;
	message->renew = &r->renew;
}

/* One renewal, waited for. A lease that is not held yet (confirm) gets its deadline only. */
static int renew_now(struct leased_lease *lease, int64_t ttl_ms, struct leased_error *err)
{
	struct leased_client *client = lease->client;
	struct renewal r = { .lease = lease, .ttl_ms = ttl_ms };
	const Leased__RenewalResult *result;
	int rc;

	r.call = (struct call){ .fill = fill_renewal, .data = &r };
	rc = client_call(client, &r.call, 0);
	if (rc < 0) {
		rc = fail(err, rc, "%s", r.call.err.text);
	} else if (r.call.reply->body_case != LEASED__SERVER_MESSAGE__BODY_RENEWED ||
		   r.call.reply->renewed->n_results != 1) {
		rc = fail(err, LEASED_EPROTO, "the daemon answered something else");
	} else {
		result = r.call.reply->renewed->results[0];
		rc = status_from_wire(result->status);
		pthread_mutex_lock(&client->lock);
		if (rc == 0)
			lease->ttl_ms = ttl_ms;
		if (lease->state == LEASE_HELD)
			renewer_take_result(lease, r.call.sent_ns, result);
		else if (rc == 0)
			set_times(lease, r.call.sent_ns, result->expires_in_ms);
		pthread_mutex_unlock(&client->lock);
		if (rc < 0)
			rc = fail(err, rc == LEASED_ENOTHELD ? LEASED_ELOST : rc, "%s", result->why);
	}
	call_fini(&r.call);
	return rc;
}

int leased_renew(struct leased_lease *lease, int64_t ttl_ms, struct leased_error *err)
{
	struct leased_error why = { 0 };
	int rc = client_check(lease->client, &why);

	if (rc == 0 && ttl_ms < 0)
		rc = fail(&why, LEASED_EUSAGE, "a ttl is not negative");
	if (rc == 0 && !leased_held(lease))
		rc = fail(&why, LEASED_ELOST, "it is not held any more");
	if (rc == 0)
		rc = renew_now(lease, ttl_ms > 0 ? ttl_ms : lease->ttl_ms, &why);
	return rc < 0 ? told(err, "renew", lease->name, rc, why.text) : 0;
}

/* Release. */

struct release {
	struct call call;
	const struct leased_lease *lease;
	const int *exit_status;
	Leased__Release release;
	Leased__Claim claim;
	Leased__Holder holder;
};

static void fill_release(struct call *call, Leased__ClientMessage *message)
{
	struct release *r = call->data;

	leased__release__init(&r->release);
	lease_claim(r->lease, &r->claim, &r->holder);
	r->release.claim = &r->claim;
	r->release.retry = call->attempts > 0;
	if (r->exit_status) {
		r->release.ending_case = LEASED__RELEASE__ENDING_EXIT_STATUS;
		r->release.exit_status = *r->exit_status;
	}
	message->body_case = LEASED__CLIENT_MESSAGE__BODY_RELEASE;
	message->release = &r->release;
}

static int release_now(struct leased_lease *lease, const int *exit_status, struct leased_error *err)
{
	struct release r = { .lease = lease, .exit_status = exit_status };
	int rc;

	r.call = (struct call){ .fill = fill_release, .data = &r, .survives_interrupt = true };
	rc = client_call(lease->client, &r.call, 0);
	if (rc < 0)
		rc = fail(err, rc == LEASED_ELOST ? LEASED_ENOTHELD : rc, "%s", r.call.err.text);
	call_fini(&r.call);
	return rc;
}

int leased_release(struct leased_lease *lease, const int *exit_status, struct leased_error *err)
{
	struct leased_client *client = lease->client;
	struct leased_error why = { 0 };
	bool was_held;
	int rc = client_check(client, &why);

	if (rc < 0)
		return told(err, "release", lease->name, rc, why.text);
	pthread_mutex_lock(&client->lock);
	was_held = lease->state == LEASE_HELD;
	if (was_held)
		renewer_drop(lease, LEASE_RELEASED); /* no renewal from here on, whatever comes back */
	pthread_mutex_unlock(&client->lock);
	if (!was_held)
		return told(err, "release", lease->name, LEASED_ENOTHELD, "it is not held any more");
	rc = release_now(lease, exit_status, &why);
	return rc < 0 ? told(err, "release", lease->name, rc, why.text) : 0;
}

void leased_lease_free(struct leased_lease *lease)
{
	struct leased_client *client = lease ? lease->client : NULL;

	if (!lease)
		return;
	if (client->pid != getpid()) {
		list_remove(&lease->owned);
		free(lease);
		return;
	}
	pthread_mutex_lock(&client->lock);
	while (client->in_callback == lease && !pthread_equal(pthread_self(), client->thread))
		pthread_cond_wait(&client->changed, &client->lock);
	renewer_drop(lease, LEASE_RELEASED);
	if (lease->renewing) {
		lease->orphan = true; /* freed when its renewal is over */
	} else {
		list_remove(&lease->owned);
		free(lease);
	}
	pthread_mutex_unlock(&client->lock);
}

/* Looking at it. */

int64_t leased_deadline_ns(const struct leased_lease *lease)
{
	return atomic_load(&lease->deadline_ns);
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
