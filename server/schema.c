#include "schema.h"

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "pg.h"
#include "sql.h"
#include "status.h"

void schema_print(FILE *out)
{
	char *script = sql_migration(0);

	if (script)
		fputs(script, out);
	free(script);
}

void schema_print_roles(FILE *out)
{
	sql_print_roles(out);
}

/* Nobody's objects are looked up; for one query, since a pool may stand between. */
#define SAFELY "SET LOCAL search_path = pg_catalog, pg_temp; "

static int fail_by(PGconn *conn, const char *what, struct leased_error *err)
{
	char text[401];

	pg_error_text(text, sizeof text, PQerrorMessage(conn));
	return fail(err, LEASED_EUNAVAILABLE, "%s: %s", what, text);
}

static int open_database(PGconn **ret_conn, const char *conninfo, struct leased_error *err)
{
	const char *keywords[] = { "target_session_attrs", "connect_timeout",
		"fallback_application_name", "dbname", "client_encoding", NULL };
	const char *values[] = { "read-write", "5", "leased schema", conninfo, "UTF8",
		NULL };
	PGconn *conn = PQconnectdbParams(keywords, values, 1);
	int rc;

	if (PQstatus(conn) == CONNECTION_OK) {
		*ret_conn = conn;
		return 0;
	}
	rc = fail_by(conn, "connect to the database", err);
	PQfinish(conn);
	return rc;
}

/* The version found; 0 when there is no schema yet. Of what is no table, a view say, reading could run anything. */
static int read_version(PGconn *conn, int *ret_version, struct leased_error *err)
{
	PGresult *r = PQexec(conn,
		SAFELY "SELECT EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('leased.schema_version') AND relkind = 'r')");
	bool exists = PQresultStatus(r) == PGRES_TUPLES_OK && strcmp(PQgetvalue(r, 0, 0), "t") == 0;
	bool ok = PQresultStatus(r) == PGRES_TUPLES_OK;

	PQclear(r);
	if (ok && !exists) {
		*ret_version = 0;
		return 0;
	}
	r = PQexec(conn, SAFELY "SELECT coalesce(max(version), 0) FROM leased.schema_version");
	ok = ok && PQresultStatus(r) == PGRES_TUPLES_OK;
	if (ok)
		*ret_version = atoi(PQgetvalue(r, 0, 0));
	PQclear(r);
	return ok ? 0 : fail_by(conn, "read the schema version", err);
}

static int execute(PGconn *conn, const char *script, const char *what, struct leased_error *err)
{
	PGresult *r = PQexec(conn, script);
	bool ok = PQresultStatus(r) == PGRES_COMMAND_OK;

	PQclear(r);
	return ok ? 0 : fail_by(conn, what, err);
}

static int migrate(PGconn *conn, int from, struct leased_error *err)
{
	char *script = sql_migration(from);
	int rc;

	if (!script)
		return fail(err, LEASED_ENOMEM, "out of memory");
	rc = execute(conn, script, "apply the migrations", err);
	free(script);
	return rc;
}

static int apply(PGconn *conn, struct leased_error *err)
{
	int found, rc;

	rc = read_version(conn, &found, err);
	if (rc == 0 && found > sql_schema_version())
		rc = fail(err, LEASED_ECONFIG, "the schema is at version %d, newer than %d of this program: use a newer leased",
			found, sql_schema_version());
	else if (rc == 0 && found < sql_schema_version())
		rc = migrate(conn, found, err);
	return rc;
}

int schema_apply(const char *conninfo, struct leased_error *err)
{
	PGconn *conn;
	int rc;

	rc = open_database(&conn, conninfo, err);
	if (rc < 0)
		return rc;
	rc = apply(conn, err);
	PQfinish(conn);
	return rc;
}

int schema_prepare_dev(const char *admin, struct leased_error *err)
{
	static const char make_role[] =
		"DO $$ BEGIN IF pg_catalog.to_regrole('leased') IS NULL THEN "
		"CREATE ROLE leased LOGIN IN ROLE leased_daemon; END IF; END $$";
	PGconn *conn;
	int rc;

	rc = open_database(&conn, admin, err);
	if (rc < 0)
		return rc;
	rc = apply(conn, err);
	if (rc == 0)
		rc = execute(conn, make_role, "make the daemon's role", err);
	PQfinish(conn);
	return rc;
}

int schema_status(const char *conninfo, FILE *out, struct leased_error *err)
{
	PGconn *conn;
	int rc, found;

	rc = open_database(&conn, conninfo, err);
	if (rc < 0)
		return rc;
	rc = read_version(conn, &found, err);
	PQfinish(conn);
	if (rc < 0)
		return rc;
	fprintf(out, "schema found=%d wanted=%d\n", found, sql_schema_version());
	if (found < sql_schema_version())
		return fail(err, LEASED_ECONFIG, "the schema is behind: run `leased schema apply`");
	if (found > sql_schema_version())
		return fail(err, LEASED_ECONFIG, "the schema is newer than this program: use a newer leased");
	return 0;
}
