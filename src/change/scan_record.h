/*
 * How the primary's scans fare, kept in a site value for `status`, which is another
 * process. Any thread.
 */
#ifndef CHANGE_SCAN_RECORD_H
#define CHANGE_SCAN_RECORD_H

#include "base/base.h"
#include "change/hook_install.h"
#include "store/store.h"

#define SCAN_EXAMPLE_SIZE 1024

struct scan_record {
	int64_t whole_at;      /* when all was last looked at, nothing hidden; wall ms */
	int64_t failing_since; /* wall ms; 0: the last scan did not fail */
	struct err failure;
	int64_t left_out;                /* below the root, by the last scan */
	char example[SCAN_EXAMPLE_SIZE]; /* one of them, and why */
	bool has_hooks;                  /* hooks were looked at: */
	struct hook_counts hooks;        /* of repositories, by the last scan */
};

/* What a scan found out. Its whole_at 0 means no whole scan: then the one before counts;
 * of failures in a row, the first's time stays. A failed one knows nothing of what is
 * left out. */
int scan_record_keep(struct store *store, const struct scan_record *now, struct err *err);

/* Zeros if there is none. Inside store_read(). */
int scan_record_read(struct store_tx *tx, struct scan_record *record, struct err *err);

/* The same of a kind of blobs. */
int scan_record_keep_blobs(struct store *store, const char *type,
			   const struct scan_record *now, struct err *err);
int scan_record_read_blobs(struct store_tx *tx, const char *type,
			   struct scan_record *record, struct err *err);

#endif
