/*
 * Names of replicables.
 */
#ifndef REPLICABLE_NAME_H
#define REPLICABLE_NAME_H

#include "base/base.h"
#include "base/file.h"

/* The kind of a repository, as written in rows, leases, metrics and logs. */
#define KIND_REPOSITORY "repository"

/* The kind of a clone of a foreign upstream: its rows belong to this site, but the
 * repository is like others, and has a repository's lease. */
#define KIND_MIRROR "mirror"

/* Prefix of repositories, in any folder, that a push is just creating or deleting. */
#define PASSING_PREFIX ".refrelay-"

/* The working tree of a mirror (upkeep/checkout.h): the suffix of the link to it, after
 * the mirror's name, and the folder of the root with the link's target. */
#define CHECKOUT_SUFFIX ".checkout"
#define CHECKOUT_FOLDER OWN_FOLDER "/checkouts"

/* Whether it is a symbolic link into that folder. */
bool name_is_checkout(int dir, const char *entry);

/* Checks a name on entry, from any source: a path without path_fault, no part of it
 * ".git", not below OWN_FOLDER. ERR_CONFIG says what is wrong. */
int name_check(const char *name, struct err *err);

/* The same, for callers that add the name themselves: the text is without it. */
int name_judge(const char *name, struct err *err);

/* The name of the repository at this path below the root: without one trailing ".git".
 * The caller frees. */
char *name_of_path(const char *path);

/* Of a directory of objects, such as "/srv/git/pool.git/objects": "pool" below the root
 * "/srv/git". NULL: it can be no repository's. The caller frees. */
char *name_of_objects(const char *root, const char *objects);

/* The path of a copy of that name below the root: "<name>.git". The caller frees. */
char *name_to_path(const char *name);
char *name_to_copy(const char *root, const char *name); /* "<root>/<name>.git" */

/* The last words of a command that is offered to be pasted into a shell: the name, quoted
 * where it must be, after "--" if it looks like an option. The caller frees. */
char *name_to_operand(const char *name);

/* Adds a remedy to *err that ends in such a command: with NAME for a name with which it
 * would be cut. Returns -1. */
int name_remedy(struct err *err, const char *command, const char *name);

/* The id of a replicable in leases and rows. It depends only on kind and name, so that
 * every process and node, with or without a database, computes the same one: the first 62
 * bits of the SHA-256 of "<kind>:<name>", never 0. */
uint64_t replicable_id(const char *kind, const char *name);

/* A size for use in sums: at most 1 PiB, so that these do not overflow, whatever a
 * primary reports, or with sparse files. */
int64_t replicable_counted_size(uint64_t size);

/* Appends the pattern for LIKE ... ESCAPE '\\' that finds names with the text in them. */
void name_search_pattern(const char *text, struct str *pattern);

#endif
