/*
 * What was seen of a repository, and what was true then: plain data with counted
 * references, which does not change once others see it. For serve/refs_*.c only.
 */
#ifndef SERVE_REFS_STAND_H
#define SERVE_REFS_STAND_H

#include <stdatomic.h>

#include "serve/generation.h"
#include "serve/look.h"

/* A whole look, for all who may use it. It does not change once it is published. */
struct refs_observation {
	atomic_uint references;
	uint64_t number;  /* of its slot's looks, from 1 */
	int64_t began_ms; /* clock_boot_ms() */
	int result;       /* of look_take */
	struct err err;   /* if that is -1 */
	struct look look;
};

/* A generation that was true at a look, or came to be true between that look and now. It
 * does not change. */
struct refs_stand {
	atomic_uint references;
	struct refs_observation *observation;
	struct generation *generation;
};

void refs_observation_unref(struct refs_observation *observation);
struct refs_observation *refs_observation_ref(struct refs_observation *observation);

static inline void auto_observation(struct refs_observation *const *observation)
{
	refs_observation_unref(*observation);
}
#define AUTO_OBSERVATION __attribute__((cleanup(auto_observation)))

/* Whether nothing can have changed between two looks, of which both may be anything. */
bool refs_observation_is_same(const struct refs_observation *before,
			      const struct refs_observation *after);

#endif
