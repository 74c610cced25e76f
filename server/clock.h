/*
 * clock.h - the one `now` of the daemon: monotonic, in milliseconds. No decision about a lease uses it
 * (only the database's clock decides); it is for timeouts and for when to look again.
 */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>

int64_t clock_ms(void);

/* Wall clock in microseconds since 1970, for reports to people only. */
int64_t clock_wall_us(void);

#endif
