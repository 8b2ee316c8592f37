/*
 * Finds copies that something other than pull has changed. One thread learns of changes
 * through inotify, as far as watches suffice, and from the hooks; it checks the other
 * copies within a budget. It also installs the copies' hooks, when the node starts and
 * whenever they were lost.
 *
 * pull/copy_record.c decides who has changed a copy, and asks for it to be brought again.
 */
#ifndef PULL_COPY_WATCH_H
#define PULL_COPY_WATCH_H

#include "pull/pull_parts.h"

/* The first check of all copies begins at once. */
struct copy_watch *copy_watch_start(struct pull *pull);

/* Ends the thread. Reports are still allowed afterwards, without effect. NULL is
 * allowed. */
void copy_watch_stop(struct copy_watch *watch);
void copy_watch_free(struct copy_watch *watch);

/* Whether each copy was looked at since the start. Any thread; NULL: there is none. */
bool copy_watch_has_looked(const struct copy_watch *watch);

/* The copy was synced, or is reported to have changed: check it. Any thread; NULL is
 * allowed. */
void copy_watch_report(struct copy_watch *watch, const char *name);

enum copy_verdict {
	COPY_OURS,    /* as pull has left it */
	COPY_YOUNG,   /* likewise, but its record is too young to prove much: ask again */
	COPY_AWAITED, /* a sync is due, which will compare it */
	COPY_BUSY,    /* a sync is at work, or this machine cannot look: ask again */
	COPY_CHANGED, /* changed by others */
	COPY_UNKNOWN, /* no row */
};

/* Compares the copy's disk with its record. The row shows whether pull is at work. */
int copy_judge(struct pull *pull, const char *name, enum copy_verdict *verdict,
	       struct err *err);

/* The copy may no longer be correct: its row becomes pending and is compared with the
 * primary at once. Does nothing where the copies are not mounted. */
int copy_doubt(struct pull *pull, const char *name, struct err *err);

#endif
