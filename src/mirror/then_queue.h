/*
 * One mirror's changes to be announced (mirror/then.h), durable, in order:
 * <site.data>/then/<id of the mirror>/<number>, each with the refs after a change. The
 * lowest is the state known to the receiver; a document is the difference between two
 * neighbours. So a change is one file, its old values are those of the document before,
 * and neither can be lost without the other.
 *
 * A new one is merged with the last waiting one if no ref has changed in both: so no
 * information is lost. Beyond THEN_WAITING_MOST they are always merged, and lost changes
 * of refs are counted in "more".
 *
 * Any thread, unless stated otherwise.
 */
#ifndef MIRROR_THEN_QUEUE_H
#define MIRROR_THEN_QUEUE_H

#include "base/base.h"
#include "base/str.h"

#define THEN_WAITING_MOST 20 /* documents */

struct then_queue;

/* Opens the queue of a mirror whose clone is, or will be, at `clone`. A new queue begins
 * with the present refs, which are not announced; an existing one records the changes
 * since. *queue is set, and the caller must close it, also after an error. */
int then_queue_open(const char *data, const char *mirror, const char *clone,
		    struct then_queue **queue, struct err *err);
void then_queue_close(struct then_queue *queue); /* NULL is allowed */

/* The origin of a change; all 0: unknown. */
struct then_origin {
	const char *job, *watcher;
	int64_t checked_at; /* wall ms */
};

/* Reads the clone's refs, and stores them if they differ from the last. 1: stored,
 * durable; 0: nothing new; -1: error. Waits while another thread does the same. */
int then_queue_take(struct then_queue *queue, const struct then_origin *origin,
		    struct err *err);

/* Appends the next document. 1: appended; 0: none, or not yet; -1: error. After 1 call
 * then_queue_end() or then_queue_fail(). One thread at a time. */
int then_queue_next(struct then_queue *queue, struct str *document, struct err *err);

/* A failed announcement. */
struct then_failure {
	int64_t since, tried_at, next_at; /* wall ms */
	const struct err *why;
};

/* It was accepted. -1: that cannot be stored, so it will be announced again; then call
 * then_queue_fail(). */
int then_queue_end(struct then_queue *queue, struct err *err);

/* It was not accepted. NULL: it was not sent, since the node stops. */
void then_queue_fail(struct then_queue *queue, const struct then_failure *failure);

/* For commands: how many wait, and why the first one does. */
struct then_look {
	size_t waiting;
	int64_t since, next_at;         /* wall ms; 0: no failure */
	char *class, *message, *remedy; /* owned; NULL: no failure */
};
int then_queue_look(const char *data, const char *mirror, struct then_look *look,
		    struct err *err);
void then_look_clear(struct then_look *look);

/* At the start: removes the queues of mirrors that no longer announce changes. `mirrors`
 * has `count` names. */
void then_queue_forget_others(const char *data, const char *const *mirrors, size_t count);

#endif
