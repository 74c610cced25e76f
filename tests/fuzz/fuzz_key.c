/* Texts and files of keys, and the addresses that hold one: what is taken has one text form, and no other kind's. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "address.h"
#include "fuzz.h"
#include "key.h"

static void check_text(const char *text)
{
	static const enum key_kind kinds[] = { KEY_CLIENT_PUBLIC, KEY_CLIENT_SECRET, KEY_SERVER_PUBLIC, KEY_SERVER_SECRET };
	uint8_t key[NOISE_KEY_LEN];
	char out[KEY_TEXT_SIZE];
	unsigned taken = 0;

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		struct leased_error err = { 0 };

		if (key_parse(key, kinds[i], text, &err) < 0) {
			assert(err.status == LEASED_EDATA && err.text[0]);
			continue;
		}
		taken++;
		key_format(out, kinds[i], key);
		assert(strcmp(out, text) == 0);
	}
	assert(taken <= 1);
}

static void check_file(const uint8_t *data, size_t size, bool is_private)
{
	const struct noise_keypair *key = NULL;
	struct leased_error err = { 0 };
	char path[64];
	int fd = memfd_create("key", MFD_CLOEXEC), rc;

	assert(fd >= 0);
	assert(fchmod(fd, is_private ? 0600 : 0644) == 0);
	assert(write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	rc = key_load(&key, KEY_CLIENT_SECRET, path, &err);
	assert(rc == 0 ? is_private && key : err.status == LEASED_ECONFIG && err.text[0] && !key);
	key_free(key);
	close(fd);
}

static void check_address(const char *text)
{
	struct address address, back;
	char out[ADDRESS_TEXT_SIZE];

	if (address_parse(&address, text, NULL) < 0)
		return;
	address_format(out, &address);
	assert(strlen(out) < sizeof out - 1);
	assert(address_parse(&back, out, NULL) == 0);
	assert(memcmp(&address, &back, sizeof back) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_string(data, size);

	check_text(text);
	check_address(text);
	check_file(data, size, size % 8 != 7);
	free(text);
	return 0;
}
