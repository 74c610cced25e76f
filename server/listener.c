#include "listener.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "log.h"
#include "status.h"

#define BACKLOG 1024

static void offer(struct listener *l)
{
	l->stalled = l->on_connection(l->owner, &l->u.stream) < 0;
}

static void on_connection(uv_stream_t *stream, int status)
{
	struct listener *l = stream->data;

	if (status < 0)
		log_event(LOG_ERROR, "accept_failed", "why", 's', uv_strerror(status), NULL);
	else
		offer(l);
}

/* Whether somebody answers on a Unix socket. */
static bool answers(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool yes;

	if (fd < 0)
		return false;
	memcpy(addr.sun_path, path, strlen(path));
	yes = connect(fd, (struct sockaddr *)&addr, sizeof addr) == 0 || errno == EAGAIN;
	close(fd);
	return yes;
}

/* libuv would call a directory that is missing a lack of permission. */
static int check_directory(const char *path, struct leased_error *err)
{
	char directory[sizeof((struct sockaddr_un *)NULL)->sun_path];
	char *slash;

	snprintf(directory, sizeof directory, "%s", path);
	slash = strrchr(directory, '/');
	slash[slash == directory ? 1 : 0] = '\0';
	if (access(directory, F_OK) == 0)
		return 0;
	return fail(err, LEASED_ECONFIG, "listen on unix:%s: %s: %s%s", path, directory, strerror(errno),
		errno == ENOENT ? ": make this directory, or use another path" : "");
}

static int bind_unix(struct listener *l, uv_loop_t *loop, const char *path, int64_t mode,
	struct leased_error *err)
{
	struct stat st;
	mode_t old_umask;
	int rc = check_directory(path, err);

	if (rc < 0)
		return rc;
	if (lstat(path, &st) == 0) {
		if (!S_ISSOCK(st.st_mode))
			return fail(err, LEASED_ECONFIG, "listen on %s: there is something else of this name",
				path);
		if (answers(path))
			return fail(err, LEASED_ECONFIG,
				"listen on %s: another daemon answers there: stop it, or use another path",
				path);
		unlink(path);
	}
	uv_pipe_init(loop, &l->u.pipe, 0);
	l->open = true;
	old_umask = umask((mode_t)(0777 & ~mode)); /* not chmod later: nobody else may come in between */
	rc = uv_pipe_bind(&l->u.pipe, path);
	umask(old_umask);
	return rc;
}

static int bind_tcp(struct listener *l, uv_loop_t *loop, const struct address *address,
	struct leased_error *err)
{
	struct sockaddr_storage addr;

	if (uv_ip4_addr(address->host, address->port, (struct sockaddr_in *)&addr) < 0 &&
		uv_ip6_addr(address->host, address->port, (struct sockaddr_in6 *)&addr) < 0)
		return fail(err, LEASED_ECONFIG, "listen on %s: not an address", address->host);
	uv_tcp_init(loop, &l->u.tcp);
	l->open = true;
	return uv_tcp_bind(&l->u.tcp, (struct sockaddr *)&addr, 0);
}

static void note_port(struct listener *l)
{
	struct sockaddr_storage addr;
	int len = sizeof addr;

	if (l->bound.kind != ADDRESS_TCP ||
		uv_tcp_getsockname(&l->u.tcp, (struct sockaddr *)&addr, &len) < 0)
		return;
	l->bound.port = ntohs(addr.ss_family == AF_INET ? ((struct sockaddr_in *)&addr)->sin_port :
							  ((struct sockaddr_in6 *)&addr)->sin6_port);
}

int listener_start(struct listener *l, uv_loop_t *loop, const struct address *address,
	int64_t socket_mode, int (*on_connection_cb)(void *owner, uv_stream_t *stream), void *owner,
	struct leased_error *err)
{
	char text[ADDRESS_TEXT_SIZE];
	int rc;

	*l = (struct listener){ .bound = *address, .on_connection = on_connection_cb, .owner = owner };
	if (address->kind == ADDRESS_UNIX)
		rc = bind_unix(l, loop, address->path, socket_mode, err);
	else
		rc = bind_tcp(l, loop, address, err);
	if (!l->open)
		return rc; /* already worded */
	l->u.handle.data = l;
	if (rc == 0)
		rc = uv_listen(&l->u.stream, BACKLOG, on_connection);
	if (rc == 0) {
		note_port(l);
		return 0;
	}
	address_format(text, address);
	listener_close(l);
	return fail(err, LEASED_ECONFIG, "listen on %s: %s", text, uv_strerror(rc));
}

void listener_retry(struct listener *l)
{
	if (l->open && l->stalled)
		offer(l);
}

void listener_close(struct listener *l)
{
	if (!l->open)
		return;
	l->open = false;
	uv_close(&l->u.handle, NULL); /* libuv unlinks the path of a pipe that it has bound */
}
