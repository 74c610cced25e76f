#include "follow.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "status.h"

struct follower {
	const char *command;
	int over; /* eventfd: there is nothing more to wait for */
	int code;
	bool is_ready;
	void (*print)(const struct leased_change *change, void *data);
	void *data;
};

static void end(struct follower *f, int code)
{
	f->code = code;
	eventfd_write(f->over, 1);
}

static void on_change(struct leased_watch *watch, const struct leased_change *change, void *data)
{
	struct follower *f = data;
	int code;

	(void)watch;
	if (f->code)
		return;
	if (change->kind == LEASED_CHANGE_ENDED || (change->kind == LEASED_CHANGE_AWAY && !f->is_ready)) {
		end(f, ctl_fail(f->command, change->why->status, change->why->text));
		return;
	}
	if (change->kind == LEASED_CHANGE_AWAY) {
		ctl_fail(change->why->text, change->why->status, "trying again");
		return;
	}
	f->is_ready = f->is_ready || change->kind == LEASED_CHANGE_READY;
	f->print(change, f->data);
	code = ctl_flush();
	if (code)
		end(f, code);
}

/* Blocks the signals that end it, but for those that were ignored. */
static int catch_signals(void)
{
	static const int ending[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction now;
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++)
		if (sigaction(ending[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
			sigaddset(&set, ending[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

static int watch(const struct ctl *ctl, struct follower *f, const char *prefix, bool exact, int signals)
{
	struct leased_watch_options options = { .exact = exact, .on_change = on_change, .data = f };
	struct pollfd fds[2] = { { .fd = signals, .events = POLLIN }, { .fd = f->over, .events = POLLIN } };
	struct leased_client *client;
	struct leased_watch *w;
	struct leased_error err;
	int code = ctl_open(ctl, &client), rc;

	if (code)
		return code;
	rc = leased_watch(client, prefix, &options, &w, &err);
	if (rc < 0)
		code = ctl_fail(NULL, rc, err.text);
	while (rc == 0 && poll(fds, 2, -1) < 0 && errno == EINTR)
		;
	leased_client_close(client); /* no change is printed any more */
	return code ? code : f->code;
}

int follow(const struct ctl *ctl, const char *command, const char *prefix, bool exact,
	void (*print)(const struct leased_change *change, void *data), void *data)
{
	struct follower f = { .command = command, .print = print, .data = data };
	int signals = catch_signals(), code;

	f.over = eventfd(0, EFD_CLOEXEC);
	if (f.over < 0 || signals < 0)
		code = ctl_fail(command, LEASED_EINTERNAL, strerror(errno));
	else
		code = watch(ctl, &f, prefix, exact, signals);
	close(f.over);
	close(signals);
	return code;
}
