/* One event, one line: whatever a value holds, a reader gets back one value of one line. */
#include "table.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"

/* Everything between start and stop goes to stderr by log.c's own write. */
static struct {
	int pipe[2], old_stderr;
} capture;

static void capture_start(void)
{
	assert_int_equal(pipe(capture.pipe), 0);
	capture.old_stderr = dup(STDERR_FILENO);
	assert_true(dup2(capture.pipe[1], STDERR_FILENO) >= 0);
	close(capture.pipe[1]);
}

static void capture_stop(char *out, size_t size)
{
	size_t len = 0;
	ssize_t n;

	dup2(capture.old_stderr, STDERR_FILENO); /* closes the pipe's last writing end */
	close(capture.old_stderr);
	while ((n = read(capture.pipe[0], out + len, size - 1 - len)) > 0)
		len += (size_t)n;
	close(capture.pipe[0]);
	out[len] = '\0';
}

/* The part of a logfmt line after the timestamp. */
static const char *without_time(const char *line)
{
	assert_int_equal(strncmp(line, "ts=20", 5), 0);
	return strchr(line, ' ') + 1;
}

static const struct value_case {
	const char *name, *value;
	const char *logfmt; /* as written after v= */
	const char *parsed; /* what a reader of the JSON line gets */
} values[] = {
	{ "a word stays bare", "billing/nightly-1.2", "billing/nightly-1.2", "billing/nightly-1.2" },
	{ "nothing is an empty value", NULL, "\"\"", "" },
	{ "a space is quoted", "a b", "\"a b\"", "a b" },
	{ "an equals sign is quoted", "a=b", "\"a=b\"", "a=b" },
	{ "a quote is escaped", "say \"x\"", "\"say \\\"x\\\"\"", "say \"x\"" },
	{ "a backslash is escaped", "a\\b", "\"a\\\\b\"", "a\\\\b" },
	{ "a closing backslash does not eat the quote", "a\\", "\"a\\\\\"", "a\\\\" },
	{ "a newline forges no line", "a\nlevel=error", "\"a\\x0alevel=error\"", "a\\x0alevel=error" },
	{ "an escape code stays dead", "\033[2J", "\"\\x1b[2J\"", "\\x1b[2J" },
	{ "a C1 control stays dead", "a\xc2\x9b" "31m", "\"a\\xc2\\x9b31m\"", "a\\xc2\\x9b31m" },
	{ "a mark that turns text around is shown", "\xe2\x80\xae" "x", "\"\\xe2\\x80\\xaex\"",
		"\\xe2\\x80\\xaex" },
	{ "what is not UTF-8 is shown as bytes", "a\xff\xc0\xaf", "\"a\\xff\\xc0\\xaf\"",
		"a\\xff\\xc0\\xaf" },
	{ "a character cut short is shown as bytes", "a\xf0\x9f", "\"a\\xf0\\x9f\"", "a\\xf0\\x9f" },
	{ "other UTF-8 stays readable", "\xc3\xa9\xf0\x9f\x94\x92", "\"\xc3\xa9\xf0\x9f\x94\x92\"",
		"\xc3\xa9\xf0\x9f\x94\x92" },
};

static void check_value(void **state)
{
	const struct value_case *c = *state;
	char line[8192], want[256];
	json_t *json;

	capture_start();
	log_init(LOG_INFO, false);
	log_event(LOG_WARN, "seen", "v", 's', c->value, "n", 'd', (int64_t)-5, NULL);
	capture_stop(line, sizeof line);
	snprintf(want, sizeof want, "level=warn event=seen v=%s n=-5\n", c->logfmt);
	assert_string_equal(without_time(line), want);

	capture_start();
	log_init(LOG_INFO, true);
	log_event(LOG_WARN, "seen", "v", 's', c->value, "n", 'u', UINT64_C(5), NULL);
	capture_stop(line, sizeof line);
	log_init(LOG_INFO, false);
	assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
	json = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(json);
	assert_string_equal(json_string_value(json_object_get(json, "level")), "warn");
	assert_string_equal(json_string_value(json_object_get(json, "event")), "seen");
	assert_string_equal(json_string_value(json_object_get(json, "v")), c->parsed);
	assert_int_equal(json_integer_value(json_object_get(json, "n")), 5);
	json_decref(json);
}

static void numbers_are_written_to_the_last_digit(void **state)
{
	char line[8192];

	(void)state;
	capture_start();
	log_event(LOG_ERROR, "n", "min", 'd', INT64_MIN, "max", 'u', UINT64_MAX, NULL);
	capture_stop(line, sizeof line);
	assert_string_equal(without_time(line),
		"level=error event=n min=-9223372036854775808 max=18446744073709551615\n");
}

