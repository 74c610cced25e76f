#include "audit.h"

#include <string.h>

#include "clock.h"
#include "log.h"

static bool is_wanted(const struct session *s, int rc)
{
	enum config_audit audit = s->all->config->audit;

	return audit == AUDIT_ALL || (audit == AUDIT_DENIED && rc < 0);
}

/* As a C string. A NUL, which no name may hold, must not hide what stands behind it. */
static const char *as_string(char out[static NAME_MAX_LEN + 1], struct text name)
{
	size_t len = name.len < NAME_MAX_LEN ? name.len : NAME_MAX_LEN;

	for (size_t i = 0; i < len; i++)
		out[i] = name.data[i] ? name.data[i] : '\1';
	out[len] = '\0';
	return out;
}

static void write_allowed(const struct session *s, const char *verb, struct text name)
{
	char lease[NAME_MAX_LEN + 1];

	log_event(LOG_AUDIT, "audit", "principal", 's', s->principal.name, "client", 's', s->client->name, "verb",
		's', verb, "lease", 's', as_string(lease, name), "outcome", 's', "allowed", NULL);
}

static void write_denied(struct session *s, const struct access_client *c, const char *verb, struct text name,
	const char *why)
{
	struct log_limit *limit = s->quota ? quota_denials(s->quota) : &s->all->audit_limit;
	char lease[NAME_MAX_LEN + 1];
	uint32_t left_out;

	if (!log_allowed(limit, clock_ms(), &left_out))
		return;
	log_event(LOG_AUDIT, "audit", "principal", 's', s->principal.name, "client", 's', c ? c->name : "", "verb",
		's', verb, "lease", 's', as_string(lease, name), "outcome", 's', "denied", "why", 's', why, "left_out",
		'u', (uint64_t)left_out, NULL);
}

void audit_connect(struct session *s, const struct access_client *c, int rc, const struct leased_error *err)
{
	static const struct text nothing = { "", 0 };

	if (!is_wanted(s, rc))
		return;
	if (rc < 0)
		write_denied(s, c, "connect", nothing, err->text);
	else
		write_allowed(s, "connect", nothing);
}

void audit_withdrawn(struct session *s)
{
	if (is_wanted(s, LEASED_EDENIED))
		write_denied(s, s->client, "connect", (struct text){ "", 0 }, "withdrawn: the connection ends");
}

static void write_name(void *data, enum access_verb verb, struct text name)
{
	const struct session *s = data;

	if (verb != ACCESS_RENEW || access_may(s->client, verb, name)) /* else see audit_part() */
		write_allowed(s, access_verb_name(verb), name);
}

void audit_part(struct session *s, enum access_verb verb, struct text name, const struct leased_error *err)
{
	if (is_wanted(s, LEASED_EDENIED))
		write_denied(s, s->client, access_verb_name(verb), name, err->text);
}

static bool has_names(const Leased__ClientMessage *m)
{
	return m->body_case != LEASED__CLIENT_MESSAGE__BODY_WHOAMI;
}

void audit_request(struct session *s, const Leased__ClientMessage *m, const struct gate_denial *denial, int rc,
	const struct leased_error *err)
{
	if (!is_wanted(s, rc))
		return;
	if (rc < 0)
		write_denied(s, s->client, gate_request_name(m), denial->name, err->text);
	else if (has_names(m))
		gate_each_name(m, write_name, s);
	else
		write_allowed(s, gate_request_name(m), (struct text){ "", 0 });
}
