#include <stdio.h>

#include "config.h"
#include "schema.h"
#include "server.h"
#include "status.h"

static int run(struct config *config, int argc, char *argv[], struct leased_error *err)
{
	switch (config->command) {
	case CONFIG_RUN: return server_run(config, argc, argv, err);
	case CONFIG_CHECK: return 0;
	case CONFIG_SCHEMA_PRINT: schema_print(stdout); return 0;
	case CONFIG_SCHEMA_APPLY: return schema_apply(config, err);
	case CONFIG_SCHEMA_STATUS: return schema_status(config, stdout, err);
	case CONFIG_HELP: config_help(stdout); return 0;
	case CONFIG_VERSION: puts("leased " LEASED_VERSION); return 0;
	}
	return fail(err, LEASED_EINTERNAL, "unknown command");
}

int main(int argc, char *argv[])
{
	struct leased_error err = { 0 };
	struct config config = { 0 };
	int rc;

	rc = config_load(&config, argc, argv, &err);
	if (rc == 0)
		rc = run(&config, argc, argv, &err);
	if (rc < 0)
		fprintf(stderr, "leased: %s\n", err.text);
	config_fini(&config);
	return status_exit_code(rc);
}
