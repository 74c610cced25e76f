#include "holdings.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <uthash.h>

#include "clock.h"
#include "errands.h"
#include "log.h"
#include "name.h"
#include "session.h"
#include "status.h"

/* A process whose death matters; there while a holding names it. */
struct watch {
	pid_t pid;
	int fd;
	uv_poll_t poll;
	struct list holdings; /* holding.of_watch */
	struct holdings *all;
	UT_hash_handle hh;
};

/* Several leases that were acquired together have the same token. */
struct key {
	uint64_t token;
	char name[NAME_MAX_LEN];
};

struct holding {
	struct claim claim;
	struct session *session; /* NULL: it has gone */
	bool on_death_only;
	struct watch *watch;
	int64_t expires_ms;
	struct list of_session, of_watch;
	UT_hash_handle hh;
	struct key key;
	char texts[];
};

struct holdings {
	uv_loop_t *loop;
	struct engine *engine;
	struct holding *by_grant;
	struct watch *by_pid;
	bool leaving;
};

int holdings_new(struct holdings **ret_holdings, uv_loop_t *loop, struct engine *engine)
{
	struct holdings *h = calloc(1, sizeof *h);

	if (!h)
		return LEASED_ENOMEM;
	h->loop = loop;
	h->engine = engine;
	*ret_holdings = h;
	return 0;
}

int holdings_check_pid(pid_t pid, pid_t peer, uid_t peer_uid, struct leased_error *err)
{
	char path[32];
	struct stat st;

	if (peer == 0)
		return fail(err, LEASED_EDATA, "a process can be watched over a Unix socket only");
	snprintf(path, sizeof path, "/proc/%d", (int)pid);
	if (pid != peer && stat(path, &st) == 0 && peer_uid != 0 && st.st_uid != peer_uid)
		return fail(err, LEASED_EDATA, "process %d belongs to somebody else", (int)pid);
	return 0;
}

static void on_watch_closed(uv_handle_t *handle)
{
	struct watch *watch = handle->data;

	close(watch->fd);
	free(watch);
}

static void forget(struct holdings *h, struct holding *holding)
{
	struct watch *watch = holding->watch;

	HASH_DEL(h->by_grant, holding);
	list_remove(&holding->of_session);
	list_remove(&holding->of_watch);
	free(holding);
	if (!watch || !list_empty(&watch->holdings))
		return;
	HASH_DEL(h->by_pid, watch);
	uv_close((uv_handle_t *)&watch->poll, on_watch_closed);
}

static void give_back(struct holdings *h, struct holding *holding, const char *why)
{
	char name[NAME_MAX_LEN + 1];

	snprintf(name, sizeof name, "%.*s", (int)holding->claim.name.len, holding->claim.name.data);
	log_event(LOG_INFO, "given_back", "name", 's', name, "token", 'u', holding->claim.token, "why", 's',
		why, NULL);
	errand_release(h->engine, &holding->claim);
	forget(h, holding);
}

static void on_death(uv_poll_t *poll, int status, int events)
{
	struct watch *watch = poll->data;
	struct holdings *h = watch->all;
	struct list *node = watch->holdings.next;
	bool last = false;

	(void)status;
	(void)events;
	uv_poll_stop(poll);
	while (!last) { /* the last one frees the watch */
		struct holding *holding = list_entry(node, struct holding, of_watch);

		node = node->next;
		last = node == &watch->holdings;
		give_back(h, holding, "its process has died");
	}
}

/* NULL: the process cannot be watched, or is dead already. */
static struct watch *watch_pid(struct holdings *h, pid_t pid)
{
	struct watch *watch;

