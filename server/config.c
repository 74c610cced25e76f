/*
 * One table says what there is. Defaults, the file, the flags, --help and the commented default file
 * all walk it; a value is taken by the same function wherever it comes from.
 */
#include "config_table.h"

#include <errno.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "duration.h"
#include "status.h"

#define DEFAULT_FILE   "/etc/leased/leased.conf"
#define DEFAULT_LISTEN "unix:/run/leased/leased.sock"

static const struct option_row rows[] = {
#define FIELD(name) offsetof(struct config, name)
	{ "database", TYPE_CONNINFO, FIELD(database), "", 0, 0,
		"libpq conninfo or URI; passwords belong in .pgpass or a service file" },
	{ "notify_database", TYPE_CONNINFO, FIELD(notify_database), "", 0, 0,
		"a direct connection for LISTEN where database goes through a pool" },
	{ "allow_superuser", TYPE_BOOL, FIELD(allow_superuser), "no", 0, 0,
		"work as a database role that is a superuser" },
	{ "user", TYPE_TEXT, FIELD(user), "", 0, 0, "whom the daemon becomes when root starts it" },
	{ "listen", TYPE_LISTEN, 0, DEFAULT_LISTEN, 0, 0,
		"unix:/path, tcp:127.0.0.1:7420 or tcp:[::1]:7420; repeat it for more" },
	{ "socket_mode", TYPE_OCTAL, FIELD(socket_mode), "0660", 0, 0777,
		"who may connect to Unix sockets" },
	{ "log_level", TYPE_LEVEL, 0, "info", 0, 0, "error, warn, info or debug" },
	{ "log_format", TYPE_FORMAT, 0, "logfmt", 0, 0, "logfmt or json" },
	{ "schema_apply", TYPE_BOOL, FIELD(schema_apply), "yes", 0, 0,
		"bring the schema up to date at start" },
	{ "ttl_min", TYPE_MS, FIELD(ttl_min_ms), "250ms", 50, DURATION_MAX_MS, "shortest ttl" },
	{ "ttl_max", TYPE_MS, FIELD(ttl_max_ms), "24h", 1000, DURATION_MAX_MS, "longest ttl" },
	{ "wait_max", TYPE_MS, FIELD(wait_max_ms), "24h", 0, DURATION_MAX_MS,
		"longest wait of an acquire" },
	{ "slot_keep", TYPE_MS, FIELD(slot_keep_ms), "12h", 1000, DURATION_MAX_MS,
		"a completed slot is refused for so long; the same on all daemons of a database" },
	{ "poll_interval", TYPE_MS, FIELD(poll_interval_ms), "5s", 100, 3600000,
		"how often waiters look for releases elsewhere" },
	{ "handshake_timeout", TYPE_MS, FIELD(handshake_timeout_ms), "5s", 100, 600000,
		"from accept to a whole hello" },
	{ "idle_timeout", TYPE_MS, FIELD(idle_timeout_ms), "1m", 1000, 86400000,
		"a client that says nothing for so long is closed" },
	{ "request_timeout", TYPE_MS, FIELD(request_timeout_ms), "10s", 100, 600000,
		"a request that the database has not answered by then is unavailable" },
	{ "max_clients", TYPE_COUNT, FIELD(max_clients), "12000", 1, 1000000, "connections at once" },
	{ "max_queued", TYPE_COUNT, FIELD(max_queued), "200000", 100, 10000000,
		"requests that wait for the database" },
	{ "max_waiters", TYPE_COUNT, FIELD(max_waiters), "100000", 1, 10000000,
		"acquires that wait for a lease" },
	{ "max_watches", TYPE_COUNT, FIELD(max_watches), "10000", 0, 1000000, "watches at once" },
	{ "max_watched", TYPE_COUNT, FIELD(max_watched), "100000", 1, 10000000,
		"held leases in all watches together" },
	{ "writers", TYPE_COUNT, FIELD(writers), "2", 1, 16, "connections to the database" },
	{ "batch_max", TYPE_COUNT, FIELD(batch_max), "1000", 1, 10000, "rows of one kind in a batch" },
	{ "connect_timeout", TYPE_MS, FIELD(connect_timeout_ms), "3s", 100, 600000,
		"for each database host" },
	{ "statement_timeout", TYPE_MS, FIELD(statement_timeout_ms), "5s", 100, 600000,
		"for each statement of a batch" },
	{ "lock_timeout", TYPE_MS, FIELD(lock_timeout_ms), "1s", 10, 600000,
		"for each row lock of a batch" },
	{ "drain_timeout", TYPE_MS, FIELD(drain_timeout_ms), "10s", 0, 600000,
		"after SIGTERM, for what is in flight" },
	{ "history_keep", TYPE_MS, FIELD(history_keep_ms), "14d", 0, DURATION_MAX_MS,
		"how long the history tells of a grant after its end; 0 writes none and forgets what there is" },
	{ "idle_keep", TYPE_MS, FIELD(idle_keep_ms), "30d", 3600000, DURATION_MAX_MS,
		"the row of a lease that has been free for so long is deleted" },
#undef FIELD
};
#define N_ROWS (sizeof rows / sizeof rows[0])

