#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "job.h"
#include "output.h"
#include "status.h"

/* One question of an endless campaign. */
#define WAIT_MS  3600000
/* Between campaigns that failed for lack of a daemon or a database. */
#define PAUSE_S  1

/* Whether to campaign again; otherwise *ret_code is the exit code. */
static bool goes_on(const struct job_outcome *outcome, char said[static LEASED_ERROR_LEN],
	int *ret_code)
{
	struct timespec pause = { .tv_sec = PAUSE_S };

	*ret_code = outcome->code;
	if (outcome->end == JOB_LOST)
		return true;
	if (outcome->end != JOB_NOT_GRANTED)
		return false;
	if (outcome->status == LEASED_ETIMEDOUT)
		return true;
	if (outcome->status != LEASED_EUNAVAILABLE && outcome->status != LEASED_EBUSY &&
		outcome->status != LEASED_ELOST && outcome->status != LEASED_EGUARDED) {
		*ret_code = ctl_fail(NULL, outcome->status, outcome->err.text);
		return false;
	}
	if (strcmp(said, outcome->err.text) != 0) /* once, not every second */
		fprintf(stderr, "leasectl: %s: trying again\n", outcome->err.text);
	memcpy(said, outcome->err.text, LEASED_ERROR_LEN);
	nanosleep(&pause, NULL);
	return true;
}

/* Without a command: leading is a line, and so is its end. */

struct lead {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool lost;
};

static void say(const struct ctl *ctl, const char *what, const struct leased_lease *lease)
{
	json_t *object;

	if (ctl->json) {
		object = json_object();
		json_object_set_new(object, "event", json_string(what));
		json_object_set_new(object, "name", json_string(leased_name(lease)));
		json_object_set_new(object, "token", json_integer((json_int_t)leased_token(lease)));
		json_object_set_new(object, "holder", json_string(leased_holder(lease)));
		output_json(object);
	} else {
		printf("%s token=%" PRIu64 " holder=%s\n", what, leased_token(lease),
			leased_holder(lease));
	}
	fflush(stdout);
}

static void on_lead_lost(struct leased_lease *lease, const struct leased_error *why, void *data)
{
	struct lead *lead = data;

	(void)lease;
	(void)why;
	pthread_mutex_lock(&lead->lock);
	lead->lost = true;
	pthread_cond_signal(&lead->changed);
	pthread_mutex_unlock(&lead->lock);
}

/* Handlers cannot signal a condition: the wait looks up every so often. */
static bool wait_lead_over(struct lead *lead)
{
	bool lost;

	pthread_mutex_lock(&lead->lock);
	while (!lead->lost && !job_caught_signal()) {
		struct timespec until;

		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 20000000;
		if (until.tv_nsec >= 1000000000) {
			until.tv_sec++;
			until.tv_nsec -= 1000000000;
		}
		pthread_cond_timedwait(&lead->changed, &lead->lock, &until);
	}
	lost = lead->lost;
	pthread_mutex_unlock(&lead->lock);
	return lost;
}

static void lead(const struct ctl *ctl, struct leased_client *client, const struct lease_options *o,
	struct job_outcome *outcome)
{
	struct lead lead = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
	struct leased_acquire_options options = o->acquire;
	struct leased_lease *lease = NULL;
	int rc;

	options.on_lost = on_lead_lost;
	options.data = &lead;
	rc = leased_acquire(client, o->name, &options, &lease, &outcome->err);
	outcome->end = JOB_NOT_GRANTED;
	outcome->status = rc;
	if (rc == 0) {
		say(ctl, "leading", lease);
		outcome->end = wait_lead_over(&lead) ? JOB_LOST : JOB_SIGNALLED;
		if (outcome->end == JOB_SIGNALLED)
			leased_release(lease, NULL, NULL);
		say(ctl, outcome->end == JOB_LOST ? "lost" : "released", lease);
	}
	if (job_caught_signal()) {
		outcome->end = JOB_SIGNALLED;
		outcome->code = 128 + job_caught_signal();
	}
}

static void lead_once(const struct ctl *ctl, const struct lease_options *o,
	struct job_outcome *outcome)
{
	struct leased_options options = { .servers = ctl->servers,
		.program = "leasectl " LEASED_VERSION };
	struct leased_client *client;

	outcome->status = leased_client_open(&client, &options, &outcome->err);
	outcome->end = JOB_NOT_GRANTED;
	if (outcome->status < 0)
		return;
	job_catch_signals(client);
	lead(ctl, client, o, outcome);
	job_stop_catching();
	leased_client_close(client);
}

int cmd_elect(const struct ctl *ctl, int argc, char *argv[])
{
	struct job_outcome outcome = { 0 };
	char said[LEASED_ERROR_LEN] = "";
	struct lease_options o;
	bool done;
	int code;

	code = ctl_read_options(&o, TAKES_ELECT | TAKES_GRACE | TAKES_COMMAND, argc, argv, &done);
	if (code || done)
		return code;
	code = job_check_grace(&o, argv[0]);
	if (code)
		return code;
	o.acquire.wait_ms = WAIT_MS;
	do {
		if (o.command)
			job_run(ctl, &o, &outcome);
		else
			lead_once(ctl, &o, &outcome);
	} while (goes_on(&outcome, said, &code));
	return code;
}
