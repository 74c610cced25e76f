#include "message.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frame.h"
#include "name.h"
#include "table.h"

static uint8_t out[FRAME_HEADER_LEN + FRAME_BODY_MAX];

static ProtobufCBinaryData bytes(const char *text, size_t len)
{
	static uint8_t store[1 << 16];

	assert_true(len <= sizeof store);
	memcpy(store, text, len);
	return (ProtobufCBinaryData){ .len = len, .data = store };
}

/* The body of out after message_pack returned used. */
#define BODY(used) out + FRAME_HEADER_LEN, (size_t)(used)-FRAME_HEADER_LEN

static void nul_in_bytes_survives(void **state)
{
	Leased__ClientMessage message = LEASED__CLIENT_MESSAGE__INIT, *back;
	Leased__Get get = LEASED__GET__INIT;
	struct arena arena;
	int used;

	(void)state;
	get.name = bytes("a\0b\0", 4);
	message.id = UINT64_MAX;
	message.body_case = LEASED__CLIENT_MESSAGE__BODY_GET;
	message.get = &get;
	used = message_pack(out, sizeof out, &message.base);
	assert_true(used > 0);
	assert_int_equal(used, message_packed_size(&message.base));

	assert_int_equal(arena_init(&arena, message_arena_size((size_t)used)), 0);
	back = message_unpack_client(&arena, BODY(used), NULL);
	assert_non_null(back);
	assert_true(back->id == UINT64_MAX);
	assert_int_equal(back->body_case, LEASED__CLIENT_MESSAGE__BODY_GET);
	assert_int_equal(back->get->name.len, 4);
	assert_memory_equal(back->get->name.data, "a\0b\0", 4);
	arena_free(&arena);
}

static void exit_status_zero_is_told_from_none(void **state)
{
	Leased__ClientMessage message = LEASED__CLIENT_MESSAGE__INIT, *back;
	Leased__Release release = LEASED__RELEASE__INIT;
	struct arena arena;
	int used;

	(void)state;
	message.body_case = LEASED__CLIENT_MESSAGE__BODY_RELEASE;
	message.release = &release;
	assert_int_equal(arena_init(&arena, 4096), 0);
	used = message_pack(out, sizeof out, &message.base);
	back = message_unpack_client(&arena, BODY(used), NULL);
	assert_non_null(back);
	assert_int_equal(back->release->ending_case, LEASED__RELEASE__ENDING__NOT_SET);
	assert_null(back->release->claim);

	release.ending_case = LEASED__RELEASE__ENDING_EXIT_STATUS;
	used = message_pack(out, sizeof out, &message.base);
	back = message_unpack_client(&arena, BODY(used), NULL);
	assert_non_null(back);
	assert_int_equal(back->release->ending_case, LEASED__RELEASE__ENDING_EXIT_STATUS);
	assert_int_equal(back->release->exit_status, 0);
	arena_free(&arena);
}

/* ---- how much a full frame takes ---- */

#define MANY 20000
static Leased__Renewal renewals[MANY], *renewal_list[MANY];
static Leased__Claim claims[MANY];
static Leased__Holder holders[MANY];
static Leased__RenewalResult results[MANY], *result_list[MANY];
static Leased__Lease leases[MANY], *lease_list[MANY];
static Leased__Grant grants[MANY], *grant_list[MANY];

/* Puts as many of list as fit into one frame, unpacks it, returns how many these were. */
static size_t fill_frame(const ProtobufCMessage *message, size_t *n, bool is_client)
{
	struct leased_error err = { 0 };
	struct arena arena;
	size_t low = 1, high = MANY;
	int used;

	while (low < high) { /* the most for which it still fits */
		*n = (low + high + 1) / 2;
		if (message_packed_size(message) <= sizeof out)
			low = *n;
		else
			high = *n - 1;
	}
	*n = low;
	used = message_pack(out, sizeof out, message);
	assert_true(used > FRAME_BODY_MAX - 600);
	assert_int_equal(
		arena_init(&arena, message_arena_size((size_t)used - FRAME_HEADER_LEN)), 0);
	if (is_client)
		assert_non_null(message_unpack_client(&arena, BODY(used), &err));
	else
		assert_non_null(message_unpack_server(&arena, BODY(used), &err));
	print_message("%zu elements in %d bytes took %zu: %.1f times the body\n", *n, used,
		arena.used, (double)arena.used / used);
	arena_free(&arena);
	return *n;
}

