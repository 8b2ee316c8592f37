/*
 * Looks at all files of a kind of blobs, in the order of their ids, beside the rows in
 * the same order: finds what nobody told. One thread at a time a kind.
 */
#ifndef CHANGE_BLOB_SCAN_H
#define CHANGE_BLOB_SCAN_H

#include "base/base.h"
#include "base/map.h"
#include "base/thread.h"
#include "change/blob_notice.h"
#include "change/scan_record.h"

struct blob_scan_request {
	struct blob_notice *notice;
	struct store *store;
	const struct blob_kind *kind;
	const struct stop *stop; /* may be NULL */
	/* What is known to be wrong, so that it is logged once, when it begins: path ->
	 * why. The caller keeps it from scan to scan; blob_troubles_clear(). */
	struct map *troubles;
	/* Before a directory is read: "" is the root. May be NULL. */
	void (*directory)(void *arg, const char *path);
	void *arg;
};

struct blob_scan_result {
	uint64_t files, bytes;
	size_t looked_into, changed;
	size_t left_out;                 /* what is no blob, or cannot be read */
	char example[SCAN_EXAMPLE_SIZE]; /* one of them, if any: "PATH: why (remedy)" */
	bool is_complete; /* nothing hid names, so that absence was taken for deletion */
};

/* ERR_DISK: the kind's directory is away, or another, empty one. ERR_CANCELED. */
int blob_scan(const struct blob_scan_request *request, struct blob_scan_result *result,
	      struct err *err);

/* Of one directory and all below it. Missing: what was there is gone. */
int blob_scan_below(const struct blob_scan_request *request, const char *directory,
		    struct blob_scan_result *result, struct err *err);

void blob_troubles_clear(struct map *troubles);

/* How much of a kind was looked at since the log began; until it was all, what has no row
 * may be there all the same. */
int blob_scanned_in(struct store_tx *tx, const char *type, enum event_scanned *scanned,
		    struct err *err);
int blob_set_scanned(struct store *store, const char *type, enum event_scanned scanned,
		     struct err *err);

#endif
