/*
 * Holds PROTOCOL.md to the code: every message has a worked example, a block that starts with
 * ```hex NAME, and its bytes are the frame that the code makes of the same message. Behind a # in
 * such a block stands what the bytes of the line mean.
 */
#include "message.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "example_access.h"
#include "example_history.h"
#include "example_several.h"
#include "example_watch.h"
#include "frame.h"
#include "name.h"
#include "table.h"

#define EXAMPLE_MAX 1024

static char *doc;

static ProtobufCBinaryData text(const char *s)
{
	return (ProtobufCBinaryData){ strlen(s), (uint8_t *)(uintptr_t)s };
}

/* ---- the messages of the examples; memory is static, each builder runs once ---- */

static char client_program[] = "leasectl 0.1.0", daemon_program[] = "leased 0.1.0";
static Leased__Holder holder = LEASED__HOLDER__INIT;
static Leased__Claim claim = LEASED__CLAIM__INIT;

static void fill_holder(void)
{
	holder.host = text("web1");
	holder.pid = 4711;
	holder.nonce = 0x0123456789abcdef;
	claim.name = text("nightly");
	claim.token = 42;
	claim.holder = &holder;
}

static void fill_lease(Leased__Lease *lease)
{
	leased__lease__init(lease);
	lease->name = text("nightly");
	lease->state = LEASED__LEASE__STATE__HELD;
	lease->token = 42;
	lease->holder = &holder;
	lease->principal = text("root@web1");
	lease->expires_in_ms = 61000;
	lease->held_for_ms = 29000;
	lease->ttl_ms = 90000;
	lease->value = text("10.0.0.5");
	lease->waiters = 1;
	lease->acquired_at_us = INT64_C(1767225600000000);
	lease->expires_at_us = INT64_C(1767225690000000);
	lease->max_holders = lease->holders = 1;
}

static void hello(Leased__ClientMessage *m)
{
	static Leased__Hello body = LEASED__HELLO__INIT;

	body.version_min = body.version_max = 1;
	body.program = client_program;
	m->hello = &body;
}

static void acquire(Leased__ClientMessage *m)
{
	static Leased__Acquire body = LEASED__ACQUIRE__INIT;

	body.name = claim.name;
	body.holder = &holder;
	body.ttl_ms = 90000;
	body.wait_ms = 5000;
	body.value = text("10.0.0.5");
	m->acquire = &body;
}

static void acquire_slot(Leased__ClientMessage *m)
{
	static Leased__Acquire body = LEASED__ACQUIRE__INIT;

	body.name = claim.name;
	body.holder = &holder;
	body.ttl_ms = 90000;
	body.slot = text("03:00");
	m->acquire = &body;
}

static void renew(Leased__ClientMessage *m)
{
	static Leased__Renewal renewal = LEASED__RENEWAL__INIT, *list[] = { &renewal };
	static Leased__Renew body = LEASED__RENEW__INIT;

	renewal.claim = &claim;
	body.renewals = list;
	body.n_renewals = 1;
	m->renew = &body;
}

static void renew_value(Leased__ClientMessage *m)
{
	static Leased__Renewal renewal = LEASED__RENEWAL__INIT, *list[] = { &renewal };
	static Leased__Renew body = LEASED__RENEW__INIT;

	renewal.claim = &claim;
	renewal.value = text("10.0.0.6");
	renewal.set_value = true;
	body.renewals = list;
	body.n_renewals = 1;
	m->renew = &body;
}

static void release(Leased__ClientMessage *m)
{
	static Leased__Release body = LEASED__RELEASE__INIT;

	body.claim = &claim;
	body.ending_case = LEASED__RELEASE__ENDING_EXIT_STATUS;
	body.exit_status = 0;
	m->release = &body;
}

static void get(Leased__ClientMessage *m)
{
	static Leased__Get body = LEASED__GET__INIT;

	body.name = claim.name;
	m->get = &body;
}

static void list(Leased__ClientMessage *m)
{
	static Leased__List body = LEASED__LIST__INIT;

	body.prefix = text("billing/");
	body.limit = 50;
	m->list = &body;
}

static void list_after(Leased__ClientMessage *m)
{
	static Leased__List body = LEASED__LIST__INIT;

	body.prefix = text("billing/");
	body.after = text("billing/eu");
	body.after_token = 7;
	body.limit = 50;
	m->list = &body;
}

static void cancel(Leased__ClientMessage *m)
{
	static Leased__Cancel body = LEASED__CANCEL__INIT;

	body.request = 2;
	m->cancel = &body;
}

