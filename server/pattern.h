/*
 * pattern.h - patterns of lease names in rules: `*` stands for any bytes within a segment, `**` at the end for
 * all that follows a `/`; a backslash takes the next character for itself. Matching takes time linear in
 * name and pattern, and no recursion. Pure.
 */
#ifndef PATTERN_H
#define PATTERN_H

#include <stdbool.h>

#include "name.h"
#include "request.h"

/* As it is matched: what stands for others is a control character, which no name holds. */
struct pattern {
	char text[NAME_MAX_LEN];
	uint8_t len;
	uint8_t literal; /* all names that match begin with so many bytes of text */
};

/* Takes a pattern as it was typed. LEASED_EDATA with a sentence. */
int pattern_parse(struct pattern *ret_pattern, struct text typed, struct leased_error *err);

bool pattern_matches(const struct pattern *p, struct text name);

/* Whether a name that begins with prefix could match; true says perhaps. */
bool pattern_may_begin(const struct pattern *p, struct text prefix);

#endif
