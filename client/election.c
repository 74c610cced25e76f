/*
 *   RESTING -> CAMPAIGNING -> [CONFIRMING] -> LEADING -> (lost) -> RESTING
 *      ^------------'----------------'
 *
 * RESTING ends at a time, at once or after a pause. The lease of a campaign keeps its nonce until it was
 * granted, so that a failure in between, whose outcome nobody knows, costs no grant. A campaign that has
 * waited long has its grant confirmed by a renewal before it leads, as leased_acquire() does.
 *
 * In each callback client.in_callback is the election; one that its user ends there is disposed of
 * afterwards.
 */
#include "election.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abandon.h"
#include "acquire.h"
#include "renewer.h"
#include "status.h"
#include "watch.h"

#define PAUSE_NS INT64_C(1000000000)
#define WAIT_MS  300000 /* of one question in an endless campaign; a daemon's wait_max may not be below */

struct leased_election {
	struct list owned;            /* in client.elections */
	struct leased_client *client;
	enum { RESTING, CAMPAIGNING, CONFIRMING, LEADING } state;
	int64_t due_ns;               /* RESTING */
	struct leased_election_options o;
	struct leased_acquire_options acquire_options;
	struct leased_lease *lease;   /* NULL: RESTING, with a new one to be made */
	struct acquire acquire;
	struct call confirmation;
	Leased__Renew renew;
	Leased__Renewal renewal, *place;
	Leased__Claim claim;
	Leased__Holder holder;
	struct leased_watch *watch;   /* NULL: nobody asks for leaders */
	uint64_t leader;              /* the token that was told last, 0: nobody */
	char leader_value[VALUE_MAX_LEN];
	size_t leader_value_len;
	bool told, found;             /* anything yet; one in this snapshot */
	const void *outer;            /* in_callback around the election's own */
	bool muted;                   /* no further callback */
	bool over_in_callback;        /* its user has ended it there */
	char name[NAME_MAX_LEN + 1];
	char value[];
};

static void on_acquired(struct leased_client *client, struct call *call);
static void confirm(struct leased_election *e);
static void on_confirmed(struct leased_client *client, struct call *call);
static void lead(struct leased_election *e);
static void on_lead_lost(struct leased_lease *lease, const struct leased_error *why, void *data);
static void dispose(struct leased_election *e);

/* Callbacks. */

/* False: there is none to call. It may run within one of the election's lease or watch. */
static bool begin_callback(struct leased_election *e, bool has_one)
{
	if (e->muted || !has_one)
		return false;
	e->outer = e->client->in_callback;
	e->client->in_callback = e;
	pthread_mutex_unlock(&e->client->lock);
	return true;
}

/* Comes last, since its user may have ended the election. */
static void end_callback(struct leased_election *e)
{
	struct leased_client *client = e->client;

	pthread_mutex_lock(&client->lock);
	client->in_callback = e->outer;
	pthread_cond_broadcast(&client->changed);
	if (e->over_in_callback)
		dispose(e);
}

/* As end_callback, it comes last. */
static void tell_problem(struct leased_election *e, int status, const char *text)
{
	struct leased_error why;

	fail(&why, status, "elect \"%s\": %s", e->name, text);
	if (!begin_callback(e, e->o.on_problem))
		return;
	e->o.on_problem(e, &why, e->o.data);
	end_callback(e);
}

/* The campaign. */

static void rest(struct leased_election *e, int64_t pause_ns)
{
	e->state = RESTING;
	e->due_ns = boottime_ns() + pause_ns;
	client_wake(e->client);
}

static void campaign(struct leased_election *e)
{
	struct leased_client *client = e->client;

	if (!e->lease)
		e->lease = lease_new(client, e->name, &e->acquire_options);
	if (!e->lease) {
		rest(e, PAUSE_NS);
		tell_problem(e, LEASED_ENOMEM, "out of memory");
		return;
	}
	acquire_begin(&e->acquire, e->lease, &e->acquire_options);
	e->acquire.call.detached = true;
	e->acquire.call.finished = on_acquired;
	e->state = CAMPAIGNING;
	call_queue(client, &e->acquire.call);
}

