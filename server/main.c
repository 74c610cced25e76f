/*
 * leased: takes the flags and the configuration, does what they say, and turns the outcome into an exit
 * code. Nothing else.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "access.h"
#include "config.h"
#include "schema.h"
#include "server.h"
#include "status.h"

/* What SIGHUP or a start would read besides the options. */
static int check(const struct config *config, struct leased_error *err)
{
	struct access *access = NULL;
	int rc = *config->authorized_clients ? access_load(&access, config->authorized_clients, err) : 0;

	access_free(access);
	return rc;
}

static int run(struct config *config, int argc, char *argv[], struct leased_error *err)
{
	switch (config->command) {
	case CONFIG_RUN: return server_run(config, argc, argv, err);
	case CONFIG_CHECK: return check(config, err);
	case CONFIG_SCHEMA_PRINT: schema_print(stdout); return 0;
	case CONFIG_SCHEMA_APPLY: return schema_apply(config, err);
	case CONFIG_SCHEMA_STATUS: return schema_status(config, stdout, err);
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
