/*
 * example_access.h - the messages about rights that PROTOCOL.md shows in hex.
 */
#ifndef EXAMPLE_ACCESS_H
#define EXAMPLE_ACCESS_H

#include "message.h"

void example_whoami(Leased__ClientMessage *m);
void example_identity(Leased__ServerMessage *m);

#endif
