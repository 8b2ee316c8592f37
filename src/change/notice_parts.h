/*
 * What notice.c and its helpers share. Private to change/.
 */
#ifndef CHANGE_NOTICE_PARTS_H
#define CHANGE_NOTICE_PARTS_H

#include <stdatomic.h>

#include "base/map.h"
#include "base/thread.h"
#include "change/notice.h"
#include "git/checksum.h"
#include "git/refs.h"
#include "replicable/discover.h"

struct notice {
	pthread_mutex_t mutex;
	struct map deleting; /* name -> int64_t, owned: how many refs pushes that are not
				over delete; guarded by mutex */
	struct notice_options options;
	int64_t lacking_hooks; /* as logged last; the scanning thread only */
	/* owed.c: there may be such rows; the log was told so. */
	atomic_bool may_owe, reported_owed;
};

/* What the disk says of one repository. */
enum observation {
	OBSERVATION_WHOLE,
	OBSERVATION_UNREADABLE, /* it is there, and `why` says what is wrong */
	OBSERVATION_GONE,       /* proved */
};

/* What is gone may stand under a new name, and that one is to be noticed first: only so
 * is it a rename, and no deletion. */
enum absence {
	ABSENCE_SOUGHT,  /* the tree is walked for it */
	ABSENCE_DELETED, /* that was done: it is recorded */
	ABSENCE_LATER,   /* the next scan will: nothing is recorded */
};

struct comparison {
	struct notice *notice;
	const char *name;
	int tries;          /* before this one */
	bool is_scanned;    /* nobody told of it, a scan came to it */
	bool is_first_scan; /* and it is the first of a new database */
	bool is_sought;     /* its former name's deletion is being recorded */
	enum absence absence;
	struct origin_row base; /* what is compared with; no name: there is no row */
	enum observation observation;
	struct err why;
	char *path;               /* owned; below the root */
	char *identity;           /* of its directory; owned; NULL: not known */
	struct origin_row former; /* of a new name: the row of the name that this
				     repository had before; no name: none */
	struct ref_reading reading;
	char checksum[CHECKSUM_TEXT_SIZE];
	char fingerprint[FINGERPRINT_TEXT_SIZE];
	char *description;            /* digest; owned; NULL: none */
	struct ref_snapshot recorded; /* refs that belong to base, if at hand */
	const struct ref_snapshot
		*before; /* those, or the same as now; NULL: not known */
	bool is_owed;    /* the sink did not take it: why_owed */
	struct err why_owed;
	char *changes; /* JSON; owned; NULL: not known */
	bool is_event; /* what differs is a change, not only how the disk looks */
};

/* As notice_compare, by a scan: which may be the first of a new database, and says what
 * it means if nothing is there any more. */
int notice_compare_scanned(struct notice *notice, const char *name, bool is_first,
			   enum absence absence, struct noticed *noticed,
			   struct err *err);

/* Whether the scan is to look at it: at a secondary only if no sync is going to. */
int notice_may_look(struct notice *notice, const char *name, bool *may, struct err *err);

/* Nothing stands there. At a secondary that is a deletion only where pull has dropped the
 * row: 0, or -1: ERR_CONFLICT. */
int notice_check_dropped(struct notice *notice, const char *name, struct err *err);

/* After the commit of a comparison that is_owed. */
void owed_note(const struct comparison *comparison);

/* Whether there is anything to write. Sets is_event. */
bool comparison_differs(struct comparison *comparison);

/* What the event says. */
enum event_what comparison_what(const struct comparison *comparison);

/* Writes row and event in one transaction, and fills noticed->row, is_changed and
 * event_id. ERR_CONFLICT: the row is not the one compared with any more. */
int comparison_commit(struct comparison *comparison, struct noticed *noticed,
		      struct err *err);

/* The directory of repositories; -1: ERR_DISK, it is away. */
int notice_open_root(const struct notice *notice, struct err *err);

/* Whether it is the directory that the rows were seen in: an empty mount point shall not
 * pass for a tree whose repositories were all deleted. 0, or -1: ERR_DISK. */
int notice_check_root(struct notice *notice, int root, struct err *err);

/* Whether the path, below the root, is of a repository that stood on a file system of
 * its own, which is not mounted now. 0: it is not; -1: ERR_DISK. */
int notice_check_mounts(struct notice *notice, int root, const char *path,
			struct err *err);

#endif
