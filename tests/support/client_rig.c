#include "client_rig.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "name.h"

#define TIMEOUT_MS 15000

struct opening {
	struct world *world;
	struct leased_options options;
	int rc;
};

static void *run_open(void *arg)
{
	struct opening *o = arg;

	o->rc = leased_client_open(&o->world->client, &o->options, NULL);
	return NULL;
}

static int setup(void **state, int64_t timeout_ms, bool pair)
{
	struct world *w = calloc(1, sizeof *w);
	char servers[200];
	struct opening o = { .world = w, .options = { .servers = servers, .timeout_ms = timeout_ms,
		.margin_ms = 50 } };
	pthread_t thread;

	peer_start(&w->peer);
	peer_start(&w->other);
	snprintf(servers, sizeof servers, "%s%s%s", w->peer.address, pair ? "," : "",
		pair ? w->other.address : "");
	pthread_create(&thread, NULL, run_open, &o);
	peer_accept(&w->peer);
	pthread_join(thread, NULL);
	*state = w;
	return o.rc;
}

int rig_setup(void **state)
{
	return setup(state, TIMEOUT_MS, false);
}

int rig_setup_impatient(void **state)
{
	return setup(state, 500, false);
}

int rig_setup_pair(void **state)
{
	return setup(state, TIMEOUT_MS, true);
}

int rig_setup_pair_impatient(void **state)
{
	return setup(state, 2500, true);
}

int rig_teardown(void **state)
{
	struct world *w = *state;

	leased_client_close(w->client);
	peer_stop(&w->peer);
	peer_stop(&w->other);
	free(w);
	return 0;
}

void rig_on_lost(struct leased_lease *lease, const struct leased_error *why, void *data)
{
	struct world *w = data;

	if (!leased_held(lease) && why->status == LEASED_ELOST)
		w->lost++;
}

static void on_renewed(struct leased_lease *lease, void *data)
{
	struct world *w = data;

	(void)lease;
	w->renewed++;
}

static void *run_acquire(void *arg)
{
	struct acquiring *c = arg;

	c->rc = leased_acquire(c->world->client, c->name, &c->options, &c->lease, &c->err);
	return NULL;
}

void rig_acquire_with(struct world *w, struct acquiring *c, const char *name,
	const struct leased_acquire_options *options)
{
	*c = (struct acquiring){ .world = w, .name = name, .options = *options };
	pthread_create(&c->thread, NULL, run_acquire, c);
}

void rig_acquire(struct world *w, struct acquiring *c, const char *name, int64_t ttl_ms,
	int64_t wait_ms)
{
	struct leased_acquire_options options = { .ttl_ms = ttl_ms, .wait_ms = wait_ms,
		.on_lost = rig_on_lost, .on_renewed = on_renewed, .data = w };

	rig_acquire_with(w, c, name, &options);
}

void rig_finish(struct acquiring *c, int want)
{
	pthread_join(c->thread, NULL);
	assert_int_equal(c->rc, want);
}

Leased__Holder rig_give_up_while_away(struct world *w, const char *name,
	const struct leased_acquire_options *options)
{
	Leased__Holder holder = LEASED__HOLDER__INIT;
	static uint8_t host[HOST_MAX_LEN];
	Leased__ClientMessage *m;
	struct acquiring c;

	rig_acquire_with(w, &c, name, options);
	m = peer_expect(&w->peer, KIND(ACQUIRE));
	holder.nonce = m->acquire->holder->nonce;
	holder.pid = m->acquire->holder->pid;
	holder.host.len = m->acquire->holder->host.len;
	holder.host.data = memcpy(host, m->acquire->holder->host.data, holder.host.len);
	peer_away(&w->peer);
	rig_finish(&c, LEASED_EUNAVAILABLE);
	peer_back(&w->peer);
	peer_accept(&w->peer);
	return holder;
}

struct leased_lease *rig_granted(struct world *w, const char *name, int64_t ttl_ms)
{
	struct acquiring c;
	Leased__ClientMessage *m;

	rig_acquire(w, &c, name, ttl_ms, 0);
	m = peer_expect(&w->peer, KIND(ACQUIRE));
	peer_grant(&w->peer, m->id, 7, (uint64_t)ttl_ms);
	rig_finish(&c, 0);
	return c.lease;
}

static void *run_release(void *arg)
{
	struct releasing *r = arg;
	int status = 5;

	r->rc = leased_release(r->lease, &status, NULL);
	return NULL;
}

void rig_release(struct releasing *r, struct leased_lease *lease)
{
	*r = (struct releasing){ .lease = lease };
	pthread_create(&r->thread, NULL, run_release, r);
}

void rig_released(struct releasing *r, int want)
{
	pthread_join(r->thread, NULL);
	assert_int_equal(r->rc, want);
}

static void *run_renew(void *arg)
{
	struct renewing *r = arg;

	r->rc = leased_renew(r->lease, r->ttl_ms, NULL);
	return NULL;
}

void rig_renew(struct renewing *r, struct leased_lease *lease, int64_t ttl_ms)
{
	*r = (struct renewing){ .lease = lease, .ttl_ms = ttl_ms };
	pthread_create(&r->thread, NULL, run_renew, r);
}

void rig_renewed(struct renewing *r, int want)
{
	pthread_join(r->thread, NULL);
	assert_int_equal(r->rc, want);
}

void rig_pause(int ms)
{
	poll(NULL, 0, ms);
}

void rig_wait_for(_Atomic int *count, int wanted)
{
	for (int i = 0; i < 2000 && atomic_load(count) < wanted; i++)
		rig_pause(10);
	assert_int_equal(atomic_load(count), wanted);
}
