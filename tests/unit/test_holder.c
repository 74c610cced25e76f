#include "holder.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>

#include "table.h"

#define HOST_85                                                                                    \
	"hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh"
#define HOST_255 HOST_85 HOST_85 HOST_85

static struct parse_case {
	const char *name, *text;
	int32_t pid; /* 0: refused */
	uint64_t nonce;
} cases[] = {
	{ "host, pid and nonce", "web1:4711:0123456789abcdef", 4711, 0x0123456789abcdef },
	{ "the largest pid and nonce", "h:2147483647:ffffffffffffffff", INT32_MAX, UINT64_MAX },
	{ "nonce zero is a nonce", "h:1:0000000000000000", 1, 0 },
	{ "a host in UTF-8", "b\xc3\xbcro:1:00000000000000ff", 1, 255 },
	{ "a host of 255 bytes", HOST_255 ":1:00000000000000ff", 1, 255 },
	{ "a host of 256 bytes is refused", HOST_255 "h:1:00000000000000ff", 0, 0 },
	{ "empty is refused", "", 0, 0 },
	{ "one colon is refused", "h:1", 0, 0 },
	{ "no host is refused", ":1:0123456789abcdef", 0, 0 },
	{ "a colon in the host is refused", "a:b:1:0123456789abcdef", 0, 0 },
	{ "a space in the host is refused", "a b:1:0123456789abcdef", 0, 0 },
	{ "a newline in the host is refused", "a\nb:1:0123456789abcdef", 0, 0 },
	{ "a host that is not UTF-8 is refused", "\xff:1:0123456789abcdef", 0, 0 },
	{ "no pid is refused", "h::0123456789abcdef", 0, 0 },
	{ "pid 0 is refused", "h:0:0123456789abcdef", 0, 0 },
	{ "a leading zero is refused", "h:01:0123456789abcdef", 0, 0 },
	{ "a negative pid is refused", "h:-1:0123456789abcdef", 0, 0 },
	{ "a signed pid is refused", "h:+1:0123456789abcdef", 0, 0 },
	{ "a pid of 2^31 is refused", "h:2147483648:0123456789abcdef", 0, 0 },
	{ "a pid of 2^32 + 1 is refused", "h:4294967297:0123456789abcdef", 0, 0 },
	{ "a pid of twenty digits is refused", "h:18446744073709551617:0123456789abcdef", 0, 0 },
	{ "a pid with letters is refused", "h:1a:0123456789abcdef", 0, 0 },
	{ "no nonce is refused", "h:1:", 0, 0 },
	{ "15 digits of nonce are refused", "h:1:0123456789abcde", 0, 0 },
	{ "17 digits of nonce are refused", "h:1:0123456789abcdef0", 0, 0 },
	{ "upper case in the nonce is refused", "h:1:0123456789ABCDEF", 0, 0 },
	{ "a letter beyond f is refused", "h:1:0123456789abcdeg", 0, 0 },
	{ "0x before the nonce is refused", "h:1:0x23456789abcdef", 0, 0 },
};

static void check_parse(void **state)
{
	const struct parse_case *c = *state;
	struct leased_error err = { 0 };
	struct holder holder = { .pid = 42 };
	char out[HOLDER_TEXT_SIZE];

	if (c->pid == 0) {
		assert_int_equal(holder_parse(&holder, c->text, &err), LEASED_EUSAGE);
		assert_int_equal(err.status, LEASED_EUSAGE);
		assert_int_equal(holder.pid, 42); /* untouched */
		return;
	}
	assert_int_equal(holder_parse(&holder, c->text, &err), 0);
	assert_int_equal(holder.pid, c->pid);
	assert_true(holder.nonce == c->nonce);
	assert_int_equal(holder.host_len, strlen(holder.host));
	assert_int_equal(holder_format(out, &holder), strlen(c->text));
	assert_string_equal(out, c->text);
}

static void new_holder_is_this_process(void **state)
{
	struct holder holder, back;
	char out[HOLDER_TEXT_SIZE];

	(void)state;
	holder_new(&holder);
	assert_int_equal(holder.pid, getpid());
	assert_int_equal(host_check((const uint8_t *)holder.host, holder.host_len, NULL), 0);
	holder_format(out, &holder);
	assert_int_equal(holder_parse(&back, out, NULL), 0);
	assert_memory_equal(&back, &holder, sizeof back);
}

static void each_holder_has_own_nonce(void **state)
{
	struct holder first, second;

	(void)state;
	holder_new(&first);
	holder_new(&second);
	assert_true(first.nonce != second.nonce);
}

int main(void)
{
	struct table table = { 0 };

	if (sodium_init() < 0)
		return 1;
	for (size_t i = 0; i < TABLE_LEN(cases); i++)
		table_add(&table, cases[i].name, check_parse, &cases[i]);
	table_add(&table, "a new holder names this process and has a text form",
		new_holder_is_this_process, NULL);
	table_add(&table, "two holders never share a nonce", each_holder_has_own_nonce, NULL);
	return table_run(&table, "holder");
}
