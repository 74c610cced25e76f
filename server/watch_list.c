/*
 * What is held when a watch begins, in pages in the order of the names. Each page sees what was committed
 * when it was asked for, so of a change that comes meanwhile:
 *
 *   listed already     it stands in line until the snapshot is complete
 *   not listed yet     dropped, a later page shows it; but if a page is under way that page may have
 *                      been asked for before the change: undecided until it is here
 */
#include "watch_state.h"

#include <string.h>

#define PAGE_ROWS 500 /* looked at; values of 4 KiB make it 2 MiB */

static void ask_page(struct watch *w);
static void on_page(struct request *req);
static void take_page(struct watch *w, struct question *page);

void list_begin(struct watch *w)
{
	watch_reset(w, WATCH_LISTING);
	w->has_begun = w->all_listed = false;
	w->upto_len = 0;
	ask_page(w);
}

static void ask_page(struct watch *w)
{
	size_t prefix_len = w->feed->key_len - 1U;
	struct question *q = question_new(w->all, w, VERB_HELD, prefix_len + w->upto_len);

	if (q) {
		memcpy(q->texts, w->feed->key + 1, prefix_len);
		memcpy(q->texts + prefix_len, w->upto, w->upto_len);
		q->req.prefix = (struct text){ q->texts, prefix_len };
		q->req.after = (struct text){ q->texts + prefix_len, w->upto_len };
		q->req.exact = w->exact;
		q->req.limit = PAGE_ROWS;
	}
	if (!q || question_ask(q, on_page) < 0)
		watch_reset(w, WATCH_WAITING); /* the next tick begins anew */
}

static void on_page(struct request *req)
{
	struct question *q = req->owner;
	struct watches *all = q->all;
	struct watch *w = q->watch;

	if (!w || q->round != w->round) {
		question_free(q);
		return;
	}
	watches_enter(all);
	list_remove(&q->link);
	if (req->status == 0) {
		take_page(w, q);
	} else {
		watch_end(w, req->status, req->why ? req->why : "the database cannot tell what is held");
		question_free(q);
	}
	watches_exit(all);
}

static bool is_listed(const struct watch *w, struct text name)
{
	size_t len = name.len < w->upto_len ? name.len : w->upto_len;
	int order = memcmp(name.data, w->upto, len);

	return w->all_listed || order < 0 || (order == 0 && name.len <= w->upto_len);
}

static void take_page(struct watch *w, struct question *page)
{
	const struct request *req = &page->req;

	w->page = page;
	w->row = 0;
	w->all_listed = !req->more;
	if (req->n_listed > 0) {
		struct text last = req->listing[req->n_listed - 1]->claim.name;

		w->upto_len = last.len < sizeof w->upto ? last.len : sizeof w->upto;
		memcpy(w->upto, last.data, w->upto_len);
	}
	watch_decide(w, is_listed);
	if (!w->has_begun)
		watch_deliver(w, &(struct change){ .kind = CHANGE_SNAPSHOT });
	w->has_begun = true;
	if (!w->over)
		list_tell_rows(w);
}

static void tell_row(struct watch *w, const struct lease_view *view)
{
	struct change held = { .kind = CHANGE_HELD, .claim = view->claim, .value = view->value,
		.has_value = view->has_value, .expires_in_ms = view->expires_in_ms,
		.value_changes = view->value_changes };

	if (view->released || view->expires_in_ms <= 0)
		return;
	watch_follow(w, &held);
	watch_deliver(w, &held);
}

void list_tell_rows(struct watch *w)
{
	bool more;

	while (w->page && w->row < w->page->req.n_listed && w->has_room)
		tell_row(w, w->page->req.listing[w->row++]); /* a watch that is over has no page */
	if (!w->page || !w->has_room)
		return;
	more = w->page->req.more;
	question_free(w->page);
	w->page = NULL;
	if (more) {
		ask_page(w);
		return;
	}
	w->state = WATCH_FOLLOWING;
	watch_deliver(w, &(struct change){ .kind = CHANGE_READY });
	watch_push(w);
}

int list_take(struct watch *w, const struct change *change)
{
	if (is_listed(w, change->claim.name))
		return watch_keep(w, &w->queue, change);
	return w->page ? 0 : watch_keep(w, &w->undecided, change);
}
