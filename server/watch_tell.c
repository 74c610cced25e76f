/*
 * Of each grant in a watch this is known while it lasts: its token, its holder, its expiry; of one lease
 * there may be several. A change is told if it fits: a grant has a higher token than all that are known of
 * its name, all else has the token of one of them. So what the snapshot shows already is not told again
 * when its notification comes, nor what was over before something that the snapshot shows. Notifications
 * come in the order of the commits, and of one lease that is the order in which it has changed: who takes
 * it has it locked and draws the next token, and tells first what has expired.
 */
#include "watch_state.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "status.h"

/* A change in line, with its texts. */
struct kept_change {
	struct change change;
	struct list link;
	size_t size;
	char texts[];
};

static struct text keep(char **at, struct text text)
{
	struct text copy = { *at, text.len };

	if (text.len > 0)
		memcpy(*at, text.data, text.len);
	*at += text.len;
	return copy;
}

/* Names and grants that are known. */

static struct followed_name *find_name(struct watch *w, struct text name)
{
	struct followed_name *found;

	HASH_FIND(hh, w->names, name.data, name.len, found);
	return found;
}

static struct followed_name *get_name(struct watch *w, struct text text)
{
	struct followed_name *name = find_name(w, text);

	if (name)
		return name;
	name = calloc(1, sizeof *name + text.len);
	if (!name)
		return NULL;
	memcpy(name->name, text.data, text.len);
	HASH_ADD_KEYPTR(hh, w->names, name->name, text.len, name);
	if (!name->hh.key) {
		free(name);
		return NULL;
	}
	return name;
}

static void put_name(struct watch *w, struct followed_name *name)
{
	if (name->n_grants > 0)
		return;
	HASH_DELETE(hh, w->names, name);
	free(name);
}

static struct text keep_key(char **at, const struct claim *claim)
{
	struct text name = keep(at, claim->name);

	keep(at, (struct text){ (const char *)&claim->token, sizeof claim->token });
	return (struct text){ name.data, name.len + sizeof claim->token };
}

struct followed *watch_find(struct watch *w, const struct claim *claim)
{
	char place[NAME_MAX_LEN + sizeof claim->token], *at = place;
	struct followed *grant;
	struct text key;

	if (claim->name.len > NAME_MAX_LEN)
		return NULL;
	key = keep_key(&at, claim);
	HASH_FIND(hh, w->grants, key.data, key.len, grant);
	return grant;
}

static void unlink_grant(struct watch *w, struct followed *grant)
{
	HASH_DELETE(hh, w->grants, grant);
	grant->of_name->n_grants--;
	put_name(w, grant->of_name);
	heap_remove(&w->all->expiries, &grant->timer);
	w->all->n_grants--;
}

/* Puts a grant under its name. */
static int link_grant(struct watch *w, struct followed *grant)
{
	struct claim *claim = &grant->claim;
	struct followed_name *name = get_name(w, claim->name);

	if (!name)
		return LEASED_ENOMEM;
	HASH_ADD_KEYPTR(hh, w->grants, grant->texts, claim->name.len + sizeof claim->token, grant);
	if (!grant->hh.key) {
		put_name(w, name);
		return LEASED_ENOMEM;
	}
	grant->of_name = name;
	name->n_grants++;
	if (name->newest < claim->token)
		name->newest = claim->token;
	w->all->n_grants++;
	return 0;
}

static struct followed *followed_new(struct watch *w, const struct change *change)
{
	const struct claim *claim = &change->claim;
	struct followed *grant =
		calloc(1, sizeof *grant + claim->name.len + sizeof claim->token + claim->host.len);
	char *at;

	if (!grant)
		return NULL;
	at = grant->texts;
	grant->watch = w;
	grant->claim = *claim;
	grant->claim.name = (struct text){ keep_key(&at, claim).data, claim->name.len };
	grant->claim.host = keep(&at, claim->host);
	grant->value_changes = change->value_changes;
	if (link_grant(w, grant) < 0) {
		free(grant);
		return NULL;
	}
	return grant;
}

void watch_follow(struct watch *w, const struct change *change)
{
	struct leased_error why;
	struct followed *grant;

	if (w->all->n_grants >= (size_t)w->all->config->max_watched) {
		fail(&why, LEASED_EBUSY,
			"more than %lld held leases would be watched here (max_watched): watch a narrower prefix",
			(long long)w->all->config->max_watched);
		watch_end(w, LEASED_EBUSY, why.text);
		return;
	}
	grant = followed_new(w, change);
	if (!grant || expiry_set(grant, change->expires_in_ms) < 0)
		watch_end(w, LEASED_ENOMEM, "out of memory");
}

