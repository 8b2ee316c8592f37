/*
 * A clone that stood where a mirror is to be, made by another program: what it has is
 * taken over by the sync, as far as nothing is lost (pull/hold.h). Here its credentials
 * go: programs that fetch with a token in the URL leave it in the clone's config, where
 * everybody finds it who can read the clone.
 *
 * Source: seed 004 (a shared clone, whose remote has the URL with the last job's token).
 */
#ifndef PULL_MIRROR_ADOPT_H
#define PULL_MIRROR_ADOPT_H

#include "pull/copy_kind.h"

/* Takes credentials out of the clone's config, and of what git wrote about its fetches,
 * under the mirror's lease; each is named in the log by the watcher that has it now,
 * never by itself. Looked at are NAME.git and, as such a program has it, the work tree
 * NAME. Without any it is a look at some small files. */
int mirror_adopt(struct pull_job *job, struct err *err);

#endif
