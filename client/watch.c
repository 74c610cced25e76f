/*
 * A watch is a call with many answers. It is asked anew over each connection, and after a while when a
 * daemon cannot answer it: each time a fresh snapshot comes first.
 *
 *   ASKED -> (Changes) -> Failure, for now --> a pause -> ASKED
 *        '-> Failure, for good -> ENDED
 *
 * Whoever ends one waits until its callback is over; in its own callback the thread ends it afterwards.
 */
#include "watch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "status.h"

#define PAUSE_NS INT64_C(1000000000)

struct leased_watch {
	struct list owned;     /* in client.watches */
	struct leased_client *client;
	struct call call;
	Leased__Watch message;
	char prefix[NAME_MAX_LEN + 1];
	leased_change_cb on_change;
	void *data;
	bool muted;            /* no further callback */
	bool over;             /* nobody has it any more: freed with its call */
	bool over_in_callback; /* its user has ended it there */
	bool away;             /* and was told */
};

static void watch_free(struct leased_watch *w)
{
	list_remove(&w->owned);
	list_remove(&w->call.link);
	call_fini(&w->call);
	free(w);
}

/* Nobody has it any more. A daemon that answers it must be told. */
static void dispose(struct leased_watch *w)
{
	w->muted = w->over = true;
	if (!w->call.id || w->client->ended) {
		watch_free(w);
		return;
	}
	w->call.cancelled = true;
	client_wake(w->client);
}

/* May free the watch. */
static void tell(struct leased_watch *w, const struct leased_change *change)
{
	struct leased_client *client = w->client;

	if (w->muted)
		return;
	client->in_callback = w;
	pthread_mutex_unlock(&client->lock);
	w->on_change(w, change, w->data);
	pthread_mutex_lock(&client->lock);
	client->in_callback = NULL;
	pthread_cond_broadcast(&client->changed);
	if (w->over_in_callback)
		dispose(w);
}

static void fill(struct call *call, Leased__ClientMessage *message)
{
	struct leased_watch *w = call->data;

	message->body_case = LEASED__CLIENT_MESSAGE__BODY_WATCH;
	message->watch = &w->message;
}

static const enum leased_change_kind kinds[] = {
	[LEASED__CHANGE__EVENT__SNAPSHOT] = LEASED_CHANGE_SNAPSHOT,
	[LEASED__CHANGE__EVENT__HELD] = LEASED_CHANGE_HELD,
	[LEASED__CHANGE__EVENT__READY] = LEASED_CHANGE_READY,
	[LEASED__CHANGE__EVENT__GRANTED] = LEASED_CHANGE_GRANTED,
	[LEASED__CHANGE__EVENT__VALUE] = LEASED_CHANGE_VALUE,
	[LEASED__CHANGE__EVENT__RELEASED] = LEASED_CHANGE_RELEASED,
	[LEASED__CHANGE__EVENT__EXPIRED] = LEASED_CHANGE_EXPIRED,
	[LEASED__CHANGE__EVENT__STOLEN] = LEASED_CHANGE_STOLEN,
};

/* The texts of a change, ended by NUL. */
struct texts {
	char name[NAME_MAX_LEN + 1], holder[HOLDER_TEXT_SIZE];
};

static bool copy_text(char *out, size_t size, ProtobufCBinaryData in)
{
	if (in.len == 0 || in.len >= size || memchr(in.data, '\0', in.len))
		return false;
	memcpy(out, in.data, in.len);
	out[in.len] = '\0';
	return true;
}

static bool read_lease(struct leased_change *change, struct texts *texts, const Leased__Change *m)
{
	struct holder holder;

	if (!m->holder || !copy_text(texts->name, sizeof texts->name, m->name) ||
		!copy_text(holder.host, sizeof holder.host, m->holder->host))
		return false;
	holder.host_len = (uint8_t)m->holder->host.len;
	holder.pid = (int32_t)m->holder->pid;
	holder.nonce = m->holder->nonce;
	holder_format(texts->holder, &holder);
	change->name = texts->name;
	change->holder = texts->holder;
	change->token = m->token;
	change->expires_in_ms = (int64_t)m->expires_in_ms;
	change->value = m->value.len > 0 ? m->value.data : NULL;
	change->value_len = m->value.len;
	return true;
}

/* False: not a change that we know. */
static bool read_change(struct leased_change *change, struct texts *texts, const Leased__Change *m)
{
	if ((unsigned)m->event >= sizeof kinds / sizeof kinds[0])
		return false;
	change->kind = kinds[m->event];
	if (change->kind == LEASED_CHANGE_SNAPSHOT || change->kind == LEASED_CHANGE_READY)
		return true;
	return read_lease(change, texts, m);
}

static void take_change(struct leased_client *client, struct call *call, const Leased__Change *m)
{
	struct leased_watch *w = call->data;
	struct leased_change change = { 0 };
	struct texts texts;

	(void)client;
	call->moves = 0;
	w->away = false;
	if (read_change(&change, &texts, m))
		tell(w, &change);
}

