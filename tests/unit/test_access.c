/* authorized_clients: what a line may hold, what each mistake gets, who is found, and who may do what. */
#include "table.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access.h"
#include "key.h"

#define KEY_A "leased-client-pub:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAD59WD3"
#define KEY_B "leased-client-pub:AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAC_i6J_"

static int parse(struct access **ret_access, const char *text, size_t len, struct leased_error *err)
{
	FILE *in = fmemopen((void *)(uintptr_t)text, len ? len : 1, "r");
	int rc;

	if (!len)
		fgetc(in); /* fmemopen takes no empty buffer: its one byte is not ours */
	rc = access_parse(ret_access, in, err);
	fclose(in);
	if (rc == 0)
		rc = access_seal(*ret_access, err);
	return rc;
}

static const struct file_case {
	const char *claim, *text, *want; /* NULL: accepted */
} files[] = {
	{ "an empty file is fine", "", NULL },
	{ "comments and blank lines are fine", "# who\n\n \t\n", NULL },
	{ "a key", "backup " KEY_A " acquire,release jobs/**\n", NULL },
	{ "two keys, while one takes over from the other", "backup " KEY_A " " KEY_B " get **\n", NULL },
	{ "users and groups", "ops uid=0 gid=27 user=root-is-not-here get **\n", "line 1: user root-is-not-here: there is no such user" },
	{ "a user by name", "ops user=root * **; steal ops/*\n", NULL },
	{ "blanks and tabs anywhere", "  ops\tuid=0 \t get  ** ; list ** \n", NULL },
	{ "no blank at a semicolon", "ops uid=0 get a;list b\n", NULL },
	{ "all limits", "ops uid=0 leases=1 waiters=1000000 rate=5 connections=2 until=2999-12-31 get **\n", NULL },
	{ "a date with a time", "ops uid=0 until=2027-01-31T18:00:00Z get **\n", NULL },
	{ "a blank in a pattern", "ops uid=0 get a\\ b\n", NULL },
	{ "a semicolon in a pattern", "ops uid=0 get a\\;b\n", NULL },
	{ "a number sign in a pattern", "ops uid=0 get a#b\n", NULL },
	{ "no end of the last line", "ops uid=0 get **\nbackup uid=1 get jobs", "line 2: the line has no end" },
	{ "no rule", "ops uid=0\n", "line 1: a client without a rule" },
	{ "nobody", "ops get **\n", "line 1: who is it?" },
	{ "a verb without a pattern", "ops uid=0 get\n", "line 1: a rule is verbs and a pattern" },
	{ "a semicolon and nothing", "ops uid=0 get **;\n", "line 1: a rule is verbs and a pattern" },
	{ "two patterns", "ops uid=0 get a b\n", "line 1: \"b\" behind a pattern" },
	{ "a comment behind a rule", "ops uid=0 get a # b\n", "line 1: \"# b\" behind a pattern" },
	{ "an unknown verb", "\nops uid=0 get,read a\n", "line 2: \"read\" is none of" },
	{ "an empty verb", "ops uid=0 get, a\n", "line 1: \"\" is none of" },
	{ "a verb in capitals", "ops uid=0 GET a\n", "line 1: \"GET\" is none of" },
	{ "a bad pattern", "ops uid=0 get a/**/b\n", "line 1: ** stands at the end" },
	{ "an unknown setting", "ops uid=0 lease=3 get a\n", "line 1: lease= is none of" },
	{ "a setting behind the rules", "ops uid=0 get a; rate=3 b\n", "line 1: \"rate=3\" is none of" },
	{ "a limit of nothing", "ops uid=0 leases=0 get a\n", "line 1: leases is a number from 1 to" },
	{ "a limit twice", "ops uid=0 rate=1 rate=2 get a\n", "line 1: rate is given twice" },
	{ "a negative user", "ops uid=-1 get a\n", "line 1: uid is a number from 0" },
	{ "the user that stands for nobody", "ops uid=4294967295 get a\n", "line 1: uid is a number from 0 to 4294967294" },
	{ "a date that is none", "ops uid=0 until=2027-02-30 get a\n", "line 1: there is no such date" },
	{ "a date and more", "ops uid=0 until=2027-02-03x get a\n", "line 1: until is a date" },
	{ "until twice", "ops uid=0 until=2027-02-03 until=2027-02-04 get a\n", "line 1: until is given twice" },
	{ "a name with an @, as Unix peers have", "root@web1 uid=0 get a\n", "line 1: a client's name is made of" },
	{ "a name twice", "a uid=0 get a\nb uid=1 get a\na uid=2 get a\n", "line 3: this name stands on line 1 already" },
	{ "a user twice", "a uid=0 get a\nb user=root get a\n", "line 2: this user stands on line 1 already" },
	{ "a user twice on one line", "a uid=0 uid=0 get a\n", "line 1: this user stands on line 1 already" },
	{ "a group twice", "a gid=7 get a\nb gid=7 get a\n", "line 2: this group stands on line 1 already" },
	{ "a key twice", "a " KEY_A " get a\nb " KEY_A " get a\n", "line 2: this key stands on line 1 already" },
	{ "a private key", "a leased-client-key:AAAA get a\n", "line 1: this is the SECRET key of a client: the public key of a client (leased-client-pub:...) belongs here: others may have seen it now" },
	{ "a server's private key", "a leased-server-key:AAAA get a\n", "line 1: this is the SECRET key of a server" },
	{ "a server's public key", "a leased-server-pub:AAAA get a\n", "line 1: this is the public key of a server" },
	{ "a key that was cut", "a leased-client-pub:AAAA get a\n", "line 1: behind leased-client-pub: there are 4 characters instead of 48" },
	{ "a key with a slip of the pen", "a leased-client-pub:AAAAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAAAAAAAAAD59WD3 get a\n", "line 1: its checksum does not fit" },
	{ "no key of ours", "a leased-client-public:AAAA get a\n", "line 1: not a key: the public key of a client begins with" },
	{ "a key that has no end", "a leased-client-pub:" KEY_A KEY_A KEY_A " get a\n", "line 1: this key is too long" },
	{ "a carriage return", "a uid=0 get a\rb uid=1 get a\n", "line 1: holds a control character" },
	{ "windows line ends", "a uid=0 get a\r\n", "line 1: holds a control character" },
};

