/*
 * Verification at the primary: rows whose verification is due are read again from disk,
 * their checksum recomputed (a difference is an event that no hook told), and their
 * objects checked for completeness; slowly, so that nobody feels it. Blobs are read for
 * their checksums by the same threads. A thread `verify-origin` looks what is due, as
 * many as `capacity` threads `verify` work. How a kind is read is its verify_kind_ops.
 */
#ifndef VERIFY_VERIFY_ORIGIN_H
#define VERIFY_VERIFY_ORIGIN_H

#include "base/base.h"
#include "change/blob_notice.h"
#include "change/notice.h"
#include "store/store.h"

struct verify_origin;

/* Rows of one kind that are read again as one piece of work. */
#define VERIFY_MOST 10
struct verify_batch {
	struct verify_origin *verify; /* as far as the kind needs it */
	const struct origin_kind *kind;
	char *const *names;
	size_t count;
	const char *claim_token; /* of their rows; others are left alone */
	const struct stop *stop;
};

/* What a kind offers to it. */
struct verify_kind_ops {
	size_t most; /* rows of a piece of work; up to VERIFY_MOST */
	/* So many that were never read are claimed at once, and are quick work; if
	 * nothing can be judged, the whole kind waits. 0: each row is slow work by
	 * itself. */
	size_t new_most;
	/* Looks at them, reads them again and writes what came of it. False: nothing
	 * could be judged; what has a row is as due as before. */
	bool (*verify)(const struct verify_batch *batch);
};

extern const struct verify_kind_ops repository_verify_ops, blob_verify_ops;

struct verify_origin_options {
	struct store *store;             /* borrowed */
	const struct origin_kind *kinds; /* copied; the first is that of repositories */
	size_t kind_count;
	size_t capacity;     /* sync.verificationCapacity; 0: none */
	int64_t reverify_ms; /* sync.reverifyInterval */
};

struct verify_origin *verify_origin_start(const struct verify_origin_options *options);

/* What runs is canceled, and begun anew after the next start. From then on doubts are
 * noted in the rows only. NULL is allowed, as for free. */
void verify_origin_stop(struct verify_origin *verify);
void verify_origin_free(struct verify_origin *verify);
void verify_origin_set(struct verify_origin *verify, size_t capacity,
		       int64_t reverify_ms);

/* Rows have become due: look now. */
void verify_origin_wake(struct verify_origin *verify);

/* Somebody failed to read a repository. If *why may be damage, its row is not verified
 * any more from now on, and its verification goes before all others. REASON_LOST_OBJECT
 * is damage for sure: then it has failed. All else a client might bring about: if it was
 * found whole three times, the next words count only after a while, longer each time.
 * Any thread. */
void verify_origin_doubt(struct verify_origin *verify, const char *name,
			 const struct err *why);

/* Somebody who writes to it failed, for whatever reason: a look at it, soon, and a doubt
 * if that finds something. Any thread. */
void verify_origin_look(struct verify_origin *verify, const char *name);

/* A look: whether the objects of its refs are there, of up to sixteen of them.
 * ERR_CORRUPT: not (REASON_LOST_OBJECT), or it is no repository any more. Costs next to
 * nothing where they are packed. */
int verify_origin_glance(const char *root, const char *path, const struct stop *stop,
			 struct err *err);

struct verify_glances {
	uint64_t looked, broken;
	char *example; /* owned; NULL: none */
	struct err why;
};

/* The same of all repositories; what is broken has failed. */
int verify_origin_glance_all(struct store *store, const char *root,
			     struct verify_glances *glances, struct err *err);

/* Marks a repository as due now. ERR_MISSING. `at_least_ms`: refuse (ERR_BUSY) when it
 * was verified less than that ago. */
int verify_origin_ask(struct store *store, const char *name, int64_t at_least_ms,
		      struct err *err);

/* The same of any kind. */
int verify_origin_ask_kind(struct store *store, const char *kind, const char *name,
			   int64_t at_least_ms, struct err *err);

#endif
