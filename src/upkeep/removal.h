/*
 * Deletions that followed the primary: a copy goes to the trash, its row goes; above the
 * brake nothing goes without a person's word.
 */
#ifndef UPKEEP_REMOVAL_H
#define UPKEEP_REMOVAL_H

#include "base/base.h"
#include "base/thread.h"
#include "lease/lease.h"
#include "store/store.h"

/* Whether rows of a kind that are gone may be removed now. If all that are gone, and
 * those removed in the last hour, are more than `share` of all (0.05: five per cent) and
 * more than `more_than`, those that are gone are held (held_reason and remedy; told in
 * the log once) and *may is false. */
struct removal_limit {
	const char *kind;
	double share;
	size_t more_than;
};
int removal_may(struct store *store, const struct removal_limit *deletion_limit,
		bool *may, struct err *err);

/* So many rows of a kind were removed because the primary has them no more: for the
 * brake. In the transaction that removes them. */
int removal_note(struct store_tx *tx, const char *kind, int64_t count, struct err *err);

struct removal_request {
	struct store *store;
	struct lease_manager *leases;
	const char *root;
	const char *kind, *name;
	int64_t wait_ms; /* for the lease */
	const struct stop *stop;
	bool is_ordered; /* by a person: it does not count for the deletion limit */
};

/* Under the lease: the copy into the trash, then the row out. A copy or a row that is not
 * there is fine. ERR_CONFLICT: the row is not gone (any more); if the copy had gone to
 * the trash by then, the row is pending as one of which nothing is here. Others as
 * job_run(). For the scheduler's jobs and `repository remove`. */
int removal_run(const struct removal_request *request, struct err *err);

#endif
