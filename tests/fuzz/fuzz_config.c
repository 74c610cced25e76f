/* The syntax of leased.conf: any bytes give options within their bounds, or an error with a line. */
#include "fuzz.h"

#include <stdio.h>
#include <string.h>

#include "config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config config = { 0 };
	struct leased_error err = { 0 };
	FILE *in;

	if (size == 0)
		return 0;
	in = fmemopen((void *)(uintptr_t)data, size, "r");
	if (config_parse_stream(&config, in, &err) < 0)
		assert(strstr(err.text, "line "));
	assert(config.writers <= 16 && config.n_listen <= CONFIG_LISTEN_MAX);
	fclose(in);
	config_fini(&config);
	return 0;
}
