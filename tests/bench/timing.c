/*
 * timing.c - whether time tells if a client's key is in authorized_clients. Prints lines of key=value.
 *
 *   timing lookup SAMPLES N_KEYS
 *   timing leased://127.0.0.1:PORT/KEY SAMPLES FILE
 *
 * lookup: of N_KEYS keys, what finding one takes, and not finding another. With an address: what somebody sees who
 * has not the secret of the key that he asks about: he has recorded a first packet, and sends it again. FILE holds the
 * secret of a key that the daemon knows, with which such packets are made; how long its answer takes, and then its
 * closing on a record that does not open, beside those of packets made with a key that it does not know.
 *
 * Each sample is of the known or of the unknown kind by a coin. What is compared are ranks, so that a busy machine does
 * no more harm than noise: auc is the chance that one of the known took longer than one of the unknown, z how many
 * standard deviations that is from a half. Beyond 4 it is a difference; the medians tell whether it matters.
 */
#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "access.h"
#include "from_host.h"
#include "handshake.h"
#include "key.h"

#define N_PACKETS   64
#define HOSTS       200
#define REPEATED    16 /* look-ups in one sample */
#define RECORD_SIZE 274 /* of a Hello */

struct times {
	double *of[2]; /* [1]: known */
	size_t n[2];
};

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void add(struct times *t, bool known, double us)
{
	t->of[known][t->n[known]++] = us;
}

