/*
 * The registry: a row for each replicable that says what state its copy is in, when it
 * is due again, and what went wrong. All changes of state go through registry_move.
 *
 * States and transitions are Geo's, without a row that stays `started` for ever: a row
 * that is started has due_at in the future, when it is anybody's again.
 *
 *	pending  <- any			something is to be brought
 *	started  <- pending, synced, failed, started whose time has passed
 *	synced   <- started, and only if nothing newer was asked for meanwhile
 *	failed   <- started		retry_at by base/retry.h
 *	missing_on_primary <- started
 *
 * Source: seeds 000 and 002.
 */
#ifndef REPLICABLE_REGISTRY_H
#define REPLICABLE_REGISTRY_H

#include "base/base.h"
#include "base/vec.h"
#include "store/store.h"

enum registry_state {
	REGISTRY_PENDING,
	REGISTRY_STARTED,
	REGISTRY_SYNCED,
	REGISTRY_FAILED,
	REGISTRY_MISSING_ON_PRIMARY,
	REGISTRY_STATES,
};

enum registry_verification {
	VERIFICATION_PENDING,
	VERIFICATION_STARTED,
	VERIFICATION_SUCCEEDED,
	VERIFICATION_FAILED,
	VERIFICATION_DISABLED,
	VERIFICATION_STATES,
};

/* The names that users see. Static. */
const char *registry_state_name(enum registry_state state);
const char *registry_verification_name(enum registry_verification state);

enum registry_event {
	REGISTRY_ASKED,      /* a change was noticed, or a person asked */
	REGISTRY_BEGUN,      /* a worker has it */
	REGISTRY_BROUGHT,    /* the copy has this generation, but was not verified */
	REGISTRY_HELD,       /* a person must decide: held_reason */
	REGISTRY_ERRED,      /* err */
	REGISTRY_ABSENT,     /* the primary has no such thing */
	REGISTRY_DEFERRED,   /* not tried after all (lease held, node ends): due again at
				once or later,   no retry is counted */
	REGISTRY_GONE,       /* the primary deleted it: the copy is to go */
	REGISTRY_CHECKING,   /* a verification has begun */
	REGISTRY_PROVED,     /* recomputed and equal: checksum */
	REGISTRY_DISPROVED,  /* recomputed and different: err; the row fails, and is due
				again */
	REGISTRY_SUPERSEDED, /* it changed while it was verified: neither proved nor
				disproved */
};

/* What a person's word adds to ASKED. */
enum registry_wish {
	REGISTRY_WISH_FORCE = 1, /* do what would be held */
	REGISTRY_WISH_REBUILD =
		2, /* a new copy from nothing; the old one goes to the trash */
	REGISTRY_WISH_RECHECK = 4, /* trust no record: compare and verify everything */
};

struct registry_move {
	uint64_t id;
	enum registry_event event;
	uint64_t generation;  /* ASKED: at least this is wanted; BROUGHT, PROVED: this is
				 here */
	const char *timeline; /* ASKED, BROUGHT: the replicable's; another than the row's
				 makes its generations begin anew; NULL: as the row's */
	const char *checksum; /* PROVED; ASKED: the primary's, may be NULL */
	int64_t changed_at;   /* ASKED, GONE: when, by the primary's clock; 0: unknown */
	unsigned wishes;      /* ASKED: enum registry_wish, kept until BROUGHT */
	const char *held_reason; /* HELD */
	const struct err *err;   /* ERRED, DISPROVED */
	int64_t timeout_ms;      /* BEGUN, CHECKING: for how long the row is the worker's;
				    DEFERRED: due in;      PROVED: the next verification is due in
				    (0: never) */
};

struct registry_row {
	uint64_t id;
	char *name; /* owned */
	enum registry_state state;
	enum registry_verification verification;
	char timeline[17];
	uint64_t generation_wanted, generation;
	char *checksum;         /* of the copy, as verified last; owned, may be NULL */
	char *primary_checksum; /* of generation_wanted, as told; owned, may be NULL */
	int64_t retry_count, verification_retry_count;
	int64_t retry_at; /* wall ms, 0: none; so are those below */
	int64_t due_at, verification_due_at;
	int64_t last_attempt_at, last_success_at, verified_at;
	int64_t behind_since; /* oldest change that is not here, by the primary's clock;
				 0: none */
	bool is_gone;         /* the primary deleted it */
	unsigned wishes;
	char *held_reason, *failure_class, *failure, *remedy; /* owned, may be NULL */
};

