#include "strangers.h"

#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

/* The first packet and the first record fit, one after the other. */
#define BUFFER_SIZE SEALED_FIRST_MAX
#define TURN_MS     10 /* how often we look whether those who wait can be paid for */

_Static_assert(HANDSHAKE_FIRST_LEN < BUFFER_SIZE, "a first packet");

struct stranger {
	uv_tcp_t tcp;
	struct strangers *all;
	struct list link;
	struct neighbour *neighbour;
	struct list turn; /* WAITING: see budget.h */
	enum { ASKING, WAITING, ANSWERED } state;
	int64_t accepted_ms;
	char peer[INET6_ADDRSTRLEN];
	uint8_t client[NOISE_KEY_LEN]; /* ANSWERED: who it says it is */
	struct handshake_keys keys;    /* likewise */
	uint8_t buffer[BUFFER_SIZE];
	size_t len, wanted; /* of the buffer: there, and never read beyond */
};

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf);
static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf);
static void take_packet(struct stranger *s);
static void on_turns(uv_timer_t *timer);
static void take_record(struct stranger *s);

void strangers_init(struct strangers *all, uv_loop_t *loop, const struct config *config, const struct keyring *ring,
	bool (*on_known)(void *owner, uv_loop_t *loop, const struct arrival *arrival), void *owner)
{
	*all = (struct strangers){ .config = config, .ring = ring, .on_known = on_known, .owner = owner };
	list_init(&all->all);
	neighbours_init(&all->neighbours);
	budget_init(&all->budget);
	uv_timer_init(loop, &all->turns);
	all->turns.data = all;
}

static void on_closed(uv_handle_t *handle)
{
	struct stranger *s = handle->data;

	sodium_memzero(s, sizeof *s);
	free(s);
}

static void leave(struct stranger *s)
{
	if (s->state == WAITING) {
		budget_leave(s->neighbour, &s->turn);
		neighbour_repay(s->neighbour); /* nothing was computed for it */
	}
	list_remove(&s->link);
	s->all->n--;
	s->neighbour->here--;
	uv_close((uv_handle_t *)&s->tcp, on_closed);
}

/* Without a word to the stranger, whatever the reason. */
static void turn_away(struct stranger *s, const char *why)
{
	struct strangers *all = s->all;
	uint32_t left_out;

	all->closed++;
	if (log_allowed(&all->limit, clock_ms(), &left_out))
		log_event(LOG_INFO, "stranger_closed", "peer", 's', s->peer, "why", 's', why, "closed", 'u',
			all->closed, "left_out", 'u', (uint64_t)left_out, NULL);
	leave(s);
}

/* ---- coming in ---- */

/* Is there room? Beyond half of the bound it is a matter of chance, as in OpenSSH's MaxStartups. */
static const char *has_no_room(const struct strangers *all, const struct neighbour *neighbour)
{
	uint32_t max = (uint32_t)all->config->max_handshakes, half = max / 2, by_chance = max - max / 8 - half;

	if (neighbour->here > (uint32_t)all->config->max_handshakes_per_address)
		return "too many from its address: max_handshakes_per_address";
	if (neighbour_is_known(neighbour, clock_ms()) ? all->n > max :
			all->n > half && randombytes_uniform(by_chance) < all->n - half)
		return "too many strangers: max_handshakes";
	return NULL;
}

static void note_peer(struct stranger *s)
{
	struct sockaddr_storage address = { 0 };
	int len = sizeof address;

	if (uv_tcp_getpeername(&s->tcp, (struct sockaddr *)&address, &len) < 0)
		address.ss_family = AF_INET; /* it has gone already */
	if (address.ss_family == AF_INET)
		uv_ip4_name((struct sockaddr_in *)&address, s->peer, sizeof s->peer);
	else
		uv_ip6_name((struct sockaddr_in6 *)&address, s->peer, sizeof s->peer);
	s->neighbour = neighbours_find(&s->all->neighbours, &address);
}

int strangers_accept(struct strangers *all, uv_stream_t *listener)
{
	struct stranger *s = calloc(1, sizeof *s);
	const char *why;

	if (!s || uv_tcp_init(listener->loop, &s->tcp) < 0) {
		free(s);
		log_event(LOG_ERROR, "accept_failed", "why", 's', "out of memory", NULL);
		return LEASED_ENOMEM;
	}
	s->all = all;
	s->tcp.data = s;
	list_init(&s->turn);
	s->accepted_ms = clock_ms();
	s->wanted = HANDSHAKE_FIRST_LEN;
	if (uv_accept(listener, (uv_stream_t *)&s->tcp) < 0) {
		uv_close((uv_handle_t *)&s->tcp, on_closed);
		return 0;
	}
	note_peer(s);
	list_append(&all->all, &s->link);
	all->n++;
	s->neighbour->here++;
	why = has_no_room(all, s->neighbour);
	if (!why && uv_read_start((uv_stream_t *)&s->tcp, on_alloc, on_read) < 0)
		why = "it cannot be read";
	if (why)
		turn_away(s, why);
	return 0;
}

