#include "peer.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "frame.h"
#include "leased_status.h"

#define GIVE_UP_MS 20000

static void die(const char *what)
{
	fprintf(stderr, "peer: %s\n", what);
	abort();
}

static void listen_at(struct peer *p)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	unlink(p->path);
	strcpy(addr.sun_path, p->path);
	p->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(p->listener, (struct sockaddr *)&addr, sizeof addr) < 0 || listen(p->listener, 10) < 0)
		die("listen");
}

void peer_start(struct peer *p)
{
	static int count;

	*p = (struct peer){ .fd = -1 };
	snprintf(p->path, sizeof p->path, "/tmp/leased-peer.%d.%d", (int)getpid(), count++);
	snprintf(p->address, sizeof p->address, "unix:%s", p->path);
	listen_at(p);
}

void peer_cut(struct peer *p)
{
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
	p->len = 0;
	p->ended = false;
}

void peer_away(struct peer *p)
{
	peer_cut(p);
	close(p->listener);
	unlink(p->path);
}

void peer_back(struct peer *p)
{
	listen_at(p);
}

void peer_stop(struct peer *p)
{
	peer_cut(p);
	close(p->listener);
	unlink(p->path);
	arena_free(&p->arena);
}

static bool readable(int fd, int ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, ms) == 1;
}

/* The next message, or NULL after ms, or when the client has closed. */
static Leased__ClientMessage *read_message(struct peer *p, int ms)
{
	struct leased_error err;
	struct frame frame;
	Leased__ClientMessage *message;
	int used;

	while ((used = frame_parse(p->in, p->len, FRAME_BODY_MAX, &frame)) == FRAME_MORE) {
		ssize_t n;

		if (!readable(p->fd, ms))
			return NULL;
		n = read(p->fd, p->in + p->len, sizeof p->in - p->len);
		p->ended = n <= 0;
		if (p->ended)
			return NULL;
		p->len += (size_t)n;
	}
	arena_free(&p->arena);
	if (used < 0 || arena_init(&p->arena, message_arena_size(frame.len)) < 0 ||
		!(message = message_unpack_client(&p->arena, frame.body, frame.len, &err)))
		die("not a message");
	p->len -= (size_t)used;
	memmove(p->in, p->in + used, p->len);
	return message;
}

static void send_message(struct peer *p, uint64_t id, Leased__ServerMessage *message)
{
	static uint8_t out[FRAME_HEADER_LEN + FRAME_BODY_MAX];
	int len;

	message->id = id;
	len = message_pack(out, sizeof out, &message->base);
	if (len < 0 || send(p->fd, out, (size_t)len, MSG_NOSIGNAL) != len)
		die("send");
}

void peer_await(struct peer *p)
{
	if (!readable(p->listener, GIVE_UP_MS))
		die("nobody connects again");
}

void peer_accept(struct peer *p)
{
	Leased__ServerMessage message = LEASED__SERVER_MESSAGE__INIT;
	Leased__Welcome welcome = LEASED__WELCOME__INIT;
	Leased__ClientMessage *hello;

	peer_cut(p);
	if (!readable(p->listener, GIVE_UP_MS))
		die("nobody connects");
	p->fd = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);
	hello = read_message(p, GIVE_UP_MS);
	if (!hello || hello->body_case != LEASED__CLIENT_MESSAGE__BODY_HELLO)
		die("no hello");
	welcome.version = 1;
	welcome.idle_timeout_ms = 60000;
	welcome.no_database = p->no_database;
	message.body_case = LEASED__SERVER_MESSAGE__BODY_WELCOME;
	message.welcome = &welcome;
	send_message(p, hello->id, &message);
}

static void pong(struct peer *p, uint64_t id)
{
	Leased__ServerMessage message = LEASED__SERVER_MESSAGE__INIT;
	Leased__Pong body = LEASED__PONG__INIT;

	body.no_database = p->no_database;
	message.body_case = LEASED__SERVER_MESSAGE__BODY_PONG;
	message.pong = &body;
	send_message(p, id, &message);
}

static Leased__ClientMessage *next_within(struct peer *p, int ms)
{
	for (;;) {
		Leased__ClientMessage *message = read_message(p, ms);

		if (!message || message->body_case != LEASED__CLIENT_MESSAGE__BODY_PING)
			return message;
		pong(p, message->id);
	}
}

Leased__ClientMessage *peer_next(struct peer *p)
{
	Leased__ClientMessage *message = next_within(p, GIVE_UP_MS);

	if (!message)
		die(p->ended ? "the client has closed" : "nothing comes");
	return message;
}

Leased__ClientMessage *peer_expect(struct peer *p, Leased__ClientMessage__BodyCase kind)
{
	Leased__ClientMessage *message = peer_next(p);

	if (message->body_case != kind) {
		fprintf(stderr, "peer: got %d, wanted %d\n", (int)message->body_case, (int)kind);
		abort();
	}
	return message;
}

void peer_quiet(struct peer *p, int ms)
{
	if (next_within(p, ms))
		die("something came");
	if (p->ended)
		die("the client has closed");
}

void peer_end(struct peer *p)
{
	if (next_within(p, GIVE_UP_MS))
		die("something came");
	if (!p->ended)
		die("the client stays");
}

