#include "name.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "status.h"

/*
 * Reads one character and returns its bytes, 1 to 4; 0 when they are not UTF-8. The smallest and
 * the largest code point of each length rule out overlong forms, surrogates and what is above
 * U+10FFFF.
 */
static size_t decode(const uint8_t *text, size_t len, uint32_t *ret_char)
{
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t c;
	size_t n;

	if (text[0] < 0x80) {
		*ret_char = text[0];
		return 1;
	}
	if ((text[0] & 0xe0) == 0xc0)
		n = 2;
	else if ((text[0] & 0xf0) == 0xe0)
		n = 3;
	else if ((text[0] & 0xf8) == 0xf0)
		n = 4;
	else
		return 0;
	if (len < n)
		return 0;
	c = text[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (text[i] & 0x3fu);
	}
	if (c < smallest[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*ret_char = c;
	return n;
}

static bool is_control(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c <= 0x9f);
}

/* What can turn the rest of a line around or break it, on a terminal or in a log. */
static bool is_unsafe_to_show(uint32_t c)
{
	return is_control(c) || c == 0x061c || c == 0x200e || c == 0x200f ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

/* Checks length, UTF-8 and controls; what names the thing in the sentence. */
static int check_text(const char *what, const uint8_t *text, size_t len, size_t max,
	struct leased_error *err)
{
	uint32_t c;
	size_t n;

	if (len > max)
		return fail(err, LEASED_EDATA, "the %s is %zu bytes long, at most %zu are allowed",
			what, len, max);
	for (size_t i = 0; i < len; i += n) {
		n = decode(text + i, len - i, &c);
		if (n == 0)
			return fail(
				err, LEASED_EDATA, "the %s is not UTF-8 (byte %zu)", what, i + 1);
		if (is_control(c))
			return fail(err, LEASED_EDATA,
				"the %s holds the control character U+%04X (byte %zu)", what,
				(unsigned)c, i + 1);
	}
	return 0;
}

int name_check(const uint8_t *name, size_t len, struct leased_error *err)
{
	if (len == 0)
		return fail(err, LEASED_EDATA, "the name is empty");
	return check_text("name", name, len, NAME_MAX_LEN, err);
}

static bool is_same(ProtobufCBinaryData a, ProtobufCBinaryData b)
{
	return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

/* Few enough to compare each with all before it. */
static bool is_repeated(ProtobufCBinaryData name, const ProtobufCBinaryData also[], size_t i)
{
	bool found = is_same(also[i], name);

	for (size_t k = 0; k < i; k++)
		found = found || is_same(also[i], also[k]);
	return found;
}

int names_check(ProtobufCBinaryData name, const ProtobufCBinaryData also[], size_t n_also,
	struct leased_error *err)
{
	struct leased_error why = { 0 };
	int rc;

	if (n_also >= LEASED_NAMES_MAX)
		return fail(err, LEASED_EDATA, "these are %zu names, at most %d are allowed", n_also + 1,
			LEASED_NAMES_MAX);
	rc = name_check(name.data, name.len, err);
	for (size_t i = 0; rc == 0 && i < n_also; i++) {
		rc = name_check(also[i].data, also[i].len, &why);
		if (rc < 0)
			return fail(err, rc, "name %zu of %zu: %s", i + 2, n_also + 1, why.text);
		if (is_repeated(name, also, i))
			return fail(err, LEASED_EDATA, "name %zu of %zu is there twice: \"%.*s\"", i + 2,
				n_also + 1, (int)also[i].len, (const char *)also[i].data);
	}
	return rc;
}

int slot_check(const uint8_t *slot, size_t len, struct leased_error *err)
{
	if (len == 0)
		return fail(err, LEASED_EDATA, "the slot is empty");
	return check_text("slot", slot, len, NAME_MAX_LEN, err);
}

int host_check(const uint8_t *host, size_t len, struct leased_error *err)
{
	if (len == 0)
		return fail(err, LEASED_EDATA, "the host of the holder is empty");
	if (memchr(host, ':', len) || memchr(host, ' ', len))
		return fail(
			err, LEASED_EDATA, "the host of the holder has a colon or a space in it");
	return check_text("host of the holder", host, len, HOST_MAX_LEN, err);
}

int value_check(const uint8_t *value, size_t len, struct leased_error *err)
{
	uint32_t c;
	size_t n;

	if (len > VALUE_MAX_LEN)
		return fail(err, LEASED_EDATA,
			"the value is %zu bytes long, at most %d are allowed", len, VALUE_MAX_LEN);
	for (size_t i = 0; i < len; i += n) {
		n = decode(value + i, len - i, &c);
		if (n == 0)
			return fail(err, LEASED_EDATA, "the value is not UTF-8 (byte %zu)", i + 1);
		if (c == 0)
			return fail(err, LEASED_EDATA, "the value holds a NUL (byte %zu)", i + 1);
	}
	return 0;
}

int reason_check(const uint8_t *reason, size_t len, struct leased_error *err)
{
	if (len == 0)
		return fail(err, LEASED_EDATA, "the reason is empty");
	return check_text("reason", reason, len, REASON_MAX_LEN, err);
}

int prefix_check(const uint8_t *prefix, size_t len, struct leased_error *err)
{
	return check_text("prefix", prefix, len, NAME_MAX_LEN, err);
}

/* One character (or one byte that is none) as it shall be shown; returns the bytes of out used. */
static size_t show(char out[static 17], const uint8_t *text, size_t len, size_t *ret_taken)
{
	uint32_t c = 0;
	size_t n = decode(text, len, &c);

	*ret_taken = n > 0 ? n : 1;
	if (n == 0 || is_unsafe_to_show(c)) {
		for (size_t i = 0; i < *ret_taken; i++)
			snprintf(out + 4 * i, 5, "\\x%02x", text[i]);
		return 4 * *ret_taken;
	}
	if (c == '\\') {
		memcpy(out, "\\\\", 2);
		return 2;
	}
	memcpy(out, text, n);
	return n;
}

size_t name_escape(char *out, size_t size, const uint8_t *text, size_t len)
{
	size_t used = 0, taken, n;
	char shown[17]; /* four escapes and snprintf's NUL */

	assert(size > 0);
	for (size_t i = 0; i < len; i += taken) {
		n = show(shown, text + i, len - i, &taken);
		if (n > size - 1 - used)
			break;
		memcpy(out + used, shown, n);
		used += n;
	}
	out[used] = '\0';
	return used;
}

void text_make_safe(char *text)
{
	size_t len = strlen(text), n;
	uint32_t c;

	for (size_t i = 0; i < len; i += n) {
		n = decode((const uint8_t *)text + i, len - i, &c);
		if (n > 0 && !is_unsafe_to_show(c))
			continue;
		n = n > 0 ? n : 1;
		memset(text + i, '?', n);
	}
}
