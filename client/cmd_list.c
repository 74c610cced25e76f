#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

static void print_page(const struct ctl *ctl, const Leased__Listing *page)
{
	for (size_t i = 0; i < page->n_leases; i++) {
		if (ctl->json)
			output_json(output_lease(page->leases[i]));
		else
			print_row(page->leases[i]);
	}
}

/* Page by page: the daemon answers with as many rows as fit one frame. */
static int list_all(const struct ctl *ctl, struct leased_client *client, const char *prefix)
{
	uint8_t last[NAME_MAX_LEN];
	ProtobufCBinaryData after = { .data = last };
	struct verb_reply reply;
	struct leased_error err;
	bool more = true;
	int rc = 0;

	while (more && rc == 0) {
		const Leased__Listing *page;

		rc = verb_list(client, prefix, &after, &reply, &err);
		if (rc == 0) {
			page = reply.message->listing;
			print_page(ctl, page);
			more = page->more && page->n_leases > 0;
			if (more) {
				const Leased__Lease *lease = page->leases[page->n_leases - 1];

				after.len = lease->name.len < sizeof last ? lease->name.len : sizeof last;
				memcpy(last, lease->name.data, after.len);
			}
		}
		verb_reply_fini(&reply);
	}
	return rc < 0 ? ctl_fail("list", rc, err.text) : 0;
}

int cmd_list(const struct ctl *ctl, int argc, char *argv[])
{
	struct leased_client *client;
	struct lease_options o;
	bool done;
	int code;

	code = ctl_read_options(&o, TAKES_PREFIX | TAKES_HEADERS, argc, argv, &done);
	if (code || done)
		return code;
	code = ctl_open(ctl, &client);
	if (code)
		return code;
	if (!ctl->json && !o.no_headers)
		printf("%-30s %-8s %-40s %10s %10s %10s %7s %s\n", "NAME", "STATE", "HOLDER", "TOKEN",
			"EXPIRES IN", "HELD FOR", "WAITERS", "VALUE");
	code = list_all(ctl, client, o.name);
	leased_client_close(client);
	return code;
}
