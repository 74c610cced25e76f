/*
 * client_rig.h - a client of libleased and a daemon by script, for its tests: blocking calls run in
 * threads of their own while the test plays the daemon.
 */
#ifndef CLIENT_RIG_H
#define CLIENT_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "leased.h"
#include "peer.h"

#define KIND(name) LEASED__CLIENT_MESSAGE__BODY_##name

struct world {
	struct peer peer, other;
	struct leased_client *client;
	_Atomic int lost, renewed;
};

/* cmocka fixtures: a client that is connected to peer. */
int rig_setup(void **state);
int rig_setup_impatient(void **state); /* half a second for a call */
int rig_setup_pair(void **state);      /* it knows other as well */
int rig_setup_pair_impatient(void **state); /* the same, and 2.5 s for a call */
int rig_teardown(void **state);

struct acquiring {
	pthread_t thread;
	struct world *world;
	struct leased_acquire_options options;
	const char *name;
	struct leased_lease *lease;
	struct leased_error err;
	int rc;
};

void rig_acquire(struct world *w, struct acquiring *c, const char *name, int64_t ttl_ms,
	int64_t wait_ms);
void rig_acquire_with(struct world *w, struct acquiring *c, const char *name,
	const struct leased_acquire_options *options);
void rig_finish(struct acquiring *c, int want);

/* An acquire that is given up while no daemon can be reached; the daemon is back, and knows nothing. Its holder. */
Leased__Holder rig_give_up_while_away(struct world *w, const char *name,
	const struct leased_acquire_options *options);

/* A lease of ttl_ms with token 7 that was granted at once. */
struct leased_lease *rig_granted(struct world *w, const char *name, int64_t ttl_ms);

struct releasing {
	pthread_t thread;
	struct leased_lease *lease;
	int rc;
};

/* With exit status 5. */
void rig_release(struct releasing *r, struct leased_lease *lease);
void rig_released(struct releasing *r, int want);

struct renewing {
	pthread_t thread;
	struct leased_lease *lease;
	int64_t ttl_ms;
	int rc;
};

void rig_renew(struct renewing *r, struct leased_lease *lease, int64_t ttl_ms);
void rig_renewed(struct renewing *r, int want);

/* Counts into data, which is the world; so do those of rig_acquire. */
void rig_on_lost(struct leased_lease *lease, const struct leased_error *why, void *data);

void rig_pause(int ms);
void rig_wait_for(_Atomic int *count, int wanted);

#endif
