#include <inttypes.h>
#include <stdio.h>

#include "ctl.h"
#include "duration.h"
#include "name.h"
#include "output.h"
#include "status.h"
#include "verbs.h"

/* "", ", shared", ", one of 3": who else may come in. */
static void print_others(const Leased__Lease *lease)
{
	if (lease->max_holders == LEASED_SHARED)
		printf(", shared");
	else if (lease->max_holders > 1)
		printf(", one of at most %" PRIu32, lease->max_holders);
}

static void print_lease(const Leased__Lease *lease)
{
	char name[NAME_ESCAPED_SIZE], principal[NAME_ESCAPED_SIZE], holder[NAME_ESCAPED_SIZE + 64];
	char left[DURATION_TEXT_SIZE], held[DURATION_TEXT_SIZE];

	ctl_escape(name, sizeof name, lease->name);
	duration_format(left, (int64_t)lease->expires_in_ms);
	if (lease->state == LEASED__LEASE__STATE__FREE) {
		printf("%s: free\n", name);
	} else if (!lease->holder) {
		printf("%s: released, stays taken for %s more (minimum hold)", name, left);
		print_others(lease);
		putchar('\n');
	} else {
		output_holder(holder, sizeof holder, lease);
		ctl_escape(principal, sizeof principal, lease->principal);
		duration_format(held, (int64_t)lease->held_for_ms);
		printf("%s: held by %s (%s) with token %" PRIu64 " for %s, expires in %s", name,
			holder, principal, lease->token, held, left);
		print_others(lease);
		putchar('\n');
	}
}

static void show(const struct ctl *ctl, const Leased__Lease *lease)
{
	if (ctl->json)
		output_json(output_lease(lease));
	else
		print_lease(lease);
}

/* What is over has a row as long as nobody takes the lease. */
static void show_taken(const Leased__Lease *lease, void *data)
{
	if (lease->state != LEASED__LEASE__STATE__FREE)
		show(data, lease);
}

int cmd_get(const struct ctl *ctl, int argc, char *argv[])
{
	struct leased_client *client;
	struct verb_reply reply;
	struct lease_options o;
	struct leased_error err;
	bool done;
	int code, rc;

	code = ctl_read_options(&o, 0, argc, argv, &done);
	if (code || done)
		return code;
	code = ctl_open(ctl, &client);
	if (code)
		return code;
	rc = verb_get(client, o.name, &reply, &err);
	if (rc == 0 && reply.message->lease->holders > 1)
		rc = verb_list(client, o.name, true, show_taken, (void *)(uintptr_t)ctl, &err);
	else if (rc == 0)
		show(ctl, reply.message->lease);
	if (rc < 0)
		code = ctl_fail_on("get", o.name, &err);
	else if (reply.message->lease->state == LEASED__LEASE__STATE__FREE)
		code = status_exit_code(LEASED_EFREE);
	verb_reply_fini(&reply);
	leased_client_close(client);
	return code;
}
