#include "ctl.h"
#include "output.h"
#include "verbs.h"

int cmd_release(const struct ctl *ctl, int argc, char *argv[])
{
	struct leased_client *client;
	struct lease_options o;
	struct verb_claim claimed;
	struct leased_error err;
	bool done;
	int code, rc;

	code = ctl_read_options(&o, TAKES_CLAIM | TAKES_STATUS, argc, argv, &done);
	if (code || done)
		return code;
	code = ctl_open(ctl, &client);
	if (code)
		return code;
	claimed = ctl_claim(&o);
	rc = verb_release(client, &claimed, o.has_exit_status ? &o.exit_status : NULL, &err);
	if (rc < 0)
		code = ctl_fail_on("release", o.name, &err);
	else if (ctl->json)
		output_json(json_pack("{s:s, s:b}", "name", o.name, "released", 1));
	leased_client_close(client);
	return code;
}
