/*
 * heap.h - an ordered set of deadlines, so that all of them share one timer. A binary heap of
 * pointers to embedded nodes; 0-filled nodes are outside. Loop thread.
 */
#ifndef HEAP_H
#define HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
	int64_t due_ms;
	size_t place; /* index + 1; 0: not in the heap */
};

struct heap {
	struct heap_node **nodes;
	size_t n, size;
};

void heap_fini(struct heap *heap);

/* Puts node in, or moves it, to be due at due_ms. 0 or LEASED_ENOMEM (only for a node not in yet). */
int heap_set(struct heap *heap, struct heap_node *node, int64_t due_ms);

/* Takes node out; one that is not in is left alone. */
void heap_remove(struct heap *heap, struct heap_node *node);

/* The earliest node, or NULL. */
struct heap_node *heap_first(const struct heap *heap);

#endif
