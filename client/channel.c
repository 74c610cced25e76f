#include "channel.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "status.h"

#define READ_MIN 4096

void channel_init(struct channel *ch)
{
	*ch = (struct channel){ .fd = -1 };
}

int channel_connect(struct channel *ch, const struct address *address, const struct noise_keypair *key,
	struct leased_error *err)
{
	struct sockaddr_storage addr;
	socklen_t len;
	int one = 1, rc;

	rc = address_to_socket(&addr, &len, address, err);
	if (rc < 0)
		return rc;
	if (address->has_key) {
		ch->secure = secure_new(key, address->key, err);
		if (!ch->secure)
			return err->status;
	}
	ch->fd = socket(addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (ch->fd < 0) {
		rc = fail(err, LEASED_EUNAVAILABLE, "make a socket: %s", strerror(errno));
		channel_close(ch);
		return rc;
	}
	if (addr.ss_family != AF_UNIX)
		setsockopt(ch->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	ch->connecting = true;
	if (connect(ch->fd, (struct sockaddr *)&addr, len) == 0 || errno == EINPROGRESS)
		return 0;
	/* EAGAIN: a Unix socket whose queue is full; the caller comes back. */
	rc = LEASED_EUNAVAILABLE;
	if (errno == EACCES && addr.ss_family == AF_UNIX)
		rc = fail(err, LEASED_EDENIED, "connect: %s: the socket (socket_mode) or its directory does not let this account in",
			strerror(errno));
	else
		fail(err, rc, "connect: %s", strerror(errno));
	channel_close(ch);
	return rc;
}

int channel_finish_connect(struct channel *ch, struct leased_error *err)
{
	socklen_t len = sizeof(int);
	int error = 0;

	if (getsockopt(ch->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	if (error)
		return fail(err, LEASED_EUNAVAILABLE, "connect: %s", strerror(error));
	ch->connecting = false;
	return 0;
}

uint8_t *channel_reserve(struct channel *ch, size_t len)
{
	if (ch->out.len + len > CHANNEL_OUT_MAX || !bytes_grow(&ch->out, ch->out.len + len))
		return NULL;
	return ch->out.data + ch->out.len;
}

void channel_commit(struct channel *ch, size_t len)
{
	ch->out.len += len;
}

/*
 * Sends what stands in b behind *sent, and empties it when all is gone. A peer that has closed may have said why
 * before: that is for channel_read to find, and then the end.
 */
static int send_bytes(int fd, struct bytes *b, size_t *sent, struct leased_error *err)
{
	while (*sent < b->len) {
		ssize_t n = send(fd, b->data + *sent, b->len - *sent, MSG_NOSIGNAL);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
			break;
		if (n < 0)
			return fail(err, LEASED_EUNAVAILABLE, "send: %s", strerror(errno));
		*sent += (size_t)n;
	}
	b->len = *sent = 0;
	return 0;
}

int channel_flush(struct channel *ch, struct leased_error *err)
{
	int rc;

	if (!ch->secure)
		return send_bytes(ch->fd, &ch->out, &ch->out_sent, err);
	rc = secure_seal(ch->secure, &ch->out, err);
	return rc < 0 ? rc : send_bytes(ch->fd, &ch->secure->raw_out, &ch->secure->raw_sent, err);
}

static int fail_read(struct channel *ch, const char *how, struct leased_error *err)
{
	return ch->secure ? secure_closed(ch->secure, how, err) : fail(err, LEASED_EUNAVAILABLE, "%s", how);
}

int channel_read(struct channel *ch, struct leased_error *err)
{
	struct bytes *in = ch->secure ? &ch->secure->raw_in : &ch->in;
	ssize_t n;

	if (!bytes_grow(in, in->len + READ_MIN))
		return fail(err, LEASED_EUNAVAILABLE, "out of memory");
	n = recv(ch->fd, in->data + in->len, in->size - in->len, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0) {
		char how[64];

		snprintf(how, sizeof how, "receive: %s", strerror(errno));
		return fail_read(ch, how, err);
	}
	if (n == 0)
		return fail_read(ch, "the daemon has closed the connection", err);
	in->len += (size_t)n;
	return ch->secure ? secure_open(ch->secure, &ch->in, err) : 0;
}

int channel_next(struct channel *ch, struct frame *ret_frame)
{
	struct frame frame;
	int used = frame_parse(ch->in.data, ch->in.len, FRAME_BODY_MAX, &frame);
	uint8_t *in;
	size_t rest;

	if (used <= 0)
		return used;
	/* The body moves behind what is still to be read, so that it outlives the shift. */
	rest = ch->in.len - (size_t)used;
	if (!bytes_grow(&ch->in, ch->in.len + frame.len))
		return LEASED_EPROTO;
	in = ch->in.data;
	memcpy(in + ch->in.len, in + FRAME_HEADER_LEN, frame.len);
	memmove(in, in + used, rest + frame.len);
	ch->in.len = rest;
	*ret_frame = (struct frame){ .body = in + rest, .len = frame.len };
	return 1;
}

short channel_events(const struct channel *ch)
{
	bool pending = ch->out_sent < ch->out.len;

	if (ch->connecting)
		return POLLOUT;
	if (ch->secure) /* before it is established the frames have to wait for the daemon */
		pending = ch->secure->raw_sent < ch->secure->raw_out.len || (ch->secure->established && pending);
	return pending ? POLLIN | POLLOUT : POLLIN;
}

void channel_close(struct channel *ch)
{
	if (ch->fd >= 0)
		close(ch->fd);
	free(ch->in.data);
	free(ch->out.data);
	secure_free(ch->secure);
	channel_init(ch);
}
