/*
 * The fence: a number in NAME.git/refrelay/fence that only grows. The holder of a lease
 * raises it to its grant's number before it reads the refs it works from; publish
 * refuses to work below it. So a worker that was paused, cut off or forgotten can waste
 * work, but cannot undo what a later one did.
 */
#ifndef GIT_FENCE_H
#define GIT_FENCE_H

#include "base/base.h"
#include "git/lock_file.h"

/* The present number, at most INT64_MAX; 0 without a file. ERR_CORRUPT: the file does not
 * hold a number. */
int fence_read(int dir, uint64_t *fence, struct err *err);

/* Raises it, visible to all when it returns, under packed-refs.lock, so that it cannot
 * overtake a publication under way. Where all its readers die with the machine it may be
 * lost in a power failure, but never in part. ERR_LOST: it is higher already. */
int fence_raise(int dir, uint64_t fence, struct err *err);

/* The same for a copy that goes to the trash: a fence that cannot be read, or something
 * else in its place, which stops all others and would stop this for ever, is made
 * anew. */
int fence_raise_anew(int dir, uint64_t fence, struct err *err);

/* For publish, which holds packed-refs.lock: ERR_LOST unless the number is exactly
 * `fence`. */
int fence_check_locked(int dir, uint64_t fence, struct err *err);

#endif
