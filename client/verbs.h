/*
 * verbs.h - calls that leasectl needs and libleased does not export: any message, sent once and waited
 * for, and acts on a lease by an explicit holder and token.
 */
#ifndef VERBS_H
#define VERBS_H

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

int verb_get(struct leased_client *client, const char *name, struct verb_reply *ret_reply,
	struct leased_error *err);

/* Rows of prefix after the name `after` (NULL: from the start). */
int verb_list(struct leased_client *client, const char *prefix, const ProtobufCBinaryData *after,
	struct verb_reply *ret_reply, struct leased_error *err);

/* The daemon's Health. */
int verb_report(struct leased_client *client, struct verb_reply *ret_reply,
	struct leased_error *err);

/* ttl_ms 0 keeps the ttl, value NULL the value. LEASED_ELOST, LEASED_ENOTHELD. */
int verb_renew(struct leased_client *client, const char *name, const struct holder *holder,
	uint64_t token, int64_t ttl_ms, const char *value, int64_t *ret_expires_in_ms,
	struct leased_error *err);

/* exit_status NULL: none. */
int verb_release(struct leased_client *client, const char *name, const struct holder *holder,
	uint64_t token, const int *exit_status, struct leased_error *err);

/* Ends somebody else's grant. reply: Stolen. LEASED_EFREE: nobody holds it. */
int verb_steal(struct leased_client *client, const char *name, const char *reason, uint64_t token,
	struct verb_reply *ret_reply, struct leased_error *err);

#endif
