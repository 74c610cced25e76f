/* leasectl: the table of commands, global options and help. */
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"
#include "status.h"

static const struct command {
	const char *name;
	int (*run)(const struct ctl *ctl, int argc, char *argv[]);
	const char *summary, *help;
} commands[] = {
	{ "run", cmd_run, "hold a lease while a command runs",
		"Usage: leasectl run [OPTION]... NAME -- COMMAND [ARG]...\n"
		"Acquires NAME, runs COMMAND while renewing, releases. Exits with COMMAND's own exit code\n"
		"(128+N when signal N ended it, 126 or 127 when it could not be run); 75 when someone else\n"
		"holds the lease or nothing is left to do for its slot or interval, 76 when it was lost\n"
		"while COMMAND ran.\n\n"
		"  -n, --no-wait            give up at once if it is held (default)\n"
		"  -w, --wait DURATION      wait at most so long\n"
		"  -t, --ttl DURATION       lease length (default 90s); it is renewed every third of it\n"
		"  -E, --conflict-exit N    exit with N instead of 75; 0 says nothing either, as cron likes it\n"
		"      --count N            up to N hold it at once (default 1): one of N places\n"
		"      --shared             beside all others that are shared; without it, alone\n"
		"      --and NAME           this one too: all or none, with one token; up to 64 names\n"
		"      --every DURATION     at most one run in so long, by the database's clock (it may come\n"
		"                           early by a twentieth, at most 10s). A run that was lost does not\n"
		"                           count. For cron choose half of the schedule's interval\n"
		"      --slot TEXT          a tick of a schedule, as \"$(date +%F)\": not run again once\n"
		"                           COMMAND has ended. Remembered for 12 hours (slot_keep of the\n"
		"                           daemon), so that \"$(date +%H:%M)\" works again the next day\n"
		"      --slot-on-failure again|done\n"
		"                           whether the slot may run again after a COMMAND that failed\n"
		"                           (default done)\n"
		"      --min-hold DURATION  the lease stays taken at least so long\n"
		"      --value TEXT         published with the lease\n"
		"      --grace DURATION     from SIGTERM to SIGKILL when the lease is lost\n"
		"                           (default: a sixth of the ttl, at most 10s)\n"
		"      --release-on-disconnect\n"
		"                           when leasectl is killed, the daemon gives the lease back as\n"
		"                           soon as COMMAND has ended (over a Unix socket)\n"
		"  -h, --help\n\n"
		"COMMAND sees LEASED_NAME (the first), LEASED_TOKEN, LEASED_HOLDER and LEASED_EXPIRES_IN_MS.\n" },
	{ "acquire", cmd_acquire, "take a lease and leave; prints holder and token",
		"Usage: leasectl acquire [OPTION]... NAME\n"
		"Acquires NAME and leaves; nobody renews it. Prints what renew and release need.\n\n"
		"  -n, --no-wait            give up at once if it is held (default)\n"
		"  -w, --wait DURATION      wait at most so long\n"
		"  -t, --ttl DURATION       lease length (default 90s)\n"
		"  -E, --conflict-exit N    exit with N instead of 75; 0 says nothing either, as cron likes it\n"
		"      --count N            up to N hold it at once (default 1): one of N places\n"
		"      --shared             beside all others that are shared; without it, alone\n"
		"      --and NAME           this one too: all or none, with one token; up to 64 names\n"
		"      --every DURATION     at most one run in so long, as for run\n"
		"      --slot TEXT          a tick of a schedule, as for run: completed by release\n"
		"      --slot-on-failure again|done\n"
		"                           whether the slot may be taken again after a release with an\n"
		"                           exit status other than 0 (default done)\n"
		"      --min-hold DURATION  the lease stays taken at least so long\n"
		"      --value TEXT         published with the lease\n"
		"  -h, --help\n" },
	{ "renew", cmd_renew, "extend a lease by hand",
		"Usage: leasectl renew [OPTION]... NAME --holder HOLDER --token TOKEN\n"
		"Extends a lease that is still held; 76 when it is not.\n\n"
		"      --holder HOLDER      as acquire printed it\n"
		"      --token TOKEN        likewise\n"
		"      --and NAME           each further name that was acquired with it\n"
		"  -t, --ttl DURATION       the new length (default: as before)\n"
		"      --value TEXT         published with the lease from now on; '' for none\n"
		"  -h, --help\n" },
	{ "release", cmd_release, "give a lease back",
		"Usage: leasectl release [OPTION]... NAME --holder HOLDER --token TOKEN\n"
		"Gives a lease back, which completes its slot; 76 when it was not held.\n\n"
		"      --holder HOLDER      as acquire printed it\n"
		"      --token TOKEN        likewise\n"
		"      --and NAME           each further name that was acquired with it\n"
		"      --exit-status N      how the work ended; kept in the history\n"
		"  -h, --help\n" },
	{ "steal", cmd_steal, "end somebody else's lease, and say why",
		"Usage: leasectl steal NAME --reason TEXT [--token TOKEN]\n"
		"Ends the grant of whoever holds NAME, at once: the holder is told and stops, the next in line\n"
		"takes over. Recorded in the history. Exits with 75 when nobody holds it, 77 when you may not.\n\n"
		"      --reason TEXT        why, up to 1,024 bytes\n"
		"      --token TOKEN        only this grant, not a later one\n"
		"  -h, --help\n" },
	{ "get", cmd_get, "who holds a lease",
		"Usage: leasectl get NAME\n"
		"Prints who holds NAME, a line each where several do. Exits with 0 when it is held, 75 when it is\n"
		"free.\n\n"
		"  -h, --help\n" },
	{ "list", cmd_list, "all leases, or those that begin with a prefix",
		"Usage: leasectl list [OPTION]... [PREFIX]\n"
		"A table of leases in byte order of their names.\n\n"
		"      --no-headers         leave the first line out\n"
		"  -h, --help\n" },
	{ "history", cmd_history, "who held a lease, how long, and how it ended",
		"Usage: leasectl history [OPTION]... NAME\n"
		"       leasectl history --failed [OPTION]... [PREFIX]\n"
		"The grants of NAME, newest first, beginning with who holds it now; or, of all leases that\n"
		"begin with PREFIX, the grants that failed: that expired, were stolen, or were released\n"
		"with an exit status other than 0.\n\n"
		"      --failed             what failed, of many leases\n"
		"      --since DURATION     what ended less than so long ago (default: all that is kept)\n"
		"      --no-headers         leave the first line out\n"
		"  -h, --help\n" },
	{ "watch", cmd_watch, "a line for every change of a lease",
		"Usage: leasectl watch [PREFIX]\n"
		"Prints what is held of all leases that begin with PREFIX (snapshot, held, ready), then a line for\n"
		"every change, none left out and none twice, until interrupted: granted, value, released, expired,\n"
		"stolen. When a connection was lost it goes on by itself, with a fresh snapshot.\n\n"
		"  -h, --help\n" },
	{ "elect", cmd_elect, "campaign for ever: lead when it is our turn",
		"Usage: leasectl elect [OPTION]... NAME [-- COMMAND [ARG]...]\n"
		"       leasectl elect --observe NAME\n"
		"Waits until it leads, runs COMMAND while it does, and campaigns again when the lead is lost.\n"
		"Ends with COMMAND's exit code when COMMAND ends by itself. Without COMMAND it prints a line\n"
		"when it leads and when it has lost the lead. SIGTERM steps down at once.\n\n"
		"  -t, --ttl DURATION       lease length (default 90s)\n"
		"      --min-hold DURATION  the lease stays taken at least so long\n"
		"      --value TEXT         published with the lease\n"
		"      --grace DURATION     from SIGTERM to SIGKILL when the lead is lost\n"
		"      --release-on-disconnect\n"
		"                           as for run\n"
		"      --observe            does not campaign: prints each leader and its value\n"
		"  -h, --help\n" },
	{ "whoami", cmd_whoami, "whom the daemon takes you for, and what you may do",
		"Usage: leasectl whoami\n"
		"Prints the principal, its limits and its rules.\n\n"
		"  -h, --help\n" },
	{ "doctor", cmd_doctor, "look at what usually goes wrong, and say what to do",
		"Usage: leasectl doctor\n"
		"Looks at every daemon of -s and at its database. Exits with 0 when nothing has failed.\n\n"
		"  -h, --help\n" },
	{ "keygen", cmd_keygen, "a new key; prints its public part",
		"Usage: leasectl keygen [OPTION]... [FILE]\n"
		"Makes a secret key and a FILE for it that only its owner can read (default: --key,\n"
		"$LEASED_KEY_FILE, or ~/.config/leased/key). Prints the public key: a client's goes into the\n"
		"daemon's authorized_clients, a server's into the addresses of clients,\n"
		"leased://host:port/leased-server-pub:... A file that is there is never written over.\n\n"
		"      --server             the key of a daemon, for its options key and key_next\n"
		"      --public             make none: print the public part of the one in FILE\n"
		"  -h, --help\n" },
};
#define N_COMMANDS (sizeof commands / sizeof commands[0])

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

