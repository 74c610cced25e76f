/*
 * log.h - one event, one line of key=value (or one JSON object) on stderr. Loop thread or before it.
 * error: a person must act; warn: it heals itself; info: life of the process; debug: life of a request;
 * audit: who did what, written at any level.
 */
#ifndef LOG_H
#define LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_AUDIT, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Set once at start and on reload. json: one object a line instead of logfmt. */
void log_init(enum log_level level, bool json);

/* Whether a line of this level would be written. */
bool log_enabled(enum log_level level);

/*
 * Writes `ts=... level=... event=EVENT key=value ...`. The arguments after event are triples of key,
 * type letter and value, ended by NULL:
 *   log_event(LOG_INFO, "listening", "addr", 's', text, "port", 'd', (int64_t)port, NULL);
 * 's' const char * (NULL writes an empty value), 'd' int64_t, 'u' uint64_t. Values are quoted and
 * escaped, so that a name with newlines, escape codes or quotes stays one value of one line. Long
 * values are cut; a field that does not fit into the line is left out, and `cut=1` ends the line.
 */
void log_event(enum log_level level, const char *event, ...) __attribute__((sentinel));

/* At most `burst` lines in `interval_ms` for one place that a stranger can trigger; the first line
 * after a silence tells how many were left out. */
struct log_limit {
	int64_t window_start_ms;
	uint32_t in_window, left_out;
};
#define LOG_LIMIT_BURST       10
#define LOG_LIMIT_INTERVAL_MS 1000
/* Whether this line may be written; *ret_left_out is the number to tell of. now_ms is monotonic. */
bool log_allowed(struct log_limit *limit, int64_t now_ms, uint32_t *ret_left_out);

#endif
