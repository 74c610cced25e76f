/* A new key, in a file of its own; what others need of it, on standard output. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "client_key.h"
#include "ctl.h"
#include "key.h"
#include "output.h"
#include "status.h"

#define COMMAND "keygen"

struct keygen {
	bool server; /* --server */
	bool show;   /* --public */
	bool is_default; /* no FILE */
	char path[PATH_MAX];
};

enum { OPT_SERVER = 256, OPT_PUBLIC };

/* -1: go on; else the exit code. */
static int read_options(struct keygen *k, const struct ctl *ctl, int argc, char *argv[])
{
	static const char shorts[] = ":h";
	static const struct option longs[] = {
		{ "server", no_argument, NULL, OPT_SERVER },
		{ "public", no_argument, NULL, OPT_PUBLIC },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct leased_error err;
	int option;

	optind = 0;
	opterr = 0;
	while ((option = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		switch (option) {
		case OPT_SERVER: k->server = true; break;
		case OPT_PUBLIC: k->show = true; break;
		case 'h': ctl_help(COMMAND); return 0;
		default: return ctl_bad_option(COMMAND, option, shorts, argv);
		}
	}
	if (argc - optind > 1)
		return ctl_usage(COMMAND, "one FILE only");
	if (argc == optind && k->server)
		return ctl_usage(COMMAND, "the key of a server needs a FILE");
	k->is_default = argc == optind;
	if (client_key_path(k->path, argc > optind ? argv[optind] : ctl->key_file, &err) < 0)
		return ctl_fail(COMMAND, err.status, err.text);
	return -1;
}

/* ~/.config and ~/.config/leased may not be there yet; what cannot be made shows when the file is. */
static void make_directories(const char *path)
{
	char part[PATH_MAX];

	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
		mkdir(part, 0700);
	}
}

static void print_public(const struct ctl *ctl, const struct keygen *k, const struct noise_keypair *key)
{
	char text[KEY_TEXT_SIZE];

	key_format(text, k->server ? KEY_SERVER_PUBLIC : KEY_CLIENT_PUBLIC, key->public);
	if (ctl->json)
		output_json(json_pack("{s:s, s:s, s:s}", "kind", k->server ? "server" : "client", "public",
			text, "file", k->path));
	else
		puts(text);
}

int cmd_keygen(const struct ctl *ctl, int argc, char *argv[])
{
	const struct noise_keypair *key;
	struct keygen k = { 0 };
	struct leased_error err;
	int code = read_options(&k, ctl, argc, argv), rc;
	enum key_kind kind = k.server ? KEY_SERVER_SECRET : KEY_CLIENT_SECRET;

	if (code >= 0)
		return code;
	if (k.show) {
		rc = key_load(&key, kind, k.path, &err);
	} else {
		if (k.is_default)
			make_directories(k.path);
		rc = key_create(&key, kind, k.path, &err);
	}
	if (rc < 0)
		return ctl_fail(COMMAND, rc, err.text);
	print_public(ctl, &k, key);
	key_free(key);
	return 0;
}
