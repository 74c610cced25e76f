/*
 * page.h - listings for a client that may not see all of what it asks about. A page from which everything would be
 * left out is not told: it is asked on, so that where a page ends never names what was left out. Loop thread.
 */
#ifndef PAGE_H
#define PAGE_H

#include "call.h"

/* Before a call is handed to the engine. Does nothing unless it is such a listing. */
void page_begin(struct call *call);

/*
 * It is decided. Leaves out what the client may not see; true: nothing was left and there is more, which it has
 * asked for, so the call is not over.
 */
bool page_goes_on(struct call *call);

#endif
