/*
 * waiters.h - who waits for which name: a FIFO of requests per name, and two sets of deadlines behind
 * one timer (when to look at a name again; when a request's own pause or wait ends).
 * Loop thread. Knows nothing of the store; the engine decides.
 */
#ifndef WAITERS_H
#define WAITERS_H

#include <uthash.h>
#include <uv.h>

#include "heap.h"
#include "list.h"
#include "request.h"

/* A name that is asked for or waited for right now; gone when nobody does. */
struct name_queue {
	struct list waiting;      /* request.link, by place, those without one last; without `asking` */
	struct request *asking;   /* the one whose turn it is, while the store has it */
	struct heap_node timer;   /* when to ask again though nobody told us to */
	bool again;               /* something changed while it was being asked */
	uint32_t n_waiting;
	uint32_t n_drawing;       /* requests of this name that draw a place just now */
	uint16_t rounds;          /* in a row that found it neither held nor to be had */
	UT_hash_handle hh;
	uint8_t name_len;
	char name[];
};

struct waiters {
	struct name_queue *queues; /* by name */
	struct heap names;         /* name_queue.timer */
	struct heap requests;      /* request.timer */
	uv_timer_t timer;
	uint8_t hash_key[16];      /* names come from outside: a fixed hash could be flooded */
	size_t n_waiting; /* of those that wish to wait */
	size_t n_brief;   /* and of the others, that stay for one answer */
	void (*on_name_due)(void *owner, struct name_queue *queue);
	void (*on_request_due)(void *owner, struct request *req);
	void (*closed)(void *owner);
	void *owner;
	bool closing;
};

void waiters_init(struct waiters *w, uv_loop_t *loop, void *owner,
	void (*on_name_due)(void *owner, struct name_queue *queue),
	void (*on_request_due)(void *owner, struct request *req));

/* The queue of a name, or NULL. */
struct name_queue *waiters_find(struct waiters *w, struct text name);

/* The same, made when there is none. NULL: out of memory. */
struct name_queue *waiters_get(struct waiters *w, struct text name);

/* Nobody asks for the name or waits for it. */
bool waiters_is_idle(const struct name_queue *queue);

/* Drops a queue that is idle. */
void waiters_put(struct waiters *w, struct name_queue *queue);

/* Joins where its place is, or at the end. Sets req->queue. */
void waiters_join(struct waiters *w, struct name_queue *queue, struct request *req);

/* Leaves the queue; the request's own timer is taken out too. */
void waiters_leave(struct waiters *w, struct request *req);

/* The first in line, or NULL. */
struct request *waiters_first(const struct name_queue *queue);

/* Sets when on_name_due or on_request_due runs, monotonic milliseconds. 0 or LEASED_ENOMEM. */
int waiters_name_timer(struct waiters *w, struct name_queue *queue, int64_t due_ms);
int waiters_request_timer(struct waiters *w, struct request *req, int64_t due_ms);
void waiters_stop_timer(struct waiters *w, struct request *req);
void waiters_stop_name_timer(struct waiters *w, struct name_queue *queue);

/* Closes the timer; all requests have been answered. closed runs when the memory may go. */
void waiters_close(struct waiters *w, void (*closed)(void *owner));

#endif
