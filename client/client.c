#include "client.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "client_key.h"
#include "connection.h"
#include "duration.h"
#include "election.h"
#include "key.h"
#include "status.h"
#include "watch.h"

#define NS_PER_MS        INT64_C(1000000)
#define TIMEOUT_MS       12000 /* over a daemon's request_timeout: its own sentence says the cause */
#define OPEN_PATIENCE_MS 2000 /* a daemon that restarts is waited for so long */

int64_t boottime_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void client_wake(struct leased_client *client)
{
	uint64_t one = 1;

	/* Full means that a wake is pending anyway. */
	(void)!write(client->wake_fd, &one, sizeof one);
}

void client_server(const struct leased_client *client, char out[static ADDRESS_TEXT_SIZE])
{
	struct address place = client->servers[client->server];

	place.has_key = false; /* it says nothing to a reader, and is long */
	address_format(out, &place);
}

int client_enter(struct leased_client *client, struct leased_error *err)
{
	int rc = 0;

	if (client->pid != getpid())
		return fail(err, LEASED_ENOTHELD, "a child of fork cannot use its parent's client");
	if (pthread_equal(pthread_self(), client->thread))
		return fail(err, LEASED_EUSAGE, "a callback cannot wait for what its own thread does");
	pthread_mutex_lock(&client->lock);
	if (client->closing)
		rc = fail(err, LEASED_ECANCELLED, "the client closes");
	else
		client->callers++;
	pthread_mutex_unlock(&client->lock);
	return rc;
}

void client_leave(struct leased_client *client)
{
	pthread_mutex_lock(&client->lock);
	if (--client->callers == 0 && client->closing)
		client_wake(client);
	pthread_cond_broadcast(&client->changed);
	pthread_mutex_unlock(&client->lock);
}

struct timespec monotonic_in(int64_t ms)
{
	struct timespec t;
	int64_t ns;

	clock_gettime(CLOCK_MONOTONIC, &t);
	ns = t.tv_nsec + ms % 1000 * NS_PER_MS;
	t.tv_sec += (time_t)(ms / 1000 + ns / 1000000000);
	t.tv_nsec = (long)(ns % 1000000000);
	return t;
}

/* Opening and closing. */

static int read_server(struct address *ret_server, const char *text, size_t len, struct leased_error *err)
{
	char copy[ADDRESS_TEXT_SIZE];
	struct sockaddr_storage addr;
	socklen_t addr_len;
	int rc;

	if (len >= sizeof copy)
		return fail(err, LEASED_EUSAGE, "an address is too long");
	memcpy(copy, text, len);
	copy[len] = '\0';
	rc = address_parse(ret_server, copy, err);
	if (rc == 0)
		rc = address_to_socket(&addr, &addr_len, ret_server, err);
	if (rc == 0 && ret_server->kind == ADDRESS_TCP && !ret_server->has_key &&
		!address_is_loopback_literal(ret_server) && strcmp(ret_server->host, "localhost") != 0)
		rc = fail(err, LEASED_EUSAGE, "%s: TCP beyond loopback needs the key of the daemon: leased://host:port/KEY",
			copy);
	return rc;
}

int client_read_servers(struct address ret_servers[static SERVERS_MAX], size_t *ret_n,
	const char *servers, struct leased_error *err)
{
	size_t n = 0;

	if (!servers)
		servers = getenv("LEASED_SERVER");
	if (!servers || !*servers)
		servers = "unix:/run/leased/leased.sock";
	while (servers) {
		const char *comma = strchrnul(servers, ',');
		int rc;

		if (n == SERVERS_MAX)
			return fail(err, LEASED_EUSAGE, "more than %d addresses", SERVERS_MAX);
		rc = read_server(&ret_servers[n++], servers, (size_t)(comma - servers), err);
		if (rc < 0)
			return rc;
		servers = *comma ? comma + 1 : NULL;
	}
	*ret_n = n;
	return 0;
}

static bool needs_key(const struct leased_client *client)
{
	for (size_t i = 0; i < client->n_servers; i++)
		if (client->servers[i].has_key)
			return true;
	return false;
}

static int load_key(struct leased_client *client, const char *given, struct leased_error *err)
{
	char path[PATH_MAX];
	int rc;

	if (!needs_key(client))
		return 0;
	rc = client_key_path(path, given, err);
	return rc < 0 ? rc : key_load(&client->key, KEY_CLIENT_SECRET, path, err);
}

static int start_thread(struct leased_client *client, struct leased_error *err)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* signals belong to the application */
	rc = pthread_create(&client->thread, NULL, connection_thread, client);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc != 0)
		return fail(err, LEASED_EINTERNAL, "start a thread: %s", strerror(rc));
	return 0;
}

/* One daemon that is there and refuses will do so again; of several, another may just be away. */
static int fail_open(const struct leased_client *client, const char *when, struct leased_error *err)
{
	int status = client->problem.status;
	bool refuses = status == LEASED_EDENIED || status == LEASED_EVERSION || status == LEASED_EPROTO;

	return fail(err, refuses && client->n_servers == 1 ? status : LEASED_EUNAVAILABLE,
		"no daemon %s%s: %s", refuses ? "lets us in" : "answers", when, client->problem.text);
}