static void check_file(void **state)
{
	const struct file_case *c = *state;
	struct leased_error err = { 0 };
	struct access *a = NULL;
	int rc = parse(&a, c->text, strlen(c->text), &err);

	access_free(a);
	if (!c->want) {
		if (rc < 0)
			fail_msg("got: %s", err.text);
		return;
	}
	assert_int_equal(rc, LEASED_ECONFIG);
	if (strncmp(err.text, c->want, strlen(c->want)) != 0)
		fail_msg("got: %s", err.text);
}

/* However much of a file is there: either all of its lines are whole, or it is refused. */
static void no_part_of_a_file_lets_in_more(void **state)
{
	static const char text[] = "ops uid=0 get,list ops/**; steal ops/a\nbackup uid=7 until=2027-01-31 rate=9 get jobs/*\n";
	size_t first = (size_t)(strchr(text, '\n') + 1 - text);
	struct leased_error err;

	(void)state;
	for (size_t len = 0; len < sizeof text - 1; len++) {
		struct access *a = NULL;
		int rc = parse(&a, text, len, &err);

		assert_int_equal(rc, len == 0 || len == first ? 0 : LEASED_ECONFIG);
		access_free(a);
	}
}

static void a_nul_hides_nothing(void **state)
{
	static const char text[] = "ops uid=0 get ops/a\0 b uid=1 * **\n";
	struct access *a = NULL;
	struct leased_error err;

	(void)state;
	assert_int_equal(parse(&a, text, sizeof text - 1, &err), LEASED_ECONFIG);
	assert_string_equal(err.text, "line 1: holds a control character");
}

static void a_line_has_a_bound(void **state)
{
	static char text[ACCESS_LINE_MAX + 3] = "ops uid=0 get a";
	struct access *a = NULL;
	struct leased_error err;

	(void)state;
	memset(text + strlen(text), ' ', ACCESS_LINE_MAX - strlen(text));
	text[ACCESS_LINE_MAX] = '\n';
	assert_int_equal(parse(&a, text, strlen(text), &err), 0);
	access_free(a);
	a = NULL;
	strcpy(text + ACCESS_LINE_MAX, " \n");
	assert_int_equal(parse(&a, text, strlen(text), &err), LEASED_ECONFIG);
	assert_non_null(strstr(err.text, "line 1: longer than"));
}

/* Who is found. */

static const char clients[] = "one " KEY_A " " KEY_B " acquire,release,get billing/**; list **\n"
			      "two uid=7 leases=3 waiters=4 rate=5 connections=6 until=2027-01-31 get a\n"
			      "three gid=20 gid=21 *,steal ops/*\n"
			      "four uid=8 watch **\n";

