/*
 * The repository's state: NAME.git/refrelay/state/ with
 *	key		a random value that changes with every change of refs
 *	pending/<id>	one file for each change that is going on
 *
 * A writer makes its pending file, changes refs, changes the key, removes the file, in
 * that order, so that a crash at any point leaves either a pending file or a new key,
 * and whatever was derived from the old refs is never taken for current. Recovery keeps
 * the order: new key first, then the dead writer's file is removed.
 *
 * The pending file is also the owner file of the writer's git locks (lock_file.h): its
 * flock tells whether the writer lives.
 *
 * Source: seed 003, with pending files that outlive the key.
 */
#ifndef GIT_STATE_H
#define GIT_STATE_H

#include "base/base.h"
#include "git/lock_file.h"

/* Makes the directories and a first key if they are missing. */
int state_prepare(int dir, struct err *err);

/* Starts a change. */
int state_begin(int dir, struct lock_owner *writer, struct err *err);

/* ERR_LOST: somebody took this writer for dead and removed its file. To be asked while
 * the locks of the refs are held, before they change. */
int state_check(const struct lock_owner *writer, struct err *err);

/* Ends a change: new key, then the file is removed. When the key cannot be written the
 * file stays, as it must, and the error is returned. */
int state_end(struct lock_owner *writer, struct err *err);

/* Ends a change that changed nothing: the key stays. */
void state_abandon(struct lock_owner *writer);

/* Cleans up after writers that died, their locks included. */
int state_recover(int dir, struct err *err);

#endif
