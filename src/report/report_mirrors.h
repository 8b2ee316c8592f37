/*
 * What a report says of mirrors and of their lists (report/report_mirrors.c).
 */
#ifndef REPORT_REPORT_MIRRORS_H
#define REPORT_REPORT_MIRRORS_H

#include "base/base.h"

/* Mirrors of upstreams, as configured at the node's last start. */
struct report_mirrors {
	int64_t all, synced, failing, held, stale; /* stale: not found equal in time */
	char *example, *why, *remedy; /* of one that fails, or is held; owned, or NULL */
	int64_t failing_since; /* the oldest change that one that fails lacks, wall ms;
				  0: not known */
	/* Working trees that are not as they should be. */
	int64_t checkouts_failing, checkouts_failing_since;
	char *checkout, *checkout_why, *checkout_remedy; /* of one; owned, or NULL */
	/* Lists of upstreams; stale: not read in time. */
	int64_t lists, lists_failing, lists_stale;
	char *list, *list_why, *list_remedy; /* of one of those; owned, or NULL */
};

#endif
