#include "claim.h"

#include <stdlib.h>
#include <unistd.h>

#include "abandon.h"
#include "duration.h"
#include "renewer.h"
#include "status.h"

int claim_fail(struct leased_error *err, const char *verb, const char *name, int status,
	const char *why)
{
	return fail(err, status, "%s \"%s\": %s", verb, name, why);
}

int claim_check_ttl(const struct leased_client *client, int64_t ttl_ms, struct leased_error *err)
{
	if (ttl_ms < 0 || ttl_ms > DURATION_MAX_MS)
		return fail(err, LEASED_EUSAGE, "a ttl is not negative and at most ten years");
	if (ttl_ms > 0 && renewer_margin_ms(client, ttl_ms) > ttl_ms / 2)
		return fail(err, LEASED_EUSAGE, "the margin takes more than half of the ttl");
	return 0;
}

/* Renew. */

struct renewal {
	struct call call;
	struct leased_lease *lease;
	const struct claim_change *change;
	struct leased_error outcome; /* once call.status is 0 */
	Leased__Renew renew;
	Leased__Renewal renewal, *place;
	Leased__Claim claim;
	Leased__Holder holder;
};

static void fill_renewal(struct call *call, Leased__ClientMessage *message)
{
	struct renewal *r = call->data;

	lease_claim(r->lease, &r->claim, &r->holder);
	renewal_message(r->lease, &r->claim, &r->renewal);
	r->renewal.ttl_ms = (uint64_t)r->change->ttl_ms;
	r->renewal.set_value = r->change->set_value;
	r->renewal.value.data = (uint8_t *)(uintptr_t)r->change->value;
	r->renewal.value.len = r->change->value_len;
	r->place = &r->renewal;
	leased__renew__init(&r->renew);
	r->renew.n_renewals = 1;
	r->renew.renewals = &r->place;
	message->body_case = LEASED__CLIENT_MESSAGE__BODY_RENEW;
	message->renew = &r->renew;
}

/* On the background thread, as all that happens to leases. */
static void finish_renewal(struct leased_client *client, struct call *call)
{
	struct renewal *r = call->data;
	const Leased__RenewalResult *result;

	(void)client;
	if (call->status < 0)
		return;
	if (call->reply->body_case != LEASED__SERVER_MESSAGE__BODY_RENEWED ||
		call->reply->renewed->n_results != 1) {
		call->status = fail(&call->err, LEASED_EPROTO, "the daemon answered something else");
		return;
	}
	result = call->reply->renewed->results[0];
	if (result->status == 0 && r->change->ttl_ms > 0)
		r->lease->ttl_ms = r->change->ttl_ms;
	renewer_take_result(r->lease, call->sent_ns, result, &r->outcome);
}

int claim_renew(struct leased_lease *lease, const struct claim_change *change,
	struct leased_error *err)
{
	struct renewal r = { .lease = lease, .change = change };
	int rc;

	r.call = (struct call){ .fill = fill_renewal, .finished = finish_renewal, .data = &r };
	rc = call_run(lease->client, &r.call, 0);
	if (rc < 0)
		rc = fail(err, rc, "%s", r.call.err.text);
	else if (r.outcome.status < 0)
		rc = fail(err, r.outcome.status, "%s", r.outcome.text);
	call_fini(&r.call);
	return rc;
}

/*
 * Our turn to renew by hand: the daemon may take requests in any order, so that of two with different
 * ttls nobody would know which one the database goes by.
 */
static int begin_by_hand(struct leased_lease *lease, int64_t ttl_ms, struct leased_error *err)
{
	struct leased_client *client = lease->client;
	int rc = 0;

	pthread_mutex_lock(&client->lock);
	lease->callers++;
	while (lease->renewing_by_hand)
		pthread_cond_wait(&client->changed, &client->lock);
	lease->renewing_by_hand = true;
	if (!leased_held(lease))
		rc = fail(err, LEASED_ELOST, "it is not held any more");
	else if (ttl_ms > 0)
		renewer_expect_ttl(lease, ttl_ms);
	pthread_mutex_unlock(&client->lock);
	return rc;
}

