/*
 * budget.h - how many handshakes we compute for strangers, over all addresses, and whose turn is next. Pure; time
 * comes from the caller.
 *
 * A handshake costs some 0.2 ms of CPU, and whoever knows our public key can ask for one. So many a second are
 * computed for strangers who do not go on; what is not spent is saved up, for a tenth of a second. A client that we
 * know gives back what its handshake has cost, so that these are limited by nothing but their number at once.
 *
 * When all is spent they wait, and come in turns, one for each address: first the addresses from which a client that
 * we know has come lately, then the others. So a flood from a few addresses, or from many on which no client of ours
 * is, makes others wait for moments only.
 */
#ifndef BUDGET_H
#define BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "list.h"
#include "neighbours.h"

struct budget {
	int64_t left;              /* thousandths of a handshake */
	int64_t since_ms;          /* left was counted up until then */
	struct list known, others; /* neighbour.turn: where somebody waits, the next one first */
};

void budget_init(struct budget *b);

/* Whether one more may be computed now, at this rate a second; it is paid for then. */
bool budget_take(struct budget *b, int64_t rate, int64_t now_ms);

/* A client that we know has gone on, from this neighbour. */
void budget_repay(struct budget *b, struct neighbour *n, int64_t now_ms);

/* node waits for the turn of its neighbour, until budget_next or budget_leave. */
void budget_wait(struct budget *b, struct neighbour *n, struct list *node, int64_t now_ms);
void budget_leave(struct neighbour *n, struct list *node);

bool budget_somebody_waits(const struct budget *b);

/* Whose turn it is; it waits no more. NULL: nobody waits. */
struct list *budget_next(struct budget *b);

#endif
