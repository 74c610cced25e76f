/*
 * db_info.h - what a server is and can do, as it tells in a probe; for the writers, doctor and the log.
 * Pure.
 */
#ifndef DB_INFO_H
#define DB_INFO_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "leased_status.h"

struct db_info {
	char version[64], host[128], user[64], database[64];
	char isolation[32], synchronous_commit[32], encoding[32];
	char schema_owner[64]; /* "": there is none */
	char excess[256];      /* what our role has that the daemon does not need, for people; "": nothing */
	bool owner_is_superuser;
	bool in_recovery, read_only, pooled, has_app_role, is_superuser;
	int32_t timeline;  /* 0: not readable */
	uint32_t epoch;    /* of tokens, when the connection came up */
	int schema_found;  /* 0: none; -1: not read yet */
	int schema_wanted;
	int64_t clock_offset_us; /* server's clock less the daemon's, when probed */
};

/* Nothing is known yet but what we want. */
void db_info_init(struct db_info *ret_info);

/* Takes the row of probe.sql. 0, or why that server will not do. */
int db_info_take_probe(struct db_info *ret_info, const PGconn *conn, const PGresult *row,
	struct leased_error *why);

/* Why we do not work as this role, which is a superuser. Always LEASED_ECONFIG. */
int db_info_refuse_superuser(const char *user, struct leased_error *why);

/* Takes the row of version.sql. 0, or LEASED_ECONFIG: our role lacks rights. */
int db_info_take_version(struct db_info *info, const PGresult *row, struct leased_error *why);

#endif
