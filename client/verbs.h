/*
 * verbs.h - calls that leasectl needs and libleased does not export: any message, sent once and waited
 * for, and acts on a lease by an explicit holder and token.
 */
#ifndef VERBS_H
#define VERBS_H

#include <stdbool.h>

#include "holder.h"
#include "leased.h"
#include "message.h"

/* A reply and its memory; reply_fini frees it, also after a failure. */
struct verb_reply {
	Leased__ServerMessage *message; /* NULL unless the daemon has answered */
	struct arena arena;
};

void verb_reply_fini(struct verb_reply *reply);

/*
 * Sends message (its id is set here) and waits for the answer, which must be of kind want. 0, or the
 * status of a Failure worded in err; then ret_reply still holds it, with who holds the lease.
 */
int verb_call(struct leased_client *client, const Leased__ClientMessage *message,
	Leased__ServerMessage__BodyCase want, struct verb_reply *ret_reply, struct leased_error *err);

/* A lease that somebody has, by what acquire has printed. */
struct verb_claim {
	const char *name;
	const char *const *also; /* further names of the same grant, checked */
	size_t n_also;
	const struct holder *holder;
	uint64_t token;
};

int verb_get(struct leased_client *client, const char *name, struct verb_reply *ret_reply,
	struct leased_error *err);

typedef void (*verb_lease_cb)(const Leased__Lease *lease, void *data);

/*
 * All rows whose names begin with prefix, or with exact those of that very name, in their order. Each lives
 * until the callback returns; some may have been told when it fails.
 */
int verb_list(struct leased_client *client, const char *prefix, bool exact, verb_lease_cb each, void *data,
	struct leased_error *err);

/* The daemon's Health. */
int verb_report(struct leased_client *client, struct verb_reply *ret_reply,
	struct leased_error *err);

/* The daemon's Identity: who one is, and may do. */
int verb_whoami(struct leased_client *client, struct verb_reply *ret_reply, struct leased_error *err);

/* ttl_ms 0 keeps the ttl, value NULL the value. LEASED_ELOST, LEASED_ENOTHELD. */
int verb_renew(struct leased_client *client, const struct verb_claim *claimed, int64_t ttl_ms,
	const char *value, int64_t *ret_expires_in_ms, struct leased_error *err);

/* exit_status NULL: none. */
int verb_release(struct leased_client *client, const struct verb_claim *claimed, const int *exit_status,
	struct leased_error *err);

/* Ends somebody else's grant. reply: Stolen. LEASED_EFREE: nobody holds it. */
int verb_steal(struct leased_client *client, const char *name, const char *reason, uint64_t token,
	struct verb_reply *ret_reply, struct leased_error *err);

#endif
