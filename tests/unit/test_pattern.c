/* Patterns of names: what matches, what is no pattern, and that none of them takes long. */
#include "table.h"

#include <string.h>
#include <time.h>

#include "pattern.h"

static struct text text(const char *s)
{
	return (struct text){ s, strlen(s) };
}

static const struct match_case {
	const char *claim, *pattern, *name;
	bool want;
} matches[] = {
	{ "a name is itself", "billing/eu", "billing/eu", true },
	{ "nothing longer", "billing/eu", "billing/eu2", false },
	{ "nothing shorter", "billing/eu", "billing/e", false },
	{ "nothing below it", "billing", "billing/eu", false },
	{ "no name is folded", "billing", "Billing", false },
	{ "a star takes a segment", "billing/*", "billing/eu", true },
	{ "a star takes an empty one", "billing/*", "billing/", true },
	{ "a star needs its slash", "billing/*", "billing", false },
	{ "a star stays in its segment", "billing/*", "billing/eu/1", false },
	{ "a star alone is one segment", "*", "billing", true },
	{ "a star alone takes no slash", "*", "billing/eu", false },
	{ "a star in the middle", "job-*-eu/run", "job-7-eu/run", true },
	{ "a star that takes nothing", "job-*eu", "job-eu", true },
	{ "what stands around a star must not overlap", "ab*ba", "aba", false },
	{ "two stars", "a*b*c", "a-b-b-c", true },
	{ "two stars in the wrong order", "a*b*c", "a-c-b", false },
	{ "the first place that fits does not spoil the end", "*ab", "abab", true },
	{ "stars in two segments", "*/x/*", "a/x/b", true },
	{ "two stars end in all that follows", "billing/**", "billing/eu/1", true },
	{ "also nothing", "billing/**", "billing/", true },
	{ "but the slash must be there", "billing/**", "billing", false },
	{ "and no other name begins like it", "billing/**", "billing-old/eu", false },
	{ "two stars alone are all", "**", "a/b/c", true },
	{ "a star before two", "*/jobs/**", "eu/jobs/1/2", true },
	{ "a star before two does not cross", "*/jobs/**", "eu/x/jobs/1", false },
	{ "a backslash takes a star for itself", "a\\*", "a*", true },
	{ "and nothing else", "a\\*", "ab", false },
	{ "a blank and a semicolon", "a\\ b\\;c", "a b;c", true },
	{ "a backslash", "a\\\\b", "a\\b", true },
	{ "a name that looks like a pattern is no pattern", "a", "**", false },
	{ "a control character is no star", "a*", "b\1", false },
	{ "an empty segment is one", "a//b", "a//b", true },
	{ "and is not skipped", "a/b", "a//b", false },
	{ "letters beyond ASCII", "\xc3\xa9*", "\xc3\xa9t\xc3\xa9", true },
};

static void check_match(void **state)
{
	const struct match_case *c = *state;
	struct leased_error err;
	struct pattern p;

	assert_int_equal(pattern_parse(&p, text(c->pattern), &err), 0);
	assert_int_equal(pattern_matches(&p, text(c->name)), c->want);
	if (c->want) /* whatever a name that matches begins with may begin one */
		for (size_t len = 0; len <= strlen(c->name); len++)
			assert_true(pattern_may_begin(&p, (struct text){ c->name, len }));
}

static const struct begin_case {
	const char *claim, *pattern, *prefix;
	bool want;
} begins[] = {
	{ "a wider prefix", "billing/eu/**", "billing/", true },
	{ "no prefix", "billing/eu", "", true },
	{ "a narrower prefix", "billing/**", "billing/eu/1", true },
	{ "another one", "billing/**", "ops/", false },
	{ "behind the whole name", "billing/eu", "billing/eu/", false },
	{ "what begins alike only", "billing/**", "billing-old", false },
};

