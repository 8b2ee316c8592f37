/*
 * The directories that a push has changed, made durable: git syncs the files that it
 * writes there, not their names. Plain data, for one thread at a time.
 */
#ifndef SERVE_RECEIVE_SYNC_H
#define SERVE_RECEIVE_SYNC_H

#include "base/base.h"
#include "base/map.h"

struct receive_sync {
	struct map folders; /* of refs, below the repository */
	bool is_all;        /* too many, or not known: the whole file system */
};

void receive_sync_clear(struct receive_sync *sync);

/* A ref of that name may change. */
void receive_sync_add(struct receive_sync *sync, const char *name, size_t len);

/* After git has changed them: objects and refs are on disk when it returns 0. */
int receive_sync_run(const struct receive_sync *sync, int dir, struct err *err);

#endif
