#include "stream.h"

#include <stdlib.h>
#include <string.h>

#include "gate.h"
#include "name.h"
#include "reply.h"
#include "status.h"
#include "watch.h"

struct stream {
	struct list link; /* in session.streams */
	struct session *session;
	struct watch *watch;
	uint64_t id;
	bool exact;
	struct text prefix; /* behind it */
};

static bool on_change(void *owner, const struct change *change);
static void on_end(void *owner, const struct leased_error *why);
static bool is_wanted(void *owner, struct text name);

static const struct watch_events watch_events = {
	.on_change = on_change, .on_end = on_end, .is_wanted = is_wanted
};

static void stream_free(struct stream *stream)
{
	list_remove(&stream->link);
	stream->session->n_streams--;
	free(stream);
}

static int start(struct session *s, uint64_t id, const Leased__Watch *m, struct leased_error *err)
{
	struct text prefix = { (const char *)m->prefix.data, m->prefix.len };
	struct stream *stream;
	int rc = m->exact ? name_check(m->prefix.data, m->prefix.len, err)
			  : prefix_check(m->prefix.data, m->prefix.len, err);

	if (rc == 0 && s->n_streams == STREAMS_MAX)
		rc = fail(err, LEASED_EBUSY, "a client has at most %d watches", STREAMS_MAX);
	if (rc < 0)
		return rc;
	stream = calloc(1, sizeof *stream + prefix.len);
	if (!stream)
		return fail(err, LEASED_ENOMEM, "out of memory");
	stream->session = s;
	stream->id = id;
	stream->exact = m->exact;
	stream->prefix = (struct text){ (char *)(stream + 1), prefix.len };
	if (prefix.len > 0)
		memcpy(stream + 1, prefix.data, prefix.len);
	list_append(&s->streams, &stream->link);
	s->n_streams++;
	rc = watch_start(s->all->watches, prefix, m->exact, &watch_events, stream, &stream->watch, err);
	if (rc < 0)
		stream_free(stream);
	return rc;
}

void stream_take(struct session *s, uint64_t id, const Leased__Watch *m)
{
	struct leased_error err = { 0 };

	err.status = start(s, id, m, &err);
	if (err.status < 0)
		reply_failure(s, id, &err, NULL);
}

static bool on_change(void *owner, const struct change *change)
{
	struct stream *stream = owner;
	struct session *s = stream->session;

	reply_change(s, stream->id, change); /* the session may close, and the stream be gone */
	return transport_unsent(&s->transport) < STREAM_OUT_MAX;
}

/* So that what may not be seen takes no room either; what is sent is looked at once more. */
static bool is_wanted(void *owner, struct text name)
{
	const struct stream *stream = owner;

	return access_may(stream->session->client, ACCESS_WATCH, name);
}

static void on_end(void *owner, const struct leased_error *why)
{
	struct stream *stream = owner;
	struct session *s = stream->session;
	uint64_t id = stream->id;

	stream_free(stream);
	reply_failure(s, id, why, NULL);
}

void stream_cancel(struct session *s, uint64_t id)
{
	struct leased_error why;

	for (struct list *node = s->streams.next; node != &s->streams; node = node->next) {
		struct stream *stream = list_entry(node, struct stream, link);

		if (stream->id != id)
			continue;
		watch_stop(stream->watch);
		stream_free(stream);
		fail(&why, LEASED_ECANCELLED, "the watch has ended");
		reply_failure(s, id, &why, NULL);
		return;
	}
}

static bool may_follow(const struct session *s, const struct stream *stream)
{
	if (stream->exact)
		return access_may(s->client, ACCESS_WATCH, stream->prefix);
	return access_may_begin(s->client, ACCESS_WATCH, stream->prefix);
}

void streams_check(struct session *s)
{
	struct list *node = s->streams.next;
	struct leased_error why;

	while (node != &s->streams && s->state == SESSION_READY) {
		struct stream *stream = list_entry(node, struct stream, link);

		node = node->next;
		if (may_follow(s, stream)) {
			watch_begin_anew(stream->watch);
			continue;
		}
		watch_stop(stream->watch);
		gate_deny(&why, s->client, ACCESS_WATCH, stream->prefix);
		on_end(stream, &why);
	}
}

void streams_resume(struct session *s)
{
	struct list *node = s->streams.next;

	while (node != &s->streams && transport_unsent(&s->transport) < STREAM_OUT_MAX) {
		struct stream *stream = list_entry(node, struct stream, link);

		node = node->next;
		watch_resume(stream->watch); /* it may end */
		if (s->state != SESSION_READY)
			return;
	}
}

void streams_close(struct session *s)
{
	while (!list_empty(&s->streams)) {
		struct stream *stream = list_entry(s->streams.next, struct stream, link);

		watch_stop(stream->watch);
		stream_free(stream);
	}
}
