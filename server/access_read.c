/*
 * authorized_clients, line by line. Whatever is not understood refuses the whole file: a line that was skipped
 * could be the one that a person relies on. A file that is being written, or that was cut, ends in the middle of a
 * line: so the last line, too, must have an end.
 */
#include "access.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "key.h"
#include "status.h"

#define LIMIT_MAX  1000000
#define KEYS_BEGIN "leased-" /* whatever kind of key it is */

struct reader {
	struct access *access;
	struct access_client *client; /* of the line that is read */
	struct leased_error *err;
	int line;
	char text[ACCESS_LINE_MAX + 1];
	size_t len;
};

/* Reads the next line. 1, 0 at the end, or an error. */
static int next_line(struct reader *r, FILE *in)
{
	int c;

	r->len = 0;
	r->line++;
	while ((c = fgetc(in)) != EOF && c != '\n') {
		if (r->len == ACCESS_LINE_MAX)
			return fail(r->err, LEASED_ECONFIG, "longer than %d bytes", ACCESS_LINE_MAX);
		r->text[r->len++] = (char)c;
	}
	r->text[r->len] = '\0';
	if (ferror(in))
		return fail(r->err, LEASED_ECONFIG, "%s", strerror(errno));
	if (c == EOF && r->len > 0)
		return fail(r->err, LEASED_ECONFIG, "the line has no end: was the file cut, or is it being written?");
	return c != EOF;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static void skip_blanks(struct text *rest)
{
	while (rest->len > 0 && is_blank(*rest->data)) {
		rest->data++;
		rest->len--;
	}
}

/* The next word, up to a blank; with stop also up to that, and a backslash hides either. */
static struct text take_word(struct text *rest, char stop)
{
	struct text word = { rest->data, 0 };

	while (word.len < rest->len && !is_blank(word.data[word.len]) && (!stop || word.data[word.len] != stop))
		word.len += stop && word.data[word.len] == '\\' && word.len + 1 < rest->len ? 2 : 1;
	rest->data += word.len;
	rest->len -= word.len;
	return word;
}

static bool copy_word(char *out, size_t size, struct text word)
{
	if (word.len >= size)
		return false;
	memcpy(out, word.data, word.len);
	out[word.len] = '\0';
	return true;
}

/* Of which a principal is made, and a field of the log: nothing that would be quoted, and no @ of Unix peers. */
static int take_name(struct reader *r, struct text word)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

	if (!copy_word(r->client->name, sizeof r->client->name, word))
		return fail(r->err, LEASED_ECONFIG, "a client's name has at most %d bytes", ACCESS_NAME_SIZE - 1);
	if (strspn(r->client->name, allowed) != word.len)
		return fail(r->err, LEASED_ECONFIG,
			"a client's name is made of letters, digits, dots, dashes and underscores");
	return 0;
}

static int take_number(struct reader *r, const char *key, const char *value, int64_t min, int64_t max,
	int64_t *ret_number)
{
	char *end;
	long long number;

	errno = 0;
	number = strtoll(value, &end, 10);
	if (*value < '0' || *value > '9' || *end || errno || number < min || number > max)
		return fail(r->err, LEASED_ECONFIG, "%s is a number from %lld to %lld", key, (long long)min,
			(long long)max);
	*ret_number = number;
	return 0;
}

static int add_who(struct reader *r, const struct access_who *who)
{
	struct access_client *c = r->client;
	struct access_who *more;

	if (c->n_who == ACCESS_WHO_MAX)
		return fail(r->err, LEASED_ECONFIG, "more than %d keys, users and groups", ACCESS_WHO_MAX);
	more = realloc(c->who, (c->n_who + 1) * sizeof *more);
	if (!more)
		return fail(r->err, LEASED_ENOMEM, "out of memory");
	c->who = more;
	c->who[c->n_who++] = *who;
	return 0;
}

static int take_key(struct reader *r, struct text word)
{
	struct access_who who = { .kind = WHO_KEY };
	char text[2 * KEY_TEXT_SIZE];
	struct leased_error why;

	if (!copy_word(text, sizeof text, word))
		return fail(r->err, LEASED_ECONFIG, "this key is too long: copy it again");
	if (key_parse(who.key, KEY_CLIENT_PUBLIC, text, &why) < 0)
		return fail(r->err, LEASED_ECONFIG, "%s", why.text);
	return add_who(r, &who);
}

static int take_id(struct reader *r, enum access_who_kind kind, const char *key, const char *value)
{
	struct access_who who = { .kind = kind };
	int64_t id;
	int rc = take_number(r, key, value, 0, UINT32_MAX - 1, &id); /* the last one means nobody */

	who.id = (uint32_t)id;
	return rc == 0 ? add_who(r, &who) : rc;
}

