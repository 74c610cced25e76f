/*
 * job.h - holds a lease while a command runs: what `run` does once and `elect` again and again.
 */
#ifndef JOB_H
#define JOB_H

#include "ctl.h"

enum job_end {
	JOB_NOT_GRANTED, /* status and err say why; nothing ran */
	JOB_SIGNALLED,   /* a signal came before the command was started: code is 128+N */
	JOB_ENDED,       /* the command has ended by itself: code is its own */
	JOB_LOST,        /* the lease was lost, and the command was ended; code is 76 */
};

struct job_outcome {
	enum job_end end;
	int code;
	int interrupt;    /* SIGINT or SIGQUIT of a terminal that ended the command or the wait; 0 */
	bool job_only;    /* it has reached nobody else */
	bool told_to_end; /* SIGTERM, SIGINT or SIGQUIT was passed on to the command */
	int status;       /* NOT_GRANTED: enum leased_status */
	struct leased_error err;
};

/*
 * Connects, acquires as o says, runs o->command, waits for its whole process group, releases. Signals
 * that come while it waits for the lease take it out of the queue; later ones go to the command.
 * Must be called while single-threaded; is so again when it returns.
 */
void job_run(const struct ctl *ctl, const struct lease_options *o, struct job_outcome *ret_outcome);

/* The interrupt that job_caught_signal() tells of, if it came from a terminal; else 0. */
int job_caught_interrupt(void);

/*
 * The last thing of leasectl: dies of an interrupt (0: returns), since shells go on after any exit code.
 * job_only: it has reached only the job, and now goes to everybody in our process group.
 */
void job_die_of_interrupt(int signo, bool job_only);

/* Fills the default grace and checks the given one. 0 or the exit code. */
int job_check_grace(struct lease_options *o, const char *command);

/*
 * Signals that end a wait: after this one of them sets job_caught_signal() and interrupts client.
 * Those that were ignored stay ignored. SIGPIPE is: output that nobody reads is an error, not an end that
 * leaves a lease behind. job_stop_catching brings the old dispositions back.
 */
void job_catch_signals(struct leased_client *client);
void job_stop_catching(void);
int job_caught_signal(void);

#endif
