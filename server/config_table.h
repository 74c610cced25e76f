/*
 * config_table.h - the one table of options, shared by what reads values (config.c), flags
 * (config_flags.c) and the file (config_file.c).
 */
#ifndef CONFIG_TABLE_H
#define CONFIG_TABLE_H

#include "config.h"

#define CONFIG_ROWS_MAX 64

enum type { TYPE_CONNINFO, TYPE_TEXT, TYPE_LISTEN, TYPE_LEVEL, TYPE_FORMAT, TYPE_AUDIT, TYPE_PATH, TYPE_BOOL, TYPE_OCTAL, TYPE_MS, TYPE_COUNT };

struct option_row {
	const char *key;
	enum type type;
	size_t field;
	const char *standard; /* the default, as it would be typed */
	int64_t min, max;
	const char *help;
};

#define DEFAULT_FILE   "/etc/leased/leased.conf"
#define DEFAULT_LISTEN "unix:/run/leased/leased.sock"

extern const struct option_row config_rows[];
extern const size_t config_n_rows;

/* The row of a key, or NULL. */
const struct option_row *config_find_row(const char *key);

/* Its place in the table, below CONFIG_ROWS_MAX. */
size_t config_row_index(const struct option_row *row);

/* The key that a mistyped one was meant to be. */
const char *config_nearest_key(const char *key);

/* Takes one value, as it was typed. LEASED_ECONFIG or LEASED_EUSAGE with a sentence in err. */
int config_take_value(struct config *c, const struct option_row *row, const char *value,
	struct leased_error *err);

/* Replaces a text that the config owns. */
int config_take_text(char **field, const char *value, struct leased_error *err);

/* Is there a password in it, of whatever kind? A conninfo that libpq cannot read holds none. */
bool config_holds_secret(const char *conninfo);

/*
 * Called twice over argv: without options for what says what to do and which file to read, then with
 * options for what goes above the file.
 */
int config_take_flags(struct config *c, int argc, char *const argv[], bool options,
	struct leased_error *err);

#endif
