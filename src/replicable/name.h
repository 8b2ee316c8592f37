/*
 * What can be replicated, and what it is called.
 */
#ifndef REPLICABLE_NAME_H
#define REPLICABLE_NAME_H

#include "base/base.h"
#include "base/file.h"

/* The kind of a repository, as it stands in rows, leases, metrics and logs. */
#define KIND_REPOSITORY "repository"

/* The same of one that is the clone of a foreign upstream: its rows are this site's own,
 * the repository is one like the others, and has the lease of one. */
#define KIND_MIRROR "mirror"

/* So begin, in any folder, repositories that a push just makes or deletes there. */
#define PASSING_PREFIX ".refrelay-"

/* The working tree of a mirror (upkeep/checkout.h): the link that leads to it is called
 * so behind the mirror's name; what it leads to stands below that folder of the root. */
#define CHECKOUT_SUFFIX ".checkout"
#define CHECKOUT_FOLDER OWN_FOLDER "/checkouts"

/* Whether it is a symbolic link into that folder. */
bool name_is_checkout(int dir, const char *entry);

/* Checks a name at the door, wherever it comes from: a path without path_fault, no part
 * of it ".git", not below OWN_FOLDER. ERR_CONFIG says what is wrong. */
int name_check(const char *name, struct err *err);

/* The same, for callers that say the name themselves: the text has it not. */
int name_judge(const char *name, struct err *err);

/* The name of the repository that stands at this path below the root: without one
 * trailing ".git". The caller frees. */
char *name_of_path(const char *path);

/* Where a copy of that name stands below the root: "<name>.git". The caller frees. */
char *name_to_path(const char *name);
char *name_to_copy(const char *root, const char *name); /* "<root>/<name>.git" */

/* The number that stands for a replicable in leases and rows. It follows from kind and
 * name alone, so that every process and node, with a database or without, means the
 * same one: the first 62 bits of the SHA-256 of "<kind>:<name>", never 0. */
uint64_t replicable_id(const char *kind, const char *name);

/* As which a size goes into sums: at most 1 PiB, so that these do not overflow, whatever
 * a primary says, or a file with holes. */
int64_t replicable_counted_size(uint64_t size);

/* Appends the pattern for LIKE ... ESCAPE '\\' that finds names with the text in them. */
void name_search_pattern(const char *text, struct str *pattern);

#endif
