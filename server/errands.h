/*
 * errands.h - requests of the engine's own: nobody waits for their answers. Loop thread.
 */
#ifndef ERRANDS_H
#define ERRANDS_H

#include "engine_state.h"

/*
 * Gives a cancelled grant back, then answers it: whoever was told that it is cancelled finds it free. When
 * that fails it is answered as unavailable.
 */
void errand_give_back(struct engine *e, struct request *grant);

/* Releases a lease whose holder has gone: its work is not done. */
void errand_release(struct engine *e, const struct claim *claim);

/* Leaves the queue of name. place as in leave.sql: one row, or negative: all of ours before it. */
void errand_leave(struct engine *e, struct text name, int64_t place);

/* Once a second, while somebody here has a place or watches: this daemon is alive. */
void errand_on_beat(uv_timer_t *timer);

#endif
