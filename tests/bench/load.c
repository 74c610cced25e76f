/*
 * load.c - load against a daemon over the native protocol: many clients in one thread, each with one
 * request in flight, and the latency of each. Prints one line of key=value.
 *
 *   load ADDR cycle CLIENTS SECONDS           acquire, release, again, each client its own name
 *   load ADDR acquire CLIENTS SECONDS         acquire new names only
 *   load ADDR renew CLIENTS SECONDS [LEASES]  each client renews its leases (one) as fast as it can
 *   load ADDR hold CLIENTS SECONDS LEASES EVERY_MS [TTL_MS]
 *                                             each client holds LEASES and renews each every EVERY_MS
 *
 * ADDR may be a leased:// one: all clients are sealed then, with the key in the file $LEASED_KEY_FILE.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "address.h"
#include "frame.h"
#include "key.h"
#include "message.h"
#include "secure.h"

#define CHUNK       500  /* leases of one renew message */
#define SAMPLES_MAX 4000000
#define BUFFER      (FRAME_HEADER_LEN + FRAME_BODY_MAX)

enum mode { MODE_CYCLE, MODE_ACQUIRE, MODE_RENEW, MODE_HOLD };
static const char *const mode_names[] = { "cycle", "acquire", "renew", "hold" };

struct lease {
	uint64_t token, nonce;
	int64_t expires_us; /* our deadline, from before the send */
};

struct client {
	int fd;
	unsigned index;
	bool greeted, in_flight;
	size_t next;        /* the lease to acquire, then the first of the next renew */
	size_t asked;       /* leases in the message in flight */
	int64_t sent_us;
	int64_t begun_us;   /* MODE_CYCLE: when its acquire was sent */
	unsigned turn;      /* MODE_ACQUIRE: names so far */
	int64_t due_us;     /* MODE_HOLD: when the next chunk is to be renewed */
	struct lease *leases;
	struct secure *secure; /* NULL: plain */
	struct bytes in;       /* plain */
};

static struct {
	enum mode mode;
	size_t n_clients, n_leases;
	int64_t every_us, ttl_us, end_us, lost, late, done;
	bool measuring;
	uint32_t *samples;
	size_t n_samples;
	struct client *clients;
	int epoll;
	const struct noise_keypair *key;
} load;

static int64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void die(const char *what)
{
	fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int open_socket(const struct address *a)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(a->port) };
	int one = 1, fd;

	if (a->kind == ADDRESS_UNIX) {
		memcpy(un.sun_path, a->path, strlen(a->path) + 1);
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		if (fd < 0 || connect(fd, (struct sockaddr *)&un, sizeof un) < 0)
			die("connect");
		return fd;
	}
	inet_pton(AF_INET, a->host, &in.sin_addr);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&in, sizeof in) < 0)
		die("connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	return fd;
}

static void send_bytes(const struct client *c, const uint8_t *data, size_t len)
{
	for (size_t sent = 0; sent < len;) {
		ssize_t n = send(c->fd, data + sent, len - sent, MSG_NOSIGNAL);

		if (n < 0)
			die("send");
		sent += (size_t)n;
	}
}

static void send_sealed(struct client *c)
{
	send_bytes(c, c->secure->raw_out.data, c->secure->raw_out.len);
	c->secure->raw_out.len = 0;
}

static void die_of(const struct leased_error *err)
{
	fprintf(stderr, "load: %s\n", err->text);
	exit(1);
}

static void send_message(struct client *c, Leased__ClientMessage *m)
{
	static uint8_t out[BUFFER];
	struct bytes plain = { .data = out, .size = sizeof out };
	int len = message_pack(out, sizeof out, &m->base);
	struct leased_error err;

	if (len < 0)
		die("pack");
	plain.len = (size_t)len;
	if (!c->secure)
		send_bytes(c, out, plain.len);
	else if (secure_seal(c->secure, &plain, &err) < 0)
		die_of(&err);
	else
		send_sealed(c);
	c->sent_us = now_us();
	c->in_flight = true;
}

static size_t lease_name(char *out, size_t size, const struct client *c, size_t lease)
{
	return (size_t)snprintf(out, size, "bench/%d-%06u/%06zu", (int)getpid(), c->index,
		lease + c->turn);
}

