/* Keys in texts and files: what is written is read back, and what is not a key of the right kind is refused. */
#include "key.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "table.h"

static const enum key_kind kinds[] = { KEY_CLIENT_PUBLIC, KEY_CLIENT_SECRET, KEY_SERVER_PUBLIC, KEY_SERVER_SECRET };
static const uint8_t bytes[NOISE_KEY_LEN] = "0123456789abcdef0123456789abcde";
static char directory[] = "/tmp/test_key.XXXXXX", path[PATH_MAX];

static void a_text_is_read_back_as_its_own_kind_only(void **state)
{
	char text[KEY_TEXT_SIZE];
	uint8_t key[NOISE_KEY_LEN];
	struct leased_error err;

	(void)state;
	for (size_t i = 0; i < TABLE_LEN(kinds); i++) {
		key_format(text, kinds[i], bytes);
		assert_int_equal(strlen(text), KEY_TEXT_SIZE - 1);
		for (size_t k = 0; k < TABLE_LEN(kinds); k++) {
			memset(key, 0, sizeof key);
			assert_int_equal(key_parse(key, kinds[k], text, &err), i == k ? 0 : LEASED_EDATA);
			if (i == k)
				assert_memory_equal(key, bytes, sizeof key);
			else
				assert_non_null(strstr(err.text, "this is the"));
		}
	}
}

static void a_secret_key_in_a_public_place_is_named_and_not_quoted(void **state)
{
	char text[KEY_TEXT_SIZE];
	uint8_t key[NOISE_KEY_LEN];
	struct leased_error err;

	(void)state;
	key_format(text, KEY_CLIENT_SECRET, bytes);
	key_parse(key, KEY_CLIENT_PUBLIC, text, &err);
	assert_string_equal(err.text, "this is the SECRET key of a client: the public key of a client (leased-client-pub:...) "
				      "belongs here: others may have seen it now, make a new one");
}

static void every_slip_of_the_pen_is_refused(void **state)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+/. \n";
	char text[KEY_TEXT_SIZE], before;
	uint8_t key[NOISE_KEY_LEN];

	(void)state;
	key_format(text, KEY_SERVER_PUBLIC, bytes);
	for (size_t i = 0; i < strlen(text); i++) {
		before = text[i];
		for (const char *c = letters; *c; c++) {
			text[i] = *c;
			assert_int_equal(key_parse(key, KEY_SERVER_PUBLIC, text, NULL), *c == before ? 0 : LEASED_EDATA);
		}
		text[i] = before;
	}
	for (size_t len = 0; len < strlen(text); len++) {
		char cut[KEY_TEXT_SIZE];

		snprintf(cut, sizeof cut, "%.*s", (int)len, text);
		assert_int_equal(key_parse(key, KEY_SERVER_PUBLIC, cut, NULL), LEASED_EDATA);
	}
}

static void the_bytes_of_a_kind_do_not_pass_as_another(void **state)
{
	char text[KEY_TEXT_SIZE], other[KEY_TEXT_SIZE];
	uint8_t key[NOISE_KEY_LEN];

	(void)state;
	key_format(text, KEY_CLIENT_PUBLIC, bytes);
	snprintf(other, sizeof other, "leased-server-pub:%s", strchr(text, ':') + 1);
	assert_int_equal(key_parse(key, KEY_SERVER_PUBLIC, other, NULL), LEASED_EDATA);
}

/* ---- files ---- */

static void put(const char *text, size_t len, mode_t mode)
{
	int fd;

	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), len);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void refused(const char *why)
{
	const struct noise_keypair *key = NULL;
	struct leased_error err = { 0 };

	assert_int_equal(key_load(&key, KEY_CLIENT_SECRET, path, &err), LEASED_ECONFIG);
	assert_int_equal(err.status, LEASED_ECONFIG);
	assert_null(key);
	if (!strstr(err.text, why) || !strstr(err.text, path))
		fail_msg("\"%s\" does not say \"%s\" of %s", err.text, why, path);
}

