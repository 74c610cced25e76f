/*
 * sqlstate.h - what an error of the database means for us. Pure.
 */
#ifndef SQLSTATE_H
#define SQLSTATE_H

#include <stdbool.h>

/* Whether it is in a list of SQLSTATEs, "40001 40P01". An empty one is in none. */
bool sqlstate_is_one_of(const char *sqlstate, const char *list);

/* Nothing will work over this connection: another server, or this one later, will do. */
bool sqlstate_is_of_the_connection(const char *sqlstate);

/* Tables, functions or rights are not as they were when the connection came up: it must look again. */
bool sqlstate_is_of_the_schema(const char *sqlstate);

#endif