static void fill_holder(Leased__Holder *h, uint64_t nonce)
{
	static char host[] = "bench-host";

	leased__holder__init(h);
	h->host.data = (uint8_t *)host;
	h->host.len = sizeof host - 1;
	h->pid = (uint32_t)getpid();
	h->nonce = nonce;
}

static void send_hello(struct client *c)
{
	Leased__ClientMessage m = LEASED__CLIENT_MESSAGE__INIT;
	Leased__Hello hello = LEASED__HELLO__INIT;
	static char program[] = "bench";

	hello.version_min = hello.version_max = 1;
	hello.program = program;
	m.body_case = LEASED__CLIENT_MESSAGE__BODY_HELLO;
	m.hello = &hello;
	send_message(c, &m);
}

static void send_acquire(struct client *c)
{
	Leased__ClientMessage m = LEASED__CLIENT_MESSAGE__INIT;
	Leased__Acquire acquire = LEASED__ACQUIRE__INIT;
	struct lease *lease = &c->leases[c->next];
	Leased__Holder holder;
	char name[64];

	randombytes_buf(&lease->nonce, sizeof lease->nonce);
	fill_holder(&holder, lease->nonce);
	acquire.name.len = lease_name(name, sizeof name, c, c->next);
	acquire.name.data = (uint8_t *)name;
	acquire.holder = &holder;
	/* To hold many takes a while: only the renewals bring the short ttl. */
	acquire.ttl_ms = load.mode == MODE_HOLD ? 3600000 : (uint64_t)load.ttl_us / 1000;
	m.id = 1;
	m.body_case = LEASED__CLIENT_MESSAGE__BODY_ACQUIRE;
	m.acquire = &acquire;
	send_message(c, &m);
	c->begun_us = c->sent_us;
}

static void fill_claim(Leased__Claim *claim, Leased__Holder *holder, char *name, size_t size,
	const struct client *c, size_t i)
{
	leased__claim__init(claim);
	fill_holder(holder, c->leases[i].nonce);
	claim->name.len = lease_name(name, size, c, i);
	claim->name.data = (uint8_t *)name;
	claim->holder = holder;
	claim->token = c->leases[i].token;
}

static void send_release(struct client *c)
{
	Leased__ClientMessage m = LEASED__CLIENT_MESSAGE__INIT;
	Leased__Release release = LEASED__RELEASE__INIT;
	Leased__Holder holder;
	Leased__Claim claim;
	char name[64];

	fill_claim(&claim, &holder, name, sizeof name, c, 0);
	release.claim = &claim;
	m.id = 2;
	m.body_case = LEASED__CLIENT_MESSAGE__BODY_RELEASE;
	m.release = &release;
	send_message(c, &m);
}

static void send_renew(struct client *c)
{
	static Leased__Renewal renewals[CHUNK], *places[CHUNK];
	static Leased__Claim claims[CHUNK];
	static Leased__Holder holders[CHUNK];
	static char names[CHUNK][64];
	Leased__ClientMessage m = LEASED__CLIENT_MESSAGE__INIT;
	Leased__Renew renew = LEASED__RENEW__INIT;
	size_t n = load.n_leases - c->next;

	if (n > CHUNK)
		n = CHUNK;
	for (size_t i = 0; i < n; i++) {
		leased__renewal__init(&renewals[i]);
		fill_claim(&claims[i], &holders[i], names[i], sizeof names[i], c, c->next + i);
		renewals[i].claim = &claims[i];
		renewals[i].ttl_ms = (uint64_t)load.ttl_us / 1000;
		places[i] = &renewals[i];
	}
	renew.n_renewals = n;
	renew.renewals = places;
	c->asked = n;
	m.id = 3;
	m.body_case = LEASED__CLIENT_MESSAGE__BODY_RENEW;
	m.renew = &renew;
	send_message(c, &m);
}

static void sample(int64_t us, size_t n)
{
	if (!load.measuring)
		return;
	load.done += (int64_t)n;
	if (load.n_samples < SAMPLES_MAX)
		load.samples[load.n_samples++] = (uint32_t)us;
}

/* The clients' first renewals are spread evenly over the interval. */
static void schedule_first(struct client *c)
{
	c->next = 0;
	c->due_us = now_us() + load.every_us * (int64_t)c->index / (int64_t)load.n_clients;
}

