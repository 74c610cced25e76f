/*
 * Since when every change is told. Whoever changes a lease looks whether somebody watches, so:
 *
 *   BEGINNING  the row of this daemon says that somebody watches, and is committed
 *   SETTLING   whoever looked before that is waited for: it holds a lock on the table of leases (ROW
 *              EXCLUSIVE) until its end, taken before the snapshot in which it looked. The transactions
 *              that hold one now are noted, and asked for until they are over, as CREATE INDEX
 *              CONCURRENTLY does; this takes no lock of its own
 *   SURE       all others tell. What is held is listed only now
 *
 * A beat a second keeps the row fresh. When it was not for WATCH_GRACE_MS, the others took this daemon
 * for dead and told nothing: then all of it begins anew. So it does when no notifications arrive.
 */
#include "watch_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "status.h"

#define SETTLE_POLL_MS     5
#define SETTLE_POLL_MAX_MS 200

static void on_told(void *owner, int64_t sent_ms, bool unbroken);
static void settle(struct watches *all);
static void ask_changing(struct watches *all);
static void on_changing(struct request *req);
static void sure(struct watches *all);

static void reset_all(struct watches *all)
{
	for (struct list *node = all->watches.next; node != &all->watches; node = node->next)
		watch_reset(list_entry(node, struct watch, link), WATCH_WAITING);
}

void sync_begin(struct watches *all)
{
	if (!all->notices->proved || all->n_watches == 0 || all->leaving)
		return;
	all->state = SYNC_BEGINNING;
	engine_watch(all->engine, on_told, all);
}

void sync_end(struct watches *all)
{
	all->state = SYNC_OFF;
	all->round++;
	engine_watch(all->engine, NULL, NULL);
	if (!all->closing)
		uv_timer_stop(&all->settle_timer);
}

static void on_told(void *owner, int64_t sent_ms, bool unbroken)
{
	struct watches *all = owner;
	bool gap = !unbroken || clock_ms() - all->told_ms >= WATCH_GRACE_MS;

	all->told_ms = sent_ms;
	if (all->state == SYNC_BEGINNING || (all->state != SYNC_OFF && gap))
		settle(all);
}

static void settle(struct watches *all)
{
	if (all->state == SYNC_SURE)
		log_event(LOG_INFO, "watches_begin_anew", "why", 's',
			"the other daemons took this one for dead", NULL);
	reset_all(all);
	all->state = SYNC_SETTLING;
	all->round++;
	all->poll_ms = SETTLE_POLL_MS;
	uv_timer_stop(&all->settle_timer);
	free(all->others);
	all->others = NULL;
	ask_changing(all);
}

static void ask_again(struct watches *all)
{
	if (all->leaving)
		return;
	uv_timer_start(&all->settle_timer, sync_on_settle_timer, (uint64_t)all->poll_ms, 0);
	if (all->poll_ms < SETTLE_POLL_MAX_MS)
		all->poll_ms *= 2;
}

static void ask_changing(struct watches *all)
{
	size_t len = all->others ? strlen(all->others) : 0;
	struct question *q = question_new(all, NULL, VERB_CHANGING, len + 1);

	if (q) {
		memcpy(q->texts, all->others ? all->others : "", len);
		q->req.prefix = (struct text){ q->texts, len };
	}
	if (!q || question_ask(q, on_changing) < 0)
		ask_again(all);
}

void sync_on_settle_timer(uv_timer_t *timer)
{
	ask_changing(timer->data);
}

static void on_changing(struct request *req)
{
	struct question *q = req->owner;
	struct watches *all = q->all;

	if (all->state == SYNC_SETTLING && q->round == all->round) {
		if (req->status < 0) {
			ask_again(all);
		} else if (!*req->others) {
			sure(all);
		} else {
			free(all->others);
			all->others = req->others;
			req->others = NULL;
			all->other_pid = req->claim.pid;
			ask_again(all);
		}
	}
	question_free(q);
}

static void sure(struct watches *all)
{
	all->state = SYNC_SURE;
	free(all->others);
	all->others = NULL;
	for (struct list *node = all->watches.next; node != &all->watches; node = node->next)
		list_begin(list_entry(node, struct watch, link));
}

bool sync_check(struct watches *all)
{
	if (clock_ms() - all->told_ms < WATCH_GRACE_MS)
		return true;
	log_event(LOG_INFO, "watches_begin_anew", "why", 's', "this daemon was not seen for too long", NULL);
	reset_all(all);
	sync_begin(all);
	return false;
}

void watches_set_listening(struct watches *all, bool listening)
{
	if (listening) {
		sync_begin(all);
		return;
	}
	reset_all(all);
	sync_end(all);
}

static void explain_waiting(const struct watches *all, struct leased_error *ret_why)
{
	if (!all->notices->proved)
		fail(ret_why, LEASED_EUNAVAILABLE, "changes cannot be told: %s", all->notices->why);
	else if (all->state == SYNC_SETTLING && all->others)
		fail(ret_why, LEASED_EUNAVAILABLE,
			"a transaction that changes leases has been open for too long (process %d of the database): it must end first",
			all->other_pid);
	else
		fail(ret_why, LEASED_EUNAVAILABLE, "the database has not answered in time");
}

void watches_tick(struct watches *all)
{
	int64_t now = clock_ms();
	struct list *node = all->watches.next;
	struct leased_error why;

	if (all->state == SYNC_SURE)
		sync_check(all);
	watches_enter(all);
	while (node != &all->watches) {
		struct watch *w = list_entry(node, struct watch, link);

		node = node->next;
		if (w->state != WATCH_WAITING)
			continue;
		if (all->state == SYNC_SURE) {
			list_begin(w);
		} else if (now - w->waiting_ms >= all->config->request_timeout_ms) {
			explain_waiting(all, &why);
			watch_end(w, why.status, why.text);
			node = all->watches.next; /* others may have gone with it */
		}
	}
	watches_exit(all);
}
