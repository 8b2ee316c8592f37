/*
 * Lines to the primary that rest between requests, so that there are as many connections
 * as threads that ask at once, and each is kept. Any thread.
 */
#ifndef PULL_LINES_H
#define PULL_LINES_H

#include "base/thread.h"
#include "base/vec.h"
#include "pull/primary.h"

struct lines {
	pthread_mutex_t mutex;
	struct primary *primary;            /* borrowed */
	const struct stop *stop;            /* borrowed */
	VEC(struct primary_line *) resting; /* guarded by mutex; owned */
};

void lines_init(struct lines *lines, struct primary *primary, const struct stop *stop);
void lines_clear(struct lines *lines);

/* Its requests take at most most_ms each. The caller gives it back to lines_rest(). */
int lines_take(struct lines *lines, int64_t most_ms, struct primary_line **line,
	       struct err *err);
void lines_rest(struct lines *lines, struct primary_line *line); /* NULL is allowed */

#endif
