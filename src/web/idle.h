/*
 * Closes connections whose client is silent for too long, or for longest when all places
 * are taken: one thread, which sleeps until the first of them would be. Any thread.
 */
#ifndef WEB_IDLE_H
#define WEB_IDLE_H

#include "base/base.h"

struct idle_watch;
struct idle_conn;

/* When there are `most` connections (0: never) those whose client has been silent for
 * longest are closed, and if there are none, one whose client takes next to nothing of
 * an answer. */
struct idle_watch *idle_start(int64_t idle_ms, int64_t head_ms, size_t most);

/* All connections must have left. */
void idle_stop(struct idle_watch *watch);

/* A connection is watched from enter to leave; its descriptor must stay open between. */
struct idle_conn *idle_enter(struct idle_watch *watch, int fd);
void idle_leave(struct idle_conn *conn);

/* Closes all that are watched now. */
void idle_cut(struct idle_watch *watch);

/* It is the client's turn to read: it has idle_ms from now; and as much again each time,
 * as long as it takes 64 KiB of an answer meanwhile. */
void idle_expect(struct idle_conn *conn);

/* It is the client's turn to send: it has idle_ms from now. If it ends its side before it
 * has sent a whole request, the connection is closed within some seconds: of such an end
 * the server's library may not hear, which is told of changes only. */
void idle_await(struct idle_conn *conn);

/* It is the client's turn to send the head of a request, all of which must be here
 * head_ms from now. So it is from idle_enter on. */
void idle_await_head(struct idle_conn *conn);

/* All is said: the client has a moment to read it and to end the connection. */
void idle_linger(struct idle_conn *conn);

/* It is our turn, for as long as it takes. */
void idle_hold(struct idle_conn *conn);

#endif
