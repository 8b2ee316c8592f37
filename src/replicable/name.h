/*
 * What can be replicated, and what it is called.
 */
#ifndef REPLICABLE_NAME_H
#define REPLICABLE_NAME_H

#include "base/base.h"

/* The kind of a repository, as it stands in rows, leases, metrics and logs. */
#define KIND_REPOSITORY "repository"

/* A folder at the root of a tree of repositories in which refrelay keeps its own things.
 * No repository can stand there. */
#define OWN_FOLDER ".refrelay"

/* So begin, in any folder, repositories that a push just makes or deletes there. */
#define PASSING_PREFIX ".refrelay-"

/* Checks a name at the door, wherever it comes from: UTF-8 without control characters;
 * parts between slashes that are not empty, ".", ".." or ".git"; not below OWN_FOLDER;
 * at most 1024 bytes, 250 a part. ERR_CONFIG says what is wrong. */
int name_check(const char *name, struct err *err);

/* The name of the repository that stands at this path below the root: without one
 * trailing ".git". The caller frees. */
char *name_of_path(const char *path);

/* Where a copy of that name stands below the root: "<name>.git". The caller frees. */
char *name_to_path(const char *name);

/* The number that stands for a replicable in leases and rows. It follows from kind and
 * name alone, so that every process and node, with a database or without, means the
 * same one: the first 62 bits of the SHA-256 of "<kind>:<name>", never 0. */
uint64_t replicable_id(const char *kind, const char *name);

#endif
