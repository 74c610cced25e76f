/*
 * duration.h - durations as people type them: 250ms, 30s, 5m, 1h30m, 2d or plain seconds (2.5).
 * Pure; any thread. Whole milliseconds inside; fractions below one are refused, not rounded away.
 */
#ifndef DURATION_H
#define DURATION_H

#include <stddef.h>
#include <stdint.h>

#include "leased_status.h"

/* Longest duration: 10 years. */
#define DURATION_MAX_MS INT64_C(315576000000)

/*
 * Units in falling order, each at most once: d, h, m, s, ms; a fraction is allowed only on the last
 * part ("1.5h", "2.5"). 0 is fine here; callers refuse it where it makes no sense.
 * 0 and *ret_ms, or LEASED_EUSAGE with a sentence in err: empty, signs, spaces, unknown unit,
 * exponent, inf, nan, below 1 ms but not 0, over DURATION_MAX_MS.
 */
int duration_parse(int64_t *ret_ms, const char *text, struct leased_error *err);

/*
 * The exact form in falling units without those that are zero ("1h30m", "250ms", "0s"), as
 * duration_parse takes it back; a negative time gets a minus.
 */
#define DURATION_TEXT_SIZE 32
void duration_format(char out[static DURATION_TEXT_SIZE], int64_t ms);

#endif
