/*
 * Which objects of Git LFS belong to which repository, at any site: those that its
 * history names, and those that were uploaded to it. Rows go by replicable_id() of the
 * repository. Functions that take a transaction are for works inside store_write() or
 * store_read().
 */
#ifndef REPLICABLE_LFS_ROWS_H
#define REPLICABLE_LFS_ROWS_H

#include "base/base.h"
#include "base/vec.h"
#include "store/store.h"

#define LFS_ROW_OID_SIZE 65

struct lfs_row {
	char oid[LFS_ROW_OID_SIZE];
	uint64_t size;
};
typedef VEC(struct lfs_row) lfs_rows;

/* What is known of a repository, and of when. */
struct lfs_scan {
	uint64_t repository;
	char *name;        /* owned */
	char timeline[17]; /* "": its history was never looked through */
	uint64_t generation;
	int64_t whole_at; /* all of its history was, then */
	int64_t named, absent;
};
typedef VEC(struct lfs_scan) lfs_scans;
#define AUTO_LFS_SCAN __attribute__((cleanup(lfs_scan_clear)))
#define AUTO_LFS_SCANS __attribute__((cleanup(lfs_scans_clear)))
void lfs_scan_clear(struct lfs_scan *scan);
void lfs_scans_clear(lfs_scans *scans);

/* In which table a site's repositories and blobs stand. */
enum lfs_side { LFS_ORIGIN, LFS_REGISTRY };

/* 1: found, 0: none. The caller clears. */
int lfs_scan_get(struct store_tx *tx, uint64_t repository, struct lfs_scan *scan,
		 struct err *err);

/* The repository as its row is now: name, timeline and generation, no more. 0: there is
 * none, or nothing of it is here. */
int lfs_scan_now(struct store_tx *tx, enum lfs_side side, const char *name,
		 struct lfs_scan *scan, struct err *err);

/* What looking through a repository found. `is_whole`: all of its history, so that what
 * is not among them is not named any more. The scan's counts are filled and written. */
struct lfs_found {
	struct lfs_scan *scan;
	const lfs_rows *rows;
	bool is_whole;
	bool is_other; /* it is another repository than that of the rows: forget them */
};
int lfs_rows_put(struct store_tx *tx, const struct lfs_found *found, struct err *err);

/* An object was uploaded to the repository `scan` (lfs_scan_now()). */
int lfs_rows_add_uploaded(struct store_tx *tx, const struct lfs_scan *scan,
			  const struct lfs_row *row, struct err *err);

/* 1: it belongs to the repository, and *size is what that says; 0: it does not. */
int lfs_row_get(struct store_tx *tx, uint64_t repository, const char *oid, uint64_t *size,
		struct err *err);

/* Repositories whose history is another than the one looked through, by name, at most
 * `limit`, with names above `after` ("": all): as lfs_scan_now(). */
int lfs_scans_due(struct store_tx *tx, enum lfs_side side, const char *after,
		  size_t limit, lfs_scans *scans, struct err *err);

/* Those that name something, by name, likewise. */
int lfs_scans_naming(struct store_tx *tx, const char *after, size_t limit,
		     lfs_scans *scans, struct err *err);

/* Those of which something is absent, by name. */
int lfs_scans_lacking(struct store_tx *tx, lfs_scans *scans, struct err *err);

/* Counts what the repository's history names and is not here as a blob of that kind. */
int lfs_scan_count(struct store_tx *tx, enum lfs_side side, const char *kind,
		   struct lfs_scan *scan, struct err *err);

/* Adds those that it counts, in byte order of their oids. */
int lfs_rows_absent(struct store_tx *tx, enum lfs_side side, const char *kind,
		    uint64_t repository, lfs_rows *rows, struct err *err);
int lfs_scan_set_absent(struct store_tx *tx, const struct lfs_scan *scan,
			struct err *err);

/* Nothing belongs to it any more: its own row goes. */
int lfs_rows_forget(struct store_tx *tx, uint64_t repository, struct err *err);

/* Whether something is recorded of a repository that has no row any more: 1, 0 or -1; and
 * dropping that. */
int lfs_rows_have_orphans(struct store_tx *tx, enum lfs_side side, struct err *err);
int lfs_rows_prune(struct store_tx *tx, enum lfs_side side, struct err *err);

#endif