static void ping(Leased__ClientMessage *m)
{
	static Leased__Ping body = LEASED__PING__INIT;

	m->ping = &body;
}

static void report(Leased__ClientMessage *m)
{
	static Leased__Report body = LEASED__REPORT__INIT;

	m->report = &body;
}

static void welcome(Leased__ServerMessage *m)
{
	static Leased__Welcome body = LEASED__WELCOME__INIT;

	body.version = 1;
	body.program = daemon_program;
	body.principal = text("root@web1");
	body.idle_timeout_ms = 60000;
	body.ttl_min_ms = 1000;
	body.ttl_max_ms = 86400000;
	m->welcome = &body;
}

static void granted(Leased__ServerMessage *m)
{
	static Leased__Granted body = LEASED__GRANTED__INIT;

	body.token = 42;
	body.expires_in_ms = 90000;
	m->granted = &body;
}

static void renewed(Leased__ServerMessage *m)
{
	static char why[] = "it expired 5s ago";
	static Leased__RenewalResult good = LEASED__RENEWAL_RESULT__INIT;
	static Leased__RenewalResult lost = LEASED__RENEWAL_RESULT__INIT;
	static Leased__RenewalResult *results[] = { &good, &lost };
	static Leased__Renewed body = LEASED__RENEWED__INIT;

	good.expires_in_ms = 90000;
	lost.status = -LEASED_ELOST;
	lost.why = why;
	body.results = results;
	body.n_results = 2;
	m->renewed = &body;
}

static void released(Leased__ServerMessage *m)
{
	static Leased__Released body = LEASED__RELEASED__INIT;

	m->released = &body;
}

static void lease(Leased__ServerMessage *m)
{
	static Leased__Lease body;

	fill_lease(&body);
	m->lease = &body;
}

static void listing(Leased__ServerMessage *m)
{
	static Leased__Lease row, *rows[] = { &row };
	static Leased__Listing body = LEASED__LISTING__INIT;

	leased__lease__init(&row);
	row.name = text("billing/eu");
	row.state = LEASED__LEASE__STATE__MIN_HOLD;
	row.token = 7;
	row.expires_in_ms = 1500;
	row.ttl_ms = 30000;
	row.acquired_at_us = INT64_C(1767225600000000);
	row.expires_at_us = INT64_C(1767225660000000);
	row.max_holders = 1;
	body.leases = rows;
	body.n_leases = 1;
	body.more = true;
	m->listing = &body;
}

static void pong(Leased__ServerMessage *m)
{
	static Leased__Pong body = LEASED__PONG__INIT;

	m->pong = &body;
}

static void health(Leased__ServerMessage *m)
{
	static char version[] = "15.14", host[] = "db1", commit[] = "on",
		    level[] = "read committed";
	static Leased__Health body = LEASED__HEALTH__INIT;

	body.program = daemon_program;
	body.uptime_ms = 3600000;
	body.database_ready = true;
	body.database_version = version;
	body.database_host = host;
	body.database_is_primary = true;
	body.schema_found = body.schema_wanted = 1;
	body.synchronous_commit = commit;
	body.database_clock_us = INT64_C(1767225600000250);
	body.daemon_clock_us = INT64_C(1767225600000000);
	body.timeline = body.epoch = 1;
	body.connections = 2;
	body.sessions = 12;
	body.waiters = 3;
	body.principal = text("root@web1");
	body.app_role_present = true;
	body.transaction_isolation = level;
	m->health = &body;
}

static void failure(Leased__ServerMessage *m)
{
	static char why[] = "web1:4711:0123456789abcdef holds it";
	static Leased__Failure body = LEASED__FAILURE__INIT;
	static Leased__Lease current;

	fill_lease(&current);
	body.status = -LEASED_EHELD;
	body.why = why;
	body.current = &current;
	m->failure = &body;
}

static void goodbye(Leased__ServerMessage *m)
{
	static char why[] = "the daemon stops: use another one";
	static Leased__Goodbye body = LEASED__GOODBYE__INIT;

	body.status = -LEASED_EUNAVAILABLE;
	body.why = why;
	m->goodbye = &body;
}

static void steal(Leased__ClientMessage *m)
{
	static Leased__Steal body = LEASED__STEAL__INIT;

	body.name = text("nightly");
	body.reason = text("it hangs");
	m->steal = &body;
}

