/*
 * Deletions that followed the primary: a copy goes to the trash, its row goes; above the
 * brake nothing goes without a person's word.
 */
#ifndef PULL_REMOVAL_H
#define PULL_REMOVAL_H

#include "base/base.h"
#include "pull/pull.h"

/* Whether rows that are gone may be removed now: if all that are gone, and those removed
 * in the last hour, are more than the brake lets pass, they are held (held_reason, told
 * in the log once) and *may is false. */
int removal_may(struct store *store, double share, bool *may, struct err *err);

struct removal_request {
	struct store *store;
	struct lease_manager *leases;
	const char *root;
	const char *kind, *name;
	int64_t wait_ms; /* for the lease */
	const struct stop *stop;
};

/* Under the lease: the copy into the trash, then the row out. A copy that is not there is
 * fine. For the scheduler's jobs and `repository remove`. */
int removal_run(const struct removal_request *request, struct err *err);

#endif