static void help_all(void)
{
	puts("Usage: leasectl [-s ADDR[,ADDR...]] [--key FILE] [-o text|json] COMMAND ...\n"
	     "Named leases from a leased daemon.\n");
	for (size_t i = 0; i < N_COMMANDS; i++)
		printf("  %-10s %s\n", commands[i].name, commands[i].summary);
	puts("\n"
	     "  -s, --server ADDR  unix:/path, tcp:127.0.0.1:port or leased://host:port/KEY with the\n"
	     "                     daemon's public key; several are tried in turn\n"
	     "                     (default: $LEASED_SERVER, else unix:/run/leased/leased.sock)\n"
	     "      --key FILE     our own key, for leased:// (default: $LEASED_KEY_FILE, else\n"
	     "                     ~/.config/leased/key); keygen makes one\n"
	     "  -o, --output FORM  text or json\n"
	     "  -h, --help\n"
	     "      --version\n\n"
	     "leasectl COMMAND --help tells more. Durations: 250ms, 30s, 5m, 1h30m, or seconds.\n"
	     "Exit codes: 0 done, 64 usage, 65 bad data, 69 unavailable, 70 internal, 75 held by someone\n"
	     "else or already done, 76 lost or not held, 77 not allowed, 78 configuration.");
}

void ctl_help(const char *command)
{
	const struct command *known = command ? find_command(command) : NULL;

	if (known)
		fputs(known->help, stdout);
	else
		help_all();
}

