/*
 * leased: takes the flags and the configuration, does what they say, and turns the outcome into an exit
 * code. Nothing else.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "schema.h"
#include "server.h"
#include "status.h"

static int run(struct config *config, int argc, char *argv[], struct leased_error *err)
{
	switch (config->command) {
	case CONFIG_RUN: return server_run(config, argc, argv, err);
	case CONFIG_CHECK: return server_check(config, err);
	case CONFIG_SCHEMA_PRINT: schema_print(stdout); return 0;
	case CONFIG_SCHEMA_APPLY: return schema_apply(config->database, err);
	case CONFIG_SCHEMA_STATUS: return schema_status(config->database, stdout, err);
	case CONFIG_SCHEMA_ROLES: schema_print_roles(stdout); return 0;
	case CONFIG_HELP: config_help(stdout); return 0;
	case CONFIG_VERSION: puts("leased " LEASED_VERSION); return 0;
	}
	return fail(err, LEASED_EINTERNAL, "unknown command");
}

/* A migration that a full disk cut short must not look whole. */
static int flush_output(struct leased_error *err)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	return fail(err, LEASED_EINTERNAL, "write to standard output: %s", strerror(errno));
}

int main(int argc, char *argv[])
{
	struct leased_error err = { 0 };
	struct config config = { 0 };
	int rc;

	rc = config_load(&config, argc, argv, &err);
	if (rc == 0)
		rc = run(&config, argc, argv, &err);
	if (rc == 0)
		rc = flush_output(&err);
	if (rc < 0)
		fprintf(stderr, "leased: %s\n", err.text);
	config_fini(&config);
	return status_exit_code(rc);
}
