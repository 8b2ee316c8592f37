/*
 * The report's part on mirrors and their lists (report/report_mirrors.c).
 */
#ifndef REPORT_REPORT_MIRRORS_H
#define REPORT_REPORT_MIRRORS_H

#include "base/json.h"
#include "mirror/lfs_lack.h"
#include "replicable/registry.h"

struct report_mirror_example {
	char *name, *why, *remedy; /* owned, or NULL */
};

/* Mirrors of upstreams, as configured at the node's last start. */
struct report_mirrors {
	int64_t all, synced, failing, held, stale; /* stale: not found equal in time */
	struct report_mirror_example any, one_failing, one_held; /* any: one of both */
	int64_t failing_since; /* the oldest change that a failing one lacks, wall ms; 0:
				  unknown */
	/* Failing working trees. */
	int64_t checkouts_failing, checkouts_failing_since;
	char *checkout, *checkout_why, *checkout_remedy; /* of one of them; owned, or
							    NULL */
	/* Lists of upstreams; stale: not read in time. */
	int64_t lists, lists_failing, lists_stale;
	char *list, *list_why, *list_remedy; /* of one of those; owned, or NULL */
};

/* When one was last found equal to its upstream, by a poll or a job; 0: never. A time
 * that lies ahead, as another clock wrote it, counts only if both do. */
int64_t report_mirror_equal_at(int64_t now, int64_t checked_at, int64_t synced_at);

/* Whether its refs are here, and objects of LFS are not; not if the row itself has a
 * reason to be something else than up to date. */
bool report_mirror_is_lacking(const struct registry_row *row,
			      const struct lfs_lack *lack);

/* Of such a mirror as a whole, which is not what its refs are: "failed", or "pending". */
const char *report_mirror_lacking_state(const struct lfs_lack *lack);

/* Puts that into the JSON of its row, with the word and the failure. */
void report_mirror_put_lacking(const struct lfs_lack *lack, json_t *object);

#endif
