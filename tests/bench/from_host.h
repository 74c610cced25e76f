/*
 * from_host.h - connections to a daemon on loopback, each from an address of its own.
 */
#ifndef FROM_HOST_H
#define FROM_HOST_H

#include "address.h"

/*
 * Connects from host number so and so, and closes it later by a reset. flags: SOCK_NONBLOCK, then it may not be
 * connected yet. -1: the kernel has no room for one more just now.
 */
int connect_from_host(const struct address *to, uint32_t host, int flags);

#endif
