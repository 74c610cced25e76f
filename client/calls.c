#include "calls.h"

#include <errno.h>
#include <time.h>

#include "client.h"
#include "status.h"

static struct call *call_of(struct list *node)
{
	return list_entry(node, struct call, link);
}

void call_queue(struct leased_client *client, struct call *call)
{
	call->done = false;
	call->id = 0;
	list_append(&client->calls, &call->link);
	client_wake(client);
}

void call_fini(struct call *call)
{
	arena_free(&call->arena);
	call->reply = NULL;
}

/* The end of a call, with call->status set. */
static void finish(struct leased_client *client, struct call *call)
{
	list_remove(&call->link);
	call->done = true;
	pthread_cond_broadcast(&client->changed);
	if (call->finished)
		call->finished(client, call);
}

static void forsake(struct leased_client *client, struct call *call)
{
	if (call->forsaken && call->attempts > 0)
		call->forsaken(client, call);
}

/* Those who wait. */

static bool is_interrupted(const struct leased_client *client, const struct call *call)
{
	return atomic_load(&client->interrupted) && !call->survives_interrupt;
}

/* Waits until the call is done; false: it took too long. */
static bool wait_done(struct leased_client *client, struct call *call, int64_t ms)
{
	struct timespec until = monotonic_in(ms);
	bool hurries = false;

	while (!call->done) {
		if (!hurries && is_interrupted(client, call)) {
			struct timespec soon = monotonic_in(FAREWELL_MS);

			hurries = true;
			if (soon.tv_sec < until.tv_sec)
				until = soon;
		}
		if (pthread_cond_timedwait(&client->changed, &client->lock, &until) == ETIMEDOUT)
			return call->done;
	}
	return true;
}

/* What is known of the reason: why there is no connection, or what another daemon has said. */
static int fail_late(const struct leased_client *client, struct call *call)
{
	struct leased_error said = call->err;
	char server[ADDRESS_TEXT_SIZE];

	if (*client->problem.text)
		return fail(&call->err, LEASED_EUNAVAILABLE, "no answer in time: %s", client->problem.text);
	client_server(client, server);
	return fail(&call->err, LEASED_EUNAVAILABLE, "no answer in time from %s%s%s", server,
		*said.text ? "; " : "", said.text);
}

static void give_up(struct leased_client *client, struct call *call)
{
	list_remove(&call->link);
	forsake(client, call);
	if (is_interrupted(client, call))
		call->status = fail(&call->err, LEASED_ECANCELLED, "interrupted");
	else
		call->status = fail_late(client, call);
}

/* A part of the timeout, so that the next daemon's own word on a database that is away comes in time. */
static int64_t patience_ns(const struct leased_client *client)
{
	int64_t ms = client->timeout_ms / 8;

	return (ms > PATIENCE_MIN_MS ? ms : PATIENCE_MIN_MS) * 1000000;
}

int call_run(struct leased_client *client, struct call *call, int64_t wait_ms)
{
	pthread_mutex_lock(&client->lock);
	if (is_interrupted(client, call)) {
		call->status = fail(&call->err, LEASED_ECANCELLED, "interrupted");
	} else if (client->closing) {
		call->status = fail(&call->err, LEASED_ECANCELLED, "the client closes");
	} else {
		call->patience_ns = wait_ms > 0 ? 0 : patience_ns(client);
		call_queue(client, call);
		if (!wait_done(client, call, wait_ms + client->timeout_ms))
			give_up(client, call);
	}
	pthread_mutex_unlock(&client->lock);
	return call->status;
}

/* The background thread: out. */

int call_put(struct leased_client *client, struct channel *ch, Leased__ClientMessage *message)
{
	uint8_t *out;
	size_t size;
	int len;

	message->id = client->next_id++;
	size = message_packed_size(&message->base);
	out = channel_reserve(ch, size);
	len = out ? message_pack(out, size, &message->base) : LEASED_ENOMEM;
	if (len < 0)
		return len;
	channel_commit(ch, (size_t)len);
	return 0;
}

static bool send_call(struct leased_client *client, struct channel *ch, struct call *call)
{
	Leased__ClientMessage message = LEASED__CLIENT_MESSAGE__INIT;
	int rc;

	call->sent_ns = boottime_ns(); /* before the first byte can leave */
	call->fill(call, &message);
	rc = call_put(client, ch, &message);
	if (rc == LEASED_EDATA) {
		call->status = fail(&call->err, rc, "the request is too large for one frame");
		finish(client, call);
	}
	if (rc < 0)
		return false; /* the output may be full: later */
	call->id = message.id;
	if (call->attempts++ == 0)
		call->first_sent_ns = call->sent_ns;
	return true;
}

bool calls_send(struct leased_client *client, struct channel *ch)
{
	struct list *node = client->calls.next;
	bool any = false;

	while (node != &client->calls) {
		struct call *call = call_of(node);

		node = node->next;
		if (!call->id && boottime_ns() >= call->not_before_ns && send_call(client, ch, call))
			any = true;
	}
	return any;
}

