/* example_watch.h - the messages of PROTOCOL.md's examples of watching. Memory is static. */
#ifndef EXAMPLE_WATCH_H
#define EXAMPLE_WATCH_H

#include "message.h"

void example_watch(Leased__ClientMessage *m);
void example_change(Leased__ServerMessage *m);

#endif
