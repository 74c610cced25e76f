/*
 * The gate knows each text of the protocol: what leased.proto has and its tables do not is a failure here, and for
 * each name that it knows, the message is made and refused to who lacks the one verb it takes.
 */
#include "table.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gate.h"

/* Messages by their descriptors; their memory lasts as long as the test. */

static uint64_t pool[16384];
static size_t pool_used;

static void *allocate(size_t size)
{
	void *memory = &pool[pool_used];

	pool_used += (size + 7) / 8;
	assert_true(pool_used <= TABLE_LEN(pool));
	return memset(memory, 0, size);
}

static ProtobufCMessage *make(const ProtobufCMessageDescriptor *descriptor)
{
	ProtobufCMessage *m = allocate(descriptor->sizeof_message);

	protobuf_c_message_init(descriptor, m);
	return m;
}

static void *member(ProtobufCMessage *m, unsigned offset)
{
	return (char *)m + offset;
}

/* Makes what the path leads through. Where a field is repeated it has `before` and then text. */
static void set(ProtobufCMessage *m, const char *const *path, const char *before, const char *text)
{
	const ProtobufCFieldDescriptor *field =
		protobuf_c_message_descriptor_get_field_by_name(m->descriptor, *path);
	bool is_message, is_repeated;
	size_t n = before ? 2 : 1;
	ProtobufCMessage **parts;
	ProtobufCBinaryData *texts;

	assert_non_null(field);
	is_message = field->type == PROTOBUF_C_TYPE_MESSAGE;
	is_repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
	if (!is_repeated)
		n = 1;
	parts = is_repeated ? allocate(n * sizeof(ProtobufCBinaryData)) : member(m, field->offset);
	texts = (ProtobufCBinaryData *)(void *)parts;
	if (is_repeated) {
		*(void **)member(m, field->offset) = parts;
		*(size_t *)member(m, field->quantifier_offset) = n;
	}
	for (size_t i = 0; i < n; i++) {
		const char *value = i + 1 < n ? before : text;

		if (is_message) {
			parts[i] = make(field->descriptor);
			set(parts[i], path + 1, n == 2 ? NULL : before, value);
		} else {
			texts[i] = (ProtobufCBinaryData){ strlen(value), (uint8_t *)(uintptr_t)value };
		}
	}
}

static ProtobufCMessage *put_body(ProtobufCMessage *m, int body, int *body_case)
{
	const ProtobufCFieldDescriptor *field =
		protobuf_c_message_descriptor_get_field(m->descriptor, (unsigned)body);
	ProtobufCMessage *made;

	assert_non_null(field);
	made = make(field->descriptor);
	*body_case = body;
	*(ProtobufCMessage **)member(m, field->offset) = made;
	return made;
}

static struct access_client *client(const char *rules)
{
	static struct access *a;
	char line[256];
	FILE *in;

	access_free(a);
	a = NULL;
	snprintf(line, sizeof line, "tester uid=1 %s\n", rules);
	in = fmemopen(line, strlen(line), "r");
	assert_int_equal(access_parse(&a, in, NULL), 0);
	fclose(in);
	return a->clients[0];
}

/* Every verb but this one, on everything. */
static struct access_client *client_without(unsigned verbs)
{
	char rules[256] = "";

	for (unsigned i = 0; i < ACCESS_VERBS; i++) {
		/* acquire brings renew */
		if ((verbs & (1u << i)) || ((verbs & ACCESS_RENEW) && (1u << i) == ACCESS_ACQUIRE))
			continue;
		snprintf(rules + strlen(rules), sizeof rules - strlen(rules), "%s%s", *rules ? "," : "",
			access_verb_name((enum access_verb)(1u << i)));
	}
	return client(*rules ? strcat(rules, " **") : "get nothing");
}

/* One of these verbs alone, on two names. */
static struct access_client *client_with(unsigned verbs)
{
	const char *verb;
	char rules[128];
	unsigned i = 0;

	while (!(verbs & (1u << i)))
		i++;
	verb = access_verb_name((enum access_verb)(1u << i));
	snprintf(rules, sizeof rules, "%s open; %s secret", verb, verb);
	return client(rules);
}

/* The tables are complete. */

static bool same_path(const char *const *path, size_t depth, const struct gate_row *row, bool part)
{
	for (size_t i = 0; i < GATE_DEPTH; i++) {
		const char *step = i < depth ? path[i] : NULL;

		if (!row->path[i])
			return part || !step;
		if (!step || strcmp(step, row->path[i]) != 0)
			return false;
	}
	return depth == GATE_DEPTH;
}

struct search {
	const struct gate_row *rows;
	size_t n;
	int body;
	const char *body_name;
};

static bool is_covered(const struct search *s, const char *const *path, size_t depth)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->rows[i].body == s->body &&
			same_path(path, depth, &s->rows[i], s->rows[i].kind >= GATE_DENY))
			return true;
	return false;
}