static bool send_cancel(struct leased_client *client, struct channel *ch, struct call *call)
{
	Leased__ClientMessage message = LEASED__CLIENT_MESSAGE__INIT;
	Leased__Cancel cancel = LEASED__CANCEL__INIT;

	cancel.request = call->id;
	message.body_case = LEASED__CLIENT_MESSAGE__BODY_CANCEL;
	message.cancel = &cancel;
	call->cancel_sent = call_put(client, ch, &message) == 0;
	return call->cancel_sent;
}

bool calls_give_up(struct leased_client *client, struct channel *ch)
{
	struct list *node = client->calls.next;
	bool any = false;

	if (atomic_load(&client->interrupted) && !client->interrupt_told) {
		client->interrupt_told = true;
		pthread_cond_broadcast(&client->changed); /* those who wait wait no longer than they must */
	}
	while (node != &client->calls) {
		struct call *call = call_of(node);
		bool unwanted = !call->detached && is_interrupted(client, call);

		node = node->next;
		if (call->can_cancel && call->id && (unwanted || call->cancelled)) {
			if (!call->cancel_sent && send_cancel(client, ch, call))
				any = true;
		} else if (unwanted) {
			forsake(client, call);
			call->status = fail(&call->err, LEASED_ECANCELLED, "interrupted");
			finish(client, call);
		}
		if (call->until_ns && boottime_ns() >= call->until_ns) {
			call->status = fail(&call->err, LEASED_ETIMEDOUT, "no answer in time");
			finish(client, call);
		}
	}
	return any;
}

/* In. */

static struct call *find(struct leased_client *client, uint64_t id)
{
	for (struct list *node = client->calls.next; node != &client->calls; node = node->next)
		if (call_of(node)->id == id)
			return call_of(node);
	return NULL;
}

/* Each daemon is asked once: all may have the same trouble. */
static bool may_move(const struct leased_client *client, const struct call *call)
{
	return call->moves + 1 < client->n_servers && !client->bound && !call->cancelled && !client->closing &&
	       !is_interrupted(client, call);
}

/* A failure that may be the daemon's own: the call stays queued, and goes out over the next connection. */
static bool moves_on(struct leased_client *client, struct call *call, const Leased__Failure *failure)
{
	int status = status_from_wire(failure->status);
	char server[ADDRESS_TEXT_SIZE];

	if ((status != LEASED_EUNAVAILABLE && status != LEASED_EBUSY) || call->once ||
		!may_move(client, call))
		return false;
	client_server(client, server);
	fail(&call->err, status, "%s: %s", server, failure->why);
	call->moves++;
	call->id = 0;
	client->move_on = true;
	return true;
}

void calls_take_reply(struct leased_client *client, struct arena *arena,
	Leased__ServerMessage *message)
{
	struct call *call = message->id ? find(client, message->id) : NULL;

	if (!call)
		return;
	if (call->changed && message->body_case == LEASED__SERVER_MESSAGE__BODY_CHANGE) {
		call->changed(client, call, message->change);
		return;
	}
	if (message->body_case == LEASED__SERVER_MESSAGE__BODY_FAILURE &&
		moves_on(client, call, message->failure))
		return;
	call->arena = *arena;
	*arena = (struct arena){ 0 };
	call->reply = message;
	call->status = LEASED_OK;
	if (message->body_case == LEASED__SERVER_MESSAGE__BODY_FAILURE)
		call->status = fail(&call->err, status_from_wire(message->failure->status), "%s",
			message->failure->why);
	finish(client, call);
}

static int64_t overdue_at(const struct leased_client *client, const struct call *call)
{
	bool moves = call->once ? client->n_servers > 1 : may_move(client, call);

	return call->id && call->patience_ns && moves ? call->sent_ns + call->patience_ns : INT64_MAX;
}

void calls_lose_connection(struct leased_client *client)
{
	struct list *node = client->calls.next;
	int64_t now = boottime_ns();

	while (node != &client->calls) {
		struct call *call = call_of(node);

		node = node->next;
		if (now >= overdue_at(client, call))
			call->moves++;
		call->id = 0;
		call->cancel_sent = false;
		if (call->once || (call->changed && call->cancelled)) {
			call->status = fail(&call->err, LEASED_EUNAVAILABLE, "%s", client->problem.text);
			finish(client, call);
		}
	}
}

/* Looking at them. */

int64_t calls_overdue_at(const struct leased_client *client)
{
	int64_t first = INT64_MAX;

	for (struct list *node = client->calls.next; node != &client->calls; node = node->next) {
		int64_t at = overdue_at(client, call_of(node));

		first = at < first ? at : first;
	}
	return first;
}

bool calls_are_wanted(const struct leased_client *client)
{
	for (struct list *node = client->calls.next; node != &client->calls; node = node->next)
		if (!call_of(node)->once && !call_of(node)->changed)
			return true;
	return false;
}

/* Nothing begins anew after such a status. */
static void end_all(struct leased_client *client, int status, const char *why)
{
	while (!list_empty(&client->calls)) {
		struct call *call = call_of(client->calls.next);

		call->status = fail(&call->err, status, "%s", why);
		finish(client, call);
	}
}

void calls_refuse(struct leased_client *client)
{
	const struct leased_error why = client->problem;

	end_all(client, why.status, why.text);
}

void calls_end(struct leased_client *client)
{
	client->ended = true;
	end_all(client, LEASED_ECANCELLED, "the client closes");
}
