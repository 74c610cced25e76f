#include "name.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

#define TEXT(s) (const uint8_t *)(s), sizeof(s) - 1

/* What each check says of one text: 0 or LEASED_EDATA. */
static struct check_case {
	const char *name;
	const uint8_t *text;
	size_t len;
	bool name_ok, host_ok, value_ok, prefix_ok;
} checks[] = {
	{ "empty is a value and a prefix only", TEXT(""), false, false, true, true },
	{ "one letter is fine everywhere", TEXT("a"), true, true, true, true },
	{ "a slash separates namespaces", TEXT("billing/nightly-report"), true, true, true, true },
	{ "quotes and SQL are only text", TEXT("a'; DROP TABLE leases"), true, false, true, true },
	{ "percent and backslash are only text", TEXT("50%\\n"), true, true, true, true },
	{ "a trailing dot is only text", TEXT("a."), true, true, true, true },
	{ "a colon may not stand in a host", TEXT("a:b"), true, false, true, true },
	{ "a space may not stand in a host", TEXT("a b"), true, false, true, true },
	{ "a NUL is refused everywhere", TEXT("a\0b"), false, false, false, false },
	{ "a newline is for values only", TEXT("a\nb"), false, false, true, false },
	{ "U+001F is for values only", TEXT("\x1f"), false, false, true, false },
	{ "DEL is for values only", TEXT("\x7f"), false, false, true, false },
	{ "U+0080 is for values only", TEXT("\xc2\x80"), false, false, true, false },
	{ "U+009F is for values only", TEXT("\xc2\x9f"), false, false, true, false },
	{ "U+00A0 is no control character", TEXT("\xc2\xa0"), true, true, true, true },
	{ "two bytes of UTF-8", TEXT("\xc3\xa9"), true, true, true, true },
	{ "three bytes of UTF-8", TEXT("\xe2\x82\xac"), true, true, true, true },
	{ "emoji", TEXT("\xf0\x9f\x94\x92"), true, true, true, true },
	{ "the last code point U+10FFFF", TEXT("\xf4\x8f\xbf\xbf"), true, true, true, true },
	{ "above U+10FFFF", TEXT("\xf4\x90\x80\x80"), false, false, false, false },
	{ "a first byte F5", TEXT("\xf5\x80\x80\x80"), false, false, false, false },
	{ "a first byte FF", TEXT("\xff"), false, false, false, false },
	{ "an overlong slash in two bytes", TEXT("\xc0\xaf"), false, false, false, false },
	{ "an overlong NUL", TEXT("\xc0\x80"), false, false, false, false },
	{ "an overlong form in three bytes", TEXT("\xe0\x9f\xbf"), false, false, false, false },
	{ "an overlong form in four bytes", TEXT("\xf0\x8f\xbf\xbf"), false, false, false, false },
	{ "the first surrogate", TEXT("\xed\xa0\x80"), false, false, false, false },
	{ "the last surrogate", TEXT("\xed\xbf\xbf"), false, false, false, false },
	{ "the character before the surrogates", TEXT("\xed\x9f\xbf"), true, true, true, true },
	{ "a lone continuation byte", TEXT("\x80"), false, false, false, false },
	{ "a character cut short", TEXT("a\xe2\x82"), false, false, false, false },
	{ "a character broken off by a letter", TEXT("\xe2\x82g"), false, false, false, false },
	{ "Latin-1", TEXT("caf\xe9"), false, false, false, false },
};

static void check_rules(void **state)
{
	const struct check_case *c = *state;

	assert_int_equal(name_check(c->text, c->len, NULL), c->name_ok ? 0 : LEASED_EDATA);
	assert_int_equal(slot_check(c->text, c->len, NULL), c->name_ok ? 0 : LEASED_EDATA);
	assert_int_equal(host_check(c->text, c->len, NULL), c->host_ok ? 0 : LEASED_EDATA);
	assert_int_equal(value_check(c->text, c->len, NULL), c->value_ok ? 0 : LEASED_EDATA);
	assert_int_equal(prefix_check(c->text, c->len, NULL), c->prefix_ok ? 0 : LEASED_EDATA);
}

