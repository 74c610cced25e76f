#include "quota.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t *hash_key(void);

/* Names come from outside: SipHash under a random key, and an out-of-memory that is told. */
#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(element) ((element)->hh.key = NULL)
#define HASH_FUNCTION(text, len, value)                                                            \
	do {                                                                                       \
		unsigned char full[crypto_shorthash_BYTES];                                        \
		crypto_shorthash(full, (const unsigned char *)(text), (len), hash_key());          \
		memcpy(&(value), full, sizeof(value));                                             \
	} while (0)

#include <uthash.h>

#include "status.h"

#define SECOND_NS INT64_C(1000000000)

/* A name that is held by one holder: all of the holder, since who likes to be counted once chooses what it says it is. */
struct held {
	uint64_t token;
	int64_t until_ms;
	UT_hash_handle hh; /* in quota.held, by nonce, pid, host and name */
	char key[];
};
#define HELD_KEY_MAX (8 + 4 + HOST_MAX_LEN + 1 + NAME_MAX_LEN)

struct quota {
	size_t n_uses;
	size_t n_connections, n_waits;
	size_t n_asked;        /* names of acquires under way */
	int64_t full_ns;       /* when the bucket will be full again, in which a second of requests fits */
	struct held *held;
	struct log_limit denials;
	int64_t next_end_ms;   /* none of held ends before that */
	UT_hash_handle hh;     /* in quotas.by_name */
	size_t name_len;
	char name[];
};

static const uint8_t *hash_key(void)
{
	static uint8_t key[crypto_shorthash_KEYBYTES];
	static bool is_drawn;

	if (!is_drawn)
		randombytes_buf(key, sizeof key);
	is_drawn = true;
	return key;
}

struct quota *quota_take(struct quotas *all, struct text principal)
{
	struct quota *q;

	HASH_FIND(hh, all->by_name, principal.data, principal.len, q);
	if (!q) {
		q = calloc(1, sizeof *q + principal.len);
		if (!q)
			return NULL;
		q->name_len = principal.len;
		memcpy(q->name, principal.data, principal.len);
		HASH_ADD(hh, all->by_name, name, q->name_len, q);
		if (!q->hh.key) {
			free(q);
			return NULL;
		}
	}
	q->n_uses++;
	return q;
}

static void forget_held(struct quota *q, struct held *held)
{
	HASH_DELETE(hh, q->held, held);
	free(held);
}

static void quota_free(struct quotas *all, struct quota *q)
{
	struct held *held, *next;

	HASH_ITER(hh, q->held, held, next)
		forget_held(q, held);
	HASH_DELETE(hh, all->by_name, q);
	free(q);
}

void quota_use(struct quota *q)
{
	q->n_uses++;
}

void quota_put(struct quota *q)
{
	q->n_uses--;
}

/* One whose connections are gone still holds leases, and has its requests behind it. */
void quotas_tick(struct quotas *all, int64_t now_ns)
{
	struct quota *q, *next;

	HASH_ITER(hh, all->by_name, q, next)
	{
		size_t n_held = quota_held(q, now_ns / 1000000); /* forgets what has expired */

		if (q->n_uses == 0 && q->full_ns <= now_ns && n_held == 0)
			quota_free(all, q);
	}
}

void quotas_fini(struct quotas *all)
{
	struct quota *q, *next;

	HASH_ITER(hh, all->by_name, q, next)
		quota_free(all, q);
}

int quota_connect(struct quota *q, const struct access_limits *limits, struct leased_error *err)
{
	if (limits->connections > 0 && q->n_connections >= (size_t)limits->connections)
		return fail(err, LEASED_EBUSY, "%lld connections of yours are open already (connections= in authorized_clients)",
			(long long)limits->connections);
	q->n_connections++;
	return 0;
}

void quota_disconnect(struct quota *q)
{
	q->n_connections--;
}

int quota_request(struct quota *q, const struct access_limits *limits, int64_t now_ns, struct leased_error *err)
{
	int64_t full;

	if (limits->rate == 0)
		return 0;
	full = (q->full_ns > now_ns ? q->full_ns : now_ns) + SECOND_NS / limits->rate;
	if (full - now_ns > SECOND_NS)
		return fail(err, LEASED_EBUSY, "more than %lld requests a second (rate= in authorized_clients): ask again later",
			(long long)limits->rate);
	q->full_ns = full;
	return 0;
}

