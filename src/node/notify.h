/*
 * Tells the service manager how far we are: a datagram to $NOTIFY_SOCKET. Without one
 * nothing happens. Source: sd_notify(3), "Notes: standalone implementations".
 */
#ifndef NODE_NOTIFY_H
#define NODE_NOTIFY_H

/* "READY=1", "STOPPING=1", "STATUS=..."; lines. Failures are ignored: nobody listens. */
void notify(const char *state);

/* RELOADING=1 with the time stamp that Type=notify-reload wants. */
void notify_reloading(void);

#endif
