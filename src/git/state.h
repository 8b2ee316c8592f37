/*
 * The repository's state: NAME.git/refrelay/state/ with
 *	key		a random value that changes with every change of refs
 *	pending/<id>	one file for each change under way
 *
 * A writer makes its pending file, changes refs, changes the key, removes the file, in
 * that order, so that a crash at any point leaves either a pending file or a new key, and
 * data derived from the old refs is never taken for current. Recovery keeps the order:
 * new key first, then the dead writer's file is removed. Before that it flushes what the
 * writer may have renamed but not flushed: whoever reads the refs next takes them for
 * durable.
 *
 * The pending file is an owner file (lock_owner.h), which shows whether the writer lives:
 * one of ours, whose git locks are further names of it, or a git process, for which the
 * hook reference-transaction makes and removes it (hook/hook_state.c). Readers list
 * pending files first, read the key second, and refs after that.
 *
 * Source: seed 003, with pending files that outlive the key.
 */
#ifndef GIT_STATE_H
#define GIT_STATE_H

#include "base/base.h"
#include "base/hook_wire.h"
#include "base/vec.h"
#include "git/lock_owner.h"

#define STATE_KEY_SIZE (STATE_KEY_DIGITS + 1)

/* Makes the directories and a first key if they are missing, for all users of the
 * repository. */
int state_prepare(int dir, struct err *err);

/* Starts a change. */
int state_begin(int dir, struct lock_owner *writer, struct err *err);

/* Starts a change in two steps, for a child that must inherit the writer's flock before
 * it can change anything: it starts after state_ready, and makes changes only after
 * state_announce. state_abandon and state_end are valid after either. */
int state_ready(int dir, struct lock_owner *writer, struct err *err);
int state_announce(struct lock_owner *writer, struct err *err);

/* ERR_LOST: this writer was taken for dead and its file removed. Call it while the locks
 * of the refs are held, before they change. */
int state_check(const struct lock_owner *writer, struct err *err);

/* Ends a change: new key, then the file is removed. When the key cannot be written the
 * file stays, as it must, and the error is returned. */
int state_end(struct lock_owner *writer, struct err *err);

/* Leaves a change that failed halfway, and cannot be flushed, to recovery. */
void state_leave(struct lock_owner *writer);

/* Ends a change without effect: the key stays. */
void state_abandon(struct lock_owner *writer);

/* Shows readers on hosts that cannot see the writer's flock that it lives. For changes
 * that last longer than a moment: every STATE_BEAT_MS. ERR_LOST: as state_check. */
#define STATE_BEAT_MS 10000
int state_beat(const struct lock_owner *writer, struct err *err);

/* Cleans up after writers that died, their locks included. */
int state_recover(int dir, struct err *err);

/* The state, for a reader: lists pending files, cleans up after dead writers, then reads
 * or makes the key. Read the refs after this. On an error nothing of the repository may
 * be answered from a cache. */
struct state_look {
	bool is_pending;          /* a writer is at work, or not proved dead */
	unsigned recovered;       /* dead writers that were cleaned up after */
	char key[STATE_KEY_SIZE]; /* also if is_pending */
};
int state_look(int dir, struct state_look *look, struct err *err);

/* Makes a new key, which invalidates everything derived from the refs. Pending files
 * stay. */
int state_renew(int dir, struct err *err);

/* The writers, for people; does not clean up. The caller clears *writers. */
struct state_writer {
	char name[LOCK_OWNER_NAME_SIZE]; /* in pending/ */
	enum lock_owner_state state;
	uint64_t pid;      /* 0: unknown */
	char program[32];  /* "refrelay", "git" or "" */
	int64_t age_s;     /* since it was made or last touched */
	bool is_elsewhere; /* on another host, or in another container */
};
typedef VEC(struct state_writer) state_writers;
int state_list(int dir, state_writers *writers, struct err *err);

#endif
