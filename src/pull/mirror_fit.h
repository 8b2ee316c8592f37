/*
 * Whether a clone with a working tree can be taken over (pull/mirror_take.h): what could
 * fail for good later is tested before it is moved. A clone that is in any way unusual
 * stays where it is, and the mirror is made beside it. Any thread.
 */
#ifndef PULL_MIRROR_FIT_H
#define PULL_MIRROR_FIT_H

#include "base/base.h"
#include "git/oid.h"
#include "git/refs.h"
#include "git/repo.h"

/* What is read of it. */
struct mirror_fit {
	struct repo repo;
	struct ref_snapshot refs;
	oid_list cuts; /* where its history ends; tidy */
};

#define MIRROR_FIT_INIT                                                                  \
	{                                                                                \
		.repo = REPO_INIT                                                        \
	}
#define AUTO_MIRROR_FIT __attribute__((cleanup(mirror_fit_clear)))

/* Reads the clone whose directory NAME/.git is open. -1: *err says why it is not fit, for
 * example because it borrows objects, or is not ours to change. `root` is on the file
 * system where it must be. */
int mirror_fit_read(int root, int dot_git, struct mirror_fit *fit, struct err *err);
void mirror_fit_clear(struct mirror_fit *fit);

/* 0: the clone <root>/<name> is fit. 1: there is none with a working tree. -1: *err says
 * why it is not. Does not look into the working tree. */
int mirror_fit_check(int root, const char *name, struct err *err);

/* -1: in the working tree stands another repository, which is served as one, or what
 * cannot be read. */
int mirror_fit_check_tree(int root, const char *name, struct err *err);

/* Whether what these say speaks of the clone: it stays as it is. False: of the machine at
 * that moment. */
bool mirror_fit_is_final(const struct err *why);

/* Of the directory `objects` in the one that is open: it and all below it are plain
 * directories of this file system, in which we may write. */
int mirror_fit_check_objects(int root, int dir, struct err *err);

#endif
