#include "client_key.h"

#include <stdio.h>
#include <stdlib.h>

#include "status.h"

int client_key_path(char out[static PATH_MAX], const char *given, struct leased_error *err)
{
	const char *home = secure_getenv("HOME");
	int len;

	if (!given)
		given = secure_getenv("LEASED_KEY_FILE");
	if (given && *given)
		len = snprintf(out, PATH_MAX, "%s", given);
	else if (home && *home)
		len = snprintf(out, PATH_MAX, "%s/.config/leased/key", home);
	else
		return fail(err, LEASED_ECONFIG,
			"no key, and no home directory to look for one: use --key or $LEASED_KEY_FILE");
	return len < PATH_MAX ? 0 : fail(err, LEASED_ECONFIG, "the path of the key is too long");
}
