#include "sql.h"

#include <stdlib.h>
#include <string.h>

/* Puts files of schema/ into the program as one text, ended by NUL. */
#define EMBED(symbol, files)                                                                       \
	__asm__(".section .rodata\n.global " #symbol "\n" #symbol ":\n" files                      \
		".byte 0\n.previous\n");                                                           \
	extern const char symbol[]
#define FILE_OF(name) ".incbin \"" LEASED_SQL_DIR "/" name "\"\n"

EMBED(sql_acquire, FILE_OF("acquire.sql"));
EMBED(sql_acquire_limited, FILE_OF("acquire_limited.sql"));
EMBED(sql_renew, FILE_OF("renew.sql"));
EMBED(sql_renew_value, FILE_OF("renew_value.sql"));
EMBED(sql_release, FILE_OF("release.sql"));
EMBED(sql_release_again, FILE_OF("release.sql") FILE_OF("release_again.sql"));
EMBED(sql_look, FILE_OF("look.sql") FILE_OF("look_one.sql"));
EMBED(sql_look_several, FILE_OF("look.sql") FILE_OF("look_several.sql"));
EMBED(sql_list, FILE_OF("list.sql"));
EMBED(sql_queue, FILE_OF("queue.sql"));
EMBED(sql_steal, FILE_OF("steal.sql"));
EMBED(sql_leave, FILE_OF("leave.sql"));
EMBED(sql_beat, FILE_OF("beat.sql"));
EMBED(sql_expiry, FILE_OF("expiry.sql"));
EMBED(sql_changing, FILE_OF("changing.sql"));
EMBED(sql_held, FILE_OF("held.sql"));
EMBED(sql_history, FILE_OF("history.sql"));
EMBED(sql_failed, FILE_OF("failed.sql"));
EMBED(sql_lapsed, FILE_OF("lapsed.sql"));
EMBED(sql_trim, FILE_OF("trim.sql"));
EMBED(sql_version, FILE_OF("version.sql"));
EMBED(sql_probe, FILE_OF("probe.sql"));
EMBED(sql_settings, FILE_OF("settings.sql"));
EMBED(sql_roles, FILE_OF("roles.sql"));
EMBED(sql_owner, FILE_OF("owner.sql"));
EMBED(sql_transfer, FILE_OF("transfer.sql"));
EMBED(sql_grants, FILE_OF("grants.sql"));
EMBED(sql_0001, FILE_OF("0001_leases.sql"));
EMBED(sql_0002, FILE_OF("0002_trim.sql") FILE_OF("0002_acquire.sql")
	FILE_OF("0002_functions.sql"));

static const struct migration {
	const char *name, *text;
} migrations[] = {
	{ "0001_leases", sql_0001 },
	{ "0002_functions", sql_0002 },
};

int sql_schema_version(void)
{
	return (int)(sizeof migrations / sizeof migrations[0]);
}

#define BEGIN_SAFELY                                                                               \
	"BEGIN;\n"                                                                                 \
	"SET LOCAL search_path = pg_catalog, pg_temp;\n"                                           \
	"SET LOCAL lock_timeout = '5s';\n"                                                         \
	"SET LOCAL client_min_messages = 'warning';\n"                                             \
	"SELECT pg_advisory_xact_lock(hashtext('leased schema'));\n"

void sql_print_roles(FILE *out)
{
	fprintf(out, BEGIN_SAFELY "%s\n%s\n%sCOMMIT;\n", sql_roles, sql_transfer, sql_grants);
}

char *sql_migration(int from)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return NULL;
	fprintf(out,
		BEGIN_SAFELY "%s\n%s\n"
		"CREATE TABLE IF NOT EXISTS leased.schema_version (\n"
		"    version integer PRIMARY KEY, name text NOT NULL,\n"
		"    applied_at timestamptz NOT NULL DEFAULT now());\n"
		"DO $$ BEGIN\n"
		"    IF (SELECT coalesce(max(version), 0) FROM leased.schema_version) <> %d THEN\n"
		"        RAISE EXCEPTION 'leased: the schema is not at version %d any more'\n"
		"            USING ERRCODE = 'LE004';\n"
		"    END IF;\n"
		"END $$;\n",
		sql_roles, sql_owner, from, from);
	for (int i = from; i < sql_schema_version(); i++)
		fprintf(out, "\n%s\nINSERT INTO leased.schema_version (version, name) VALUES (%d, '%s');\n",
			migrations[i].text, i + 1, migrations[i].name);
	fprintf(out, "\n%sCOMMIT;\n", sql_grants);
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}
