#include "change.h"

#include <sodium.h>
#include <string.h>

#define TOKEN_MAX UINT64_C(9007199254740991)
#define NONCE_LEN 16

/* The next field, up to a tab or the end. False: there is none. */
static bool next_field(struct text *rest, struct text *ret_field)
{
	const char *tab;

	if (!rest->data)
		return false;
	tab = memchr(rest->data, '\t', rest->len);
	*ret_field = (struct text){ rest->data, tab ? (size_t)(tab - rest->data) : rest->len };
	if (tab)
		*rest = (struct text){ tab + 1, rest->len - ret_field->len - 1 };
	else
		*rest = (struct text){ 0 };
	return true;
}

static bool take_number(struct text text, uint64_t max, uint64_t *ret_number)
{
	uint64_t number = 0;

	if (text.len == 0 || text.len > 18)
		return false;
	for (size_t i = 0; i < text.len; i++) {
		if (text.data[i] < '0' || text.data[i] > '9')
			return false;
		number = 10 * number + (uint64_t)(text.data[i] - '0');
	}
	*ret_number = number;
	return number <= max;
}

static bool take_nonce(struct text text, uint64_t *ret_nonce)
{
	uint64_t nonce = 0;

	if (text.len != NONCE_LEN)
		return false;
	for (size_t i = 0; i < NONCE_LEN; i++) {
		const char *digits = "0123456789abcdef";
		const char *digit = memchr(digits, text.data[i], 16);

		if (!digit)
			return false;
		nonce = nonce << 4 | (uint64_t)(digit - digits);
	}
	*ret_nonce = nonce;
	return true;
}

/* host:pid:nonce; a host holds no colon. */
static bool take_holder(struct claim *claim, struct text text)
{
	const char *end = text.data + text.len;
	const char *colon = memchr(text.data, ':', text.len);
	const char *second = colon ? memchr(colon + 1, ':', (size_t)(end - colon - 1)) : NULL;
	uint64_t pid;

	if (!second)
		return false;
	claim->host = (struct text){ text.data, (size_t)(colon - text.data) };
	if (host_check((const uint8_t *)claim->host.data, claim->host.len, NULL) < 0 ||
		!take_number((struct text){ colon + 1, (size_t)(second - colon - 1) }, INT32_MAX, &pid) ||
		pid == 0)
		return false;
	claim->pid = (int32_t)pid;
	return take_nonce((struct text){ second + 1, (size_t)(end - second - 1) }, &claim->nonce);
}

static bool take_value(struct change *change, struct text text, uint8_t value[static VALUE_MAX_LEN])
{
	size_t len;

	if (sodium_base642bin(value, VALUE_MAX_LEN, text.data, text.len, NULL, &len, NULL,
		    sodium_base64_VARIANT_ORIGINAL) != 0)
		return false;
	change->has_value = true;
	change->value = (struct text){ (const char *)value, len };
	return true;
}

static bool take_kind(enum change_kind *ret_kind, struct text text)
{
	static const struct {
		char letter;
		enum change_kind kind;
	} kinds[] = { { 'g', CHANGE_GRANTED }, { 'v', CHANGE_VALUE }, { 'r', CHANGE_RELEASED },
		{ 'e', CHANGE_EXPIRED } };

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		if (text.len == 1 && *text.data == kinds[i].letter) {
			*ret_kind = kinds[i].kind;
			return true;
		}
	}
	return false;
}

bool change_parse(struct change *ret_change, const char *line, size_t len,
	uint8_t value[static VALUE_MAX_LEN])
{
	struct text rest = { line, len }, kind, token, holder, number, text;
	struct change change = { 0 };
	uint64_t n;

	if (!next_field(&rest, &kind) || !next_field(&rest, &token) || !next_field(&rest, &holder) ||
		!next_field(&rest, &number) || !next_field(&rest, &change.claim.name))
		return false;
	if (!take_kind(&change.kind, kind) || !take_number(token, TOKEN_MAX, &change.claim.token) ||
		!take_holder(&change.claim, holder) || !take_number(number, INT64_MAX, &n) ||
		name_check((const uint8_t *)change.claim.name.data, change.claim.name.len, NULL) < 0)
		return false;
	if (change.kind == CHANGE_GRANTED)
		change.expires_in_ms = (int64_t)n;
	if (change.kind == CHANGE_VALUE)
		change.value_changes = (int64_t)n;
	if (next_field(&rest, &text) && (!take_value(&change, text, value) || rest.data))
		return false;
	*ret_change = change;
	return true;
}
