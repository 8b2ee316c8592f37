/*
 * The working tree of a mirror's default branch, beside its clone <root>/NAME.git:
 *
 *	<root>/NAME.checkout		a symbolic link to the tree that counts
 *	<root>/.refrelay/checkouts/NAME.git/<fence>-<commit>/
 *			tree/		the files, as the commit has them
 *			index		git's, written when the tree was proved: without
 *it the version is half made, or half removed replaced	since when the link leads
 *elsewhere <root>/.refrelay/checkouts/NAME.git/git/ a repository for git to work in,
 *without objects
 *
 * Each commit gets a tree of its own, which is made, brought to disk and compared with
 * the commit before the link leads there; that is one rename. A tree that was replaced
 * stays for CHECKOUT_KEEP_MS, and then as long as somebody has a lock (flock) on it.
 *
 * All of this is done under the lease of the clone. Nothing here is served or
 * replicated: discovery follows no link, and does not look into .refrelay.
 *
 * Source: kubernetes/git-sync (a tree a commit, a link that is switched).
 */
#ifndef UPKEEP_CHECKOUT_H
#define UPKEEP_CHECKOUT_H

#include "git/oid.h"
#include "job/job.h"

#define CHECKOUT_KEEP_MS ((int64_t)3600 * 1000)

struct checkout_call {
	struct job *job; /* that has the clone's lease */
	const char *root, *name;
};

/* Where readers find it; the caller frees. */
char *checkout_path(const char *root, const char *name);

/* Whether anything of a checkout is there. */
bool checkout_is_any(const char *root, const char *name);

/* The link leads to a tree that is as `commit` is: a new one, unless the one that it
 * leads to is still so. *is_new: it was switched. ERR_CONFIG: something else stands at
 * NAME.checkout; ERR_DISK: no room; ERR_CORRUPT: the tree does not become as the commit
 * is, or git refuses a path of it; ERR_CONFLICT: somebody writes into each tree. Then the
 * link leads where it did. */
int checkout_switch(const struct checkout_call *call, const struct oid *commit,
		    bool *is_new, struct err *err);

/* The link goes, and trees are as those that were replaced. */
int checkout_drop(const struct checkout_call *call, struct err *err);

/* Removes what is half made, and trees that were replaced long enough ago and are not
 * used. *next_ms: in how many ms there is more to do; 0: nothing is left to be removed.
 */
int checkout_expire(const struct checkout_call *call, int64_t *next_ms, struct err *err);

/* With the clone that is removed: the link goes, all trees go to the trash. */
int checkout_trash(const struct checkout_call *call, struct err *err);

#endif
