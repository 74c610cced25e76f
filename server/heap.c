#include "heap.h"

#include <stdlib.h>

#include "leased_status.h"

static void put(struct heap *heap, size_t i, struct heap_node *node)
{
	heap->nodes[i] = node;
	node->place = i + 1;
}

static void sift_up(struct heap *heap, size_t i)
{
	struct heap_node *node = heap->nodes[i];

	while (i > 0 && node->due_ms < heap->nodes[(i - 1) / 2]->due_ms) {
		put(heap, i, heap->nodes[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	put(heap, i, node);
}

static void sift_down(struct heap *heap, size_t i)
{
	struct heap_node *node = heap->nodes[i];

	for (;;) {
		size_t child = 2 * i + 1;

		if (child + 1 < heap->n &&
			heap->nodes[child + 1]->due_ms < heap->nodes[child]->due_ms)
			child++;
		if (child >= heap->n || heap->nodes[child]->due_ms >= node->due_ms)
			break;
		put(heap, i, heap->nodes[child]);
		i = child;
	}
	put(heap, i, node);
}

void heap_fini(struct heap *heap)
{
	free(heap->nodes);
	*heap = (struct heap){ 0 };
}

static int grow(struct heap *heap)
{
	size_t size = heap->size ? 2 * heap->size : 64;
	struct heap_node **nodes = realloc(heap->nodes, size * sizeof(struct heap_node *));

	if (!nodes)
		return LEASED_ENOMEM;
	heap->nodes = nodes;
	heap->size = size;
	return 0;
}

int heap_set(struct heap *heap, struct heap_node *node, int64_t due_ms)
{
	if (!node->place) {
		int rc = heap->n == heap->size ? grow(heap) : 0;

		if (rc < 0)
			return rc;
		put(heap, heap->n++, node);
	}
	node->due_ms = due_ms;
	sift_up(heap, node->place - 1);
	sift_down(heap, node->place - 1);
	return 0;
}

void heap_remove(struct heap *heap, struct heap_node *node)
{
	size_t i = node->place - 1;
	struct heap_node *last;

	if (!node->place)
		return;
	node->place = 0;
	last = heap->nodes[--heap->n];
	if (last == node)
		return;
	put(heap, i, last);
	sift_up(heap, i);
	sift_down(heap, last->place - 1);
}

struct heap_node *heap_first(const struct heap *heap)
{
	return heap->n ? heap->nodes[0] : NULL;
}