static struct access *setup(void)
{
	struct access *a = NULL;
	struct leased_error err;

	if (parse(&a, clients, sizeof clients - 1, &err) < 0)
		fail_msg("%s", err.text);
	return a;
}

static const char *found(const struct access *a, const struct access_peer *peer)
{
	const struct access_client *c = access_find(a, peer);

	return c ? c->name : "nobody";
}

static void who_is_found(void **state)
{
	static const gid_t groups[] = { 5, 21 };
	uint8_t key[NOISE_KEY_LEN] = { 0 };
	struct access *a = setup();

	(void)state;
	assert_string_equal(found(a, &(struct access_peer){ .key = key }), "one");
	key[0] = 1;
	assert_string_equal(found(a, &(struct access_peer){ .key = key }), "one");
	key[31] = 1;
	assert_string_equal(found(a, &(struct access_peer){ .key = key }), "nobody");
	/* A key that is unknown does not fall back to an account. */
	assert_string_equal(found(a, &(struct access_peer){ .key = key, .is_unix = true, .uid = 7 }), "nobody");
	assert_string_equal(found(a, &(struct access_peer){ .is_unix = true, .uid = 7 }), "two");
	assert_string_equal(found(a, &(struct access_peer){ .is_unix = true, .uid = 9 }), "nobody");
	assert_string_equal(found(a, &(struct access_peer){ .is_unix = true, .uid = 9, .groups = groups, .n_groups = 2 }), "three");
	/* The first line that fits. */
	assert_string_equal(found(a, &(struct access_peer){ .is_unix = true, .uid = 8, .groups = groups, .n_groups = 2 }), "three");
	assert_string_equal(found(a, &(struct access_peer){ .uid = 7 }), "nobody"); /* TCP without a key */
	access_free(a);
}

/* Of so many; a fresh random hash each time puts them into another order. */
static void check_keys(size_t n)
{
	char text[40 * 100] = "# nobody\n", line[100], key_text[KEY_TEXT_SIZE], name[20];
	uint8_t keys[40][NOISE_KEY_LEN], other[NOISE_KEY_LEN];
	struct access *a = NULL;
	struct leased_error err;

	for (size_t i = 0; i < n; i++) {
		randombytes_buf(keys[i], sizeof keys[i]);
		key_format(key_text, KEY_CLIENT_PUBLIC, keys[i]);
		snprintf(line, sizeof line, "c%zu %s get a\n", i, key_text);
		strcat(text, line);
	}
	assert_int_equal(parse(&a, text, strlen(text), &err), 0);
	for (size_t i = 0; i < n; i++) {
		snprintf(name, sizeof name, "c%zu", i);
		assert_string_equal(found(a, &(struct access_peer){ .key = keys[i] }), name);
	}
	for (size_t i = 0; i < 100; i++) {
		randombytes_buf(other, sizeof other);
		assert_string_equal(found(a, &(struct access_peer){ .key = other }), "nobody");
	}
	access_free(a);
}

static void each_of_many_keys_is_found(void **state)
{
	(void)state;
	for (size_t n = 0; n < 40; n++)
		check_keys(n);
}

static void limits_are_read(void **state)
{
	struct access *a = setup();
	const struct access_client *two = access_find(a, &(struct access_peer){ .is_unix = true, .uid = 7 });

	(void)state;
	assert_int_equal(two->limits.leases, 3);
	assert_int_equal(two->limits.waiters, 4);
	assert_int_equal(two->limits.rate, 5);
	assert_int_equal(two->limits.connections, 6);
	assert_int_equal(two->until_us, INT64_C(1801353600000000));
	access_free(a);
}

static bool may(const struct access_client *c, unsigned verb, const char *name)
{
	return access_may(c, verb, (struct text){ name, strlen(name) });
}

