/*
 * Whether a copy is as it was left, by stat() alone. Any thread.
 */
#ifndef PULL_GLANCE_H
#define PULL_GLANCE_H

#include <sys/stat.h>

#include "base/base.h"
#include "blob/kinds.h"
#include "replicable/registry.h"

/* At the copy of a repository whose row is synced: whether it is what was brought for
 * that row, as it was left. -1: it is not; *err says why. */
int glance_repository(const char *root, const struct registry_row *row, struct err *err);

/* At a blob's file, as its row knows it. */
struct glance_blob {
	uint64_t size;    /* 0: not known */
	int64_t known_at; /* when it was last proved, or brought; wall ms, 0: never */
};
void glance_blob_of(const struct registry_row *row, struct glance_blob *known);
int glance_blob(const struct glance_blob *known, int fd, const struct stat *stat,
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
	char *example;  /* one that was doubted; the caller frees */
	struct err why; /* of the example */
};
int glance_all(const struct glance_request *request, struct glance_result *result,
	       struct err *err);

#endif
