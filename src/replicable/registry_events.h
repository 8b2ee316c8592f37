/*
 * Applies an event to a row in memory. Internal to the registry; registry_claim.c reads
 * and writes the rows around it.
 */
#ifndef REPLICABLE_REGISTRY_EVENTS_H
#define REPLICABLE_REGISTRY_EVENTS_H

#include "replicable/registry_move.h"
#include "replicable/registry_row.h"

enum outcome {
	MOVE_DONE,
	MOVE_NOTHING,   /* nothing to write */
	MOVE_REFUSED,   /* a conflict; nothing to write */
	MOVE_OVERTAKEN, /* a conflict, but the news in it are written */
	MOVE_LOST,      /* a conflict: from a worker that no longer has the row */
};

typedef enum outcome (*registry_function)(struct stored_row *stored,
					  const struct registry_move *move, int64_t now);

extern const registry_function registry_functions[REGISTRY_EVENTS];

/* A verification is its worker's until then. */
void registry_begin_verification(struct registry_row *row, int64_t until);
/* When the next one is due; of one at work, when that was: what it proved before is no
 * younger for having begun. 0: never. */
int64_t registry_verification_due(const struct registry_row *row, int64_t now);

#endif
