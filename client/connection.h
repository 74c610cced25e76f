/*
 * connection.h - the background thread of a client: it connects, sends what is queued, takes answers,
 * and keeps the renewals going.
 */
#ifndef CONNECTION_H
#define CONNECTION_H

#include "client.h"

/* Runs until client->closing; arg is the client. */
void *connection_thread(void *arg);

#endif
