/*
 * What is held when a watch begins, in pages in the order of the names, and of the tokens of each. Each
 * page sees what was committed when it was asked for, so of a change that comes meanwhile:
 *
 *   listed already     it stands in line until the snapshot is complete
 *   not listed yet     dropped, a later page shows it; but if a page is under way that page may have
 *                      been asked for before the change: undecided until it is here
 *
 * A page ends between two names, so that all of a name is told as it was at one moment; within a name only
 * when that fills a page by itself. Then it may be told with a grant and with the one that took its place.
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
	w->upto_token = 0;
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
		q->req.claim.token = w->upto_token;
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

static bool is_listed(const struct watch *w, const struct claim *claim)
{
	int order = text_compare(claim->name, (struct text){ w->upto, w->upto_len });

	return w->all_listed || order < 0 || (order == 0 && claim->token <= w->upto_token);
}

/* Where the next page begins; the last name of this one is left to it, unless that would be where this began. */
static void advance(struct watch *w, const struct request *req)
{
	const struct claim *last = &req->listing[req->n_listed - 1]->claim;
	bool leaves_last = req->more && !text_equal(last->name, (struct text){ w->upto, w->upto_len });

	while (leaves_last && w->n_rows > 0 &&
		text_equal(last->name, req->listing[w->n_rows - 1]->claim.name))
		w->n_rows--;
	w->upto_token = leaves_last ? 0 : last->token;
	w->upto_len = last->name.len < sizeof w->upto ? last->name.len : sizeof w->upto;
	memcpy(w->upto, last->name.data, w->upto_len);
}

static void take_page(struct watch *w, struct question *page)
{
	const struct request *req = &page->req;

	w->page = page;
	w->row = 0;
	w->n_rows = req->n_listed;
	w->all_listed = !req->more;
	if (req->n_listed > 0)
		advance(w, req);
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

	if (view->released || view->expires_in_ms <= 0 || !watch_wants(w, view->claim.name))
		return;
	watch_follow(w, &held);
	watch_deliver(w, &held);
}

void list_tell_rows(struct watch *w)
{
	bool more;

	while (w->page && w->row < w->n_rows && w->has_room)
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
	if (is_listed(w, &change->claim))
		return watch_keep(w, &w->queue, change);
	return w->page ? 0 : watch_keep(w, &w->undecided, change);
}
