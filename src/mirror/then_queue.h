/*
 * What one mirror brought and others are to be told of (mirror/then.h), durable, in
 * order: <site.data>/then/<id of the mirror>/<number>, each the refs as they stood after
 * a change. The lowest is what the receiver knows; a document is what lies between two
 * neighbours. So a change is one file, the old values in it are those of the document
 * before, and neither can be lost without the other.
 *
 * One that comes while others wait is put together with the last of them if no ref has
 * changed in both: then nothing is lost by it. Beyond THEN_WAITING_MOST it is so in any
 * case, and the changes of refs that are not told are counted in "more".
 *
 * Any thread, if not said otherwise.
 */
#ifndef MIRROR_THEN_QUEUE_H
#define MIRROR_THEN_QUEUE_H

#include "base/base.h"
#include "base/str.h"

#define THEN_WAITING_MOST 20 /* documents */

struct then_queue;

/* Opens that of a mirror whose clone is, or will be, at `clone`. One that is new begins
 * with the refs that are there: these are nobody's news; of others what has changed since
 * is kept. *queue is there, and the caller's to close, also after an error. */
int then_queue_open(const char *data, const char *mirror, const char *clone,
		    struct then_queue **queue, struct err *err);
void then_queue_close(struct then_queue *queue); /* NULL is allowed */

/* Who brought it; all 0: that is not known (any more). */
struct then_origin {
	const char *job, *watcher;
	int64_t checked_at; /* wall ms */
};

/* Reads the clone's refs, and keeps them if they differ from the last. 1: so it is, and
 * durable; 0: nothing is new; -1. Waits while another thread does the same. */
int then_queue_take(struct then_queue *queue, const struct then_origin *origin,
		    struct err *err);

/* Appends the next document. 1: there is one; 0: there is none, or not yet; -1. After 1
 * then_queue_end() or then_queue_fail() is due. One thread at a time. */
int then_queue_next(struct then_queue *queue, struct str *document, struct err *err);

/* How that went. */
struct then_failure {
	int64_t since, tried_at, next_at; /* wall ms */
	const struct err *why;
};

/* It was taken. -1: that cannot be kept, and it is told again; then then_queue_fail() is
 * due in turn. */
int then_queue_end(struct then_queue *queue, struct err *err);

/* It was not taken. NULL: nobody was asked, since the node stops. */
void then_queue_fail(struct then_queue *queue, const struct then_failure *failure);

/* For commands: how many wait, and why the first of them does. */
struct then_look {
	size_t waiting;
	int64_t since, next_at;         /* wall ms; 0: nothing fails */
	char *class, *message, *remedy; /* owned; NULL: nothing fails */
};
int then_queue_look(const char *data, const char *mirror, struct then_look *look,
		    struct err *err);
void then_look_clear(struct then_look *look);

/* At the start: of mirrors that tell nobody any more, nothing is kept. `mirrors` has
 * `count` names. */
void then_queue_forget_others(const char *data, const char *const *mirrors, size_t count);

#endif
