/*
 * The one way in which a row changes: an event moves it; see replicable/registry.h.
 */
#ifndef REPLICABLE_REGISTRY_MOVE_H
#define REPLICABLE_REGISTRY_MOVE_H

#include "replicable/registry_types.h"
#include "store/store.h"

enum registry_event {
	REGISTRY_ASKED,      /* a change was noticed, or a person asked. What is known
				already (no new generation, timeline, checksum or wish)
				changes nothing: no back-off is cut short, nothing held is
				let go */
	REGISTRY_BEGUN,      /* a worker has it */
	REGISTRY_REPORTED,   /* the primary's checksum of a generation became known. If
			    that one is wanted, it is kept; and if it is here and not
			    proved to be just that, it is verified now. Never brings
			    anything */
	REGISTRY_BROUGHT,    /* the copy has this generation, but was not verified. It
				will be now; of other kinds than repositories when the
				primary's checksum is known */
	REGISTRY_HELD,       /* a person must decide: held_reason. Of a started row, or of
				one that is gone */
	REGISTRY_ERRED,      /* err */
	REGISTRY_ABSENT,     /* the primary has no such thing */
	REGISTRY_DEFERRED,   /* not tried after all (lease held, node ends): due again at
				once or later, no retry is counted */
	REGISTRY_GONE,       /* the primary deleted it: the copy is to go */
	REGISTRY_CHECKING,   /* a verification has begun */
	REGISTRY_PROVED,     /* recomputed and equal: checksum */
	REGISTRY_DISPROVED,  /* recomputed and different: err; the row fails, and is due
				again. If something newer was asked for meanwhile, only
				the wish to rebuild is kept */
	REGISTRY_SUPERSEDED, /* it changed while it was verified: neither proved nor
				disproved */
	REGISTRY_REVERIFY, /* a person asked: what was proved is so no longer, and is read
			      again at once; what is not synced is brought, and all
			      of it is looked through. Not of a row that is gone */
	REGISTRY_DOUBTED,  /* something of the copy was met that may be damage (err): the
			      row is not synced any more, all of the copy is looked
			      through in delay_ms, and no retry is counted. One that is
			      started is looked through after; one that failed when it
			      is due. With a generation only a row that is synced and of
			      that one: another was not what was met */
	REGISTRY_EVENTS,
};

struct registry_move {
	uint64_t id;
	enum registry_event event;
	const char *claim_token; /* a worker's words: of its claim; BEGUN, CHECKING: from
				    now on; NULL: none, as where nobody else works */
	uint64_t generation;     /* ASKED: at least this is wanted, 0: whatever there is;
				    TOLD: of this; BROUGHT, PROVED, DISPROVED: this is
				    here */
	const char *timeline; /* ASKED, BROUGHT: the replicable's; another than the row's
				 makes its generations begin anew; TOLD: likewise, but
				 another is not wanted; NULL: as the row's */
	const char *checksum; /* PROVED: as computed; TOLD: the primary's; ASKED, and
				 BROUGHT of other kinds than repositories: the primary's,
				 may be NULL */
	uint64_t size;        /* ASKED, BROUGHT, adopted: in bytes; 0 for repositories */
	int64_t changed_at;   /* ASKED, GONE: when, by the primary's clock; 0: unknown */
	unsigned wishes; /* ASKED, DISPROVED: enum registry_wish, kept until BROUGHT */
	const char *held_reason; /* HELD */
	const char *remedy;      /* HELD: what a person can do, may be NULL */
	const struct err *err;   /* ERRED, DISPROVED; ABSENT, DOUBTED: may be NULL */
	bool is_final;      /* ERRED, ABSENT: no further try would end otherwise, so it is
			       not due again before it is asked for */
	int64_t delay_ms;   /* ASKED, BROUGHT: what changed since is due in so much;
			       DOUBTED, and DISPROVED at first: due in */
	int64_t timeout_ms; /* BEGUN, CHECKING: for how long the row is the worker's;
			       DEFERRED, SUPERSEDED: due in; ERRED: not before; PROVED:
			       the next      verification is due in (0: never) */
};

/* Moves one row. ERR_CONFLICT: the row is not in a state that allows it (it is not, or no
 * longer, this worker's, as when its time was over and another began; or BROUGHT or
 * PROVED, and a newer generation was asked for meanwhile: what was brought is recorded
 * all the same, and the row is pending and due at once); ERR_MISSING: no such row. */
int registry_move(struct store *store, const struct registry_move *move, struct err *err);

/* The same inside store_write(). A conflict is 1 here, so that it does not undo others'
 * work. */
int registry_move_in(struct store_tx *tx, const struct registry_move *move,
		     struct err *err);

/* BROUGHT and PROVED in one commit: a sync that ended by verifying. Other kinds than
 * repositories are not proved, and verified at once, if the primary has told another
 * checksum meanwhile. */
int registry_complete(struct store *store, const struct registry_move *brought,
		      struct err *err);
int registry_complete_in(struct store_tx *tx, const struct registry_move *brought,
			 struct err *err); /* a conflict is 1 */

/* Many in one transaction, in this order; for speed counters are written once. A conflict
 * or a missing row undoes nothing of the others: results[i] says it. 0, or -1: nothing at
 * all was written. */
enum registry_result {
	REGISTRY_MOVED,
	REGISTRY_CONFLICT,
	REGISTRY_LOST, /* a conflict: the worker's claim is over */
	REGISTRY_NO_ROW
};
int registry_move_many(struct store *store, const struct registry_move *moves,
		       size_t count, enum registry_result *results, struct err *err);
int registry_move_many_in(struct store_tx *tx, const struct registry_move *moves,
			  size_t count, enum registry_result *results, struct err *err);

/* registry_complete() of many, likewise. */
int registry_complete_many(struct store *store, const struct registry_move *brought,
			   size_t count, enum registry_result *results, struct err *err);

/* ASKED, adding the row if there is none. move->id is not read. */
int registry_ask_in(struct store_tx *tx, const char *kind, const char *name,
		    const struct registry_move *move, struct err *err);

/* The same of many of one kind, fast. */
struct registry_ask {
	const char *name;
	struct registry_move move;
};
int registry_ask_many_in(struct store_tx *tx, const char *kind,
			 const struct registry_ask *asks, size_t count, struct err *err);

/* The row is known to be of this generation without having been brought: the checksum is
 * the same. Timeline, generation, checksum and size are taken over. 1: it is not, or not
 * synced: ask for it. */
int registry_adopt_in(struct store_tx *tx, const struct registry_move *move,
		      struct err *err);

#endif
