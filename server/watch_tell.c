/*
 * Of each lease in a watch this is known while it is held: its token, its holder, its expiry. A change
 * is told if it fits: a grant has a higher token than what is known, all else has the same one. So what
 * the snapshot shows already is not told again when its notification comes, and a grant of a lease that is
 * still known says that the one before has expired. Notifications come in the order of the commits, and
 * of one lease that is the order in which it has changed.
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

/* Leases that are known. */

struct followed *watch_find(struct watch *w, struct text name)
{
	struct followed *lease;

	HASH_FIND(hh, w->leases, name.data, name.len, lease);
	return lease;
}

static void unlink_lease(struct watch *w, struct followed *lease)
{
	HASH_DELETE(hh, w->leases, lease);
	heap_remove(&w->all->expiries, &lease->timer);
	w->all->n_leases--;
}

static struct followed *followed_new(struct watch *w, const struct change *change)
{
	const struct claim *claim = &change->claim;
	struct followed *lease = calloc(1, sizeof *lease + claim->name.len + claim->host.len);
	char *at;

	if (!lease)
		return NULL;
	at = lease->texts;
	lease->watch = w;
	lease->claim = *claim;
	lease->claim.name = keep(&at, claim->name);
	lease->claim.host = keep(&at, claim->host);
	lease->value_changes = change->value_changes;
	HASH_ADD_KEYPTR(hh, w->leases, lease->claim.name.data, lease->claim.name.len, lease);
	if (!lease->hh.key) {
		free(lease);
		return NULL;
	}
	w->all->n_leases++;
	return lease;
}

void watch_follow(struct watch *w, const struct change *change)
{
	struct leased_error why;
	struct followed *lease;

	if (w->all->n_leases >= (size_t)w->all->config->max_watched) {
		fail(&why, LEASED_EBUSY,
			"more than %lld held leases would be watched here (max_watched): watch a narrower prefix",
			(long long)w->all->config->max_watched);
		watch_end(w, LEASED_EBUSY, why.text);
		return;
	}
	lease = followed_new(w, change);
	if (!lease || expiry_set(lease, change->expires_in_ms) < 0)
		watch_end(w, LEASED_ENOMEM, "out of memory");
}

static void forget_all(struct watch *w)
{
	struct followed *lease, *next;

	HASH_ITER(hh, w->leases, lease, next)
	{
		unlink_lease(w, lease);
		free(lease);
	}
}

/* Changes, in and out. */

void watch_deliver(struct watch *w, const struct change *change)
{
	if (!w->over)
		w->has_room = w->events->on_change(w->owner, change);
}

/* Tells the end of a known lease, which is forgotten. */
static void deliver_end(struct watch *w, struct followed *lease, enum change_kind kind)
{
	struct change end = { .kind = kind, .claim = lease->claim };

	unlink_lease(w, lease);
	watch_deliver(w, &end);
	free(lease);
}

static void deliver_grant(struct watch *w, struct followed *lease, const struct change *change)
{
	if (lease)
		deliver_end(w, lease, CHANGE_EXPIRED);
	if (!w->over)
		watch_follow(w, change);
	watch_deliver(w, change);
}

/* A change whose turn it is, if it is none that the watch knows of. */
static void apply(struct watch *w, const struct change *change)
{
	struct followed *lease = watch_find(w, change->claim.name);

	if (change->kind == CHANGE_GRANTED) {
		if (!lease || lease->claim.token < change->claim.token)
			deliver_grant(w, lease, change);
	} else if (!lease || lease->claim.token != change->claim.token) {
		return;
	} else if (change->kind != CHANGE_VALUE) {
		deliver_end(w, lease, change->kind);
	} else if (lease->value_changes < change->value_changes) {
		lease->value_changes = change->value_changes;
		watch_deliver(w, change);
	}
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

void watch_decide(struct watch *w, bool (*is_wanted)(const struct watch *w, struct text name))
{
	struct list *node;

	while ((node = list_pop(&w->undecided))) {
		struct kept_change *kept = list_entry(node, struct kept_change, link);

		if (is_wanted && is_wanted(w, kept->change.claim.name))
			list_append(&w->queue, node);
		else
			free_kept(w, kept);
	}
}

void watch_take(struct watch *w, const struct change *change)
{
	int rc = 0;

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
