/*
 * Objects of Git LFS that repositories name and that are not here: what `lfs-names`
 * (verify/lfs_names.h) counted last. Internal to report/, but for report_lfs_put.
 */
#ifndef REPORT_REPORT_LFS_H
#define REPORT_REPORT_LFS_H

#include "report/report.h"

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
