/* A listener and who connects, over real sockets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "listener.h"

enum { CLIENTS = 2 };

struct rig {
	uv_loop_t loop;
	struct listener listener;
	char dir[64];
	int clients[CLIENTS];
	uv_pipe_t accepted[CLIENTS];
	int refusals; /* so many more */
	int offered, n_accepted;
};

static int take(void *owner, uv_stream_t *stream)
{
	struct rig *r = owner;
	uv_pipe_t *pipe = &r->accepted[r->n_accepted];

	r->offered++;
	if (r->refusals > 0) {
		r->refusals--;
		return LEASED_ENOMEM;
	}
	assert_true(r->n_accepted < CLIENTS);
	uv_pipe_init(stream->loop, pipe, 0);
	assert_int_equal(uv_accept(stream, (uv_stream_t *)pipe), 0);
	r->n_accepted++;
	return 0;
}

static int connect_to(const struct address *address)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strcpy(addr.sun_path, address->path);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof addr), 0);
	return fd;
}

static int setup(void **state)
{
	struct rig *r = calloc(1, sizeof *r);
	struct address address = { .kind = ADDRESS_UNIX };
	struct leased_error err;

	strcpy(r->dir, "/tmp/listener-XXXXXX");
	assert_non_null(mkdtemp(r->dir));
	snprintf(address.path, sizeof address.path, "%s/s", r->dir);
	uv_loop_init(&r->loop);
	assert_int_equal(listener_start(&r->listener, &r->loop, &address, 0600, take, r, &err), 0);
	*state = r;
	return 0;
}

static int teardown(void **state)
{
	struct rig *r = *state;

	listener_close(&r->listener);
	for (int i = 0; i < CLIENTS; i++)
		close(r->clients[i]);
	for (int i = 0; i < r->n_accepted; i++)
		uv_close((uv_handle_t *)&r->accepted[i], NULL);
	uv_run(&r->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&r->loop), 0);
	assert_int_equal(rmdir(r->dir), 0); /* the socket has gone */
	free(r);
	return 0;
}

/* Without memory for a session: libuv waits until that connection is taken, and would wait for ever. */
static void what_could_not_be_taken_is_offered_again(void **state)
{
	struct rig *r = *state;

	r->refusals = 2;
	for (int i = 0; i < CLIENTS; i++)
		r->clients[i] = connect_to(&r->listener.bound);
	while (r->offered == 0)
		uv_run(&r->loop, UV_RUN_ONCE);
	uv_run(&r->loop, UV_RUN_NOWAIT);
	assert_int_equal(r->offered, 1);
	listener_retry(&r->listener);
	assert_int_equal(r->n_accepted, 0);
	listener_retry(&r->listener);
	assert_int_equal(r->n_accepted, 1);
	while (r->n_accepted < CLIENTS)
		uv_run(&r->loop, UV_RUN_ONCE);
	listener_retry(&r->listener); /* nothing waits */
	assert_int_equal(r->offered, 2 + CLIENTS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_could_not_be_taken_is_offered_again, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
