/*
 * strangers.h - sealed connections until it is known who is there. Loop thread.
 *
 *   ASKING -> WAITING -> ANSWERED -> known: handed over     deadline, any failure: closed, without a word
 *
 * A stranger costs one block of fixed size, and nothing else of it is kept: no session, no place in a queue. Its
 * first packet is checked by its mac before anything is computed, then answered, as soon as that may be paid for (see
 * budget.h); but only the first record that opens proves who has sent it (see noise.h). How many strangers there may
 * be is bounded in all, with a chance to be dropped that grows from half of the bound on (so that who floods us does
 * not shut all others out), and for each neighbour. The last eighth is for neighbours from which a client that we
 * know has come lately, who are not left to chance. Why one was closed is told to our log only.
 */
#ifndef STRANGERS_H
#define STRANGERS_H

#include <uv.h>

#include "budget.h"
#include "config.h"
#include "keyring.h"
#include "list.h"
#include "log.h"
#include "neighbours.h"
#include "sealed.h"

/* Who has come in, and with what. All of it is gone when on_known returns, but for the descriptor. */
struct arrival {
	int fd;                      /* a TCP connection; it belongs to whom it is given */
	const uint8_t *key;          /* NOISE_KEY_LEN bytes: the client has shown that it has the secret of it */
	const struct handshake_keys *keys;
	const uint8_t *data;         /* what it has said in its first record, at least one byte */
	size_t len;
	int64_t accepted_ms;
};

struct strangers {
	const struct config *config;
	const struct keyring *ring;
	/* Takes the client over, and its descriptor in any case. Is it one that we know? May not close strangers. */
	bool (*on_known)(void *owner, uv_loop_t *loop, const struct arrival *arrival);
	void *owner;
	struct list all; /* stranger.link, oldest first */
	size_t n;        /* in the list */
	uint64_t closed; /* so far */
	struct log_limit limit;
	struct neighbours neighbours;
	struct budget budget;
	uv_timer_t turns; /* active while somebody waits for one */
};

void strangers_init(struct strangers *all, uv_loop_t *loop, const struct config *config, const struct keyring *ring,
	bool (*on_known)(void *owner, uv_loop_t *loop, const struct arrival *arrival), void *owner);

/* Takes the connection that waits on listener. 0, or LEASED_ENOMEM: it still waits. */
int strangers_accept(struct strangers *all, uv_stream_t *listener);

/* Closes those that take too long; called every second or so. */
void strangers_tick(struct strangers *all);

/* Closes all; the loop must go on until that is done. */
void strangers_close(struct strangers *all);

#endif