/* What was asked for must not be granted to nobody. */
static void leave_line(struct leased_election *e)
{
	list_remove(&e->acquire.call.link);
	if (e->acquire.call.attempts > 0)
		abandon_acquire(e->client, &e->acquire.call, e->lease);
	e->state = RESTING;
}

static void end_campaigns(struct leased_client *client)
{
	for (struct list *node = client->elections.next; node != &client->elections; node = node->next) {
		struct leased_election *e = list_entry(node, struct leased_election, owned);

		if (e->state == CAMPAIGNING)
			leave_line(e);
	}
}

void elections_run(struct leased_client *client)
{
	struct list *node = client->elections.next;
	int64_t now = boottime_ns();

	if (client->closing)
		end_campaigns(client);
	if (client->closing || atomic_load(&client->interrupted))
		return;
	while (node != &client->elections) {
		struct leased_election *e = list_entry(node, struct leased_election, owned);

		node = node->next;
		if (e->state != RESTING || e->due_ns > now)
			continue;
		campaign(e);
		node = client->elections.next; /* the list may have changed */
	}
}

static struct leased_election *of_acquire(struct call *call)
{
	return list_entry(call, struct leased_election, acquire.call);
}

static void on_acquired(struct leased_client *client, struct call *call)
{
	struct leased_election *e = of_acquire(call);
	int status = call->status;
	bool proven;

	if (status == LEASED_OK && call->reply->body_case != LEASED__SERVER_MESSAGE__BODY_GRANTED)
		status = fail(&call->err, LEASED_EPROTO, "the daemon answered something else");
	if (status < 0) {
		call_fini(call);
		rest(e, status == LEASED_ETIMEDOUT ? 0 : PAUSE_NS);
		if (status != LEASED_ETIMEDOUT && !client->ended)
			tell_problem(e, status, call->err.text);
		return;
	}
	proven = acquire_take_proof(&e->acquire);
	call_fini(call);
	if (proven)
		lead(e);
	else
		confirm(e);
}

static void fill_confirmation(struct call *call, Leased__ClientMessage *message)
{
	struct leased_election *e = call->data;

	lease_claim(e->lease, &e->claim, &e->holder);
	renewal_message(e->lease, &e->claim, &e->renewal);
	e->place = &e->renewal;
	leased__renew__init(&e->renew);
	e->renew.n_renewals = 1;
	e->renew.renewals = &e->place;
	message->body_case = LEASED__CLIENT_MESSAGE__BODY_RENEW;
	message->renew = &e->renew;
}

static void confirm(struct leased_election *e)
{
	e->confirmation = (struct call){ .fill = fill_confirmation, .finished = on_confirmed, .data = e,
		.detached = true, .until_ns = boottime_ns() + e->lease->ttl_ms * 1000000 };
	e->state = CONFIRMING;
	call_queue(e->client, &e->confirmation);
}

/* Not ours to use: rather than let it expire. Its nonce is used up. */
static void give_up_grant(struct leased_election *e)
{
	abandon_grant(e->client, e->lease);
	free(e->lease);
	e->lease = NULL;
}

static void on_confirmed(struct leased_client *client, struct call *call)
{
	struct leased_election *e = call->data;
	struct leased_error why = call->err;

	if (call->status == LEASED_OK && (call->reply->body_case != LEASED__SERVER_MESSAGE__BODY_RENEWED ||
						 call->reply->renewed->n_results != 1))
		call->status = fail(&why, LEASED_EPROTO, "the daemon answered something else");
	if (call->status == LEASED_OK) {
		renewer_take_result(e->lease, call->sent_ns, call->reply->renewed->results[0], &why);
		call->status = why.status;
	}
	call_fini(call);
	if (call->status == LEASED_OK) {
		lead(e);
		return;
	}
	give_up_grant(e);
	rest(e, PAUSE_NS);
	if (!client->ended)
		tell_problem(e, why.status, why.text);
}

/* The lead. */

