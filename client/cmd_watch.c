#include "ctl.h"
#include "follow.h"
#include "output.h"

static const char *const events[] = {
	[LEASED_CHANGE_SNAPSHOT] = "snapshot",
	[LEASED_CHANGE_HELD] = "held",
	[LEASED_CHANGE_READY] = "ready",
	[LEASED_CHANGE_GRANTED] = "granted",
	[LEASED_CHANGE_VALUE] = "value",
	[LEASED_CHANGE_RELEASED] = "released",
	[LEASED_CHANGE_EXPIRED] = "expired",
	[LEASED_CHANGE_STOLEN] = "stolen",
};

static void print_change(const struct leased_change *change, void *data)
{
	const struct ctl *ctl = data;

	if (ctl->json)
		output_json(output_change(events[change->kind], change));
	else
		output_change_line(events[change->kind], change);
}

int cmd_watch(const struct ctl *ctl, int argc, char *argv[])
{
	struct lease_options o;
	bool done;
	int code = ctl_read_options(&o, TAKES_PREFIX, argc, argv, &done);

	if (code || done)
		return code;
	return follow(ctl, "watch", o.name, false, print_change, (void *)(uintptr_t)ctl);
}
