/*
 * The background thread owns the connection:
 *
 *   AWAY -> CONNECTING -> HELLO -> READY -> (lost) -> AWAY, to the next address
 *
 * Calls stand in one list, oldest first; those that are not in flight go out as soon as it is READY, also
 * those that were when a connection was lost: acquires with the same nonce, releases marked as a retry.
 * Renewals are made anew, of the leases that are still held.
 *
 * A connection is given up when it breaks, when a ping is not answered, and, if there is another
 * address to go to, when the daemon has no database, answers pings but requests not, or only with
 * UNAVAILABLE or BUSY.
 */
#include "connection.h"

#include <poll.h>
#include <sodium.h>
#include <string.h>
#include <unistd.h>

#include "channel.h"
#include "election.h"
#include "renewer.h"
#include "status.h"
#include "watch.h"

#define NS_PER_MS        INT64_C(1000000)
#define BACKOFF_FIRST_MS 50
#define BACKOFF_MAX_MS   1000
#define HANDSHAKE_MS     3000
#define STALL_MAX_MS     3000
#define DENIALS_MAX      3 /* by each daemon: one that starts may not know us for a moment */
#define IDLE_MAX_MS      INT64_C(86400000)

/* The thread's own; no lock. */
struct connection {
	enum { AWAY, CONNECTING, HELLO, READY } state;
	struct channel channel;
	unsigned failures;    /* in a row */
	unsigned denials;     /* in a row: daemons that are there and do not let us in */
	int64_t until_ns;     /* AWAY: next attempt; CONNECTING, HELLO: give up */
	int64_t heard_ns, said_ns;
	int64_t ping_ns;      /* a ping is out since then; 0: none */
	int64_t ready_ns;     /* READY since then */
	int64_t idle_ns;      /* the daemon closes clients that are silent for so long */
};

/* To a ping, which needs no database. */
static int64_t stall_ns(const struct leased_client *client)
{
	return renewer_patience_ns(client, 6, STALL_MAX_MS);
}

/* Gives the connection up: what was in flight is asked again over the next one. */
static void drop(struct leased_client *client, struct connection *c, const struct leased_error *why)
{
	int64_t ms = BACKOFF_FIRST_MS;
	bool had_worked = c->state == READY;
	char server[ADDRESS_TEXT_SIZE];

	atomic_store(&client->socket_fd, -1);
	channel_close(&c->channel);
	c->state = AWAY;
	c->ping_ns = 0;
	client->ready = client->move_on = false;
	client_server(client, server);
	fail(&client->problem, why->status, "%s: %s", server, why->text);
	client->server = (client->server + 1) % client->n_servers;
	calls_lose_connection(client);
	c->failures = had_worked ? 0 : c->failures + 1;
	c->denials = why->status == LEASED_EDENIED ? c->denials + 1 : 0;
	client->denied = c->denials >= DENIALS_MAX * client->n_servers;
	if (client->denied)
		calls_refuse(client);
	if (c->failures > 0 && c->failures % client->n_servers == 0)
		client->failed_rounds++;
	for (unsigned i = 0; i < c->failures / client->n_servers && ms < BACKOFF_MAX_MS; i++)
		ms *= 2;
	if (ms > BACKOFF_MAX_MS)
		ms = BACKOFF_MAX_MS;
	/* The next address at once; back off only when all have been tried. */
	c->until_ns = boottime_ns();
	if (c->failures % client->n_servers == 0)
		c->until_ns += (ms / 2 + randombytes_uniform((uint32_t)ms / 2 + 1)) * NS_PER_MS;
	pthread_cond_broadcast(&client->changed);
}

static void begin_connect(struct leased_client *client, struct connection *c)
{
	struct leased_error why;
	int rc;

	rc = channel_connect(&c->channel, &client->servers[client->server], client->key, &why);
	if (rc < 0) {
		drop(client, c, &why);
		return;
	}
	atomic_store(&client->socket_fd, c->channel.fd);
	c->state = CONNECTING;
	c->until_ns = boottime_ns() + renewer_patience_ns(client, 3, HANDSHAKE_MS);
}

static void say_hello(struct leased_client *client, struct connection *c)
{
	Leased__ClientMessage message = LEASED__CLIENT_MESSAGE__INIT;
	Leased__Hello hello = LEASED__HELLO__INIT;
	static char lost[] = FEATURE_LOST;
	char *features[] = { lost };

	hello.version_min = hello.version_max = 1;
	hello.program = client->program;
	hello.n_features = 1;
	hello.features = features;
	message.body_case = LEASED__CLIENT_MESSAGE__BODY_HELLO;
	message.hello = &hello;
	call_put(client, &c->channel, &message);
	c->state = HELLO;
}

