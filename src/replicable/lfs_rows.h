/*
 * The objects of Git LFS that belong to each repository, at any site: those named in its
 * history, and those uploaded to it. The key of rows is the repository's replicable_id().
 * Functions that take a transaction are for works inside store_write() or store_read().
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

/* The state of a repository's scan, and its time. */
struct lfs_scan {
	uint64_t repository;
	char *name;        /* owned */
	char timeline[17]; /* "": its history was never scanned */
	uint64_t generation;
	int64_t whole_at; /* when all of its history was scanned */
	int64_t named, absent;
};
typedef VEC(struct lfs_scan) lfs_scans;
#define AUTO_LFS_SCAN __attribute__((cleanup(lfs_scan_clear)))
#define AUTO_LFS_SCANS __attribute__((cleanup(lfs_scans_clear)))
void lfs_scan_clear(struct lfs_scan *scan);
void lfs_scans_clear(lfs_scans *scans);

/* The table of a site's repositories and blobs. */
enum lfs_side { LFS_ORIGIN, LFS_REGISTRY };

/* 1: found; 0: not found; -1: error. The caller clears. */
int lfs_scan_get(struct store_tx *tx, uint64_t repository, struct lfs_scan *scan,
		 struct err *err);

/* The repository's present row: only name, timeline and generation. 0: not found, or
 * nothing of it is here. */
int lfs_scan_now(struct store_tx *tx, enum lfs_side side, const char *name,
		 struct lfs_scan *scan, struct err *err);

/* The result of scanning a repository. `is_whole`: of all its history, so that other
 * objects are no longer named. The scan's counts are filled in and written. */
struct lfs_found {
	struct lfs_scan *scan;
	const lfs_rows *rows;
	bool is_whole;
	bool is_other; /* another repository than that of the rows: remove those */
};
int lfs_rows_put(struct store_tx *tx, const struct lfs_found *found, struct err *err);

/* An object was uploaded to the repository `scan` (lfs_scan_now()). */
int lfs_rows_add_uploaded(struct store_tx *tx, const struct lfs_scan *scan,
			  const struct lfs_row *row, struct err *err);

/* 1: it belongs to the repository; *size is as recorded there; 0: it does not. */
int lfs_row_get(struct store_tx *tx, uint64_t repository, const char *oid, uint64_t *size,
		struct err *err);

/* Repositories whose history has changed since the last scan, by name, at most `limit`,
 * with names above `after` ("": all): as lfs_scan_now(). */
int lfs_scans_due(struct store_tx *tx, enum lfs_side side, const char *after,
		  size_t limit, lfs_scans *scans, struct err *err);

/* Those that name objects, by name, likewise. */
int lfs_scans_naming(struct store_tx *tx, const char *after, size_t limit,
		     lfs_scans *scans, struct err *err);

/* Those with absent objects, by name. */
int lfs_scans_lacking(struct store_tx *tx, lfs_scans *scans, struct err *err);

/* Counts objects that the repository's history names and that are not here as blobs of
 * that kind. */
int lfs_scan_count(struct store *store, enum lfs_side side, const char *kind,
		   struct lfs_scan *scan, struct err *err);

/* Adds the objects counted there, in byte order of their oids. */
int lfs_rows_absent(struct store_tx *tx, enum lfs_side side, const char *kind,
		    uint64_t repository, lfs_rows *rows, struct err *err);
int lfs_scan_set_absent(struct store_tx *tx, const struct lfs_scan *scan,
			struct err *err);

/* Removes all rows of a repository, including its own. */
int lfs_rows_forget(struct store_tx *tx, uint64_t repository, struct err *err);

/* Whether there are records of repositories without a row: 1, 0 or -1; and their
 * removal. */
int lfs_rows_have_orphans(struct store *store, enum lfs_side side, struct err *err);
int lfs_rows_prune(struct store_tx *tx, enum lfs_side side, struct err *err);

#endif
