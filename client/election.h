/*
 * election.h - elections for the other files of libleased: what the background thread does, locked.
 */
#ifndef ELECTION_H
#define ELECTION_H

#include "client.h"

/* Begins campaigns that are due. */
void elections_run(struct leased_client *client);

/* The client is gone: frees all. Before its watches. */
void elections_free(struct leased_client *client);

#endif
