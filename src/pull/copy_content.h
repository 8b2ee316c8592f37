/*
 * Whether files of a copy whose ctimes alone have changed hold what they held. For who
 * may read some gigabytes.
 */
#ifndef PULL_COPY_CONTENT_H
#define PULL_COPY_CONTENT_H

#include "base/thread.h"
#include "git/repo.h"

/* Reads each file of its objects that was stamped after `since_ns`: whether it ends with
 * the digest of the rest, as all that git writes there. False also after a stop. */
bool copy_content_is_sound(const struct repo *copy, int64_t since_ns,
			   const struct stop *stop);

#endif
