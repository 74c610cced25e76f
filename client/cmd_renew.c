#include <inttypes.h>
#include <stdio.h>

#include "ctl.h"
#include "output.h"
#include "verbs.h"

static void print_renewed(const struct ctl *ctl, const struct lease_options *o, int64_t expires_in_ms)
{
	if (!ctl->json) {
		printf("expires_in_ms=%" PRId64 "\n", expires_in_ms);
		return;
	}
	output_json(json_pack("{s:s, s:I, s:I}", "name", o->name, "token", (json_int_t)o->token,
		"expires_in_ms", (json_int_t)expires_in_ms));
}

int cmd_renew(const struct ctl *ctl, int argc, char *argv[])
{
	struct leased_client *client;
	struct lease_options o;
	struct verb_claim claimed;
	struct leased_error err;
	int64_t expires_in_ms = 0;
	bool done;
	int code, rc;

	code = ctl_read_options(&o, TAKES_CLAIM | TAKES_RENEW, argc, argv, &done);
	if (code || done)
		return code;
	code = ctl_open(ctl, &client);
	if (code)
		return code;
	claimed = ctl_claim(&o);
	rc = verb_renew(client, &claimed, o.acquire.ttl_ms, o.acquire.value, &expires_in_ms, &err);
	if (rc == 0)
		print_renewed(ctl, &o, expires_in_ms);
	else
		code = ctl_fail_on("renew", o.name, &err);
	leased_client_close(client);
	return code;
}