/* Until connected; all addresses in vain are tried again for a moment only. */
static int wait_ready(struct leased_client *client, struct leased_error *err)
{
	int64_t begin = boottime_ns(), patience = OPEN_PATIENCE_MS;
	struct timespec until = monotonic_in(client->timeout_ms);
	int rc = 0;

	if (client->timeout_ms < patience)
		patience = client->timeout_ms;
	pthread_mutex_lock(&client->lock);
	while (!client->ready && rc == 0) {
		if (atomic_load(&client->interrupted))
			rc = fail(err, LEASED_ECANCELLED, "interrupted");
		else if (client->denied ||
			(client->failed_rounds > 0 && boottime_ns() - begin > patience * NS_PER_MS))
			rc = fail_open(client, "", err);
		else if (pthread_cond_timedwait(&client->changed, &client->lock, &until) == ETIMEDOUT)
			rc = fail_open(client, " in time", err);
	}
	pthread_mutex_unlock(&client->lock);
	return rc;
}

static int init(struct leased_client *client, const struct leased_options *o,
	struct leased_error *err)
{
	pthread_condattr_t attr;
	int rc = client_read_servers(client->servers, &client->n_servers, o->servers, err);

	if (rc == 0 && (o->timeout_ms < 0 || o->timeout_ms > DURATION_MAX_MS))
		rc = fail(err, LEASED_EUSAGE, "the timeout is negative or over ten years");
	if (rc == 0 && (o->margin_ms < 0 || o->margin_ms > DURATION_MAX_MS))
		rc = fail(err, LEASED_EUSAGE, "the margin is negative or over ten years");
	if (rc < 0)
		return rc;
	client->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (client->wake_fd < 0)
		return fail(err, LEASED_EINTERNAL, "eventfd: %s", strerror(errno));
	rc = load_key(client, o->key_file, err);
	if (rc < 0) {
		close(client->wake_fd);
		return rc;
	}
	client->pid = getpid();
	client->timeout_ms = o->timeout_ms > 0 ? o->timeout_ms : TIMEOUT_MS;
	client->margin_ms = o->margin_ms;
	client->next_id = 1;
	client->next_due_ns = INT64_MAX;
	client->shortest_ttl_ms = INT64_MAX;
	atomic_init(&client->socket_fd, -1);
	snprintf(client->program, sizeof client->program, "%s", o->program ? o->program : "libleased");
	list_init(&client->calls);
	list_init(&client->leases);
	list_init(&client->owned);
	list_init(&client->watches);
	list_init(&client->elections);
	pthread_mutex_init(&client->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&client->changed, &attr);
	pthread_condattr_destroy(&attr);
	return 0;
}

int leased_client_open(struct leased_client **ret_client, const struct leased_options *options,
	struct leased_error *err)
{
	const struct leased_options none = { 0 };
	struct leased_client *client;
	int rc;

	if (sodium_init() < 0)
		return fail(err, LEASED_EINTERNAL, "libsodium does not start");
	client = calloc(1, sizeof *client);
	if (!client)
		return fail(err, LEASED_ENOMEM, "out of memory");
	rc = init(client, options ? options : &none, err);
	if (rc < 0) {
		free(client);
		return rc;
	}
	rc = start_thread(client, err);
	if (rc < 0) {
		close(client->wake_fd);
		key_free(client->key);
		free(client);
		return rc;
	}
	rc = wait_ready(client, err);
	if (rc < 0) {
		leased_client_close(client);
		return rc;
	}
	*ret_client = client;
	return 0;
}

void leased_client_interrupt(struct leased_client *client)
{
	int saved = errno; /* of what the signal has interrupted */

	atomic_store(&client->interrupted, true);
	client_wake(client);
	errno = saved;
}

void leased_client_close(struct leased_client *client)
{
	struct list *node;

	if (!client)
		return;
	if (client->pid == getpid()) {
		pthread_mutex_lock(&client->lock);
		client->closing = true;
		pthread_mutex_unlock(&client->lock);
		client_wake(client);
		pthread_join(client->thread, NULL);
		pthread_mutex_lock(&client->lock);
		while (client->callers > 0) /* they have been woken */
			pthread_cond_wait(&client->changed, &client->lock);
		pthread_mutex_unlock(&client->lock);
		pthread_mutex_destroy(&client->lock);
		pthread_cond_destroy(&client->changed);
	} else if (client->socket_fd >= 0) {
		/* The thread does not exist here and the lock may be taken: only free what is ours. */
		close(client->socket_fd);
	}
	while ((node = list_pop(&client->owned)))
		free(list_entry(node, struct leased_lease, owned));
	elections_free(client);
	watches_free(client);
	close(client->wake_fd);
	key_free(client->key);
	free(client);
}

const char *leased_version(void)
{
	return LEASED_VERSION;
}
