/*
 * neighbours.h - what strangers from one network address may cost. Pure; time comes from the caller.
 *
 * An IPv4 address counts alone, an IPv6 one with all of its /64, which one host can have. Addresses are hashed
 * into a table of fixed size under a random key: nothing is allocated for a stranger, and who shares a place
 * with an attacker, which nobody can choose, shares its limits.
 */
#ifndef NEIGHBOURS_H
#define NEIGHBOURS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "list.h"

#define NEIGHBOURS_SIZE 4096

struct neighbour {
	uint32_t here;  /* connections that have not shown who they are */
	uint32_t debt;  /* handshakes that we have computed, and nobody has gone on with */
	int64_t since_ms; /* debt was counted down until then */
	int64_t known_until_ms;
	struct list waiting; /* who waits for a turn, see budget.h; the oldest first */
	struct list turn;    /* in one of budget's lines while somebody waits */
};

struct neighbours {
	uint8_t key[16];
	struct neighbour all[NEIGHBOURS_SIZE];
};

void neighbours_init(struct neighbours *n);

/* The place of an address; NULL never. */
struct neighbour *neighbours_find(struct neighbours *n, const struct sockaddr_storage *address);

/*
 * Whether another handshake may be computed for this neighbour, who may owe us max; if so it owes one more. A
 * tenth of max is forgiven each second.
 */
bool neighbour_may_ask(struct neighbour *n, uint32_t max, int64_t now_ms);

/* One has gone on: that was no waste. */
void neighbour_repay(struct neighbour *n);

/* A client that we know has come from there; for a day that is remembered. */
void neighbour_note_known(struct neighbour *n, int64_t now_ms);
bool neighbour_is_known(const struct neighbour *n, int64_t now_ms);

#endif
