#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client.h"
#include "ctl.h"
#include "name.h"
#include "output.h"
#include "status.h"
#include "verbs.h"

/* More than this between two clocks is worth a word; no decision depends on it. */
#define CLOCK_DIFFERENCE_MS 1000
#define TIMEOUT_MS          3000

struct doctor {
	const struct ctl *ctl;
	char server[ADDRESS_TEXT_SIZE];
	bool failed;
};

enum grade { OK, WARN, FAIL };

static void find(struct doctor *d, enum grade grade, const char *check, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

static void find(struct doctor *d, enum grade grade, const char *check, const char *format, ...)
{
	static const char *const grades[] = { "ok", "warn", "fail" };
	char text[LEASED_ERROR_LEN], server[ADDRESS_TEXT_SIZE];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	text_make_safe(text);
	snprintf(server, sizeof server, "%s", d->server);
	text_make_safe(server);
	d->failed = d->failed || grade == FAIL;
	if (d->ctl->json)
		output_json(json_pack("{s:s, s:s, s:s, s:s}", "server", server, "check", check,
			"grade", grades[grade], "finding", text));
	else
		printf("%-4s %s: %s\n", grades[grade], check, text);
}

static void check_database(struct doctor *d, const Leased__Health *h)
{
	if (!h->database_ready) {
		find(d, FAIL, "database", "not usable: %s", h->database_problem);
		return;
	}
	find(d, OK, "database", "PostgreSQL %s on %s, %" PRIu32 " connections", h->database_version,
		*h->database_host ? h->database_host : "the default host", h->connections);
	if (h->database_is_primary)
		find(d, OK, "primary", "takes writes");
	else
		find(d, FAIL, "primary", "takes no writes: name the primary, or all hosts, in --database");
}

static void check_schema(struct doctor *d, const Leased__Health *h)
{
	if (h->schema_found == h->schema_wanted)
		find(d, OK, "schema", "version %" PRId32, h->schema_found);
	else
		find(d, FAIL, "schema", "version %" PRId32 ", %" PRId32 " is needed: run `leased schema apply`%s",
			h->schema_found, h->schema_wanted,
			h->schema_found > h->schema_wanted ? " of the newer daemon, and use that" : "");
	if (h->app_role_present)
		find(d, OK, "role", "leased_app may call the SQL functions");
	else
		find(d, WARN, "role", "leased_app does not exist: let an administrator run the output of `leased schema roles`");
}

static void check_roles(struct doctor *d, const Leased__Health *h)
{
	if (h->schema_owner_is_superuser)
		find(d, WARN, "owner", "the schema belongs to %s, a superuser, with whose rights its functions run: let an administrator run the output of `leased schema roles`, which gives it to leased_owner",
			h->schema_owner);
	else if (*h->schema_owner)
		find(d, OK, "owner", "the schema belongs to %s", h->schema_owner);
	if (*h->excess_rights)
		find(d, WARN, "rights", "the daemon's role has more than it needs: %s: name another in --database, one that is no more than a member of leased_daemon (`leased schema roles` makes that, and gives the schema to leased_owner)",
			h->excess_rights);
	else
		find(d, OK, "rights", "the daemon's role has no more than it needs");
}

static int64_t wall_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void check_clock(struct doctor *d, const char *check, const char *whose, int64_t difference_us)
{
	int64_t ms = difference_us / 1000;

	if (llabs(ms) < CLOCK_DIFFERENCE_MS)
		find(d, OK, check, "%" PRId64 " ms from %s", ms, whose);
	else
		find(d, WARN, check, "%" PRId64 " ms from %s: leases are not affected, cron lines and logs are: run NTP",
			ms, whose);
}

static void check_settings(struct doctor *d, const Leased__Health *h)
{
	const char *commit = h->synchronous_commit;

	if (strcmp(commit, "off") == 0)
		find(d, WARN, "synchronous_commit", "off: a crash of the server forgets the last grants, tokens may then be given twice: turn it on for the daemon's role");
	else
		find(d, OK, "synchronous_commit", "%s", commit);
	if (h->pooled)
		find(d, OK, "pool", "a transaction pool (PgBouncer) stands between: statements are sent unprepared");
	else
		find(d, OK, "pool", "direct connections");
	if (!*h->notifications_problem)
		find(d, OK, "notifications", "arrive: a release on another daemon is handed over at once");
	else
		find(d, WARN, "notifications", "do not arrive, so that waiters poll for releases on other daemons: %s",
			h->notifications_problem);
	if (h->timeline > 0)
		find(d, OK, "timeline", "%" PRIu32 ", token epoch %" PRIu32, h->timeline, h->epoch);
	else
		find(d, WARN, "timeline", "not readable: after an asynchronous failover tokens could repeat: GRANT EXECUTE ON FUNCTION pg_walfile_name(pg_lsn), pg_current_wal_lsn() to the schema's owner");
	if (strcmp(h->transaction_isolation, "read committed") != 0)
		find(d, OK, "isolation", "the database's default is %s; the daemon uses read committed",
			h->transaction_isolation);
}

static void check_health(struct doctor *d, const Leased__Health *h, int64_t asked_us, int64_t now_us)
{
	char principal[1024];

	ctl_escape(principal, sizeof principal, h->principal);
	find(d, OK, "daemon", "%s at %s, up for %" PRIu64 " s, %" PRIu32 " clients, %" PRIu32 " waiters",
		h->program, d->server, h->uptime_ms / 1000, h->sessions, h->waiters);
	find(d, OK, "principal", "you are %s", principal);
	check_database(d, h);
	if (!*h->database_version)
		return; /* never seen: nothing more is known */
	check_schema(d, h);
	check_roles(d, h);
	check_clock(d, "clock of the daemon", "this host", h->daemon_clock_us - (asked_us + now_us) / 2);
	check_clock(d, "clock of the database", "the daemon", h->database_clock_us - h->daemon_clock_us);
	check_settings(d, h);
}

static void check_server(struct doctor *d)
{
	struct leased_options options = ctl_client_options(d->ctl);
	struct leased_client *client;
	struct verb_reply reply = { 0 };
	struct leased_error err;
	int64_t asked_us;
	int rc;

	options.servers = d->server;
	options.timeout_ms = TIMEOUT_MS;
	rc = leased_client_open(&client, &options, &err);
	if (rc < 0) {
		find(d, FAIL, "daemon", "%s: %s%s", d->server, err.text,
			rc == LEASED_EUNAVAILABLE ? ": is leased running there?" : "");
		return;
	}
	asked_us = wall_us();
	rc = verb_report(client, &reply, &err);
	if (rc < 0)
		find(d, FAIL, "daemon", "%s: %s", d->server, err.text);
	else
		check_health(d, reply.message->health, asked_us, wall_us());
	verb_reply_fini(&reply);
	leased_client_close(client);
}

int cmd_doctor(const struct ctl *ctl, int argc, char *argv[])
{
	struct doctor d = { .ctl = ctl };
	struct address servers[SERVERS_MAX];
	struct lease_options o;
	struct leased_error err;
	size_t n;
	bool done;
	int code, rc;

	code = ctl_read_options(&o, TAKES_NOTHING, argc, argv, &done);
	if (code || done)
		return code;
	/* An address that cannot be read is a mistake on the command line, not a finding. */
	rc = client_read_servers(servers, &n, ctl->servers, &err);
	if (rc < 0)
		return ctl_fail("connect", rc, err.text);
	for (size_t i = 0; i < n; i++) {
		address_format(d.server, &servers[i]);
		check_server(&d);
	}
	return d.failed ? status_exit_code(LEASED_EUNAVAILABLE) : 0;
}
