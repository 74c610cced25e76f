/*
 * server.h - starts every part in order, stops them in reverse; signals. The only file that knows
 * everybody.
 */
#ifndef SERVER_H
#define SERVER_H

#include "config.h"

/*
 * Runs until SIGTERM or SIGINT: stop accepting, answer what is in flight, leave. SIGHUP reads the
 * configuration again from argv and its file, or keeps the old one and says why. Ready is logged once.
 * 0 after a clean end; otherwise why it could not start.
 */
int server_run(struct config *config, int argc, char *const argv[], struct leased_error *err);

/* Whether the keys that config names can be used: what --check-config looks at besides config_load. */
int server_check(const struct config *config, struct leased_error *err);

#endif