const struct option_row *config_find_row(const char *key)
{
	for (size_t i = 0; i < N_ROWS; i++)
		if (strcmp(rows[i].key, key) == 0)
			return &rows[i];
	return NULL;
}

size_t config_row_index(const struct option_row *row)
{
	_Static_assert(N_ROWS <= CONFIG_ROWS_MAX, "the table has grown: raise CONFIG_ROWS_MAX");
	return (size_t)(row - rows);
}

/* Taking one value. */

int config_take_text(char **field, const char *value, struct leased_error *err)
{
	char *copy = strdup(value);

	if (!copy)
		return fail(err, LEASED_ENOMEM, "out of memory");
	free(*field);
	*field = copy;
	return 0;
}

bool config_holds_secret(const char *conninfo)
{
	PQconninfoOption *options = PQconninfoParse(conninfo, NULL);
	bool found = false;

	for (PQconninfoOption *o = options; o && o->keyword; o++)
		found = found || (*o->dispchar == '*' && o->val && *o->val);
	PQconninfoFree(options);
	return found;
}

/* What libpq says of a conninfo may quote a part of its password, so it is not passed on. */
static int take_conninfo(char **field, const char *value, struct leased_error *err)
{
	PQconninfoOption *options = PQconninfoParse(value, NULL);

	if (!options)
		return fail(err, LEASED_ECONFIG,
			"libpq cannot read this conninfo or URI: is a key unknown, or a blank not in quotes?");
	PQconninfoFree(options);
	return config_take_text(field, value, err);
}

static int take_listen(struct config *c, const char *value, struct leased_error *err)
{
	struct address address;
	int rc = address_parse(&address, value, err);

	if (rc < 0)
		return rc;
	if (address.kind == ADDRESS_TCP && !address_is_loopback_literal(&address))
		return fail(err, LEASED_ECONFIG,
			"%s: TCP beyond loopback needs keys, which this version does not have: use 127.0.0.1, [::1] or a Unix socket",
			value);
	if (c->n_listen == CONFIG_LISTEN_MAX)
		return fail(err, LEASED_ECONFIG, "more than %d addresses", CONFIG_LISTEN_MAX);
	c->listen[c->n_listen++] = address;
	return 0;
}

static int take_choice(int *ret_index, const char *value, const char *const choices[],
	const char *all, struct leased_error *err)
{
	for (int i = 0; choices[i]; i++) {
		if (strcmp(choices[i], value) == 0) {
			*ret_index = i;
			return 0;
		}
	}
	return fail(err, LEASED_ECONFIG, "\"%s\" is none of %s", value, all);
}

static int take_number(int64_t *ret_value, const struct option_row *row, const char *value, int base,
	struct leased_error *err)
{
	char *end;
	long long number;

	errno = 0;
	number = strtoll(value, &end, base);
	if (*value < '0' || *value > '9' || *end || errno)
		return fail(err, LEASED_ECONFIG, "\"%s\" is not a number", value);
	if (number < row->min || number > row->max)
		return fail(err, LEASED_ECONFIG, base == 8 ? "%s is not within %llo and %llo" :
							     "%s is not within %lld and %lld",
			value, (long long)row->min, (long long)row->max);
	*ret_value = number;
	return 0;
}

static int take_duration(int64_t *ret_ms, const struct option_row *row, const char *value,
	struct leased_error *err)
{
	char min[DURATION_TEXT_SIZE], max[DURATION_TEXT_SIZE];
	int64_t ms;
	int rc = duration_parse(&ms, value, err);

	if (rc < 0)
		return rc;
	if (ms < row->min || ms > row->max) {
		duration_format(min, row->min);
		duration_format(max, row->max);
		return fail(err, LEASED_ECONFIG, "%s is not within %s and %s", value, min, max);
	}
	*ret_ms = ms;
	return 0;
}

int config_take_value(struct config *c, const struct option_row *row, const char *value,
	struct leased_error *err)
{
	static const char *const levels[] = { "error", "warn", "info", "debug", NULL };
	static const char *const formats[] = { "logfmt", "json", NULL };
	static const char *const bools[] = { "no", "yes", NULL };
	char *field = (char *)c + row->field;
	int choice = 0, rc = 0;