static void forget_all(struct watch *w)
{
	struct followed *grant, *next;

	HASH_ITER(hh, w->grants, grant, next)
	{
		unlink_grant(w, grant);
		free(grant);
	}
}

/* Changes, in and out. */

bool watch_wants(const struct watch *w, struct text name)
{
	return !w->events->is_wanted || w->events->is_wanted(w->owner, name);
}

void watch_deliver(struct watch *w, const struct change *change)
{
	if (!w->over)
		w->has_room = w->events->on_change(w->owner, change);
}

/* Tells a grant, if it is newer than all that are known of its name. */
static void apply_grant(struct watch *w, const struct change *change)
{
	const struct followed_name *name = find_name(w, change->claim.name);

	if (name && name->newest >= change->claim.token)
		return;
	watch_follow(w, change);
	watch_deliver(w, change);
}

/* Tells the end of a known grant, which is forgotten. */
static void apply_end(struct watch *w, struct followed *grant, enum change_kind kind)
{
	struct change end = { .kind = kind, .claim = grant->claim };

	unlink_grant(w, grant);
	watch_deliver(w, &end);
	free(grant);
}

static void apply_value(struct watch *w, struct followed *grant, const struct change *change)
{
	if (grant->value_changes >= change->value_changes)
		return;
	grant->value_changes = change->value_changes;
	watch_deliver(w, change);
}

/* A change whose turn it is, if it is none that the watch knows of. */
static void apply(struct watch *w, const struct change *change)
{
	struct followed *grant;

	if (change->kind == CHANGE_GRANTED) {
		apply_grant(w, change);
		return;
	}
	grant = watch_find(w, &change->claim);
	if (grant && change->kind == CHANGE_VALUE)
		apply_value(w, grant, change);
	else if (grant)
		apply_end(w, grant, change->kind);
}

int watch_keep(struct watch *w, struct list *list, const struct change *change)
{
	const struct claim *claim = &change->claim;
	struct kept_change *kept;
	size_t size = sizeof *kept + claim->name.len + claim->host.len + change->value.len;
	char *at;

	if (w->queue_bytes + size > WATCH_QUEUE_MAX)
		return LEASED_EBUSY;
	kept = malloc(size);
	if (!kept)
		return LEASED_ENOMEM;
	at = kept->texts;
	kept->size = size;
	kept->change = *change;
	kept->change.claim.name = keep(&at, claim->name);
	kept->change.claim.host = keep(&at, claim->host);
	kept->change.value = keep(&at, change->value);
	w->queue_bytes += size;
	list_append(list, &kept->link);
	return 0;
}

static void free_kept(struct watch *w, struct kept_change *kept)
{
	w->queue_bytes -= kept->size;
	free(kept);
}

void watch_decide(struct watch *w, bool (*is_wanted)(const struct watch *w, const struct claim *claim))
{
	struct list *node;

	while ((node = list_pop(&w->undecided))) {
		struct kept_change *kept = list_entry(node, struct kept_change, link);

		if (is_wanted && is_wanted(w, &kept->change.claim))
			list_append(&w->queue, node);
		else
			free_kept(w, kept);
	}
}

void watch_take(struct watch *w, const struct change *change)
{
	int rc = 0;

	if (!watch_wants(w, change->claim.name))
		return;
	if (w->state == WATCH_LISTING)
		rc = list_take(w, change);
	else if (!w->has_room || !list_empty(&w->queue))
		rc = watch_keep(w, &w->queue, change);
	else
		apply(w, change);
	if (rc == LEASED_EBUSY)
		watch_end(w, rc, "changes are not taken as fast as they come: too many are in line");
	else if (rc < 0)
		watch_end(w, rc, "out of memory");
}

void watch_push(struct watch *w)
{
	struct list *node;

	if (w->state == WATCH_LISTING)
		list_tell_rows(w);
	while (w->state == WATCH_FOLLOWING && !w->over && w->has_room && (node = list_pop(&w->queue))) {
		struct kept_change *kept = list_entry(node, struct kept_change, link);

		w->queue_bytes -= kept->size; /* before the watch may be over */
		apply(w, &kept->change);
		free(kept);
	}
}

void watch_reset(struct watch *w, enum watch_state state)
{
	struct list *node;

	forget_all(w);
	watch_decide(w, NULL);
	while ((node = list_pop(&w->queue)))
		free_kept(w, list_entry(node, struct kept_change, link));
	if (w->page)
		question_free(w->page);
	w->page = NULL;
	w->round++;
	w->state = state;
	w->waiting_ms = clock_ms();
}
