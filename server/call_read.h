/*
 * call_read.h - from a message of a client to requests, every field checked. Loop thread.
 */
#ifndef CALL_READ_H
#define CALL_READ_H

#include "call.h"

/*
 * Fills the requests of a new call, whose arena the message lies in: so do their texts. 0, or LEASED_EDATA,
 * LEASED_ENOMEM with a sentence for the client.
 */
int call_read(struct session *s, struct call *call, const Leased__ClientMessage *m,
	struct leased_error *err);

#endif
