/* Housekeeping over a store by script: what the database is told, and when it is asked again. */
#include "table.h"

#include <stdlib.h>

#include "fake_store.h"
#include "trim.h"

struct world {
	struct config config;
	uv_loop_t loop;
	struct engine *engine;
	struct store *store;
	struct trim trim;
};

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof *w);
	struct leased_error err;

	w->config = (struct config){ .request_timeout_ms = 10000, .max_queued = 10, .history_keep_ms = 500,
		.idle_keep_ms = 700 };
	uv_loop_init(&w->loop);
	assert_int_equal(engine_new(&w->engine, &w->loop, &w->config, &err), 0);
	w->store = engine_store(w->engine);
	trim_start(&w->trim, &w->loop, w->engine, &w->config);
	*state = w;
	return 0;
}

static void on_closed(void *data)
{
	(void)data;
}

static int teardown(void **state)
{
	struct world *w = *state;

	trim_stop(&w->trim);
	engine_close(w->engine, on_closed, NULL);
	trim_close(&w->trim);
	uv_run(&w->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&w->loop), 0);
	free(w);
	return 0;
}

/* The next step, once its timer has come; it must come within give_up_ms. */
static struct request *next_step(struct world *w, uint64_t give_up_ms)
{
	uint64_t end;
	struct request *req;

	uv_update_time(&w->loop);
	end = uv_now(&w->loop) + give_up_ms;
	while (!(req = fake_store_take(w->store))) {
		uv_run(&w->loop, UV_RUN_NOWAIT);
		assert_true(uv_now(&w->loop) <= end);
	}
	assert_int_equal(req->verb, VERB_TRIM);
	return req;
}

static void answer(struct world *w, struct request *req, int64_t due_in_ms)
{
	req->trim.due_in_ms = due_in_ms;
	fake_store_hit(w->store, req);
}

static void expect_told(const struct request *req, int64_t history_keep_ms, int64_t idle_keep_ms)
{
	assert_int_equal(req->trim.history_keep_ms, history_keep_ms);
	assert_int_equal(req->trim.idle_keep_ms, idle_keep_ms);
}

static bool is_asleep(const struct world *w, uint64_t at_least_ms)
{
	return uv_is_active((const uv_handle_t *)&w->trim.timer) &&
	       uv_timer_get_due_in(&w->trim.timer) >= at_least_ms;
}

static void settings_are_told_once(void **state)
{
	struct world *w = *state;
	struct request *req = next_step(w, 5000);

	expect_told(req, 500, 700);
	assert_true(w->trim.in_flight);
	answer(w, req, 0);
	assert_false(w->trim.in_flight);
	req = next_step(w, 5000); /* due at once means soon */
	expect_told(req, -1, -1);
	answer(w, req, 3600000);
	assert_true(is_asleep(w, 590000)); /* but it looks again before so long a time is over */
}

static void a_failed_step_is_tried_later_and_tells_again(void **state)
{
	struct world *w = *state;

	fake_store_fail(w->store, next_step(w, 5000), LEASED_EUNAVAILABLE);
	assert_true(is_asleep(w, 5000));
	trim_reload(&w->trim);
	expect_told(next_step(w, 5000), 500, 700);
	fake_store_fail(w->store, &w->trim.step, LEASED_EUNAVAILABLE);
}

static void a_reload_tells_what_has_changed(void **state)
{
	struct world *w = *state;
	struct request *req = next_step(w, 5000);

	w->config.history_keep_ms = 0; /* while a step is under way */
	trim_reload(&w->trim);
	answer(w, req, 600000);
	req = next_step(w, 5000);
	expect_told(req, 0, -1);
	answer(w, req, 600000);
	w->config.idle_keep_ms = 1;
	trim_reload(&w->trim);
	req = next_step(w, 5000);
	expect_told(req, -1, 1);
	answer(w, req, 600000);
}

static void nothing_is_asked_after_the_stop(void **state)
{
	struct world *w = *state;
	struct request *req = next_step(w, 5000);

	trim_stop(&w->trim);
	answer(w, req, 0);
	assert_false(uv_is_active((uv_handle_t *)&w->trim.timer));
	trim_reload(&w->trim);
	assert_false(uv_is_active((uv_handle_t *)&w->trim.timer));
}

static void a_full_queue_is_not_made_fuller(void **state)
{
	struct world *w = *state;

	w->config.max_queued = 0;
	while (!is_asleep(w, 5000))
		uv_run(&w->loop, UV_RUN_ONCE);
	assert_null(fake_store_take(w->store));
	assert_false(w->trim.in_flight);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
		TEST(settings_are_told_once),
		TEST(a_failed_step_is_tried_later_and_tells_again),
		TEST(a_reload_tells_what_has_changed),
		TEST(nothing_is_asked_after_the_stop),
		TEST(a_full_queue_is_not_made_fuller),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
