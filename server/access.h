/*
 * access.h - who may do what: the file authorized_clients, one client a line, read into one value that does not
 * change; a reload makes another one. Without such a file everybody who can connect may do everything, but
 * steal only who runs the daemon. Loop thread; reading blocks.
 *
 *   NAME WHO... [until=DATE] [leases=N] [waiters=N] [rate=N] [connections=N]  VERBS PATTERN[; VERBS PATTERN]...
 *
 * WHO is a public key, uid=N, gid=N or user=NAME; of a Unix peer the first line that fits counts.
 */
#ifndef ACCESS_H
#define ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "noise_cipher.h"
#include "pattern.h"

/* Bits of access_rule.verbs. */
enum access_verb {
	ACCESS_ACQUIRE = 1,
	ACCESS_RENEW = 2,   /* goes with ACQUIRE */
	ACCESS_RELEASE = 4,
	ACCESS_GET = 8,     /* who holds it, also where another verb would tell */
	ACCESS_LIST = 16,
	ACCESS_WATCH = 32,
	ACCESS_HISTORY = 64,
	ACCESS_REPORT = 128, /* of the daemon itself (doctor); its pattern does not matter */
	ACCESS_STEAL = 256,
};
#define ACCESS_ALL 255u /* `*`: all but STEAL */
#define ACCESS_ANY 511u

#define ACCESS_CLIENTS_MAX 10000
#define ACCESS_RULES_MAX   256 /* of one client */
#define ACCESS_WHO_MAX     16
#define ACCESS_LINE_MAX    8192
#define ACCESS_NAME_SIZE   65

/* At most so many at once, or a second; 0: no limit. */
struct access_limits {
	int64_t leases, waiters, rate, connections;
};

struct access_rule {
	unsigned verbs;
	struct pattern pattern;
	char *typed; /* the pattern as it stands in the file */
};

enum access_who_kind { WHO_KEY, WHO_UID, WHO_GID, WHO_USER };

struct access_who {
	enum access_who_kind kind;
	uint32_t id;         /* UID, GID */
	char user[64];       /* USER: which becomes UID before anybody is looked up */
	uint8_t key[NOISE_KEY_LEN];
};

struct access_client {
	char name[ACCESS_NAME_SIZE];
	int line;
	int64_t until_us;    /* since 1970; INT64_MAX: for ever */
	struct access_limits limits;
	struct access_who *who;
	size_t n_who;
	struct access_rule *rules;
	size_t n_rules;
};

struct access {
	struct access_client **clients; /* in the order of the file */
	size_t n_clients;
	struct key_place *keys;         /* by hash */
	size_t n_keys;
	uint8_t hash_key[16];           /* random: a look-up tells nobody how near a key was */
	bool is_file;                   /* else the default */
};

/* What is known of a peer for certain. */
struct access_peer {
	const uint8_t *key; /* the authenticated one, NOISE_KEY_LEN bytes; NULL: none */
	bool is_unix;
	uid_t uid;
	const gid_t *groups; /* all of them */
	size_t n_groups;
};

/* The default. LEASED_ENOMEM. */
int access_new_default(struct access **ret_access, struct leased_error *err);

/*
 * Reads a file, which others may not be able to write, and looks up its users. LEASED_ECONFIG with the
 * number of the line; LEASED_ENOMEM. Nobody is in an empty one.
 */
int access_load(struct access **ret_access, const char *path, struct leased_error *err);

/* The lines alone: users are not looked up, and nobody can be found yet. For access_load and tests. */
int access_parse(struct access **ret_access, FILE *in, struct leased_error *err);

/* Makes clients findable: each key, user and group on one line only. LEASED_ECONFIG. */
int access_seal(struct access *a, struct leased_error *err);

/* Accepts NULL. */
void access_free(struct access *a);

/* NULL: nobody we know. Its time may be over (until_us). */
const struct access_client *access_find(const struct access *a, const struct access_peer *peer);

/* Whether one of these verbs is allowed on this name. c may be NULL: nothing is. */
bool access_may(const struct access_client *c, unsigned verbs, struct text name);

/* The same for some name that begins with prefix, as far as that can be said without one. */
bool access_may_begin(const struct access_client *c, unsigned verbs, struct text prefix);

/* Whether both may do the same, by the same rules. NULL is nobody. */
bool access_same_rules(const struct access_client *a, const struct access_client *b);

/*
 * From where on names may come that one of the verbs is allowed on, if those before `after` are done with:
 * after itself, or what a rule behind it begins with. False: there are none.
 */
bool access_next(const struct access_client *c, unsigned verbs, struct text after, struct text *ret_after);

/* Whether one of the verbs is allowed on every name. */
bool access_may_all(const struct access_client *c, unsigned verbs);

/* "acquire", "renew" ...: of one bit. */
const char *access_verb_name(enum access_verb verb);
#define ACCESS_VERBS 9

/* The bits of "acquire,get" or "*". 0 with a sentence: one is unknown. */
unsigned access_verbs_parse(struct text typed, struct leased_error *err);

#endif
