#include "ctl.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "claim.h"
#include "claim_message.h"
#include "duration.h"
#include "name.h"
#include "status.h"

int ctl_fail(const char *what, int status, const char *why)
{
	struct leased_error said;

	fail(&said, status, "%s%s%s", what ? what : "", what ? ": " : "", why);
	fprintf(stderr, "leasectl: %s\n", said.text);
	return status_exit_code(status);
}

int ctl_fail_on(const char *verb, const char *name, const struct leased_error *why)
{
	struct leased_error said;

	claim_fail(&said, verb, name, why->status, why->text);
	return ctl_fail(NULL, why->status, said.text);
}

int ctl_refused(const struct lease_options *o, const struct leased_error *why)
{
	int held = status_exit_code(LEASED_EHELD);
	int code = status_exit_code(why->status);

	if (code != held || o->conflict_exit != 0) /* cron mails whatever is printed */
		ctl_fail(NULL, why->status, why->text);
	return code == held ? o->conflict_exit : code;
}

int ctl_flush(void)
{
	int code;

	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	code = ctl_fail("write the output", LEASED_EINTERNAL, errno ? strerror(errno) : "it failed");
	__fpurge(stdout);
	clearerr(stdout); /* it is told once */
	return code;
}

int ctl_usage(const char *command, const char *format, ...)
{
	char why[LEASED_ERROR_LEN - 64]; /* leaves room for what stands around it */
	struct leased_error said;
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof why, format, args);
	va_end(args);
	fail(&said, LEASED_EUSAGE, "%s: see leasectl %s%s--help", why, command, *command ? " " : "");
	return ctl_fail(*command ? command : NULL, LEASED_EUSAGE, said.text);
}

int ctl_bad_option(const char *command, int answer, const char *shorts, char *const argv[])
{
	const char *arg = argv[optind - 1];

	if (answer == ':')
		return ctl_usage(command, "%s needs a value", arg);
	if (optopt == 0)
		return ctl_usage(command, "unknown option %s", arg);
	if (optopt > UCHAR_MAX || strchr(shorts, optopt)) /* one that we know */
		return ctl_usage(command, "%s: this option takes no value", arg);
	return ctl_usage(command, "unknown option -%c", optopt);
}

struct leased_options ctl_client_options(const struct ctl *ctl)
{
	return (struct leased_options){ .servers = ctl->servers, .program = "leasectl " LEASED_VERSION,
		.key_file = ctl->key_file };
}

int ctl_open(const struct ctl *ctl, struct leased_client **ret_client)
{
	struct leased_options options = ctl_client_options(ctl);
	struct leased_error err;
	int rc = leased_client_open(ret_client, &options, &err);

	return rc < 0 ? ctl_fail("connect", rc, err.text) : 0;
}

/* Options. */

enum { OPT_MIN_HOLD = 256, OPT_SLOT, OPT_SLOT_ON_FAILURE, OPT_EVERY, OPT_VALUE, OPT_GRACE, OPT_HOLDER,
	OPT_TOKEN, OPT_EXIT_STATUS, OPT_REASON, OPT_RELEASE_ON_DISCONNECT, OPT_NO_HEADERS, OPT_OBSERVE,
	OPT_COUNT, OPT_SHARED, OPT_AND };

