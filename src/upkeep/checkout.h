/*
 * The working tree of a mirror's default branch, beside its clone <root>/NAME.git:
 *
 *	<root>/NAME.checkout		a symbolic link to the current tree
 *	<root>/.refrelay/checkouts/NAME.git/<fence>-<commit>/
 *		tree/		the files of the commit
 *		index		git's, written when the tree was proved; without it the
 *				version is half made, or half removed
 *		replaced	since when the link leads elsewhere
 *	<root>/.refrelay/checkouts/NAME.git/git/
 *				a repository for git to work in, without objects
 *
 * Each commit gets a separate tree, which is made, synced to disk and compared with the
 * commit before the link is switched to it, by one rename. A replaced tree stays for
 * CHECKOUT_KEEP_MS, and then as long as a process has a lock (flock) on it.
 *
 * All of this requires the lease of the clone. Trees are not served or replicated:
 * discovery does not follow links, or search in .refrelay.
 *
 * Source: kubernetes/git-sync (one tree per commit, a switched link).
 */
#ifndef UPKEEP_CHECKOUT_H
#define UPKEEP_CHECKOUT_H

#include "git/oid.h"
#include "job/job.h"

#define CHECKOUT_KEEP_MS ((int64_t)3600 * 1000)

struct checkout_call {
	struct job *job; /* holds the clone's lease */
	const char *root, *name;
};

/* The path for readers; the caller frees. */
char *checkout_path(const char *root, const char *name);

/* Whether any part of a checkout exists. */
bool checkout_is_any(const char *root, const char *name);

/* Makes the link lead to a tree equal to `commit`: a new one, unless the present one is
 * still equal. *is_new: it was switched. ERR_CONFIG: something else is at NAME.checkout;
 * ERR_DISK: no space; ERR_CORRUPT: the tree did not become equal to the commit, or git
 * refuses a path of it; ERR_CONFLICT: somebody writes into each tree. After an error the
 * link is unchanged. */
int checkout_switch(const struct checkout_call *call, const struct oid *commit,
		    bool *is_new, struct err *err);

/* Removes the link; its tree counts as replaced. */
int checkout_drop(const struct checkout_call *call, struct err *err);

/* Removes half-made versions, and trees that were replaced long enough ago and are not in
 * use. *next_ms: in how many ms there is more to do; 0: nothing is left to remove. */
int checkout_expire(const struct checkout_call *call, int64_t *next_ms, struct err *err);

/* When the clone is removed: removes the link, and moves all trees to the trash. */
int checkout_trash(const struct checkout_call *call, struct err *err);

#endif
