#include "principal.h"

#include <errno.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "key.h"
#include "status.h"

/* The look-up itself has failed; anything else says that there is no such user (getpwnam(3), NOTES). */
static bool is_failure(int error)
{
	return error == EINTR || error == EIO || error == EMFILE || error == ENFILE || error == ENOMEM ||
	       error == ERANGE || error == EAGAIN;
}

/*
 * Remembers the last user found: connections of one user come in bursts, and NSS may be slow. A failure
 * must not make another principal of a user, who would then not hold the leases of before.
 */
static int user_name(const char **ret_name, uid_t uid, struct leased_error *err)
{
	static char name[128], buffer[65536];
	static uid_t known = (uid_t)-1;
	struct passwd entry, *found = NULL;
	int error;

	*ret_name = name;
	if (uid == known)
		return 0;
	error = getpwuid_r(uid, &entry, buffer, sizeof buffer, &found);
	if (!found && is_failure(error))
		return fail(err, LEASED_EUNAVAILABLE, "cannot look up the name of user %u: %s",
			(unsigned)uid, strerror(error));
	if (found)
		snprintf(name, sizeof name, "%s", found->pw_name);
	else
		snprintf(name, sizeof name, "uid-%u", (unsigned)uid);
	known = found ? uid : (uid_t)-1;
	return 0;
}

static const char *host_name(void)
{
	static char host[65];

	if (!*host && gethostname(host, sizeof host - 1) < 0)
		snprintf(host, sizeof host, "localhost");
	return host;
}

static int peer_credentials(uv_stream_t *stream, struct ucred *ret_peer, struct leased_error *err)
{
	socklen_t len = sizeof *ret_peer;
	uv_os_fd_t fd;

	if (uv_fileno((uv_handle_t *)stream, &fd) < 0 ||
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret_peer, &len) < 0)
		return fail(err, LEASED_EDENIED, "the kernel does not tell who is there");
	return 0;
}

int principal_of_stream(struct principal *ret_principal, uv_stream_t *stream, struct leased_error *err)
{
	struct principal p = { .uid = (uid_t)-1, .gid = (gid_t)-1 };
	struct ucred peer;
	const char *user = "loopback";
	int rc = 0;

	if (stream->type == UV_NAMED_PIPE) {
		rc = peer_credentials(stream, &peer, err);
		if (rc == 0)
			rc = user_name(&user, peer.uid, err);
		if (rc < 0)
			return rc;
		p.pid = peer.pid;
		p.uid = peer.uid;
		p.gid = peer.gid;
	}
	snprintf(p.name, sizeof p.name, "%s@%s", user, host_name());
	p.len = strlen(p.name);
	*ret_principal = p;
	return 0;
}

int principal_groups(gid_t **ret_groups, size_t *ret_n, const struct principal *p, uv_stream_t *stream,
	struct leased_error *err)
{
	socklen_t len = 0;
	uv_os_fd_t fd;
	gid_t *groups;

	*ret_groups = NULL;
	*ret_n = 0;
	if (p->uid == (uid_t)-1)
		return 0;
	if (uv_fileno((uv_handle_t *)stream, &fd) < 0 ||
		(getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &len) < 0 && errno != ERANGE))
		return fail(err, LEASED_EDENIED, "the kernel does not tell the groups of who is there");
	groups = malloc(len + sizeof *groups);
	if (!groups)
		return fail(err, LEASED_ENOMEM, "out of memory");
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups + 1, &len) < 0) {
		free(groups);
		return fail(err, LEASED_EDENIED, "the kernel does not tell the groups of who is there");
	}
	groups[0] = p->gid;
	*ret_groups = groups;
	*ret_n = 1 + len / sizeof *groups;
	return 0;
}

void principal_of_key(struct principal *ret_principal, const uint8_t key[static NOISE_KEY_LEN])
{
	struct principal p = { .uid = (uid_t)-1, .has_key = true };

	memcpy(p.key, key, sizeof p.key);
	key_format(p.name, KEY_CLIENT_PUBLIC, key);
	p.len = strlen(p.name);
	*ret_principal = p;
}
