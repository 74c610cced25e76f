/*
 * contender.c - one of many that contend for a few names through libleased, for the contention test.
 * Each thread acquires a name, holds it for a while, releases it or lets it expire, and logs what it
 * believed: `name token from_ns to_ns max_holders` on CLOCK_BOOTTIME, one line a grant and name, written
 * before the lease is given back. The checker proves that no two beliefs about a name overlap, or no more
 * than max_holders say. With `several` some ask for company, and some for several names, in any order.
 *
 *   contender SERVERS SEED THREADS NAMES TTL_MS [several]     ends on SIGTERM
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "leased.h"

#define NAME_SIZE   32
#define FURTHER_MAX 3

static struct {
	struct leased_client *client;
	bool several;
	unsigned names;
	int64_t ttl_ms;
	_Atomic bool over;
} all;

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void pause_ms(unsigned ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };

	nanosleep(&t, NULL);
}

static unsigned draw(unsigned *seed, unsigned below)
{
	return (unsigned)rand_r(seed) % below;
}

/* Works under the lease; returns the last moment at which it was certainly held. */
static int64_t work(const struct leased_lease *lease, unsigned ms, int64_t last)
{
	int64_t end = now_ns() + (int64_t)ms * 1000000;

	for (;;) {
		int64_t now = now_ns();

		if (!leased_held(lease))
			return last;
		last = now;
		if (now >= end || all.over)
			return last;
		pause_ms(1);
	}
}

static void tell(const struct leased_lease *lease, const struct leased_acquire_options *o, int64_t from,
	int64_t to)
{
	flockfile(stdout);
	for (size_t i = 0; i <= o->n_also; i++)
		printf("%s %" PRIu64 " %" PRId64 " %" PRId64 " %d\n",
			i > 0 ? o->also[i - 1] : leased_name(lease), leased_token(lease), from, to,
			o->max_holders > 0 ? o->max_holders : 1);
	fflush(stdout);
	funlockfile(stdout);
}

static void hold(struct leased_lease *lease, const struct leased_acquire_options *o, unsigned *seed)
{
	int64_t from = now_ns(), to;
	int status = 0;
	bool forget = draw(seed, 8) == 0; /* as one that hangs: the lease runs out */

	if (!leased_held(lease))
		return;
	to = work(lease, draw(seed, 2 * (unsigned)all.ttl_ms), from); /* often up to the last moment */
	tell(lease, o, from, to);
	if (!forget)
		leased_release(lease, &status, NULL);
}

struct wish {
	struct leased_acquire_options options;
	char name[NAME_SIZE], further[FURTHER_MAX][NAME_SIZE];
	const char *also[FURTHER_MAX];
};

static bool is_drawn(const struct wish *wish, const char *name)
{
	bool found = strcmp(wish->name, name) == 0;

	for (size_t i = 0; i < wish->options.n_also; i++)
		found = found || strcmp(wish->also[i], name) == 0;
	return found;
}

static void draw_several(struct wish *wish, unsigned *seed)
{
	static const int counts[] = { 0, 2, 3, LEASED_SHARED };
	size_t n = draw(seed, 3) == 0 ? draw(seed, FURTHER_MAX + 1) : 0;

	wish->options.max_holders = counts[draw(seed, 4)];
	wish->options.also = wish->also;
	for (size_t i = 0; i < n; i++) {
		char *name = wish->further[wish->options.n_also];

		snprintf(name, NAME_SIZE, "c/%u", draw(seed, all.names));
		if (!is_drawn(wish, name))
			wish->also[wish->options.n_also++] = name;
	}
}

static void draw_wish(struct wish *wish, unsigned *seed)
{
	*wish = (struct wish){ .options = { .ttl_ms = all.ttl_ms,
		.wait_ms = draw(seed, 2) ? (int64_t)draw(seed, 3000) : 0,
		.no_renewal = draw(seed, 4) == 0 } };
	snprintf(wish->name, sizeof wish->name, "c/%u", draw(seed, all.names));
	if (all.several)
		draw_several(wish, seed);
}

static void *contend(void *arg)
{
	unsigned seed = *(unsigned *)arg;

	while (!all.over) {
		struct leased_lease *lease;
		struct wish wish;

		draw_wish(&wish, &seed);
		if (leased_acquire(all.client, wish.name, &wish.options, &lease, NULL) == 0) {
			hold(lease, &wish.options, &seed);
			leased_lease_free(lease);
		} else {
			pause_ms(draw(&seed, 20));
		}
	}
	return NULL;
}

int main(int argc, char *argv[])
{
	struct leased_options options = { .servers = argc > 1 ? argv[1] : NULL, .program = "contender" };
	struct leased_error err;
	pthread_t threads[64];
	unsigned seeds[64], n, seed;
	sigset_t term;
	int signo;

	if (argc != 6 && argc != 7)
		return 64;
	all.several = argc == 7;
	seed = (unsigned)atoi(argv[2]);
	n = (unsigned)atoi(argv[3]) < 64 ? (unsigned)atoi(argv[3]) : 64;
	all.names = (unsigned)atoi(argv[4]);
	all.ttl_ms = atoi(argv[5]);
	while (leased_client_open(&all.client, &options, &err) < 0)
		fprintf(stderr, "contender: %s\n", err.text);
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL); /* for all threads: only sigwait takes it */
	for (unsigned i = 0; i < n; i++) {
		seeds[i] = seed * 64 + i;
		pthread_create(&threads[i], NULL, contend, &seeds[i]);
	}
	sigwait(&term, &signo);
	all.over = true;
	leased_client_interrupt(all.client);
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	leased_client_close(all.client);
	return 0;
}