static void stolen(Leased__ServerMessage *m)
{
	static Leased__Stolen body = LEASED__STOLEN__INIT;
	static Leased__Lease ended;

	fill_lease(&ended);
	ended.holders = 0;
	body.ended = &ended;
	m->stolen = &body;
}

static void lost(Leased__ServerMessage *m)
{
	static char why[] = "stolen by root@db1: it hangs";
	static Leased__Lost body = LEASED__LOST__INIT;

	body.name = text("nightly");
	body.token = 42;
	body.why = why;
	m->lost = &body;
}

/* The name is the block's; up to a '-', if there is one, it is the field's in the oneof. */
static struct example {
	const char *name;
	uint64_t id;
	void (*from_client)(Leased__ClientMessage *message);
	void (*from_server)(Leased__ServerMessage *message);
} examples[] = {
	{ "hello", 1, hello, NULL },
	{ "welcome", 1, NULL, welcome },
	{ "acquire", 2, acquire, NULL },
	{ "acquire-slot", 9, acquire_slot, NULL },
	{ "acquire-several", 11, example_acquire_several, NULL },
	{ "granted", 2, NULL, granted },
	{ "renew", 3, renew, NULL },
	{ "renew-value", 10, renew_value, NULL },
	{ "renew-several", 12, example_renew_several, NULL },
	{ "renewed", 3, NULL, renewed },
	{ "release", 4, release, NULL },
	{ "released", 4, NULL, released },
	{ "get", 5, get, NULL },
	{ "lease", 5, NULL, lease },
	{ "get-holder", 13, example_get_holder, NULL },
	{ "list", 6, list, NULL },
	{ "listing", 6, NULL, listing },
	{ "list-after", 6, list_after, NULL },
	{ "cancel", 7, cancel, NULL },
	{ "ping", 8, ping, NULL },
	{ "pong", 8, NULL, pong },
	{ "report", 300, report, NULL },
	{ "health", 300, NULL, health },
	{ "history", 9, example_history, NULL },
	{ "grants", 9, NULL, example_grants },
	{ "failure", 2, NULL, failure },
	{ "goodbye", 0, NULL, goodbye },
	{ "steal", 9, steal, NULL },
	{ "stolen", 9, NULL, stolen },
	{ "lost", 0, NULL, lost },
	{ "watch", 10, example_watch, NULL },
	{ "change", 10, NULL, example_change },
	{ "whoami", 14, example_whoami, NULL },
	{ "identity", 14, NULL, example_identity },
};

static unsigned field_number(const ProtobufCMessageDescriptor *descriptor, const char *example)
{
	const ProtobufCFieldDescriptor *field;
	char name[64];

	snprintf(name, sizeof name, "%.*s", (int)strcspn(example, "-"), example);
	field = protobuf_c_message_descriptor_get_field_by_name(descriptor, name);
	assert_non_null(field);
	return field->id;
}

static size_t make_frame(uint8_t out[static EXAMPLE_MAX], const struct example *e)
{
	Leased__ClientMessage client = LEASED__CLIENT_MESSAGE__INIT;
	Leased__ServerMessage server = LEASED__SERVER_MESSAGE__INIT;
	int used;

	client.id = server.id = e->id;
	if (e->from_client) {
		client.body_case = field_number(client.base.descriptor, e->name);
		e->from_client(&client);
		used = message_pack(out, EXAMPLE_MAX, &client.base);
	} else {
		server.body_case = field_number(server.base.descriptor, e->name);
		e->from_server(&server);
		used = message_pack(out, EXAMPLE_MAX, &server.base);
	}
	assert_true(used > 0);
	return (size_t)used;
}

/* ---- the document ---- */

static char *read_doc(void)
{
	FILE *file = fopen(PROTOCOL_MD, "re");
	char *all = NULL;
	size_t size = 0;

	if (!file)
		return NULL;
	if (getdelim(&all, &size, '\0', file) < 0) {
		free(all);
		all = NULL;
	}
	fclose(file);
	return all;
}

/* Reads the bytes of the block up to its closing fence. */
static size_t read_hex(uint8_t out[static EXAMPLE_MAX], const char *at)
{
	size_t n = 0;
	unsigned byte;

	while (strncmp(at, "```", 3) != 0) {
		assert_int_not_equal(*at, '\0');
		if (*at == '#') {
			at += strcspn(at, "\n");
		} else if (isspace((unsigned char)*at)) {
			at++;
		} else {
			assert_int_equal(sscanf(at, "%2x", &byte), 1);
			assert_true(isxdigit((unsigned char)at[1]) && n < EXAMPLE_MAX);
			out[n++] = (uint8_t)byte;
			at += 2;
		}
	}
	return n;
}

