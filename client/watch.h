/*
 * watch.h - watches for the other files of libleased: what the background thread does for them, locked.
 */
#ifndef WATCH_H
#define WATCH_H

#include "client.h"

/* Tells them that nothing can be told while there is no connection. Unlocks during callbacks. */
void watches_run(struct leased_client *client);

/*
 * leased_unwatch(), but with the lock held, which is released while the watch's callback runs in another
 * thread.
 */
void watch_drop(struct leased_watch *watch);

/* The client is gone: frees all. */
void watches_free(struct leased_client *client);

#endif
