#include "whoami.h"

#include <string.h>

#include "clock.h"
#include "reply.h"

/* The verbs of one rule; names is memory for them. */
static void fill_rule(Leased__Rule *ret_rule, char *names[static ACCESS_VERBS], const struct access_rule *rule)
{
	leased__rule__init(ret_rule);
	ret_rule->verbs = names;
	for (unsigned i = 0; i < ACCESS_VERBS; i++)
		if (rule->verbs & (1u << i))
			names[ret_rule->n_verbs++] = (char *)(uintptr_t)access_verb_name((enum access_verb)(1u << i));
	ret_rule->pattern.data = (uint8_t *)rule->typed;
	ret_rule->pattern.len = strlen(rule->typed);
}

static void fill_limits(Leased__Identity *identity, const struct access_limits *limits, struct quota *quota)
{
	struct quota_usage usage = quota_usage(quota, clock_ms());

	identity->leases_max = (uint64_t)limits->leases;
	identity->waiters_max = (uint64_t)limits->waiters;
	identity->rate_max = (uint64_t)limits->rate;
	identity->connections_max = (uint64_t)limits->connections;
	identity->leases = limits->leases > 0 ? usage.leases : 0;
	identity->waiters = limits->waiters > 0 ? usage.waiters : 0;
	identity->connections = limits->connections > 0 ? usage.connections : 0;
}

void whoami_reply(struct session *s, uint64_t id)
{
	const struct access_client *c = s->client;
	Leased__ServerMessage message = LEASED__SERVER_MESSAGE__INIT;
	Leased__Identity identity = LEASED__IDENTITY__INIT;
	Leased__Rule rules[ACCESS_RULES_MAX], *places[ACCESS_RULES_MAX];
	char *names[ACCESS_RULES_MAX][ACCESS_VERBS];

	identity.principal.data = (uint8_t *)s->principal.name;
	identity.principal.len = s->principal.len;
	identity.client = (char *)(uintptr_t)c->name;
	identity.no_file = !s->all->access->is_file;
	identity.until_us = c->until_us == INT64_MAX ? 0 : c->until_us;
	identity.rules = places;
	identity.n_rules = c->n_rules;
	for (size_t i = 0; i < c->n_rules; i++) {
		fill_rule(&rules[i], names[i], &c->rules[i]);
		places[i] = &rules[i];
	}
	fill_limits(&identity, &c->limits, s->quota);
	message.id = id;
	message.body_case = LEASED__SERVER_MESSAGE__BODY_IDENTITY;
	message.identity = &identity;
	reply_send(s, &message);
}
