/*
 * The flags of leased: --opt=value and --opt value alike, -- ends them. What is an option of the table
 * is taken as the file's value would be.
 */
#include <stdio.h>
#include <string.h>

#include "config_table.h"
#include "status.h"

struct flag_reader {
	int argc, next;
	char *const *argv;
	bool only_words; /* after -- */
};

/* A flag's value: behind '=', or the next argument. */
static int flag_value(struct flag_reader *f, const char *name, const char *attached,
	const char **ret_value, struct leased_error *err)
{
	if (attached)
		*ret_value = attached;
	else if (f->next < f->argc)
		*ret_value = f->argv[f->next++];
	else
		return fail(err, LEASED_EUSAGE, "--%s needs a value", name);
	return 0;
}

/* argv can be read by everybody on the host. */
static int refuse_password(const char *name, const char *conninfo, struct leased_error *err)
{
	if (!config_holds_secret(conninfo))
		return 0;
	return fail(err, LEASED_EUSAGE,
		"--%s: a password on the command line can be seen by everybody: put it into .pgpass, a service file or a private leased.conf",
		name);
}

static int take_flag(struct config *c, const char *name, struct flag_reader *f, const char *attached,
	bool *cleared_listen, struct leased_error *err)
{
	const struct option_row *row;
	struct leased_error why;
	const char *value = NULL;
	char key[64];
	int rc;

	snprintf(key, sizeof key, "%s", name);
	for (char *k = key; *k; k++)
		*k = *k == '-' ? '_' : *k;
	row = config_find_row(key);
	if (!row || strchr(name, '_'))
		return fail(err, LEASED_EUSAGE, "unknown option --%s: see leased --help", name);
	rc = flag_value(f, name, attached, &value, err);
	if (rc == 0 && row->type == TYPE_CONNINFO)
		rc = refuse_password(name, value, err);
	if (rc < 0)
		return rc;
	if (row->type == TYPE_LISTEN && !*cleared_listen) {
		c->n_listen = 0; /* flags replace what the file says */
		*cleared_listen = true;
	}
	if (config_take_value(c, row, value, &why) < 0)
		return fail(err, LEASED_EUSAGE, "--%s: %s", name, why.text);
	return 0;
}

static int take_word(struct config *c, const char *word, unsigned *n_words, struct leased_error *err)
{
	static const struct {
		const char *word;
		enum config_command command;
	} verbs[] = { { "print", CONFIG_SCHEMA_PRINT }, { "apply", CONFIG_SCHEMA_APPLY },
		{ "status", CONFIG_SCHEMA_STATUS }, { "roles", CONFIG_SCHEMA_ROLES } };

	if (++*n_words == 1 && strcmp(word, "schema") == 0)
		return 0;
	for (size_t i = 0; *n_words == 2 && i < sizeof verbs / sizeof verbs[0]; i++) {
		if (strcmp(verbs[i].word, word) == 0) {
			c->command = verbs[i].command;
			return 0;
		}
	}
	if (config_holds_secret(word)) /* it is not repeated */
		return refuse_password("database", word, err);
	return fail(err, LEASED_EUSAGE, "unexpected \"%s\": see leased --help", word);
}

/* Flags that are not options of the file. true: it was one. */
static bool take_switch(struct config *c, const char *name, const char *attached,
	struct flag_reader *f, int *ret_rc, struct leased_error *err)
{
	const char *value = NULL;
	char **text = strcmp(name, "config") == 0 ? &c->file : &c->data_dir;

	*ret_rc = 0;
	if (strcmp(name, "config") == 0 || strcmp(name, "data") == 0) {
		*ret_rc = flag_value(f, name, attached, &value, err);
		if (*ret_rc == 0)
			*ret_rc = config_take_text(text, value, err);
		return true;
	}
	if (attached)
		return false;
	if (strcmp(name, "dev") == 0)
		c->dev = true;
	else if (strcmp(name, "check-config") == 0)
		c->command = CONFIG_CHECK;
	else if (strcmp(name, "help") == 0)
		c->command = CONFIG_HELP;
	else if (strcmp(name, "version") == 0)
		c->command = CONFIG_VERSION;
	else
		return false;
	return true;
}

int config_take_flags(struct config *c, int argc, char *const argv[], bool options,
	struct leased_error *err)
{
	struct flag_reader f = { .argc = argc, .next = 1, .argv = argv };
	bool cleared_listen = false;
	unsigned n_words = 0;
	int rc = 0;

	while (f.next < argc && rc == 0) {
		const char *arg = argv[f.next++], *equals;
		char name[64];

		if (!f.only_words && strcmp(arg, "--") == 0) {
			f.only_words = true;
			continue;
		}
		if (f.only_words || strncmp(arg, "--", 2) != 0) {
			rc = take_word(c, arg, &n_words, err);
			continue;
		}
		equals = strchrnul(arg + 2, '=');
		snprintf(name, sizeof name, "%.*s", (int)(equals - arg - 2), arg + 2);
		equals = *equals ? equals + 1 : NULL;
		if (take_switch(c, name, equals, &f, &rc, err))
			continue;
		if (options)
			rc = take_flag(c, name, &f, equals, &cleared_listen, err);
		else if (!equals)
			f.next++; /* its value */
	}
	if (rc == 0 && n_words == 1)
		rc = fail(err, LEASED_EUSAGE, "schema: print, apply, status or roles?");
	return rc;
}