void peer_stall(struct peer *p)
{
	while (next_within(p, GIVE_UP_MS))
		;
	if (!p->ended)
		die("the client stays");
}

void peer_grant(struct peer *p, uint64_t id, uint64_t token, uint64_t expires_in_ms)
{
	Leased__ServerMessage message = LEASED__SERVER_MESSAGE__INIT;
	Leased__Granted granted = LEASED__GRANTED__INIT;

	granted.token = token;
	granted.expires_in_ms = expires_in_ms;
	message.body_case = LEASED__SERVER_MESSAGE__BODY_GRANTED;
	message.granted = &granted;
	send_message(p, id, &message);
}

void peer_renewed(struct peer *p, uint64_t id, size_t n, int status, uint64_t expires_in_ms)
{
	Leased__ServerMessage message = LEASED__SERVER_MESSAGE__INIT;
	Leased__Renewed renewed = LEASED__RENEWED__INIT;
	Leased__RenewalResult result = LEASED__RENEWAL_RESULT__INIT;
	Leased__RenewalResult **places = calloc(n, sizeof *places);

	result.status = (uint32_t)-status;
	result.expires_in_ms = expires_in_ms;
	for (size_t i = 0; i < n; i++)
		places[i] = &result;
	renewed.n_results = n;
	renewed.results = places;
	message.body_case = LEASED__SERVER_MESSAGE__BODY_RENEWED;
	message.renewed = &renewed;
	send_message(p, id, &message);
	free(places);
}

void peer_released(struct peer *p, uint64_t id)
{
	Leased__ServerMessage message = LEASED__SERVER_MESSAGE__INIT;
	Leased__Released released = LEASED__RELEASED__INIT;

	message.body_case = LEASED__SERVER_MESSAGE__BODY_RELEASED;
	message.released = &released;
	send_message(p, id, &message);
}

void peer_lost(struct peer *p, const char *name, uint64_t token)
{
	Leased__ServerMessage message = LEASED__SERVER_MESSAGE__INIT;
	Leased__Lost lost = LEASED__LOST__INIT;
	static char why[] = "stolen by somebody";

	lost.name = (ProtobufCBinaryData){ strlen(name), (uint8_t *)(uintptr_t)name };
	lost.token = token;
	lost.why = why;
	message.body_case = LEASED__SERVER_MESSAGE__BODY_LOST;
	message.lost = &lost;
	send_message(p, 0, &message);
}

void peer_lease(struct peer *p, uint64_t id, Leased__Holder *holder, uint64_t token)
{
	Leased__ServerMessage message = LEASED__SERVER_MESSAGE__INIT;
	Leased__Lease lease = LEASED__LEASE__INIT;

	lease.state = holder ? LEASED__LEASE__STATE__HELD : LEASED__LEASE__STATE__FREE;
	lease.holder = holder;
	lease.token = token;
	message.body_case = LEASED__SERVER_MESSAGE__BODY_LEASE;
	message.lease = &lease;
	send_message(p, id, &message);
}

void peer_grants(struct peer *p, uint64_t id, Leased__Grant *const grants[], size_t n, const char *next)
{
	Leased__ServerMessage message = LEASED__SERVER_MESSAGE__INIT;
	Leased__Grants page = LEASED__GRANTS__INIT;

	page.grants = (Leased__Grant **)(uintptr_t)grants;
	page.n_grants = n;
	page.next = (ProtobufCBinaryData){ strlen(next), (uint8_t *)(uintptr_t)next };
	page.keep_ms = 1000;
	message.body_case = LEASED__SERVER_MESSAGE__BODY_GRANTS;
	message.grants = &page;
	send_message(p, id, &message);
}

void peer_change(struct peer *p, uint64_t id, Leased__Change__Event event, const char *name, uint64_t token,
	const char *value)
{
	Leased__ServerMessage message = LEASED__SERVER_MESSAGE__INIT;
	Leased__Change change = LEASED__CHANGE__INIT;
	Leased__Holder holder = LEASED__HOLDER__INIT;
	static char host[] = "peer";

	change.event = event;
	if (name) {
		holder.host = (ProtobufCBinaryData){ strlen(host), (uint8_t *)host };
		holder.pid = 1;
		holder.nonce = 7;
		change.name = (ProtobufCBinaryData){ strlen(name), (uint8_t *)(uintptr_t)name };
		change.token = token;
		change.holder = &holder;
		change.expires_in_ms = 60000;
	}
	if (value)
		change.value = (ProtobufCBinaryData){ strlen(value), (uint8_t *)(uintptr_t)value };
	message.body_case = LEASED__SERVER_MESSAGE__BODY_CHANGE;
	message.change = &change;
	send_message(p, id, &message);
}

void peer_fail(struct peer *p, uint64_t id, int status, const char *why)
{
	Leased__ServerMessage message = LEASED__SERVER_MESSAGE__INIT;
	Leased__Failure failure = LEASED__FAILURE__INIT;

	failure.status = (uint32_t)-status;
	failure.why = (char *)(uintptr_t)why;
	message.body_case = LEASED__SERVER_MESSAGE__BODY_FAILURE;
	message.failure = &failure;
	send_message(p, id, &message);
}
