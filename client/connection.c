/*
 * The background thread owns the connection:
 *
 *   AWAY -> CONNECTING -> HELLO -> READY -> (lost) -> AWAY, to the next address
 *
 * Calls stand in one list, oldest first; those that are not sent (id 0) go out as soon as it is READY,
 * also those that were in flight when a connection was lost: acquires with the same nonce, releases
 * marked as a retry, renewals simply again.
 */
#include "connection.h"

#include <poll.h>
#include <sodium.h>
#include <string.h>
#include <unistd.h>

#include "channel.h"
#include "renewer.h"
#include "status.h"

#define NS_PER_MS        INT64_C(1000000)
#define BACKOFF_FIRST_MS 50
#define BACKOFF_MAX_MS   1000
#define HANDSHAKE_MS     3000
#define STALL_MAX_MS     5000
#define STALL_MIN_MS     200

/* The thread's own; no lock. */
struct connection {
	enum { AWAY, CONNECTING, HELLO, READY } state;
	struct channel channel;
	size_t server;        /* the one in use */
	unsigned attempts;    /* in all */
	unsigned failures;    /* in a row */
	int64_t until_ns;     /* AWAY: next attempt; CONNECTING, HELLO: give up */
	int64_t heard_ns, said_ns;
	int64_t ping_ns;      /* a ping is out since then; 0: none */
	int64_t idle_ns;      /* the daemon closes clients that are silent for so long */
};

static void finish_call(struct leased_client *client, struct call *call)
{
	list_remove(&call->link);
	call->done = true;
	if (call->finished)
		call->finished(client, call);
	else
		pthread_cond_broadcast(&client->changed);
}

static int64_t stall_ns(struct leased_client *client)
{
	int64_t ms = STALL_MAX_MS;

	for (struct list *n = client->leases.next; n != &client->leases; n = n->next) {
		int64_t sixth = list_entry(n, struct leased_lease, link)->ttl_ms / 6;

		if (sixth < ms)
			ms = sixth;
	}
	return (ms > STALL_MIN_MS ? ms : STALL_MIN_MS) * NS_PER_MS;
}

/* Gives the connection up: what was in flight is asked again over the next one. */
static void drop(struct leased_client *client, struct connection *c, const struct leased_error *why)
{
	int64_t ms = BACKOFF_FIRST_MS;
	bool had_worked = c->state == READY;

	channel_close(&c->channel);
	c->state = AWAY;
	c->ping_ns = 0;
	c->server = (c->server + 1) % client->n_servers;
	client->ready = false;
	client->problem = *why;
	for (struct list *n = client->calls.next; n != &client->calls; n = n->next)
		list_entry(n, struct call, link)->id = 0;
	c->failures = had_worked ? 0 : c->failures + 1;
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
	struct address address = client->servers[c->server];
	struct leased_error why;
	int rc;

	pthread_mutex_unlock(&client->lock); /* resolving may block */
	rc = channel_connect(&c->channel, &address, c->attempts++ / (unsigned)client->n_servers, &why);
	pthread_mutex_lock(&client->lock);
	if (rc < 0) {
		drop(client, c, &why);
		return;
	}
	c->state = CONNECTING;
	c->until_ns = boottime_ns() + HANDSHAKE_MS * NS_PER_MS;
}

static int put_message(struct connection *c, Leased__ClientMessage *message)
{
	size_t size = message_packed_size(&message->base);
	uint8_t *out = channel_reserve(&c->channel, size);
	int len = out ? message_pack(out, size, &message->base) : LEASED_ENOMEM;

	if (len < 0)
		return len;
	channel_commit(&c->channel, (size_t)len);
	c->said_ns = boottime_ns();
	return 0;
}

static void say_hello(struct leased_client *client, struct connection *c)
{
	Leased__ClientMessage message = LEASED__CLIENT_MESSAGE__INIT;
	Leased__Hello hello = LEASED__HELLO__INIT;

	hello.version_min = hello.version_max = 1;
	hello.program = client->program;
	message.body_case = LEASED__CLIENT_MESSAGE__BODY_HELLO;
	message.hello = &hello;
	put_message(c, &message);
	c->state = HELLO;
}

static void send_ping(struct leased_client *client, struct connection *c)
{
	Leased__ClientMessage message = LEASED__CLIENT_MESSAGE__INIT;
	Leased__Ping ping = LEASED__PING__INIT;

	message.id = client->next_id++;
	message.body_case = LEASED__CLIENT_MESSAGE__BODY_PING;
	message.ping = &ping;
	if (put_message(c, &message) == 0)
		c->ping_ns = boottime_ns();
}

static void send_cancel(struct leased_client *client, struct connection *c, struct call *call)
{
	Leased__ClientMessage message = LEASED__CLIENT_MESSAGE__INIT;
	Leased__Cancel cancel = LEASED__CANCEL__INIT;

	cancel.request = call->id;
	message.id = client->next_id++;
	message.body_case = LEASED__CLIENT_MESSAGE__BODY_CANCEL;
	message.cancel = &cancel;
	put_message(c, &message);
}

static void send_call(struct leased_client *client, struct connection *c, struct call *call)
{
	Leased__ClientMessage message = LEASED__CLIENT_MESSAGE__INIT;
	int rc;

	call->sent_ns = boottime_ns(); /* before the first byte can leave */
	call->fill(call, &message);
	message.id = client->next_id++;
	rc = put_message(c, &message);
	if (rc == 0) {
		call->id = message.id;
		call->attempts++;
	} else if (rc == LEASED_EDATA) {
		call->status = fail(&call->err, rc, "the request is too large for one frame");
		finish_call(client, call);
	} /* else the output is full: later */
}

