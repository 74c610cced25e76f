/*
 * listener.h - bind and accept on one address. Loop thread.
 */
#ifndef LISTENER_H
#define LISTENER_H

#include <uv.h>

#include "address.h"
#include "leased_status.h"

struct listener {
	union {
		uv_handle_t handle;
		uv_stream_t stream;
		uv_tcp_t tcp;
		uv_pipe_t pipe;
	} u;
	struct address bound; /* with the port the kernel chose */
	bool open;
	bool stalled; /* a connection could not be taken, and libuv offers no other one until it is */
	int (*on_connection)(void *owner, uv_stream_t *stream);
	void *owner;
};

/*
 * Binds and listens. socket_mode is of a Unix socket, in force from the moment it can be seen; a
 * socket left behind by a dead daemon is replaced, one that answers is not. TCP takes literal
 * addresses only. on_connection accepts what waits on stream; when it cannot, and says so with a negative
 * status, the connection is offered again by listener_retry.
 * LEASED_ECONFIG with what to do; then nothing is open, but the loop must run once to close.
 */
int listener_start(struct listener *l, uv_loop_t *loop, const struct address *address,
	int64_t socket_mode, int (*on_connection)(void *owner, uv_stream_t *stream), void *owner,
	struct leased_error *err);

/* Offers a connection again that could not be taken; called every second or so. */
void listener_retry(struct listener *l);

/* Stops accepting and removes a Unix socket. Idempotent; accepts a zeroed struct. */
void listener_close(struct listener *l);

#endif