static void send_ping(struct leased_client *client, struct connection *c)
{
	Leased__ClientMessage message = LEASED__CLIENT_MESSAGE__INIT;
	Leased__Ping ping = LEASED__PING__INIT;

	message.body_case = LEASED__CLIENT_MESSAGE__BODY_PING;
	message.ping = &ping;
	if (call_put(client, &c->channel, &message) == 0)
		c->ping_ns = c->said_ns = boottime_ns();
}

static int take_welcome(struct leased_client *client, struct connection *c,
	const Leased__ServerMessage *message, struct leased_error *why)
{
	uint64_t idle_ms = IDLE_MAX_MS;

	if (message->body_case != LEASED__SERVER_MESSAGE__BODY_WELCOME)
		return fail(why, LEASED_EPROTO, "no welcome from the daemon");
	if (message->welcome->version != 1)
		return fail(why, LEASED_EVERSION, "the daemon speaks version %u of the protocol",
			message->welcome->version);
	if (message->welcome->no_database && c->failures + 1 < client->n_servers)
		return fail(why, LEASED_EUNAVAILABLE, "the daemon has no database now");
	if (message->welcome->idle_timeout_ms > 0 && message->welcome->idle_timeout_ms < idle_ms)
		idle_ms = message->welcome->idle_timeout_ms;
	c->idle_ns = (int64_t)idle_ms * NS_PER_MS;
	c->said_ns = c->ready_ns = boottime_ns();
	c->state = READY;
	c->failures = c->denials = 0;
	client->ready = true;
	client->failed_rounds = 0;
	client->denied = false;
	client->problem = (struct leased_error){ 0 };
	client->next_due_ns = 0; /* renewals may have waited for this */
	pthread_cond_broadcast(&client->changed);
	return 0;
}

/* Those who wait for a lease would do so for ever here; to look around costs them their place in line. */
static void take_pong(struct leased_client *client, struct connection *c, const Leased__Pong *pong)
{
	c->ping_ns = 0;
	if (pong->no_database && !client->bound && boottime_ns() - c->ready_ns > client->timeout_ms * NS_PER_MS)
		client->move_on = true;
}

static int take_message(struct leased_client *client, struct connection *c, struct arena *arena,
	Leased__ServerMessage *message, struct leased_error *why)
{
	if (message->body_case == LEASED__SERVER_MESSAGE__BODY_GOODBYE)
		return fail(why, status_from_wire(message->goodbye->status), "the daemon says: %s",
			message->goodbye->why);
	if (c->state == HELLO)
		return take_welcome(client, c, message, why);
	if (message->body_case == LEASED__SERVER_MESSAGE__BODY_PONG)
		take_pong(client, c, message->pong);
	else if (message->body_case == LEASED__SERVER_MESSAGE__BODY_LOST)
		renewer_take_lost(client, message->lost);
	else
		calls_take_reply(client, arena, message);
	return 0;
}

static int take_frame(struct leased_client *client, struct connection *c, struct frame frame,
	struct leased_error *why)
{
	Leased__ServerMessage *message;
	struct arena arena;
	int rc;

	if (arena_init(&arena, message_arena_size(frame.len)) < 0)
		return fail(why, LEASED_ENOMEM, "out of memory");
	message = message_unpack_server(&arena, frame.body, frame.len, why);
	rc = message ? take_message(client, c, &arena, message, why) : LEASED_EPROTO;
	arena_free(&arena);
	return rc;
}

static int take_input(struct leased_client *client, struct connection *c, struct leased_error *why)
{
	struct frame frame;
	int rc = channel_read(&c->channel, why);
	int end = rc;

	c->heard_ns = boottime_ns();
	/* What came before the end still counts: a goodbye says why it ended. */
	while (c->channel.in.len > 0 && (rc = channel_next(&c->channel, &frame)) > 0) {
		rc = take_frame(client, c, frame, why);
		if (rc < 0)
			return rc;
	}
	if (rc == LEASED_EPROTO && end == 0)
		return fail(why, rc, "the daemon sent a frame of length 0 or over the limit");
	return end;
}

static int on_socket(struct leased_client *client, struct connection *c, short events,
	struct leased_error *why)
{
	int rc;

