#include "log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "name.h"

#define LINE_SIZE 4096

static struct {
	enum log_level level;
	bool json;
} settings = { .level = LOG_INFO };

struct line {
	char text[LINE_SIZE];
	size_t len;
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

/* A line that would be too long is cut; its end stays well-formed. */
static void put(struct line *line, const char *text, size_t len)
{
	if (line->len + len > LINE_SIZE - 8)
		return;
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
	char escaped[2 * 1024];
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
	return settings.json || !*value || strcspn(value, " =\"\\") != strlen(value) ||
	       strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			     "0123456789_-./:,;@+()[]%") != strlen(value);
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

static void put_text(struct line *line, const char *key, const char *value)
{
	put_key(line, key);
	if (needs_quotes(value))
		put_quoted(line, value);
	else
		put_string(line, value);
}

static void put_number(struct line *line, const char *key, const char *digits)
{
	put_key(line, key);
	put_string(line, digits);
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

void log_event(enum log_level level, const char *event, ...)
{
	static const char *const names[] = { "error", "warn", "info", "debug" };
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
	memcpy(line.text + line.len, settings.json ? "}\n" : "\n", 2);
	line.len += settings.json ? 2 : 1;
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