static void lead(struct leased_election *e)
{
	struct leased_error why;

	if (acquire_hold(e->lease, &why) < 0) {
		free(e->lease);
		e->lease = NULL;
		rest(e, PAUSE_NS);
		return;
	}
	e->state = LEADING;
	if (!begin_callback(e, e->o.on_leading))
		return;
	e->o.on_leading(e, e->lease, e->o.data);
	end_callback(e);
}

/* The lease's callback: unlocked. */
static void on_lead_lost(struct leased_lease *lease, const struct leased_error *why, void *data)
{
	struct leased_election *e = data;
	struct leased_client *client = e->client;

	pthread_mutex_lock(&client->lock);
	e->lease = NULL;
	lease->orphan = true;
	renewer_collect(lease);
	rest(e, 0);
	if (begin_callback(e, e->o.on_lost)) {
		e->o.on_lost(e, why, e->o.data);
		end_callback(e);
	}
	pthread_mutex_unlock(&client->lock);
}

/* Leaders. */

/* A fresh snapshot often says what is known. */
static bool is_known(const struct leased_election *e, const struct leased_change *leader)
{
	if (!leader)
		return e->told && !e->leader;
	return e->leader == leader->token && e->leader_value_len == leader->value_len &&
	       (leader->value_len == 0 || memcmp(e->leader_value, leader->value, leader->value_len) == 0);
}

static void tell_leader(struct leased_election *e, const struct leased_change *leader)
{
	if (is_known(e, leader))
		return;
	e->told = true;
	e->leader = leader ? leader->token : 0;
	e->leader_value_len = leader && leader->value_len <= VALUE_MAX_LEN ? leader->value_len : 0;
	if (e->leader_value_len > 0)
		memcpy(e->leader_value, leader->value, e->leader_value_len);
	if (!begin_callback(e, true))
		return;
	e->o.on_leader(e, leader, e->o.data);
	end_callback(e);
}

static void take_change(struct leased_election *e, const struct leased_change *change)
{
	switch (change->kind) {
	case LEASED_CHANGE_SNAPSHOT: e->found = false; break;
	case LEASED_CHANGE_READY:
		if (!e->found)
			tell_leader(e, NULL);
		break;
	case LEASED_CHANGE_HELD:
	case LEASED_CHANGE_GRANTED:
	case LEASED_CHANGE_VALUE:
		e->found = true;
		tell_leader(e, change);
		break;
	case LEASED_CHANGE_RELEASED:
	case LEASED_CHANGE_EXPIRED:
	case LEASED_CHANGE_STOLEN: tell_leader(e, NULL); break;
	case LEASED_CHANGE_AWAY:
	case LEASED_CHANGE_ENDED: tell_problem(e, change->why->status, change->why->text); break;
	}
}

/* The watch's callback: unlocked. */
static void on_change(struct leased_watch *watch, const struct leased_change *change, void *data)
{
	struct leased_election *e = data;
	struct leased_client *client = e->client;

	(void)watch;
	pthread_mutex_lock(&client->lock);
	take_change(e, change);
	pthread_mutex_unlock(&client->lock);
}

/* Beginning and end. */

static struct leased_election *election_new(struct leased_client *client, const char *name,
	const struct leased_election_options *o)
{
	struct leased_election *e = calloc(1, sizeof *e + o->value_len);

	if (!e)
		return NULL;
	e->client = client;
	e->o = *o;
	e->acquire_options = (struct leased_acquire_options){ .ttl_ms = o->ttl_ms, .wait_ms = WAIT_MS,
		.min_hold_ms = o->min_hold_ms, .value = e->value, .value_len = o->value_len,
		.release_on_disconnect = o->release_on_disconnect, .on_lost = on_lead_lost, .data = e };
	strcpy(e->name, name);
	if (o->value_len > 0)
		memcpy(e->value, o->value, o->value_len);
	return e;
}

static int check(struct leased_client *client, const char *name, const struct leased_election_options *o,
	struct leased_error *err)
{
	struct leased_acquire_options acquire = { .ttl_ms = o->ttl_ms, .min_hold_ms = o->min_hold_ms,
		.value = o->value, .value_len = o->value_len };

