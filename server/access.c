/* Rules are asked for each message and each row that is told, so a look allocates nothing. */
#include "access.h"

#include <pwd.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "status.h"

/* Where a key stands; the array is sorted by hash. */
struct key_place {
	uint64_t hash;
	const uint8_t *key;
	const struct access_client *client;
};

static const struct verb_row {
	const char *name;
	unsigned verbs;
} verb_rows[] = {
	{ "acquire", ACCESS_ACQUIRE | ACCESS_RENEW },
	{ "renew", ACCESS_RENEW },
	{ "release", ACCESS_RELEASE },
	{ "get", ACCESS_GET },
	{ "list", ACCESS_LIST },
	{ "watch", ACCESS_WATCH },
	{ "history", ACCESS_HISTORY },
	{ "report", ACCESS_REPORT },
	{ "steal", ACCESS_STEAL },
	{ "*", ACCESS_ALL },
};

const char *access_verb_name(enum access_verb verb)
{
	for (size_t i = 0; i < ACCESS_VERBS; i++)
		if (1u << i == (unsigned)verb)
			return verb_rows[i].name;
	return "use";
}

static unsigned find_verb(struct text word)
{
	for (size_t i = 0; i < sizeof verb_rows / sizeof verb_rows[0]; i++)
		if (strlen(verb_rows[i].name) == word.len && memcmp(verb_rows[i].name, word.data, word.len) == 0)
			return verb_rows[i].verbs;
	return 0;
}

unsigned access_verbs_parse(struct text typed, struct leased_error *err)
{
	const char *at = typed.data, *end = typed.data + typed.len;
	unsigned verbs = 0;

	for (;;) {
		const char *comma = memchr(at, ',', (size_t)(end - at));
		struct text word = { at, (size_t)((comma ? comma : end) - at) };
		unsigned found = find_verb(word);

		if (!found) {
			fail(err, LEASED_ECONFIG,
				"\"%.*s\" is none of acquire, renew, release, get, list, watch, history, report, steal, *",
				(int)(word.len < 40 ? word.len : 40), word.data);
			return 0;
		}
		verbs |= found;
		if (!comma)
			return verbs;
		at = comma + 1;
	}
}

static void free_client(struct access_client *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n_rules; i++)
		free(c->rules[i].typed);
	free(c->rules);
	free(c->who);
	free(c);
}

void access_free(struct access *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->n_clients; i++)
		free_client(a->clients[i]);
	free(a->clients);
	free(a->keys);
	free(a);
}

/* The default: root and who runs the daemon, then everybody else. */
int access_new_default(struct access **ret_access, struct leased_error *err)
{
	char text[128];
	struct access *a = NULL;
	FILE *in;
	int rc;

	snprintf(text, sizeof text, "owner uid=%u%s *,steal **\n", (unsigned)geteuid(), geteuid() == 0 ? "" : " uid=0");
	in = fmemopen(text, strlen(text), "r");
	if (!in)
		return fail(err, LEASED_ENOMEM, "out of memory");
	rc = access_parse(&a, in, err);
	fclose(in);
	if (rc == 0)
		rc = access_seal(a, err);
	if (rc < 0) {
		access_free(a);
		return rc;
	}
	a->is_file = false;
	*ret_access = a;
	return 0;
}

/* Users become numbers, once: a directory that is slow must not be asked at each connection. */
static int resolve(struct access_client *c, struct access_who *who, struct leased_error *err)
{
	static char buffer[65536];
	struct passwd entry, *found = NULL;
	int error;

	if (who->kind != WHO_USER)
		return 0;
	error = getpwnam_r(who->user, &entry, buffer, sizeof buffer, &found);
	if (!found)
		return fail(err, LEASED_ECONFIG, "line %d: user %s: %s", c->line, who->user,
			error ? strerror(error) : "there is no such user");
	who->kind = WHO_UID;
	who->id = found->pw_uid;
	return 0;
}

