#include "sqlstate.h"

#include <string.h>

bool sqlstate_is_one_of(const char *sqlstate, const char *list)
{
	return *sqlstate && strstr(list, sqlstate);
}

bool sqlstate_is_of_the_connection(const char *sqlstate)
{
	/* read-only; shutdown; a pool that lost our prepared statements; a plan for another table */
	return sqlstate_is_one_of(sqlstate, "25006 57P01 57P02 57P03 26000 42P05 0A000") ||
	       strncmp(sqlstate, "08", 2) == 0;
}

bool sqlstate_is_of_the_schema(const char *sqlstate)
{
	return sqlstate_is_one_of(sqlstate, "42P01 42883 3F000 42501");
}
