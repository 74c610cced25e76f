#include <sodium.h>
#include <stdlib.h>
#include <string.h>

static const unsigned char *hash_key;

/* uthash, with SipHash under a random key and an out-of-memory that is told instead of exit(). */
#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(element) ((element)->name_len = 0)
#define HASH_FUNCTION(key, len, value)                                                             \
	do {                                                                                       \
		unsigned char full[crypto_shorthash_BYTES];                                        \
		crypto_shorthash(full, (const unsigned char *)(key), (len), hash_key);             \
		memcpy(&(value), full, sizeof(value));                                             \
	} while (0)

#include "waiters.h"

#include "clock.h"

static void on_timer(uv_timer_t *timer);

void waiters_init(struct waiters *w, uv_loop_t *loop, void *owner,
	void (*on_name_due)(void *owner, struct name_queue *queue),
	void (*on_request_due)(void *owner, struct request *req))
{
	*w = (struct waiters){ .owner = owner, .on_name_due = on_name_due,
		.on_request_due = on_request_due };
	randombytes_buf(w->hash_key, sizeof w->hash_key);
	uv_timer_init(loop, &w->timer);
	w->timer.data = w;
}

/* One timer for the nearest deadline of all. */
static void arm(struct waiters *w)
{
	const struct heap_node *name = heap_first(&w->names), *req = heap_first(&w->requests);
	int64_t due = INT64_MAX, wait;

	if (w->closing)
		return;
	if (name)
		due = name->due_ms;
	if (req && req->due_ms < due)
		due = req->due_ms;
	if (due == INT64_MAX) {
		uv_timer_stop(&w->timer);
		return;
	}
	wait = due - clock_ms();
	uv_timer_start(&w->timer, on_timer, wait > 0 ? (uint64_t)wait : 0, 0);
}

static void on_timer(uv_timer_t *timer)
{
	struct waiters *w = timer->data;
	int64_t now = clock_ms();
	struct heap_node *node;

	while ((node = heap_first(&w->requests)) && node->due_ms <= now) {
		heap_remove(&w->requests, node);
		w->on_request_due(w->owner, list_entry(node, struct request, timer));
	}
	while ((node = heap_first(&w->names)) && node->due_ms <= now) {
		heap_remove(&w->names, node);
		w->on_name_due(w->owner, list_entry(node, struct name_queue, timer));
	}
	arm(w);
}

struct name_queue *waiters_find(struct waiters *w, struct text name)
{
	struct name_queue *queue;

	hash_key = w->hash_key;
	HASH_FIND(hh, w->queues, name.data, name.len, queue);
	return queue;
}

struct name_queue *waiters_get(struct waiters *w, struct text name)
{
	struct name_queue *queue = waiters_find(w, name);

	if (queue)
		return queue;
	queue = calloc(1, sizeof *queue + name.len);
	if (!queue)
		return NULL;
	list_init(&queue->waiting);
	queue->name_len = (uint8_t)name.len;
	memcpy(queue->name, name.data, name.len);
	HASH_ADD(hh, w->queues, name, name.len, queue);
	if (queue->name_len == 0) {
		free(queue);
		return NULL;
	}
	return queue;
}

bool waiters_is_idle(const struct name_queue *queue)
{
	return !queue->asking && queue->n_drawing == 0 && list_empty(&queue->waiting);
}

void waiters_put(struct waiters *w, struct name_queue *queue)
{
	if (!waiters_is_idle(queue))
		return;
	heap_remove(&w->names, &queue->timer);
	HASH_DELETE(hh, w->queues, queue);
	free(queue);
}

static size_t *count_of(struct waiters *w, const struct request *req)
{
	return req->wait_ms > 0 ? &w->n_waiting : &w->n_brief;
}

static int64_t place_of(struct list *node)
{
	int64_t place = list_entry(node, struct request, link)->place;

	return place > 0 ? place : INT64_MAX;
}

/* Most come to the end, or back to the head. */
static struct list *find_place(struct name_queue *queue, int64_t place)
{
	struct list *node = queue->waiting.next;

	if (list_empty(&queue->waiting) || place_of(queue->waiting.prev) <= place)
		return queue->waiting.prev;
	while (place_of(node) <= place)
		node = node->next;
	return node->prev;
}

void waiters_join(struct waiters *w, struct name_queue *queue, struct request *req)
{
	int64_t place = req->place > 0 ? req->place : INT64_MAX;

	req->queue = queue;
	req->where = REQ_PARKED;
	list_prepend(find_place(queue, place), &req->link); /* behind that node */
	queue->n_waiting++;
	++*count_of(w, req);
}

void waiters_leave(struct waiters *w, struct request *req)
{
	list_remove(&req->link);
	heap_remove(&w->requests, &req->timer);
	req->queue->n_waiting--;
	req->queue = NULL;
	--*count_of(w, req);
}

struct request *waiters_first(const struct name_queue *queue)
{
	if (list_empty(&queue->waiting))
		return NULL;
	return list_entry(queue->waiting.next, struct request, link);
}

int waiters_name_timer(struct waiters *w, struct name_queue *queue, int64_t due_ms)
{
	int rc = heap_set(&w->names, &queue->timer, due_ms);

	arm(w);
	return rc;
}

int waiters_request_timer(struct waiters *w, struct request *req, int64_t due_ms)
{
	int rc = heap_set(&w->requests, &req->timer, due_ms);

	arm(w);
	return rc;
}

void waiters_stop_name_timer(struct waiters *w, struct name_queue *queue)
{
	heap_remove(&w->names, &queue->timer);
}

void waiters_stop_timer(struct waiters *w, struct request *req)
{
	heap_remove(&w->requests, &req->timer);
}

static void on_closed(uv_handle_t *handle)
{
	struct waiters *w = handle->data;

	heap_fini(&w->names);
	heap_fini(&w->requests);
	w->closed(w->owner);
}

void waiters_close(struct waiters *w, void (*closed)(void *owner))
{
	w->closing = true;
	w->closed = closed;
	uv_close((uv_handle_t *)&w->timer, on_closed);
}
