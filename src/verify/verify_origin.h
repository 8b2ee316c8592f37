/*
 * Verification at the primary: rows whose verification is due are read again from disk,
 * their checksum recomputed (a difference becomes an event that hooks did not report),
 * and their objects checked for completeness; slowly, so that users do not notice. The
 * same threads read blobs for their checksums. A thread `verify-origin` finds due rows,
 * up to `capacity` threads `verify` work. A kind's verify_kind_ops reads it.
 */
#ifndef VERIFY_VERIFY_ORIGIN_H
#define VERIFY_VERIFY_ORIGIN_H

#include "base/base.h"
#include "change/blob_notice.h"
#include "change/notice.h"
#include "store/store.h"

struct verify_origin;

/* Rows of one kind that are read again as one unit of work. */
#define VERIFY_MOST 10
struct verify_batch {
	struct verify_origin *verify; /* for the kind's use */
	const struct origin_kind *kind;
	char *const *names;
	size_t count;
	const char *claim_token; /* of their rows; others are skipped */
	const struct stop *stop;
};

/* The operations of a kind. */
struct verify_kind_ops {
	size_t most; /* rows per unit of work; up to VERIFY_MOST */
	/* How many rows never read before are claimed at once, as quick work; if they
	 * cannot be judged, the whole kind waits. 0: each row is slow work by itself. */
	size_t new_most;
	/* Reads them again and records the results. False: they could not be judged;
	 * their rows are as due as before. */
	bool (*verify)(const struct verify_batch *batch);
};

extern const struct verify_kind_ops repository_verify_ops, blob_verify_ops;

struct verify_origin_options {
	struct store *store; /* borrowed */
	/* Copied. The first is that of repositories, if it is there: without it, doubts
	 * and looks do nothing. */
	const struct origin_kind *kinds;
	size_t kind_count;
	size_t capacity;     /* sync.verificationCapacity; 0: off */
	int64_t reverify_ms; /* sync.reverifyInterval */
	int64_t timeout_ms;  /* sync.timeout: for one repository, or one place from which
			      * repositories borrow */
	/* Wakes it when something has become due; borrowed; NULL: nothing does. */
	struct notice *notice;
};

struct verify_origin *verify_origin_start(const struct verify_origin_options *options);

/* Cancels running work, which begins anew after the next start. From then on doubts are
 * only recorded in the rows. NULL is allowed, as for free. */
void verify_origin_stop(struct verify_origin *verify);
void verify_origin_free(struct verify_origin *verify);
void verify_origin_set(struct verify_origin *verify, size_t capacity, int64_t reverify_ms,
		       int64_t timeout_ms);

/* Rows have become due: check now. */
void verify_origin_wake(struct verify_origin *verify);

/* A reader failed on a repository. If *why may be damage, its row is no longer verified
 * from now on, and its verification precedes all others. REASON_LOST_OBJECT is certain
 * damage: then its verification has failed. Other errors might be caused by clients:
 * after it was found intact three times, further reports count only after a delay, longer
 * each time. Any thread. */
void verify_origin_doubt(struct verify_origin *verify, const char *name,
			 const struct err *why);

/* A writer failed on it, for any reason: examines it soon, and doubts it if that finds
 * something. Any thread. */
void verify_origin_look(struct verify_origin *verify, const char *name);

/* A quick check: whether the objects of up to sixteen of its refs exist. ERR_CORRUPT: no
 * (REASON_LOST_OBJECT), or it is no longer a repository. Very cheap if they are
 * packed. */
int verify_origin_glance(const char *root, const char *path, const struct stop *stop,
			 struct err *err);

struct verify_glances {
	uint64_t looked, broken;
	char *example; /* owned; NULL: all are intact */
	struct err why;
	uint64_t unseen;      /* that could not be looked at */
	char *unseen_example; /* owned; or NULL */
	struct err unseen_why;
};

/* The same for all repositories; broken ones become failed. */
int verify_origin_glance_all(struct store *store, const char *root,
			     struct verify_glances *glances, struct err *err);

/* Marks a repository as due now. ERR_MISSING. `at_least_ms`: refuses (ERR_BUSY) if it was
 * verified less than that ago. */
int verify_origin_ask_kind(struct store *store, const char *kind, const char *name,
			   int64_t at_least_ms, struct err *err);

#endif