/* One entry of a list in which none may stand twice. */
struct entry {
	const struct access_client *client;
	const struct access_who *who; /* NULL: the name */
};

static int compare(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;
	int order;

	if (!a->who || !b->who) {
		order = !b->who - !a->who;
		return order ? order : strcmp(a->client->name, b->client->name);
	}
	order = (int)a->who->kind - (int)b->who->kind;
	if (order == 0 && a->who->kind == WHO_KEY)
		order = memcmp(a->who->key, b->who->key, sizeof a->who->key);
	else if (order == 0)
		order = (a->who->id > b->who->id) - (a->who->id < b->who->id);
	return order;
}

static int refuse_twice(const struct entry *a, const struct entry *b, struct leased_error *err)
{
	static const char *const kinds[] = { [WHO_KEY] = "this key", [WHO_UID] = "this user", [WHO_GID] = "this group" };
	int first = a->client->line < b->client->line ? a->client->line : b->client->line;
	int second = a->client->line < b->client->line ? b->client->line : a->client->line;

	return fail(err, LEASED_ECONFIG, "line %d: %s stands on line %d already", second,
		a->who ? kinds[a->who->kind] : "this name", first);
}

static int check_once(const struct access *a, size_t n_who, struct leased_error *err)
{
	struct entry *entries = calloc(a->n_clients + n_who + 1, sizeof *entries);
	size_t n = 0;
	int rc = 0;

	if (!entries)
		return fail(err, LEASED_ENOMEM, "out of memory");
	for (size_t i = 0; i < a->n_clients; i++) {
		entries[n++] = (struct entry){ a->clients[i], NULL };
		for (size_t k = 0; k < a->clients[i]->n_who; k++)
			entries[n++] = (struct entry){ a->clients[i], &a->clients[i]->who[k] };
	}
	qsort(entries, n, sizeof *entries, compare);
	for (size_t i = 1; i < n && rc == 0; i++)
		if (compare(&entries[i - 1], &entries[i]) == 0)
			rc = refuse_twice(&entries[i - 1], &entries[i], err);
	free(entries);
	return rc;
}

static uint64_t hash_of(const struct access *a, const uint8_t *key)
{
	_Static_assert(sizeof a->hash_key == crypto_shorthash_KEYBYTES, "a key of crypto_shorthash");
	uint64_t hash;

	crypto_shorthash((unsigned char *)&hash, key, NOISE_KEY_LEN, a->hash_key);
	return hash;
}

static int compare_hash(const void *left, const void *right)
{
	const struct key_place *a = left, *b = right;

	return (a->hash > b->hash) - (a->hash < b->hash);
}

static int index_keys(struct access *a, size_t n_who, struct leased_error *err)
{
	a->keys = calloc(n_who + 1, sizeof *a->keys);
	if (!a->keys)
		return fail(err, LEASED_ENOMEM, "out of memory");
	randombytes_buf(a->hash_key, sizeof a->hash_key);
	for (size_t i = 0; i < a->n_clients; i++) {
		const struct access_client *c = a->clients[i];

		for (size_t k = 0; k < c->n_who; k++)
			if (c->who[k].kind == WHO_KEY)
				a->keys[a->n_keys++] =
					(struct key_place){ hash_of(a, c->who[k].key), c->who[k].key, c };
	}
	qsort(a->keys, a->n_keys, sizeof *a->keys, compare_hash);
	return 0;
}

int access_seal(struct access *a, struct leased_error *err)
{
	size_t n_who = 0;
	int rc = 0;

	for (size_t i = 0; i < a->n_clients; i++) {
		for (size_t k = 0; k < a->clients[i]->n_who && rc == 0; k++)
			rc = resolve(a->clients[i], &a->clients[i]->who[k], err);
		n_who += a->clients[i]->n_who;
	}
	if (rc == 0)
		rc = check_once(a, n_who, err);
	return rc == 0 ? index_keys(a, n_who, err) : rc;
}