static void limits_hold(void **state)
{
	static uint8_t text[VALUE_MAX_LEN + 1];

	(void)state;
	memset(text, 'n', sizeof text);
	assert_int_equal(name_check(text, 255, NULL), 0);
	assert_int_equal(name_check(text, 256, NULL), LEASED_EDATA);
	assert_int_equal(slot_check(text, 255, NULL), 0);
	assert_int_equal(slot_check(text, 256, NULL), LEASED_EDATA);
	assert_int_equal(host_check(text, 255, NULL), 0);
	assert_int_equal(host_check(text, 256, NULL), LEASED_EDATA);
	assert_int_equal(prefix_check(text, 255, NULL), 0);
	assert_int_equal(prefix_check(text, 256, NULL), LEASED_EDATA);
	assert_int_equal(value_check(text, VALUE_MAX_LEN, NULL), 0);
	assert_int_equal(value_check(text, VALUE_MAX_LEN + 1, NULL), LEASED_EDATA);
}

static void limit_counts_bytes(void **state)
{
	uint8_t text[256];

	(void)state;
	for (size_t i = 0; i < sizeof text; i += 2)
		memcpy(text + i, "\xc3\xa9", 2);
	assert_int_equal(name_check(text, 254, NULL), 0);
	assert_int_equal(name_check(text, 256, NULL), LEASED_EDATA);
}

static void sentence_names_place(void **state)
{
	struct leased_error err;

	(void)state;
	name_check(TEXT("ab\ncd"), &err);
	assert_int_equal(err.status, LEASED_EDATA);
	assert_non_null(strstr(err.text, "U+000A"));
	assert_non_null(strstr(err.text, "byte 3"));
	name_check(TEXT("abc\xff"), &err);
	assert_non_null(strstr(err.text, "byte 4"));
}

static int check_names(const char *const names[], size_t n, struct leased_error *err)
{
	ProtobufCBinaryData all[LEASED_NAMES_MAX + 1] = { { 0 } };

	for (size_t i = 0; i < n; i++)
		all[i] = (ProtobufCBinaryData){ strlen(names[i]), (uint8_t *)(uintptr_t)names[i] };
	return names_check(all[0], all + 1, n - 1, err);
}

static void names_are_checked_together(void **state)
{
	static const struct {
		const char *names[4];
		size_t n;
		const char *says; /* NULL: fine */
	} cases[] = {
		{ { "a" }, 1, NULL },
		{ { "a", "b", "ab", "B" }, 4, NULL },
		{ { "" }, 1, "empty" },
		{ { "", "b" }, 2, "empty" },
		{ { "a", "b", "" }, 3, "name 3 of 3: the name is empty" },
		{ { "a", "b\nc", "d" }, 3, "name 2 of 3" },
		{ { "a", "\xff" }, 2, "not UTF-8" },
		{ { "a", "a" }, 2, "name 2 of 2 is there twice: \"a\"" },
		{ { "a", "b", "c", "b" }, 4, "name 4 of 4 is there twice: \"b\"" },
		{ { "a", "b", "a", "" }, 4, "name 3 of 4 is there twice" },
	};

	(void)state;
	for (size_t i = 0; i < TABLE_LEN(cases); i++) {
		struct leased_error err = { 0 };

		assert_int_equal(check_names(cases[i].names, cases[i].n, &err),
			cases[i].says ? LEASED_EDATA : 0);
		if (cases[i].says)
			assert_non_null(strstr(err.text, cases[i].says));
	}
}

static void a_lease_has_64_names_at_most(void **state)
{
	static char texts[LEASED_NAMES_MAX + 1][NAME_MAX_LEN + 1];
	const char *names[LEASED_NAMES_MAX + 1];
	struct leased_error err;

	(void)state;
	for (size_t i = 0; i <= LEASED_NAMES_MAX; i++) {
		memset(texts[i], 'n', NAME_MAX_LEN);
		texts[i][NAME_MAX_LEN - 1] = (char)('0' + i);
		names[i] = texts[i];
	}
	assert_int_equal(check_names(names, LEASED_NAMES_MAX, NULL), 0);
	assert_int_equal(check_names(names, LEASED_NAMES_MAX + 1, &err), LEASED_EDATA);
	assert_non_null(strstr(err.text, "65 names, at most 64"));
	assert_int_equal(names_check((ProtobufCBinaryData){ 0 }, NULL, SIZE_MAX - 1, NULL), LEASED_EDATA);
}

