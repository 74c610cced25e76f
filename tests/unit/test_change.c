/* Lines of notifications: what the database tells of a lease, and what strangers may send instead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "change.h"
#include "table.h"

#define HOLDER "web1:4711:0123456789abcdef"

static struct change_case {
	const char *name, *line;
	enum change_kind kind;
	uint64_t token;
	const char *lease, *host;
	int32_t pid;
	uint64_t nonce;
	int64_t expires_in_ms, value_changes;
	const char *value; /* NULL: none */
} good[] = {
	{ "granted", "g\t42\t" HOLDER "\t90000\tnightly", CHANGE_GRANTED, 42, "nightly", "web1", 4711,
		0x0123456789abcdef, 90000, 0, NULL },
	{ "granted with a value", "g\t42\t" HOLDER "\t90000\tnightly\tYQpi", CHANGE_GRANTED, 42, "nightly", "web1",
		4711, 0x0123456789abcdef, 90000, 0, "a\nb" },
	{ "an empty value", "g\t42\t" HOLDER "\t90000\tnightly\t", CHANGE_GRANTED, 42, "nightly", "web1", 4711,
		0x0123456789abcdef, 90000, 0, "" },
	{ "a new value", "v\t7\t" HOLDER "\t3\tn\tYQ==", CHANGE_VALUE, 7, "n", "web1", 4711, 0x0123456789abcdef, 0, 3,
		"a" },
	{ "a value taken away", "v\t7\t" HOLDER "\t4\tn", CHANGE_VALUE, 7, "n", "web1", 4711, 0x0123456789abcdef, 0, 4,
		NULL },
	{ "released", "r\t9007199254740991\tx:1:ffffffffffffffff\t0\ta b", CHANGE_RELEASED, 9007199254740991, "a b",
		"x", 1, UINT64_MAX, 0, 0, NULL },
	{ "expired", "e\t42\t" HOLDER "\t0\tnightly", CHANGE_EXPIRED, 42, "nightly", "web1", 4711, 0x0123456789abcdef, 0,
		0, NULL },
};

static struct bad_case {
	const char *name, *line;
} bad[] = {
	{ "nothing", "" },
	{ "a turn", "w\t5\tname" },
	{ "a steal", "s\t5\tname\tp\tq: why" },
	{ "an unknown kind", "q\t42\t" HOLDER "\t90000\tn" },
	{ "a kind too long", "gg\t42\t" HOLDER "\t90000\tn" },
	{ "no name", "g\t42\t" HOLDER "\t90000" },
	{ "an empty name", "g\t42\t" HOLDER "\t90000\t" },
	{ "a name with a control character", "g\t42\t" HOLDER "\t90000\ta\x01" },
	{ "a name that is not UTF-8", "g\t42\t" HOLDER "\t90000\t\xff" },
	{ "a token over 2^53", "g\t9007199254740992\t" HOLDER "\t90000\tn" },
	{ "a negative token", "g\t-1\t" HOLDER "\t90000\tn" },
	{ "an empty token", "g\t\t" HOLDER "\t90000\tn" },
	{ "a token of twenty digits", "g\t00000000000000000042\t" HOLDER "\t90000\tn" },
	{ "no holder", "g\t42\t\t90000\tn" },
	{ "a holder without a nonce", "g\t42\tweb1:4711\t90000\tn" },
	{ "a short nonce", "g\t42\tweb1:4711:0123\t90000\tn" },
	{ "an upper-case nonce", "g\t42\tweb1:4711:0123456789ABCDEF\t90000\tn" },
	{ "pid 0", "g\t42\tweb1:0:0123456789abcdef\t90000\tn" },
	{ "a pid over 2^31", "g\t42\tweb1:2147483648:0123456789abcdef\t90000\tn" },
	{ "an empty host", "g\t42\t:4711:0123456789abcdef\t90000\tn" },
	{ "a host with a space", "g\t42\ta b:4711:0123456789abcdef\t90000\tn" },
	{ "no expiry", "g\t42\t" HOLDER "\t\tn" },
	{ "a value that is not base64", "g\t42\t" HOLDER "\t90000\tn\t!" },
	{ "base64 without its end", "g\t42\t" HOLDER "\t90000\tn\tYQ" },
	{ "more behind the value", "g\t42\t" HOLDER "\t90000\tn\tYQ==\tx" },
};

static void check_good(void **state)
{
	const struct change_case *c = *state;
	uint8_t value[VALUE_MAX_LEN];
	struct change got;

	assert_true(change_parse(&got, c->line, strlen(c->line), value));
	assert_int_equal(got.kind, c->kind);
	assert_int_equal(got.claim.token, c->token);
	assert_int_equal(got.claim.name.len, strlen(c->lease));
	assert_memory_equal(got.claim.name.data, c->lease, got.claim.name.len);
	assert_int_equal(got.claim.host.len, strlen(c->host));
	assert_memory_equal(got.claim.host.data, c->host, got.claim.host.len);
	assert_int_equal(got.claim.pid, c->pid);
	assert_true(got.claim.nonce == c->nonce);
	assert_int_equal(got.expires_in_ms, c->expires_in_ms);
	assert_int_equal(got.value_changes, c->value_changes);
	assert_int_equal(got.has_value, c->value != NULL);
	assert_int_equal(got.value.len, c->value ? strlen(c->value) : 0);
	if (c->value)
		assert_memory_equal(got.value.data, c->value, got.value.len);
}

static void check_bad(void **state)
{
	const struct bad_case *c = *state;
	uint8_t value[VALUE_MAX_LEN];
	struct change got = { .claim.token = 99 };

	assert_false(change_parse(&got, c->line, strlen(c->line), value));
	assert_int_equal(got.claim.token, 99); /* untouched */
}

/* Every beginning of a good line, which ends where the payload was cut. */
static void cut_lines_are_not_misread(void **state)
{
	const char *line = good[1].line;
	uint8_t value[VALUE_MAX_LEN];
	struct change got;

	(void)state;
	for (size_t len = 0; len < strlen("g\t42\t" HOLDER "\t90000\tn"); len++)
		assert_false(change_parse(&got, line, len, value));
}

static void a_value_over_its_limit_is_refused(void **state)
{
	static char line[6000] = "g\t42\t" HOLDER "\t90000\tn\t";
	size_t begin = strlen(line);
	uint8_t value[VALUE_MAX_LEN];
	struct change got;

	(void)state;
	memset(line + begin, 'A', 5464);
	memcpy(line + begin + 5460, "AA==", 4);
	assert_true(change_parse(&got, line, begin + 5464, value));
	assert_int_equal(got.value.len, VALUE_MAX_LEN);
	memcpy(line + begin + 5460, "AAA=", 4);
	assert_false(change_parse(&got, line, begin + 5464, value));
}

int main(void)
{
	struct table table = { 0 };

	for (size_t i = 0; i < TABLE_LEN(good); i++)
		table_add(&table, good[i].name, check_good, &good[i]);
	for (size_t i = 0; i < TABLE_LEN(bad); i++)
		table_add(&table, bad[i].name, check_bad, &bad[i]);
	table_add(&table, "cut lines are not misread", cut_lines_are_not_misread, NULL);
	table_add(&table, "a value over its limit is refused", a_value_over_its_limit_is_refused, NULL);
	return table_run(&table, "change");
}
