#include "log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "name.h"

#define LINE_SIZE  4096
#define TAIL_SIZE  16   /* kept free for the mark of a cut and the end of the line */
#define VALUE_SIZE 1024 /* of one value once escaped; any name fits */

static struct {
	enum log_level level;
	bool json;
} settings = { .level = LOG_INFO };

struct line {
	char text[LINE_SIZE];
	size_t len;
	bool full; /* the field being written does not fit */
	bool cut;  /* a field was left out */
};

void log_init(enum log_level level, bool json)
{
	settings.level = level;
	settings.json = json;
}

bool log_enabled(enum log_level level)
{
	return level <= settings.level;
}

static void put(struct line *line, const char *text, size_t len)
{
	if (line->len + len > LINE_SIZE - TAIL_SIZE) {
		line->full = true;
		return;
	}
	memcpy(line->text + line->len, text, len);
	line->len += len;
}

static void put_string(struct line *line, const char *text)
{
	put(line, text, strlen(text));
}

/* Control characters, quotes and what is not UTF-8 are escaped: a value stays one value of one line. */
static void put_quoted(struct line *line, const char *value)
{
	char escaped[VALUE_SIZE];
	size_t len = name_escape(escaped, sizeof escaped, (const uint8_t *)value, strlen(value));

	put_string(line, "\"");
	for (size_t i = 0; i < len; i++) {
		if (escaped[i] == '"' || (settings.json && escaped[i] == '\\'))
			put_string(line, "\\");
		put(line, &escaped[i], 1);
	}
	put_string(line, "\"");
}

static bool needs_quotes(const char *value)
{
	return settings.json || !*value ||
	       value[strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789_-./:,;@+()[]%")];
}

static void put_key(struct line *line, const char *key)
{
	if (settings.json) {
		put_string(line, line->len > 1 ? ",\"" : "\"");
		put_string(line, key);
		put_string(line, "\":");
	} else {
		put_string(line, line->len > 0 ? " " : "");
		put_string(line, key);
		put_string(line, "=");
	}
}

/* A field goes in whole or not at all, so that a line that would be too long stays well-formed. */
static void end_field(struct line *line, size_t start)
{
	if (line->full) {
		line->len = start;
		line->cut = true;
	}
	line->full = false;
}

static void put_text(struct line *line, const char *key, const char *value)
{
	size_t start = line->len;

	put_key(line, key);
	if (needs_quotes(value))
		put_quoted(line, value);
	else
		put_string(line, value);
	end_field(line, start);
}

static void put_number(struct line *line, const char *key, const char *digits)
{
	size_t start = line->len;

	put_key(line, key);
	put_string(line, digits);
	end_field(line, start);
}

static void put_time(struct line *line)
{
	char text[40], millis[8];
	struct timespec now;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(text, sizeof text - sizeof millis, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(millis, sizeof millis, ".%03dZ", (int)(now.tv_nsec / 1000000) % 1000);
	strcat(text, millis);
	put_text(line, "ts", text);
}

static void end_line(struct line *line)
{
	static const char *const ends[2][2] = { { "\n", " cut=1\n" }, { "}\n", ",\"cut\":1}\n" } };
	const char *end = ends[settings.json][line->cut];
	size_t len = strlen(end);

	memcpy(line->text + line->len, end, len); /* TAIL_SIZE has room for it */
	line->len += len;
}

void log_event(enum log_level level, const char *event, ...)
{
	static const char *const names[] = { "audit", "error", "warn", "info", "debug" };
	struct line line = { .len = 0 };
	const char *key;
	char digits[24];
	va_list args;

	if (!log_enabled(level))
		return;
	if (settings.json)
		put_string(&line, "{");
	put_time(&line);
	put_text(&line, "level", names[level]);
	put_text(&line, "event", event);
	va_start(args, event);
	while ((key = va_arg(args, const char *))) {
		int type = va_arg(args, int);

		if (type == 's') {
			const char *value = va_arg(args, const char *);

			put_text(&line, key, value ? value : "");
			continue;
		}
		if (type == 'd')
			snprintf(digits, sizeof digits, "%" PRId64, va_arg(args, int64_t));
		else
			snprintf(digits, sizeof digits, "%" PRIu64, va_arg(args, uint64_t));
		put_number(&line, key, digits);
	}
	va_end(args);
	end_line(&line);
	/* One write a line, so that lines of several processes do not mix; a failing stderr has no other. */
	if (write(STDERR_FILENO, line.text, line.len) < 0)
		return;
}

bool log_allowed(struct log_limit *limit, int64_t now_ms, uint32_t *ret_left_out)
{
	if (now_ms - limit->window_start_ms >= LOG_LIMIT_INTERVAL_MS) {
		limit->window_start_ms = now_ms;
		limit->in_window = 0;
	}
	if (limit->in_window >= LOG_LIMIT_BURST) {
		limit->left_out++;
		return false;
	}
	limit->in_window++;
	*ret_left_out = limit->left_out;
	limit->left_out = 0;
	return true;
}
