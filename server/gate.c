/*
 * Fields are found by their names in the descriptors that protobuf-c makes from leased.proto: a row is a path
 * of such names. What a path leads through may be repeated or missing.
 */
#include "gate.h"

#include <stdlib.h>
#include <string.h>

#include "status.h"

#define IN(body, ...)  { LEASED__CLIENT_MESSAGE__BODY_##body, __VA_ARGS__ }
#define OUT(body, ...) { LEASED__SERVER_MESSAGE__BODY_##body, __VA_ARGS__ }

static const struct gate_row in_rows[] = {
	IN(HELLO, { "features" }, GATE_FREE, 0),
	IN(HELLO, { "program" }, GATE_FREE, 0),
	IN(ACQUIRE, { "name" }, GATE_NAME, ACCESS_ACQUIRE),
	IN(ACQUIRE, { "also" }, GATE_NAME, ACCESS_ACQUIRE),
	IN(ACQUIRE, { "holder", "host" }, GATE_FREE, 0),
	IN(ACQUIRE, { "value" }, GATE_FREE, 0),
	IN(ACQUIRE, { "slot" }, GATE_FREE, 0),
	IN(RENEW, { "renewals", "claim", "name" }, GATE_EACH, ACCESS_RENEW),
	IN(RENEW, { "renewals", "claim", "also" }, GATE_EACH, ACCESS_RENEW),
	IN(RENEW, { "renewals", "claim", "holder", "host" }, GATE_FREE, 0),
	IN(RENEW, { "renewals", "value" }, GATE_FREE, 0),
	IN(RELEASE, { "claim", "name" }, GATE_NAME, ACCESS_RELEASE),
	IN(RELEASE, { "claim", "also" }, GATE_NAME, ACCESS_RELEASE),
	IN(RELEASE, { "claim", "holder", "host" }, GATE_FREE, 0),
	IN(GET, { "name" }, GATE_NAME, ACCESS_GET),
	IN(GET, { "holder", "host" }, GATE_FREE, 0),
	IN(LIST, { "prefix" }, GATE_PREFIX, ACCESS_LIST),
	IN(LIST, { "after" }, GATE_FREE, 0), /* where it begins; what it tells is filtered */
	IN(CANCEL, { NULL }, GATE_FREE, 0),  /* of this connection's own requests */
	IN(PING, { NULL }, GATE_FREE, 0),
	IN(REPORT, { NULL }, GATE_VERB, ACCESS_REPORT),
	IN(HISTORY, { "name" }, GATE_NAME, ACCESS_HISTORY),
	IN(HISTORY, { "prefix" }, GATE_PREFIX, ACCESS_HISTORY),
	IN(HISTORY, { "after" }, GATE_FREE, 0),
	IN(STEAL, { "name" }, GATE_NAME, ACCESS_STEAL),
	IN(STEAL, { "reason" }, GATE_FREE, 0),
	IN(WATCH, { "prefix" }, GATE_PREFIX, ACCESS_WATCH),
	IN(WHOAMI, { NULL }, GATE_FREE, 0), /* tells the client's own rules */
};

/* What is sent. A part with a row of its own covers all that it holds, be it a holder or a value. */
static const struct gate_row out_rows[] = {
	OUT(WELCOME, { "features" }, GATE_FREE, 0),
	OUT(WELCOME, { "program" }, GATE_FREE, 0),
	OUT(WELCOME, { "principal" }, GATE_FREE, 0), /* the client's own */
	OUT(GRANTED, { NULL }, GATE_FREE, 0),
	OUT(RENEWED, { "results", "why" }, GATE_FREE, 0), /* worded for who may not get: reply.c */
	OUT(RELEASED, { NULL }, GATE_FREE, 0),
	OUT(LEASE, { NULL }, GATE_DENY, ACCESS_GET),
	OUT(LISTING, { "leases" }, GATE_LEAVE_OUT, ACCESS_LIST),
	OUT(PONG, { NULL }, GATE_FREE, 0),
	OUT(HEALTH, { "program" }, GATE_FREE, 0), /* all of it goes with REPORT, and names no lease */
	OUT(HEALTH, { "database_problem" }, GATE_FREE, 0),
	OUT(HEALTH, { "database_version" }, GATE_FREE, 0),
	OUT(HEALTH, { "database_host" }, GATE_FREE, 0),
	OUT(HEALTH, { "synchronous_commit" }, GATE_FREE, 0),
	OUT(HEALTH, { "principal" }, GATE_FREE, 0),
	OUT(HEALTH, { "transaction_isolation" }, GATE_FREE, 0),
	OUT(HEALTH, { "notifications_problem" }, GATE_FREE, 0),
	OUT(HEALTH, { "schema_owner" }, GATE_FREE, 0),
	OUT(HEALTH, { "excess_rights" }, GATE_FREE, 0),
	OUT(FAILURE, { "why" }, GATE_FREE, 0), /* worded for who may not get: reply.c */
	OUT(FAILURE, { "current" }, GATE_LEAVE_OUT, ACCESS_GET),
	OUT(GOODBYE, { "why" }, GATE_FREE, 0),
	OUT(GRANTS, { "grants" }, GATE_LEAVE_OUT, ACCESS_HISTORY),
	OUT(GRANTS, { "next" }, GATE_FREE, 0), /* of a row that is told: page.c */
	OUT(STOLEN, { "ended" }, GATE_DENY, ACCESS_STEAL),
	OUT(LOST, { NULL }, GATE_DROP, ACCESS_ANY),
	OUT(CHANGE, { NULL }, GATE_DROP, ACCESS_WATCH), /* SNAPSHOT and READY have no name */
	OUT(IDENTITY, { "principal" }, GATE_FREE, 0),
	OUT(IDENTITY, { "client" }, GATE_FREE, 0),
	OUT(IDENTITY, { "rules", "verbs" }, GATE_FREE, 0),
	OUT(IDENTITY, { "rules", "pattern" }, GATE_FREE, 0),
};

