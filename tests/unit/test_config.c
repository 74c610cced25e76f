/* Options: from the file, from flags, and what each mistake gets. */
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

static const struct file_case {
	const char *claim, *text, *want; /* NULL: accepted */
} file_cases[] = {
	{ "empty is fine", "", NULL },
	{ "comments and blank lines are fine", "# a\n\n; b\n", NULL },
	{ "a section of ours is fine", "[leased]\nttl_max = 2h\n", NULL },
	{ "another section is not", "[other]\nttl_max = 2h\n", "line 2: unknown section [other]" },
	{ "an unknown key names its line and the nearest", "\nttl_maxx = 1h\n",
		"line 2: unknown key ttl_maxx: did you mean ttl_max?" },
	{ "a repeated key", "ttl_max = 1h\nttl_max = 2h\n", "line 2: ttl_max is given twice" },
	{ "listen may be repeated", "listen = unix:/a\nlisten = tcp:127.0.0.1:0\n", NULL },
	{ "no equals sign", "ttl_max\n", "line 1: not of the form key = value" },
	{ "a bad duration", "ttl_max = soon\n", "line 1: ttl_max: " },
	{ "a negative duration", "ttl_max = -1h\n", "line 1: ttl_max: " },
	{ "out of bounds", "writers = 17\n", "line 1: writers: 17 is not within 1 and 16" },
	{ "not a number", "writers = two\n", "line 1: writers: \"two\" is not a number" },
	{ "a number with a tail", "writers = 2x\n", "line 1: writers: " },
	{ "octal", "socket_mode = 0600\n", NULL },
	{ "not octal", "socket_mode = 0888\n", "line 1: socket_mode: " },
	{ "yes or no", "schema_apply = maybe\n", "line 1: schema_apply: \"maybe\" is none of" },
	{ "TCP beyond loopback", "listen = tcp:0.0.0.0:7420\n", "line 1: listen: tcp:0.0.0.0:7420: TCP beyond loopback needs keys" },
	{ "a host name is not loopback", "listen = tcp:localhost:7420\n", "line 1: listen: " },
	{ "a value cut by a comment", "database = host=a ;b\n", "line 1: \" ;\" would begin a comment" },
	{ "a line that continues", "database = host=a\n  dbname=b\n", "line 2: begins with a blank" },
	{ "a line over what the reader takes",
		"database = xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
		"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
		"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n",
		"line 1: longer than 195 bytes" },
	{ "no newline at the end", "ttl_max = 2h", NULL },
	{ "windows line ends", "ttl_max = 2h\r\nttl_min = 1s\r\n", NULL },
};

static void check_file(void **state)
{
	const struct file_case *c = *state;
	struct config config = { 0 };
	struct leased_error err = { 0 };
	FILE *in = fmemopen((void *)(uintptr_t)c->text, strlen(c->text) ? strlen(c->text) : 1, "r");
	int rc;

	if (!*c->text)
		fgetc(in); /* fmemopen takes no empty buffer: its one byte is not ours */
	rc = config_parse_stream(&config, in, &err);
	fclose(in);
	config_fini(&config);
	if (!c->want) {
		assert_int_equal(rc, 0);
	} else {
		assert_int_equal(rc, LEASED_ECONFIG);
		if (strncmp(err.text, c->want, strlen(c->want)) != 0)
			fail_msg("got: %s", err.text);
	}
}

