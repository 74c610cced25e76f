/*
 * schema.h - `leased schema print|apply|status|roles`: the migrations by hand. Blocking; no loop.
 */
#ifndef SCHEMA_H
#define SCHEMA_H

#include <stdio.h>

#include "leased_status.h"

/* The whole script from nothing to the newest version, for a DBA. */
void schema_print(FILE *out);

/* The roles and what they may do, for an administrator; whether or not there is a schema yet. */
void schema_print_roles(FILE *out);

/* Applies what is missing. LEASED_EUNAVAILABLE or LEASED_ECONFIG with what to do. */
int schema_apply(const char *conninfo, struct leased_error *err);

/* The same as the superuser of a private cluster, who also makes the role "leased", the daemon's. */
int schema_prepare_dev(const char *admin, struct leased_error *err);

/* One line: found, wanted, and what to do. LEASED_ECONFIG when they differ. */
int schema_status(const char *conninfo, FILE *out, struct leased_error *err);

#endif