typedef VEC(struct registry_row) registry_rows;
#define AUTO_REGISTRY_ROW __attribute__((cleanup(registry_row_clear)))
#define AUTO_REGISTRY_ROWS __attribute__((cleanup(registry_rows_clear)))

/* Adds rows for these names, pending; those that are there stay as they are. */
int registry_add(struct store *store, const char *kind, const char *const *names,
		 size_t count, struct err *err);

/* Moves one row. ERR_CONFLICT: the row is not in a state that allows it (started by
 * another worker; or BROUGHT or PROVED, and a newer generation was asked for meanwhile:
 * what was brought is recorded all the same, and the row is pending and due at once);
 * ERR_MISSING: no such row. */
int registry_move(struct store *store, const struct registry_move *move, struct err *err);

/* The same inside store_write(). A conflict is 1 here, so that it does not undo others'
 * work. */
int registry_move_in(struct store_tx *tx, const struct registry_move *move,
		     struct err *err);

/* BROUGHT and PROVED in one commit: a sync that ended by verifying. */
int registry_complete(struct store *store, const struct registry_move *brought,
		      struct err *err);

/* ASKED, adding the row if there is none. */
int registry_ask_in(struct store_tx *tx, const char *kind, const char *name,
		    const struct registry_move *move, struct err *err);

/* The row is known to be of this generation without having been brought: the checksum is
 * the same. Timeline, generation and checksum are taken over. */
int registry_adopt_in(struct store_tx *tx, const struct registry_move *move,
		      struct err *err);

/* Removes the row: its copy is gone. */
int registry_remove(struct store *store, uint64_t id, struct err *err);

/* Takes up to `limit` due rows and marks them started (BEGUN) in one transaction. Of
 * those due: never attempted first, but a quarter each is kept for changed ones and for
 * failed ones, as long as there are such; oldest due first in each. */
int registry_claim(struct store *store, const char *kind, size_t limit,
		   int64_t timeout_ms, registry_rows *rows, struct err *err);

/* The same for verification: synced rows whose verification is due. */
int registry_claim_verification(struct store *store, const char *kind, size_t limit,
				int64_t timeout_ms, registry_rows *rows, struct err *err);

/* When the next row is due, wall ms; INT64_MAX: none. */
int registry_next_due(struct store *store, int64_t *sync_at, int64_t *verification_at,
		      struct err *err);

/* After a crash of this site's only node: what was started is nobody's. */
int registry_reset_started(struct store *store, struct err *err);

/* Reads a row; the caller clears it. ERR_MISSING: there is none. */
int registry_get(struct store *store, const char *kind, const char *name,
		 struct registry_row *row, struct err *err);
int registry_get_in(struct store_tx *tx, const char *kind, const char *name,
		    struct registry_row *row, struct err *err); /* 1, 0: none, -1 */
void registry_row_clear(struct registry_row *row);
void registry_rows_clear(registry_rows *rows);

struct registry_filter {
	const char *kind;
	const char *after; /* names above it; NULL: all */
	size_t limit;
	int state;      /* enum registry_state, or REGISTRY_ANY */
	bool held_only; /* with held_reason */
	bool gone_only; /* deleted at the primary */
};
#define REGISTRY_ANY (-1)

/* In byte order of names. */
int registry_list(struct store *store, const struct registry_filter *filter,
		  registry_rows *rows, struct err *err);
int registry_list_in(struct store_tx *tx, const struct registry_filter *filter,
		     registry_rows *rows, struct err *err);

/* Counted on write, so that reading them costs the same for any number of rows. */
struct registry_counts {
	int64_t all, states[REGISTRY_STATES], verification[VERIFICATION_STATES];
	int64_t held, gone;
	int64_t behind_since; /* the oldest of all rows' */
};
int registry_counts(struct store *store, const char *kind, struct registry_counts *counts,
		    struct err *err);

/* How many rows of a kind are in each state. */
int registry_count(struct store *store, const char *kind, int64_t counts[REGISTRY_STATES],
		   struct err *err);

#endif
