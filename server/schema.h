/*
 * schema.h - `leased schema print|apply|status`: the migrations by hand. Blocking; no loop.
 */
#ifndef SCHEMA_H
#define SCHEMA_H

#include <stdio.h>

#include "config.h"

/* The whole script from nothing to the newest version, for a DBA. */
void schema_print(FILE *out);

/* Applies what is missing. LEASED_EUNAVAILABLE or LEASED_ECONFIG with what to do. */
int schema_apply(const struct config *config, struct leased_error *err);

/* One line: found, wanted, and what to do. LEASED_ECONFIG when they differ. */
int schema_status(const struct config *config, FILE *out, struct leased_error *err);

#endif