struct log_limit *quota_denials(struct quota *q)
{
	return &q->denials;
}

static char *put(char *at, const void *data, size_t len)
{
	if (len > 0)
		memcpy(at, data, len);
	return at + len;
}

static size_t held_key(char key[static HELD_KEY_MAX], const struct claim *claim, struct text name)
{
	char *at = put(key, &claim->nonce, sizeof claim->nonce);

	at = put(at, &claim->pid, sizeof claim->pid);
	at = put(at, claim->host.data, claim->host.len);
	at = put(at, "", 1); /* a host holds no NUL */
	return (size_t)(put(at, name.data, name.len) - key);
}

static struct held *find_held(struct quota *q, const struct claim *claim, struct text name)
{
	char key[HELD_KEY_MAX];
	size_t len = held_key(key, claim, name);
	struct held *held;

	HASH_FIND(hh, q->held, key, len, held);
	return held;
}

size_t quota_held(struct quota *q, int64_t now_ms)
{
	struct held *held, *next;

	if (now_ms < q->next_end_ms)
		return HASH_COUNT(q->held);
	q->next_end_ms = INT64_MAX;
	HASH_ITER(hh, q->held, held, next)
	{
		if (held->until_ms <= now_ms)
			forget_held(q, held);
		else if (held->until_ms < q->next_end_ms)
			q->next_end_ms = held->until_ms;
	}
	return HASH_COUNT(q->held);
}

/* Who asks again for what it holds gets it. */
static size_t count_new(struct quota *q, const struct request *req)
{
	size_t n = 0;

	if (req->n_names == 0)
		return !find_held(q, &req->claim, req->claim.name);
	for (size_t i = 0; i < req->n_names; i++)
		n += !find_held(q, &req->claim, req->names[i]);
	return n;
}

int quota_acquire(struct quota *q, const struct access_limits *limits, const struct request *req, int64_t now_ms,
	struct leased_error *err)
{
	size_t max = (size_t)limits->leases, n_new = count_new(q, req);
	bool waits = req->wait_ms > 0;

	if (limits->waiters > 0 && waits && q->n_waits >= (size_t)limits->waiters)
		return fail(err, LEASED_EBUSY, "%lld acquires of yours wait already (waiters= in authorized_clients)",
			(long long)limits->waiters);
	if (max > 0 && n_new > 0 && quota_held(q, now_ms) + q->n_asked + n_new > max)
		return fail(err, LEASED_EBUSY,
			"you hold %zu leases and have asked for %zu: with %zu more that is over %zu (leases= in authorized_clients)",
			quota_held(q, now_ms), q->n_asked, n_new, max);
	q->n_asked += req->n_names > 0 ? req->n_names : 1;
	q->n_waits += waits;
	return 0;
}

void quota_acquired(struct quota *q, size_t n_names, bool waits)
{
	q->n_asked -= n_names;
	q->n_waits -= waits;
}

void quota_keep(struct quota *q, const struct claim *claim, int64_t until_ms)
{
	struct held *held = find_held(q, claim, claim->name);
	char key[HELD_KEY_MAX];

	if (!held) {
		size_t len = held_key(key, claim, claim->name);

		held = calloc(1, sizeof *held + len);
		if (!held)
			return; /* it is held without being counted */
		memcpy(held->key, key, len);
		HASH_ADD(hh, q->held, key, len, held);
		if (!held->hh.key) {
			free(held);
			return;
		}
	}
	held->token = claim->token;
	held->until_ms = until_ms;
	if (until_ms < q->next_end_ms || HASH_COUNT(q->held) == 1)
		q->next_end_ms = until_ms;
}

void quota_lose(struct quotas *all, const struct claim *claim)
{
	struct quota *q;

	HASH_FIND(hh, all->by_name, claim->principal.data, claim->principal.len, q);
	if (q)
		quota_drop(q, claim);
}

void quota_drop(struct quota *q, const struct claim *claim)
{
	struct held *held = find_held(q, claim, claim->name);

	if (held && held->token == claim->token)
		forget_held(q, held);
}

struct quota_usage quota_usage(struct quota *q, int64_t now_ms)
{
	return (struct quota_usage){ quota_held(q, now_ms), q->n_waits, q->n_connections };
}
