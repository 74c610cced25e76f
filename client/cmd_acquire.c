#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "duration.h"
#include "name.h"
#include "output.h"
#include "status.h"

static void print_grant(const struct ctl *ctl, const struct leased_lease *lease)
{
	const char *name = leased_name(lease);
	char escaped[NAME_ESCAPED_SIZE];
	json_t *object;

	if (!ctl->json) {
		name_escape(escaped, sizeof escaped, (const uint8_t *)name, strlen(name));
		printf("holder=%s token=%" PRIu64 " expires_in_ms=%" PRId64 " name=%s\n",
			leased_holder(lease), leased_token(lease), leased_remaining_ms(lease), escaped);
		return;
	}
	object = json_object();
	json_object_set_new(object, "name", json_string(name));
	json_object_set_new(object, "holder", json_string(leased_holder(lease)));
	json_object_set_new(object, "token", json_integer((json_int_t)leased_token(lease)));
	json_object_set_new(object, "expires_in_ms", json_integer(leased_remaining_ms(lease)));
	output_json(object);
}

int cmd_acquire(const struct ctl *ctl, int argc, char *argv[])
{
	struct leased_client *client;
	struct leased_lease *lease;
	struct lease_options o;
	struct leased_error err;
	bool done;
	int code, rc;

	code = ctl_read_options(&o, TAKES_ACQUIRE, argc, argv, &done);
	if (code || done)
		return code;
	code = ctl_open(ctl, &client);
	if (code)
		return code;
	o.acquire.no_renewal = true;
	rc = leased_acquire(client, o.name, &o.acquire, &lease, &err);
	if (rc == 0)
		print_grant(ctl, lease);
	else
		code = ctl_fail(NULL, rc, err.text);
	leased_client_close(client);
	return code == status_exit_code(LEASED_EHELD) ? o.conflict_exit : code;
}