static void send_calls(struct leased_client *client, struct connection *c)
{
	struct list *node = client->calls.next;

	while (node != &client->calls) {
		struct call *call = list_entry(node, struct call, link);

		node = node->next;
		if (!call->id)
			send_call(client, c, call);
	}
}

/* Those that are given up: asked to be cancelled once, or, not even sent, ended here. */
static void give_up_calls(struct leased_client *client, struct connection *c)
{
	bool interrupted = atomic_load(&client->interrupted);
	struct list *node = client->calls.next;

	if (interrupted)
		pthread_cond_broadcast(&client->changed); /* for leased_client_open */
	while (node != &client->calls) {
		struct call *call = list_entry(node, struct call, link);

		node = node->next;
		if (call->finished || call->survives_interrupt || !(interrupted || call->cancelled))
			continue;
		if (call->waits && call->id) {
			if (!call->cancel_sent)
				send_cancel(client, c, call);
			call->cancel_sent = true;
			continue;
		}
		call->status = fail(&call->err, LEASED_ECANCELLED, "interrupted");
		finish_call(client, call);
	}
}

static struct call *find_call(struct leased_client *client, uint64_t id)
{
	for (struct list *n = client->calls.next; n != &client->calls; n = n->next)
		if (list_entry(n, struct call, link)->id == id)
			return list_entry(n, struct call, link);
	return NULL;
}

/* An answer to nobody is one to a call that was given up, or a pong. */
static void take_reply(struct leased_client *client, struct arena *arena,
	Leased__ServerMessage *message)
{
	struct call *call = message->id ? find_call(client, message->id) : NULL;

	if (!call)
		return;
	call->arena = *arena;
	*arena = (struct arena){ 0 };
	call->reply = message;
	call->status = LEASED_OK;
	if (message->body_case == LEASED__SERVER_MESSAGE__BODY_FAILURE)
		call->status = fail(&call->err, status_from_wire(message->failure->status), "%s",
			message->failure->why);
	finish_call(client, call);
}

static int take_message(struct leased_client *client, struct connection *c, struct arena *arena,
	Leased__ServerMessage *message, struct leased_error *why)
{
	if (message->body_case == LEASED__SERVER_MESSAGE__BODY_GOODBYE)
		return fail(why, status_from_wire(message->goodbye->status), "the daemon says: %s",
			message->goodbye->why);
	if (c->state == HELLO) {
		if (message->body_case != LEASED__SERVER_MESSAGE__BODY_WELCOME)
			return fail(why, LEASED_EPROTO, "no welcome from the daemon");
		c->state = READY;
		c->failures = 0;
		c->idle_ns = message->welcome->idle_timeout_ms < 86400000 ?
				     (int64_t)message->welcome->idle_timeout_ms * NS_PER_MS :
				     86400000 * NS_PER_MS;
		client->ready = true;
		client->failed_rounds = 0;
		client->problem = (struct leased_error){ 0 };
		pthread_cond_broadcast(&client->changed);
		return 0;
	}
	if (message->body_case == LEASED__SERVER_MESSAGE__BODY_PONG)
		c->ping_ns = 0;
	else
		take_reply(client, arena, message);
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
	while (c->channel.in_len > 0 && (rc = channel_next(&c->channel, &frame)) > 0) {
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

/* Is the daemon still there? A ping answers; a slow database is no reason to leave. */
static int check_liveness(struct leased_client *client, struct connection *c, int64_t now,
	struct leased_error *why)
{
	int64_t stall = stall_ns(client);
	bool waiting = !list_empty(&client->calls);

	if (c->state == CONNECTING || c->state == HELLO)
		return now < c->until_ns ? 0 : fail(why, LEASED_EUNAVAILABLE,
						     "the daemon does not answer the hello");
	if (c->state != READY)
		return 0;
	if (c->ping_ns && now - c->ping_ns > stall && now - c->heard_ns > stall)
		return fail(why, LEASED_EUNAVAILABLE, "the daemon does not answer");
	if (!c->ping_ns && (now - c->said_ns > c->idle_ns / 3 ||
				   (waiting && now - c->heard_ns > stall && now - c->said_ns > stall)))
		send_ping(client, c);
	return 0;
}

static int poll_timeout_ms(struct leased_client *client, struct connection *c)
{
	int64_t now = boottime_ns(), next = client->next_due_ns;

	if (c->state != READY && c->until_ns < next)
		next = c->until_ns;
	if (c->state == READY && now + stall_ns(client) / 2 < next)
		next = now + stall_ns(client) / 2; /* to ping, or to see that no pong comes */
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

/* Whether close may end the thread: nothing is left that should still be sent. */
static bool may_leave(const struct leased_client *client, int64_t leave_ns)
{
	if (!client->closing)
		return false;
	return list_empty(&client->calls) || !client->ready || boottime_ns() >= leave_ns;
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
		give_up_calls(client, &c);
		if (c.state == READY)
			send_calls(client, &c);
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
	while (!list_empty(&client->calls)) {
		struct call *call = list_entry(client->calls.next, struct call, link);

		call->status = fail(&call->err, LEASED_ECANCELLED, "the client closes");
		finish_call(client, call);
	}
	pthread_mutex_unlock(&client->lock);
	channel_close(&c.channel);
	return NULL;
}
