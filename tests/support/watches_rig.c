#include "watches_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

static struct config config = { .request_timeout_ms = 10000, .max_watches = 3, .max_watched = 4 };

static void note(struct told *t, const char *format, ...)
{
	size_t len = strlen(t->text);
	va_list args;

	va_start(args, format);
	vsnprintf(t->text + len, sizeof t->text - len, format, args);
	va_end(args);
}

static bool on_change(void *owner, const struct change *change)
{
	struct told *t = owner;

	if (change->kind == CHANGE_SNAPSHOT || change->kind == CHANGE_READY)
		note(t, "%c ", change->kind == CHANGE_READY ? 'R' : 'S');
	else
		note(t, "%c:%.*s:%llu ", "?h?gvrxs"[change->kind], (int)change->claim.name.len, change->claim.name.data,
			(unsigned long long)change->claim.token);
	if (t->stops_itself)
		watch_stop(t->watch);
	if (t->stops)
		watch_stop(t->stops->watch);
	return !t->full;
}

static void on_end(void *owner, const struct leased_error *why)
{
	struct told *t = owner;

	t->watch = NULL;
	t->ended = why->status;
	note(t, "END ");
}

const struct watch_events told_events = { .on_change = on_change, .on_end = on_end };

void is_told(struct told *t, const char *want)
{
	assert_string_equal(t->text, want);
	*t->text = '\0';
}

int watches_setup(void **state)
{
	struct world *w = calloc(1, sizeof *w);

	rig_setup((void **)&w->rig);
	w->notices.proved = true;
	snprintf(w->notices.why, sizeof w->notices.why, "a pool");
	assert_int_equal(watches_new(&w->all, &w->rig->loop, &config, w->rig->engine, &w->notices), 0);
	*state = w;
	return 0;
}

int watches_teardown(void **state)
{
	struct world *w = *state;
	struct told *both[] = { &w->a, &w->b };

	for (size_t i = 0; i < 2; i++)
		if (both[i]->watch && !both[i]->stops_itself)
			watch_stop(both[i]->watch);
	watches_close(w->all);
	rig_teardown((void **)&w->rig);
	free(w);
	return 0;
}

void start(struct world *w, struct told *t, const char *prefix, bool exact)
{
	struct leased_error err;

	assert_int_equal(watch_start(w->all, text_of(prefix), exact, &told_events, t, &t->watch, &err), 0);
}

struct request *asked(struct world *w, enum verb verb)
{
	struct request *req = next_in_time(w->rig);

	while (req->verb == VERB_BEAT && verb != VERB_BEAT) {
		req->told = true;
		fake_store_hit(w->rig->store, req);
		req = next_in_time(w->rig);
	}
	assert_int_equal(req->verb, verb);
	return req;
}

void beat(struct world *w, bool told)
{
	struct request *req = asked(w, VERB_BEAT);

	assert_true(req->watching);
	req->told = told;
	fake_store_hit(w->rig->store, req);
}

void changing(struct world *w, const char *since, const char *others)
{
	struct request *req = asked(w, VERB_CHANGING);

	assert_int_equal(req->prefix.len, strlen(since));
	assert_memory_equal(req->prefix.data, since, strlen(since));
	req->others = strdup(others);
	req->claim.pid = 1;
	fake_store_hit(w->rig->store, req);
}

void settled(struct world *w)
{
	beat(w, false);
	changing(w, "", "");
}

void page(struct world *w, const char *after, const char *rows, bool more)
{
	struct request *req = asked(w, VERB_HELD);

	assert_int_equal(req->after.len, *after ? 1 : 0);
	assert_memory_equal(req->after.data, after, req->after.len);
	assert_int_equal(req->claim.token, *after ? after[1] - '0' : 0);
	req->listing = calloc(10, sizeof *req->listing);
	for (; *rows; rows += strcspn(rows, " "), rows += *rows == ' ') {
		struct lease_view *view = calloc(1, sizeof *view);

		view->claim = claim_of("", 1);
		view->claim.name = (struct text){ rows, 1 };
		view->claim.token = (uint64_t)(rows[1] - '0');
		view->released = rows[2] == '-';
		view->expires_in_ms = 60000;
		view->value_changes = 1;
		req->listing[req->n_listed++] = view;
	}
	req->more = more;
	fake_store_hit(w->rig->store, req);
}

void change_for(struct world *w, enum change_kind kind, const char *name, uint64_t token, int64_t ms)
{
	struct change change = { .kind = kind, .claim = claim_of(name, 1), .expires_in_ms = ms,
		.value_changes = kind == CHANGE_VALUE ? ms : 0 };

	change.claim.token = token;
	watches_take(w->all, &change);
}

void change(struct world *w, enum change_kind kind, const char *name, uint64_t token)
{
	change_for(w, kind, name, token, 60000);
}

void follows(struct world *w, const char *rows)
{
	start(w, &w->a, "", false);
	settled(w);
	page(w, "", rows, false);
	*w->a.text = '\0';
}
