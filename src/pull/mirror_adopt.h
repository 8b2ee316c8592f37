/*
 * A clone made by another program in the place of a mirror. The sync takes over the
 * content of a bare one, as far as nothing is lost (pull/hold.h); one with a working tree
 * becomes a bare one first (pull/mirror_take.h). This module removes its credentials:
 * programs that fetch with a token in the URL leave it in the clone's config, where every
 * reader of the clone finds it (pull/clone_secrets.h).
 *
 * Source: seed 004 (a shared clone, whose remote has the URL with the last job's token).
 */
#ifndef PULL_MIRROR_ADOPT_H
#define PULL_MIRROR_ADOPT_H

#include "pull/copy_kind.h"

/* Removes credentials from the clone's config and from git's records of its fetches,
 * under the mirror's lease; the log names each by the watcher that has it now, never the
 * credential itself. Checks NAME.git and, as those programs leave one, the work tree
 * NAME, which it then takes over if NAME.git does not exist. If there is nothing to do,
 * this only reads some small files. */
int mirror_adopt(struct pull_job *job, struct err *err);

#endif
