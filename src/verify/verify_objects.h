/*
 * Whether the objects of a repository are whole: every pack read and summed up (git
 * verify-pack), every loose object as well (verify/verify_loose.h), and everything that
 * the refs reach is there (git rev-list --objects).
 */
#ifndef VERIFY_VERIFY_OBJECTS_H
#define VERIFY_VERIFY_OBJECTS_H

#include "base/base.h"
#include "git/git_child.h"
#include "git/refs.h"
#include "git/repo.h"

/* ERR_CORRUPT: not; the text says what is damaged or missing. Packs may be folded
 * meanwhile. */
int verify_objects(const struct git_work *work, const struct repo *repo,
		   const struct ref_snapshot *refs, struct err *err);

#endif