static size_t fill_renew(const char *host, const char *name)
{
	Leased__ClientMessage message = LEASED__CLIENT_MESSAGE__INIT;
	Leased__Renew renew = LEASED__RENEW__INIT;

	for (size_t i = 0; i < MANY; i++) {
		leased__renewal__init(&renewals[i]);
		leased__claim__init(&claims[i]);
		leased__holder__init(&holders[i]);
		holders[i].host = (ProtobufCBinaryData){ strlen(host), (uint8_t *)(uintptr_t)host };
		holders[i].pid = 1;
		holders[i].nonce = i + 1;
		claims[i].name = (ProtobufCBinaryData){ strlen(name), (uint8_t *)(uintptr_t)name };
		claims[i].token = 1;
		claims[i].holder = &holders[i];
		renewals[i].claim = &claims[i];
		renewal_list[i] = &renewals[i];
	}
	renew.renewals = renewal_list;
	message.body_case = LEASED__CLIENT_MESSAGE__BODY_RENEW;
	message.renew = &renew;
	return fill_frame(&message.base, &renew.n_renewals, true);
}

/* further sets the number of further names of each claim. */
static size_t fill_renew_of_groups(size_t further)
{
	static ProtobufCBinaryData also[LEASED_NAMES_MAX - 1];
	Leased__ClientMessage message = LEASED__CLIENT_MESSAGE__INIT;
	Leased__Renew renew = LEASED__RENEW__INIT;

	fill_renew("h", "n");
	for (size_t i = 0; i < further; i++)
		also[i] = bytes("n", 1);
	for (size_t i = 0; i < MANY; i++) {
		claims[i].also = also;
		claims[i].n_also = further;
	}
	renew.renewals = renewal_list;
	message.body_case = LEASED__CLIENT_MESSAGE__BODY_RENEW;
	message.renew = &renew;
	return fill_frame(&message.base, &renew.n_renewals, true);
}

static void full_renew_of_groups_fits(void **state)
{
	(void)state;
	for (size_t further = 1; further < LEASED_NAMES_MAX; further++)
		assert_true(fill_renew_of_groups(further) > 200);
}

static void full_renew_fits(void **state)
{
	(void)state;
	assert_true(fill_renew("worker-12.example", "billing/nightly-report-0001") > 900);
	assert_true(fill_renew("h", "n") > 2000);
}

static void full_renewed_fits(void **state)
{
	Leased__ServerMessage message = LEASED__SERVER_MESSAGE__INIT;
	Leased__Renewed renewed = LEASED__RENEWED__INIT;

	(void)state;
	for (size_t i = 0; i < MANY; i++) {
		leased__renewal_result__init(&results[i]);
		results[i].status = -LEASED_ELOST; /* without a sentence: the smallest there is */
		result_list[i] = &results[i];
	}
	renewed.results = result_list;
	message.body_case = LEASED__SERVER_MESSAGE__BODY_RENEWED;
	message.renewed = &renewed;
	fill_frame(&message.base, &renewed.n_results, false);
}

static void full_listing_fits(void **state)
{
	Leased__ServerMessage message = LEASED__SERVER_MESSAGE__INIT;
	Leased__Listing listing = LEASED__LISTING__INIT;

	(void)state;
	for (size_t i = 0; i < MANY; i++) {
		leased__lease__init(&leases[i]);
		leases[i].name = bytes("n", 1);
		leases[i].token = 1;
		leases[i].ttl_ms = 1;
		leases[i].acquired_at_us = leases[i].expires_at_us = INT64_C(1700000000000000);
		lease_list[i] = &leases[i];
	}
	listing.leases = lease_list;
	message.body_case = LEASED__SERVER_MESSAGE__BODY_LISTING;
	message.listing = &listing;
	fill_frame(&message.base, &listing.n_leases, false);
}

static void full_grants_fit(void **state)
{
	Leased__ServerMessage message = LEASED__SERVER_MESSAGE__INIT;
	Leased__Grants page = LEASED__GRANTS__INIT;

	(void)state;
	for (size_t i = 0; i < MANY; i++) {
		leased__grant__init(&grants[i]);
		leased__holder__init(&holders[i]);
		holders[i].host = grants[i].name = grants[i].principal = bytes("n", 1);
		holders[i].pid = 1;
		holders[i].nonce = i + 1;
		grants[i].token = 1;
		grants[i].holder = &holders[i];
		grants[i].acquired_at_us = INT64_C(1700000000000000);
		grant_list[i] = &grants[i];
	}
	page.grants = grant_list;
	message.body_case = LEASED__SERVER_MESSAGE__BODY_GRANTS;
	message.grants = &page;
	fill_frame(&message.base, &page.n_grants, false);
}

/* ---- what is refused ---- */

