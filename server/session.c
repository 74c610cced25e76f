#include "session.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admit.h"
#include "call.h"
#include "clock.h"
#include "log.h"
#include "reply.h"
#include "status.h"
#include "stream.h"

static void on_frame(struct transport *t, struct frame frame);
static void on_end(struct transport *t, int status, const char *why);
static void on_drained(struct transport *t);
static void on_transport_closed(struct transport *t);
static int finish_handshake(struct session *s, struct frame frame, struct leased_error *err);
static void maybe_closed(struct session *s);

static const struct transport_events transport_events = {
	.on_frame = on_frame,
	.on_end = on_end,
	.on_drained = on_drained,
	.on_closed = on_transport_closed,
};

/* HANDSHAKE -> READY -> CLOSING -> CLOSED. Any open state may close. */
#define TO(name) (1u << SESSION_##name)
static const unsigned allowed[] = {
	[SESSION_HANDSHAKE] = TO(READY) | TO(CLOSING),
	[SESSION_READY] = TO(CLOSING),
	[SESSION_CLOSING] = TO(CLOSED), /* once the transport is closed */
	[SESSION_CLOSED] = 0,
};
#undef TO

static void move_to(struct session *s, enum session_state state)
{
	if (!(allowed[s->state] & (1u << state)))
		abort();
	s->state = state;
	list_remove(&s->link);
	if (state == SESSION_READY)
		list_append(&s->all->ready, &s->link);
	else if (state == SESSION_CLOSING)
		list_append(&s->all->closing, &s->link);
}

void sessions_init(struct sessions *all, const struct config *config, struct engine *engine,
	struct holdings *holdings, struct watches *watches, struct access *access)
{
	*all = (struct sessions){ .config = config, .engine = engine, .holdings = holdings, .watches = watches,
		.access = access, .started_ms = clock_ms() };
	randombytes_buf(all->hash_key, sizeof all->hash_key);
	list_init(&all->handshaking);
	list_init(&all->ready);
	list_init(&all->closing);
	list_init(&all->dirty);
}

void sessions_fini(struct sessions *all)
{
	quotas_fini(&all->quotas);
	access_free(all->access);
	all->access = NULL;
}

static int init_stream(struct session *s, uv_loop_t *loop, uv_handle_type type)
{
	if (type == UV_TCP)
		return uv_tcp_init(loop, &s->transport.u.tcp);
	return uv_pipe_init(loop, &s->transport.u.pipe, 0);
}

/* A session whose stream has no connection yet; NULL: out of memory. */
static struct session *new_session(struct sessions *all, uv_loop_t *loop, uv_handle_type type)
{
	struct session *s = calloc(1, sizeof *s);

	if (!s || init_stream(s, loop, type) < 0) {
		free(s);
		log_event(LOG_ERROR, "accept_failed", "why", 's', "out of memory", NULL);
		return NULL;
	}
	s->all = all;
	s->heard_ms = clock_ms();
	s->transport_open = true;
	list_init(&s->calls);
	list_init(&s->holdings);
	list_init(&s->streams);
	list_init(&s->dirty);
	list_init(&s->link);
	list_append(&all->handshaking, &s->link);
	all->n++;
	s->transport.events = &transport_events;
	s->transport.u.handle.data = &s->transport;
	s->transport.data = s;
	return s;
}

/* Begins to read, if there is room for one more. */
static void begin(struct session *s)
{
	struct sessions *all = s->all;
	uint32_t left_out;

	if (s->transport.u.handle.type == UV_TCP)
		uv_tcp_nodelay(&s->transport.u.tcp, 1);
	if (all->n > (size_t)all->config->max_clients) {
		if (log_allowed(&all->stranger_limit, clock_ms(), &left_out))
			log_event(LOG_WARN, "too_many_clients", "max", 'd',
				all->config->max_clients, "left_out", 'u', (uint64_t)left_out, NULL);
		session_close(s, LEASED_EBUSY, "too many clients: raise max_clients");
	} else if (transport_start(&s->transport, &transport_events, s, FRAME_HELLO_MAX) < 0) {
		session_close(s, LEASED_OK, NULL);
	}
}

int session_accept(struct sessions *all, uv_stream_t *listener)
{
	struct session *s = new_session(all, listener->loop, listener->type);
	struct leased_error err;

	if (!s)
		return LEASED_ENOMEM;
	if (uv_accept(listener, &s->transport.u.stream) < 0)
		session_close(s, LEASED_OK, NULL);
	else if (principal_of_stream(&s->principal, &s->transport.u.stream, &err) < 0 || admit_session(s, &err) < 0)
		session_close(s, err.status, err.text);
	else
		begin(s);
	return 0;
}

