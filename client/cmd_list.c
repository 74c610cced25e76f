#include <inttypes.h>
#include <stdio.h>

#include "ctl.h"
#include "duration.h"
#include "name.h"
#include "output.h"
#include "verbs.h"

static void print_row(const Leased__Lease *lease)
{
	char name[NAME_ESCAPED_SIZE], holder[NAME_ESCAPED_SIZE + 64];
	char left[DURATION_TEXT_SIZE] = "-", held[DURATION_TEXT_SIZE] = "-";
	char value[41]; /* the beginning of it */

	ctl_escape(name, sizeof name, lease->name);
	output_holder(holder, sizeof holder, lease);
	ctl_escape(value, sizeof value, lease->value);
	if (lease->state != LEASED__LEASE__STATE__FREE)
		duration_format(left, (int64_t)lease->expires_in_ms / 1000 * 1000);
	if (lease->holder)
		duration_format(held, (int64_t)lease->held_for_ms / 1000 * 1000);
	printf("%-30s %-8s %-40s %10" PRIu64 " %10s %10s %7" PRIu32 " %s\n", name,
		output_state(lease), *holder ? holder : "-", lease->token, left, held, lease->waiters,
		value);
}

static void print_lease(const Leased__Lease *lease, void *data)
{
	const struct ctl *ctl = data;

	if (ctl->json)
		output_json(output_lease(lease));
	else
		print_row(lease);
}

int cmd_list(const struct ctl *ctl, int argc, char *argv[])
{
	struct leased_client *client;
	struct lease_options o;
	struct leased_error err;
	bool done;
	int code, rc;

	code = ctl_read_options(&o, TAKES_PREFIX | TAKES_HEADERS, argc, argv, &done);
	if (code || done)
		return code;
	code = ctl_open(ctl, &client);
	if (code)
		return code;
	if (!ctl->json && !o.no_headers)
		printf("%-30s %-8s %-40s %10s %10s %10s %7s %s\n", "NAME", "STATE", "HOLDER", "TOKEN",
			"EXPIRES IN", "HELD FOR", "WAITERS", "VALUE");
	rc = verb_list(client, o.name, false, print_lease, (void *)(uintptr_t)ctl, &err);
	if (rc < 0)
		code = ctl_fail("list", rc, err.text);
	leased_client_close(client);
	return code;
}