static void too_many_parts_are_refused(void **state)
{
	static uint8_t body[FRAME_BODY_MAX];
	struct leased_error err = { 0 };
	struct arena arena;
	size_t len = 4;

	(void)state;
	memcpy(body, "\x3a\xfc\xdf\x03", 4); /* a Listing of 61,436 bytes: 30,718 empty leases */
	for (; len < sizeof body; len += 2)
		memcpy(body + len, "\x0a\x00", 2);
	assert_int_equal(arena_init(&arena, message_arena_size(len)), 0);
	assert_null(message_unpack_server(&arena, body, len, &err));
	assert_int_equal(err.status, LEASED_EPROTO);
	assert_non_null(strstr(err.text, "too many parts"));
	arena_free(&arena);
}

static void small_arena_refuses(void **state)
{
	Leased__ClientMessage message = LEASED__CLIENT_MESSAGE__INIT;
	Leased__Get get = LEASED__GET__INIT;
	struct leased_error err;
	struct arena arena;
	size_t size = 0;
	int used;

	(void)state;
	get.name = bytes("name", 4);
	message.body_case = LEASED__CLIENT_MESSAGE__BODY_GET;
	message.get = &get;
	used = message_pack(out, sizeof out, &message.base);
	for (;; size++) { /* every size from nothing on: it fits or is refused, never half */
		assert_int_equal(arena_init(&arena, size), 0);
		err.status = 0;
		if (message_unpack_client(&arena, BODY(used), &err))
			break;
		assert_int_equal(err.status, LEASED_EPROTO);
		arena_free(&arena);
	}
	assert_in_range(size, sizeof message + sizeof get, message_arena_size((size_t)used));
	arena_free(&arena);
}

