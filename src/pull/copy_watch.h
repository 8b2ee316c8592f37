/*
 * Copies that others than pull have changed. One thread hears of changes by inotify, as
 * far as watches suffice, and by the hooks; the other copies it looks at within a budget.
 * Copies also get their hooks here, when the node starts and whenever these were lost.
 *
 * pull/copy_record.c decides who has changed a copy, and asks for it to be brought again.
 */
#ifndef PULL_COPY_WATCH_H
#define PULL_COPY_WATCH_H

#include "pull/pull_parts.h"

/* The first look at all copies begins at once. */
struct copy_watch *copy_watch_start(struct pull *pull);

/* Ends the thread. Then others may still tell it, in vain. NULL is allowed. */
void copy_watch_stop(struct copy_watch *watch);
void copy_watch_free(struct copy_watch *watch);

/* It was synced, or somebody says that it has changed: look. Any thread; NULL is
 * allowed. */
void copy_watch_report(struct copy_watch *watch, const char *name);

enum copy_verdict {
	COPY_OURS,    /* as pull has left it */
	COPY_YOUNG,   /* likewise, but its record is too young to prove much: ask again */
	COPY_AWAITED, /* a sync is to come, which compares by itself */
	COPY_BUSY,    /* a sync is at work: ask again */
	COPY_CHANGED, /* by others */
	COPY_UNKNOWN, /* no row */
};

/* Compares the copy's disk with its record. The row tells whether pull is at work. */
int copy_judge(struct pull *pull, const char *name, enum copy_verdict *verdict,
	       struct err *err);

/* The copy is not known to be right any more: it is pending from now on, and is compared
 * with the primary at once. Nothing happens where the copies are not mounted. */
int copy_doubt(struct pull *pull, const char *name, struct err *err);

#endif
