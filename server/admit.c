#include "admit.h"

#include <stdlib.h>
#include <string.h>

#include "audit.h"
#include "call.h"
#include "clock.h"
#include "status.h"
#include "stream.h"

/* Who it is by the rules in force. 0 also for nobody. */
static int look_up(struct session *s, const struct access_client **ret_client, struct leased_error *err)
{
	const struct principal *p = &s->principal;
	struct access_peer peer = { .key = p->has_key ? p->key : NULL, .is_unix = p->uid != (uid_t)-1, .uid = p->uid };
	gid_t *groups = NULL;
	int rc = 0;

	if (s->all->access->is_file) /* the default knows no groups */
		rc = principal_groups(&groups, &peer.n_groups, p, &s->transport.u.stream, err);
	peer.groups = groups;
	if (rc == 0)
		*ret_client = access_find(s->all->access, &peer);
	free(groups);
	return rc;
}

static int deny_stranger(const struct session *s, struct leased_error *err)
{
	if (s->principal.has_key)
		return fail(err, LEASED_EDENIED, "this key is not in authorized_clients");
	if (s->principal.uid == (uid_t)-1)
		return fail(err, LEASED_EDENIED, "authorized_clients lets in keys, and accounts behind a Unix socket only");
	return fail(err, LEASED_EDENIED, "user %u is not in authorized_clients", (unsigned)s->principal.uid);
}

/* The line that s has now. */
static int find_line(struct session *s, const struct access_client **ret_client, struct leased_error *err)
{
	const struct access_client *c = NULL;
	int rc = look_up(s, &c, err);

	if (rc < 0)
		return rc;
	if (!c)
		return deny_stranger(s, err);
	if (c->until_us <= clock_wall_us())
		return fail(err, LEASED_EDENIED, "the time of %s is over (until= in authorized_clients)", c->name);
	*ret_client = c;
	return 0;
}

static int count(struct session *s, const struct access_client *c, struct leased_error *err)
{
	struct text name = { s->principal.name, s->principal.len };
	struct quota *q = quota_take(&s->all->quotas, name);
	int rc = q ? quota_connect(q, &c->limits, err) : fail(err, LEASED_ENOMEM, "out of memory");

	if (rc == 0)
		s->quota = q;
	else if (q)
		quota_put(q);
	return rc;
}

int admit_session(struct session *s, struct leased_error *err)
{
	const struct access_client *c = NULL;
	int rc = find_line(s, &c, err);

	if (rc == 0 && s->principal.has_key) {
		snprintf(s->principal.name, sizeof s->principal.name, "%s", c->name);
		s->principal.len = strlen(s->principal.name);
	}
	if (rc == 0)
		rc = count(s, c, err);
	if (rc == 0)
		s->client = c;
	audit_connect(s, c, rc, err);
	return rc;
}

void admit_leave(struct session *s)
{
	if (s->quota) {
		quota_disconnect(s->quota);
		quota_put(s->quota);
	}
	s->quota = NULL;
	s->client = NULL;
}

/* A key whose line has another name now is another principal, who does not hold what this one holds. */
static bool is_renamed(const struct session *s, const struct access_client *c)
{
	return s->principal.has_key && strcmp(s->principal.name, c->name) != 0;
}

/* All lines first: the old ones are about to go. NULL marks who must go with them. */
static void look_again(struct list *sessions)
{
	for (struct list *node = sessions->next; node != sessions; node = node->next) {
		struct session *s = list_entry(node, struct session, link);
		const struct access_client *c = NULL, *was = s->client;
		struct leased_error err;

		if (!was)
			continue; /* it has not said yet who it is */
		if (find_line(s, &c, &err) < 0 || is_renamed(s, c))
			c = NULL;
		s->has_other_rules = !access_same_rules(was, c);
		s->client = c;
	}
}

static void close_withdrawn(struct list *sessions)
{
	struct list *node = sessions->next;

	while (node != sessions) {
		struct session *s = list_entry(node, struct session, link);

		node = node->next;
		if (s->client || !s->quota)
			continue;
		audit_withdrawn(s);
		session_close(s, LEASED_EDENIED, "your line in authorized_clients is gone, or has another name");
	}
}

static void apply_rules(struct list *sessions)
{
	struct list *node = sessions->next;

	while (node != sessions) {
		struct session *s = list_entry(node, struct session, link);

		node = node->next; /* one that does not read is closed */
		if (!s->has_other_rules)
			continue;
		s->has_other_rules = false;
		call_check_waits(s);
		streams_check(s);
	}
}

void admit_reload(struct sessions *all, struct access *fresh)
{
	struct access *old = all->access;

	all->access = fresh;
	look_again(&all->handshaking);
	look_again(&all->ready);
	access_free(old);
	close_withdrawn(&all->handshaking);
	close_withdrawn(&all->ready);
	apply_rules(&all->ready);
}

static void close_expired(struct list *sessions, int64_t now_us)
{
	struct list *node = sessions->next;

	while (node != sessions) {
		struct session *s = list_entry(node, struct session, link);

		node = node->next;
		if (!s->client || s->client->until_us > now_us)
			continue;
		audit_withdrawn(s);
		session_close(s, LEASED_EDENIED, "your time is over (until= in authorized_clients)");
	}
}

void admit_tick(struct sessions *all)
{
	int64_t now_us = clock_wall_us();

	close_expired(&all->handshaking, now_us);
	close_expired(&all->ready, now_us);
	quotas_tick(&all->quotas, clock_ms() * 1000000);
}
