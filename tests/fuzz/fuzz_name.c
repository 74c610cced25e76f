/* Names, values, holders, addresses: checks agree, what is shown is safe, text forms come back. */
#include <stdbool.h>

#include "address.h"
#include "fuzz.h"
#include "holder.h"
#include "name.h"

static void check_rules(const uint8_t *data, size_t size)
{
	struct leased_error err = { 0 };
	bool is_name = name_check(data, size, &err) == 0;
	bool is_prefix = prefix_check(data, size, NULL) == 0;
	bool is_value = value_check(data, size, NULL) == 0;
	bool is_host = host_check(data, size, NULL) == 0;

	assert(is_name == (is_prefix && size > 0));
	assert(is_name == (slot_check(data, size, NULL) == 0));
	assert(!is_name || (size <= NAME_MAX_LEN && is_value));
	assert(!is_host || (is_name && !memchr(data, ':', size) && !memchr(data, ' ', size)));
	assert(!is_value || (size <= VALUE_MAX_LEN && (size == 0 || !memchr(data, 0, size))));
	assert(is_name || (err.status == LEASED_EDATA && err.text[0]));
}

static uint8_t hex_digit(char c)
{
	return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* Reads escapes back; returns the bytes, which go into out. */
static size_t unescape(uint8_t *out, const char *text)
{
	size_t n = 0;

	for (; *text; n++) {
		if (text[0] == '\\' && text[1] == 'x') {
			out[n] = (uint8_t)(hex_digit(text[2]) << 4 | hex_digit(text[3]));
			text += 4;
		} else {
			assert(text[0] != '\\' || text[1] == '\\');
			out[n] = (uint8_t)*text;
			text += text[0] == '\\' ? 2 : 1;
		}
	}
	return n;
}

/* Escapes into a buffer of this size: ends with NUL, safe, and the start of the input. */
static void check_escape(const uint8_t *data, size_t size, size_t room)
{
	char *out = malloc(room);
	uint8_t *back = malloc(room);
	size_t len, n;

	assert(out && back);
	len = name_escape(out, room, data, size);
	assert(len < room && strlen(out) == len);
	for (size_t i = 0; i < len; i++)
		assert((uint8_t)out[i] >= ' ' && out[i] != 0x7f);
	n = unescape(back, out);
	assert(n <= size && (n == 0 || memcmp(back, data, n) == 0));
	assert(room <= 4 * size || n == size);
	assert(value_check((const uint8_t *)out, len < VALUE_MAX_LEN ? len : 0, NULL) == 0);
	free(back);
	free(out);
}

static void check_holder(const char *text)
{
	char out[HOLDER_TEXT_SIZE];
	struct holder holder;

	if (holder_parse(&holder, text, NULL) < 0)
		return;
	assert(holder.pid >= 1);
	assert(host_check((const uint8_t *)holder.host, holder.host_len, NULL) == 0);
	assert(holder_format(out, &holder) == strlen(text));
	assert(strcmp(out, text) == 0);
}

static void check_address(const char *text)
{
	struct address address, back;
	char out[ADDRESS_TEXT_SIZE];

	if (address_parse(&address, text, NULL) < 0)
		return;
	address_format(out, &address);
	assert(address_parse(&back, out, NULL) == 0);
	assert(memcmp(&address, &back, sizeof back) == 0);
	assert(!address_is_loopback_literal(&address) || address.kind == ADDRESS_TCP);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_string(data, size);

	check_rules(data, size);
	check_escape(data, size, 4 * size + 1);
	check_escape(data, size, 1 + (size > 0 ? data[0] % 64 : 0));
	check_holder(text);
	check_address(text);
	free(text);
	return 0;
}
