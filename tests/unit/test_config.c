/* Options: from the file, from flags, and what each mistake gets. */
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"

static const struct file_case {
	const char *claim, *text, *want; /* NULL: accepted */
} file_cases[] = {
	{ "empty is fine", "", NULL },
	{ "comments and blank lines are fine", "# a\n\n; b\n", NULL },
	{ "a section of ours is fine", "[leased]\nttl_max = 2h\n", NULL },
	{ "another section is not", "[other]\nttl_max = 2h\n", "line 1: unknown section [other]" },
	{ "an empty one neither", "ttl_max = 2h\n[other]\n", "line 2: unknown section [other]" },
	{ "text behind our section", "[leased] ttl_max = 2h\n", "line 1: text after [leased] would be ignored" },
	{ "blanks behind our section are fine", "[leased] \t\nttl_max = 2h\n", NULL },
	{ "a byte order mark is fine", "\xef\xbb\xbfttl_max = 2h\n", NULL },
	{ "a byte order mark hides no section", "\xef\xbb\xbf[leased] x\n", "line 1: text after [leased]" },
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
	{ "a path from the root", "authorized_clients = /etc/leased/authorized_clients\n", NULL },
	{ "a path from nowhere", "authorized_clients = clients\n", "line 1: authorized_clients: a path that begins with / is wanted" },
	{ "what is told of requests", "audit = all\n", NULL },
	{ "not more than all", "audit = everything\n", "line 1: audit: \"everything\" is none of off, denied, all" },
	{ "an address of a client", "listen = leased://[::1]:7420/leased-server-pub:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh-xn8E9\n",
		"line 1: listen: leased: addresses are for clients" },
	{ "a host name is not looked up", "listen = tcp:localhost:7420\n", "line 1: listen: " },
	{ "a value cut by a comment", "database = host=a ;b\n", "line 1: \" ;\" would begin a comment" },
	{ "a value cut by a comment after a tab", "\ndatabase = host=a\t;b\n", "line 2: \" ;\" would begin a comment" },
	{ "a semicolon without a blank is a value's", "listen = unix:/a;b\n", NULL },
	{ "a value cut by a carriage return", "ttl_max = 2h\rwriters = 99\n", "line 1: holds a control character" },
	{ "a form feed before a key", "ttl_max = 2h\n\fttl_min = 1s\n", "line 2: holds a control character" },
	{ "a conninfo that libpq cannot read", "database = host=a pass word\n", "line 1: database: libpq cannot read" },
	{ "a conninfo with an unknown key", "database = hosst=a\n", "line 1: database: libpq cannot read" },
	{ "a conninfo in quotes", "database = host=a application_name='b c'\n", NULL },
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

/* Text that holds a NUL, or is as long as the limit, is no C string of the table. */
static int parse_bytes(const void *bytes, size_t len, struct config *config, struct leased_error *err)
{
	FILE *in = fmemopen((void *)(uintptr_t)bytes, len, "r");
	int rc = config_parse_stream(config, in, err);

	fclose(in);
	return rc;
}

static void a_nul_hides_nothing(void **state)
{
	static const char text[] = "\nttl_max = 2h\0writers = 99\n";
	struct config config = { 0 };
	struct leased_error err;

	(void)state;
	assert_int_equal(parse_bytes(text, sizeof text - 1, &config, &err), LEASED_ECONFIG);
	assert_string_equal(err.text, "line 2: holds a control character");
}

static void the_longest_line_is_taken_whole(void **state)
{
	static const char key[] = "database = host=";
	struct config config = { 0 };
	struct leased_error err;
	char line[195 + 2];

	(void)state;
	memset(line, 'x', sizeof line);
	memcpy(line, key, strlen(key));
	line[195] = '\n';
	assert_int_equal(parse_bytes(line, 196, &config, &err), 0);
	assert_int_equal(strlen(config.database), 195 - strlen("database = "));
	config_fini(&config);
	line[195] = 'x';
	line[196] = '\n';
	assert_int_equal(parse_bytes(line, 197, &config, &err), LEASED_ECONFIG);
	assert_string_equal(err.text, "line 1: longer than 195 bytes");
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
	{ "a password of a key file", { "--database", "host=a sslpassword=secret" }, LEASED_EUSAGE,
		"--database: a password on the command line" },
	{ "a password behind an equals sign", { "--database=password=secret" }, LEASED_EUSAGE,
		"--database: a password on the command line" },
	{ "a password in a URI's parameters", { "--database", "postgresql://h/db?password=secret" },
		LEASED_EUSAGE, "--database: a password on the command line" },
	{ "a password that spoils the conninfo", { "--database", "host=a password=my secret" },
		LEASED_EUSAGE, "--database: libpq cannot read" },
	{ "TCP beyond loopback", { "--listen", "tcp:0.0.0.0:7420" }, LEASED_ECONFIG,
		"listen on tcp:0.0.0.0: TCP beyond loopback needs key" },
	{ "an IPv4 address behind IPv6 is not loopback", { "--listen", "tcp:[::ffff:127.0.0.1]:7420" }, LEASED_ECONFIG,
		"listen on tcp:::ffff:127.0.0.1: TCP beyond loopback needs key" },
	{ "TCP beyond loopback with a key", { "--listen", "tcp:0.0.0.0:7420", "--key", "/k", "--authorized-clients", "/c" }, 0, "" },
	{ "a key, and nothing that says whose keys are good", { "--key", "/k" }, LEASED_ECONFIG, "key: anybody can have a key" },
	{ "the next key without one", { "--key-next", "/k" }, LEASED_ECONFIG, "key_next goes with key" },
	{ "a password in a forgotten flag's value", { "postgresql://u:secret@h/db" }, LEASED_EUSAGE,
		"--database: a password on the command line" },
	{ "a flag after the end of flags", { "--", "--writers=3" }, LEASED_EUSAGE,
		"unexpected \"--writers=3\"" },
	{ "a value for a switch", { "--dev=yes" }, LEASED_EUSAGE, "unknown option --dev" },
	{ "a directory instead of a file", { "--config", "/" }, LEASED_ECONFIG,
		"/: line 1: Is a directory" },
	{ "a URI without one", { "--database", "postgresql://u@h/db" }, 0, "" },
	{ "dev with a database", { "--dev", "--database", "host=a" }, LEASED_EUSAGE, "--dev brings" },
	{ "data without dev", { "--data", "/tmp/x" }, LEASED_EUSAGE, "--data goes with --dev" },
	{ "a stray word", { "start" }, LEASED_EUSAGE, "unexpected \"start\"" },
	{ "schema without a verb", { "schema" }, LEASED_EUSAGE, "schema: print, apply, status or roles?" },
	{ "a wrong schema verb", { "schema", "drop" }, LEASED_EUSAGE, "unexpected \"drop\"" },
	{ "a file that is not there", { "--config", "/nonexistent" }, LEASED_ECONFIG,
		"open /nonexistent: No such file" },
	{ "bounds that cross", { "--ttl-min", "2h", "--ttl-max", "1h" }, LEASED_ECONFIG,
		"ttl_min is above ttl_max" },
};

static int load(struct config *config, const char *const args[], struct leased_error *err)
{
	static char program[] = "leased";
	char *argv[24] = { program };
	int argc = 1;

	for (; argc < 23 && args[argc - 1]; argc++)
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

static void flags_that_are_repeated(void **state)
{
	const char *args[] = { "--listen", "unix:/a", "--listen=tcp:[::1]:0", "--writers=3", "--writers=4", NULL };
	struct config config;
	struct leased_error err;

	(void)state;
	assert_int_equal(load(&config, args, &err), 0);
	assert_int_equal(config.n_listen, 2);
	assert_string_equal(config.listen[0].path, "/a");
	assert_int_equal(config.writers, 4);
	config_fini(&config);
}

static const struct command_case {
	const char *claim;
	const char *argv[6];
	enum config_command want;
} command_cases[] = {
	{ "schema print", { "schema", "print" }, CONFIG_SCHEMA_PRINT },
	{ "schema roles", { "schema", "roles" }, CONFIG_SCHEMA_ROLES },
	{ "schema apply, flags anywhere", { "schema", "--writers", "3", "apply" }, CONFIG_SCHEMA_APPLY },
	{ "schema status behind the end of flags", { "--", "schema", "status" }, CONFIG_SCHEMA_STATUS },
	{ "a check", { "--check-config" }, CONFIG_CHECK },
	{ "help whatever the file says", { "--help", "--config", "/nonexistent" }, CONFIG_HELP },
	{ "the version whatever the options say", { "--version", "--writers", "99" }, CONFIG_VERSION },
};

static void check_command(void **state)
{
	const struct command_case *c = *state;
	struct config config;
	struct leased_error err;

	assert_int_equal(load(&config, c->argv, &err), 0);
	assert_int_equal(config.command, c->want);
	config_fini(&config);
}

static void dev_mode_leaves_the_address_to_the_server(void **state)
{
	const char *args[] = { "--dev", "--data", "/tmp/x", NULL };
	struct config config;
	struct leased_error err;

	(void)state;
	assert_int_equal(load(&config, args, &err), 0);
	assert_true(config.dev);
	assert_string_equal(config.data_dir, "/tmp/x");
	assert_int_equal(config.n_listen, 0);
	config_fini(&config);
}

static void a_password_wants_a_private_file(void **state)
{
	char path[] = "/tmp/leased-config.XXXXXX";
	const char *args[] = { "--config", path, NULL };
	struct config config;
	struct leased_error err;
	int fd = mkstemp(path); /* 0600 */
	FILE *out = fdopen(fd, "w");

	(void)state;
	fputs("database = host=a password=secret\n", out);
	fflush(out);
	assert_int_equal(load(&config, args, &err), 0);
	config_fini(&config);
	assert_int_equal(fchmod(fd, 0640), 0);
	assert_int_equal(load(&config, args, &err), LEASED_ECONFIG);
	assert_non_null(strstr(err.text, "a conninfo holds a password and others may read this file"));
	assert_null(strstr(err.text, "secret"));
	fclose(out);
	unlink(path);
}

/* The text of a stream that was written by print. */
static void read_printed(char *out, size_t size, void (*print)(FILE *))
{
	FILE *to = fmemopen(out, size, "w");

	print(to);
	assert_int_equal(fclose(to), 0);
}

static void the_commented_file_is_the_table(void **state)
{
	static char printed[16384], kept[16384];
	FILE *in = fopen(LEASED_CONF, "re");

	(void)state;
	assert_non_null(in);
	kept[fread(kept, 1, sizeof kept - 1, in)] = '\0';
	fclose(in);
	read_printed(printed, sizeof printed, config_print_default);
	assert_string_equal(printed, kept);
}

static void help_names_every_key_of_the_file(void **state)
{
	static char printed[16384], help[16384];
	unsigned n = 0;

	(void)state;
	read_printed(printed, sizeof printed, config_print_default);
	read_printed(help, sizeof help, config_help);
	for (char *line = strtok(printed, "\n"); line; line = strtok(NULL, "\n")) {
		char flag[64] = "--";

		if (sscanf(line, "#%60[a-z_] =", flag + 2) != 1)
			continue;
		for (char *f = flag; *f; f++)
			*f = *f == '_' ? '-' : *f;
		if (!strstr(help, flag))
			fail_msg("--help lacks %s", flag);
		n++;
	}
	assert_true(n >= 22);
}

static const struct default_case {
	const char *claim;
	size_t field;
	int64_t want;
} default_cases[] = {
#define FIELD(name) #name, offsetof(struct config, name)
	{ FIELD(socket_mode), 0660 },
	{ FIELD(ttl_min_ms), 250 },
	{ FIELD(ttl_max_ms), 86400000 },
	{ FIELD(wait_max_ms), 86400000 },
	{ FIELD(slot_keep_ms), 43200000 },
	{ FIELD(poll_interval_ms), 5000 },
	{ FIELD(handshake_timeout_ms), 5000 },
	{ FIELD(idle_timeout_ms), 60000 },
	{ FIELD(request_timeout_ms), 10000 },
	{ FIELD(max_clients), 12000 },
	{ FIELD(max_queued), 200000 },
	{ FIELD(max_waiters), 100000 },
	{ FIELD(writers), 2 },
	{ FIELD(batch_max), 1000 },
	{ FIELD(connect_timeout_ms), 3000 },
	{ FIELD(statement_timeout_ms), 5000 },
	{ FIELD(lock_timeout_ms), 1000 },
	{ FIELD(drain_timeout_ms), 10000 },
#undef FIELD
};

static void check_default(void **state)
{
	const struct default_case *c = *state;
	const char *none[] = { NULL };
	struct config config;
	struct leased_error err;

	assert_int_equal(load(&config, none, &err), 0);
	assert_int_equal(*(int64_t *)(void *)((char *)&config + c->field), c->want);
	config_fini(&config);
}

static void defaults_are_within_their_bounds(void **state)
{
	const char *none[] = { NULL };
	struct config config;
	struct leased_error err;

	(void)state;
	assert_int_equal(load(&config, none, &err), 0);
	assert_int_equal(config.command, CONFIG_RUN);
	assert_true(config.schema_apply);
	assert_false(config.allow_superuser);
	assert_int_equal(config.log_level, LOG_INFO);
	assert_false(config.log_json);
	assert_string_equal(config.database, "");
	assert_int_equal(config.n_listen, 1);
	assert_string_equal(config.listen[0].path, "/run/leased/leased.sock");
	config_fini(&config);
}

static void what_is_used_at_the_start_stays(void **state)
{
	const char *before[] = { "--database", "host=a", "--listen", "unix:/a", "--writers", "1", "--ttl-max", "1h",
		"--connect-timeout", "1s", NULL };
	const char *after[] = { "--database", "host=b", "--listen", "unix:/a", "--listen", "unix:/b", "--writers", "2",
		"--ttl-max", "2h", "--connect-timeout", "2s", "--socket-mode", "0600", "--notify-database", "host=c", "--user", "b", NULL };
	char kept[CONFIG_KEPT_SIZE];
	struct config config, fresh;
	struct leased_error err;

	(void)state;
	assert_int_equal(load(&config, before, &err), 0);
	assert_int_equal(load(&fresh, before, &err), 0);
	config_take_over(&config, &fresh, kept);
	assert_string_equal(kept, "");
	assert_int_equal(load(&fresh, after, &err), 0);
	config_take_over(&config, &fresh, kept);
	assert_string_equal(kept, "database, notify_database, user, listen, socket_mode, writers, connect_timeout");
	assert_string_equal(config.user, "");
	assert_string_equal(config.database, "host=a");
	assert_string_equal(config.notify_database, "");
	assert_int_equal(config.n_listen, 1);
	assert_int_equal(config.writers, 1);
	assert_int_equal(config.connect_timeout_ms, 1000);
	assert_int_equal(config.socket_mode, 0660);
	assert_int_equal(config.ttl_max_ms, 7200000);
	config_fini(&config);
}

int main(void)
{
	static struct table table;

	for (size_t i = 0; i < TABLE_LEN(file_cases); i++)
		table_add(&table, file_cases[i].claim, check_file, (void *)(uintptr_t)&file_cases[i]);
	for (size_t i = 0; i < TABLE_LEN(flag_cases); i++)
		table_add(&table, flag_cases[i].claim, check_flags, (void *)(uintptr_t)&flag_cases[i]);
	for (size_t i = 0; i < TABLE_LEN(command_cases); i++)
		table_add(&table, command_cases[i].claim, check_command, (void *)(uintptr_t)&command_cases[i]);
	for (size_t i = 0; i < TABLE_LEN(default_cases); i++)
		table_add(&table, default_cases[i].claim, check_default, (void *)(uintptr_t)&default_cases[i]);
	table_add(&table, "a NUL hides nothing", a_nul_hides_nothing, NULL);
	table_add(&table, "the longest line is taken whole", the_longest_line_is_taken_whole, NULL);
	table_add(&table, "flags that are repeated", flags_that_are_repeated, NULL);
	table_add(&table, "dev mode leaves the address to the server",
		dev_mode_leaves_the_address_to_the_server, NULL);
	table_add(&table, "a password wants a private file", a_password_wants_a_private_file, NULL);
	table_add(&table, "the commented file is the table", the_commented_file_is_the_table, NULL);
	table_add(&table, "help names every key of the file", help_names_every_key_of_the_file, NULL);
	table_add(&table, "flags go above the file", flags_go_above_the_file, NULL);
	table_add(&table, "what is used at the start stays", what_is_used_at_the_start_stays, NULL);
	table_add(&table, "defaults are within their bounds", defaults_are_within_their_bounds, NULL);
	return table_run(&table, "config");
}
