#include "transport.h"

#include <stdlib.h>
#include <string.h>

#define READ_SIZE 65536

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	/* One thread, and what is read is taken before the next read: all streams can share it. */
	static char shared[READ_SIZE];

	(void)handle;
	(void)suggested;
	*buf = uv_buf_init(shared, sizeof shared);
}

static void end(struct transport *t, int status, const char *why)
{
	if (t->ended || t->closing)
		return;
	t->ended = true;
	t->broken = status == LEASED_OK;
	transport_pause(t);
	t->events->on_end(t, status, why);
}

/* Appends up to max bytes to the partial frame; its room grows with what has really come. */
static bool append_partial(struct transport *t, const uint8_t *data, size_t len)
{
	if (t->partial_len + len > t->partial_size) {
		size_t size = 2 * (t->partial_len + len);
		uint8_t *partial = realloc(t->partial, size);

		if (!partial)
			return false;
		t->partial = partial;
		t->partial_size = size;
	}
	memcpy(t->partial + t->partial_len, data, len);
	t->partial_len += len;
	return true;
}

static void drop_partial(struct transport *t)
{
	free(t->partial);
	t->partial = NULL;
	t->partial_len = t->partial_size = 0;
}

/* How many more bytes the partial frame wants: its header, then its body. */
static size_t partial_wants(const struct transport *t)
{
	size_t body;

	if (t->partial_len < FRAME_HEADER_LEN)
		return FRAME_HEADER_LEN - t->partial_len;
	body = (size_t)t->partial[0] << 24 | (size_t)t->partial[1] << 16 |
	       (size_t)t->partial[2] << 8 | t->partial[3];
	return FRAME_HEADER_LEN + body - t->partial_len;
}

static int complete_partial(struct transport *t, const uint8_t **data, size_t *len)
{
	struct frame frame;
	size_t take = partial_wants(t);
	int used;

	if (take > *len)
		take = *len;
	if (!append_partial(t, *data, take))
		return LEASED_ENOMEM;
	*data += take;
	*len -= take;
	used = frame_parse(t->partial, t->partial_len, t->frame_max, &frame);
	if (used > 0) {
		t->events->on_frame(t, frame);
		drop_partial(t);
	}
	return used < 0 ? used : 0;
}

static int take_input(struct transport *t, const uint8_t *data, size_t len)
{
	struct frame frame;
	int used;

	while (len > 0 && !t->closing) {
		if (t->partial_len > 0) {
			used = complete_partial(t, &data, &len);
			if (used < 0)
				return used;
			continue;
		}
		used = frame_parse(data, len, t->frame_max, &frame);
		if (used < 0)
			return used;
		if (used == FRAME_MORE)
			return append_partial(t, data, len) ? 0 : LEASED_ENOMEM;
		t->events->on_frame(t, frame);
		data += used;
		len -= (size_t)used;
	}
	return 0;
}

/* What the records hold is the stream of frames; they need not begin or end together. */
static int take_sealed(struct transport *t, uint8_t *data, size_t len)
{
	const uint8_t *text = NULL;
	int n = 0;

	do {
		n = transport_seal_open(t->seal, FRAME_HEADER_LEN + t->frame_max, &data, &len, &text);
		if (n > 0) {
			int rc = take_input(t, text, (size_t)n);

			if (rc < 0)
				return rc;
		}
	} while (n > 0 && len > 0 && !t->closing);
	transport_seal_forget(t->seal);
	return n < 0 ? n : 0;
}

static void end_of_input(struct transport *t, int rc)
{
	if (rc == LEASED_EPROTO)
		end(t, rc, t->seal ? "a record that does not open, or a frame of length 0 or over the limit" :
				     "a frame of length 0 or over the limit");
	else if (rc < 0)
		end(t, rc, "out of memory");
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	struct transport *t = stream->data;
	int rc;

	if (n == 0 || t->closing)
		return;
	if (n < 0) {
		end(t, LEASED_OK, n == UV_EOF ? "the client has closed" : uv_strerror((int)n));
		return;
	}
	if (t->seal)
		rc = take_sealed(t, (uint8_t *)buf->base, (size_t)n);
	else
		rc = take_input(t, (const uint8_t *)buf->base, (size_t)n);
	end_of_input(t, rc);
}