	if (client->pid != getpid())
		return fail(err, LEASED_ENOTHELD, "a child of fork cannot use its parent's client");
	if (atomic_load(&client->interrupted))
		return fail(err, LEASED_ECANCELLED, "interrupted");
	return acquire_check(client, name, &acquire, err);
}

static int start(struct leased_election *e, struct leased_election **ret_election, struct leased_error *err)
{
	struct leased_watch_options watching = { .exact = true, .on_change = on_change, .data = e };
	struct leased_client *client = e->client;
	int rc = e->o.on_leader ? leased_watch(client, e->name, &watching, &e->watch, err) : 0;

	if (rc < 0)
		return rc;
	pthread_mutex_lock(&client->lock);
	*ret_election = e;
	list_append(&client->elections, &e->owned);
	rest(e, 0);
	pthread_mutex_unlock(&client->lock);
	return 0;
}

int leased_elect(struct leased_client *client, const char *name,
	const struct leased_election_options *options, struct leased_election **ret_election,
	struct leased_error *err)
{
	static const struct leased_election_options defaults;
	const struct leased_election_options *o = options ? options : &defaults;
	struct leased_election *e = NULL;
	struct leased_error why = { 0 };
	int rc = check(client, name, o, &why);

	if (rc == 0) {
		e = election_new(client, name, o);
		rc = e ? start(e, ret_election, &why) : fail(&why, LEASED_ENOMEM, "out of memory");
	}
	if (rc == 0)
		return 0;
	free(e);
	return fail(err, rc, "elect \"%s\": %s", name, why.text);
}

/* Takes the election apart. Returns the lease when it leads: that is still to be released and freed. */
static struct leased_lease *take_apart(struct leased_election *e)
{
	struct leased_client *client = e->client;
	struct leased_lease *lease = e->lease;

	list_remove(&e->owned);
	if (e->watch)
		watch_drop(e->watch);
	if (e->state == CAMPAIGNING) {
		leave_line(e);
	} else if (e->state == CONFIRMING) {
		list_remove(&e->confirmation.link);
		abandon_grant(client, lease);
	} else if (e->state == LEADING) {
		lease->on_lost = NULL; /* it may still be lost before it is released */
		free(e);
		return lease;
	}
	free(lease);
	free(e);
	return NULL;
}

/* On the background thread, which cannot wait for the answer to a release. */
static void dispose(struct leased_election *e)
{
	struct leased_client *client = e->client;
	struct leased_lease *lease = take_apart(e);

	if (!lease)
		return;
	renewer_drop(lease, LEASE_RELEASED);
	abandon_grant(client, lease);
	lease->orphan = true;
	renewer_collect(lease);
}

/* The client is gone, and with it a lease that was held. */
static void election_free(struct leased_election *e)
{
	if (e->state != LEADING)
		free(e->lease);
	free(e);
}

static bool is_called_out(const struct leased_election *e)
{
	const void *current = e->client->in_callback;

	return current && (current == e || current == e->lease || current == e->watch);
}

void leased_step_down(struct leased_election *election)
{
	struct leased_client *client = election ? election->client : NULL;
	struct leased_lease *lease = NULL;

	if (!election)
		return;
	if (client->pid != getpid()) {
		list_remove(&election->owned);
		election_free(election);
		return;
	}
	pthread_mutex_lock(&client->lock);
	election->muted = true;
	if (!pthread_equal(pthread_self(), client->thread)) {
		while (is_called_out(election))
			pthread_cond_wait(&client->changed, &client->lock);
		lease = take_apart(election);
	} else if (client->in_callback == election) {
		election->over_in_callback = true;
	} else {
		dispose(election);
	}
	pthread_mutex_unlock(&client->lock);
	if (lease) {
		leased_release(lease, NULL, NULL);
		leased_lease_free(lease);
	}
}

void elections_free(struct leased_client *client)
{
	struct list *node;

	while ((node = list_pop(&client->elections)))
		election_free(list_entry(node, struct leased_election, owned));
}
