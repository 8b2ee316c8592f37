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

/* Copies of one kind whose rows are gone: each is discarded, then their rows go in one
 * transaction, which counts them for the limit. What is under a lease stays so until
 * then. A copy or a row that is not there is fine. */
struct removal_copy {
	const char *name;
	const char *claim_token; /* the row is to be of this claim still; NULL: of any */
	struct err why; /* ERR_NONE: it is away. ERR_CONFLICT: the row is not gone (any
			 * more); if the copy was discarded by then, the row is pending
			 * as one of which nothing is here. ERR_LOST: the claim is
			 * over. Else as `discard` says. */
	bool is_wanted; /* when the rows went */
	void *own;      /* the caller's */
};
struct removal_batch {
	struct store *store;
	const char *kind;
	struct removal_copy *copies;
	size_t count;
	bool is_ordered; /* by a person: it does not count for the deletion limit */
	int (*discard)(void *arg, const struct removal_copy *copy, struct err *err);
	void *arg;
};

/* -1: the database failed; the rows are as they were. */
int removal_run_batch(const struct removal_batch *removal, struct err *err);

/* The same of one repository, under its lease. Errors are the copy's `why`; others as
 * job_run(). For the scheduler's jobs and `repository remove`. */
struct removal_request {
	struct store *store;
	struct lease_manager *leases;
	const char *root;
	const char *kind, *name;
	const char *job; /* its id, lease_job_new(); NULL: a new one */
	int64_t wait_ms; /* for the lease */
	const struct stop *stop;
	bool is_ordered; /* by a person: it does not count for the deletion limit */
};

int removal_run(const struct removal_request *request, struct err *err);

#endif