static const struct row {
	struct option option;
	unsigned takes;
} rows[] = {
	{ { "no-wait", no_argument, NULL, 'n' }, TAKES_ACQUIRE },
	{ { "wait", required_argument, NULL, 'w' }, TAKES_ACQUIRE },
	{ { "ttl", required_argument, NULL, 't' }, TAKES_ACQUIRE | TAKES_ELECT | TAKES_RENEW },
	{ { "conflict-exit", required_argument, NULL, 'E' }, TAKES_ACQUIRE },
	{ { "min-hold", required_argument, NULL, OPT_MIN_HOLD }, TAKES_ACQUIRE | TAKES_ELECT },
	{ { "slot", required_argument, NULL, OPT_SLOT }, TAKES_ACQUIRE },
	{ { "slot-on-failure", required_argument, NULL, OPT_SLOT_ON_FAILURE }, TAKES_ACQUIRE },
	{ { "every", required_argument, NULL, OPT_EVERY }, TAKES_ACQUIRE },
	{ { "count", required_argument, NULL, OPT_COUNT }, TAKES_ACQUIRE | TAKES_ELECT },
	{ { "shared", no_argument, NULL, OPT_SHARED }, TAKES_ACQUIRE | TAKES_ELECT },
	{ { "and", required_argument, NULL, OPT_AND }, TAKES_ACQUIRE | TAKES_ELECT | TAKES_CLAIM },
	{ { "value", required_argument, NULL, OPT_VALUE }, TAKES_ACQUIRE | TAKES_ELECT | TAKES_RENEW },
	{ { "release-on-disconnect", no_argument, NULL, OPT_RELEASE_ON_DISCONNECT }, TAKES_GRACE },
	{ { "grace", required_argument, NULL, OPT_GRACE }, TAKES_GRACE },
	{ { "observe", no_argument, NULL, OPT_OBSERVE }, TAKES_OBSERVE },
	{ { "holder", required_argument, NULL, OPT_HOLDER }, TAKES_CLAIM },
	{ { "token", required_argument, NULL, OPT_TOKEN }, TAKES_CLAIM | TAKES_REASON },
	{ { "exit-status", required_argument, NULL, OPT_EXIT_STATUS }, TAKES_STATUS },
	{ { "reason", required_argument, NULL, OPT_REASON }, TAKES_REASON },
	{ { "no-headers", no_argument, NULL, OPT_NO_HEADERS }, TAKES_HEADERS },
	{ { "help", no_argument, NULL, 'h' }, TAKES_ALWAYS },
};
#define N_ROWS (sizeof rows / sizeof rows[0])

/* What getopt wants, of those options that the command takes. */
static void make_tables(unsigned takes, struct option longs[static N_ROWS + 1],
	char shorts[static 2 * N_ROWS + 2])
{
	size_t n = 0, at = 0;

	shorts[at++] = ':';
	for (size_t i = 0; i < N_ROWS; i++) {
		const struct option *o = &rows[i].option;

		if (!(rows[i].takes & (takes | TAKES_ALWAYS)))
			continue;
		longs[n++] = *o;
		if (o->val >= 256)
			continue;
		shorts[at++] = (char)o->val;
		if (o->has_arg == required_argument)
			shorts[at++] = ':';
	}
	longs[n] = (struct option){ 0 };
	shorts[at] = '\0';
}

static int read_duration(int64_t *ret_ms, const char *command, const char *what, const char *text,
	bool zero_is_fine)
{
	struct leased_error err;

	if (duration_parse(ret_ms, text, &err) < 0)
		return ctl_usage(command, "%s \"%s\": %s", what, text, err.text);
	if (*ret_ms == 0 && !zero_is_fine)
		return ctl_usage(command, "%s must be above zero", what);
	return 0;
}

static int read_number(uint64_t *ret_value, uint64_t max, const char *command, const char *what,
	const char *text)
{
	char *end;

	errno = 0;
	*ret_value = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || *ret_value > max)
		return ctl_usage(command, "%s \"%s\" is not a number up to %llu", what, text,
			(unsigned long long)max);
	return 0;
}

static int read_count(int *ret_count, const char *command, const char *text)
{
	uint64_t number;
	int code = read_number(&number, LEASED_SHARED, command, "the count", text);

	if (code == 0 && number == 0)
		return ctl_usage(command, "the count is how many may hold it at once, 1 to %d", LEASED_SHARED);
	*ret_count = (int)number;
	return code;
}

