#include "job.h"

int cmd_run(const struct ctl *ctl, int argc, char *argv[])
{
	struct job_outcome outcome;
	struct lease_options o;
	bool done;
	int code;

	code = ctl_read_options(&o, TAKES_ACQUIRE | TAKES_GRACE | TAKES_COMMAND, argc, argv, &done);
	if (code || done)
		return code;
	if (!o.command)
		return ctl_usage(argv[0], "run what? The command goes behind --");
	code = job_check_grace(&o, argv[0]);
	if (code)
		return code;
	job_run(ctl, &o, &outcome);
	job_die_of_interrupt(outcome.interrupt, outcome.job_only);
	if (outcome.end != JOB_NOT_GRANTED)
		return outcome.code;
	return ctl_refused(&o, &outcome.err);
}