int transport_use_seal(struct transport *t, const struct handshake_keys *keys)
{
	t->seal = transport_seal_new(keys);
	return t->seal ? 0 : LEASED_ENOMEM;
}

void transport_feed(struct transport *t, const uint8_t *data, size_t len)
{
	end_of_input(t, take_input(t, data, len));
}

int transport_start(struct transport *t, const struct transport_events *events, void *data,
	size_t frame_max)
{
	t->events = events;
	t->data = data;
	t->frame_max = frame_max;
	t->u.handle.data = t;
	transport_resume(t);
	return t->reading ? 0 : LEASED_EINTERNAL;
}

void transport_set_frame_max(struct transport *t, size_t frame_max)
{
	t->frame_max = frame_max;
}

void transport_pause(struct transport *t)
{
	if (t->reading)
		uv_read_stop(&t->u.stream);
	t->reading = false;
}

void transport_resume(struct transport *t)
{
	if (!t->reading && !t->ended && !t->closing)
		t->reading = uv_read_start(&t->u.stream, on_alloc, on_read) == 0;
}

size_t transport_room(const struct transport *t)
{
	return TRANSPORT_OUT_MAX - t->out_len;
}

uint8_t *transport_reserve(struct transport *t, size_t len)
{
	if (t->out_len + len > t->out_size) {
		size_t size = 2 * (t->out_len + len);
		uint8_t *out = realloc(t->out, size);

		if (!out)
			return NULL;
		t->out = out;
		t->out_size = size;
	}
	return t->out + t->out_len;
}

void transport_commit(struct transport *t, size_t len)
{
	t->out_len += len;
}

static void drop_out(struct transport *t)
{
	free(t->out);
	t->out = NULL;
	t->out_len = t->out_size = 0;
}

static void drained(struct transport *t)
{
	if (t->events->on_drained)
		t->events->on_drained(t);
}

static void on_written(uv_write_t *write, int status)
{
	struct transport *t = write->data;

	free(t->writing);
	t->writing = NULL;
	t->writing_len = 0;
	if (t->closing)
		return;
	if (status < 0)
		end(t, LEASED_OK, uv_strerror(status));
	else if (t->out_len > 0)
		transport_flush(t);
	else
		drained(t);
}

/* What the kernel does not take at once goes to libuv, which waits until it does. */
static void write_rest(struct transport *t, size_t written)
{
	uv_buf_t buf = uv_buf_init((char *)t->out + written, (unsigned)(t->out_len - written));
	int rc;

	t->write.data = t;
	rc = uv_write(&t->write, &t->u.stream, &buf, 1, on_written);
	if (rc < 0) {
		end(t, LEASED_OK, uv_strerror(rc));
		return;
	}
	t->writing = t->out;
	t->writing_len = t->out_len - written;
	t->out = NULL;
	t->out_len = t->out_size = 0;
}

size_t transport_unsent(const struct transport *t)
{
	return t->out_len + t->writing_len;
}

/* What goes to the kernel, or to libuv, is sealed; what still gathers is not. */
static bool seal_out(struct transport *t)
{
	size_t len;
	uint8_t *sealed;

	if (!t->seal)
		return true;
	sealed = transport_seal_close(t->seal, t->out, t->out_len, &len);
	if (!sealed) {
		end(t, LEASED_OK, "out of memory, or of what one connection may seal");
		return false;
	}
	drop_out(t);
	t->out = sealed;
	t->out_len = t->out_size = len;
	return true;
}

void transport_flush(struct transport *t)
{
	uv_buf_t buf;
	int n;

	if (t->out_len == 0 || t->writing || t->closing || t->broken || !seal_out(t))
		return;
	buf = uv_buf_init((char *)t->out, (unsigned)t->out_len);
	n = uv_try_write(&t->u.stream, &buf, 1);
	if (n == UV_EAGAIN)
		n = 0;
	if (n < 0)
		end(t, LEASED_OK, uv_strerror(n));
	else if ((size_t)n < t->out_len)
		write_rest(t, (size_t)n);
	else {
		drop_out(t);
		drained(t);
	}
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct transport *t = handle->data;

	drop_partial(t);
	drop_out(t);
	transport_seal_free(t->seal);
	free(t->writing);
	t->events->on_closed(t);
}

void transport_close(struct transport *t)
{
	if (t->closing)
		return;
	transport_flush(t);
	t->closing = true;
	uv_close(&t->u.handle, on_handle_closed);
}
