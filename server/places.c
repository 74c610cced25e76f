#include "places.h"

#include "errands.h"
#include "turns.h"

void places_set(struct engine *e, struct request *req, int64_t place)
{
	e->n_placed += (size_t)(place > 0) - (size_t)(req->place > 0);
	req->place = place;
	req->place_lost = false;
	req->asked = false;
	if (place > 0 && !uv_is_active((uv_handle_t *)&e->beat))
		uv_timer_start(&e->beat, errand_on_beat, BEAT_MS, BEAT_MS);
}

void places_draw(struct engine *e, struct name_queue *queue, struct request *req)
{
	queue->n_drawing++;
	req->queue = queue;
	req->queueing = true;
	req->deadline_ms = turns_answer_by(e, req);
	engine_ask(e, req);
}

/* A release was under way when the place was drawn: it may not have seen it. */
static void draw_again(struct engine *e, struct name_queue *queue, struct request *req)
{
	if (engine_pause(e, req) < 0) {
		engine_finish(e, req, LEASED_ENOMEM);
		return;
	}
	req->queue = queue;
	queue->n_drawing++;
}

/* Somebody here stands before it, and is told of every release. */
static bool is_covered(const struct name_queue *queue, const struct request *req)
{
	const struct request *first = queue->asking ? queue->asking : waiters_first(queue);

	return first && first->place > 0 && first->place < req->place;
}

void places_take(struct engine *e, struct request *req)
{
	struct name_queue *queue = req->queue;
	const struct request *first;
	int status = req->status;

	req->queue = NULL;
	req->queueing = false;
	queue->n_drawing--;
	/* What we missed while the others took us for dead, or the server was away, the others missed too. */
	if (status == 0 && (!req->place_fresh || req->uncertain))
		places_draw_all(e);
	if (status == 0) {
		req->uncertain = false;
		places_set(e, req, req->place_drawn);
		req->asked = is_covered(queue, req);
	}
	if (status == LEASED_EUNAVAILABLE && !e->closing && !turns_why_not_wait(e, req)) {
		turns_outlast(e, queue, req);
		return;
	}
	if (status == 0)
		status = turns_why_not_wait(e, req);
	if (status == 0 && !req->place_sure) {
		draw_again(e, queue, req);
		return;
	}
	if (status == 0)
		turns_wait_on(e, queue, req);
	first = waiters_first(queue);
	if (!queue->asking && (!first || !first->asked))
		turns_next(e, queue);
	if (status < 0)
		engine_finish(e, req, status);
}

void places_draw_all(struct engine *e)
{
	struct name_queue *queue, *next;

	HASH_ITER(hh, e->waiters.queues, queue, next)
	{
		if (queue->asking && queue->asking->place > 0)
			queue->asking->place_lost = true;
		for (uint32_t i = queue->n_waiting; i > 0; i--) {
			struct request *req = waiters_first(queue);
			bool had_place = req->place > 0;

			waiters_leave(&e->waiters, req);
			places_set(e, req, 0);
			if (had_place)
				places_draw(e, queue, req);
			else
				turns_wait_on(e, queue, req);
		}
	}
}

void places_on_pause_over(struct engine *e, struct request *req)
{
	struct name_queue *queue = req->queue;

	queue->n_drawing--;
	places_draw(e, queue, req);
}