static const char *find_block(const char *name)
{
	char fence[64];
	const char *at;

	snprintf(fence, sizeof fence, "\n```hex %s\n", name);
	at = strstr(doc, fence);
	return at ? at + strlen(fence) : NULL;
}

static void print_frame(const char *name, const uint8_t *frame, size_t len)
{
	printf("the code makes of %s:", name);
	for (size_t i = 0; i < len; i++)
		printf(" %02x", frame[i]);
	printf("\n");
}

static void check_example(void **state)
{
	const struct example *e = *state;
	uint8_t want[EXAMPLE_MAX], found[EXAMPLE_MAX];
	size_t want_len = make_frame(want, e), len = 0;
	const char *block = find_block(e->name);
	struct frame frame;

	if (block)
		len = read_hex(found, block);
	if (len != want_len || memcmp(found, want, len) != 0)
		print_frame(e->name, want, want_len);
	assert_non_null(block);
	assert_int_equal(len, want_len);
	assert_memory_equal(found, want, want_len);
	assert_int_equal(frame_parse(found, len, FRAME_BODY_MAX, &frame), want_len);
}

static void check_all_fields_have_examples(
	const ProtobufCMessageDescriptor *descriptor, bool is_client)
{
	for (unsigned i = 0; i < descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
		bool found = !(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF);

		for (size_t k = 0; k < TABLE_LEN(examples); k++)
			found = found || (strcmp(examples[k].name, field->name) == 0 &&
						 !examples[k].from_client == !is_client);
		if (!found)
			print_error("%s has no example\n", field->name);
		assert_true(found);
	}
}

static void every_message_has_an_example(void **state)
{
	(void)state;
	check_all_fields_have_examples(&leased__client_message__descriptor, true);
	check_all_fields_have_examples(&leased__server_message__descriptor, false);
}

static void every_block_is_an_example(void **state)
{
	size_t n = 0;

	(void)state;
	for (const char *at = doc; (at = strstr(at, "\n```hex ")); at++)
		n++;
	assert_int_equal(n, TABLE_LEN(examples));
}

static void every_status_is_in_the_table(void **state)
{
	static const char *const rows[] = {
#define ROW(name, wire, exit_code, text)                                                           \
	"\n| " #wire " | `" #name "` | " #exit_code " | " text " |",
		LEASED_STATUSES(ROW)
#undef ROW
	};

	(void)state;
	for (size_t i = 0; i < TABLE_LEN(rows); i++) {
		if (!strstr(doc, rows[i]))
			print_error("not in PROTOCOL.md:%s\n", rows[i]);
		assert_non_null(strstr(doc, rows[i]));
	}
}

static void limits_are_those_of_the_code(void **state)
{
	static const struct {
		const char *what;
		int limit;
	} rows[] = {
		{ "frame body", FRAME_BODY_MAX },
		{ "first frame body", FRAME_HELLO_MAX },
		{ "name", NAME_MAX_LEN },
		{ "host", HOST_MAX_LEN },
		{ "value", VALUE_MAX_LEN },
		{ "slot", NAME_MAX_LEN },
	};
	char row[80];

	(void)state;
	for (size_t i = 0; i < TABLE_LEN(rows); i++) {
		snprintf(row, sizeof row, "\n| %s | %d bytes |", rows[i].what, rows[i].limit);
		if (!strstr(doc, row))
			print_error("not in PROTOCOL.md:%s\n", row);
		assert_non_null(strstr(doc, row));
	}
	snprintf(row, sizeof row, "at most %d names, and at most %d holders", LEASED_NAMES_MAX, LEASED_SHARED);
	assert_non_null(strstr(doc, row));
}

int main(void)
{
	struct table table = { 0 };
	int failed;

	doc = read_doc();
	if (!doc) {
		perror(PROTOCOL_MD);
		return 1;
	}
	fill_holder();
	for (size_t i = 0; i < TABLE_LEN(examples); i++)
		table_add(&table, examples[i].name, check_example, &examples[i]);
	table_add(&table, "every message has an example", every_message_has_an_example, NULL);
	table_add(&table, "every hex block is checked", every_block_is_an_example, NULL);
	table_add(&table, "every status is in the table", every_status_is_in_the_table, NULL);
	table_add(&table, "the limits are those of the code", limits_are_those_of_the_code, NULL);
	failed = table_run(&table, "protocol_doc");
	free(doc);
	return failed;
}
