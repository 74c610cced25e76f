/*
 * audit.h - who did what, as log lines of their own kind: event=audit, with principal, client (the line in
 * authorized_clients), verb, lease, outcome (allowed or denied) and why. A name for each line. The option
 * `audit` says which are written; those that are denied are bounded for each principal, and for all strangers
 * together. Loop thread.
 */
#ifndef AUDIT_H
#define AUDIT_H

#include "gate.h"
#include "session.h"

/* Somebody has connected; rc < 0: and was refused, perhaps as nobody we know (c is NULL). */
void audit_connect(struct session *s, const struct access_client *c, int rc, const struct leased_error *err);

/* Its line is gone or its time is over. */
void audit_withdrawn(struct session *s);

/* A request has come; rc < 0: and was refused. */
void audit_request(struct session *s, const Leased__ClientMessage *m, const struct gate_denial *denial, int rc,
	const struct leased_error *err);

/* A part of a request that was let pass is refused. */
void audit_part(struct session *s, enum access_verb verb, struct text name, const struct leased_error *err);

#endif
