/*
 * Whether a copy is as it was left, by stat() alone. Any thread.
 */
#ifndef PULL_GLANCE_H
#define PULL_GLANCE_H

#include <sys/stat.h>

#include "base/base.h"
#include "blob/kinds.h"
#include "replicable/registry.h"

/* At the copy of a repository whose row is synced. -1: it is not; *err says why. */
int glance_repository(const char *root, const char *name, struct err *err);

/* At that of a blob; `root` is the kind's directory, open. `stat` may be NULL; else it is
 * what the file that is about to be read looks like. */
int glance_blob(int root, const struct registry_row *row, const struct stat *stat,
		struct err *err);

/* At all copies of a kind that are called synced; what is not as it was left is doubted
 * (replicable/registry_move.h), and counted. `kind` NULL: repositories, below `root`.
 * ERR_CANCELED: stop. ERR_DISK: the root is away. */
struct glance_request {
	struct store *store;
	const char *root; /* of the repositories */
	const struct blob_kind *kind;
	const struct stop *stop; /* may be NULL */
	int64_t rest_ms;         /* after each page of rows */
};
struct glance_result {
	uint64_t looked, doubted;
	char *example; /* one that was doubted; the caller frees */
	struct err why; /* of the example */
};
int glance_all(const struct glance_request *request, struct glance_result *result,
	       struct err *err);

#endif