static void check_begin(void **state)
{
	const struct begin_case *c = *state;
	struct pattern p;

	assert_int_equal(pattern_parse(&p, text(c->pattern), NULL), 0);
	assert_int_equal(pattern_may_begin(&p, text(c->prefix)), c->want);
}

static const struct bad_case {
	const char *claim, *pattern, *want;
} bad[] = {
	{ "nothing is no pattern", "", "an empty pattern" },
	{ "two stars in the middle", "a/**/b", "** stands at the end" },
	{ "two stars behind a word", "a**", "** stands for itself" },
	{ "three stars", "***", "** stands at the end" },
	{ "an open backslash", "a\\", "a backslash at the end" },
	{ "a control character", "a\1", "a pattern is like a name" },
	{ "no UTF-8", "a\xff", "a pattern is like a name" },
};

static void check_bad(void **state)
{
	const struct bad_case *c = *state;
	struct leased_error err = { 0 };
	struct pattern p;

	assert_int_equal(pattern_parse(&p, text(c->pattern), &err), LEASED_EDATA);
	if (strncmp(err.text, c->want, strlen(c->want)) != 0)
		fail_msg("got: %s", err.text);
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The best of many rounds: the machine may be busy with something else. */
static void takes_less_than_10_us(const char *pattern, const char *name)
{
	int64_t best = INT64_MAX;
	struct pattern p;

	assert_int_equal(pattern_parse(&p, text(pattern), NULL), 0);
	for (int round = 0; round < 1000; round++) {
		int64_t start = now_ns();

		assert_false(pattern_matches(&p, text(name)));
		if (now_ns() - start < best)
			best = now_ns() - start;
	}
	if (best >= 10000)
		fail_msg("%lld ns", (long long)best);
}

static void no_pattern_takes_long(void **state)
{
	char name[NAME_MAX_LEN + 1] = "", stars[NAME_MAX_LEN + 1] = "", long_part[NAME_MAX_LEN + 1] = "";

	(void)state;
	memset(name, 'a', NAME_MAX_LEN);
	for (size_t i = 0; i + 2 < NAME_MAX_LEN; i += 2)
		memcpy(stars + i, "a*", 2);
	strcat(stars, "b");
	takes_less_than_10_us(stars, name);
	long_part[0] = '*';
	memset(long_part + 1, 'a', 120);
	strcat(long_part, "b*");
	takes_less_than_10_us(long_part, name);
	memset(long_part + 1, 'b', 1);
	takes_less_than_10_us(long_part, name);
}

static void the_longest_is_taken(void **state)
{
	char typed[2 * NAME_MAX_LEN + 2];
	struct pattern p;

	(void)state;
	for (size_t i = 0; i < NAME_MAX_LEN; i++)
		memcpy(typed + 2 * i, "\\*", 2);
	assert_int_equal(pattern_parse(&p, (struct text){ typed, 2 * NAME_MAX_LEN }, NULL), 0);
	assert_int_equal(p.len, NAME_MAX_LEN);
	memset(typed, 'a', sizeof typed);
	assert_int_equal(pattern_parse(&p, (struct text){ typed, NAME_MAX_LEN + 1 }, NULL), LEASED_EDATA);
}

int main(void)
{
	struct table table = { 0 };

	for (size_t i = 0; i < TABLE_LEN(matches); i++)
		table_add(&table, matches[i].claim, check_match, (void *)(uintptr_t)&matches[i]);
	for (size_t i = 0; i < TABLE_LEN(begins); i++)
		table_add(&table, begins[i].claim, check_begin, (void *)(uintptr_t)&begins[i]);
	for (size_t i = 0; i < TABLE_LEN(bad); i++)
		table_add(&table, bad[i].claim, check_bad, (void *)(uintptr_t)&bad[i]);
	table_add(&table, "no pattern takes long", no_pattern_takes_long, NULL);
	table_add(&table, "the longest is taken", the_longest_is_taken, NULL);
	return table_run(&table, "pattern");
}