static int add_name(struct lease_options *o, const char *command, const char *name)
{
	struct leased_error err;

	if (o->acquire.n_also + 1 == LEASED_NAMES_MAX)
		return ctl_fail(command,
			fail(&err, LEASED_EDATA, "at most %d names go together", LEASED_NAMES_MAX), err.text);
	o->also[o->acquire.n_also++] = name;
	return 0;
}

static int take_option(struct lease_options *o, int option, const char *command, const char *arg)
{
	struct leased_error err;
	uint64_t number;
	int code;

	switch (option) {
	case 'n': o->acquire.wait_ms = 0; return 0;
	case 'w': return read_duration(&o->acquire.wait_ms, command, "the wait", arg, true);
	case 't': return read_duration(&o->acquire.ttl_ms, command, "the ttl", arg, false);
	case OPT_MIN_HOLD:
		return read_duration(&o->acquire.min_hold_ms, command, "the minimum hold", arg, true);
	case OPT_RELEASE_ON_DISCONNECT: o->acquire.release_on_disconnect = true; return 0;
	case OPT_SLOT: o->acquire.slot = arg; return 0;
	case OPT_SLOT_ON_FAILURE:
		o->acquire.slot_again = strcmp(arg, "again") == 0;
		if (!o->acquire.slot_again && strcmp(arg, "done") != 0)
			return ctl_usage(command, "--slot-on-failure is done or again");
		return 0;
	case OPT_EVERY:
		return read_duration(&o->acquire.every_ms, command, "the interval", arg, false);
	case OPT_EXIT_STATUS:
		code = read_number(&number, 255, command, "the exit status", arg);
		o->exit_status = (int)number;
		o->has_exit_status = true;
		return code;
	case OPT_COUNT: return read_count(&o->count, command, arg);
	case OPT_SHARED: o->shared = true; return 0;
	case OPT_AND: return add_name(o, command, arg);
	case OPT_REASON: o->reason = arg; return 0;
	case OPT_OBSERVE: o->observe = true; return 0;
	case OPT_GRACE: return read_duration(&o->grace_ms, command, "the grace", arg, true);
	case OPT_VALUE:
		o->acquire.value = arg;
		o->acquire.value_len = strlen(arg);
		return 0;
	case 'E':
		code = read_number(&number, 255, command, "the exit code", arg);
		o->conflict_exit = (int)number;
		return code;
	case OPT_NO_HEADERS: o->no_headers = true; return 0;
	case OPT_TOKEN:
		o->has_token = true;
		return read_number(&o->token, UINT64_C(9007199254740991), command, "the token", arg);
	case OPT_HOLDER:
		o->has_holder = true;
		if (holder_parse(&o->holder, arg, &err) < 0)
			return ctl_usage(command, "the holder \"%s\": %s", arg, err.text);
		return 0;
	}
	return 0;
}

/* The next `--`. Behind the one of run and elect nothing is ours. */
static int find_separator(int from, int argc, char *argv[])
{
	for (int i = from; i < argc; i++)
		if (strcmp(argv[i], "--") == 0)
			return i;
	return argc;
}

static int check_options(const struct lease_options *o, unsigned takes, const char *command)
{
	struct leased_error err;
	int rc;

	if (takes & TAKES_CLAIM && (!o->has_holder || !o->has_token))
		return ctl_usage(command, "--holder and --token say whose lease it is");
	if (takes & TAKES_REASON && !o->reason)
		return ctl_usage(command, "--reason says why, for the history");
	if (o->count && o->shared)
		return ctl_usage(command, "either --count or --shared");
	if ((o->count > 1 || o->shared) && (o->acquire.slot || o->acquire.every_ms > 0))
		return ctl_usage(command, "--slot and --every are for one holder, without --count and --shared");
	if (takes & TAKES_NOTHING)
		return 0;
	if (takes & TAKES_PREFIX)
		rc = prefix_check((const uint8_t *)o->name, strlen(o->name), &err);
	else
		rc = claim_check_names(o->name, o->also, o->acquire.n_also, &err);
	if (rc == 0 && o->reason)
		rc = reason_check((const uint8_t *)o->reason, strlen(o->reason), &err);
	if (rc < 0)
		return ctl_fail(command, rc, err.text);
	rc = value_check(o->acquire.value, o->acquire.value_len, &err);
	if (rc == 0 && o->acquire.slot)
		rc = slot_check((const uint8_t *)o->acquire.slot, strlen(o->acquire.slot), &err);
	if (rc < 0)
		return ctl_fail(command, rc, err.text);
	if (o->acquire.slot_again && !o->acquire.slot)
		return ctl_usage(command, "--slot-on-failure needs a --slot");
	return 0;
}