/* The same steps and one comparison, whether the key is there or not: time must not tell. */
static const struct access_client *find_key(const struct access *a, const uint8_t *key)
{
	uint64_t hash = hash_of(a, key);
	const struct key_place *place = a->keys;

	if (a->n_keys == 0)
		return NULL;
	for (size_t n = a->n_keys; n > 1; n -= n / 2)
		place += place[n / 2].hash <= hash ? n / 2 : 0;
	/* Two keys of one hash, which nobody can choose to have: the first one would not be found. */
	return sodium_memcmp(place->key, key, NOISE_KEY_LEN) == 0 ? place->client : NULL;
}

static bool in_group(const struct access_peer *peer, uint32_t gid)
{
	for (size_t i = 0; i < peer->n_groups; i++)
		if (peer->groups[i] == gid)
			return true;
	return false;
}

static bool fits(const struct access_client *c, const struct access_peer *peer)
{
	for (size_t i = 0; i < c->n_who; i++)
		if ((c->who[i].kind == WHO_UID && c->who[i].id == peer->uid) ||
			(c->who[i].kind == WHO_GID && in_group(peer, c->who[i].id)))
			return true;
	return false;
}

/* Without a file, for all but the owner. */
static const struct access_client *everybody(void)
{
	static char typed[] = "**";
	static struct access_rule rule = { .verbs = ACCESS_ALL, .typed = typed };
	static const struct access_client everyone = { .name = "everybody", .until_us = INT64_MAX,
		.rules = &rule, .n_rules = 1 };

	if (rule.pattern.len == 0)
		pattern_parse(&rule.pattern, (struct text){ typed, 2 }, NULL);
	return &everyone;
}

const struct access_client *access_find(const struct access *a, const struct access_peer *peer)
{
	if (peer->key)
		return find_key(a, peer->key);
	for (size_t i = 0; peer->is_unix && i < a->n_clients; i++)
		if (fits(a->clients[i], peer))
			return a->clients[i];
	return a->is_file ? NULL : everybody();
}

bool access_may(const struct access_client *c, unsigned verbs, struct text name)
{
	for (size_t i = 0; c && i < c->n_rules; i++)
		if ((c->rules[i].verbs & verbs) && pattern_matches(&c->rules[i].pattern, name))
			return true;
	return false;
}

bool access_may_begin(const struct access_client *c, unsigned verbs, struct text prefix)
{
	for (size_t i = 0; c && i < c->n_rules; i++)
		if ((c->rules[i].verbs & verbs) && pattern_may_begin(&c->rules[i].pattern, prefix))
			return true;
	return false;
}

bool access_may_all(const struct access_client *c, unsigned verbs)
{
	for (size_t i = 0; c && i < c->n_rules; i++)
		if ((c->rules[i].verbs & verbs) && strcmp(c->rules[i].typed, "**") == 0)
			return true;
	return false;
}

bool access_same_rules(const struct access_client *a, const struct access_client *b)
{
	if (!a || !b || a->n_rules != b->n_rules)
		return a == b;
	for (size_t i = 0; i < a->n_rules; i++)
		if (a->rules[i].verbs != b->rules[i].verbs || strcmp(a->rules[i].typed, b->rules[i].typed) != 0)
			return false;
	return true;
}

bool access_next(const struct access_client *c, unsigned verbs, struct text after, struct text *ret_after)
{
	bool found = false;

	for (size_t i = 0; c && i < c->n_rules; i++) {
		const struct pattern *p = &c->rules[i].pattern;
		struct text begin = { p->text, p->literal };

		if (!(c->rules[i].verbs & verbs))
			continue;
		if (text_begins(after, begin))
			begin = after; /* among those of this rule */
		else if (text_compare(begin, after) < 0)
			continue; /* they are all behind us */
		if (!found || text_compare(begin, *ret_after) < 0)
			*ret_after = begin;
		found = true;
	}
	return found;
}
