/*
 * contender.c - one of many that contend for a few names through libleased, for the contention test.
 * Each thread acquires a name, holds it for a while, releases it or lets it expire, and logs what it
 * believed: `name token from_ns to_ns` on CLOCK_BOOTTIME, one line a grant, written before the lease is
 * given back. The checker proves that no two beliefs about a name overlap.
 *
 *   contender SERVERS SEED THREADS NAMES TTL_MS     ends on SIGTERM
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

static struct {
	struct leased_client *client;
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

static void hold(struct leased_lease *lease, unsigned *seed)
{
	int64_t from = now_ns(), to;
	int status = 0;
	bool forget = draw(seed, 8) == 0; /* as one that hangs: the lease runs out */

	if (!leased_held(lease))
		return;
	to = work(lease, draw(seed, (unsigned)all.ttl_ms), from);
	printf("%s %" PRIu64 " %" PRId64 " %" PRId64 "\n", leased_name(lease), leased_token(lease),
		from, to);
	fflush(stdout);
	if (!forget)
		leased_release(lease, &status, NULL);
}

static void *contend(void *arg)
{
	unsigned seed = *(unsigned *)arg;

	while (!all.over) {
		struct leased_acquire_options o = { .ttl_ms = all.ttl_ms,
			.wait_ms = draw(&seed, 2) ? (int64_t)draw(&seed, 3000) : 0,
			.no_renewal = draw(&seed, 4) == 0 };
		struct leased_lease *lease;
		char name[32];

		snprintf(name, sizeof name, "c/%u", draw(&seed, all.names));
		if (leased_acquire(all.client, name, &o, &lease, NULL) == 0) {
			hold(lease, &seed);
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

	if (argc != 6)
		return 64;
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
