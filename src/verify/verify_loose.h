/*
 * Whether the loose objects of a repository are what their names say: each is read,
 * inflated and summed up.
 */
#ifndef VERIFY_VERIFY_LOOSE_H
#define VERIFY_VERIFY_LOOSE_H

#include "base/base.h"
#include "git/git_child.h"
#include "git/repo.h"

/* ERR_CORRUPT: one is not; the text names it. ERR_CANCELED, ERR_TIMEOUT, ERR_LOST: as
 * `work` says. Objects may be added and removed meanwhile. */
int verify_loose(const struct git_work *work, const struct repo *repo, struct err *err);

#endif
