#include "key.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "status.h"

#define CHECK_LEN   4
#define BASE64      sodium_base64_VARIANT_URLSAFE_NO_PADDING
#define ENCODED_LEN 48 /* of key and checksum: 36 bytes, so that no bits are left over */
#define FILE_MAX    (KEY_TEXT_SIZE + 2)

static const struct kind {
	const char *prefix, *what;
} kinds[] = {
	[KEY_CLIENT_PUBLIC] = { "leased-client-pub:", "the public key of a client" },
	[KEY_CLIENT_SECRET] = { "leased-client-key:", "the SECRET key of a client" },
	[KEY_SERVER_PUBLIC] = { "leased-server-pub:", "the public key of a server" },
	[KEY_SERVER_SECRET] = { "leased-server-key:", "the SECRET key of a server" },
};
#define N_KINDS (sizeof kinds / sizeof kinds[0])

/* Over the prefix too: the same bytes are another text as another kind. */
static void checksum(uint8_t out[static CHECK_LEN], enum key_kind kind, const uint8_t key[static NOISE_KEY_LEN])
{
	uint8_t hash[crypto_generichash_blake2b_BYTES_MIN];
	crypto_generichash_blake2b_state state;

	crypto_generichash_blake2b_init(&state, NULL, 0, sizeof hash);
	crypto_generichash_blake2b_update(
		&state, (const uint8_t *)kinds[kind].prefix, strlen(kinds[kind].prefix));
	crypto_generichash_blake2b_update(&state, key, NOISE_KEY_LEN);
	crypto_generichash_blake2b_final(&state, hash, sizeof hash);
	memcpy(out, hash, CHECK_LEN);
	sodium_memzero(hash, sizeof hash);
	sodium_memzero(&state, sizeof state);
}

void key_format(char out[static KEY_TEXT_SIZE], enum key_kind kind, const uint8_t key[static NOISE_KEY_LEN])
{
	uint8_t both[NOISE_KEY_LEN + CHECK_LEN];
	size_t prefix = strlen(kinds[kind].prefix);

	memcpy(both, key, NOISE_KEY_LEN);
	checksum(both + NOISE_KEY_LEN, kind, key);
	memcpy(out, kinds[kind].prefix, prefix);
	sodium_bin2base64(out + prefix, KEY_TEXT_SIZE - prefix, both, sizeof both, BASE64);
	sodium_memzero(both, sizeof both);
}

/* What a text is that was not the wanted one. */
static int refuse_kind(enum key_kind wanted, const char *text, struct leased_error *err)
{
	for (size_t i = 0; i < N_KINDS; i++)
		if (strncmp(text, kinds[i].prefix, strlen(kinds[i].prefix)) == 0)
			return fail(err, LEASED_EDATA, "this is %s: %s (%s...) belongs here%s", kinds[i].what,
				kinds[wanted].what, kinds[wanted].prefix,
				strstr(kinds[i].prefix, "-key:") && !strstr(kinds[wanted].prefix, "-key:") ?
					": others may have seen it now, make a new one" :
					"");
	return fail(err, LEASED_EDATA, "not a key: %s begins with %s", kinds[wanted].what, kinds[wanted].prefix);
}

int key_parse(uint8_t ret_key[static NOISE_KEY_LEN], enum key_kind kind, const char *text,
	struct leased_error *err)
{
	uint8_t both[NOISE_KEY_LEN + CHECK_LEN], check[CHECK_LEN];
	size_t prefix = strlen(kinds[kind].prefix), len = 0;
	int rc = 0;

	if (strncmp(text, kinds[kind].prefix, prefix) != 0)
		return refuse_kind(kind, text, err);
	text += prefix;
	if (strlen(text) != ENCODED_LEN)
		return fail(err, LEASED_EDATA, "behind %s there are %zu characters instead of %d",
			kinds[kind].prefix, strlen(text), ENCODED_LEN);
	if (sodium_base642bin(both, sizeof both, text, ENCODED_LEN, NULL, &len, NULL, BASE64) < 0 ||
		len != sizeof both) {
		rc = fail(err, LEASED_EDATA, "there are other characters in it than those of keys");
	} else {
		checksum(check, kind, both);
		if (sodium_memcmp(check, both + NOISE_KEY_LEN, sizeof check) == 0)
			memcpy(ret_key, both, NOISE_KEY_LEN);
		else
			rc = fail(err, LEASED_EDATA, "its checksum does not fit: copy it again");
	}
	sodium_memzero(both, sizeof both);
	return rc;
}

/* ---- files ---- */

static struct noise_keypair *allocate(struct leased_error *err)
{
	struct noise_keypair *key = NULL;

	if (sodium_init() >= 0)
		key = sodium_malloc(sizeof *key);
	if (!key)
		fail(err, LEASED_ENOMEM, "no memory for a key: is RLIMIT_MEMLOCK low?");
	return key;
}

void key_free(const struct noise_keypair *key)
{
	sodium_free((void *)(uintptr_t)key); /* makes it writable, and wipes */
}