/* ---- what it says ---- */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	struct stranger *s = handle->data;

	(void)suggested;
	*buf = uv_buf_init((char *)s->buffer + s->len, (unsigned)(s->wanted - s->len));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	struct stranger *s = stream->data;

	(void)buf;
	if (n == 0 || uv_is_closing((uv_handle_t *)stream))
		return;
	if (n < 0) {
		turn_away(s, n == UV_EOF ? "it has closed" : uv_strerror((int)n));
		return;
	}
	s->len += (size_t)n;
	if (s->len < s->wanted)
		return;
	switch (s->state) {
	case ASKING: take_packet(s); break;
	case WAITING: turn_away(s, "it goes on before it was answered"); break;
	case ANSWERED: take_record(s); break;
	}
}

static void answer(struct stranger *s, const struct noise_keypair *own)
{
	uint8_t packet[HANDSHAKE_SECOND_LEN];
	uv_buf_t buf = uv_buf_init((char *)packet, sizeof packet);
	struct noise_keypair ephemeral;
	int rc;

	noise_new_keypair(&ephemeral);
	rc = handshake_answer(own, &ephemeral, s->buffer, packet, s->client, &s->keys);
	sodium_memzero(&ephemeral, sizeof ephemeral);
	if (rc < 0) {
		turn_away(s, "its handshake does not open: another version, or forged");
		return;
	}
	if (uv_try_write((uv_stream_t *)&s->tcp, &buf, 1) != (int)sizeof packet) {
		turn_away(s, "it cannot be answered");
		return;
	}
	s->state = ANSWERED;
	s->len = 0;
	s->wanted = SEALED_HEADER_LEN;
}

/* It is read on, to see when it closes. */
static void wait_for_turn(struct stranger *s)
{
	struct strangers *all = s->all;

	s->state = WAITING;
	s->wanted = HANDSHAKE_FIRST_LEN + 1;
	budget_wait(&all->budget, s->neighbour, &s->turn, clock_ms());
	if (!uv_is_active((uv_handle_t *)&all->turns))
		uv_timer_start(&all->turns, on_turns, TURN_MS, TURN_MS);
}

static bool can_pay(struct strangers *all)
{
	return budget_take(&all->budget, all->config->max_handshakes_per_second, clock_ms());
}

static void take_packet(struct stranger *s)
{
	const struct noise_keypair *own = keyring_find(s->all->ring, s->buffer);

	if (!own)
		turn_away(s, "not a handshake for our key");
	else if (!neighbour_may_ask(s->neighbour, (uint32_t)s->all->config->max_handshakes_per_address, clock_ms()))
		turn_away(s, "too many unfinished handshakes from its address: max_handshakes_per_address");
	else if (!budget_somebody_waits(&s->all->budget) && can_pay(s->all))
		answer(s, own);
	else
		wait_for_turn(s);
}

static void on_turns(uv_timer_t *timer)
{
	struct strangers *all = timer->data;

	while (budget_somebody_waits(&all->budget) && can_pay(all)) {
		struct stranger *s = list_entry(budget_next(&all->budget), struct stranger, turn);
		const struct noise_keypair *own = keyring_find(all->ring, s->buffer); /* it may have changed */

		s->state = ASKING;
		if (own)
			answer(s, own);
		else
			turn_away(s, "not a handshake for our key");
	}
	if (!budget_somebody_waits(&all->budget))
		uv_timer_stop(timer);
}

/* The client is who it says it is. The handle cannot move into a session, its descriptor can. */
static void hand_over(struct stranger *s, const uint8_t *data, size_t len)
{
	struct arrival arrival = { .key = s->client, .keys = &s->keys, .data = data, .len = len,
		.accepted_ms = s->accepted_ms };
	uv_os_fd_t fd;

	uv_read_stop((uv_stream_t *)&s->tcp);
	arrival.fd = uv_fileno((uv_handle_t *)&s->tcp, &fd) < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (arrival.fd < 0) {
		turn_away(s, "no descriptor is left for it");
		return;
	}
	if (s->all->on_known(s->all->owner, s->tcp.loop, &arrival))
		budget_repay(&s->all->budget, s->neighbour, clock_ms());
	leave(s);
}

/* Its first record: when it opens, who has sent it has the secret of the key, and has seen our answer. */
static void take_record(struct stranger *s)
{
	int used = sealed_parse(s->buffer, s->len, SEALED_FIRST_MAX);

	if (used < 0) {
		turn_away(s, "a first record of a length that none has");
		return;
	}
	if (used == 0) { /* the header alone */
		s->wanted = SEALED_HEADER_LEN + ((size_t)s->buffer[0] << 8 | s->buffer[1]);
		return;
	}
	used = sealed_open(&s->keys.from_client, s->buffer, s->len);
	if (used < 0)
		turn_away(s, "its first record does not open: a replay, or forged");
	else
		hand_over(s, s->buffer + SEALED_HEADER_LEN + SEALED_PREFIX_LEN, (size_t)used);
}

/* ---- the end ---- */

void strangers_tick(struct strangers *all)
{
	int64_t now = clock_ms();

	while (!list_empty(&all->all)) {
		struct stranger *s = list_entry(all->all.next, struct stranger, link);

		if (now - s->accepted_ms < all->config->handshake_timeout_ms)
			return;
		turn_away(s, s->state == WAITING ? "its turn did not come in time: max_handshakes_per_second" :
						   "no handshake came in time");
	}
}

void strangers_close(struct strangers *all)
{
	uv_close((uv_handle_t *)&all->turns, NULL);
	while (!list_empty(&all->all))
		leave(list_entry(all->all.next, struct stranger, link));
}