static int compare(const void *left, const void *right)
{
	const double *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

/* Pairs in which the known one took longer; equal ones count half. Both sides are sorted. */
static double pairs(const struct times *t)
{
	double n = 0;
	size_t less = 0, not_more = 0;

	for (size_t i = 0; i < t->n[1]; i++) {
		while (less < t->n[0] && t->of[0][less] < t->of[1][i])
			less++;
		while (not_more < t->n[0] && t->of[0][not_more] <= t->of[1][i])
			not_more++;
		n += ((double)less + (double)not_more) / 2;
	}
	return n;
}

static void report(const char *what, struct times *t)
{
	double known = (double)t->n[1], unknown = (double)t->n[0], auc;

	for (int i = 0; i < 2; i++)
		qsort(t->of[i], t->n[i], sizeof(double), compare);
	auc = pairs(t) / known / unknown;
	printf("what=%s known=%.0f unknown=%.0f median_known_us=%.3f median_unknown_us=%.3f auc=%.5f z=%.1f\n", what, known,
		unknown, t->of[1][t->n[1] / 2], t->of[0][t->n[0] / 2], auc,
		(auc - 0.5) / sqrt((known + unknown + 1) / 12 / known / unknown));
}

static int times_init(struct times *t, size_t samples)
{
	*t = (struct times){ .of = { calloc(samples, sizeof(double)), calloc(samples, sizeof(double)) } };
	return t->of[0] && t->of[1] ? 0 : LEASED_ENOMEM;
}

static void times_fini(struct times *t)
{
	free(t->of[0]);
	free(t->of[1]);
}

/* ---- the look-up ---- */

static int make_access(struct access **ret_access, uint8_t (*keys)[NOISE_KEY_LEN], size_t n, struct leased_error *err)
{
	char *text = NULL, key[KEY_TEXT_SIZE];
	size_t size;
	FILE *f = open_memstream(&text, &size);
	int rc;

	for (size_t i = 0; i < n; i++) {
		key_format(key, KEY_CLIENT_PUBLIC, keys[i]);
		fprintf(f, "c%zu %s get **\n", i, key);
	}
	fclose(f);
	f = fmemopen(text, size, "r");
	rc = access_parse(ret_access, f, err);
	fclose(f);
	free(text);
	return rc == 0 ? access_seal(*ret_access, err) : rc;
}

static void look_up(const struct access *access, const uint8_t (*keys)[NOISE_KEY_LEN], size_t n, size_t samples,
	struct times *t)
{
	for (size_t i = 0; i < samples; i++) {
		bool known = randombytes_uniform(2);
		struct access_peer peer = { .key = keys[randombytes_uniform((uint32_t)n) + (known ? 0 : n)] };
		size_t found = 0;
		double begin = now_us();

		for (size_t k = 0; k < REPEATED; k++)
			found += access_find(access, &peer) != NULL;
		add(t, known, (now_us() - begin) / REPEATED);
		if (found != (known ? REPEATED : 0))
			abort();
	}
}

static int run_lookup(size_t samples, size_t n, struct leased_error *err)
{
	uint8_t (*keys)[NOISE_KEY_LEN] = calloc(2 * n, sizeof *keys); /* then as many unknown ones */
	struct access *access = NULL;
	struct times t = { 0 };
	int rc = LEASED_ENOMEM;

	if (keys && times_init(&t, samples) == 0) {
		randombytes_buf(keys, 2 * n * sizeof *keys);
		rc = make_access(&access, keys, n, err);
	}
	if (rc == 0) {
		look_up(access, (const uint8_t (*)[NOISE_KEY_LEN])keys, n, samples, &t);
		report("lookup", &t);
	}
	access_free(access);
	times_fini(&t);
	free(keys);
	return rc;
}

/* ---- the daemon ---- */

static uint8_t packets[2][N_PACKETS][HANDSHAKE_FIRST_LEN];

static int make_packets(const struct address *to, const char *file, struct leased_error *err)
{
	const struct noise_keypair *known;
	struct noise_keypair unknown, ephemeral;
	struct noise_handshake hs;
	int rc = key_load(&known, KEY_CLIENT_SECRET, file, err);

	if (rc < 0)
		return rc;
	noise_new_keypair(&unknown);
	for (size_t i = 0; i < 2 * N_PACKETS && rc == 0; i++) {
		noise_new_keypair(&ephemeral);
		rc = handshake_ask(&hs, i % 2 ? known : &unknown, &ephemeral, to->key, packets[i % 2][i / 2]);
	}
	key_free(known);
	return rc;
}

/* Sends, and waits for what comes back: of that length, 0 being the end. Microseconds, or -1. */
static double ask(int fd, const uint8_t *data, size_t len, size_t want)
{
	uint8_t answer[HANDSHAKE_SECOND_LEN];
	double begin = now_us();

	if (send(fd, data, len, MSG_NOSIGNAL) != (ssize_t)len ||
		recv(fd, answer, sizeof answer, want > 0 ? MSG_WAITALL : 0) != (ssize_t)want)
		return -1;
	return now_us() - begin;
}

static int run_daemon(const struct address *to, size_t samples, struct leased_error *err)
{
	uint8_t record[RECORD_SIZE] = { (RECORD_SIZE - 2) >> 8, (RECORD_SIZE - 2) & 255 };
	struct times answered = { 0 }, closed = { 0 };
	int rc = times_init(&answered, samples) < 0 || times_init(&closed, samples) < 0 ? LEASED_ENOMEM : 0;

	for (size_t i = 0; i < samples && rc == 0; i++) {
		bool known = randombytes_uniform(2);
		int fd = connect_from_host(to, randombytes_uniform(HOSTS), 0);
		double first = ask(fd, packets[known][i % N_PACKETS], HANDSHAKE_FIRST_LEN, HANDSHAKE_SECOND_LEN);
		double then = ask(fd, record, sizeof record, 0);

		if (first < 0 || then < 0) {
			snprintf(err->text, sizeof err->text, "no answer, or no end");
			rc = LEASED_EUNAVAILABLE;
		} else {
			add(&answered, known, first);
			add(&closed, known, then);
		}
		close(fd);
	}
	if (rc == 0) {
		report("answer", &answered);
		report("close", &closed);
	}
	times_fini(&answered);
	times_fini(&closed);
	return rc;
}

int main(int argc, char *argv[])
{
	struct leased_error err = { 0 };
	struct address to;
	size_t samples;
	int rc = LEASED_EUSAGE;

	if (argc != 4 || sodium_init() < 0)
		goto usage;
	samples = strtoul(argv[2], NULL, 10);
	if (strcmp(argv[1], "lookup") == 0)
		rc = run_lookup(samples, strtoul(argv[3], NULL, 10), &err);
	else if (address_parse(&to, argv[1], &err) == 0 && to.has_key && make_packets(&to, argv[3], &err) == 0)
		rc = run_daemon(&to, samples, &err);
usage:
	if (rc < 0)
		fprintf(stderr, "usage: timing lookup SAMPLES N_KEYS, or timing leased://HOST:PORT/KEY SAMPLES FILE %s\n", err.text);
	return rc < 0 ? 64 : 0;
}