static void check_texts(const struct search *s, const ProtobufCMessageDescriptor *d, const char **path, size_t depth)
{
	for (unsigned i = 0; i < d->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &d->fields[i];

		assert_true(depth < GATE_DEPTH);
		path[depth] = field->name;
		if (field->type == PROTOBUF_C_TYPE_MESSAGE)
			check_texts(s, field->descriptor, path, depth + 1);
		else if ((field->type == PROTOBUF_C_TYPE_BYTES || field->type == PROTOBUF_C_TYPE_STRING) &&
			!is_covered(s, path, depth + 1))
			fail_msg("%s of %s: no row in gate.c", field->name, s->body_name);
	}
}

static void check_complete(const ProtobufCMessageDescriptor *d, const struct gate_row *rows, size_t n)
{
	for (unsigned i = 0; i < d->n_fields; i++) {
		struct search s = { rows, n, (int)d->fields[i].id, d->fields[i].name };
		const char *path[GATE_DEPTH + 1];
		bool found = false;

		if (d->fields[i].type != PROTOBUF_C_TYPE_MESSAGE)
			continue; /* the id */
		for (size_t k = 0; k < n; k++)
			found = found || rows[k].body == s.body;
		if (!found)
			fail_msg("%s: no row in gate.c", s.body_name);
		check_texts(&s, d->fields[i].descriptor, path, 0);
	}
}

static void every_text_has_a_row(void **state)
{
	const struct gate_row *rows;
	size_t n;

	(void)state;
	rows = gate_in_rows(&n);
	check_complete(&leased__client_message__descriptor, rows, n);
	rows = gate_out_rows(&n);
	check_complete(&leased__server_message__descriptor, rows, n);
}

/* Each row does what it says. */

static int ask(const struct access_client *c, const struct gate_row *row, const char *before, const char *name)
{
	Leased__ClientMessage m = LEASED__CLIENT_MESSAGE__INIT;
	struct gate_denial denial = { 0 };
	struct leased_error err;
	int body_case = 0, rc;
	ProtobufCMessage *body;

	pool_used = 0;
	body = put_body(&m.base, row->body, &body_case);
	m.body_case = (Leased__ClientMessage__BodyCase)body_case;
	if (row->path[0])
		set(body, row->path, before, name);
	rc = gate_in(c, &m, &denial, &err);
	if (rc < 0) {
		assert_int_equal(rc, LEASED_EDENIED);
		assert_int_equal(denial.verb, row->verbs);
		assert_non_null(strstr(err.text, access_verb_name((enum access_verb)row->verbs)));
		assert_non_null(strstr(err.text, "is missing in authorized_clients"));
	}
	return rc;
}

/* Refused by itself, and so told to the audit. */
static void check_one(const struct gate_row *row)
{
	struct text secret = { "secret", 6 };
	enum access_verb verb = (enum access_verb)row->verbs;
	struct leased_error err;

	assert_int_equal(gate_one(client_without(verb), verb, secret, &err), LEASED_EDENIED);
	assert_non_null(strstr(err.text, "\"renew secret\" is missing"));
	assert_int_equal(gate_one(client_with(verb), verb, secret, &err), 0);
}

static void no_request_passes_without_its_verb(void **state)
{
	const struct gate_row *rows;
	size_t n;

	(void)state;
	rows = gate_in_rows(&n);
	for (size_t i = 0; i < n; i++) {
		bool is_free = rows[i].kind == GATE_FREE;

		assert_int_equal(is_free, rows[i].verbs == 0);
		if (is_free)
			continue;
		if (rows[i].kind == GATE_EACH) {
			assert_int_equal(ask(NULL, &rows[i], NULL, "secret"), 0);
			check_one(&rows[i]);
			continue;
		}
		assert_int_equal(ask(client_without(rows[i].verbs), &rows[i], NULL, "secret"), LEASED_EDENIED);
		assert_int_equal(ask(NULL, &rows[i], NULL, "secret"), LEASED_EDENIED);
		assert_int_equal(ask(client_with(rows[i].verbs), &rows[i], NULL, "secret"), 0);
		if (rows[i].kind != GATE_VERB)
			assert_int_equal(ask(client_with(rows[i].verbs), &rows[i], NULL, "other"), LEASED_EDENIED);
		/* Of several names, each. */
		assert_int_equal(ask(client_with(rows[i].verbs), &rows[i], "open", "secret"), 0);
		if (rows[i].kind == GATE_NAME)
			assert_int_equal(ask(client_with(rows[i].verbs), &rows[i], "secret", "other"), LEASED_EDENIED);
	}
}