bool session_adopt(struct sessions *all, uv_loop_t *loop, const struct arrival *arrival)
{
	struct session *s = new_session(all, loop, UV_TCP);
	struct leased_error err;

	if (!s || uv_tcp_open(&s->transport.u.tcp, arrival->fd) < 0) {
		close(arrival->fd);
		if (s)
			session_close(s, LEASED_OK, NULL);
		return false;
	}
	s->heard_ms = arrival->accepted_ms; /* its time for a hello has begun there */
	principal_of_key(&s->principal, arrival->key);
	if (transport_use_seal(&s->transport, arrival->keys) < 0) {
		session_close(s, LEASED_OK, NULL);
		return false;
	}
	if (admit_session(s, &err) < 0) {
		/* Whose key we do not know is a stranger, who is told nothing. */
		session_close(s, err.status == LEASED_EDENIED ? LEASED_OK : err.status, err.text);
		return false;
	}
	begin(s);
	if (s->state == SESSION_HANDSHAKE)
		transport_feed(&s->transport, arrival->data, arrival->len);
	return true;
}

/* The longest silent stays first. */
static void note_heard(struct session *s)
{
	s->heard_ms = clock_ms();
	if (s->state == SESSION_READY) {
		list_remove(&s->link);
		list_append(&s->all->ready, &s->link);
	}
}

void session_regulate(struct session *s)
{
	size_t share = (size_t)s->all->config->max_queued / SESSION_SHARE;
	size_t max = share < SESSION_REQUESTS_MAX ? share : SESSION_REQUESTS_MAX;

	if (s->all->paused || s->n_requests >= max) {
		transport_pause(&s->transport);
	} else if (!s->transport.reading) {
		note_heard(s); /* what it has said meanwhile is still to be read */
		transport_resume(&s->transport);
	}
}

static void on_frame(struct transport *t, struct frame frame)
{
	struct session *s = t->data;
	struct leased_error err = { 0 };
	int rc = 0;

	note_heard(s);
	switch (s->state) {
	case SESSION_HANDSHAKE: rc = finish_handshake(s, frame, &err); break;
	case SESSION_READY: rc = call_take(s, frame, &err); break;
	case SESSION_CLOSING: /* late input of an ending session */
	case SESSION_CLOSED: break;
	}
	if (rc < 0)
		session_close(s, rc, err.text);
}

static bool has_feature(const Leased__Hello *hello, const char *feature)
{
	for (size_t i = 0; i < hello->n_features; i++)
		if (strcmp(hello->features[i], feature) == 0)
			return true;
	return false;
}

static void send_welcome(struct session *s, uint64_t id)
{
	Leased__ServerMessage message = LEASED__SERVER_MESSAGE__INIT;
	Leased__Welcome welcome = LEASED__WELCOME__INIT;
	static char program[] = "leased " LEASED_VERSION, lost[] = FEATURE_LOST;
	char *features[] = { lost };

	welcome.n_features = s->wants_lost;
	welcome.features = features;
	welcome.version = 1;
	welcome.program = program;
	welcome.principal.data = (uint8_t *)s->principal.name;
	welcome.principal.len = s->principal.len;
	welcome.idle_timeout_ms = (uint64_t)s->all->config->idle_timeout_ms;
	welcome.ttl_min_ms = (uint64_t)s->all->config->ttl_min_ms;
	welcome.ttl_max_ms = (uint64_t)s->all->config->ttl_max_ms;
	welcome.no_database = !store_is_ready(engine_store(s->all->engine));
	message.id = id;
	message.body_case = LEASED__SERVER_MESSAGE__BODY_WELCOME;
	message.welcome = &welcome;
	reply_send(s, &message);
}

static int finish_handshake(struct session *s, struct frame frame, struct leased_error *err)
{
	Leased__ClientMessage *message;
	struct arena arena;
	int rc;

	rc = arena_init(&arena, message_arena_size(frame.len));
	if (rc < 0)
		return fail(err, rc, "out of memory");
	message = message_unpack_client(&arena, frame.body, frame.len, err);
	if (!message) {
		rc = LEASED_EPROTO;
	} else if (message->body_case != LEASED__CLIENT_MESSAGE__BODY_HELLO) {
		rc = fail(err, LEASED_EPROTO, "the first message must be a hello");
	} else if (message->hello->version_min > 1 || message->hello->version_max < 1) {
		rc = fail(err, LEASED_EVERSION, "this daemon speaks version 1 of the protocol only");
	} else {
		log_event(LOG_DEBUG, "client", "program", 's', message->hello->program, "principal",
			's', s->principal.name, "pid", 'd', (int64_t)s->principal.pid, NULL);
		move_to(s, SESSION_READY);
		s->wants_lost = has_feature(message->hello, FEATURE_LOST);
		transport_set_frame_max(&s->transport, FRAME_BODY_MAX);
		send_welcome(s, message->id);
	}
	arena_free(&arena);
	return rc;
}

