/*
 * reply.h - what a client is told: outcomes of requests as messages of the protocol. Loop thread.
 * All of it goes into the session's output of this turn; nothing is sent to a session that closes.
 */
#ifndef REPLY_H
#define REPLY_H

#include "call.h"

/*
 * Sends a message, without what the client may not be told (gate.h); a client that never reads is closed when its
 * output is over the limit.
 */
void reply_send(struct session *s, Leased__ServerMessage *message);

/* Refuses request id; current, who holds the lease, may be NULL. */
void reply_failure(struct session *s, uint64_t id, const struct leased_error *err,
	Leased__Lease *current);

/* A grant of this client's principal was ended by somebody else. */
void reply_lost(struct session *s, struct text name, uint64_t token, struct text why);

void reply_pong(struct session *s, uint64_t id);

/* What the daemon knows of itself and of its database: answered without the engine. */
void reply_health(struct session *s, uint64_t id);

/* One change of a watch. */
void reply_change(struct session *s, uint64_t id, const struct change *change);

/* The one reply of a call whose requests have all been decided; its session is still there. */
void reply_outcome(struct call *call);

#endif