static void an_exact_prefix_is_a_name(void **state)
{
	Leased__ClientMessage m = LEASED__CLIENT_MESSAGE__INIT;
	Leased__Watch watch = LEASED__WATCH__INIT;
	struct access_client *c = client("watch a/b");
	struct gate_denial denial;

	(void)state;
	m.body_case = LEASED__CLIENT_MESSAGE__BODY_WATCH;
	m.watch = &watch;
	watch.prefix = (ProtobufCBinaryData){ 2, (uint8_t *)(uintptr_t) "a/" };
	assert_int_equal(gate_in(c, &m, &denial, NULL), 0); /* what is told is filtered */
	watch.exact = true;
	assert_int_equal(gate_in(c, &m, &denial, NULL), LEASED_EDENIED);
	watch.prefix = (ProtobufCBinaryData){ 3, (uint8_t *)(uintptr_t) "a/b" };
	assert_int_equal(gate_in(c, &m, &denial, NULL), 0);
}

static const char *const name_path[] = { "name", NULL };

/* What becomes of a message that tells of a part of this name; *ret_left says how many parts are left of one or two. */
static int tell(const struct access_client *c, const struct gate_row *row, const char *before, const char *name,
	size_t *ret_left)
{
	Leased__ServerMessage m = LEASED__SERVER_MESSAGE__INIT;
	const ProtobufCFieldDescriptor *field = NULL;
	const char *path[] = { row->path[0], "name", NULL };
	struct leased_error err;
	ProtobufCMessage *body;
	int body_case, rc;

	pool_used = 0;
	body = put_body(&m.base, row->body, &body_case);
	m.body_case = (Leased__ServerMessage__BodyCase)body_case;
	set(body, row->path[0] ? path : name_path, before, name);
	rc = gate_out(c, &m, &err);
	*ret_left = 0;
	if (row->path[0])
		field = protobuf_c_message_descriptor_get_field_by_name(body->descriptor, row->path[0]);
	if (field && field->label == PROTOBUF_C_LABEL_REPEATED)
		*ret_left = *(size_t *)member(body, field->quantifier_offset);
	else if (field)
		*ret_left = *(void **)member(body, field->offset) != NULL;
	return rc;
}

static void nothing_is_told_without_its_verb(void **state)
{
	static const int outcomes[] = { [GATE_DENY] = LEASED_EDENIED, [GATE_DROP] = 1, [GATE_LEAVE_OUT] = 0 };
	const struct gate_row *rows;
	size_t n, left;

	(void)state;
	rows = gate_out_rows(&n);
	for (size_t i = 0; i < n; i++) {
		if (rows[i].kind == GATE_FREE)
			continue;
		assert_int_equal(tell(client_without(rows[i].verbs), &rows[i], NULL, "secret", &left),
			outcomes[rows[i].kind]);
		assert_true(rows[i].kind != GATE_LEAVE_OUT || left == 0);
		assert_int_equal(tell(NULL, &rows[i], NULL, "secret", &left), outcomes[rows[i].kind]);
		assert_int_equal(tell(client_with(rows[i].verbs), &rows[i], NULL, "secret", &left), 0);
		assert_int_equal(left, rows[i].path[0] != NULL);
		assert_int_equal(tell(client_with(rows[i].verbs), &rows[i], "other", "secret", &left), 0);
		assert_int_equal(left, rows[i].path[0] != NULL); /* of two one was left out */
	}
}

static void a_snapshot_has_no_name_to_be_hidden(void **state)
{
	Leased__ServerMessage m = LEASED__SERVER_MESSAGE__INIT;
	Leased__Change change = LEASED__CHANGE__INIT;

	(void)state;
	m.body_case = LEASED__SERVER_MESSAGE__BODY_CHANGE;
	m.change = &change;
	assert_int_equal(gate_out(client("watch a"), &m, NULL), 0);
}

static void a_denial_says_which_rule_is_missing(void **state)
{
	struct leased_error err;
	char longest[NAME_MAX_LEN];

	(void)state;
	gate_deny(&err, client("get a"), ACCESS_STEAL, (struct text){ "ops/a", 5 });
	assert_string_equal(err.text, "tester may not: a rule \"steal ops/a\" is missing in authorized_clients");
	gate_deny(&err, client("get a"), ACCESS_WATCH, (struct text){ "", 0 });
	assert_string_equal(err.text, "tester may not: a rule \"watch **\" is missing in authorized_clients");
	memset(longest, '\n', sizeof longest);
	gate_deny(&err, client("get a"), ACCESS_GET, (struct text){ longest, sizeof longest });
	assert_null(strchr(err.text, '\n'));
	assert_non_null(strstr(err.text, "is missing in authorized_clients"));
}

int main(void)
{
	struct table table = { 0 };

	if (sodium_init() < 0)
		return 1;
	table_add(&table, "every text of the protocol has a row", every_text_has_a_row, NULL);
	table_add(&table, "no request passes without its verb", no_request_passes_without_its_verb, NULL);
	table_add(&table, "an exact prefix is a name", an_exact_prefix_is_a_name, NULL);
	table_add(&table, "nothing is told without its verb", nothing_is_told_without_its_verb, NULL);
	table_add(&table, "a snapshot has no name to be hidden", a_snapshot_has_no_name_to_be_hidden, NULL);
	table_add(&table, "a denial says which rule is missing", a_denial_says_which_rule_is_missing, NULL);
	return table_run(&table, "gate");
}