	switch (row->type) {
	case TYPE_CONNINFO: return take_conninfo((char **)(void *)field, value, err);
	case TYPE_TEXT: return config_take_text((char **)(void *)field, value, err);
	case TYPE_LISTEN: return take_listen(c, value, err);
	case TYPE_OCTAL: return take_number((int64_t *)(void *)field, row, value, 8, err);
	case TYPE_COUNT: return take_number((int64_t *)(void *)field, row, value, 10, err);
	case TYPE_MS: return take_duration((int64_t *)(void *)field, row, value, err);
	case TYPE_LEVEL:
		rc = take_choice(&choice, value, levels, "error, warn, info, debug", err);
		if (rc == 0)
			c->log_level = (enum log_level)choice;
		return rc;
	case TYPE_FORMAT:
		rc = take_choice(&choice, value, formats, "logfmt, json", err);
		if (rc == 0)
			c->log_json = choice == 1;
		return rc;
	case TYPE_BOOL:
		rc = take_choice(&choice, value, bools, "yes, no", err);
		if (rc == 0)
			*(bool *)field = choice == 1;
		return rc;
	}
	return rc;
}

/* The nearest key, for a typing error: the fewest single changes. */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[64], last, old;
	size_t n = strlen(b);

	if (n >= 64)
		return 64;
	for (unsigned j = 0; j <= n; j++)
		row[j] = j;
	for (unsigned i = 1; a[i - 1]; i++) {
		last = row[0];
		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			unsigned change = last + (a[i - 1] != b[j - 1]);

			old = row[j];
			row[j] = row[j] + 1 < row[j - 1] + 1 ? row[j] + 1 : row[j - 1] + 1;
			if (change < row[j])
				row[j] = change;
			last = old;
		}
	}
	return row[n];
}

const char *config_nearest_key(const char *key)
{
	const char *best = rows[0].key;

	for (size_t i = 1; i < N_ROWS; i++)
		if (distance(key, rows[i].key) < distance(key, best))
			best = rows[i].key;
	return best;
}

/* A secret may only stand in a file that nobody else can read. */
static int require_private(const struct config *c, FILE *in, struct leased_error *err)
{
	struct stat st;

	if (!config_holds_secret(c->database) && !config_holds_secret(c->notify_database))
		return 0;
	if (fstat(fileno(in), &st) < 0)
		return fail(err, LEASED_ECONFIG, "fstat: %s", strerror(errno));
	if (st.st_mode & 077)
		return fail(err, LEASED_ECONFIG,
			"a conninfo holds a password and others may read this file: chmod 600 it, or use .pgpass or a service file");
	return 0;
}

static int load_file(struct config *c, const char *path, struct leased_error *err)
{
	struct leased_error why;
	FILE *in = fopen(path, "re");
	int rc;

	if (!in)
		return fail(err, LEASED_ECONFIG, "open %s: %s", path, strerror(errno));
	rc = config_parse_stream(c, in, &why);
	if (rc == 0)
		rc = require_private(c, in, &why);
	fclose(in);
	return rc < 0 ? fail(err, rc, "%s: %s", path, why.text) : 0;
}

static int take_defaults(struct config *c, struct leased_error *err)
{
	for (size_t i = 0; i < N_ROWS; i++) {
		int rc = rows[i].type == TYPE_LISTEN ? 0 : config_take_value(c, &rows[i], rows[i].standard, err);

		if (rc < 0)
			return rc;
	}
	return 0;
}

static int check_together(struct config *c, struct leased_error *err)
{
	if (c->ttl_min_ms > c->ttl_max_ms)
		return fail(err, LEASED_ECONFIG, "ttl_min is above ttl_max");
	if (c->dev && *c->database)
		return fail(err, LEASED_EUSAGE,
			"--dev brings a database of its own: leave --database out");
	if (c->data_dir && !c->dev)
		return fail(err, LEASED_EUSAGE, "--data goes with --dev");
	if (c->n_listen == 0 && !c->dev)
		return take_listen(c, DEFAULT_LISTEN, err);
	return 0;
}

static bool needs_no_options(const struct config *c)
{
	return c->command == CONFIG_HELP || c->command == CONFIG_VERSION;
}

static int load_options(struct config *c, int argc, char *const argv[], struct leased_error *err)
{
	struct stat st;
	int rc = 0;

	if (!c->file && !c->dev && stat(DEFAULT_FILE, &st) == 0)
		rc = config_take_text(&c->file, DEFAULT_FILE, err);
	if (rc == 0 && c->file)
		rc = load_file(c, c->file, err);
	if (rc == 0)
		rc = config_take_flags(c, argc, argv, true, err);
	if (rc == 0)
		rc = check_together(c, err);
	return rc;
}

