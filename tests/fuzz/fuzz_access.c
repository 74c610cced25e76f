/*
 * authorized_clients: any bytes give clients with rules and within all bounds, or an error with a line; and every
 * pattern that is taken can be matched with any name.
 */
#include "fuzz.h"

#include <stdio.h>
#include <string.h>

#include "access.h"

static void check_rule(const struct access_client *c, const struct access_rule *rule, struct text name)
{
	assert(rule->verbs != 0 && (rule->verbs & ~ACCESS_ANY) == 0);
	assert(rule->pattern.len > 0 && rule->pattern.literal <= rule->pattern.len);
	if (!pattern_matches(&rule->pattern, name))
		return;
	assert(access_may(c, rule->verbs, name));
	for (size_t len = 0; len <= name.len; len++)
		assert(pattern_may_begin(&rule->pattern, (struct text){ name.data, len }));
}

static bool check_client(const struct access_client *c, struct text name)
{
	bool has_user = false;

	assert(*c->name && c->n_rules > 0 && c->n_rules <= ACCESS_RULES_MAX && c->n_who > 0 && c->n_who <= ACCESS_WHO_MAX);
	assert(c->limits.leases >= 0 && c->limits.rate >= 0 && c->until_us >= 0);
	for (size_t i = 0; i < c->n_rules; i++)
		check_rule(c, &c->rules[i], name);
	for (size_t i = 0; i < c->n_who; i++)
		has_user = has_user || c->who[i].kind == WHO_USER;
	return has_user;
}

/* Who stands on a line is found, on that line or on one before it. */
static void check_found(const struct access *a)
{
	for (size_t i = 0; i < a->n_clients; i++) {
		const struct access_client *c = a->clients[i];

		for (size_t k = 0; k < c->n_who; k++) {
			struct access_peer peer = { .is_unix = true, .uid = c->who[k].id };

			if (c->who[k].kind == WHO_KEY)
				assert(access_find(a, &(struct access_peer){ .key = c->who[k].key }) == c);
			else if (c->who[k].kind == WHO_UID)
				assert(access_find(a, &peer)->line <= c->line);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text name = { (const char *)data, size < NAME_MAX_LEN ? size : NAME_MAX_LEN };
	struct leased_error err = { 0 };
	struct access *a = NULL;
	bool has_user = false; /* whom the system would have to look up */
	FILE *in;
	int rc;

	if (size == 0)
		return 0;
	in = fmemopen((void *)(uintptr_t)data, size, "r");
	rc = access_parse(&a, in, &err);
	fclose(in);
	assert(rc == 0 || strstr(err.text, "line "));
	for (size_t i = 0; a && i < a->n_clients; i++)
		has_user = check_client(a->clients[i], name) || has_user;
	if (a && !has_user && access_seal(a, &err) == 0)
		check_found(a);
	access_free(a);
	return 0;
}
