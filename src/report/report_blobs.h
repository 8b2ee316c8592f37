/*
 * What the files of report/ share about kinds of blobs.
 */
#ifndef REPORT_REPORT_BLOBS_H
#define REPORT_REPORT_BLOBS_H

#include "report/report.h"
#include "report/report_failures.h"

/* Fills report->blobs. */
int report_blobs_of_origin(const struct report_options *options, struct report *report,
			   struct err *err);
int report_blobs_of_copies(const struct report_options *options, struct report *report,
			   struct err *err);
void report_blobs_clear(struct report *report);

/* All of it is silent where there are no blobs. Of the sentence: ", 12 blobs (3.4 GB)"
 * of each kind; what is to be copied, or verified; which fail, are missing or held. */
void report_blobs_count(const struct report *report, struct str *out);
void report_blobs_work(const struct report *report, struct str *out);
void report_blobs_troubles(const struct report *report, struct str *out);

/* A line a kind, under the table of repositories. */
void report_blobs_table(const struct report *report, struct str *out);

/*
 * Objects of Git LFS that repositories name and that are not here: what `lfs-names`
 * (verify/lfs_names.h) counted last. Internal to report/, but for report_lfs_put.
 */

int report_lfs_read(const struct report_options *options, struct report *report,
		    struct err *err);

/* For the sentence: nothing, or "; 2 repositories name LFS objects ...". */
void report_lfs_sentence(const struct report *report, struct str *out);

/* An array. The caller owns it. */
json_t *report_lfs_json(const struct report *report);

/* Sets the member "lfs" of a repository's row: {"named", "absent"}; null: it names none,
 * or was not looked through yet. */
int report_lfs_put(struct store *store, const char *name, json_t *object,
		   struct err *err);

#endif
