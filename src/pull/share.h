/*
 * A first copy of a repository that borrows objects from others at the primary
 * (objects/info/alternates), as forks do: their copies here have these objects. Its packs
 * are hard links to theirs, so that they need no room; it borrows nothing, and stays
 * whole when they go. A .keep file beside a linked pack has Git leave it alone, or the
 * next repack would undo the sharing.
 *
 * All threads.
 */
#ifndef PULL_SHARE_H
#define PULL_SHARE_H

#include "base/base.h"
#include "base/vec.h"
#include "git/git_child.h"
#include "git/repo.h"

struct share_request {
	const struct git_work *work;
	const char *root;         /* of the copies; absolute */
	const text_list *lenders; /* names of repositories */
	const struct repo *copy;  /* without packs */
	/* The copy of a lender has a pack that is not sound, or that its disk cannot
	 * read. */
	void (*doubt)(void *arg, const char *name, const struct err *why);
	void *arg;
};

/* 1: links packs of some size, and has read every object of them. 0: nothing was linked,
 * or nothing of it is left: the log says why. ERR_CANCELED and the like: the work must
 * end. */
int share_packs(const struct share_request *request, struct err *err);

/* Whether `name` may wait for the first copy of `lender`: not if that one waits for it,
 * by way of others or by itself, and not for more than an hour, as another node may have
 * one of two that wait for each other. NULL: it was brought, and waits for nobody. */
bool share_await(const char *name, const char *lender);

/* The lender for which `name` waits; NULL: none. The caller frees. */
char *share_awaited(const char *name);

#endif
