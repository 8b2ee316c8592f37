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
struct refs_sight {
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
	struct refs_sight *sight;
	struct generation *generation;
};

void refs_sight_unref(struct refs_sight *sight);
void refs_stand_unref(struct refs_stand *stand);
struct refs_sight *refs_sight_ref(struct refs_sight *sight);
struct refs_stand *refs_stand_ref(struct refs_stand *stand);

static inline void auto_sight(struct refs_sight *const *sight)
{
	refs_sight_unref(*sight);
}
#define AUTO_SIGHT __attribute__((cleanup(auto_sight)))

/* Whether nothing can have changed between two looks, of which both may be anything. */
bool refs_sight_is_same(const struct refs_sight *before, const struct refs_sight *after);

#endif