static struct escape_case {
	const char *name;
	const uint8_t *text;
	size_t len, size;
	const char *want;
} escapes[] = {
	{ "plain text stays", TEXT("a/b c"), 64, "a/b c" },
	{ "nothing becomes nothing", TEXT(""), 64, "" },
	{ "emoji stay", TEXT("\xf0\x9f\x94\x92"), 64, "\xf0\x9f\x94\x92" },
	{ "a backslash becomes two", TEXT("a\\x41"), 64, "a\\\\x41" },
	{ "newline, escape and NUL become bytes", TEXT("\n\x1b[\0"), 64, "\\x0a\\x1b[\\x00" },
	{ "a control of two bytes becomes both", TEXT("\xc2\x9b"), 64, "\\xc2\\x9b" },
	{ "right-to-left override", TEXT("\xe2\x80\xae"), 64, "\\xe2\\x80\\xae" },
	{ "left-to-right embedding", TEXT("\xe2\x80\xaa"), 64, "\\xe2\\x80\\xaa" },
	{ "left-to-right mark", TEXT("\xe2\x80\x8e"), 64, "\\xe2\\x80\\x8e" },
	{ "right-to-left mark", TEXT("\xe2\x80\x8f"), 64, "\\xe2\\x80\\x8f" },
	{ "first isolate", TEXT("\xe2\x81\xa6"), 64, "\\xe2\\x81\\xa6" },
	{ "last isolate", TEXT("\xe2\x81\xa9"), 64, "\\xe2\\x81\\xa9" },
	{ "Arabic letter mark", TEXT("\xd8\x9c"), 64, "\\xd8\\x9c" },
	{ "line and paragraph separators", TEXT("\xe2\x80\xa8\xe2\x80\xa9"), 64,
		"\\xe2\\x80\\xa8\\xe2\\x80\\xa9" },
	{ "the characters beside the marks stay", TEXT("\xe2\x80\x90\xe2\x81\xaa"), 64,
		"\xe2\x80\x90\xe2\x81\xaa" },
	{ "bytes that are not UTF-8", TEXT("\xff\x61\xe2\x82"), 64, "\\xffa\\xe2\\x82" },
	{ "room for all but the NUL cuts the last letter", TEXT("abc"), 3, "ab" },
	{ "just enough room", TEXT("abc"), 4, "abc" },
	{ "room for a NUL only", TEXT("abc"), 1, "" },
	{ "a character is not split", TEXT("a\xe2\x82\xac"), 4, "a" },
	{ "an escape is not split", TEXT("a\n"), 5, "a" },
	{ "an escape just fits", TEXT("a\n"), 6, "a\\x0a" },
};

static void check_escape(void **state)
{
	const struct escape_case *c = *state;
	char *out = malloc(c->size); /* the heap's end shows a write too many */

	assert_non_null(out);
	assert_int_equal(name_escape(out, c->size, c->text, c->len), strlen(c->want));
	assert_string_equal(out, c->want);
	free(out);
}

static void escaped_size_is_enough(void **state)
{
	char out[NAME_ESCAPED_SIZE];
	uint8_t text[NAME_MAX_LEN];

	(void)state;
	memset(text, 0xff, sizeof text);
	assert_int_equal(name_escape(out, sizeof out, text, sizeof text), NAME_ESCAPED_SIZE - 1);
}

int main(void)
{
	struct table table = { 0 };

	for (size_t i = 0; i < TABLE_LEN(checks); i++)
		table_add(&table, checks[i].name, check_rules, &checks[i]);
	table_add(&table, "255 bytes are allowed, 256 are not", limits_hold, NULL);
	table_add(&table, "the limit counts bytes, not characters", limit_counts_bytes, NULL);
	table_add(&table, "the sentence says what is wrong and where", sentence_names_place, NULL);
	table_add(&table, "names are checked together", names_are_checked_together, NULL);
	table_add(&table, "a lease has 64 names at most", a_lease_has_64_names_at_most, NULL);
	for (size_t i = 0; i < TABLE_LEN(escapes); i++)
		table_add(&table, escapes[i].name, check_escape, &escapes[i]);
	table_add(&table, "any name fits NAME_ESCAPED_SIZE", escaped_size_is_enough, NULL);
	return table_run(&table, "name");
}