enum { OPT_VERSION = 256, OPT_KEY };

/* Options before the command. -1: go on with argv[optind]; else the exit code. */
static int read_globals(struct ctl *ctl, int argc, char *argv[])
{
	static const char shorts[] = "+:s:o:h"; /* the first word that is no option is the command */
	static const struct option longs[] = {
		{ "server", required_argument, NULL, 's' },
		{ "output", required_argument, NULL, 'o' },
		{ "key", required_argument, NULL, OPT_KEY },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, OPT_VERSION },
		{ 0 },
	};
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		switch (option) {
		case 's':
			if (!*optarg)
				return ctl_usage("", "-s needs an address");
			ctl->servers = optarg;
			break;
		case 'o':
			if (strcmp(optarg, "json") != 0 && strcmp(optarg, "text") != 0)
				return ctl_usage("", "-o is text or json");
			ctl->json = *optarg == 'j';
			break;
		case OPT_KEY:
			if (!*optarg)
				return ctl_usage("", "--key needs a file");
			ctl->key_file = optarg;
			break;
		case 'h': help_all(); return 0;
		case OPT_VERSION: puts("leasectl " LEASED_VERSION); return 0;
		default: return ctl_bad_option("", option, shorts, argv);
		}
	}
	return -1;
}

static int run_command(int argc, char *argv[])
{
	const struct command *command;
	struct ctl ctl = { 0 };
	int code = read_globals(&ctl, argc, argv), at = optind;

	if (code >= 0)
		return code;
	if (at == argc)
		return ctl_usage("", "what to do? The command is missing");
	command = find_command(argv[at]);
	if (!command)
		return ctl_usage("", "unknown command \"%s\"", argv[at]);
	return command->run(&ctl, argc - at, argv + at);
}

/*
 * One that is closed would be given to the next thing opened, and what is printed would go there. What is
 * put in its place cannot be used either.
 */
static void fill_standard_descriptors(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char *argv[])
{
	int code, written;

	fill_standard_descriptors();
	code = run_command(argc, argv);
	written = ctl_flush(); /* a full disk must not pass for an answer */
	return code ? code : written;
}
