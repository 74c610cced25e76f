/*
 * list.h - an intrusive doubly linked list. A head says in its comment what hangs there.
 * No allocation, no locks.
 */
#ifndef LIST_H
#define LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *prev, *next;
};

#define list_entry(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

static inline void list_init(struct list *head)
{
	head->prev = head->next = head;
}

static inline bool list_empty(const struct list *head)
{
	return head->next == head;
}

static inline void list_append(struct list *head, struct list *node)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

static inline void list_prepend(struct list *head, struct list *node)
{
	list_append(head->next, node);
}

/* Leaves node as a head of its own, so that removing it again does no harm. */
static inline void list_remove(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

/* The first node taken out, or NULL. */
static inline struct list *list_pop(struct list *head)
{
	struct list *node = head->next;

	if (node == head)
		return NULL;
	list_remove(node);
	return node;
}

#endif
