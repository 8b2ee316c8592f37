/*
 * Deletions that follow the primary: moves a copy to the trash and removes its row; above
 * the brake only with a person's approval.
 */
#ifndef UPKEEP_REMOVAL_H
#define UPKEEP_REMOVAL_H

#include "base/base.h"
#include "base/thread.h"
#include "lease/lease.h"
#include "replicable/registry_types.h"
#include "store/store.h"

/* Whether rows of a kind that are gone may be removed now. If all gone rows, with those
 * removed in the last hour, are more than `share` of all (0.05: five percent) and more
 * than `more_than`, the gone ones are held (held_reason and remedy; logged once) and *may
 * is false. */
struct removal_limit {
	const char *kind;
	int root; /* the directory of its copies, or -1: not there. A repository without a
		     copy there is no deletion; blobs are too many to look for each */
	double share;
	size_t more_than;
};
int removal_may(struct store *store, const struct removal_limit *deletion_limit,
		bool *may, struct err *err);

/* For sure: then its row may go, whatever the limit says. root: as above. */
bool removal_has_no_copy(int root, const struct registry_row *row);

/* Holds a row that is gone, whatever the limit says; and how many were held, for the
 * log. */
int removal_hold_in(struct store_tx *tx, const struct registry_row *row,
		    const char *reason, struct err *err);
void removal_report_held(const char *kind, int64_t held);

/* Copies of one kind whose rows are gone: each is discarded, then their rows are removed
 * in one transaction, which counts them for the limit. Leases must be held until then. A
 * missing copy or row is fine. */
struct removal_copy {
	const char *name;
	const char *claim_token; /* the row must still have this claim; NULL: any */
	struct err why;   /* ERR_NONE: removed. REASON_WANTED: the row is not gone (any
			     more); if the copy was already discarded, the row is pending as
			     if never copied. ERR_LOST: the claim has ended. Else the error
			     of `discard`. */
	bool is_wanted;   /* set when the rows are removed */
	bool was_missing; /* nothing was discarded: it does not count for the limit */
	bool was_never_equal; /* set before `discard`, from the row */
	bool was_marked;      /* set before `discard`: by takes_wanted */
	void *own;            /* the caller's */
};
struct removal_batch {
	struct store *store;
	const char *kind;
	struct removal_copy *copies;
	size_t count;
	bool is_ordered;   /* requested by a person: not counted for the deletion limit */
	bool takes_wanted; /* also rows that are not gone: they are marked so first, and
			      are wanted again if their copy cannot be discarded */
	int (*discard)(void *arg, const struct removal_copy *copy, struct err *err);
	void *arg;
};

/* -1: the database failed; the rows are unchanged. */
int removal_run_batch(const struct removal_batch *removal, struct err *err);

/* The same for one repository, under its lease. A mirror's clone that was never equal to
 * its upstream, or is no longer what that had, stays where it is, unless a person
 * requested it. Errors are the copy's `why`; others as job_run(). For the scheduler's
 * jobs and `repository remove`. */
struct removal_request {
	struct store *store;
	struct lease_manager *leases;
	const char *root;
	const char *kind, *name;
	const char *job; /* its id, lease_job_new(); NULL: a new one */
	int64_t wait_ms; /* for the lease */
	const struct stop *stop;
	bool is_ordered;   /* requested by a person: not counted for the deletion limit */
	bool takes_wanted; /* as above */
	/* Whether that clone of a mirror has been brought from elsewhere since: 1, 0, or
	 * -1: the row stays. NULL: it has not. */
	int (*is_from_elsewhere)(const struct registry_row *row, int clone,
				 struct err *err);
	const struct registry_row *row; /* for it */
};

int removal_run(const struct removal_request *request, struct err *err);

#endif