static int check_private(int fd, struct leased_error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return fail(err, LEASED_ECONFIG, "%s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return fail(err, LEASED_ECONFIG, "not a regular file");
	/* Root looks at the key of a daemon, which is another account's. */
	if (st.st_uid != 0 && st.st_uid != geteuid() && geteuid() != 0)
		return fail(err, LEASED_ECONFIG, "belongs to user %u, who may change it: chown it",
			(unsigned)st.st_uid);
	if (st.st_mode & 077)
		return fail(err, LEASED_ECONFIG, "others may use this secret key (mode %04o): chmod 600 it",
			(unsigned)st.st_mode & 07777);
	return 0;
}

/* One line, with or without its end. */
static int read_secret(uint8_t ret_secret[static NOISE_KEY_LEN], int fd, enum key_kind kind,
	struct leased_error *err)
{
	char text[FILE_MAX + 1];
	size_t len = 0;
	ssize_t n;
	int rc;

	while (len < FILE_MAX && (n = read(fd, text + len, FILE_MAX - len)) != 0) {
		if (n < 0 && errno != EINTR) {
			rc = fail(err, LEASED_ECONFIG, "read: %s", strerror(errno));
			goto wipe;
		}
		len += n > 0 ? (size_t)n : 0;
	}
	if (len > 0 && text[len - 1] == '\n')
		len--;
	text[len] = '\0';
	rc = memchr(text, '\0', len) ? fail(err, LEASED_EDATA, "holds a NUL") :
				       key_parse(ret_secret, kind, text, err);
	if (rc < 0 && err)
		err->status = LEASED_ECONFIG;
wipe:
	sodium_memzero(text, sizeof text);
	return rc < 0 ? LEASED_ECONFIG : 0;
}

static int finish_load(const struct noise_keypair **ret_key, enum key_kind kind, int fd,
	struct leased_error *err)
{
	struct noise_keypair *key;
	int rc = check_private(fd, err);

	if (rc < 0)
		return rc;
	key = allocate(err);
	if (!key)
		return LEASED_ENOMEM;
	rc = read_secret(key->secret, fd, kind, err);
	if (rc < 0) {
		key_free(key);
		return rc;
	}
	noise_complete_keypair(key);
	sodium_mprotect_readonly(key);
	*ret_key = key;
	return 0;
}

/* The text of a key instead of the path of one is not repeated: it may be secret. */
static int refuse_path(const char *path, int error, struct leased_error *err)
{
	const char *hint = "";

	for (size_t i = 0; i < N_KINDS; i++)
		if (strncmp(path, kinds[i].prefix, strlen(kinds[i].prefix)) == 0)
			return fail(err, LEASED_ECONFIG, "this is a key itself: name the file that holds it");
	if (error == ENOENT)
		hint = ": leasectl keygen makes one";
	else if (error == EACCES)
		hint = ": it must belong to the account that uses it";
	return fail(err, LEASED_ECONFIG, "open the key %s: %s%s", path, strerror(error), hint);
}

int key_load(const struct noise_keypair **ret_key, enum key_kind kind, const char *path,
	struct leased_error *err)
{
	struct leased_error why = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hold us up */
	int rc;

	assert(kind == KEY_CLIENT_SECRET || kind == KEY_SERVER_SECRET);
	if (fd < 0)
		return refuse_path(path, errno, err);
	rc = finish_load(ret_key, kind, fd, &why);
	close(fd);
	return rc < 0 ? fail(err, rc, "the key %s: %s", path, why.text) : 0;
}

/* The name is on the disk once its directory is. */
static int sync_directory(const char *path)
{
	char directory[4096];
	int len = snprintf(directory, sizeof directory, "%s", path), fd, rc;
	char *slash = strrchr(directory, '/');

	if (len < 0 || (size_t)len >= sizeof directory) {
		errno = ENAMETOOLONG;
		return -1;
	}
	if (slash)
		slash[slash == directory ? 1 : 0] = '\0';
	fd = open(slash ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	rc = fsync(fd);
	close(fd);
	return rc;
}

static int write_secret(int fd, const char *path, enum key_kind kind, const struct noise_keypair *key)
{
	char text[KEY_TEXT_SIZE + 1];
	size_t len;
	ssize_t n;

	key_format(text, kind, key->secret);
	strcat(text, "\n");
	len = strlen(text);
	n = write(fd, text, len);
	sodium_memzero(text, sizeof text);
	if (n >= 0 && (size_t)n != len)
		errno = ENOSPC;
	return n >= 0 && (size_t)n == len && fsync(fd) == 0 ? sync_directory(path) : -1;
}

int key_create(const struct noise_keypair **ret_key, enum key_kind kind, const char *path,
	struct leased_error *err)
{
	struct noise_keypair *key = allocate(err);
	int fd, rc;

	assert(kind == KEY_CLIENT_SECRET || kind == KEY_SERVER_SECRET);
	if (!key)
		return LEASED_ENOMEM;
	noise_new_keypair(key);
	sodium_mprotect_readonly(key);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		rc = fail(err, LEASED_ECONFIG, "make %s: %s%s", path, strerror(errno),
			errno == EEXIST ? ": a key is never written over" : "");
		goto free_key;
	}
	rc = write_secret(fd, path, kind, key);
	if (rc < 0) {
		rc = fail(err, LEASED_ECONFIG, "write %s: %s", path, strerror(errno));
		unlink(path);
	}
	close(fd);
	if (rc == 0) {
		*ret_key = key;
		return 0;
	}
free_key:
	key_free(key);
	return rc;
}