static struct bad_case {
	const char *name;
	const char *body;
	size_t len;
} bad[] = {
	{ "a tag of field 0", "\x00", 1 },
	{ "a tag without its value", "\x08", 1 },
	{ "a number of eleven bytes", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12 },
	{ "a length beyond the end", "\x1a\x05\x61\x62", 4 },
	{ "a length of 2^32 - 1", "\x1a\xff\xff\xff\xff\x0f", 6 },
	{ "a length of 2^63", "\x1a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11 },
	{ "a group", "\x1b\x1c", 2 },
	{ "wire type 7", "\x0f", 1 },
	{ "an acquire that is a number", "\x18\x01", 2 },
	{ "an acquire with garbage inside", "\x1a\x02\xff\xff", 4 },
	{ "a holder cut short", "\x1a\x04\x12\x05\x0a\x01", 6 },
	{ "HTTP", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27 },
};

static void check_bad(void **state)
{
	const struct bad_case *c = *state;
	struct leased_error err = { 0 };
	struct arena arena;

	assert_int_equal(arena_init(&arena, message_arena_size(c->len)), 0);
	assert_null(message_unpack_client(&arena, (const uint8_t *)c->body, c->len, &err));
	assert_int_equal(err.status, LEASED_EPROTO);
	assert_true(strlen(err.text) > 0);
	arena_free(&arena);
}

/* Field 1000 stands in the message, in the renew and in its claim. */
static void unknown_fields_are_dropped(void **state)
{
	static const uint8_t body[] = { 0x08, 0x01,            /* id 1 */
		0xc0, 0x3e, 0x07,                              /* unknown */
		0x22, 0x10,                                    /* renew */
		0xc2, 0x3e, 0x01, 'u',                         /* unknown */
		0x0a, 0x0a,                                    /* renewal */
		0x0a, 0x06, 0x0a, 0x01, 'n', 0xc0, 0x3e, 0x01, /* claim: name, unknown */
		0x10, 0x05 };                                  /* ttl 5 */
	static const uint8_t want[] = { 0x08, 0x01, 0x22, 0x09, 0x0a, 0x07, 0x0a, 0x03, 0x0a, 0x01,
		'n', 0x10, 0x05 };
	Leased__ClientMessage *message;
	struct arena arena;

	(void)state;
	assert_int_equal(arena_init(&arena, message_arena_size(sizeof body)), 0);
	message = message_unpack_client(&arena, body, sizeof body, NULL);
	assert_non_null(message);
	assert_int_equal(
		message_pack(out, sizeof out, &message->base), FRAME_HEADER_LEN + sizeof want);
	assert_memory_equal(out + FRAME_HEADER_LEN, want, sizeof want);
	arena_free(&arena);
}

static void unknown_verb_has_no_body(void **state)
{
	static const uint8_t body[] = { 0x08, 0x2a, 0xc2, 0x3e, 0x00 }; /* id 42, field 1000 */
	Leased__ClientMessage *message;
	struct arena arena;

	(void)state;
	assert_int_equal(arena_init(&arena, message_arena_size(sizeof body)), 0);
	message = message_unpack_client(&arena, body, sizeof body, NULL);
	assert_non_null(message);
	assert_int_equal(message->id, 42);
	assert_int_equal(message->body_case, LEASED__CLIENT_MESSAGE__BODY__NOT_SET);
	arena_free(&arena);
}

/* ---- packing ---- */

static int pack_goodbye(uint8_t *to, size_t size, size_t why_len)
{
	static char why[FRAME_BODY_MAX + 1];
	Leased__ServerMessage message = LEASED__SERVER_MESSAGE__INIT;
	Leased__Goodbye goodbye = LEASED__GOODBYE__INIT;

	memset(why, 'w', sizeof why);
	why[why_len] = '\0';
	goodbye.why = why;
	message.body_case = LEASED__SERVER_MESSAGE__BODY_GOODBYE;
	message.goodbye = &goodbye;
	return message_pack(to, size, &message.base);
}

static void pack_keeps_to_the_frame_limit(void **state)
{
	size_t overhead = 4 + 4; /* tag and length of the goodbye, then of its text */

	(void)state;
	assert_int_equal(pack_goodbye(out, SIZE_MAX, FRAME_BODY_MAX - overhead),
		FRAME_HEADER_LEN + FRAME_BODY_MAX);
	assert_int_equal(pack_goodbye(out, SIZE_MAX, FRAME_BODY_MAX - overhead + 1), LEASED_EDATA);
}

static void pack_keeps_to_the_buffer(void **state)
{
	int need = pack_goodbye(out, sizeof out, 10);
	uint8_t *exact = malloc((size_t)need); /* the heap's end shows a write too many */

	(void)state;
	assert_non_null(exact);
	assert_int_equal(pack_goodbye(exact, (size_t)need, 10), need);
	assert_int_equal(pack_goodbye(exact, (size_t)need - 1, 10), LEASED_EDATA);
	assert_int_equal(pack_goodbye(exact, 0, 10), LEASED_EDATA);
	free(exact);
}

static void nothing_is_not_packed(void **state)
{
	Leased__ClientMessage message = LEASED__CLIENT_MESSAGE__INIT;

	(void)state;
	assert_int_equal(message_pack(out, sizeof out, &message.base), LEASED_EDATA);
}

static void arena_aligns_and_ends(void **state)
{
	struct arena arena;
	uint8_t *a, *b;

	(void)state;
	assert_int_equal(arena_init(&arena, 64), 0);
	a = arena_alloc(&arena, 1);
	b = arena_alloc(&arena, 48);
	assert_non_null(a);
	assert_non_null(b);
	assert_int_equal((uintptr_t)b % alignof(max_align_t), 0);
	assert_true(b > a);
	assert_null(arena_alloc(&arena, 1));
	assert_null(arena_alloc(&arena, SIZE_MAX));
	arena_free(&arena);
	arena_free(&arena); /* now zeroed */
	assert_null(arena_alloc(&arena, 1));
}

int main(void)
{
	struct table table = { 0 };

	table_add(&table, "a NUL inside bytes survives", nul_in_bytes_survives, NULL);
	table_add(&table, "exit status 0 is told from none", exit_status_zero_is_told_from_none,
		NULL);
	table_add(&table, "a full Renew fits its arena", full_renew_fits, NULL);
	table_add(&table, "a full Renew of leases with several names fits its arena",
		full_renew_of_groups_fits, NULL);
	table_add(&table, "a full Renewed fits its arena", full_renewed_fits, NULL);
	table_add(&table, "a full Listing fits its arena", full_listing_fits, NULL);
	table_add(&table, "a full Grants fits its arena", full_grants_fit, NULL);
	table_add(&table, "thousands of empty parts are refused", too_many_parts_are_refused, NULL);
	table_add(&table, "an arena too small refuses", small_arena_refuses, NULL);
	for (size_t i = 0; i < TABLE_LEN(bad); i++)
		table_add(&table, bad[i].name, check_bad, &bad[i]);
	table_add(&table, "unknown fields are dropped at every depth", unknown_fields_are_dropped,
		NULL);
	table_add(&table, "an unknown verb has an id but no body", unknown_verb_has_no_body, NULL);
	table_add(&table, "a body over the frame's limit is not packed",
		pack_keeps_to_the_frame_limit, NULL);
	table_add(&table, "packing stays within the buffer", pack_keeps_to_the_buffer, NULL);
	table_add(&table, "an empty message is not packed", nothing_is_not_packed, NULL);
	table_add(&table, "the arena aligns, ends and frees twice", arena_aligns_and_ends, NULL);
	return table_run(&table, "message");
}
