/*
 * transport.h - frames in and out of one uv_stream, plain or sealed, with bounds on both sides. Loop thread.
 *
 * Output gathers in a buffer and is written by transport_flush, once a loop turn; a peer that does not
 * read is told off when the buffer is over its limit.
 */
#ifndef TRANSPORT_H
#define TRANSPORT_H

#include <stdbool.h>
#include <uv.h>

#include "frame.h"
#include "leased_status.h"
#include "transport_seal.h"

/* Unsent output over this closes the connection. */
#define TRANSPORT_OUT_MAX (4 * 1024 * 1024)

struct transport;

struct transport_events {
	/* A whole frame; it is gone when the call returns. */
	void (*on_frame)(struct transport *t, struct frame frame);
	/* The peer has ended, failed, or broken the framing (LEASED_EPROTO). Once; close then. */
	void (*on_end)(struct transport *t, int status, const char *why);
	/* All output has been written; may be NULL. */
	void (*on_drained)(struct transport *t);
	/* transport_close has finished. */
	void (*on_closed)(struct transport *t);
};

struct transport {
	union {
		uv_handle_t handle;
		uv_stream_t stream;
		uv_tcp_t tcp;
		uv_pipe_t pipe;
	} u;
	const struct transport_events *events;
	void *data;
	struct transport_seal *seal; /* NULL: plain */
	uint8_t *partial;    /* the start of a frame whose end has not come */
	size_t partial_len, partial_size;
	size_t frame_max;
	uint8_t *out;        /* not yet handed to the kernel */
	size_t out_len, out_size;
	uint8_t *writing;    /* handed to libuv, until on_written */
	size_t writing_len;
	uv_write_t write;
	bool reading, ended, broken, closing; /* broken: the peer is gone, nothing can be written */
};

/* u holds an accepted stream. frame_max: see transport_set_frame_max. Starts to read. */
int transport_start(struct transport *t, const struct transport_events *events, void *data,
	size_t frame_max);

/*
 * Before transport_start: what travels is sealed with keys, of which it takes a copy. 0 or LEASED_ENOMEM.
 */
int transport_use_seal(struct transport *t, const struct handshake_keys *keys);

/*
 * After transport_start: takes what was read and opened before, as if it came now. As with any input, the
 * transport may be closing afterwards.
 */
void transport_feed(struct transport *t, const uint8_t *data, size_t len);

/* The longest frame that is taken from here on. */
void transport_set_frame_max(struct transport *t, size_t frame_max);

/* Stop and go on reading: back-pressure. */
void transport_pause(struct transport *t);
void transport_resume(struct transport *t);

/* How many bytes of output may come before the peer has read some. */
size_t transport_room(const struct transport *t);

/*
 * Room for len more bytes of output, no more than transport_room, to be filled at once and given to
 * transport_commit. NULL: out of memory.
 */
uint8_t *transport_reserve(struct transport *t, size_t len);
void transport_commit(struct transport *t, size_t len);

/* Bytes that the kernel has not taken yet. */
size_t transport_unsent(const struct transport *t);

/* Writes what has gathered. */
void transport_flush(struct transport *t);

/* Flushes what the kernel takes at once, then closes. Idempotent. */
void transport_close(struct transport *t);

#endif
