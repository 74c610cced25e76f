/*
 * notify_ready.h - tells systemd (Type=notify) how we are: one datagram to $NOTIFY_SOCKET, nothing when
 * it is not set (sd_notify(3)). Loop thread.
 */
#ifndef NOTIFY_READY_H
#define NOTIFY_READY_H

void notify_ready(void);
void notify_stopping(void);
void notify_watchdog(void);

#endif
