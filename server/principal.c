#include "principal.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "leased_status.h"

/* The last user looked up: connections of one user come in bursts, and NSS may be slow. */
static const char *user_name(uid_t uid)
{
	static char name[128];
	static uid_t known = (uid_t)-1;
	char buffer[4096];
	struct passwd entry, *found = NULL;

	if (uid == known)
		return name;
	if (getpwuid_r(uid, &entry, buffer, sizeof buffer, &found) == 0 && found)
		snprintf(name, sizeof name, "%s", found->pw_name);
	else
		snprintf(name, sizeof name, "uid-%u", (unsigned)uid);
	known = uid;
	return name;
}

static const char *host_name(void)
{
	static char host[65];

	if (!*host && gethostname(host, sizeof host - 1) < 0)
		snprintf(host, sizeof host, "localhost");
	return host;
}

static int peer_credentials(uv_stream_t *stream, struct ucred *ret_peer)
{
	socklen_t len = sizeof *ret_peer;
	uv_os_fd_t fd;

	if (uv_fileno((uv_handle_t *)stream, &fd) < 0)
		return LEASED_EDENIED;
	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret_peer, &len) < 0 ? LEASED_EDENIED : 0;
}

int principal_of_stream(struct principal *ret_principal, uv_stream_t *stream)
{
	struct principal p = { .uid = (uid_t)-1 };
	struct ucred peer;
	const char *user = "loopback";

	if (stream->type == UV_NAMED_PIPE) {
		if (peer_credentials(stream, &peer) < 0)
			return LEASED_EDENIED;
		p.pid = peer.pid;
		p.uid = peer.uid;
		user = user_name(peer.uid);
	}
	snprintf(p.name, sizeof p.name, "%s@%s", user, host_name());
	p.len = strlen(p.name);
	*ret_principal = p;
	return 0;
}