static int take_user(struct reader *r, const char *value)
{
	struct access_who who = { .kind = WHO_USER };

	if (!*value || strlen(value) >= sizeof who.user)
		return fail(r->err, LEASED_ECONFIG, "user is the name of an account");
	strcpy(who.user, value);
	return add_who(r, &who);
}

/* 2027-01-31, or with a time 2027-01-31T18:00:00Z: over from then on. */
static int take_until(struct reader *r, const char *value)
{
	struct tm tm = { 0 }, again;
	const char *end = strptime(value, "%Y-%m-%d", &tm);
	time_t at;

	if (end && *end)
		end = strptime(end, "T%H:%M:%SZ", &tm);
	if (!end || *end)
		return fail(r->err, LEASED_ECONFIG, "until is a date, 2027-01-31, or with a time of UTC, 2027-01-31T18:00:00Z");
	again = tm;
	at = timegm(&again);
	if (again.tm_mday != tm.tm_mday || again.tm_min != tm.tm_min || at < 0 || at > INT64_C(253402300799))
		return fail(r->err, LEASED_ECONFIG, "there is no such date");
	r->client->until_us = (int64_t)at * 1000000;
	return 0;
}

static int take_setting(struct reader *r, const char *key, const char *value)
{
	struct access_limits *limits = &r->client->limits;
	const struct {
		const char *key;
		int64_t *field;
	} counts[] = { { "leases", &limits->leases }, { "waiters", &limits->waiters },
		{ "rate", &limits->rate }, { "connections", &limits->connections } };

	for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
		if (strcmp(key, counts[i].key) != 0)
			continue;
		if (*counts[i].field)
			return fail(r->err, LEASED_ECONFIG, "%s is given twice", key);
		return take_number(r, key, value, 1, LIMIT_MAX, counts[i].field);
	}
	if (strcmp(key, "uid") == 0)
		return take_id(r, WHO_UID, key, value);
	if (strcmp(key, "gid") == 0)
		return take_id(r, WHO_GID, key, value);
	if (strcmp(key, "user") == 0)
		return take_user(r, value);
	if (strcmp(key, "until") == 0 && r->client->until_us != INT64_MAX)
		return fail(r->err, LEASED_ECONFIG, "until is given twice");
	if (strcmp(key, "until") == 0)
		return take_until(r, value);
	return fail(r->err, LEASED_ECONFIG, "%s= is none of uid, gid, user, until, leases, waiters, rate, connections", key);
}

/* What stands between the name and the rules. 1: word is one of these; 0: the rules begin. */
static int take_attribute(struct reader *r, struct text word)
{
	const char *equals = memchr(word.data, '=', word.len);
	char key[16], value[128];
	int rc;

	if (text_begins(word, (struct text){ KEYS_BEGIN, strlen(KEYS_BEGIN) })) {
		rc = take_key(r, word);
		return rc < 0 ? rc : 1;
	}
	if (!equals)
		return 0;
	if (!copy_word(key, sizeof key, (struct text){ word.data, (size_t)(equals - word.data) }) ||
		!copy_word(value, sizeof value,
			(struct text){ equals + 1, word.len - (size_t)(equals - word.data) - 1 }))
		return fail(r->err, LEASED_ECONFIG, "\"%.*s\" is too long", 40, word.data);
	rc = take_setting(r, key, value);
	return rc < 0 ? rc : 1;
}

static int add_rule(struct reader *r, unsigned verbs, struct text typed)
{
	struct access_client *c = r->client;
	struct access_rule *more, rule = { .verbs = verbs };
	struct leased_error why;

	if (c->n_rules == ACCESS_RULES_MAX)
		return fail(r->err, LEASED_ECONFIG, "more than %d rules", ACCESS_RULES_MAX);
	if (pattern_parse(&rule.pattern, typed, &why) < 0)
		return fail(r->err, LEASED_ECONFIG, "%s", why.text);
	more = realloc(c->rules, (c->n_rules + 1) * sizeof *more);
	if (more)
		c->rules = more;
	rule.typed = strndup(typed.data, typed.len);
	if (!more || !rule.typed) {
		free(rule.typed);
		return fail(r->err, LEASED_ENOMEM, "out of memory");
	}
	c->rules[c->n_rules++] = rule;
	return 0;
}

/* VERBS PATTERN[; VERBS PATTERN]... */
static int take_rules(struct reader *r, struct text rest)
{
	for (;;) {
		struct text word, pattern;
		unsigned verbs;
		int rc;

		skip_blanks(&rest);
		word = take_word(&rest, ';');
		skip_blanks(&rest);
		pattern = take_word(&rest, ';');
		if (word.len == 0 || pattern.len == 0)
			return fail(r->err, LEASED_ECONFIG, "a rule is verbs and a pattern, as: acquire,release billing/**");
		verbs = access_verbs_parse(word, r->err);
		if (!verbs)
			return LEASED_ECONFIG;
		rc = add_rule(r, verbs, pattern);
		if (rc < 0)
			return rc;
		skip_blanks(&rest);
		if (rest.len == 0)
			return 0;
		if (*rest.data != ';')
			return fail(r->err, LEASED_ECONFIG,
				"\"%.*s\" behind a pattern: rules are divided by a semicolon, and a blank in a pattern is written \"\\ \"",
				(int)(rest.len < 40 ? rest.len : 40), rest.data);
		rest.data++;
		rest.len--;
	}
}

