/*
 * Whether a copy is as it was left, by stat() alone. Any thread.
 */
#ifndef PULL_GLANCE_H
#define PULL_GLANCE_H

#include <sys/stat.h>

#include "base/base.h"
#include "blob/file.h"
#include "replicable/kind.h"
#include "replicable/registry.h"

struct pull;

/* copy_kind_ops.look. */
struct glance_look {
	const struct kind *kind;
	int root;                /* of the kind, open */
	const struct stop *stop; /* may be NULL */
	bool was_reported;       /* somebody tells of a change of this one */
};
int glance_look_at_repository(const struct glance_look *look,
			      const struct registry_row *row, struct err *err);
int glance_look_at_blob(const struct glance_look *look, const struct registry_row *row,
			struct err *err);

/* At the copy of a repository whose row is synced: whether it is what was brought for
 * that row, as it was left. -1: it is not; *err says why. 1: ctimes of files differ, and
 * nothing else. */
int glance_repository(const char *root, const struct registry_row *row, struct err *err);

/* At a blob's file, as its row knows it. The time of change (ctime), which nobody can put
 * back, tells whether anything was done to it since; but for the last 20 ms before. */
struct glance_blob {
	uint64_t size;    /* 0: not known */
	int64_t known_at; /* when it was last proved, or brought; wall ms, 0: never */
};
void glance_blob_of(const struct registry_row *row, struct glance_blob *known);
int glance_blob(const struct glance_blob *known, int fd, const struct stat *stat,
		struct err *err);

/* The same by a fingerprint that was taken when the file was proved, or put there. */
int glance_blob_fingerprint(const struct blob_fingerprint *fingerprint, int fd,
			    const struct stat *stat, struct err *err);

/* At all copies of a kind that are called synced; what is not as it was left is doubted
 * (replicable/registry_move.h), and counted. ERR_CANCELED: stop. ERR_DISK: the root is
 * away. */
struct glance_request {
	struct store *store;
	const struct kind *kind;
	const struct stop *stop; /* may be NULL */
	int64_t rest_ms;         /* after each page of rows */
	struct pull *pull;       /* has a pace of doubts; NULL: none */
	const char *below;       /* blobs of this directory; NULL: all */
	/* Of blobs: a directory's first comes next. False: its files need no look. May be
	 * NULL. */
	bool (*enters)(void *arg, const char *directory);
	/* A page of rows is done. May be NULL. */
	void (*paged)(void *arg);
	void *arg;
};
#define GLANCE_REST_MS 5 /* for looks at everything while the node works */

struct glance_result {
	uint64_t looked, doubted;
	char *example;  /* one that was doubted; the caller frees */
	struct err why; /* of the example */
};
int glance_all(const struct glance_request *request, struct glance_result *result,
	       struct err *err);

/* At those blobs, of which inotify tells; others than those called synced are left out.
 */
int glance_these(const struct glance_request *request, char *const *names, size_t count,
		 struct glance_result *result, struct err *err);

/* Logs what was doubted, and has it mended; clears the result. */
void glance_report(const struct glance_request *request, struct glance_result *result,
		   int64_t took_ms);

#endif
