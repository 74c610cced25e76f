/*
 * Taking values into a config, from the defaults, the file and the flags, and judging them together.
 */
#include "config_table.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "duration.h"
#include "status.h"

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

static bool is_literal(const struct address *address)
{
	struct in6_addr any;

	return inet_pton(AF_INET, address->host, &any) == 1 || inet_pton(AF_INET6, address->host, &any) == 1;
}

static int take_listen(struct config *c, const char *value, struct leased_error *err)
{
	struct address address;
	int rc = address_parse(&address, value, err);

	if (rc < 0)
		return rc;
	if (address.kind == ADDRESS_TCP && !is_literal(&address))
		return fail(err, LEASED_ECONFIG, "%s: host names are not looked up: use an IP address", value);
	if (address.has_key)
		return fail(err, LEASED_ECONFIG,
			"leased: addresses are for clients: listen on tcp:host:port, and name a file in key");
	if (c->n_listen == CONFIG_LISTEN_MAX)
		return fail(err, LEASED_ECONFIG, "more than %d addresses", CONFIG_LISTEN_MAX);
	c->listen[c->n_listen++] = address;
	return 0;
}

/* It is read again on reload, wherever the daemon works by then. What is no path may be a secret. */
static int take_path(char **field, const char *value, struct leased_error *err)
{
	if (*value && *value != '/')
		return fail(err, LEASED_ECONFIG, "a path that begins with / is wanted");
	return config_take_text(field, value, err);
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
	static const char *const audits[] = { "off", "denied", "all", NULL };
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
	case TYPE_PATH: return take_path((char **)(void *)field, value, err);
	case TYPE_AUDIT:
		rc = take_choice(&choice, value, audits, "off, denied, all", err);
		if (rc == 0)
			c->audit = (enum config_audit)choice;
		return rc;
	case TYPE_LEVEL:
		rc = take_choice(&choice, value, levels, "error, warn, info, debug", err);
		if (rc == 0)
			c->log_level = (enum log_level)(LOG_ERROR + choice);
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
	for (size_t i = 0; i < config_n_rows; i++) {
		int rc = config_rows[i].type == TYPE_LISTEN ? 0 : config_take_value(c, &config_rows[i], config_rows[i].standard, err);

		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Loopback alone may do without: whoever is there could read the daemon's files as well. */
static int check_keys(const struct config *c, struct leased_error *err)
{
	if (*c->key_next && !*c->key)
		return fail(err, LEASED_ECONFIG, "key_next goes with key");
	if (*c->key && !*c->authorized_clients)
		return fail(err, LEASED_ECONFIG,
			"key: anybody can have a key: name the file that says who may do what in authorized_clients");
	for (size_t i = 0; i < c->n_listen && !*c->key; i++)
		if (c->listen[i].kind == ADDRESS_TCP && !address_is_loopback_literal(&c->listen[i]))
			return fail(err, LEASED_ECONFIG,
				"listen on tcp:%s: TCP beyond loopback needs key (leasectl keygen --server), or use 127.0.0.1, [::1] or a Unix socket",
				c->listen[i].host);
	return 0;
}

static int check_together(struct config *c, struct leased_error *err)
{
	int rc = check_keys(c, err);

	if (rc < 0)
		return rc;
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
	fresh->key = was.key; /* what it had goes with it */
	fresh->key_next = was.key_next;
	fresh->authorized_clients = was.authorized_clients;
	*ret_kept = '\0';
	for (size_t i = 0; i < config_n_rows; i++) {
		if (!is_used_at_start(config_rows[i].key) || !keep(&config_rows[i], running, &was))
			continue;
		if (*ret_kept)
			strcat(ret_kept, ", ");
		strcat(ret_kept, config_rows[i].key);
	}
	config_fini(fresh);
}

void config_fini(struct config *config)
{
	free(config->database);
	free(config->notify_database);
	free(config->authorized_clients);
	free(config->data_dir);
	free(config->file);
	free(config->key);
	free(config->key_next);
	free(config->user);
	config->database = config->notify_database = config->authorized_clients = NULL;
	config->data_dir = config->file = config->key = config->key_next = config->user = NULL;
}
