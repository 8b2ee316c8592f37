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
};

/* The names that users see. Static. */
const char *registry_state_name(enum registry_state state);
const char *registry_verification_name(enum registry_verification state);

enum registry_event {
	REGISTRY_ASKED,     /* a change was noticed, or a person asked */
	REGISTRY_BEGUN,     /* a worker has it */
	REGISTRY_BROUGHT,   /* the copy has the wanted generation */
	REGISTRY_HELD,      /* a person must decide: held_reason */
	REGISTRY_ERRED,     /* err */
	REGISTRY_ABSENT,    /* the primary has no such thing */
	REGISTRY_PROVED,    /* recomputed and equal: checksum */
	REGISTRY_DISPROVED, /* recomputed and different: err */
};

struct registry_move {
	uint64_t id;
	enum registry_event event;
	uint64_t generation;  /* ASKED: at least this is wanted; BROUGHT: this is here */
	const char *checksum; /* PROVED */
	const char *held_reason; /* HELD */
	const struct err *err;   /* ERRED, DISPROVED */
	int64_t timeout_ms;      /* BEGUN: for how long the row is the worker's */
};

struct registry_row {
	uint64_t id;
	char *name; /* owned */
	enum registry_state state;
	enum registry_verification verification;
	uint64_t generation_wanted, generation;
	char *checksum; /* owned, may be NULL */
	int64_t retry_count;
	int64_t retry_at; /* wall ms, 0: none; so are those below */
	int64_t last_attempt_at, last_success_at, verified_at;
	char *held_reason, *failure_class, *failure, *remedy; /* owned, may be NULL */
};

/* Adds rows for these names, pending; those that are there stay as they are. */
int registry_add(struct store *store, const char *kind, const char *const *names,
		 size_t count, struct err *err);

/* Moves one row. ERR_CONFLICT: the row is not in a state that allows it (started by
 * another worker; or BROUGHT, and a newer generation was asked for meanwhile: what was
 * brought is recorded all the same). ERR_MISSING: no such row. */
int registry_move(struct store *store, const struct registry_move *move, struct err *err);

/* Reads a row; the caller clears it. ERR_MISSING: there is none. */
int registry_get(struct store *store, const char *kind, const char *name,
		 struct registry_row *row, struct err *err);
void registry_row_clear(struct registry_row *row);

/* How many rows of a kind are in each state. */
int registry_count(struct store *store, const char *kind, int64_t counts[REGISTRY_STATES],
		   struct err *err);

#endif
