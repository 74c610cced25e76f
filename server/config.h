/*
 * config.h - every option once: key, type, field, default, bounds, help. Flags, --help, the check of
 * leased.conf and the default file come from one table in config.c. Blocking; before the loop, or on
 * reload.
 */
#ifndef CONFIG_H
#define CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "address.h"
#include "leased_status.h"
#include "log.h"

#define CONFIG_LISTEN_MAX 8
#define CONFIG_KEPT_SIZE  128

/* What main.c shall do. */
enum config_command {
	CONFIG_RUN,
	CONFIG_CHECK,         /* --check-config */
	CONFIG_SCHEMA_PRINT,  /* leased schema print|apply|status|roles */
	CONFIG_SCHEMA_APPLY,
	CONFIG_SCHEMA_STATUS,
	CONFIG_SCHEMA_ROLES,
	CONFIG_HELP,
	CONFIG_VERSION,
};

enum config_audit { AUDIT_OFF, AUDIT_DENIED, AUDIT_ALL };

struct config {
	enum config_command command;
	bool dev;               /* --dev */
	char *data_dir;         /* --data, NULL: temporary */
	char *file;             /* --config, NULL: none was given or found */

	char *user;             /* whom to become when root starts the daemon, "": nobody was named */
	char *database;         /* libpq conninfo or URI; "" leaves all to libpq's environment */
	bool allow_superuser;   /* the daemon's role may be one */
	char *notify_database;  /* the same for LISTEN, "": database */
	struct address listen[CONFIG_LISTEN_MAX];
	size_t n_listen;
	char *key;              /* file of the key for TCP, "": none */
	char *key_next;         /* file of a second one, good as well; "": none */
	int64_t socket_mode;    /* of Unix sockets, octal in the file */
	enum log_level log_level;
	bool log_json;
	char *authorized_clients; /* see access.h; "": none */
	enum config_audit audit;
	bool schema_apply;      /* bring the schema up to date at start */

	int64_t ttl_min_ms, ttl_max_ms;
	int64_t wait_max_ms;          /* longest wait of an acquire */
	int64_t slot_keep_ms;         /* a completed slot is refused for so long */
	int64_t poll_interval_ms;     /* slow poll of waiters, for releases elsewhere */
	int64_t handshake_timeout_ms; /* from accept to a whole hello */
	int64_t idle_timeout_ms;      /* a client that says nothing for so long is closed */
	int64_t request_timeout_ms;   /* a request that is not answered by then is unavailable */
	int64_t max_clients;
	int64_t max_handshakes;       /* sealed connections of which it is not known who is there */
	int64_t max_handshakes_per_address;
	int64_t max_handshakes_per_second; /* answered, but not gone on with by a client that we know */
	int64_t max_queued;           /* operations waiting for the database */
	int64_t max_waiters;
	int64_t max_watches;
	int64_t max_watched;          /* held leases in all watches together */
	int64_t writers;              /* connections to the database */
	int64_t batch_max;            /* rows of one kind in one batch */
	int64_t connect_timeout_ms;   /* for each database host */
	int64_t statement_timeout_ms; /* for each statement of a batch */
	int64_t lock_timeout_ms;
	int64_t drain_timeout_ms;     /* after SIGTERM */
	int64_t history_keep_ms;      /* of grants that have ended; 0: none is written */
	int64_t idle_keep_ms;         /* of leases that nobody has taken again */
};

/*
 * Fills a fresh config from defaults, then the file, then the flags. The file is --config FILE, or
 * /etc/leased/leased.conf if it exists. Unknown and repeated keys, values out of bounds and lines
 * over 195 bytes are errors that name file and line and suggest the nearest key. A password in
 * argv is refused, and so is one in a file that others may read. --help and --version look at no
 * file and no options. argv[0] is skipped.
 * LEASED_EUSAGE for flags, LEASED_ECONFIG for the file. On failure ret_config is untouched.
 * Bounds that depend on each other (ttl_min <= ttl_max) are checked; at least one listen address
 * unless dev; TCP beyond loopback literals needs key.
 */
int config_load(struct config *ret_config, int argc, char *const argv[], struct leased_error *err);

/*
 * Takes over what can change while running from fresh, whose memory goes. What differs and is used once, at
 * the start, stays as it is; ret_kept names it: "listen, writers", "" for nothing.
 */
void config_take_over(struct config *running, struct config *fresh, char ret_kept[static CONFIG_KEPT_SIZE]);

/* Takes options from a stream in the syntax of leased.conf; the error names the line. */
int config_parse_stream(struct config *config, FILE *in, struct leased_error *err);

/* Frees what it owns; accepts a zeroed struct. */
void config_fini(struct config *config);

/* --help, from the table. */
void config_help(FILE *out);

/* leased.conf with every option, commented, at its default, from the table. */
void config_print_default(FILE *out);

#endif