#undef IN
#undef OUT

const struct gate_row *gate_in_rows(size_t *ret_n)
{
	*ret_n = sizeof in_rows / sizeof in_rows[0];
	return in_rows;
}

const struct gate_row *gate_out_rows(size_t *ret_n)
{
	*ret_n = sizeof out_rows / sizeof out_rows[0];
	return out_rows;
}

static const ProtobufCFieldDescriptor *find(const ProtobufCMessage *m, const char *name)
{
	const ProtobufCFieldDescriptor *field =
		protobuf_c_message_descriptor_get_field_by_name(m->descriptor, name);

	if (!field)
		abort(); /* a table with a path that leads nowhere: no request must pass by it */
	return field;
}

static void *member(const ProtobufCMessage *m, unsigned offset)
{
	return (char *)(uintptr_t)m + offset;
}

/* How many values a field has; *ret_first is the first one. */
static size_t values(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *field, void **ret_first)
{
	if (field->label != PROTOBUF_C_LABEL_REPEATED) {
		*ret_first = member(m, field->offset);
		return 1;
	}
	*ret_first = *(void **)member(m, field->offset);
	return *(size_t *)member(m, field->quantifier_offset);
}

static ProtobufCMessage *body_of(const ProtobufCMessage *m, int body)
{
	const ProtobufCFieldDescriptor *field =
		protobuf_c_message_descriptor_get_field(m->descriptor, (unsigned)body);

	return field ? *(ProtobufCMessage **)member(m, field->offset) : NULL;
}

/* In. */

struct visit {
	const struct gate_row *row;
	/* Non-zero ends the visit, and is its outcome. */
	int (*each)(struct visit *v, struct text name, bool is_prefix);
	const struct access_client *client;
	struct gate_denial *denial;
	gate_name_cb on_name;
	void *data;
};

static bool is_exact(const ProtobufCMessage *m)
{
	const ProtobufCFieldDescriptor *field =
		protobuf_c_message_descriptor_get_field_by_name(m->descriptor, "exact");

	return field && *(protobuf_c_boolean *)member(m, field->offset);
}

/* The depth is that of a row, not the sender's. */
static int walk(struct visit *v, const ProtobufCMessage *m, const char *const *path)
{
	const ProtobufCFieldDescriptor *field = find(m, *path);
	void *first;
	size_t n = values(m, field, &first);

	for (size_t i = 0; i < n; i++) {
		int rc = 0;

		if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
			const ProtobufCMessage *inner = ((ProtobufCMessage **)first)[i];

			rc = inner ? walk(v, inner, path + 1) : 0;
		} else {
			ProtobufCBinaryData text = ((ProtobufCBinaryData *)first)[i];

			rc = v->each(v, (struct text){ (const char *)text.data, text.len },
				v->row->kind == GATE_PREFIX && !is_exact(m));
		}
		if (rc != 0)
			return rc;
	}
	return 0;
}

static int visit_rows(struct visit *v, const Leased__ClientMessage *m)
{
	const ProtobufCMessage *body = body_of(&m->base, (int)m->body_case);
	int rc = 0;

	for (size_t i = 0; body && rc == 0 && i < sizeof in_rows / sizeof in_rows[0]; i++) {
		v->row = &in_rows[i];
		if (v->row->body != (int)m->body_case || v->row->kind == GATE_FREE)
			continue;
		if (v->row->kind == GATE_VERB)
			rc = v->each(v, (struct text){ "", 0 }, true);
		else
			rc = walk(v, body, v->row->path);
	}
	return rc;
}

static int check(struct visit *v, struct text name, bool is_prefix)
{
	unsigned verb = v->row->verbs;
	bool ok;

	if (v->row->kind == GATE_EACH || (v->row->kind == GATE_NAME && name.len == 0))
		return 0;
	ok = is_prefix ? access_may_begin(v->client, verb, name) : access_may(v->client, verb, name);
	if (!ok)
		*v->denial = (struct gate_denial){ name, (enum access_verb)verb };
	return ok ? 0 : LEASED_EDENIED;
}

