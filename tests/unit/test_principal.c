/* Who is behind a Unix socket, also while the system cannot look up names: getpwuid_r by script. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pwd.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "principal.h"

static struct {
	int error;        /* what it returns */
	const char *name; /* whom it finds, NULL: nobody */
	int calls;
} lookup;

int __wrap_getpwuid_r(uid_t uid, struct passwd *entry, char *buffer, size_t size, struct passwd **ret);

int __wrap_getpwuid_r(uid_t uid, struct passwd *entry, char *buffer, size_t size, struct passwd **ret)
{
	lookup.calls++;
	*ret = NULL;
	if (lookup.error != 0 || !lookup.name)
		return lookup.error;
	snprintf(buffer, size, "%s", lookup.name);
	*entry = (struct passwd){ .pw_name = buffer, .pw_uid = uid };
	*ret = entry;
	return 0;
}

static int ask(struct principal *ret_principal, struct leased_error *err)
{
	uv_loop_t loop;
	uv_pipe_t pipe;
	int ends[2], rc;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	uv_loop_init(&loop);
	uv_pipe_init(&loop, &pipe, 0);
	assert_int_equal(uv_pipe_open(&pipe, ends[0]), 0);
	rc = principal_of_stream(ret_principal, (uv_stream_t *)&pipe, err);
	uv_close((uv_handle_t *)&pipe, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	uv_loop_close(&loop);
	close(ends[1]);
	return rc;
}

static void is_called(const char *user)
{
	struct leased_error err;
	struct principal p;

	assert_int_equal(ask(&p, &err), 0);
	assert_int_equal(p.pid, getpid());
	if (strncmp(p.name, user, strlen(user)) != 0 || p.name[strlen(user)] != '@')
		fail_msg("%s is not %s", p.name, user);
}

/* The same user must not be somebody else, now or later, since a look-up has failed once. */
static void a_failed_look_up_is_told_and_not_remembered(void **state)
{
	static const int failures[] = { EIO, EMFILE, ENFILE, ENOMEM, ERANGE, EAGAIN };
	char nobody[32];
	struct leased_error err;
	struct principal p;

	(void)state;
	for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
		lookup.error = failures[i];
		assert_int_equal(ask(&p, &err), LEASED_EUNAVAILABLE);
		assert_non_null(strstr(err.text, "cannot look up the name of user"));
	}
	lookup.error = ENOENT; /* or 0: there is nobody of this number */
	snprintf(nobody, sizeof nobody, "uid-%u", (unsigned)getuid());
	is_called(nobody);
	lookup.error = 0;
	lookup.name = "anna";
	is_called("anna");
	lookup.calls = 0;
	lookup.error = EIO;
	is_called("anna");
	assert_int_equal(lookup.calls, 0); /* a burst costs one look-up */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_failed_look_up_is_told_and_not_remembered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