	if (c->state == CONNECTING) {
		rc = channel_finish_connect(&c->channel, why);
		if (rc == 0)
			say_hello(client, c);
		return rc;
	}
	if (events & (POLLIN | POLLHUP | POLLERR)) {
		rc = take_input(client, c, why);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* A daemon with a key waits for a handshake that we do not make. */
static bool is_plain_tcp(const struct leased_client *client)
{
	const struct address *server = &client->servers[client->server];

	return server->kind == ADDRESS_TCP && !server->has_key;
}

/* Is the daemon still there? A ping answers. A slow database is a reason to leave only for another. */
static int check_liveness(struct leased_client *client, struct connection *c, int64_t now,
	struct leased_error *why)
{
	int64_t stall = stall_ns(client);
	bool waiting = !list_empty(&client->calls);

	if (c->state == CONNECTING || c->state == HELLO)
		return now < c->until_ns ? 0 : fail(why, LEASED_EUNAVAILABLE,
						     "the daemon does not answer the hello%s",
						     is_plain_tcp(client) ? ": if it has a key, use its leased:// address" : "");
	if (c->state != READY)
		return 0;
	if (c->ping_ns && now - c->ping_ns > stall && now - c->heard_ns > stall)
		return fail(why, LEASED_EUNAVAILABLE, "the daemon does not answer");
	if (client->n_servers > 1 && client->move_on)
		return fail(why, LEASED_EUNAVAILABLE, "the daemon has no database, or too much to do");
	if (now >= calls_overdue_at(client))
		return fail(why, LEASED_EUNAVAILABLE, "the daemon answers no requests");
	if (!c->ping_ns && (now - c->said_ns > c->idle_ns / 3 ||
				   (waiting && now - c->heard_ns > stall && now - c->said_ns > stall)))
		send_ping(client, c);
	return 0;
}

static int poll_timeout_ms(struct leased_client *client, struct connection *c)
{
	int64_t now = boottime_ns();
	int64_t next = client->closing ? now + FAREWELL_MS / 10 * NS_PER_MS : client->next_due_ns;

	if (c->state != READY && c->until_ns < next)
		next = c->until_ns;
	if (c->state == READY && now + stall_ns(client) / 2 < next)
		next = now + stall_ns(client) / 2; /* to ping, or to see that no pong comes */
	if (c->state == READY && calls_overdue_at(client) < next)
		next = calls_overdue_at(client);
	if (c->state == READY && !c->ping_ns && c->said_ns + c->idle_ns / 3 < next)
		next = c->said_ns + c->idle_ns / 3;
	if (next <= now)
		return 0;
	next = (next - now) / NS_PER_MS + 1;
	return next < 1000 ? (int)next : 1000;
}

static void wait_for_events(struct leased_client *client, struct connection *c, short *ret_events)
{
	struct pollfd fds[2] = { { .fd = client->wake_fd, .events = POLLIN },
		{ .fd = c->channel.fd, .events = channel_events(&c->channel) } };
	int timeout = poll_timeout_ms(client, c);
	uint64_t count;

	pthread_mutex_unlock(&client->lock);
	poll(fds, c->channel.fd >= 0 ? 2 : 1, timeout);
	if (fds[0].revents)
		(void)!read(client->wake_fd, &count, sizeof count);
	pthread_mutex_lock(&client->lock);
	*ret_events = c->channel.fd >= 0 ? fds[1].revents : 0;
}

/* Whether close may end the thread: nothing is left that should still be sent, and nobody may bring more. */
static bool may_leave(const struct leased_client *client, int64_t leave_ns)
{
	if (!client->closing)
		return false;
	return (!calls_are_wanted(client) && client->callers == 0) || !client->ready ||
	       boottime_ns() >= leave_ns;
}

void *connection_thread(void *arg)
{
	struct leased_client *client = arg;
	struct connection c = { .state = AWAY };
	int64_t leave_ns = INT64_MAX;
	struct leased_error why;

	channel_init(&c.channel);
	pthread_mutex_lock(&client->lock);
	while (!may_leave(client, leave_ns)) {
		short events;
		int rc = 0;

		if (client->closing && leave_ns == INT64_MAX)
			leave_ns = boottime_ns() + FAREWELL_MS * NS_PER_MS;
		if (c.state == AWAY && boottime_ns() >= c.until_ns)
			begin_connect(client, &c);
		renewer_run(client);
		watches_run(client);
		elections_run(client);
		if (calls_give_up(client, &c.channel))
			c.said_ns = boottime_ns();
		if (c.state == READY && calls_send(client, &c.channel))
			c.said_ns = boottime_ns();
		if (c.state >= HELLO)
			rc = channel_flush(&c.channel, &why);
		if (rc == 0) {
			wait_for_events(client, &c, &events);
			if (events)
				rc = on_socket(client, &c, events, &why);
		}
		if (rc == 0)
			rc = check_liveness(client, &c, boottime_ns(), &why);
		if (rc < 0 && c.state != AWAY)
			drop(client, &c, &why);
	}
	calls_end(client);
	atomic_store(&client->socket_fd, -1);
	pthread_mutex_unlock(&client->lock);
	channel_close(&c.channel);
	return NULL;
}
