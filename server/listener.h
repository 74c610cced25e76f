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
	void (*on_connection)(void *owner, uv_stream_t *stream);
	void *owner;
};

/*
 * Binds and listens. socket_mode is of a Unix socket, in force from the moment it can be seen; a
 * socket left behind by a dead daemon is replaced, one that answers is not. TCP takes loopback
 * literals only.
 * LEASED_ECONFIG with what to do; then nothing is open, but the loop must run once to close.
 */
int listener_start(struct listener *l, uv_loop_t *loop, const struct address *address,
	int64_t socket_mode, void (*on_connection)(void *owner, uv_stream_t *stream), void *owner,
	struct leased_error *err);

/* Stops accepting and removes a Unix socket. Idempotent; accepts a zeroed struct. */
void listener_close(struct listener *l);

#endif
