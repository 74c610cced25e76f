/*
 * devpg_watch.h - the process that owns the private cluster of --dev: it runs initdb and postgres,
 * and stops and removes them when the daemon is gone. For devpg.c only.
 */
#ifndef DEVPG_WATCH_H
#define DEVPG_WATCH_H

#include "devpg.h"

#define DEVPG_BIN_SIZE  256
#define DEVPG_FILE_SIZE (DEVPG_PATH_SIZE + 32) /* a file below the directory */

struct devpg_setup {
	char bin[DEVPG_BIN_SIZE]; /* where initdb and postgres are */
	int lock;                 /* held as long as the watcher lives; the caller's copy may close */
};

/* Forks the watcher; sets pg->watcher and pg->leash. 0 or LEASED_EINTERNAL. */
int devpg_watch(struct devpg *pg, const struct devpg_setup *setup, struct leased_error *err);

/* Removes a directory and all below it. */
void devpg_remove(const char *dir);

/*
 * Writes text between marks; marks and escapes in it get an escape before them. out has room for
 * twice the text and three more.
 */
void devpg_quote(char *out, const char *text, char mark, char escape);

#endif
