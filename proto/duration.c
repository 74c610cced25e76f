#include "duration.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "status.h"

static const struct unit {
	const char *name;
	int64_t ms;
} units[] = { { "d", 86400000 }, { "h", 3600000 }, { "m", 60000 }, { "s", 1000 }, { "ms", 1 } };

#define UNITS        (sizeof units / sizeof units[0])
#define UNIT_SECONDS 3

/*
 * More digits behind the point are never whole milliseconds: ten take a day, 2^10 * 3^3 * 5^5 ms,
 * to its last factor of two. They also keep fraction * unit within 64 bits.
 */
#define FRACTION_DIGITS 10

/* "1.5h" read: a number, its decimal fraction, its unit. */
struct part {
	int64_t whole;
	int64_t fraction, scale; /* fraction / scale, scale a power of ten */
	bool has_fraction;
	size_t unit;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int read_whole(struct part *part, const char **text, struct leased_error *err)
{
	const char *at = *text;

	if (!is_digit(*at))
		return fail(err, LEASED_EUSAGE,
			"a duration is a number and d, h, m, s or ms (30s, 1h30m, 2.5)");
	for (part->whole = 0; is_digit(*at); at++) {
		part->whole = part->whole * 10 + (*at - '0');
		if (part->whole > DURATION_MAX_MS)
			return fail(err, LEASED_EUSAGE, "the duration is longer than ten years");
	}
	*text = at;
	return 0;
}

static int read_fraction(struct part *part, const char **text, struct leased_error *err)
{
	const char *at = *text, *end;

	part->fraction = 0;
	part->scale = 1;
	part->has_fraction = *at == '.';
	if (!part->has_fraction)
		return 0;
	at++;
	if (!is_digit(*at))
		return fail(err, LEASED_EUSAGE, "the duration has no digit behind its point");
	for (end = at; is_digit(*end); end++)
		;
	*text = end;
	while (end > at && end[-1] == '0')
		end--;
	if (end - at > FRACTION_DIGITS)
		return fail(
			err, LEASED_EUSAGE, "the duration is not a whole number of milliseconds");
	for (; at < end; at++) {
		part->fraction = part->fraction * 10 + (*at - '0');
		part->scale *= 10;
	}
	return 0;
}

/* A plain number is in seconds, but only when it is all there is. */
static int read_unit(struct part *part, const char **text, bool is_first, struct leased_error *err)
{
	size_t len = 0;

	while ((*text)[len] && !is_digit((*text)[len]))
		len++;
	part->unit = UNIT_SECONDS;
	if (len == 0 && is_first && **text == '\0')
		return 0;
	for (size_t i = 0; i < UNITS; i++) {
		if (strlen(units[i].name) != len || memcmp(units[i].name, *text, len) != 0)
			continue;
		part->unit = i;
		*text += len;
		return 0;
	}
	return fail(
		err, LEASED_EUSAGE, "a number in the duration is not followed by d, h, m, s or ms");
}

static int part_ms(int64_t *ret_ms, const struct part *part, struct leased_error *err)
{
	int64_t unit_ms = units[part->unit].ms;

	if (part->whole > DURATION_MAX_MS / unit_ms)
		return fail(err, LEASED_EUSAGE, "the duration is longer than ten years");
	if (part->fraction * unit_ms % part->scale != 0)
		return fail(
			err, LEASED_EUSAGE, "the duration is not a whole number of milliseconds");
	*ret_ms = part->whole * unit_ms + part->fraction * unit_ms / part->scale;
	return 0;
}

static int read_part(struct part *part, const char **text, bool is_first, struct leased_error *err)
{
	int rc = read_whole(part, text, err);

	if (rc == 0)
		rc = read_fraction(part, text, err);
	if (rc == 0)
		rc = read_unit(part, text, is_first, err);
	return rc;
}

int duration_parse(int64_t *ret_ms, const char *text, struct leased_error *err)
{
	struct part part = { 0 };
	size_t next_unit = 0; /* units before it are used up */
	bool is_first = true;
	int64_t sum = 0, ms = 0;
	int rc;

	if (*text == '\0')
		return fail(err, LEASED_EUSAGE, "the duration is empty");
	do {
		rc = read_part(&part, &text, is_first, err);
		if (rc < 0)
			return rc;
		if (part.unit < next_unit)
			return fail(err, LEASED_EUSAGE,
				"the units of a duration must go from large to small");
		if (part.has_fraction && *text != '\0')
			return fail(err, LEASED_EUSAGE,
				"only the last number of the duration may have a fraction");
		rc = part_ms(&ms, &part, err);
		if (rc < 0)
			return rc;
		sum += ms; /* five parts of at most ten years and a day each */
		next_unit = part.unit + 1;
		is_first = false;
	} while (*text != '\0');
	if (sum > DURATION_MAX_MS)
		return fail(err, LEASED_EUSAGE, "the duration is longer than ten years");
	*ret_ms = sum;
	return 0;
}

void duration_format(char out[static DURATION_TEXT_SIZE], int64_t ms)
{
	uint64_t left = ms < 0 ? -(uint64_t)ms : (uint64_t)ms;
	size_t used = 0;

	if (ms == 0) {
		strcpy(out, "0s");
		return;
	}
	if (ms < 0)
		out[used++] = '-';
	for (size_t i = 0; i < UNITS; i++) {
		uint64_t count = left / (uint64_t)units[i].ms;

		left %= (uint64_t)units[i].ms;
		if (count > 0)
			used += (size_t)snprintf(out + used, DURATION_TEXT_SIZE - used,
				"%" PRIu64 "%s", count, units[i].name);
	}
}
