#include "pending.h"

void pending_init(struct pending *p)
{
	for (size_t i = 0; i < PENDING_QUEUES; i++)
		list_init(&p->queues[i]);
	p->n = 0;
}

enum verb pending_statement(const struct request *req)
{
	if (req->looking)
		return req->n_names > 0 ? VERB_LOOK_SEVERAL : VERB_LOOK;
	if (req->queueing)
		return VERB_QUEUE;
	if (req->verb == VERB_RELEASE && (req->retry || req->uncertain))
		return VERB_RELEASE_AGAIN;
	if (req->verb == VERB_RENEW && req->has_value)
		return VERB_RENEW_VALUE;
	if (req->verb == VERB_ACQUIRE && (req->slot.len > 0 || req->every_ms > 0 || req->max_holders > 1 ||
						 req->n_names > 0 || req->by_call))
		return VERB_ACQUIRE_LIMITED;
	return req->verb;
}

/*
 * What locks rows that may not exist yet does so in the order of the names, in all of its transaction:
 * several leases at once have an order of their own.
 */
static struct list *queue_of(struct pending *p, const struct request *req)
{
	enum verb verb = pending_statement(req);
	bool is_several = req->n_names > 0 && verb == VERB_ACQUIRE_LIMITED;

	return &p->queues[req->solo || is_several ? PENDING_SOLO : (size_t)verb];
}

void pending_add(struct pending *p, struct request *req)
{
	p->n++;
	list_append(queue_of(p, req), &req->link);
}

void pending_add_first(struct pending *p, struct request *req)
{
	p->n++;
	list_prepend(queue_of(p, req), &req->link);
}

struct request *pending_pop(struct pending *p, size_t queue)
{
	struct list *node = list_pop(&p->queues[queue]);

	if (!node)
		return NULL;
	p->n--;
	return list_entry(node, struct request, link);
}

/* Deadlines stand in no order: whatever is asked again keeps its own. */
void pending_take_overdue(struct pending *p, int64_t now_ms, struct list *ret_overdue)
{
	list_init(ret_overdue);
	for (size_t i = 0; i < PENDING_QUEUES; i++) {
		struct list *node = p->queues[i].next;

		while (node != &p->queues[i]) {
			struct request *req = list_entry(node, struct request, link);

			node = node->next;
			if (req->deadline_ms > now_ms)
				continue;
			list_remove(&req->link);
			list_append(ret_overdue, &req->link);
			p->n--;
		}
	}
}

bool pending_has_leases(const struct pending *p)
{
	for (size_t verb = VERB_RELEASE; verb < VERB_HISTORY; verb++)
		if (!list_empty(&p->queues[verb]))
			return true;
	return !list_empty(&p->queues[PENDING_SOLO]);
}

enum verb pending_first_aside(const struct pending *p)
{
	enum verb verb = VERB_HISTORY;

	while (verb < VERB_COUNT && list_empty(&p->queues[verb]))
		verb++;
	return verb;
}