static void who_may_do_what(void **state)
{
	uint8_t key[NOISE_KEY_LEN] = { 0 };
	static const gid_t group = 20;
	struct access *a = setup();
	const struct access_client *one = access_find(a, &(struct access_peer){ .key = key });
	const struct access_client *three =
		access_find(a, &(struct access_peer){ .is_unix = true, .uid = 9, .groups = &group, .n_groups = 1 });

	(void)state;
	assert_true(may(one, ACCESS_ACQUIRE, "billing/eu"));
	assert_true(may(one, ACCESS_RENEW, "billing/eu")); /* goes with it */
	assert_true(may(one, ACCESS_LIST, "ops/a"));
	assert_false(may(one, ACCESS_ACQUIRE, "ops/a"));
	assert_false(may(one, ACCESS_STEAL, "billing/eu"));
	assert_false(may(one, ACCESS_HISTORY, "billing/eu"));
	assert_true(may(one, ACCESS_ANY, "ops/a"));
	assert_true(may(three, ACCESS_STEAL, "ops/a"));
	assert_false(may(three, ACCESS_STEAL, "ops/a/b"));
	assert_false(may(NULL, ACCESS_ANY, "ops/a"));
	assert_false(access_may_begin(NULL, ACCESS_ANY, (struct text){ "", 0 }));
	access_free(a);
}

static void a_star_is_all_but_steal(void **state)
{
	struct leased_error err;

	(void)state;
	assert_int_equal(access_verbs_parse((struct text){ "*", 1 }, &err), ACCESS_ALL);
	assert_int_equal(ACCESS_ALL & ACCESS_STEAL, 0);
	assert_int_equal(ACCESS_ALL | ACCESS_STEAL, ACCESS_ANY);
}

static void without_a_file_all_may_do_all_but_steal(void **state)
{
	uint8_t key[NOISE_KEY_LEN] = { 0 };
	const struct access_client *c;
	struct access *a = NULL;
	struct leased_error err;

	(void)state;
	assert_int_equal(access_new_default(&a, &err), 0);
	c = access_find(a, &(struct access_peer){ .is_unix = true, .uid = geteuid() });
	assert_true(may(c, ACCESS_STEAL, "a"));
	c = access_find(a, &(struct access_peer){ .is_unix = true, .uid = 0 });
	assert_true(may(c, ACCESS_STEAL, "a"));
	c = access_find(a, &(struct access_peer){ .is_unix = true, .uid = 4711 });
	assert_true(may(c, ACCESS_ACQUIRE, "a/b"));
	assert_false(may(c, ACCESS_STEAL, "a/b"));
	assert_false(may(access_find(a, &(struct access_peer){ 0 }), ACCESS_STEAL, "a")); /* loopback */
	assert_null(access_find(a, &(struct access_peer){ .key = key }));
	access_free(a);
}

/* The file itself. */

static char path[] = "/tmp/leased-access-XXXXXX";

static int load(mode_t mode, struct leased_error *err)
{
	struct access *a = NULL;
	int rc;

	assert_int_equal(chmod(path, mode), 0);
	rc = access_load(&a, path, err);
	access_free(a);
	return rc;
}

static void nobody_else_may_write_the_file(void **state)
{
	struct leased_error err;
	struct access *a = NULL;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0 && write(fd, clients, sizeof clients - 1) == sizeof clients - 1);
	close(fd);
	assert_int_equal(load(0644, &err), 0);
	assert_int_equal(load(0664, &err), LEASED_ECONFIG);
	assert_non_null(strstr(err.text, "others may write it"));
	assert_int_equal(load(0646, &err), LEASED_ECONFIG);
	unlink(path);
	assert_int_equal(access_load(&a, path, &err), LEASED_ECONFIG);
	assert_non_null(strstr(err.text, "No such file"));
	assert_int_equal(access_load(&a, "/tmp", &err), LEASED_ECONFIG);
	assert_non_null(strstr(err.text, "not a file"));
	assert_null(a);
}

int main(void)
{
	struct table table = { 0 };

	if (sodium_init() < 0)
		return 1;
	for (size_t i = 0; i < TABLE_LEN(files); i++)
		table_add(&table, files[i].claim, check_file, (void *)(uintptr_t)&files[i]);
	table_add(&table, "no part of a file lets in more", no_part_of_a_file_lets_in_more, NULL);
	table_add(&table, "a NUL hides nothing", a_nul_hides_nothing, NULL);
	table_add(&table, "a line has a bound", a_line_has_a_bound, NULL);
	table_add(&table, "who is found", who_is_found, NULL);
	table_add(&table, "each of many keys is found", each_of_many_keys_is_found, NULL);
	table_add(&table, "limits are read", limits_are_read, NULL);
	table_add(&table, "who may do what", who_may_do_what, NULL);
	table_add(&table, "a star is all but steal", a_star_is_all_but_steal, NULL);
	table_add(&table, "without a file all may do all but steal", without_a_file_all_may_do_all_but_steal, NULL);
	table_add(&table, "nobody else may write the file", nobody_else_may_write_the_file, NULL);
	return table_run(&table, "access");
}