static const struct flag_case {
	const char *claim;
	const char *argv[6];
	int want;
	const char *text;
} flag_cases[] = {
	{ "equals sign or blank", { "--ttl-max=2h", "--ttl-min", "2s" }, 0, "" },
	{ "an unknown flag", { "--http", "x" }, LEASED_EUSAGE, "unknown option --http" },
	{ "underscores are for the file", { "--ttl_max", "2h" }, LEASED_EUSAGE, "unknown option" },
	{ "a missing value", { "--ttl-max" }, LEASED_EUSAGE, "--ttl-max needs a value" },
	{ "a bad value", { "--ttl-max", "0x" }, LEASED_EUSAGE, "--ttl-max: " },
	{ "a password in a conninfo", { "--database", "host=a password=secret" }, LEASED_EUSAGE,
		"--database: a password on the command line" },
	{ "a password in a URI", { "--database", "postgresql://u:secret@h/db" }, LEASED_EUSAGE,
		"--database: a password on the command line" },
	{ "a URI without one", { "--database", "postgresql://u@h/db" }, 0, "" },
	{ "dev with a database", { "--dev", "--database", "host=a" }, LEASED_EUSAGE, "--dev brings" },
	{ "data without dev", { "--data", "/tmp/x" }, LEASED_EUSAGE, "--data goes with --dev" },
	{ "a stray word", { "start" }, LEASED_EUSAGE, "unexpected \"start\"" },
	{ "schema without a verb", { "schema" }, LEASED_EUSAGE, "schema: print, apply or status?" },
	{ "a wrong schema verb", { "schema", "drop" }, LEASED_EUSAGE, "unexpected \"drop\"" },
	{ "a file that is not there", { "--config", "/nonexistent" }, LEASED_ECONFIG,
		"open /nonexistent: No such file" },
	{ "bounds that cross", { "--ttl-min", "2h", "--ttl-max", "1h" }, LEASED_ECONFIG,
		"ttl_min is above ttl_max" },
};

static int load(struct config *config, const char *const args[], struct leased_error *err)
{
	static char program[] = "leased";
	char *argv[8] = { program };
	int argc = 1;

	for (; argc < 7 && args[argc - 1]; argc++)
		argv[argc] = (char *)(uintptr_t)args[argc - 1];
	return config_load(config, argc, argv, err);
}

static void check_flags(void **state)
{
	const struct flag_case *c = *state;
	struct config config = { .writers = -1 };
	struct leased_error err = { 0 };
	int rc = load(&config, c->argv, &err);

	assert_int_equal(rc, c->want);
	if (rc < 0) {
		if (strncmp(err.text, c->text, strlen(c->text)) != 0)
			fail_msg("got: %s", err.text);
		assert_null(strstr(err.text, "secret"));
		assert_int_equal(config.writers, -1); /* untouched */
	} else {
		config_fini(&config);
	}
}

static void flags_go_above_the_file(void **state)
{
	char path[] = "/tmp/leased-config.XXXXXX";
	const char *args[] = { "--config", path, "--ttl-max", "3h", NULL };
	struct config config;
	struct leased_error err;
	FILE *out = fdopen(mkstemp(path), "w");

	(void)state;
	fputs("ttl_max = 2h\nwriters = 3\nlisten = unix:/from-the-file\n", out);
	fclose(out);
	assert_int_equal(load(&config, args, &err), 0);
	assert_int_equal(config.ttl_max_ms, 3 * 3600000);
	assert_int_equal(config.writers, 3);
	assert_int_equal(config.n_listen, 1);
	assert_string_equal(config.listen[0].path, "/from-the-file");
	config_fini(&config);
	unlink(path);
}

static void defaults_are_within_their_bounds(void **state)
{
	const char *none[] = { NULL };
	struct config config;
	struct leased_error err;

	(void)state;
	assert_int_equal(load(&config, none, &err), 0);
	assert_int_equal(config.command, CONFIG_RUN);
	assert_int_equal(config.socket_mode, 0660);
	assert_true(config.schema_apply);
	assert_int_equal(config.n_listen, 1);
	config_fini(&config);
}

int main(void)
{
	static struct table table;

	for (size_t i = 0; i < TABLE_LEN(file_cases); i++)
		table_add(&table, file_cases[i].claim, check_file, (void *)(uintptr_t)&file_cases[i]);
	for (size_t i = 0; i < TABLE_LEN(flag_cases); i++)
		table_add(&table, flag_cases[i].claim, check_flags, (void *)(uintptr_t)&flag_cases[i]);
	table_add(&table, "flags go above the file", flags_go_above_the_file, NULL);
	table_add(&table, "defaults are within their bounds", defaults_are_within_their_bounds, NULL);
	return table_run(&table, "config");
}
