#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "duration.h"
#include "name.h"
#include "output.h"
#include "status.h"

enum { OPT_FAILED = 256, OPT_SINCE, OPT_NO_HEADERS };

struct history_options {
	struct leased_history_options what;
	bool failed, no_headers, done;
};

static int take_option(struct history_options *o, int option, const char *command)
{
	struct leased_error err;

	switch (option) {
	case OPT_FAILED: o->failed = true; return 0;
	case OPT_NO_HEADERS: o->no_headers = true; return 0;
	case OPT_SINCE:
		if (duration_parse(&o->what.since_ms, optarg, &err) < 0)
			return ctl_usage(command, "--since \"%s\": %s", optarg, err.text);
		if (o->what.since_ms == 0)
			return ctl_usage(command, "--since must be above zero");
		return 0;
	case 'h':
		ctl_help(command);
		o->done = true;
		return 0;
	}
	return 0;
}

/* What stands behind the options: a name, or with --failed perhaps a prefix. */
static int take_words(struct history_options *o, int argc, char *argv[])
{
	const char *word = optind < argc ? argv[optind] : NULL;
	struct leased_error err;
	int rc;

	if (optind + 1 < argc)
		return ctl_usage(argv[0], "unexpected \"%s\"", argv[optind + 1]);
	if (o->failed) {
		o->what.prefix = word ? word : "";
		rc = prefix_check((const uint8_t *)o->what.prefix, strlen(o->what.prefix), &err);
	} else if (word) {
		o->what.name = word;
		rc = name_check((const uint8_t *)word, strlen(word), &err);
	} else {
		return ctl_usage(argv[0], "which lease? The name is missing (or --failed)");
	}
	return rc < 0 ? ctl_fail(argv[0], rc, err.text) : 0;
}

static int read_options(struct history_options *ret_options, int argc, char *argv[])
{
	static const char shorts[] = ":h";
	static const struct option longs[] = {
		{ "failed", no_argument, NULL, OPT_FAILED },
		{ "since", required_argument, NULL, OPT_SINCE },
		{ "no-headers", no_argument, NULL, OPT_NO_HEADERS },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct history_options o = { 0 };
	int option, code = 0;

	optind = 0;
	opterr = 0;
	while (code == 0 && !o.done &&
		(option = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		if (option == '?' || option == ':')
			code = ctl_bad_option(argv[0], option, shorts, argv);
		else
			code = take_option(&o, option, argv[0]);
	}
	if (code == 0 && !o.done)
		code = take_words(&o, argc, argv);
	if (code == 0)
		*ret_options = o;
	return code;
}

static void print_header(void)
{
	printf("%-30s %-8s %6s %10s %-24s %10s %-40s %s\n", "NAME", "ENDED", "STATUS", "TOKEN",
		"ACQUIRED AT", "HELD FOR", "HOLDER", "STOLEN BY");
}

static void print_grant(const struct leased_grant *g)
{
	char name[NAME_ESCAPED_SIZE], holder[4 * HOLDER_TEXT_SIZE], held[DURATION_TEXT_SIZE];
	char status[16] = "-", thief[NAME_ESCAPED_SIZE] = "", reason[NAME_ESCAPED_SIZE] = "", since[32];

	ctl_escape_text(name, sizeof name, g->name);
	ctl_escape_text(holder, sizeof holder, g->holder);
	if (g->stolen_by)
		ctl_escape_text(thief, sizeof thief, g->stolen_by);
	if (g->reason)
		ctl_escape_text(reason, sizeof reason, g->reason);
	if (g->has_exit_status)
		snprintf(status, sizeof status, "%d", g->exit_status);
	ctl_format_time(since, g->acquired_at_us);
	/* Whole seconds, but for what was shorter. */
	duration_format(held, g->held_for_ms < 1000 ? g->held_for_ms : g->held_for_ms / 1000 * 1000);
	printf("%-30s %-8s %6s %10" PRIu64 " %-24s %10s %-40s%s%s%s%s\n", name, output_ending(g->ended),
		status, g->token, since, held, holder, *thief ? " " : "", thief, *reason ? ": " : "",
		reason);
}

static bool on_grant(const struct leased_grant *grant, void *data)
{
	const struct ctl *ctl = data;

	if (ctl->json)
		output_json(output_grant(grant));
	else
		print_grant(grant);
	return !ferror(stdout);
}

/* What is not there may never have been written. */
static void say_what_is_kept(const struct history_options *o, int64_t keep_ms)
{
	char keep[DURATION_TEXT_SIZE];

	duration_format(keep, keep_ms);
	if (keep_ms == 0)
		fputs("leasectl: history: this daemon writes none (history_keep = 0)\n", stderr);
	else if (o->what.since_ms > keep_ms)
		fprintf(stderr, "leasectl: history: a grant is told of for %s after its end (history_keep)\n",
			keep);
}

int cmd_history(const struct ctl *ctl, int argc, char *argv[])
{
	struct leased_client *client;
	struct history_options o;
	struct leased_error err;
	int64_t keep_ms = 0;
	int code, rc;

	code = read_options(&o, argc, argv);
	if (code || o.done)
		return code;
	code = ctl_open(ctl, &client);
	if (code)
		return code;
	if (!ctl->json && !o.no_headers)
		print_header();
	rc = leased_history(client, &o.what, on_grant, (void *)(uintptr_t)ctl, &keep_ms, &err);
	if (rc < 0)
		code = ctl_fail(NULL, rc, err.text);
	else
		say_what_is_kept(&o, keep_ms);
	leased_client_close(client);
	return code;
}
