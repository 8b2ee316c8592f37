/*
 * When upstreams were last asked, and had nothing new: one time for each mirror, in the
 * database, for commands. Any thread.
 */
#ifndef MIRROR_CHECKED_H
#define MIRROR_CHECKED_H

#include "base/vec.h"
#include "git/checksum.h"
#include "store/store.h"

struct mirror_polled;

struct mirror_check {
	struct mirror_polled *one; /* the caller's, not read */
	const char *name;          /* of the mirror; borrowed */
	int64_t at;                /* wall ms */
	/* Only if this is still the copy's; "": whatever it is. */
	char checksum[CHECKSUM_TEXT_SIZE];
	bool is_void; /* set: it is not */
};

typedef VEC(struct mirror_check) mirror_checks;

/* In one transaction. What a power cut takes is asked again. */
int mirror_checks_write(struct store *store, mirror_checks *checks, struct err *err);

/* Wall ms; 0: never. */
int mirror_checked_at(struct store *store, const char *name, int64_t *at,
		      struct err *err);

#endif
