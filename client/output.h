/*
 * output.h - leases for people and for machines: one line of text, or one JSON object a line. Tokens
 * are JSON numbers below 2^53, times RFC 3339 UTC, durations milliseconds in names ending in _ms.
 */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <jansson.h>
#include <stdbool.h>

#include "leased.h"
#include "leased.pb-c.h"

/* "held", "min-hold", "free". */
const char *output_state(const Leased__Lease *lease);

/* host:pid:nonce, escaped for a terminal; "" when nobody holds it. */
void output_holder(char *out, size_t size, const Leased__Lease *lease);

/* The object of get and list; the caller's reference. */
json_t *output_lease(const Leased__Lease *lease);

/* "held", "released", "expired", "stolen". */
const char *output_ending(enum leased_ending ending);

/* The object of history. */
json_t *output_grant(const struct leased_grant *grant);

/* The object of watch and elect --observe; the caller's reference. And the line. */
json_t *output_change(const char *event, const struct leased_change *change);
void output_change_line(const char *event, const struct leased_change *change);

/* Prints an object in one line and drops the reference. */
void output_json(json_t *object);

#endif
