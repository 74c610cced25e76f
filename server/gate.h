/*
 * gate.h - the one place that decides what a client may ask for and be told. Every request passes gate_in()
 * before anything else looks at it, every message to a client gate_out() when it is sent, so that what a
 * reload has withdrawn is not told any more. Both go by tables in which each text of the protocol has a row;
 * a test holds the tables to the descriptors of leased.proto. Loop thread.
 */
#ifndef GATE_H
#define GATE_H

#include "access.h"
#include "leased.pb-c.h"

enum gate_kind {
	GATE_FREE,   /* a text that names no lease, or a request without any; everybody may */
	GATE_NAME,   /* in: the rule must allow the verb on it. Empty ones are left to call_read.c */
	GATE_EACH,   /* in: likewise, but what is refused is a part of the request: gate_one() */
	GATE_PREFIX, /* in: some name that begins with it; with `exact` beside it, it is a name */
	GATE_VERB,   /* in: the verb on whatever */
	/* Out: what path names is a part with a `name`, of which one of the verbs must be allowed; if not: */
	GATE_DENY,      /* the answer is a Failure in its stead */
	GATE_DROP,      /* nothing is sent */
	GATE_LEAVE_OUT, /* the part is left out */
};

#define GATE_DEPTH 4

struct gate_row {
	int body; /* of the message: the field in its oneof */
	const char *path[GATE_DEPTH]; /* fields, from the body on; none: the body itself */
	enum gate_kind kind;
	unsigned verbs;
};

/* The tables, for the test. */
const struct gate_row *gate_in_rows(size_t *ret_n);
const struct gate_row *gate_out_rows(size_t *ret_n);

/* The name (or prefix) that was refused, and which verb was not allowed on it. */
struct gate_denial {
	struct text name;
	enum access_verb verb;
};

/* 0; or LEASED_EDENIED, naming the rule that is missing. */
int gate_in(const struct access_client *c, const Leased__ClientMessage *m, struct gate_denial *ret_denial,
	struct leased_error *err);

/* One name of a request that has passed. 0, LEASED_EDENIED. */
int gate_one(const struct access_client *c, enum access_verb verb, struct text name, struct leased_error *err);

/*
 * Takes out what c may not be told; m is changed. 0: send it. LEASED_EDENIED: answer with err. 1: send nothing.
 * c may be NULL, before it is known who is there.
 */
int gate_out(const struct access_client *c, Leased__ServerMessage *m, struct leased_error *err);

/* Each name and prefix of a request, with its verb, in the order of the table. */
typedef void (*gate_name_cb)(void *data, enum access_verb verb, struct text name);
void gate_each_name(const Leased__ClientMessage *m, gate_name_cb each, void *data);

/* "acquire", "report": the request as it is called in leased.proto. */
const char *gate_request_name(const Leased__ClientMessage *m);

/* Which rule is missing. */
int gate_deny(struct leased_error *err, const struct access_client *c, enum access_verb verb, struct text name);

#endif
