/*
 * status.h - looks up the table of leased_status.h, and words failures. Any thread; no state.
 */
#ifndef STATUS_H
#define STATUS_H

#include "leased_status.h"

/* The status for a value from the wire; values we do not know become LEASED_EINTERNAL. */
int status_from_wire(unsigned wire);

/* The exit code for a status: 0 for LEASED_OK, 70 for anything unknown. */
int status_exit_code(int status);

/* The fixed text of a status, never NULL. */
const char *status_text(int status);

/* The name of a status without its prefix ("EHELD"), for logs and JSON; never NULL. */
const char *status_name(int status);

/*
 * Words a failure into err (which may be NULL) and returns status, so that a caller can write
 * `return fail(err, LEASED_EDATA, ...)`. Parts of the text may come from outside: what is no UTF-8, or
 * not safe on a terminal or in a log (text_make_safe), becomes '?'.
 */
int fail(struct leased_error *err, int status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
