/*
 * flood.c - strangers at a sealed daemon on loopback: so many new connections a second, each from one of HOSTS
 * addresses, none of which shows who it is. Prints one line of key=value.
 *
 *   flood leased://127.0.0.1:PORT/KEY silent|garbage|half|hasty RATE SECONDS HOSTS
 *
 * silent says nothing, garbage says 112 bytes that are none of a handshake, half says a good first packet (one of
 * a few, which are recorded as it were: what a replay costs the daemon is the same) and nothing more, hasty the same,
 * and closes some milliseconds later, so that the daemon's bound on how many are there does not help it.
 */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "from_host.h"
#include "handshake.h"

#define N_PACKETS 64
#define SOCKETS_MAX 8000 /* the oldest is closed then: the daemon has most likely done so before */
#define HASTY_MAX   100
#define TICK_NS   1000000

static uint8_t packets[N_PACKETS][HANDSHAKE_FIRST_LEN];
static int open_sockets[SOCKETS_MAX];

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int make_packets(const char *kind, const struct address *to, struct leased_error *err)
{
	struct noise_keypair own, ephemeral;
	struct noise_handshake hs;
	int rc = 0;

	randombytes_buf(packets, sizeof packets);
	noise_new_keypair(&own);
	for (size_t i = 0; i < N_PACKETS && rc == 0 && *kind == 'h'; i++) { /* half, hasty */
		noise_new_keypair(&ephemeral);
		rc = handshake_ask(&hs, &own, &ephemeral, to->key, packets[i]);
	}
	if (rc < 0)
		snprintf(err->text, sizeof err->text, "a key that no handshake is possible with");
	return rc;
}

int main(int argc, char *argv[])
{
	struct rlimit limit = { 20000, 20000 };
	struct leased_error err = { 0 };
	int64_t begin, end, made = 0, refused = 0;
	struct address to;
	int64_t kept;
	uint32_t hosts;
	double rate;

	if (argc != 6 || sodium_init() < 0 || address_parse(&to, argv[1], &err) < 0 || !to.has_key ||
		make_packets(argv[2], &to, &err) < 0) {
		fprintf(stderr, "usage: flood leased://HOST:PORT/KEY silent|garbage|half|hasty RATE SECONDS HOSTS %s\n", err.text);
		return 64;
	}
	kept = strcmp(argv[2], "hasty") == 0 ? HASTY_MAX : SOCKETS_MAX;
	rate = strtod(argv[3], NULL);
	hosts = (uint32_t)strtoul(argv[5], NULL, 10);
	setrlimit(RLIMIT_NOFILE, &limit);
	memset(open_sockets, -1, sizeof open_sockets);
	begin = now_ns();
	end = begin + (int64_t)(strtod(argv[4], NULL) * 1e9);
	for (int64_t now = begin; now < end; now = now_ns()) {
		int64_t due = (int64_t)((double)(now - begin) / 1e9 * rate);

		for (; made < due; made++) {
			int *place = &open_sockets[made % kept];

			if (*place >= 0)
				close(*place);
			*place = connect_from_host(&to, randombytes_uniform(hosts), SOCK_NONBLOCK);
			if (*place < 0 ||
				(strcmp(argv[2], "silent") != 0 &&
					send(*place, packets[made % N_PACKETS], HANDSHAKE_FIRST_LEN, MSG_NOSIGNAL) < 0))
				refused++;
		}
		nanosleep(&(struct timespec){ .tv_nsec = TICK_NS }, NULL);
	}
	printf("kind=%s per_second=%.0f refused=%lld\n", argv[2], (double)made * 1e9 / (double)(now_ns() - begin),
		(long long)refused);
	return 0;
}
