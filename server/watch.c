#include "watch_state.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "status.h"

const uint8_t *watch_hash_key(void)
{
	static uint8_t key[crypto_shorthash_KEYBYTES];
	static bool is_drawn;

	if (!is_drawn)
		randombytes_buf(key, sizeof key);
	is_drawn = true;
	return key;
}

void watch_resume(struct watch *w)
{
	struct watches *all = w->all;

	if (w->has_room)
		return;
	w->has_room = true;
	watches_enter(all);
	watch_push(w);
	watches_exit(all);
}

static void tell_feed(struct feed *feed, const struct change *change)
{
	/* A watch that is over stays in this list until nobody is busy. */
	for (struct list *node = feed->watches.next; node != &feed->watches; node = node->next) {
		struct watch *w = list_entry(node, struct watch, of_feed);

		if (!w->over && w->state != WATCH_WAITING)
			watch_take(w, change);
	}
}

static struct feed *find_feed(struct watches *all, char kind, struct text text)
{
	char key[1 + NAME_MAX_LEN];
	struct feed *feed;

	key[0] = kind;
	if (text.len > 0)
		memcpy(key + 1, text.data, text.len);
	HASH_FIND(hh, all->feeds, key, 1 + text.len, feed);
	return feed;
}

void watches_take(struct watches *all, const struct change *change)
{
	struct text name = change->claim.name;
	struct feed *feed;

	if (all->state != SYNC_SURE || !sync_check(all))
		return;
	watches_enter(all);
	for (size_t len = 0; len <= name.len; len++) {
		feed = all->feeds_of_len[len] ? find_feed(all, FEED_PREFIX, (struct text){ name.data, len })
					      : NULL;
		if (feed)
			tell_feed(feed, change);
	}
	feed = find_feed(all, FEED_EXACT, name);
	if (feed)
		tell_feed(feed, change);
	watches_exit(all);
}

/* Questions. */

struct question *question_new(struct watches *all, struct watch *w, enum verb verb, size_t texts)
{
	struct question *q = calloc(1, sizeof *q + texts);

	if (!q)
		return NULL;
	q->req = (struct request){ .verb = verb, .owner = q };
	list_init(&q->req.link);
	q->all = all;
	q->watch = w;
	q->round = w ? w->round : all->round;
	list_init(&q->link);
	if (w)
		list_append(&w->questions, &q->link);
	all->n_questions++;
	return q;
}

int question_ask(struct question *q, request_done_cb done)
{
	int rc = q->all->leaving ? LEASED_EUNAVAILABLE : 0;

	q->req.done = done;
	if (rc == 0)
		rc = engine_submit(q->all->engine, &q->req);
	if (rc < 0)
		question_free(q);
	return rc;
}

static void maybe_free(struct watches *all)
{
	if (!all->closing || all->n_questions > 0 || all->n_timers > 0)
		return;
	heap_fini(&all->expiries);
	free(all->others);
	free(all);
}

void question_free(struct question *q)
{
	struct watches *all = q->all;

	list_remove(&q->link);
	request_fini(&q->req);
	free(q);
	all->n_questions--;
	maybe_free(all);
}

/* Watches come and go. */

static struct feed *get_feed(struct watches *all, char kind, struct text text)
{
	struct feed *feed = find_feed(all, kind, text);

	if (feed)
		return feed;
	feed = calloc(1, sizeof *feed + 1 + text.len);
	if (!feed)
		return NULL;
	list_init(&feed->watches);
	feed->key_len = (uint16_t)(1 + text.len);
	feed->key[0] = kind;
	if (text.len > 0)
		memcpy(feed->key + 1, text.data, text.len);
	HASH_ADD(hh, all->feeds, key, feed->key_len, feed);
	if (!feed->hh.key) {
		free(feed);
		return NULL;
	}
	if (kind == FEED_PREFIX)
		all->feeds_of_len[text.len]++;
	return feed;
}

static void put_feed(struct watches *all, struct feed *feed)
{
	if (!list_empty(&feed->watches))
		return;
	if (*feed->key == FEED_PREFIX)
		all->feeds_of_len[feed->key_len - 1]--;
	HASH_DELETE(hh, all->feeds, feed);
	free(feed);
}

void watches_enter(struct watches *all)
{
	all->busy++;
}

