#include <inttypes.h>
#include <stdio.h>

#include "ctl.h"
#include "name.h"
#include "output.h"
#include "verbs.h"

static void print_ended(const struct ctl *ctl, const Leased__Lease *lease)
{
	char holder[NAME_ESCAPED_SIZE + 40], principal[NAME_ESCAPED_SIZE];

	if (ctl->json) {
		json_t *object = output_lease(lease);

		json_object_set_new(object, "stolen", json_true());
		output_json(object);
		return;
	}
	output_holder(holder, sizeof holder, lease);
	ctl_escape(principal, sizeof principal, lease->principal);
	printf("stolen from %s (%s) token=%" PRIu64 "\n", holder, principal, lease->token);
}

int cmd_steal(const struct ctl *ctl, int argc, char *argv[])
{
	struct leased_client *client;
	struct verb_reply reply;
	struct lease_options o;
	struct leased_error err;
	bool done;
	int code, rc;

	code = ctl_read_options(&o, TAKES_REASON, argc, argv, &done);
	if (code || done)
		return code;
	code = ctl_open(ctl, &client);
	if (code)
		return code;
	rc = verb_steal(client, o.name, o.reason, o.token, &reply, &err);
	if (rc < 0)
		code = ctl_fail_on("steal", o.name, &err);
	else
		print_ended(ctl, reply.message->stolen->ended);
	verb_reply_fini(&reply);
	leased_client_close(client);
	return code;
}
