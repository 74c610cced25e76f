/*
 * watch.h - who follows which leases: each watch is told what is held, a mark, and then every change, none
 * missed and none twice. When some may have been missed it begins anew with what is held. Changes come
 * as notifications (notices.h); an expiry, which is no statement, is found at its known time. Loop thread.
 *
 * Memory is bounded: by max_watches, max_watched (held leases in all of them), and WATCH_QUEUE_MAX for
 * what a watch has not taken yet.
 */
#ifndef WATCH_H
#define WATCH_H

#include <uv.h>

#include "change.h"
#include "engine.h"
#include "notices.h"

/* Changes in line for one watch, in bytes; over it the watch ends. */
#define WATCH_QUEUE_MAX (2 * 1024 * 1024)

struct watch;
struct watches;

struct watch_events {
	/*
	 * Takes a change, which is gone when the call returns. False: no more until watch_resume(); of
	 * those that belong together one more may come all the same.
	 */
	bool (*on_change)(void *owner, const struct change *change);
	/* Whether changes of this name are told; NULL: of each. An answer holds until watch_begin_anew(). */
	bool (*is_wanted)(void *owner, struct text name);
	/* The watch is over, and gone when the call returns: LEASED_EUNAVAILABLE, LEASED_EBUSY, ... */
	void (*on_end)(void *owner, const struct leased_error *why);
};

/* notices says why no notifications arrive; it, config and engine must live as long. */
int watches_new(struct watches **ret_watches, uv_loop_t *loop, const struct config *config,
	struct engine *engine, const struct notices *notices);

/*
 * Follows all leases whose names begin with prefix, or the one of this very name (exact). The callbacks
 * run in later loop turns. LEASED_EBUSY: too many watches; LEASED_EUNAVAILABLE: no notifications arrive;
 * LEASED_ENOMEM.
 */
int watch_start(struct watches *all, struct text prefix, bool exact, const struct watch_events *events,
	void *owner, struct watch **ret_watch, struct leased_error *err);

/* It is over; no callback runs after this. */
void watch_stop(struct watch *w);

/* What is wanted has changed: it is told from the beginning, with what is held. */
void watch_begin_anew(struct watch *w);

/* There is room for more. */
void watch_resume(struct watch *w);

/* From notices: a lease has changed; notifications arrive from now on, or no longer. */
void watches_take(struct watches *all, const struct change *change);
void watches_set_listening(struct watches *all, bool listening);

/* Ends those that have waited too long for their beginning; called every second or so. */
void watches_tick(struct watches *all);

/* Asks the database for nothing more. */
void watches_leave(struct watches *all);

/* All watches have been stopped. Frees, once the engine has answered what is under way. */
void watches_close(struct watches *all);

#endif
