/*
 * sql.h - the SQL of schema/, embedded by the build. Pure; any thread.
 */
#ifndef SQL_H
#define SQL_H

#include <stddef.h>
#include <stdio.h>

/* The daemon's statements, prepared under these names. */
extern const char sql_acquire[], sql_acquire_limited[], sql_renew[], sql_renew_value[];
extern const char sql_release[], sql_release_again[], sql_look[], sql_look_several[], sql_list[], sql_probe[], sql_steal[];
extern const char sql_queue[], sql_leave[], sql_beat[], sql_settings[];
extern const char sql_history[], sql_failed[], sql_lapsed[], sql_trim[], sql_version[];
extern const char sql_expiry[], sql_changing[], sql_held[];

/* The version that this daemon needs: the number of the last migration. */
int sql_schema_version(void);

/* A script for an administrator: makes the roles, gives the schema to its owner, and grants. */
void sql_print_roles(FILE *out);

/*
 * A script that brings a schema from version `from` to the newest in one transaction, behind a
 * transaction-level advisory lock; it fails with SQLSTATE LE004 when the version is not `from` any
 * more (another daemon was faster: look again). malloc'ed text; NULL when out of memory.
 */
char *sql_migration(int from);

#endif