void watches_exit(struct watches *all)
{
	struct list *node;

	if (--all->busy > 0)
		return;
	while ((node = list_pop(&all->dead))) {
		struct watch *w = list_entry(node, struct watch, link);

		list_remove(&w->of_feed);
		put_feed(all, w->feed);
		free(w);
	}
}

static int refuse(struct watches *all, struct leased_error *err)
{
	if (all->leaving)
		return fail(err, LEASED_EUNAVAILABLE, "the daemon stops: use another one");
	if (all->n_watches >= (size_t)all->config->max_watches)
		return fail(err, LEASED_EBUSY, "%lld watches are open here already (max_watches)",
			(long long)all->config->max_watches);
	if (!all->notices->proved && all->notices->given_up)
		return fail(err, LEASED_EUNAVAILABLE, "changes cannot be told: %s", all->notices->why);
	return 0;
}

int watch_start(struct watches *all, struct text prefix, bool exact, const struct watch_events *events,
	void *owner, struct watch **ret_watch, struct leased_error *err)
{
	int rc = refuse(all, err);
	struct watch *w = rc == 0 ? calloc(1, sizeof *w) : NULL;

	if (rc < 0)
		return rc;
	if (w)
		w->feed = get_feed(all, exact ? FEED_EXACT : FEED_PREFIX, prefix);
	if (!w || !w->feed) {
		free(w);
		return fail(err, LEASED_ENOMEM, "out of memory");
	}
	w->all = all;
	w->events = events;
	w->owner = owner;
	w->exact = exact;
	w->has_room = true;
	w->waiting_ms = clock_ms();
	list_init(&w->questions);
	list_init(&w->undecided);
	list_init(&w->queue);
	list_append(&w->feed->watches, &w->of_feed);
	list_append(&all->watches, &w->link);
	all->n_watches++;
	if (all->state == SYNC_SURE)
		list_begin(w);
	else if (all->state == SYNC_OFF)
		sync_begin(all);
	*ret_watch = w;
	return 0;
}

/* Before notifications arrive there is nothing that would have to be told again. */
void watch_begin_anew(struct watch *w)
{
	if (w->over || w->state == WATCH_WAITING)
		return;
	watches_enter(w->all);
	list_begin(w);
	watches_exit(w->all);
}

void watch_stop(struct watch *w)
{
	struct watches *all = w->all;
	struct list *node;

	if (w->over)
		return;
	watches_enter(all);
	watch_reset(w, WATCH_WAITING);
	w->over = true;
	while ((node = list_pop(&w->questions)))
		list_entry(node, struct question, link)->watch = NULL;
	list_remove(&w->link);
	list_append(&all->dead, &w->link);
	if (--all->n_watches == 0)
		sync_end(all);
	watches_exit(all);
}

void watch_end(struct watch *w, int status, const char *why)
{
	const struct watch_events *events = w->events;
	void *owner = w->owner;
	struct leased_error err;

	if (w->over)
		return;
	fail(&err, status, "%s", why);
	watch_stop(w);
	events->on_end(owner, &err);
}

/* All of them. */

int watches_new(struct watches **ret_watches, uv_loop_t *loop, const struct config *config,
	struct engine *engine, const struct notices *notices)
{
	struct watches *all = calloc(1, sizeof *all);

	if (!all)
		return LEASED_ENOMEM;
	all->config = config;
	all->engine = engine;
	all->notices = notices;
	list_init(&all->watches);
	list_init(&all->dead);
	uv_timer_init(loop, &all->expiry_timer);
	uv_timer_init(loop, &all->settle_timer);
	all->expiry_timer.data = all->settle_timer.data = all;
	all->n_timers = 2;
	*ret_watches = all;
	return 0;
}

void watches_leave(struct watches *all)
{
	all->leaving = true;
	uv_timer_stop(&all->expiry_timer);
	uv_timer_stop(&all->settle_timer);
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct watches *all = handle->data;

	all->n_timers--;
	maybe_free(all);
}

void watches_close(struct watches *all)
{
	all->leaving = all->closing = true;
	uv_close((uv_handle_t *)&all->expiry_timer, on_timer_closed);
	uv_close((uv_handle_t *)&all->settle_timer, on_timer_closed);
}
