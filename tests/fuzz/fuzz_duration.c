/* Durations: what is read is in bounds and has one text form; every number has a text. */
#include "duration.h"
#include "fuzz.h"

static void check_text_form(int64_t ms)
{
	char out[DURATION_TEXT_SIZE];
	int64_t back = -1;
	int rc;

	duration_format(out, ms);
	assert(strlen(out) < sizeof out - 1);
	rc = duration_parse(&back, out, NULL);
	if (ms >= 0 && ms <= DURATION_MAX_MS)
		assert(rc == 0 && back == ms);
	else
		assert(rc == LEASED_EUSAGE && back == -1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_string(data, size);
	struct leased_error err = { 0 };
	int64_t ms = -1;

	if (duration_parse(&ms, text, &err) == 0) {
		assert(ms >= 0 && ms <= DURATION_MAX_MS);
		assert(strspn(text, "0123456789.dhms") == strlen(text));
		check_text_form(ms);
	} else {
		assert(ms == -1);
		assert(err.status == LEASED_EUSAGE && err.text[0]);
	}
	free(text);
	if (size >= sizeof ms) {
		memcpy(&ms, data, sizeof ms);
		check_text_form(ms);
	}
	return 0;
}
