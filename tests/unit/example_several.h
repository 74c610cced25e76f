/* example_several.h - the messages of PROTOCOL.md's examples of several holders and names. Memory is static. */
#ifndef EXAMPLE_SEVERAL_H
#define EXAMPLE_SEVERAL_H

#include "message.h"

void example_acquire_several(Leased__ClientMessage *m);
void example_renew_several(Leased__ClientMessage *m);
void example_get_holder(Leased__ClientMessage *m);

#endif
