/*
 * The refs of large repositories as last recorded by this process, in memory, in their
 * short form (struct ref_past): later changes are then found without reading data/refs.
 * Any thread.
 */
#ifndef CHANGE_KNOWN_REFS_H
#define CHANGE_KNOWN_REFS_H

#include "base/base.h"
#include "git/refs.h"

struct known_refs;
struct known_past;

struct known_refs *known_refs_new(void);
void known_refs_free(struct known_refs *known); /* NULL is allowed */

/* Stores the present refs, replacing those of the same id. Stores nothing for a
 * repository without packed-refs. */
void known_refs_put(struct known_refs *known, uint64_t id, const char *checksum,
		    const struct ref_snapshot *refs);

/* A reference to the refs with this checksum, or NULL. Immutable. */
struct known_past *known_refs_get(struct known_refs *known, uint64_t id,
				  const char *checksum);
const struct ref_past *known_past_of(const struct known_past *past);

/* Ends a reference; NULL is allowed. */
void known_past_leave(struct known_past *past);

#endif