int gate_deny(struct leased_error *err, const struct access_client *c, enum access_verb verb, struct text name)
{
	char shown[NAME_MAX_LEN + 1];

	/* A prefix stands for what begins with it; a name that ends like that says what is missing all the same. */
	name_escape(shown, sizeof shown, (const uint8_t *)name.data, name.len);
	return fail(err, LEASED_EDENIED, "%s may not: a rule \"%s %s\" is missing in authorized_clients",
		c ? c->name : "nobody", access_verb_name(verb), name.len > 0 ? shown : "**");
}

/* Who is in the table for nothing: a request without a row is refused, whoever asks. */
static bool has_row(const Leased__ClientMessage *m)
{
	for (size_t i = 0; i < sizeof in_rows / sizeof in_rows[0]; i++)
		if (in_rows[i].body == (int)m->body_case)
			return true;
	return m->body_case == LEASED__CLIENT_MESSAGE__BODY__NOT_SET; /* EPROTO, in call.c */
}

int gate_in(const struct access_client *c, const Leased__ClientMessage *m, struct gate_denial *ret_denial,
	struct leased_error *err)
{
	struct visit v = { .each = check, .client = c, .denial = ret_denial };

	if (!has_row(m))
		return fail(err, LEASED_EDENIED, "nobody may do this");
	return visit_rows(&v, m) == 0 ? 0 : gate_deny(err, c, ret_denial->verb, ret_denial->name);
}

int gate_one(const struct access_client *c, enum access_verb verb, struct text name, struct leased_error *err)
{
	return access_may(c, verb, name) ? 0 : gate_deny(err, c, verb, name);
}

static int tell(struct visit *v, struct text name, bool is_prefix)
{
	(void)is_prefix;
	if ((v->row->kind != GATE_NAME && v->row->kind != GATE_EACH) || name.len > 0)
		v->on_name(v->data, (enum access_verb)v->row->verbs, name);
	return 0;
}

void gate_each_name(const Leased__ClientMessage *m, gate_name_cb each, void *data)
{
	struct visit v = { .each = tell, .on_name = each, .data = data };

	visit_rows(&v, m);
}

const char *gate_request_name(const Leased__ClientMessage *m)
{
	const ProtobufCFieldDescriptor *field =
		protobuf_c_message_descriptor_get_field(m->base.descriptor, (unsigned)m->body_case);

	return field ? field->name : "nothing";
}

/* Out. */

static struct text name_of(const ProtobufCMessage *part)
{
	const ProtobufCBinaryData *name = member(part, find(part, "name")->offset);

	return (struct text){ (const char *)name->data, name->len };
}

static bool may_see(const struct access_client *c, const struct gate_row *row, const ProtobufCMessage *part)
{
	struct text name = name_of(part);

	return (row->kind == GATE_DROP && name.len == 0) || access_may(c, row->verbs, name);
}

/* Takes parts out of a repeated field, whose array is the sender's. */
static void filter(const struct access_client *c, const struct gate_row *row, ProtobufCMessage *body,
	const ProtobufCFieldDescriptor *field)
{
	size_t *n = member(body, field->quantifier_offset), kept = 0;
	ProtobufCMessage **parts = *(ProtobufCMessage ***)member(body, field->offset);

	for (size_t i = 0; i < *n; i++)
		if (may_see(c, row, parts[i]))
			parts[kept++] = parts[i];
	*n = kept;
}

/* One row, of which the path has at most one field. */
static int apply(const struct access_client *c, const struct gate_row *row, ProtobufCMessage *body,
	struct leased_error *err)
{
	const ProtobufCFieldDescriptor *field = row->path[0] ? find(body, row->path[0]) : NULL;
	ProtobufCMessage *part = body, **place = NULL;

	if (field && field->label == PROTOBUF_C_LABEL_REPEATED) {
		filter(c, row, body, field);
		return 0;
	}
	if (field) {
		place = member(body, field->offset);
		part = *place;
	}
	if (!part || may_see(c, row, part))
		return 0;
	if (row->kind == GATE_DENY)
		return gate_deny(err, c, (enum access_verb)row->verbs, name_of(part));
	if (row->kind == GATE_DROP)
		return 1;
	*place = NULL;
	return 0;
}

int gate_out(const struct access_client *c, Leased__ServerMessage *m, struct leased_error *err)
{
	ProtobufCMessage *body = body_of(&m->base, (int)m->body_case);
	bool known = false;

	for (size_t i = 0; i < sizeof out_rows / sizeof out_rows[0]; i++) {
		const struct gate_row *row = &out_rows[i];
		int rc = 0;

		if (row->body != (int)m->body_case)
			continue;
		known = true;
		if (row->kind != GATE_FREE)
			rc = apply(c, row, body, err);
		if (rc != 0)
			return rc;
	}
	return known ? 0 : 1;
}
