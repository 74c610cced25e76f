#include "db_info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "sql.h"
#include "status.h"

void db_info_init(struct db_info *ret_info)
{
	*ret_info = (struct db_info){ .schema_wanted = sql_schema_version() };
}

static void copy_value(char *out, size_t size, const PGresult *row, int column)
{
	snprintf(out, size, "%s", PQgetvalue(row, 0, column));
}

static bool is_true(const PGresult *row, int column)
{
	return *PQgetvalue(row, 0, column) == 't';
}

static int check(const struct db_info *info, struct leased_error *why)
{
	if (info->in_recovery || info->read_only)
		return fail(why, LEASED_EUNAVAILABLE,
			"database %s takes no writes (%s): name the primary, or all hosts, in --database",
			info->host, info->in_recovery ? "a standby" : "read-only");
	if (strcmp(info->encoding, "UTF8") != 0)
		return fail(why, LEASED_ECONFIG,
			"database %s has the encoding %s: leases need one made with ENCODING 'UTF8'",
			info->database, info->encoding);
	return 0;
}

int db_info_take_probe(struct db_info *ret_info, const PGconn *conn, const PGresult *row,
	struct leased_error *why)
{
	const char *host = PQhost(conn);

	db_info_init(ret_info);
	copy_value(ret_info->version, sizeof ret_info->version, row, 0);
	/* A pooler hands out process numbers of its own. */
	ret_info->pooled = atoi(PQgetvalue(row, 0, 1)) != PQbackendPID(conn);
	ret_info->in_recovery = is_true(row, 2);
	ret_info->read_only = is_true(row, 3);
	copy_value(ret_info->isolation, sizeof ret_info->isolation, row, 4);
	copy_value(ret_info->synchronous_commit, sizeof ret_info->synchronous_commit, row, 5);
	ret_info->clock_offset_us = atoll(PQgetvalue(row, 0, 6)) - clock_wall_us();
	ret_info->schema_found = is_true(row, 7) ? -1 : 0;
	ret_info->has_app_role = is_true(row, 8);
	copy_value(ret_info->user, sizeof ret_info->user, row, 9);
	copy_value(ret_info->database, sizeof ret_info->database, row, 10);
	copy_value(ret_info->encoding, sizeof ret_info->encoding, row, 11);
	ret_info->is_superuser = is_true(row, 12);
	copy_value(ret_info->schema_owner, sizeof ret_info->schema_owner, row, 13);
	ret_info->owner_is_superuser = is_true(row, 14);
	copy_value(ret_info->excess, sizeof ret_info->excess, row, 15);
	snprintf(ret_info->host, sizeof ret_info->host, "%s", host ? host : "");
	return check(ret_info, why);
}

int db_info_refuse_superuser(const char *user, struct leased_error *why)
{
	return fail(why, LEASED_ECONFIG,
		"role %s is a superuser, and the daemon needs no such power: name an ordinary role that was GRANTed leased_daemon (`leased schema roles` makes it), or set allow_superuser = yes",
		user);
}

int db_info_take_version(struct db_info *info, const PGresult *row, struct leased_error *why)
{
	info->schema_found = atoi(PQgetvalue(row, 0, 0));
	if (PQgetisnull(row, 0, 1))
		return 0;
	return fail(why, LEASED_ECONFIG,
		"role %s lacks rights on the schema leased: GRANT leased_daemon TO it (`leased schema roles` makes that role), or GRANT it %s",
		info->user, PQgetvalue(row, 0, 1));
}
