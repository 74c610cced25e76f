#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine_rig.h"

#include <stdlib.h>
#include <string.h>

static struct config config = { .request_timeout_ms = 10000, .poll_interval_ms = 60000,
	.max_queued = 1000, .max_waiters = RIG_WAITERS_MAX };

static void on_done(struct request *req)
{
	((struct asked *)req->owner)->done++;
}

struct text text_of(const char *s)
{
	return (struct text){ s, strlen(s) };
}

struct claim claim_of(const char *name, uint64_t nonce)
{
	return (struct claim){ .name = text_of(name), .host = { "h", 1 }, .principal = { "p", 1 },
		.nonce = nonce, .pid = 1 };
}

void submit(struct rig *w, struct asked *a, enum verb verb, uint64_t nonce, int64_t wait_ms)
{
	*a = (struct asked){ .req = { .verb = verb, .claim = claim_of("n", nonce), .ttl_ms = 1000,
				     .wait_ms = wait_ms } };
	submit_as_is(w, a);
}

void submit_as_is(struct rig *w, struct asked *a)
{
	a->req.done = on_done;
	a->req.owner = a;
	list_init(&a->req.link);
	assert_int_equal(engine_submit(w->engine, &a->req), 0);
	assert_int_equal(a->done, 0); /* never from inside submit */
}

struct request *next_is(struct rig *w, struct asked *a)
{
	struct request *req = fake_store_take(w->store);

	assert_ptr_equal(req, &a->req);
	return req;
}

struct request *next_in_time(struct rig *w)
{
	struct request *req;

	while (!(req = fake_store_take(w->store)))
		uv_run(&w->loop, UV_RUN_ONCE);
	return req;
}

void nothing_is_asked(struct rig *w)
{
	assert_null(fake_store_take(w->store));
}

void ended(struct asked *a, int status)
{
	assert_int_equal(a->done, 1);
	assert_int_equal(a->req.status, status);
	request_fini(&a->req);
}

static void on_closed(void *data)
{
	((struct rig *)data)->closed = true;
}

int rig_setup(void **state)
{
	struct rig *w = calloc(1, sizeof *w);
	struct leased_error err;

	uv_loop_init(&w->loop);
	assert_int_equal(engine_new(&w->engine, &w->loop, &config, &err), 0);
	w->store = engine_store(w->engine);
	*state = w;
	return 0;
}

int rig_teardown(void **state)
{
	struct rig *w = *state;

	engine_close(w->engine, on_closed, w);
	uv_run(&w->loop, UV_RUN_DEFAULT);
	assert_true(w->closed);
	assert_int_equal(uv_loop_close(&w->loop), 0);
	free(w);
	return 0;
}
