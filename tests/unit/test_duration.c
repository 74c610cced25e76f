#include "duration.h"

#include <stdio.h>
#include <string.h>

#include "table.h"

#define BAD INT64_C(-1)

static struct parse_case {
	const char *text;
	int64_t want; /* milliseconds, BAD: refused */
} parses[] = {
	{ "0", 0 },
	{ "0s", 0 },
	{ "0.0", 0 },
	{ "30", 30000 },
	{ "30s", 30000 },
	{ "030s", 30000 },
	{ "250ms", 250 },
	{ "5m", 300000 },
	{ "2d", 172800000 },
	{ "1h30m", 5400000 },
	{ "1d2h3m4s5ms", 93784005 },
	{ "1s1ms", 1001 },
	{ "2.5", 2500 },
	{ "2.5s", 2500 },
	{ "1.5h", 5400000 },
	{ "1h1.5m", 3690000 },
	{ "0.001", 1 },
	{ "1.000000000000000000000", 1000 },
	{ "0.0009765625d", 84375 },
	{ "90m", 5400000 },
	{ "3652.5d", DURATION_MAX_MS },
	{ "315576000", DURATION_MAX_MS },
	{ "315576000000ms", DURATION_MAX_MS },
	{ "315576000001ms", BAD },
	{ "315576000.001", BAD },
	{ "3652.5d1ms", BAD },
	{ "3652d13h", BAD },
	{ "3653d", BAD },
	{ "9223372036854775807", BAD },
	{ "9223372036854775808ms", BAD },
	{ "18446744073709551616ms", BAD }, /* 2^64 would wrap to 0 */
	{ "213503982335d", BAD },          /* 2^64 ms and a little */
	{ "99999999999999999999999999999999999999", BAD },
	{ "", BAD },
	{ " ", BAD },
	{ "30 s", BAD },
	{ " 30s", BAD },
	{ "30s ", BAD },
	{ "30s\n", BAD },
	{ "-1", BAD },
	{ "-1s", BAD },
	{ "+1s", BAD },
	{ "1e308", BAD },
	{ "1e3", BAD },
	{ "0x10", BAD },
	{ "inf", BAD },
	{ "infinity", BAD },
	{ "nan", BAD },
	{ "s", BAD },
	{ ".5", BAD },
	{ "5.", BAD },
	{ "5.s", BAD },
	{ "1.2.3", BAD },
	{ "1,5", BAD },
	{ "0.5ms", BAD },
	{ "0.0001", BAD },
	{ "1.0001s", BAD },
	{ "0.00000000001d", BAD },
	{ "1.5h30m", BAD },
	{ "1h30", BAD },
	{ "30m1h", BAD },
	{ "1h1h", BAD },
	{ "1S", BAD },
	{ "1H", BAD },
	{ "1min", BAD },
	{ "1w", BAD },
	{ "1us", BAD },
	{ "1\xc2\xb5s", BAD },
	{ "\xd9\xa3s", BAD }, /* an Arabic digit */
};

static void check_parse(void **state)
{
	const struct parse_case *c = *state;
	struct leased_error err = { 0 };
	int64_t ms = 42;

	if (c->want == BAD) {
		assert_int_equal(duration_parse(&ms, c->text, &err), LEASED_EUSAGE);
		assert_int_equal(ms, 42); /* untouched */
		assert_int_equal(err.status, LEASED_EUSAGE);
		assert_true(strlen(err.text) > 0);
		return;
	}
	assert_int_equal(duration_parse(&ms, c->text, NULL), 0);
	assert_true(ms == c->want);
}

static struct format_case {
	const char *name;
	int64_t ms;
	const char *want;
} formats[] = {
	{ "nothing is 0s", 0, "0s" },
	{ "below a second are milliseconds", 250, "250ms" },
	{ "30 s", 30000, "30s" },
	{ "zeros are left out", 5400000, "1h30m" },
	{ "every unit", 93784005, "1d2h3m4s5ms" },
	{ "the longest duration", DURATION_MAX_MS, "3652d12h" },
	{ "the largest number", INT64_MAX, "106751991167d7h12m55s807ms" },
	{ "a negative time has a minus", -1500, "-1s500ms" },
	{ "the smallest number", INT64_MIN, "-106751991167d7h12m55s808ms" },
};

static void check_format(void **state)
{
	const struct format_case *c = *state;
	char out[DURATION_TEXT_SIZE];
	int64_t back;

	duration_format(out, c->ms);
	assert_string_equal(out, c->want);
	if (c->ms >= 0 && c->ms <= DURATION_MAX_MS) {
		assert_int_equal(duration_parse(&back, out, NULL), 0);
		assert_true(back == c->ms);
	} else {
		assert_int_equal(duration_parse(&back, out, NULL), LEASED_EUSAGE);
	}
}

int main(void)
{
	static char claims[TABLE_LEN(parses)][80];
	struct table table = { 0 };

	for (size_t i = 0; i < TABLE_LEN(parses); i++) {
		snprintf(claims[i], sizeof claims[i], "\"%s\" is %s", parses[i].text,
			parses[i].want == BAD ? "refused" : "read exactly");
		table_add(&table, claims[i], check_parse, &parses[i]);
	}
	for (size_t i = 0; i < TABLE_LEN(formats); i++)
		table_add(&table, formats[i].name, check_format, &formats[i]);
	return table_run(&table, "duration");
}
