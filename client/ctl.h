/*
 * ctl.h - what the commands of leasectl share: global options, errors, exit codes, output.
 * Each command is one function in a file of its own: it returns the exit code.
 */
#ifndef CTL_H
#define CTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "holder.h"
#include "leased.h"
#include "leased.pb-c.h"
#include "verbs.h"

struct ctl {
	const char *servers;  /* -s; NULL leaves it to libleased */
	const char *key_file; /* --key; likewise */
	bool json;            /* -o json */
};

/* argv[0] is the command's name. */
int cmd_run(const struct ctl *ctl, int argc, char *argv[]);
int cmd_acquire(const struct ctl *ctl, int argc, char *argv[]);
int cmd_renew(const struct ctl *ctl, int argc, char *argv[]);
int cmd_release(const struct ctl *ctl, int argc, char *argv[]);
int cmd_steal(const struct ctl *ctl, int argc, char *argv[]);
int cmd_get(const struct ctl *ctl, int argc, char *argv[]);
int cmd_list(const struct ctl *ctl, int argc, char *argv[]);
int cmd_history(const struct ctl *ctl, int argc, char *argv[]);
int cmd_watch(const struct ctl *ctl, int argc, char *argv[]);
int cmd_elect(const struct ctl *ctl, int argc, char *argv[]);
int cmd_whoami(const struct ctl *ctl, int argc, char *argv[]);
int cmd_doctor(const struct ctl *ctl, int argc, char *argv[]);
int cmd_keygen(const struct ctl *ctl, int argc, char *argv[]);

/* `leasectl: what: why` on stderr; returns the exit code of status. */
int ctl_fail(const char *what, int status, const char *why);

/* The same for an act on one lease: `leasectl: verb "name": why`. */
int ctl_fail_on(const char *verb, const char *name, const struct leased_error *why);

/* A usage error: says why, and where help is. 64. */
int ctl_usage(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for what getopt_long answered with '?' or ':'. */
int ctl_bad_option(const char *command, int answer, const char *shorts, char *const argv[]);

/* What a client of this command wants; it points into ctl. */
struct leased_options ctl_client_options(const struct ctl *ctl);

/* Opens a client or says why not. 0 or the exit code. */
int ctl_open(const struct ctl *ctl, struct leased_client **ret_client);

/* The options that act on one lease. Those that a command does not take are usage errors. */
struct lease_options {
	const char *name;      /* or prefix, "" when none is given */
	bool no_headers;
	struct leased_acquire_options acquire; /* its `also` is the one below: not to be copied */
	const char *also[LEASED_NAMES_MAX];    /* --and */
	int count;             /* --count; 0: not given */
	bool shared;
	int64_t grace_ms;      /* -1: not given */
	int conflict_exit;     /* -E; 75 */
	bool has_holder, has_token;
	struct holder holder;
	uint64_t token;
	bool has_exit_status;
	int exit_status;
	const char *reason;    /* of a steal */
	bool observe;          /* an election */
	char **command;        /* behind --, NULL: none */
};

#define TAKES_ACQUIRE 1u /* -n -w -E --slot --every --count --shared --and, and those of TAKES_ELECT */
#define TAKES_GRACE   2u
#define TAKES_COMMAND 4u
#define TAKES_CLAIM   8u /* --holder --token --and */
#define TAKES_RENEW   16u /* -t --value */
#define TAKES_ALWAYS  64u /* --help */
#define TAKES_REASON  128u /* --reason, and perhaps --token */
#define TAKES_PREFIX  256u /* a prefix in place of the name, or nothing */
#define TAKES_NOTHING 512u /* no name */
#define TAKES_STATUS  1024u /* --exit-status */
#define TAKES_ELECT   32u /* -t --min-hold --value */
#define TAKES_OBSERVE 4096u /* --observe */
#define TAKES_HEADERS 2048u /* --no-headers */

/*
 * Reads options and exactly one name, which may stand behind a `--` that ends the options. 0; or the exit
 * code, after having said why or printed the command's help (exit code 0 then means that help was
 * printed: *ret_done is true).
 */
int ctl_read_options(struct lease_options *ret_options, unsigned takes, int argc, char *argv[],
	bool *ret_done);

/* What --holder, --token and --and say; it points into o. */
struct verb_claim ctl_claim(const struct lease_options *o);

/* No lease: says why, unless another holds it and -E makes that a success. The exit code. */
int ctl_refused(const struct lease_options *o, const struct leased_error *why);

/* Writes out what was printed. 0; or the exit code, after having said why it could not be written. */
int ctl_flush(void);

/* The help of one command, or of all when NULL. */
void ctl_help(const char *command);

/* Times and names for people. */
void ctl_format_time(char out[static 32], int64_t unix_us);
void ctl_escape(char *out, size_t size, ProtobufCBinaryData text);
void ctl_escape_text(char *out, size_t size, const char *text);

#endif
