/*
 * Shared by notice.c, the kinds and their helpers. Private to change/.
 */
#ifndef CHANGE_NOTICE_PARTS_H
#define CHANGE_NOTICE_PARTS_H

#include <stdatomic.h>

#include "base/map.h"
#include "base/thread.h"
#include "change/known_refs.h"
#include "change/moved.h"
#include "change/notice.h"
#include "change/origin_root.h"

struct notice {
	pthread_mutex_t mutex;
	struct map deleting; /* name -> int64_t, owned: refs being deleted by unfinished
				pushes; guarded by mutex */
	struct map told;     /* owed.c: name -> checksum that the sink may have acted on,
				owned; "": none, or several; guarded by mutex */
	struct notice_options options;
	_Atomic int64_t reverify_ms; /* as the settings are now */
	struct known_refs *known;    /* owned, as the next */
	struct moved *moved;
	void (*due)(void *arg); /* may be NULL */
	void *due_arg;
	int64_t lacking_hooks; /* as last logged; the scanning thread only */
	/* owed.c: there may be such rows; that was logged. */
	atomic_bool may_owe, reported_owed;
};

/* Compares any number of them; fills each. Events are durable when it returns. -1:
 * recording stopped: the directory is missing, or the database failed. The caller clears
 * them in any case. */
int notice_compare_all(const struct origin_kind *kind, const struct notice_cause *cause,
		       struct noticed *noticed, size_t count, struct err *err);

/* Compares one; also returns its `why` as the error. */
int notice_compare_one(const struct origin_kind *kind, const struct notice_cause *cause,
		       struct noticed *noticed, struct err *err);

/* For scan.c: calls the kind's `note` for each. */
int notice_scanned(struct scan *scan, char *const *names, size_t count, bool are_gone,
		   struct err *err);

/* For watch.c. */
int notice_hinted(const struct origin_kind *kind, char *const *names, size_t count,
		  struct err *err);

/* As it is open now. */
struct origin_root notice_root_of(const struct comparisons *all);

/* For an `observe`: whether the file missing at this path, below the root, may be on a
 * file system that is not mounted: an empty mount point must not look like a directory in
 * which everything was deleted. */
bool notice_is_away(struct comparisons *all, const char *path, struct err *why);

/* 1: the row exists and equals the base; 0: it does not exist, like the base; -1:
 * ERR_CONFLICT. The caller clears. */
int notice_read_again(struct store_tx *tx, const char *kind, const char *name,
		      const struct origin_row *base, struct origin_row *row,
		      struct err *err);

/* Appends an event of the row; sets its changed_at, unless the event is for the same
 * generation. */
int notice_append_event(struct store_tx *tx, const char *kind, enum event_what what,
			struct origin_row *row, char *changes,
			struct event_mark *appended, struct err *err);

enum event_what notice_what_of(enum origin_step step);

/* After a commit: wakes threads that wait for events, and, if is_due, those that verify.
 * newest: the last event of this commit; id 0: no event. */
void notice_report(struct notice *notice, const struct event_mark *newest, bool is_due);

#endif
