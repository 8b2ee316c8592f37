/*
 * The registry's rows and the states they are in; see replicable/registry.h.
 *
 * Source: seeds 000 and 002.
 */
#ifndef REPLICABLE_REGISTRY_TYPES_H
#define REPLICABLE_REGISTRY_TYPES_H

#include "base/base.h"
#include "base/vec.h"

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

/* Additions of a person's request to ASKED. */
enum registry_wish {
	REGISTRY_WISH_FORCE = 1,     /* make changes that would be held */
	REGISTRY_WISH_REBUILD = 2,   /* a new copy from nothing; the old one goes to the
					trash */
	REGISTRY_WISH_RECHECK = 4,   /* do not trust records: compare and verify
					everything */
	REGISTRY_WISH_REPLACE = 256, /* only a person's: bring it again also if all
					copies have vanished at once */
};

/* A person's resync. */
#define REGISTRY_WISHES_RESYNC (REGISTRY_WISH_RECHECK | REGISTRY_WISH_REPLACE)

/* Random for each claim, in hexadecimal digits. */
#define CLAIM_TOKEN_SIZE 17

struct registry_row {
	uint64_t id;
	char *kind, *name; /* owned */
	enum registry_state state;
	enum registry_verification verification;
	char timeline[17]; /* "": unknown yet */
	uint64_t generation_wanted, generation;
	bool is_proved;         /* found equal since the last change of the copy */
	char *checksum;         /* of the copy, as last verified; owned, may be NULL */
	char *primary_checksum; /* of generation_wanted, as reported; owned, may be
				   NULL */
	uint64_t size;          /* likewise, in bytes; 0 for repositories */
	int64_t retry_count, verification_retry_count;
	int64_t retry_at; /* wall ms, 0: not set; likewise below */
	int64_t due_at, verification_due_at;
	int64_t verification_was_due_at;    /* of one at work: before it was claimed */
	char claim_token[CLAIM_TOKEN_SIZE]; /* of the worker that has the row, until one
					       of these; "": unclaimed */
	int64_t last_attempt_at, last_success_at, verified_at;
	int64_t behind_since; /* oldest change not here yet, by the primary's clock; 0: up
				 to date */
	bool is_gone;         /* the primary deleted it */
	unsigned wishes;
	unsigned wishes_later; /* of these, since it was started */
	char *held_reason, *failure_class, *failure, *remedy; /* owned, may be NULL */
	enum err_reason failure_reason;
};

/* Of the rows of a kind, or of one row: its share in them. */
struct registry_counts {
	int64_t all, states[REGISTRY_STATES], verification[VERIFICATION_STATES];
	int64_t held, gone;
	int64_t proved;        /* of synced ones: found equal since their last change */
	int64_t never_copied;  /* of those to be copied, except held ones */
	int64_t bytes;         /* of all rows' sizes */
	int64_t bytes_to_come; /* of rows neither synced nor gone */
	int64_t here;          /* with a copy that nobody asked to replace */
	int64_t behind_since;  /* the oldest of all rows'; not a counter */
};

typedef VEC(struct registry_row) registry_rows;
#define AUTO_REGISTRY_ROW __attribute__((cleanup(registry_row_clear)))
#define AUTO_REGISTRY_ROWS __attribute__((cleanup(registry_rows_clear)))

void registry_row_clear(struct registry_row *row);
void registry_rows_clear(registry_rows *rows);

#endif
