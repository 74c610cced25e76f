/*
 * holdings.h - leases that shall be given back when their holder goes away: when its connection ends, or
 * when a process dies, which the kernel tells through a pidfd even while a child keeps the connection
 * open. What this daemon forgets (its own end) expires by its ttl. Loop thread.
 */
#ifndef HOLDINGS_H
#define HOLDINGS_H

#include <uv.h>

#include "engine.h"

struct holdings;
struct session;

int holdings_new(struct holdings **ret_holdings, uv_loop_t *loop, struct engine *engine);

/* Whether a peer may have this process watched: it is its own, or it is root. LEASED_EDATA if not. */
int holdings_check_pid(pid_t pid, pid_t peer, uid_t peer_uid, struct leased_error *err);

/*
 * A lease that is to be given back is held through s: req granted or renewed it. Its watched_pid, when
 * there is one, must die; otherwise the connection must end, or its process die. s may be NULL: the
 * client went while it was granted. The claim is copied.
 */
void holdings_keep(struct holdings *h, struct session *s, const struct request *req);

/* It was released. */
void holdings_drop(struct holdings *h, const struct claim *claim);

/* The connection has ended: gives back what hangs on it. */
void holdings_end(struct holdings *h, struct session *s);

/* The daemon leaves: from here on nothing is given back, for the clients go on at another one. */
void holdings_leave(struct holdings *h);

/* Forgets what has expired without its client; called every second or so. */
void holdings_tick(struct holdings *h);

/* Frees; the watches close in later loop turns. */
void holdings_free(struct holdings *h);

#endif
