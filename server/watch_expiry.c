/*
 * An expiry is no statement, so nobody tells of it but who takes the lease later: at the time when a grant
 * that is known would expire the database is asked whether it has, a moment later, since most are taken
 * over at once. The answer is certain or it is not: see expiry.sql.
 */
#include "watch_state.h"

#include <string.h>

#include "clock.h"
#include "log.h"

#define LATER_MS        50
#define AGAIN_MS        100  /* its row was locked */
#define PAUSE_MS        1000 /* no answer; or it is gone, and nobody has told us yet */
#define MISSES_MAX      10
#define EXPIRIES_MAX    1000 /* asked about at once */

static void on_answer(struct request *req);

/* One timer for the nearest of all. */
static void arm(struct watches *all)
{
	const struct heap_node *first = heap_first(&all->expiries);
	int64_t wait;

	if (!first || all->leaving || all->n_expiries >= EXPIRIES_MAX) {
		if (!all->closing)
			uv_timer_stop(&all->expiry_timer);
		return;
	}
	wait = first->due_ms - clock_ms();
	uv_timer_start(&all->expiry_timer, expiry_on_timer, wait > 0 ? (uint64_t)wait : 0, 0);
}

static int look_in(struct followed *lease, int64_t ms)
{
	struct watches *all = lease->watch->all;
	int rc = heap_set(&all->expiries, &lease->timer, clock_ms() + ms);

	if (rc == 0 && heap_first(&all->expiries) == &lease->timer)
		arm(all);
	return rc;
}

int expiry_set(struct followed *lease, int64_t expires_in_ms)
{
	return look_in(lease, (expires_in_ms > 0 ? expires_in_ms : 0) + LATER_MS);
}

static void look_again(struct followed *lease, int64_t ms)
{
	if (look_in(lease, ms) < 0)
		watch_end(lease->watch, LEASED_ENOMEM, "out of memory");
}

static void ask(struct followed *lease)
{
	struct watches *all = lease->watch->all;
	struct text name = lease->claim.name;
	struct question *q = question_new(all, lease->watch, VERB_EXPIRY, name.len);

	heap_remove(&all->expiries, &lease->timer);
	if (q) {
		q->req.claim.name = (struct text){ memcpy(q->texts, name.data, name.len), name.len };
		q->req.claim.token = lease->claim.token;
		all->n_expiries++;
		if (question_ask(q, on_answer) == 0)
			return;
		all->n_expiries--;
	}
	look_again(lease, PAUSE_MS);
}

void expiry_on_timer(uv_timer_t *timer)
{
	struct watches *all = timer->data;
	int64_t now = clock_ms();
	struct heap_node *node;

	watches_enter(all);
	while (all->n_expiries < EXPIRIES_MAX && (node = heap_first(&all->expiries)) &&
		node->due_ms <= now)
		ask(list_entry(node, struct followed, timer));
	arm(all);
	watches_exit(all);
}

/* Gone, and nobody has told us: somebody has changed the table by hand. */
static void take_miss(struct followed *lease)
{
	if (++lease->misses < MISSES_MAX) {
		look_again(lease, PAUSE_MS);
		return;
	}
	log_event(LOG_WARN, "watch_begins_anew", "why", 's',
		"a grant is gone and nothing was told of it", NULL);
	list_begin(lease->watch);
}

static void judge(struct followed *lease, const struct request *req)
{
	struct change expired = { .kind = CHANGE_EXPIRED, .claim = lease->claim };

	if (req->status < 0) {
		look_again(lease, PAUSE_MS);
	} else if (!req->found) {
		take_miss(lease);
	} else if (req->expired) {
		watch_take(lease->watch, &expired);
	} else if (req->expires_in_ms > 0) {
		lease->misses = 0;
		if (expiry_set(lease, req->expires_in_ms) < 0)
			watch_end(lease->watch, LEASED_ENOMEM, "out of memory");
	} else {
		look_again(lease, AGAIN_MS);
	}
}

static void on_answer(struct request *req)
{
	struct question *q = req->owner;
	struct watches *all = q->all;
	struct watch *w = q->watch;
	struct followed *lease = NULL;

	all->n_expiries--;
	watches_enter(all);
	if (w && q->round == w->round)
		lease = watch_find(w, &req->claim);
	if (lease)
		judge(lease, req);
	arm(all);
	watches_exit(all);
	question_free(q);
}
