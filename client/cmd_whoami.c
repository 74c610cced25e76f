#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "ctl.h"
#include "name.h"
#include "output.h"

/* What may have a bound. */
static const struct limit {
	const char *name;
	size_t max, used; /* fields of Identity */
	bool is_counted;
} limits[] = {
#define FIELD(name) offsetof(Leased__Identity, name)
	{ "leases", FIELD(leases_max), FIELD(leases), true },
	{ "waiters", FIELD(waiters_max), FIELD(waiters), true },
	{ "rate", FIELD(rate_max), 0, false },
	{ "connections", FIELD(connections_max), FIELD(connections), true },
#undef FIELD
};
#define N_LIMITS (sizeof limits / sizeof limits[0])

static uint64_t field(const Leased__Identity *id, size_t offset)
{
	return *(const uint64_t *)(const void *)((const char *)id + offset);
}

static json_t *as_json(ProtobufCBinaryData text)
{
	return json_stringn((const char *)text.data, text.len);
}

static json_t *rules_json(const Leased__Identity *id)
{
	json_t *rules = json_array();

	for (size_t i = 0; i < id->n_rules; i++) {
		json_t *verbs = json_array();

		for (size_t k = 0; k < id->rules[i]->n_verbs; k++)
			json_array_append_new(verbs, json_string(id->rules[i]->verbs[k]));
		json_array_append_new(rules,
			json_pack("{s:o, s:o}", "verbs", verbs, "pattern", as_json(id->rules[i]->pattern)));
	}
	return rules;
}

static void print_json(const Leased__Identity *id)
{
	json_t *object = json_pack("{s:o, s:s, s:b}", "principal", as_json(id->principal), "client", id->client,
		"authorized_clients", !id->no_file);
	char until[32];

	if (id->until_us)
		ctl_format_time(until, id->until_us);
	json_object_set_new(object, "until", id->until_us ? json_string(until) : json_null());
	for (size_t i = 0; i < N_LIMITS; i++) {
		uint64_t max = field(id, limits[i].max);
		char key[32];

		snprintf(key, sizeof key, "%s_max", limits[i].name);
		json_object_set_new(object, key, max ? json_integer((json_int_t)max) : json_null());
		if (max && limits[i].is_counted)
			json_object_set_new(object, limits[i].name,
				json_integer((json_int_t)field(id, limits[i].used)));
	}
	json_object_set_new(object, "rules", rules_json(id));
	output_json(object);
}

static void print_limits(const Leased__Identity *id)
{
	for (size_t i = 0; i < N_LIMITS; i++) {
		uint64_t max = field(id, limits[i].max);

		if (!max)
			continue;
		printf("%s: at most %" PRIu64, limits[i].name, max);
		if (limits[i].is_counted)
			printf(", %" PRIu64 " now", field(id, limits[i].used));
		else
			printf(" requests a second");
		putchar('\n');
	}
}

static void print_text(const Leased__Identity *id)
{
	char text[4 * 1024], until[32];

	ctl_escape(text, sizeof text, id->principal);
	printf("principal: %s\n", text);
	ctl_escape_text(text, sizeof text, id->client);
	printf("client: %s%s\n", text, id->no_file ? " (the daemon has no authorized_clients)" : "");
	if (id->until_us) {
		ctl_format_time(until, id->until_us);
		printf("until: %s\n", until);
	}
	print_limits(id);
	for (size_t i = 0; i < id->n_rules; i++) {
		printf("may ");
		for (size_t k = 0; k < id->rules[i]->n_verbs; k++) {
			ctl_escape_text(text, sizeof text, id->rules[i]->verbs[k]);
			printf("%s%s", k > 0 ? "," : "", text);
		}
		ctl_escape(text, sizeof text, id->rules[i]->pattern);
		printf(" %s\n", text);
	}
}

int cmd_whoami(const struct ctl *ctl, int argc, char *argv[])
{
	struct leased_client *client;
	struct verb_reply reply;
	struct lease_options o;
	struct leased_error err;
	bool done;
	int code, rc;

	code = ctl_read_options(&o, TAKES_NOTHING, argc, argv, &done);
	if (code || done)
		return code;
	code = ctl_open(ctl, &client);
	if (code)
		return code;
	rc = verb_whoami(client, &reply, &err);
	if (rc < 0)
		code = ctl_fail("whoami", rc, err.text);
	else if (ctl->json)
		print_json(reply.message->identity);
	else
		print_text(reply.message->identity);
	verb_reply_fini(&reply);
	leased_client_close(client);
	return code;
}