static void a_new_key_is_private_whatever_the_umask_and_is_read_back(void **state)
{
	const struct noise_keypair *made, *read;
	struct leased_error err;
	struct stat st;
	mode_t mask;

	(void)state;
	unlink(path);
	mask = umask(0);
	assert_int_equal(key_create(&made, KEY_CLIENT_SECRET, path, &err), 0);
	umask(mask);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(key_load(&read, KEY_CLIENT_SECRET, path, &err), 0);
	assert_memory_equal(made, read, sizeof *made);
	assert_memory_not_equal(made->secret, made->public, NOISE_KEY_LEN);
	key_free(made);
	key_free(read);
}

static void a_key_is_never_written_over(void **state)
{
	const struct noise_keypair *key = NULL;
	struct leased_error err;

	(void)state;
	put("precious", 8, 0600);
	assert_int_equal(key_create(&key, KEY_SERVER_SECRET, path, &err), LEASED_ECONFIG);
	assert_non_null(strstr(err.text, "never written over"));
	assert_null(key);
	refused("not a key");
	unlink(path);
	assert_int_equal(symlink("/dev/null", path), 0); /* O_EXCL follows none */
	assert_int_equal(key_create(&key, KEY_SERVER_SECRET, path, &err), LEASED_ECONFIG);
}

static void a_file_that_others_may_use_is_refused(void **state)
{
	char text[KEY_TEXT_SIZE];
	const struct noise_keypair *key;

	(void)state;
	key_format(text, KEY_CLIENT_SECRET, bytes);
	for (mode_t mode = 0400; mode <= 0777; mode++) {
		put(text, strlen(text), mode);
		if (mode & 077) {
			refused("chmod 600");
		} else {
			assert_int_equal(key_load(&key, KEY_CLIENT_SECRET, path, NULL), 0);
			assert_memory_equal(key->secret, bytes, sizeof bytes);
			key_free(key);
		}
	}
}

static void what_is_no_key_file_is_refused(void **state)
{
	char text[2 * KEY_TEXT_SIZE];
	const struct noise_keypair *key;

	(void)state;
	unlink(path);
	refused("No such file");
	assert_int_equal(mkfifo(path, 0600), 0);
	refused("not a regular file");
	put("", 0, 0600);
	refused("not a key");
	key_format(text, KEY_SERVER_SECRET, bytes);
	put(text, strlen(text), 0600);
	refused("SECRET key of a server");
	key_format(text, KEY_CLIENT_SECRET, bytes);
	put(text, strlen(text) + 1, 0600);
	refused("NUL");
	put(text, strlen(text) - 1, 0600);
	refused("47 characters");
	strcat(text, "\n\n");
	put(text, strlen(text), 0600);
	refused("characters");
	put(text, strlen(text) - 1, 0600);
	assert_int_equal(key_load(&key, KEY_CLIENT_SECRET, path, NULL), 0);
	key_free(key);
	memset(text, 'x', sizeof text);
	memcpy(text, "leased-client-key:", 18);
	put(text, sizeof text, 0600);
	refused("characters");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_text_is_read_back_as_its_own_kind_only),
		cmocka_unit_test(a_secret_key_in_a_public_place_is_named_and_not_quoted),
		cmocka_unit_test(every_slip_of_the_pen_is_refused),
		cmocka_unit_test(the_bytes_of_a_kind_do_not_pass_as_another),
		cmocka_unit_test(a_new_key_is_private_whatever_the_umask_and_is_read_back),
		cmocka_unit_test(a_key_is_never_written_over),
		cmocka_unit_test(a_file_that_others_may_use_is_refused),
		cmocka_unit_test(what_is_no_key_file_is_refused),
	};
	int failed;

	if (sodium_init() < 0 || !mkdtemp(directory))
		return 1;
	snprintf(path, sizeof path, "%s/key", directory);
	failed = cmocka_run_group_tests_name("key", tests, NULL, NULL);
	unlink(path);
	rmdir(directory);
	return failed;
}