static void on_end(struct transport *t, int status, const char *why)
{
	session_close(t->data, status, why);
}

static void say_goodbye(struct session *s, int status, const char *why)
{
	Leased__ServerMessage message = LEASED__SERVER_MESSAGE__INIT;
	Leased__Goodbye goodbye = LEASED__GOODBYE__INIT;

	goodbye.status = (uint32_t)-status;
	goodbye.why = (char *)(uintptr_t)why;
	message.body_case = LEASED__SERVER_MESSAGE__BODY_GOODBYE;
	message.goodbye = &goodbye;
	reply_send(s, &message);
}

void session_close(struct session *s, int status, const char *why)
{
	uint32_t left_out;
	bool is_stranger = s->state == SESSION_HANDSHAKE;

	if (s->state == SESSION_CLOSING || s->state == SESSION_CLOSED)
		return;
	if (status < 0) {
		if (log_allowed(&s->all->stranger_limit, clock_ms(), &left_out))
			log_event(is_stranger ? LOG_INFO : LOG_WARN, "client_closed", "principal",
				's', s->principal.name, "status", 's', status_name(status), "why", 's',
				why, "left_out", 'u', (uint64_t)left_out, NULL);
		say_goodbye(s, status, why);
	}
	move_to(s, SESSION_CLOSING);
	call_abandon_all(s);
	admit_leave(s);
	streams_close(s);
	holdings_end(s->all->holdings, s);
	transport_close(&s->transport);
}

static void on_drained(struct transport *t)
{
	streams_resume(t->data);
}

static void on_transport_closed(struct transport *t)
{
	struct session *s = t->data;

	s->transport_open = false;
	maybe_closed(s);
}

static void maybe_closed(struct session *s)
{
	struct sessions *all = s->all;

	if (s->state != SESSION_CLOSING || s->transport_open)
		return;
	move_to(s, SESSION_CLOSED);
	list_remove(&s->dirty);
	all->n--;
	free(s);
	if (all->n == 0 && all->on_empty)
		all->on_empty(all->data);
}

void sessions_tell_lost(struct sessions *all, struct text principal, struct text name, uint64_t token,
	struct text why)
{
	struct list *node = all->ready.next;

	while (node != &all->ready) {
		struct session *s = list_entry(node, struct session, link);

		node = node->next; /* one that does not read is closed */
		if (s->wants_lost && s->principal.len == principal.len &&
			memcmp(s->principal.name, principal.data, principal.len) == 0)
			reply_lost(s, name, token, why);
	}
}

void sessions_flush(struct sessions *all)
{
	struct list *node;

	while ((node = list_pop(&all->dirty)))
		transport_flush(&list_entry(node, struct session, dirty)->transport);
}

static void close_silent(struct list *sessions, int64_t limit_ms, const char *why)
{
	int64_t now = clock_ms();

	while (!list_empty(sessions)) {
		struct session *s = list_entry(sessions->next, struct session, link);

		if (now - s->heard_ms < limit_ms)
			return;
		if (s->state == SESSION_READY && !s->transport.reading)
			note_heard(s); /* it is we who do not listen */
		else
			session_close(s, LEASED_ETIMEDOUT, why);
	}
}

void sessions_tick(struct sessions *all)
{
	admit_tick(all);
	close_silent(&all->handshaking, all->config->handshake_timeout_ms,
		"no hello came in time");
	close_silent(&all->ready, all->config->idle_timeout_ms,
		"nothing was heard for too long: ping more often");
}

static void regulate_all(struct list *sessions)
{
	for (struct list *node = sessions->next; node != sessions; node = node->next)
		session_regulate(list_entry(node, struct session, link));
}

void sessions_pause(struct sessions *all)
{
	all->paused = true;
	regulate_all(&all->handshaking);
	regulate_all(&all->ready);
}

static void close_all(struct list *sessions)
{
	while (!list_empty(sessions))
		session_close(list_entry(sessions->next, struct session, link),
			LEASED_EUNAVAILABLE, "the daemon stops: use another one");
}

void sessions_close(struct sessions *all)
{
	close_all(&all->handshaking);
	close_all(&all->ready);
	if (all->n == 0 && all->on_empty)
		all->on_empty(all->data);
}
