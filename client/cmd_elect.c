#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "job.h"
#include "observe.h"
#include "output.h"
#include "status.h"

/* One question of an endless campaign; a daemon refuses a wait that is over its wait_max. */
#define WAIT_MS  300000
/* Between campaigns that failed for lack of a daemon or a database. */
#define PAUSE_S  1

/* Whether to campaign again; otherwise *ret_code is the exit code. */
static bool goes_on(const struct job_outcome *outcome, char said[static LEASED_ERROR_LEN],
	int *ret_code)
{
	struct timespec pause = { .tv_sec = PAUSE_S };

	*ret_code = outcome->code;
	if (outcome->end == JOB_LOST)
		return !outcome->told_to_end; /* who wants us to end does not want another campaign */
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
		ctl_fail(outcome->err.text, outcome->status, "trying again");
	memcpy(said, outcome->err.text, LEASED_ERROR_LEN);
	nanosleep(&pause, NULL);
	return true;
}

/* Without a command: leading is a line, and so is its end. */

static int say(const struct ctl *ctl, const char *what, const struct leased_lease *lease)
{
	const char *holder = leased_holder(lease);
	json_int_t token = (json_int_t)leased_token(lease);

	if (ctl->json)
		output_json(json_pack("{s:s, s:s, s:I, s:s}", "event", what, "name", leased_name(lease),
			"token", token, "holder", holder));
	else
		printf("%s token=%lld holder=%s\n", what, (long long)token, holder);
	return ctl_flush();
}

static void on_lead_lost(struct leased_lease *lease, const struct leased_error *why, void *data)
{
	const int *over = data;

	(void)lease;
	(void)why;
	eventfd_write(*over, 1);
}

/* True: it is lost; false: a signal came. Signals are let in only while it sleeps, so none is missed. */
static bool wait_lead_over(int over)
{
	struct pollfd lost = { .fd = over, .events = POLLIN };
	sigset_t all, before;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	while (!lost.revents && !job_caught_signal())
		if (ppoll(&lost, 1, NULL, &before) < 0)
			lost.revents = 0;
	sigprocmask(SIG_SETMASK, &before, NULL);
	return lost.revents;
}

static void lead(const struct ctl *ctl, struct leased_client *client, const struct lease_options *o,
	int *over, struct job_outcome *outcome)
{
	struct leased_acquire_options options = o->acquire;
	struct leased_lease *lease = NULL;
	bool is_lost;
	int rc;

	options.on_lost = on_lead_lost;
	options.data = over;
	rc = leased_acquire(client, o->name, &options, &lease, &outcome->err);
	outcome->end = JOB_NOT_GRANTED;
	outcome->status = rc;
	if (rc == 0) {
		outcome->code = say(ctl, "leading", lease);
		is_lost = outcome->code == 0 && wait_lead_over(*over);
		if (!is_lost)
			leased_release(lease, NULL, NULL);
		if (outcome->code == 0)
			outcome->code = say(ctl, is_lost ? "lost" : "released", lease);
		/* Nobody who leads unheard. */
		outcome->end = outcome->code == 0 && is_lost ? JOB_LOST : JOB_ENDED;
	}
	if (job_caught_signal()) {
		outcome->end = JOB_SIGNALLED;
		outcome->interrupt = job_caught_interrupt();
		outcome->code = 128 + job_caught_signal();
	}
}

static void lead_once(const struct ctl *ctl, const struct lease_options *o,
	struct job_outcome *outcome)
{
	struct leased_options options = ctl_client_options(ctl);
	struct leased_client *client;
	int over = eventfd(0, EFD_CLOEXEC);

	*outcome = (struct job_outcome){ .end = JOB_NOT_GRANTED };
	if (over < 0) {
		outcome->status = fail(&outcome->err, LEASED_EINTERNAL, "eventfd: %s", strerror(errno));
		return;
	}
	outcome->status = leased_client_open(&client, &options, &outcome->err);
	if (outcome->status == 0) {
		job_catch_signals(client);
		lead(ctl, client, o, &over, outcome);
		job_stop_catching();
		leased_client_close(client); /* on_lead_lost runs no more */
	}
	close(over);
}

static bool is_several(const struct lease_options *o)
{
	return o->count || o->shared || o->acquire.n_also > 0;
}

static bool only_observes(const struct lease_options *o)
{
	return o->acquire.ttl_ms == 0 && o->acquire.min_hold_ms == 0 && !o->acquire.value &&
	       !o->acquire.release_on_disconnect && o->grace_ms < 0;
}

int cmd_elect(const struct ctl *ctl, int argc, char *argv[])
{
	struct job_outcome outcome = { 0 };
	char said[LEASED_ERROR_LEN] = "";
	struct lease_options o;
	bool done;
	int code;

	code = ctl_read_options(&o, TAKES_ELECT | TAKES_GRACE | TAKES_COMMAND | TAKES_OBSERVE, argc, argv, &done);
	if (code || done)
		return code;
	if (is_several(&o))
		return ctl_usage(argv[0], "one leads, of one name: no --count, --shared or --and goes with it");
	if (o.observe && (o.command || !only_observes(&o)))
		return ctl_usage(argv[0], "--observe only looks on: no command and no other option goes with it");
	if (o.observe)
		return observe(ctl, o.name);
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
	job_die_of_interrupt(outcome.interrupt, outcome.job_only);
	return code;
}
