#include "confine.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "status.h"

/* NULL: whoever it is, we do not become it. */
static const struct passwd *find_user(const char *name, struct leased_error *err)
{
	const struct passwd *user;

	errno = 0;
	user = getpwnam(name);
	if (!user)
		fail(err, LEASED_ECONFIG, "become user %s: %s", name,
			errno ? strerror(errno) : "there is no such user");
	else if (user->pw_uid == 0 || user->pw_gid == 0)
		fail(err, LEASED_ECONFIG, "become user %s: that is root, or root's group: name a user without rights",
			name);
	else
		return user;
	return NULL;
}

/* The kernel is asked, not what we meant to do: saved ids and capabilities are ways back too. */
static bool can_go_back(void)
{
	return setgid(0) == 0 || setegid(0) == 0 || setuid(0) == 0 || seteuid(0) == 0;
}

static int become(const char *name, struct leased_error *err)
{
	const struct passwd *user = find_user(name, err);

	if (!user)
		return LEASED_ECONFIG;
	if (user->pw_uid == geteuid() && user->pw_uid == getuid())
		return 0;
	if (geteuid() != 0)
		return fail(err, LEASED_ECONFIG,
			"become user %s: only root can: start leased as root, or as that user", name);
	if (initgroups(name, user->pw_gid) < 0 ||
		setresgid(user->pw_gid, user->pw_gid, user->pw_gid) < 0 ||
		setresuid(user->pw_uid, user->pw_uid, user->pw_uid) < 0)
		return fail(err, LEASED_ECONFIG, "become user %s: %s", name, strerror(errno));
	if (can_go_back())
		return fail(err, LEASED_ECONFIG,
			"become user %s: the process could still become root again: is a capability or securebit kept?", name);
	return 0;
}

static int give_up(struct leased_error *err)
{
	struct rlimit limit = { 0, 0 };

	umask(0077);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return fail(err, LEASED_EINTERNAL, "give up rights: prctl: %s", strerror(errno));
	if (setrlimit(RLIMIT_CORE, &limit) < 0)
		return fail(err, LEASED_EINTERNAL, "forbid core dumps: setrlimit: %s", strerror(errno));
	return 0;
}

int confine(const char *user, struct leased_error *err)
{
	int rc = 0;

	if (*user)
		rc = become(user, err);
	else if (geteuid() == 0 || getuid() == 0)
		rc = fail(err, LEASED_ECONFIG,
			"leased does not work as root: name a user with --user, or start it as one");
	return rc < 0 ? rc : give_up(err);
}