/* What stands behind the options: the name, and the command behind its `--`. */
static int take_words(struct lease_options *o, unsigned takes, int end, int argc, char *argv[])
{
	int most = takes & TAKES_NOTHING ? 0 : 1;

	if (takes & TAKES_COMMAND && optind == end && end < argc) {
		optind = end + 1; /* that one ended the options */
		end = find_separator(optind, argc, argv);
	}
	if (optind == end && !(takes & (TAKES_PREFIX | TAKES_NOTHING)))
		return ctl_usage(argv[0], "which lease? The name is missing");
	if (optind + most < end)
		return ctl_usage(argv[0], "unexpected \"%s\"", argv[optind + most]);
	if (end + 1 == argc)
		return ctl_usage(argv[0], "there is no command behind --");
	o->name = optind < end ? argv[optind] : "";
	o->command = end < argc ? &argv[end + 1] : NULL;
	return 0;
}

int ctl_read_options(struct lease_options *ret_options, unsigned takes, int argc, char *argv[],
	bool *ret_done)
{
	struct lease_options o = { .grace_ms = -1, .conflict_exit = status_exit_code(LEASED_EHELD) };
	struct option longs[N_ROWS + 1];
	char shorts[2 * N_ROWS + 2];
	int end = takes & TAKES_COMMAND ? find_separator(1, argc, argv) : argc;
	int option, code = 0;

	*ret_done = false;
	make_tables(takes, longs, shorts);
	optind = 0;
	opterr = 0;
	while (code == 0 && (option = getopt_long(end, argv, shorts, longs, NULL)) != -1) {
		if (option == 'h') {
			ctl_help(argv[0]);
			*ret_done = true;
			return 0;
		}
		if (option == '?' || option == ':')
			code = ctl_bad_option(argv[0], option, shorts, argv);
		else
			code = take_option(&o, option, argv[0], optarg);
	}
	if (code == 0)
		code = take_words(&o, takes, end, argc, argv);
	if (code == 0)
		code = check_options(&o, takes, argv[0]);
	if (code == 0) {
		*ret_options = o;
		ret_options->acquire.also = ret_options->also;
		ret_options->acquire.max_holders = o.shared ? LEASED_SHARED : o.count;
	}
	return code;
}

struct verb_claim ctl_claim(const struct lease_options *o)
{
	return (struct verb_claim){ .name = o->name, .also = o->also, .n_also = o->acquire.n_also,
		.holder = &o->holder, .token = o->token };
}

/* Output. */

void ctl_format_time(char out[static 32], int64_t unix_us)
{
	time_t seconds = (time_t)(unix_us / 1000000);
	struct tm tm;
	size_t len;

	gmtime_r(&seconds, &tm);
	len = strftime(out, 32, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out + len, 32 - len, ".%03dZ", (int)(unix_us / 1000 % 1000));
}

void ctl_escape(char *out, size_t size, ProtobufCBinaryData text)
{
	name_escape(out, size, text.data, text.len);
}

void ctl_escape_text(char *out, size_t size, const char *text)
{
	name_escape(out, size, (const uint8_t *)text, strlen(text));
}
