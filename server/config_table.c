/*
 * One table says what there is. Defaults, the file, the flags, --help and the commented default file
 * all walk it; a value is taken by the same function wherever it comes from (config.c).
 */
#include "config_table.h"

#include <stddef.h>
#include <string.h>

#include "duration.h"

const struct option_row config_rows[] = {
#define FIELD(name) offsetof(struct config, name)
	{ "database", TYPE_CONNINFO, FIELD(database), "", 0, 0,
		"libpq conninfo or URI; passwords belong in .pgpass or a service file" },
	{ "notify_database", TYPE_CONNINFO, FIELD(notify_database), "", 0, 0,
		"a direct connection for LISTEN where database goes through a pool" },
	{ "allow_superuser", TYPE_BOOL, FIELD(allow_superuser), "no", 0, 0,
		"work as a database role that is a superuser" },
	{ "user", TYPE_TEXT, FIELD(user), "", 0, 0, "whom the daemon becomes when root starts it" },
	{ "listen", TYPE_LISTEN, 0, DEFAULT_LISTEN, 0, 0,
		"unix:/path, tcp:127.0.0.1:7420 or tcp:[::1]:7420, other addresses with key; repeat it for more" },
	{ "key", TYPE_PATH, FIELD(key), "", 0, 0,
		"file that `leasectl keygen --server` made: all TCP is encrypted, and clients show their keys" },
	{ "key_next", TYPE_PATH, FIELD(key_next), "", 0, 0,
		"file of a second key that is good as well, while clients learn it" },
	{ "socket_mode", TYPE_OCTAL, FIELD(socket_mode), "0660", 0, 0777,
		"who may connect to Unix sockets" },
	{ "authorized_clients", TYPE_PATH, FIELD(authorized_clients), "", 0, 0,
		"who may do what, one client a line; needed with key; else everybody who can connect, but steal only the owner" },
	{ "audit", TYPE_AUDIT, FIELD(audit), "denied", 0, 0,
		"which requests are told in the log as event=audit: off, denied or all" },
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
	{ "max_handshakes", TYPE_COUNT, FIELD(max_handshakes), "2000", 10, 100000,
		"connections with key that have not shown who they are, in all" },
	{ "max_handshakes_per_address", TYPE_COUNT, FIELD(max_handshakes_per_address), "500", 1, 100000,
		"the same for one IPv4 address or IPv6 /64" },
	{ "max_handshakes_per_second", TYPE_COUNT, FIELD(max_handshakes_per_second), "500", 1, 1000000,
		"handshakes computed for those who do not show who they are, in all; 500 cost a tenth of a core" },
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
const size_t config_n_rows = sizeof config_rows / sizeof config_rows[0];

const struct option_row *config_find_row(const char *key)
{
	for (size_t i = 0; i < config_n_rows; i++)
		if (strcmp(config_rows[i].key, key) == 0)
			return &config_rows[i];
	return NULL;
}

size_t config_row_index(const struct option_row *row)
{
	_Static_assert(sizeof config_rows / sizeof config_rows[0] <= CONFIG_ROWS_MAX, "the table has grown: raise CONFIG_ROWS_MAX");
	return (size_t)(row - config_rows);
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
	const char *best = config_rows[0].key;

	for (size_t i = 1; i < config_n_rows; i++)
		if (distance(key, config_rows[i].key) < distance(key, best))
			best = config_rows[i].key;
	return best;
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
	for (size_t i = 0; i < config_n_rows; i++) {
		char flag[64];

		snprintf(flag, sizeof flag, "%s", config_rows[i].key);
		for (char *f = flag; *f; f++)
			*f = *f == '_' ? '-' : *f;
		fprintf(out, "      --%-22s   %s%s%s%s\n", flag, config_rows[i].help,
			*config_rows[i].standard ? " (default: " : "", config_rows[i].standard,
			*config_rows[i].standard ? ")" : "");
	}
}

void config_print_default(FILE *out)
{
	fputs("# leased.conf: every option at its default. Flags go above this file; SIGHUP reads it again.\n",
		out);
	for (size_t i = 0; i < config_n_rows; i++)
		fprintf(out, "\n# %s\n#%s = %s\n", config_rows[i].help, config_rows[i].key, config_rows[i].standard);
}
