/*
 * Shared by the files of report/: kinds of blobs, failures, destinations.
 */
#ifndef REPORT_REPORT_BLOBS_H
#define REPORT_REPORT_BLOBS_H

#include "report/report.h"

/* Appends ": WHY (REMEDY)"; nothing without an error. */
void report_add_reason(const struct err *err, struct str *out);

/* Appends how long scans have been failing, and why. */
void report_cannot_scan(const struct report *report, const struct scan_record *scan,
			struct str *out);

/* Fills report->blobs. */
int report_blobs_of_origin(const struct report_options *options, struct report *report,
			   struct err *err);
int report_blobs_of_copies(const struct report_options *options, struct report *report,
			   struct err *err);
void report_blobs_clear(struct report *report);

/* All of these append nothing without blobs. For the sentence: ", 12 blobs (3.4 GB)" for
 * each kind; blobs to be copied, or verified; failing, missing or held ones. */
void report_blobs_count(const struct report *report, struct str *out);
void report_blobs_work(const struct report *report, struct str *out);
void report_blobs_troubles(const struct report *report, struct str *out);

/* A line per kind, below the table of repositories. */
void report_blobs_table(const struct report *report, struct str *out);

/* Whether a secondary says that it does not copy a kind of which there are blobs here. */
bool report_lacks_kind(const struct report *report, const struct report_secondary *one);

/* Appends these: "3 blobs of kind lfs, 1 blob of kind uploads". */
void report_blobs_not_copied(const struct report *report,
			     const struct report_secondary *one, struct str *out);

/*
 * Objects of Git LFS that repositories name and that are not here, as last counted by
 * `lfs-names` (verify/lfs_names.h). Internal to report/, except report_lfs_put().
 */

int report_lfs_read(const struct report_options *options, struct report *report,
		    struct err *err);

/* For the sentence: appends nothing, or "; 2 repositories name LFS objects ...". */
void report_lfs_sentence(const struct report *report, struct str *out);

/* An array. The caller owns it. */
json_t *report_lfs_json(const struct report *report);

/* Sets the member "lfs" of a repository's row: {"named", "absent"}; null: it does not
 * name any, or was not scanned yet. */
int report_lfs_put(struct store *store, const char *name, json_t *object,
		   struct err *err);

/*
 * Failing rows, by error class, and examples for the sentence.
 */

/* For a kind of replicables; *examples is cleared first. Does not read rows unless some
 * fail. */
int report_examples_of_origin(struct store *store, const char *kind,
			      const struct registry_counts *counts,
			      struct report_examples *examples, struct err *err);
int report_examples_of_copies(struct store *store, const char *kind,
			      const struct registry_counts *counts,
			      struct report_examples *examples, struct err *err);
void report_examples_clear(struct report_examples *examples);

/* Appends a held one, how to see the rest, by `list`, and what to do. */
void report_held_say(const struct report_examples *examples, const char *list,
		     struct str *out);

/* Appends the example of a single class, or each class with its number and its
 * example. */
void report_failures_say(const struct report_examples *examples, struct str *out);

/* Of all classes, at a secondary; with those that are here, but cannot be verified. */
int64_t report_failing_copies(const struct registry_counts *counts,
			      const struct report_examples *examples);

/* Those that are here, but cannot be verified; of all kinds. */
int report_count_unverifiable(struct store *store, int64_t *count, struct err *err);

json_t *report_failures_json(const struct report_examples *examples);

/* Sets refrelay_failing{kind,class}, also for classes without failures now. */
void report_failures_metrics(const char *kind, const struct report_examples *examples);

/*
 * Destinations in the report.
 */

/* Reads the cluster's queue, by remotes. If it cannot be read that is reported. */
int report_push_read(const struct report_options *options, struct report *report,
		     struct err *err);
void report_push_clear(struct report *report);

/* True if nothing waits, fails, was given up or set aside. */
bool report_push_is_good(const struct report_push *push);

/* Its part of the sentence; nothing if all is well. */
void report_push_sentence(const struct report *report, struct str *out);
void report_push_table(const struct report *report, struct str *out);
void report_push_json(const struct report *report, json_t *object);
void report_push_metrics(const struct report *report);

#endif
