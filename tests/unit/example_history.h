/* The examples of PROTOCOL.md that tell of the past; see test_protocol_doc.c. */
#ifndef EXAMPLE_HISTORY_H
#define EXAMPLE_HISTORY_H

#include "message.h"

void example_history(Leased__ClientMessage *message);
void example_grants(Leased__ServerMessage *message);

#endif