static void tell_why(struct leased_watch *w, enum leased_change_kind kind, const struct leased_error *why)
{
	struct leased_error said = *why;
	struct leased_change change = { .kind = kind, .why = &said };

	w->away = true;
	tell(w, &change);
}

static bool is_passing(int status)
{
	return status == LEASED_EUNAVAILABLE || status == LEASED_EBUSY || status == LEASED_ENOMEM;
}

static void finished(struct leased_client *client, struct call *call)
{
	struct leased_watch *w = call->data;
	bool was_away = w->away;

	if (call->status == LEASED_OK)
		call->status = fail(&call->err, LEASED_EPROTO, "the daemon answered something else");
	call_fini(call);
	call->id = 0;
	if (w->over) {
		watch_free(w);
		return;
	}
	if (client->ended)
		return;
	if (!is_passing(call->status)) {
		tell_why(w, LEASED_CHANGE_ENDED, &call->err);
		return;
	}
	call->not_before_ns = boottime_ns() + PAUSE_NS;
	call_queue(client, call);
	if (!was_away)
		tell_why(w, LEASED_CHANGE_AWAY, &call->err);
}

void watches_run(struct leased_client *client)
{
	struct list *node = client->watches.next;

	while (!client->ready && *client->problem.text && node != &client->watches) {
		struct leased_watch *w = list_entry(node, struct leased_watch, owned);

		node = node->next;
		if (w->away || w->muted)
			continue;
		tell_why(w, LEASED_CHANGE_AWAY, &client->problem);
		node = client->watches.next; /* the list may have changed */
	}
}

void watches_free(struct leased_client *client)
{
	struct list *node;

	while ((node = list_pop(&client->watches)))
		free(list_entry(node, struct leased_watch, owned));
}

static int check(struct leased_client *client, const char *prefix, bool exact, struct leased_error *err)
{
	const uint8_t *text = (const uint8_t *)prefix;

	if (client->pid != getpid())
		return fail(err, LEASED_ENOTHELD, "a child of fork cannot use its parent's client");
	return exact ? name_check(text, strlen(prefix), err) : prefix_check(text, strlen(prefix), err);
}

static struct leased_watch *watch_new(struct leased_client *client, const char *prefix,
	const struct leased_watch_options *o)
{
	struct leased_watch *w = calloc(1, sizeof *w);

	if (!w)
		return NULL;
	w->client = client;
	w->on_change = o->on_change;
	w->data = o->data;
	strcpy(w->prefix, prefix);
	leased__watch__init(&w->message);
	w->message.prefix.data = (uint8_t *)w->prefix;
	w->message.prefix.len = strlen(w->prefix);
	w->message.exact = o->exact;
	w->call = (struct call){ .fill = fill, .changed = take_change, .finished = finished, .data = w,
		.detached = true, .can_cancel = true };
	return w;
}

static int start(struct leased_watch *w, struct leased_watch **ret_watch, struct leased_error *err)
{
	struct leased_client *client = w->client;
	int rc = 0;

	pthread_mutex_lock(&client->lock);
	if (atomic_load(&client->interrupted) || client->closing) {
		rc = fail(err, LEASED_ECANCELLED, client->closing ? "the client closes" : "interrupted");
	} else {
		list_append(&client->watches, &w->owned);
		call_queue(client, &w->call);
		*ret_watch = w; /* before its first callback */
	}
	pthread_mutex_unlock(&client->lock);
	return rc;
}

int leased_watch(struct leased_client *client, const char *prefix,
	const struct leased_watch_options *options, struct leased_watch **ret_watch,
	struct leased_error *err)
{
	const char *text = prefix ? prefix : "";
	struct leased_error why = { 0 };
	struct leased_watch *w;
	int rc = check(client, text, options->exact, &why);

	if (rc < 0)
		return fail(err, rc, "watch \"%s\": %s", text, why.text);
	w = watch_new(client, text, options);
	if (!w)
		return fail(err, LEASED_ENOMEM, "watch \"%s\": out of memory", text);
	rc = start(w, ret_watch, &why);
	if (rc < 0) {
		free(w);
		return fail(err, rc, "watch \"%s\": %s", text, why.text);
	}
	return 0;
}

void watch_drop(struct leased_watch *watch)
{
	struct leased_client *client = watch->client;
	bool own_thread = pthread_equal(pthread_self(), client->thread);

	watch->muted = true;
	while (client->in_callback == watch && !own_thread)
		pthread_cond_wait(&client->changed, &client->lock);
	if (client->in_callback == watch)
		watch->over_in_callback = true;
	else
		dispose(watch);
}

void leased_unwatch(struct leased_watch *watch)
{
	struct leased_client *client = watch ? watch->client : NULL;

	if (!watch)
		return;
	if (client->pid != getpid()) {
		list_remove(&watch->owned);
		free(watch);
		return;
	}
	pthread_mutex_lock(&client->lock);
	watch_drop(watch);
	pthread_mutex_unlock(&client->lock);
}