static void next_hold(struct client *c)
{
	c->next += c->asked;
	if (c->next >= load.n_leases)
		c->next = 0;
	c->due_us += load.every_us * (int64_t)c->asked / (int64_t)load.n_leases;
}

static void take_granted(struct client *c, const Leased__Granted *granted)
{
	struct lease *lease = &c->leases[c->next];

	lease->token = granted->token;
	lease->expires_us = c->sent_us + (load.mode == MODE_HOLD ? 3600000000 : load.ttl_us);
	if (load.mode == MODE_CYCLE) {
		send_release(c);
	} else if (load.mode == MODE_ACQUIRE) {
		sample(now_us() - c->sent_us, 1);
		c->turn++;
		send_acquire(c);
	} else if (++c->next < load.n_leases) {
		send_acquire(c);
	} else if (load.mode == MODE_RENEW) {
		c->next = 0;
		send_renew(c);
	} else {
		schedule_first(c);
	}
}

static void take_renewed(struct client *c, const Leased__Renewed *renewed)
{
	int64_t now = now_us();

	for (size_t i = 0; i < renewed->n_results; i++) {
		struct lease *lease = &c->leases[c->next + i];

		if (renewed->results[i]->status != 0) {
			if (load.lost++ == 0)
				fprintf(stderr, "load: lost: %s\n", renewed->results[i]->why);
		} else {
			/* Late: answered when less than a third of the ttl was left. */
			load.late += lease->expires_us - now < load.ttl_us / 3;
			lease->expires_us = c->sent_us + load.ttl_us;
		}
	}
	sample(now - c->sent_us, renewed->n_results);
	if (load.mode == MODE_RENEW)
		send_renew(c);
	else
		next_hold(c);
}

static void take_message(struct client *c, const Leased__ServerMessage *m)
{
	c->in_flight = false;
	switch (m->body_case) {
	case LEASED__SERVER_MESSAGE__BODY_WELCOME: send_acquire(c); break;
	case LEASED__SERVER_MESSAGE__BODY_GRANTED: take_granted(c, m->granted); break;
	case LEASED__SERVER_MESSAGE__BODY_RELEASED:
		sample(now_us() - c->begun_us, 1);
		send_acquire(c);
		break;
	case LEASED__SERVER_MESSAGE__BODY_RENEWED: take_renewed(c, m->renewed); break;
	case LEASED__SERVER_MESSAGE__BODY_FAILURE:
		fprintf(stderr, "load: failure: %s\n", m->failure->why);
		exit(1);
	default:
		fprintf(stderr, "load: closed: %s\n",
			m->body_case == LEASED__SERVER_MESSAGE__BODY_GOODBYE ? m->goodbye->why : "?");
		exit(1);
	}
}

/* What has come goes into c->in, opened. */
static void receive(struct client *c, int flags)
{
	struct bytes *raw = c->secure ? &c->secure->raw_in : &c->in;
	struct leased_error err;
	ssize_t n;

	if (!bytes_grow(raw, raw->len + BUFFER))
		die("memory");
	n = recv(c->fd, raw->data + raw->len, BUFFER, flags);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0)
		die("connection closed");
	raw->len += (size_t)n;
	if (c->secure && secure_open(c->secure, &c->in, &err) < 0)
		die_of(&err);
}

static void shake_hands(struct client *c, const struct address *address)
{
	struct leased_error err;

	c->secure = secure_new(load.key, address->key, &err);
	if (!c->secure)
		die_of(&err);
	send_sealed(c);
	while (!c->secure->established)
		receive(c, 0);
}

static void on_readable(struct client *c)
{
	struct leased_error err;
	struct frame frame;
	size_t used = 0;
	int rc;

	receive(c, MSG_DONTWAIT);
	while ((rc = frame_parse(c->in.data + used, c->in.len - used, FRAME_BODY_MAX, &frame)) > 0) {
		Leased__ServerMessage *m;
		struct arena arena;

		if (arena_init(&arena, message_arena_size(frame.len)) < 0 ||
			!(m = message_unpack_server(&arena, frame.body, frame.len, &err)))
			die("unpack");
		take_message(c, m);
		arena_free(&arena);
		used += (size_t)rc;
	}
	if (used > 0)
		memmove(c->in.data, c->in.data + used, c->in.len - used);
	c->in.len -= used;
}

