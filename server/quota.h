/*
 * quota.h - how much each principal uses of this daemon: connections, requests a second, acquires that wait, leases
 * held. What is over a limit is refused with LEASED_EBUSY. Each daemon counts for itself. Loop thread.
 *
 * Leases are counted as this daemon knows them: names that were acquired or renewed through it and have neither
 * been given back nor expired. Acquires under way count too, each of them may be granted.
 */
#ifndef QUOTA_H
#define QUOTA_H

#include "access.h"
#include "log.h"
#include "request.h"

struct quota;

struct quotas {
	struct quota *by_name; /* a hash table */
};

/* The one of a principal, made when it is new, kept as long as it is in use. NULL: out of memory. */
struct quota *quota_take(struct quotas *all, struct text principal);

/* One more use, and its end. */
void quota_use(struct quota *q);
void quota_put(struct quota *q);

/* Forgets those that nobody uses, and leases that have expired; called every second or so. */
void quotas_tick(struct quotas *all, int64_t now_ns);

/* A connection begins, and ends. */
int quota_connect(struct quota *q, const struct access_limits *limits, struct leased_error *err);
void quota_disconnect(struct quota *q);

/* One request, now. */
int quota_request(struct quota *q, const struct access_limits *limits, int64_t now_ns, struct leased_error *err);

/* An acquire is under way: refused when it waits beside too many, or too many leases are held. */
int quota_acquire(struct quota *q, const struct access_limits *limits, const struct request *req, int64_t now_ms,
	struct leased_error *err);
/* It is over, however it ended. */
void quota_acquired(struct quota *q, size_t n_names, bool waits);

/*
 * A lease is held for so long from now on, or no longer. What is counted already is not twice; a grant with another
 * token than the claim's is left alone.
 */
void quota_keep(struct quota *q, const struct claim *claim, int64_t until_ms);
void quota_drop(struct quota *q, const struct claim *claim);

/* The claim's principal has lost it to somebody else. */
void quota_lose(struct quotas *all, const struct claim *claim);

struct quota_usage {
	size_t leases, waiters, connections;
};

/* leases and waiters are known where they have a bound. */
struct quota_usage quota_usage(struct quota *q, int64_t now_ms);

/* Of the lines about what it was denied. */
struct log_limit *quota_denials(struct quota *q);

/* How many leases it holds, of which none has expired by now. */
size_t quota_held(struct quota *q, int64_t now_ms);

/* Forgets everything. */
void quotas_fini(struct quotas *all);

#endif
