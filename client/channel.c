#include "channel.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
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

int channel_connect(struct channel *ch, const struct address *address, struct leased_error *err)
{
	struct sockaddr_storage addr;
	socklen_t len;
	int one = 1, rc;

	rc = address_to_socket(&addr, &len, address, err);
	if (rc < 0)
		return rc;
	ch->fd = socket(addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (ch->fd < 0)
		return fail(err, LEASED_EUNAVAILABLE, "make a socket: %s", strerror(errno));
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

static bool grow(uint8_t **data, size_t *size, size_t wanted)
{
	uint8_t *bigger;

	if (wanted <= *size)
		return true;
	bigger = realloc(*data, 2 * wanted);
	if (!bigger)
		return false;
	*data = bigger;
	*size = 2 * wanted;
	return true;
}

uint8_t *channel_reserve(struct channel *ch, size_t len)
{
	if (ch->out_len + len > CHANNEL_OUT_MAX || !grow(&ch->out, &ch->out_size, ch->out_len + len))
		return NULL;
	return ch->out + ch->out_len;
}

void channel_commit(struct channel *ch, size_t len)
{
	ch->out_len += len;
}

int channel_flush(struct channel *ch, struct leased_error *err)
{
	while (ch->out_sent < ch->out_len) {
		ssize_t n = send(ch->fd, ch->out + ch->out_sent, ch->out_len - ch->out_sent,
			MSG_NOSIGNAL);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n < 0)
			return fail(err, LEASED_EUNAVAILABLE, "send: %s", strerror(errno));
		ch->out_sent += (size_t)n;
	}
	ch->out_len = ch->out_sent = 0;
	return 0;
}

int channel_read(struct channel *ch, struct leased_error *err)
{
	ssize_t n;

	if (!grow(&ch->in, &ch->in_size, ch->in_len + READ_MIN))
		return fail(err, LEASED_EUNAVAILABLE, "out of memory");
	n = recv(ch->fd, ch->in + ch->in_len, ch->in_size - ch->in_len, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0)
		return fail(err, LEASED_EUNAVAILABLE, "receive: %s", strerror(errno));
	if (n == 0)
		return fail(err, LEASED_EUNAVAILABLE, "the daemon has closed the connection");
	ch->in_len += (size_t)n;
	return 0;
}

int channel_next(struct channel *ch, struct frame *ret_frame)
{
	struct frame frame;
	int used = frame_parse(ch->in, ch->in_len, FRAME_BODY_MAX, &frame);
	size_t rest;

	if (used <= 0)
		return used;
	/* The body moves behind what is still to be read, so that it outlives the shift. */
	rest = ch->in_len - (size_t)used;
	if (!grow(&ch->in, &ch->in_size, ch->in_len + frame.len))
		return LEASED_EPROTO;
	memcpy(ch->in + ch->in_len, ch->in + FRAME_HEADER_LEN, frame.len);
	memmove(ch->in, ch->in + used, rest + frame.len);
	ch->in_len = rest;
	*ret_frame = (struct frame){ .body = ch->in + rest, .len = frame.len };
	return 1;
}

short channel_events(const struct channel *ch)
{
	if (ch->connecting)
		return POLLOUT;
	return ch->out_sent < ch->out_len ? POLLIN | POLLOUT : POLLIN;
}

void channel_close(struct channel *ch)
{
	if (ch->fd >= 0)
		close(ch->fd);
	free(ch->in);
	free(ch->out);
	channel_init(ch);
}