static void start_client(struct client *c, unsigned index, const struct address *address)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = c };

	c->index = index;
	c->leases = calloc(load.n_leases, sizeof *c->leases);
	if (!c->leases)
		die("memory");
	c->fd = open_socket(address);
	if (address->has_key)
		shake_hands(c, address);
	epoll_ctl(load.epoll, EPOLL_CTL_ADD, c->fd, &event);
	send_hello(c);
}

static void send_due(void)
{
	int64_t now = now_us();

	for (size_t i = 0; i < load.n_clients; i++) {
		struct client *c = &load.clients[i];

		if (c->due_us > 0 && c->due_us <= now && !c->in_flight)
			send_renew(c);
	}
}

static bool all_hold(void)
{
	for (size_t i = 0; i < load.n_clients; i++)
		if (load.clients[i].due_us == 0)
			return false;
	return true;
}

static void run_until(int64_t end_us)
{
	struct epoll_event events[256];

	while (now_us() < end_us) {
		int n = epoll_wait(load.epoll, events, 256, load.mode == MODE_HOLD ? 2 : 100);

		for (int i = 0; i < n; i++)
			on_readable(events[i].data.ptr);
		if (load.mode == MODE_HOLD && load.measuring)
			send_due();
	}
}

static int compare_samples(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static double percentile_ms(double share)
{
	if (load.n_samples == 0)
		return 0;
	return load.samples[(size_t)(share * (double)(load.n_samples - 1))] / 1000.0;
}

static void report(double seconds)
{
	qsort(load.samples, load.n_samples, sizeof *load.samples, compare_samples);
	printf("mode=%s clients=%zu per_second=%.0f p50_ms=%.3f p99_ms=%.3f max_ms=%.3f done=%" PRId64
	       " late=%" PRId64 " lost=%" PRId64 "\n",
		mode_names[load.mode], load.n_clients, (double)load.done / seconds, percentile_ms(0.5),
		percentile_ms(0.99), percentile_ms(1), load.done, load.late, load.lost);
}

static void raise_limit(void)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char *argv[])
{
	struct leased_error err;
	struct address address;
	double seconds;
	int64_t begin;

	if (argc < 5 || address_parse(&address, argv[1], &err) < 0 || sodium_init() < 0) {
		fprintf(stderr, "usage: load ADDR cycle|acquire|renew|hold CLIENTS SECONDS [LEASES [EVERY_MS [TTL_MS]]]\n");
		return 64;
	}
	while (load.mode < MODE_HOLD && strcmp(mode_names[load.mode], argv[2]) != 0)
		load.mode++;
	if (address.has_key && key_load(&load.key, KEY_CLIENT_SECRET, getenv("LEASED_KEY_FILE"), &err) < 0)
		die_of(&err);
	load.n_clients = strtoul(argv[3], NULL, 10);
	seconds = strtod(argv[4], NULL);
	load.n_leases = argc > 5 ? strtoul(argv[5], NULL, 10) : 1;
	load.every_us = argc > 6 ? strtol(argv[6], NULL, 10) * 1000 : 30000000;
	load.ttl_us = argc > 7 ? strtol(argv[7], NULL, 10) * 1000 : load.mode == MODE_HOLD ? 3 * load.every_us : 90000000;
	load.samples = malloc(SAMPLES_MAX * sizeof *load.samples);
	load.clients = calloc(load.n_clients, sizeof *load.clients);
	load.epoll = epoll_create1(0);
	raise_limit();
	for (unsigned i = 0; i < load.n_clients; i++)
		start_client(&load.clients[i], i, &address);
	if (load.mode == MODE_HOLD)
		while (!all_hold())
			run_until(now_us() + 10000);
	else
		run_until(now_us() + 1000000); /* warm up */
	for (size_t i = 0; load.mode == MODE_HOLD && i < load.n_clients; i++)
		schedule_first(&load.clients[i]);
	if (load.mode == MODE_HOLD)
		fprintf(stderr, "load: all leases are held\n");
	load.measuring = true;
	begin = now_us();
	run_until(begin + (int64_t)(seconds * 1e6));
	report((double)(now_us() - begin) / 1e6);
	return load.lost > 0;
}
