/*
 * One request at a time, which the engine hands through like any other. Its answer says when the next
 * step is due; whoever of several daemons comes first then makes it, and the others are told to come
 * later.
 */
#include "trim.h"

#include "log.h"

#define FIRST_MS   100
#define SOONEST_MS 50     /* between two steps while there is much to delete */
#define LATEST_MS  600000 /* another daemon may have changed the settings */
#define FAILED_MS  10000

static void on_due(uv_timer_t *timer);
static void on_step_done(struct request *req);

void trim_start(struct trim *t, uv_loop_t *loop, struct engine *engine, const struct config *config)
{
	*t = (struct trim){ .engine = engine, .config = config, .told_history_keep_ms = -1,
		.told_idle_keep_ms = -1 };
	uv_timer_init(loop, &t->timer);
	t->timer.data = t;
	uv_timer_start(&t->timer, on_due, FIRST_MS, 0);
}

static void next_in(struct trim *t, int64_t ms)
{
	if (ms < SOONEST_MS)
		ms = SOONEST_MS;
	if (ms > LATEST_MS)
		ms = LATEST_MS;
	if (t->engine && !uv_is_closing((uv_handle_t *)&t->timer))
		uv_timer_start(&t->timer, on_due, (uint64_t)ms, 0);
}

/* What this daemon has to tell; -1: nothing, so that several of them do not argue at each step. */
static int64_t to_tell(int64_t told, int64_t now)
{
	return told == now ? -1 : now;
}

static void on_due(uv_timer_t *timer)
{
	struct trim *t = timer->data;

	t->step = (struct request){ .verb = VERB_TRIM, .done = on_step_done, .owner = t };
	t->step.trim.history_keep_ms = to_tell(t->told_history_keep_ms, t->config->history_keep_ms);
	t->step.trim.idle_keep_ms = to_tell(t->told_idle_keep_ms, t->config->idle_keep_ms);
	list_init(&t->step.link);
	t->in_flight = engine_submit(t->engine, &t->step) == 0;
	if (!t->in_flight)
		next_in(t, FAILED_MS); /* too much is queued */
}

static bool has_news(const struct trim *t)
{
	return t->told_history_keep_ms != t->config->history_keep_ms ||
	       t->told_idle_keep_ms != t->config->idle_keep_ms;
}

static void take_step(struct trim *t, const struct trim_step *step)
{
	if (step->history_keep_ms >= 0)
		t->told_history_keep_ms = step->history_keep_ms;
	if (step->idle_keep_ms >= 0)
		t->told_idle_keep_ms = step->idle_keep_ms;
	if (step->n_events > 0 || step->n_leases > 0)
		log_event(LOG_DEBUG, "trimmed", "history", 'd', step->n_events, "idle_leases", 'd',
			step->n_leases, NULL);
	next_in(t, has_news(t) ? SOONEST_MS : step->due_in_ms);
}

/* A step that failed was logged by the store. */
static void on_step_done(struct request *req)
{
	struct trim *t = req->owner;

	t->in_flight = false;
	if (req->status == LEASED_OK && req->found)
		take_step(t, &req->trim);
	else
		next_in(t, FAILED_MS);
	request_fini(req);
}

void trim_reload(struct trim *t)
{
	if (t->engine && !t->in_flight)
		next_in(t, SOONEST_MS);
}

void trim_stop(struct trim *t)
{
	if (!t->engine)
		return;
	t->engine = NULL;
	uv_timer_stop(&t->timer);
}

void trim_close(struct trim *t)
{
	uv_handle_t *handle = (uv_handle_t *)&t->timer;

	trim_stop(t);
	if (t->timer.loop && !uv_is_closing(handle))
		uv_close(handle, NULL);
}