static int read_client(struct reader *r, struct text rest)
{
	struct text before = rest;
	int rc = take_name(r, take_word(&rest, '\0'));

	while (rc == 0 || rc == 1) {
		skip_blanks(&rest);
		before = rest;
		if (rest.len == 0)
			return fail(r->err, LEASED_ECONFIG, "a client without a rule may do nothing: leave the line out");
		rc = take_attribute(r, take_word(&rest, '\0'));
		if (rc == 0)
			break;
	}
	if (rc < 0)
		return rc;
	if (r->client->n_who == 0)
		return fail(r->err, LEASED_ECONFIG, "who is it? A public key, uid=, gid= or user= is missing");
	return take_rules(r, before);
}

/* The list grows by the line: memory goes with what stands in the file. */
static int add_client(struct reader *r)
{
	struct access *a = r->access;
	struct access_client **more;

	if (a->n_clients == ACCESS_CLIENTS_MAX)
		return fail(r->err, LEASED_ECONFIG, "more than %d clients", ACCESS_CLIENTS_MAX);
	r->client = calloc(1, sizeof *r->client);
	more = r->client ? reallocarray(a->clients, a->n_clients + 1, sizeof *more) : NULL;
	if (!more) {
		free(r->client);
		return fail(r->err, LEASED_ENOMEM, "out of memory");
	}
	a->clients = more;
	a->clients[a->n_clients++] = r->client;
	r->client->line = r->line;
	r->client->until_us = INT64_MAX;
	return 0;
}

/* A NUL would hide what stands behind it, a carriage return a line. */
static int check_bytes(struct reader *r)
{
	for (size_t i = 0; i < r->len; i++)
		if ((unsigned char)r->text[i] < ' ' && r->text[i] != '\t')
			return fail(r->err, LEASED_ECONFIG, "holds a control character");
	return 0;
}

static int read_line(struct reader *r)
{
	struct text rest = { r->text, r->len };
	int rc = check_bytes(r);

	skip_blanks(&rest);
	if (rc < 0 || rest.len == 0 || *rest.data == '#')
		return rc;
	rc = add_client(r);
	return rc == 0 ? read_client(r, rest) : rc;
}

int access_parse(struct access **ret_access, FILE *in, struct leased_error *err)
{
	struct leased_error why = { 0 };
	struct reader r = { .access = calloc(1, sizeof *r.access), .err = &why };
	int rc;

	if (!r.access)
		return fail(err, LEASED_ENOMEM, "out of memory");
	r.access->is_file = true;
	while ((rc = next_line(&r, in)) == 1) {
		rc = read_line(&r);
		if (rc < 0)
			break;
	}
	if (rc < 0) {
		access_free(r.access);
		return rc == LEASED_ENOMEM ? fail(err, rc, "%s", why.text)
					   : fail(err, rc, "line %d: %s", r.line, why.text);
	}
	*ret_access = r.access;
	return 0;
}

/* Who can write the file can do everything: only root and who runs the daemon may. */
static int check_file(int fd, struct leased_error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return fail(err, LEASED_ECONFIG, "%s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return fail(err, LEASED_ECONFIG, "not a file");
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return fail(err, LEASED_ECONFIG, "others may write it: chmod go-w");
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return fail(err, LEASED_ECONFIG, "it belongs neither to root nor to the account that runs the daemon");
	return 0;
}

static int load(struct access **ret_access, const char *path, struct leased_error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	FILE *in;
	int rc;

	if (fd < 0)
		return fail(err, LEASED_ECONFIG, "%s", strerror(errno));
	rc = check_file(fd, err);
	in = rc == 0 ? fdopen(fd, "r") : NULL;
	if (!in) {
		close(fd);
		return rc < 0 ? rc : fail(err, LEASED_ENOMEM, "out of memory");
	}
	rc = access_parse(ret_access, in, err);
	fclose(in);
	return rc;
}

int access_load(struct access **ret_access, const char *path, struct leased_error *err)
{
	struct access *a = NULL;
	struct leased_error why;
	int rc = load(&a, path, &why);

	if (rc == 0)
		rc = access_seal(a, &why);
	if (rc < 0) {
		access_free(a);
		return fail(err, rc, "authorized_clients: %s: %s", path, why.text);
	}
	*ret_access = a;
	return 0;
}