/* Every length up to several times the line, in the form that escapes most. */
static void a_line_too_long_is_cut_and_stays_json(void **state)
{
	static const char fills[] = { 'a', '"', '\\', '\n' };
	char value[6000], line[8192];
	size_t n_cut = 0;

	(void)state;
	log_init(LOG_INFO, true);
	for (size_t i = 0; i < 4 * 1500; i++) {
		size_t len = i / 4;
		json_t *json;

		memset(value, fills[i % 4], len);
		value[len] = '\0';
		capture_start();
		log_event(LOG_INFO, "long", "a", 's', value, "b", 's', value, "c", 's', value, "d", 's',
			value, "last", 'd', INT64_C(7), NULL);
		capture_stop(line, sizeof line);
		assert_true(strlen(line) <= 4096);
		assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
		json = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
		assert_non_null(json);
		/* Nothing is lost without a word about it. */
		if (json_object_get(json, "cut"))
			n_cut++;
		else
			assert_int_equal(json_object_size(json), 8);
		json_decref(json);
	}
	log_init(LOG_INFO, false);
	assert_true(n_cut > 0);
}

static void the_longest_name_is_written_whole(void **state)
{
	char name[256], line[8192];
	json_t *json;

	(void)state;
	memset(name, '\xff', 255);
	name[255] = '\0';
	log_init(LOG_INFO, true);
	capture_start();
	log_event(LOG_INFO, "long", "name", 's', name, NULL);
	capture_stop(line, sizeof line);
	log_init(LOG_INFO, false);
	json = json_loads(line, 0, NULL);
	assert_int_equal(json_string_length(json_object_get(json, "name")), 4 * 255);
	json_decref(json);
}

static void lines_below_the_level_are_not_written(void **state)
{
	char line[8192];

	(void)state;
	capture_start();
	log_init(LOG_WARN, false);
	log_event(LOG_INFO, "info", NULL);
	log_event(LOG_DEBUG, "debug", NULL);
	log_event(LOG_WARN, "warn", NULL);
	log_event(LOG_ERROR, "error", NULL);
	log_event(LOG_AUDIT, "asked", NULL);
	assert_true(log_enabled(LOG_ERROR) && log_enabled(LOG_WARN));
	assert_false(log_enabled(LOG_INFO) || log_enabled(LOG_DEBUG));
	log_init(LOG_INFO, false);
	capture_stop(line, sizeof line);
	assert_null(strstr(line, "info"));
	assert_null(strstr(line, "debug"));
	assert_non_null(strstr(line, "event=warn\n"));
	assert_non_null(strstr(line, "event=error\n"));
	assert_non_null(strstr(line, "level=audit event=asked\n")); /* at any level */
}

/* Time is an argument, so the test moves it. */
static void a_flood_is_counted_and_told_of_once(void **state)
{
	struct log_limit limit = { 0 };
	uint32_t left_out = 99;
	int64_t now = 5000000;

	(void)state;
	for (int i = 0; i < LOG_LIMIT_BURST; i++) {
		assert_true(log_allowed(&limit, now, &left_out));
		assert_int_equal(left_out, 0);
	}
	left_out = 99;
	for (int i = 0; i < 1000; i++)
		assert_false(log_allowed(&limit, now + LOG_LIMIT_INTERVAL_MS - 1, &left_out));
	assert_int_equal(left_out, 99); /* untouched while refused */
	assert_true(log_allowed(&limit, now + LOG_LIMIT_INTERVAL_MS, &left_out));
	assert_int_equal(left_out, 1000);
	assert_true(log_allowed(&limit, now + LOG_LIMIT_INTERVAL_MS, &left_out));
	assert_int_equal(left_out, 0);
}

int main(void)
{
	struct table table = { .n = 0 };

	for (size_t i = 0; i < TABLE_LEN(values); i++)
		table_add(&table, values[i].name, check_value, (void *)(uintptr_t)&values[i]);
	table_add(&table, "numbers are written to the last digit",
		numbers_are_written_to_the_last_digit, NULL);
	table_add(&table, "a line too long is cut and stays JSON", a_line_too_long_is_cut_and_stays_json,
		NULL);
	table_add(&table, "the longest name is written whole", the_longest_name_is_written_whole, NULL);
	table_add(&table, "lines below the level are not written", lines_below_the_level_are_not_written,
		NULL);
	table_add(&table, "a flood is counted and told of once", a_flood_is_counted_and_told_of_once,
		NULL);
	return table_run(&table, "log");
}
