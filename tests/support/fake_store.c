#include "fake_store.h"

#include <stdlib.h>
#include <string.h>

struct store {
	struct list queue; /* request.link, oldest first */
	size_t queued;
	store_answer_cb answer;
	void *owner;
	struct store_stats stats;
};

int store_new(struct store **ret_store, uv_loop_t *loop, const struct config *config,
	store_answer_cb answer, void *owner, struct leased_error *err)
{
	struct store *s = calloc(1, sizeof *s);

	(void)loop;
	(void)config;
	(void)err;
	if (!s)
		return LEASED_ENOMEM;
	list_init(&s->queue);
	s->answer = answer;
	s->owner = owner;
	*ret_store = s;
	return 0;
}

void store_submit(struct store *s, struct request *req)
{
	free(req->view);
	free(req->done_by);
	req->view = NULL;
	req->done_by = NULL;
	req->status = 0;
	req->found = false;
	s->queued++;
	list_append(&s->queue, &req->link);
}

struct request *fake_store_take(struct store *s)
{
	struct list *node = list_pop(&s->queue);

	return node ? list_entry(node, struct request, link) : NULL;
}

static void answer(struct store *s, struct request *req)
{
	s->queued--;
	s->answer(s->owner, req);
}

void fake_store_miss(struct store *s, struct request *req)
{
	answer(s, req);
}

void fake_store_hit(struct store *s, struct request *req)
{
	req->found = true;
	answer(s, req);
}

void fake_store_grant(struct store *s, struct request *req, uint64_t token, int64_t expires_in_ms)
{
	req->claim.token = token;
	req->expires_in_ms = expires_in_ms;
	fake_store_hit(s, req);
}

static void show(struct request *req, const struct claim *claim, bool released,
	int64_t expires_in_ms)
{
	req->view = calloc(1, sizeof *req->view);
	if (!req->view)
		abort();
	req->view->claim = *claim;
	req->view->released = released;
	req->view->expires_in_ms = expires_in_ms;
	req->has_room = expires_in_ms <= 0;
}

void fake_store_show(struct store *s, struct request *req, const struct claim *claim, bool released,
	int64_t expires_in_ms)
{
	show(req, claim, released, expires_in_ms);
	fake_store_hit(s, req);
}

void fake_store_show_done(struct store *s, struct request *req, const struct claim *claim,
	int64_t expires_in_ms, const struct claim *by)
{
	if (claim)
		show(req, claim, false, expires_in_ms);
	req->done_by = calloc(1, sizeof *req->done_by);
	if (!req->done_by)
		abort();
	req->done_by->claim = *by;
	req->done_by->by_slot = true;
	fake_store_hit(s, req);
}

void fake_store_place(struct store *s, struct request *req, int64_t place)
{
	req->place_drawn = place;
	req->place_sure = req->place_fresh = true;
	fake_store_hit(s, req);
}

void fake_store_fail(struct store *s, struct request *req, int status)
{
	req->status = status;
	answer(s, req);
}

void store_flush(struct store *s)
{
	(void)s;
}

size_t store_queued(const struct store *s)
{
	return s->queued;
}

int64_t store_daemon(const struct store *s)
{
	(void)s;
	return 77;
}

bool store_is_ready(const struct store *s)
{
	(void)s;
	return true;
}

void store_info(const struct store *s, struct db_info *ret_info, char *problem, size_t size)
{
	(void)s;
	*ret_info = (struct db_info){ 0 };
	if (size > 0)
		*problem = '\0';
}

const struct store_stats *store_stats(const struct store *s)
{
	return &s->stats;
}

void store_close(struct store *s, void (*closed)(void *owner))
{
	struct request *req;
	void *owner = s->owner;

	while ((req = fake_store_take(s)))
		fake_store_fail(s, req, LEASED_EUNAVAILABLE);
	free(s);
	closed(owner);
}
