/*
 * candidate.c - one that campaigns through libleased's elections, for the tests: prints a line for each
 * callback, `leading TOKEN`, `lost`, `leader TOKEN VALUE`, `nobody`, `problem WHY`; SIGTERM makes it step
 * down and print `stepped down`.
 *
 *   candidate SERVERS NAME VALUE TTL_MS
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "leased.h"

static void on_leading(struct leased_election *e, struct leased_lease *lease, void *data)
{
	(void)e;
	(void)data;
	printf("leading %" PRIu64 "\n", leased_token(lease));
}

static void on_lost(struct leased_election *e, const struct leased_error *why, void *data)
{
	(void)e;
	(void)why;
	(void)data;
	puts("lost");
}

static void on_leader(struct leased_election *e, const struct leased_change *leader, void *data)
{
	(void)e;
	(void)data;
	if (leader)
		printf("leader %" PRIu64 " %.*s\n", leader->token, (int)leader->value_len,
			(const char *)leader->value);
	else
		puts("nobody");
}

static void on_problem(struct leased_election *e, const struct leased_error *why, void *data)
{
	(void)e;
	(void)data;
	printf("problem %s\n", why->text);
}

int main(int argc, char *argv[])
{
	struct leased_options options = { .servers = argc > 1 ? argv[1] : NULL, .program = "candidate" };
	struct leased_election_options o = { .on_leading = on_leading, .on_lost = on_lost,
		.on_leader = on_leader, .on_problem = on_problem };
	struct leased_election *election;
	struct leased_client *client;
	struct leased_error err;
	sigset_t term;
	int signo;

	if (argc != 5)
		return 64;
	setvbuf(stdout, NULL, _IOLBF, 0);
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL);
	o.value = argv[3];
	o.value_len = strlen(argv[3]);
	o.ttl_ms = atoi(argv[4]);
	if (leased_client_open(&client, &options, &err) < 0 ||
		leased_elect(client, argv[2], &o, &election, &err) < 0) {
		fprintf(stderr, "candidate: %s\n", err.text);
		return 1;
	}
	sigwait(&term, &signo);
	leased_step_down(election);
	puts("stepped down");
	leased_client_close(client);
	return 0;
}
