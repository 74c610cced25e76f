/*
 * connection.h - the background thread of a client: it connects, sends what is queued, takes answers,
 * and keeps the renewals going.
 */
#ifndef CONNECTION_H
#define CONNECTION_H

#include "client.h"

/* How long a closing client goes on for what is still in flight. */
#define FAREWELL_MS 1000

/* Runs until client->closing; arg is the client. */
void *connection_thread(void *arg);

#endif
