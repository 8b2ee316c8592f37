/*
 * The only way to change a row: an event moves it; see replicable/registry.h.
 */
#ifndef REPLICABLE_REGISTRY_MOVE_H
#define REPLICABLE_REGISTRY_MOVE_H

#include "replicable/registry_types.h"
#include "store/store.h"

enum registry_event {
	REGISTRY_ASKED,      /* a change was noticed, or a person asked. Without news (no
				new generation, timeline, checksum or wish) nothing
				changes: back-offs and holds stay */
	REGISTRY_BEGUN,      /* a worker has it */
	REGISTRY_REPORTED,   /* the primary's checksum of a generation became known. If
				that one is wanted, it is stored; and if it is here but
				not proved equal to it, it is verified now. Never causes a
				sync */
	REGISTRY_BROUGHT,    /* the copy has this generation, but was not verified. It
				will be now; for kinds other than repositories once the
				primary's checksum is known */
	REGISTRY_HELD,       /* needs a person's decision: held_reason. For a started or a
				gone row */
	REGISTRY_ERRED,      /* err */
	REGISTRY_ABSENT,     /* the primary does not have it */
	REGISTRY_DEFERRED,   /* not tried after all (lease held, node ends): due again at
				once or later, without counting a retry */
	REGISTRY_GONE,       /* the primary deleted it: remove the copy */
	REGISTRY_CHECKING,   /* a verification has begun */
	REGISTRY_PROVED,     /* recomputed and equal: checksum */
	REGISTRY_DISPROVED,  /* recomputed and different: err; the row fails, and is due
				again. If something newer was requested meanwhile, only
				the wish to rebuild is kept */
	REGISTRY_SUPERSEDED, /* neither proved nor disproved: it changed while it was
				verified, or could not be read; err, recorded if that
				kept it from being verified */
	REGISTRY_COMPLETED, /* BROUGHT and PROVED at once: a sync that ended by verifying.
			       Kinds other than repositories are not proved, but verified
			       at once, if the primary has reported another checksum
			       meanwhile */
	REGISTRY_ADOPTED,   /* the row is of this generation without having been brought,
			       since the checksum is the same. Takes over timeline,
			       generation, checksum and size. A conflict: the checksum
			       differs, or the row is not synced: ask for it */
	REGISTRY_REVERIFY,  /* a person asked: proofs no longer count, and copies are read
			       again at once; rows not synced are brought and completely
			       examined. Not for a gone row */
	REGISTRY_DOUBTED,   /* the copy may be damaged (err): the row is no longer synced,
			       the whole copy is examined in delay_ms, and a retry is not
			       counted. A started one is examined afterwards, a failed one
			       when it is due. With a generation: applies only to a synced
			       row of that generation */
	REGISTRY_EVENTS,
};

struct registry_move {
	uint64_t id;
	enum registry_event event;
	const char *claim_token; /* for a worker's moves: of its claim; BEGUN, CHECKING:
				    from now on; NULL: without claims, if only one
				    works */
	uint64_t generation;     /* ASKED: at least this is wanted, 0: the newest;
				    REPORTED: of this; BROUGHT, PROVED, DISPROVED: this is
				    here */
	const char *timeline;    /* ASKED, BROUGHT: the replicable's; one other than the
				    row's restarts its generations; REPORTED: likewise,
				    but another one is ignored; NULL: the row's */
	const char *checksum; /* PROVED: as computed; REPORTED: the primary's; ASKED, and
				 BROUGHT of kinds other than repositories: the primary's,
				 may be NULL */
	uint64_t size;        /* ASKED, BROUGHT, ADOPTED: in bytes; 0 for repositories */
	bool may_go_back;   /* ASKED: a generation below the wanted one is news, too, and
			       restarts the generations: the primary went back */
	int64_t changed_at; /* ASKED, GONE: when, by the primary's clock; 0: unknown */
	unsigned wishes;    /* ASKED, DISPROVED: enum registry_wish, kept until BROUGHT */
	const char *held_reason; /* HELD */
	const char *remedy;      /* HELD: what a person can do, may be NULL */
	const struct err *err;   /* ERRED, DISPROVED; ABSENT, DOUBTED, SUPERSEDED: may be
				    NULL */
	bool is_final;      /* ERRED, ABSENT: a retry cannot succeed, so it is not due
			       again until requested */
	int64_t delay_ms;   /* ASKED, BROUGHT: later changes are due in this time;
			       DOUBTED, and DISPROVED at first: due in */
	int64_t timeout_ms; /* BEGUN, CHECKING: how long the row is the worker's;
			       DEFERRED, SUPERSEDED: due in; ERRED: not before; PROVED:
			       the next verification is due in (0: never) */
};

/* Whether a verification that ended by it could not be carried out, so that people must
 * learn of it; not if others were at work, or it was interrupted. */
bool registry_is_hindrance(const struct err *err);

/* Moves one row. ERR_CONFLICT: the row is not in a state that allows it (it is not, or no
 * longer, this worker's, e.g. after its time ran out and another began; or BROUGHT or
 * PROVED, while a newer generation was requested: the result is recorded all the same,
 * and the row is pending and due at once); ERR_MISSING: row not found. */
int registry_move(struct store *store, const struct registry_move *move, struct err *err);

/* The same inside store_write(). Returns 1 for a conflict, so that it does not undo
 * others' work. */
int registry_move_in(struct store_tx *tx, const struct registry_move *move,
		     struct err *err);

/* Many in one transaction, in this order; counters are written only once, for speed. A
 * conflict or a missing row does not undo the others: see results[i]. 0, or -1: nothing
 * at all was written. */
enum registry_result {
	REGISTRY_MOVED,
	REGISTRY_CONFLICT,
	REGISTRY_LOST, /* a conflict: the worker's claim has ended */
	REGISTRY_NO_ROW
};
int registry_move_many(struct store *store, const struct registry_move *moves,
		       size_t count, enum registry_result *results, struct err *err);

/* Says why a row was not moved. Returns -1. */
int registry_move_fail(uint64_t id, enum registry_result result, struct err *err);

/* ASKED; adds the row if it is missing. move->id is not read. */
int registry_ask_in(struct store_tx *tx, const char *kind, const char *name,
		    const struct registry_move *move, struct err *err);

/* The same for many of one kind, fast. */
struct registry_ask {
	const char *name;
	struct registry_move move;
};
int registry_ask_many_in(struct store_tx *tx, const char *kind,
			 const struct registry_ask *asks, size_t count, struct err *err);

#endif