int config_load(struct config *ret_config, int argc, char *const argv[], struct leased_error *err)
{
	struct config c = { .command = CONFIG_RUN };
	int rc;

	rc = take_defaults(&c, err);
	if (rc == 0)
		rc = config_take_flags(&c, argc, argv, false, err);
	if (rc == 0 && !needs_no_options(&c))
		rc = load_options(&c, argc, argv, err);
	if (rc == 0)
		*ret_config = c;
	else
		config_fini(&c);
	return rc;
}

static bool is_same_listen(const struct config *a, const struct config *b)
{
	char one[ADDRESS_TEXT_SIZE], other[ADDRESS_TEXT_SIZE];

	for (size_t i = 0; i < a->n_listen && a->n_listen == b->n_listen; i++) {
		address_format(one, &a->listen[i]);
		address_format(other, &b->listen[i]);
		if (strcmp(one, other) != 0)
			return false;
	}
	return a->n_listen == b->n_listen;
}

/* Sets the row's value in running back to what it was. True: they had differed. */
static bool keep(const struct option_row *row, struct config *running, const struct config *was)
{
	void *value = (char *)running + row->field;
	const void *old = (const char *)was + row->field;
	char *text;
	bool same;

	switch (row->type) {
	case TYPE_CONNINFO:
	case TYPE_TEXT:
		text = *(char **)value; /* fresh has it too */
		memcpy(value, old, sizeof text);
		return strcmp(text, *(char **)value) != 0;
	case TYPE_LISTEN:
		same = is_same_listen(running, was);
		memcpy(running->listen, was->listen, sizeof running->listen);
		running->n_listen = was->n_listen;
		return !same;
	default:
		same = memcmp(value, old, sizeof(int64_t)) == 0;
		memcpy(value, old, sizeof(int64_t));
		return !same;
	}
}

static bool is_used_at_start(const char *key)
{
	static const char *const keys[] = { "database", "notify_database", "user", "listen", "socket_mode", "writers",
		"connect_timeout" };

	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
		if (strcmp(keys[i], key) == 0)
			return true;
	return false;
}

void config_take_over(struct config *running, struct config *fresh, char ret_kept[static CONFIG_KEPT_SIZE])
{
	const struct config was = *running;

	*running = *fresh;
	running->data_dir = was.data_dir;
	running->file = was.file;
	*ret_kept = '\0';
	for (size_t i = 0; i < N_ROWS; i++) {
		if (!is_used_at_start(rows[i].key) || !keep(&rows[i], running, &was))
			continue;
		if (*ret_kept)
			strcat(ret_kept, ", ");
		strcat(ret_kept, rows[i].key);
	}
	config_fini(fresh);
}

void config_fini(struct config *config)
{
	free(config->database);
	free(config->notify_database);
	free(config->user);
	free(config->data_dir);
	free(config->file);
	config->user = config->database = config->notify_database = config->data_dir = config->file = NULL;
}

void config_help(FILE *out)
{
	fputs("Usage: leased [OPTION]...\n"
	      "       leased --dev [--data DIR]\n"
	      "       leased schema print|apply|status|roles [OPTION]...\n"
	      "Gives out named leases kept in PostgreSQL.\n\n"
	      "      --config FILE              options, one `key = value` a line (default: " DEFAULT_FILE ")\n"
	      "      --check-config             check the configuration and leave\n"
	      "      --dev                      a private PostgreSQL, gone when the daemon stops\n"
	      "      --data DIR                 with --dev: keep it in DIR\n"
	      "      --help, --version\n\n"
	      "Options, as flags or, with underscores, in the file:\n",
		out);
	for (size_t i = 0; i < N_ROWS; i++) {
		char flag[64];

		snprintf(flag, sizeof flag, "%s", rows[i].key);
		for (char *f = flag; *f; f++)
			*f = *f == '_' ? '-' : *f;
		fprintf(out, "      --%-22s   %s%s%s%s\n", flag, rows[i].help,
			*rows[i].standard ? " (default: " : "", rows[i].standard,
			*rows[i].standard ? ")" : "");
	}
}

void config_print_default(FILE *out)
{
	fputs("# leased.conf: every option at its default. Flags go above this file; SIGHUP reads it again.\n",
		out);
	for (size_t i = 0; i < N_ROWS; i++)
		fprintf(out, "\n# %s\n#%s = %s\n", rows[i].help, rows[i].key, rows[i].standard);
}