	HASH_FIND(hh, h->by_pid, &pid, sizeof pid, watch);
	if (watch)
		return watch;
	watch = calloc(1, sizeof *watch);
	if (!watch)
		return NULL;
	watch->pid = pid;
	watch->all = h;
	list_init(&watch->holdings);
	watch->fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (watch->fd < 0 || uv_poll_init(h->loop, &watch->poll, watch->fd) < 0) {
		if (watch->fd >= 0)
			close(watch->fd);
		free(watch);
		return NULL;
	}
	watch->poll.data = watch;
	uv_poll_start(&watch->poll, UV_READABLE, on_death);
	HASH_ADD(hh, h->by_pid, pid, sizeof watch->pid, watch);
	return watch;
}

static struct text keep(char **at, struct text text)
{
	struct text copy = { memcpy(*at, text.data, text.len), text.len };

	*at += text.len;
	return copy;
}

/* Bytes of the key. */
static size_t fill_key(struct key *ret_key, const struct claim *claim)
{
	ret_key->token = claim->token;
	memcpy(ret_key->name, claim->name.data, claim->name.len);
	return offsetof(struct key, name) + claim->name.len;
}

static struct holding *holding_new(struct holdings *h, const struct claim *claim)
{
	struct holding *holding = calloc(1, sizeof *holding + claim->name.len + claim->host.len +
						    claim->principal.len);
	char *at;

	if (!holding)
		return NULL;
	at = holding->texts;
	holding->claim = *claim;
	holding->claim.name = keep(&at, claim->name);
	holding->claim.host = keep(&at, claim->host);
	holding->claim.principal = keep(&at, claim->principal);
	list_init(&holding->of_session);
	list_init(&holding->of_watch);
	HASH_ADD_KEYPTR(hh, h->by_grant, &holding->key, fill_key(&holding->key, claim), holding);
	return holding;
}

static struct holding *find(struct holdings *h, const struct claim *claim)
{
	struct holding *holding;
	struct key key;
	size_t len = fill_key(&key, claim);

	HASH_FIND(hh, h->by_grant, &key, len, holding);
	return holding;
}

void holdings_keep(struct holdings *h, struct session *s, const struct request *req)
{
	struct holding *holding = find(h, &req->claim);
	pid_t pid = req->watched_pid;

	if (h->leaving)
		return;
	if (!holding) {
		holding = holding_new(h, &req->claim);
		if (!holding)
			return; /* then it expires by itself */
		holding->on_death_only = pid > 0;
		pid = pid > 0 || !s ? pid : s->principal.pid;
		holding->watch = pid > 0 ? watch_pid(h, pid) : NULL;
		if (holding->watch)
			list_append(&holding->watch->holdings, &holding->of_watch);
	}
	holding->expires_ms = clock_ms() + req->expires_in_ms;
	holding->session = s;
	list_remove(&holding->of_session);
	if (s)
		list_append(&s->holdings, &holding->of_session);
	if (pid > 0 && !holding->watch)
		give_back(h, holding, "its process is dead or cannot be watched");
	else if (!s && !holding->on_death_only)
		give_back(h, holding, "its connection ended while it was granted");
}

void holdings_drop(struct holdings *h, const struct claim *claim)
{
	struct holding *holding = find(h, claim);

	if (holding)
		forget(h, holding);
}

void holdings_end(struct holdings *h, struct session *s)
{
	struct list *node;

	while ((node = list_pop(&s->holdings))) {
		struct holding *holding = list_entry(node, struct holding, of_session);

		holding->session = NULL;
		if (!holding->on_death_only && !h->leaving)
			give_back(h, holding, "its connection has ended");
	}
}

void holdings_leave(struct holdings *h)
{
	h->leaving = true;
}

void holdings_tick(struct holdings *h)
{
	struct holding *holding, *next;
	int64_t now = clock_ms();

	HASH_ITER(hh, h->by_grant, holding, next)
	{
		if (!holding->session && holding->expires_ms < now)
			forget(h, holding);
	}
}

void holdings_free(struct holdings *h)
{
	struct holding *holding, *next;

	HASH_ITER(hh, h->by_grant, holding, next)
	{
		forget(h, holding);
	}
	free(h);
}
