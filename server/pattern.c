#include "pattern.h"

#include <string.h>

#include "status.h"

#define STAR '\1' /* any bytes but '/' */
#define REST '\2' /* any bytes */

/* How many bytes `**` takes at `at`, if it stands there. It would mean too much elsewhere, or be a slip. */
static int take_stars(struct text typed, size_t at, struct leased_error *err)
{
	if (at + 1 >= typed.len || typed.data[at + 1] != '*')
		return 1;
	if (at + 2 != typed.len)
		return fail(err, LEASED_EDATA, "** stands at the end of a pattern only");
	if (at > 0 && typed.data[at - 1] != '/')
		return fail(err, LEASED_EDATA, "** stands for itself or behind a /");
	return 2;
}

static bool is_marker(char c)
{
	return c == STAR || c == REST;
}

int pattern_parse(struct pattern *ret_pattern, struct text typed, struct leased_error *err)
{
	struct pattern p = { .len = 0 };
	size_t len = 0;

	if (typed.len == 0)
		return fail(err, LEASED_EDATA, "an empty pattern");
	if (reason_check((const uint8_t *)typed.data, typed.len, NULL) < 0) /* which may be longer */
		return fail(err, LEASED_EDATA, "a pattern is like a name: UTF-8 without control characters");
	for (size_t i = 0; i < typed.len;) {
		int step = 1;
		char c = typed.data[i];

		if (len == NAME_MAX_LEN)
			return fail(err, LEASED_EDATA, "a pattern has at most %d bytes", NAME_MAX_LEN);
		if (c == '*') {
			step = take_stars(typed, i, err);
			c = step == 2 ? REST : STAR;
		} else if (c == '\\') {
			if (i + 1 == typed.len)
				return fail(err, LEASED_EDATA, "a backslash at the end of a pattern");
			c = typed.data[i + 1];
			step = 2;
		}
		if (step < 0)
			return step;
		p.text[len++] = c;
		i += (size_t)step;
	}
	p.len = (uint8_t)len;
	while (p.literal < p.len && !is_marker(p.text[p.literal]))
		p.literal++;
	*ret_pattern = p;
	return 0;
}

static size_t until(struct text text, char c)
{
	const char *found = text.len > 0 ? memchr(text.data, c, text.len) : NULL;

	return found ? (size_t)(found - text.data) : text.len;
}

static struct text behind(struct text text, size_t n)
{
	return (struct text){ text.data + n, text.len - n };
}

/*
 * The parts between stars, each at the first place where it fits: that leaves the most to those behind it, so
 * that no other place need be tried. The first part begins the segment, the last one ends it.
 */
static bool segment_matches(struct text p, struct text name)
{
	struct text part = { p.data, until(p, STAR) };

	if (!text_begins(name, part))
		return false;
	name = behind(name, part.len);
	p = behind(p, part.len);
	if (p.len == 0)
		return name.len == 0;
	while (p.len > 0) {
		const char *found;

		p = behind(p, 1);
		part = (struct text){ p.data, until(p, STAR) };
		p = behind(p, part.len);
		if (p.len == 0) /* the last one */
			return name.len >= part.len && text_begins(behind(name, name.len - part.len), part);
		found = part.len > 0 ? memmem(name.data, name.len, part.data, part.len) : name.data;
		if (!found)
			return false;
		name = behind(name, (size_t)(found - name.data) + part.len);
	}
	return true;
}

bool pattern_matches(const struct pattern *pattern, struct text name)
{
	struct text p = { pattern->text, pattern->len };

	for (;;) {
		struct text part = { p.data, until(p, '/') };
		struct text segment = { name.data, until(name, '/') };

		if (part.len == 1 && *part.data == REST)
			return true;
		if (!segment_matches(part, segment))
			return false;
		p = behind(p, part.len);
		name = behind(name, segment.len);
		if (p.len == 0 || name.len == 0)
			return p.len == 0 && name.len == 0;
		p = behind(p, 1);
		name = behind(name, 1);
	}
}

bool pattern_may_begin(const struct pattern *p, struct text prefix)
{
	struct text literal = { p->text, p->literal };

	return text_begins(literal, prefix) || (p->literal < p->len && text_begins(prefix, literal));
}
