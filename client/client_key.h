/*
 * client_key.h - where a client has its own key. Any thread.
 */
#ifndef CLIENT_KEY_H
#define CLIENT_KEY_H

#include <limits.h>

#include "leased_status.h"

/*
 * The file of the key: what was given; or, if that is NULL, $LEASED_KEY_FILE, or ~/.config/leased/key. 0, or
 * LEASED_ECONFIG: there is no home directory, or the path is too long.
 */
int client_key_path(char out[static PATH_MAX], const char *given, struct leased_error *err);

#endif