/* Its user may have freed it in a callback. */
static void end_by_hand(struct leased_lease *lease)
{
	struct leased_client *client = lease->client;

	pthread_mutex_lock(&client->lock);
	lease->callers--;
	lease->renewing_by_hand = false;
	pthread_cond_broadcast(&client->changed);
	renewer_collect(lease);
	pthread_mutex_unlock(&client->lock);
}

static int renew_by_hand(struct leased_lease *lease, const char *verb,
	const struct claim_change *change, struct leased_error *err)
{
	struct leased_error why = { 0 };
	int rc = begin_by_hand(lease, change->ttl_ms, &why);

	if (rc == 0)
		rc = claim_renew(lease, change, &why);
	if (rc < 0)
		claim_fail(err, verb, lease->name, rc, why.text);
	end_by_hand(lease);
	return rc;
}

static int apply(struct leased_lease *lease, const char *verb, const struct claim_change *change,
	struct leased_error *err)
{
	struct leased_client *client = lease->client;
	struct leased_error why = { 0 };
	int rc = client_enter(client, &why);

	if (rc < 0)
		return claim_fail(err, verb, lease->name, rc, why.text);
	rc = claim_check_ttl(client, change->ttl_ms, &why);
	if (rc == 0)
		rc = value_check(change->value, change->value_len, &why);
	if (rc < 0)
		claim_fail(err, verb, lease->name, rc, why.text);
	else
		rc = renew_by_hand(lease, verb, change, err);
	client_leave(client);
	return rc;
}

int leased_renew(struct leased_lease *lease, int64_t ttl_ms, struct leased_error *err)
{
	return apply(lease, "renew", &(struct claim_change){ .ttl_ms = ttl_ms }, err);
}

int leased_set_value(struct leased_lease *lease, const void *value, size_t len,
	struct leased_error *err)
{
	const struct claim_change new_value = { .set_value = true, .value = value, .value_len = len };

	return apply(lease, "set the value of", &new_value, err);
}

/* Release. */

struct release {
	struct call call;
	const struct leased_lease *lease;
	const int *exit_status;
	bool undone;
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
	r->release.undone = r->undone;
	if (r->exit_status) {
		r->release.ending_case = LEASED__RELEASE__ENDING_EXIT_STATUS;
		r->release.exit_status = *r->exit_status;
	}
	message->body_case = LEASED__CLIENT_MESSAGE__BODY_RELEASE;
	message->release = &r->release;
}

static int release(struct leased_lease *lease, struct release *r, struct leased_error *err)
{
	struct leased_client *client = lease->client;
	bool was_held;
	int rc;

	pthread_mutex_lock(&client->lock);
	was_held = lease->state == LEASE_HELD;
	if (was_held)
		renewer_drop(lease, LEASE_RELEASED); /* no renewal from here on, whatever comes back */
	pthread_mutex_unlock(&client->lock);
	if (!was_held)
		return fail(err, LEASED_ENOTHELD, "it is not held any more");
	r->lease = lease;
	r->call = (struct call){ .fill = fill_release, .data = r, .survives_interrupt = true };
	rc = call_run(client, &r->call, 0);
	if (rc < 0)
		rc = fail(err, rc == LEASED_ELOST ? LEASED_ENOTHELD : rc, "%s", r->call.err.text);
	call_fini(&r->call);
	return rc;
}

static int end(struct leased_lease *lease, struct release *r, struct leased_error *err)
{
	struct leased_client *client = lease->client;
	struct leased_error why = { 0 };
	int rc = client_enter(client, &why);

	if (rc < 0)
		return claim_fail(err, "release", lease->name, rc, why.text);
	rc = release(lease, r, &why);
	if (rc < 0)
		claim_fail(err, "release", lease->name, rc, why.text);
	client_leave(client);
	return rc;
}

int leased_release(struct leased_lease *lease, const int *exit_status, struct leased_error *err)
{
	return end(lease, &(struct release){ .exit_status = exit_status }, err);
}

int leased_give_back(struct leased_lease *lease, struct leased_error *err)
{
	return end(lease, &(struct release){ .undone = true }, err);
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
	if (lease->state == LEASE_LOST && lease->n_also > 0)
		abandon_grant(client, lease); /* perhaps by one name only: the others shall not have to expire */
	renewer_drop(lease, LEASE_RELEASED);
	lease->orphan = true;
	renewer_collect(lease);
	pthread_mutex_unlock(&client->lock);
}
