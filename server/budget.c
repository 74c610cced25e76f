#include "budget.h"

#define HANDSHAKE 1000 /* of struct budget's left */

void budget_init(struct budget *b)
{
	*b = (struct budget){ .left = 0 };
	list_init(&b->known);
	list_init(&b->others);
}

/* What a tenth of a second brings, and at least one. */
static int64_t savings(int64_t rate)
{
	return rate / 10 * HANDSHAKE > HANDSHAKE ? rate / 10 * HANDSHAKE : HANDSHAKE;
}

bool budget_take(struct budget *b, int64_t rate, int64_t now_ms)
{
	int64_t passed = now_ms - b->since_ms, most = savings(rate);

	/* The first time passed is anything. */
	b->left = passed > 1000 || b->left + passed * rate > most ? most : b->left + passed * rate;
	b->since_ms = now_ms;
	if (b->left < HANDSHAKE)
		return false;
	b->left -= HANDSHAKE;
	return true;
}

static struct list *line_of(struct budget *b, const struct neighbour *n, int64_t now_ms)
{
	return neighbour_is_known(n, now_ms) ? &b->known : &b->others;
}

void budget_repay(struct budget *b, struct neighbour *n, int64_t now_ms)
{
	b->left += HANDSHAKE;
	neighbour_repay(n);
	neighbour_note_known(n, now_ms);
	if (list_empty(&n->turn))
		return;
	list_remove(&n->turn);
	list_append(line_of(b, n, now_ms), &n->turn);
}

void budget_wait(struct budget *b, struct neighbour *n, struct list *node, int64_t now_ms)
{
	if (list_empty(&n->waiting))
		list_append(line_of(b, n, now_ms), &n->turn);
	list_append(&n->waiting, node);
}

void budget_leave(struct neighbour *n, struct list *node)
{
	list_remove(node);
	if (list_empty(&n->waiting))
		list_remove(&n->turn);
}

bool budget_somebody_waits(const struct budget *b)
{
	return !list_empty(&b->known) || !list_empty(&b->others);
}

struct list *budget_next(struct budget *b)
{
	struct list *line = list_empty(&b->known) ? &b->others : &b->known, *turn = list_pop(line), *node;
	struct neighbour *n;

	if (!turn)
		return NULL;
	n = list_entry(turn, struct neighbour, turn);
	node = list_pop(&n->waiting);
	if (!list_empty(&n->waiting))
		list_append(line, turn); /* behind all other addresses */
	return node;
}
