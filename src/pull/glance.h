/*
 * Checks by stat() alone whether a copy is as it was left. Any thread.
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
	bool was_reported;       /* a change of this copy was reported */
};
int glance_look_at_repository(const struct glance_look *look,
			      const struct registry_row *row, struct err *err);
int glance_look_at_blob(const struct glance_look *look, const struct registry_row *row,
			struct err *err);

/* Checks the copy of a repository whose row is synced: whether it is what was brought for
 * that row, unchanged. -1: it is not; *err says why. 1: only ctimes of files differ. 0
 * also when this machine lacks what a look takes. */
int glance_repository(const char *root, const struct registry_row *row, struct err *err);

/* Checks a blob's file against its row. The time of change (ctime), which cannot be set
 * back, shows whether it was touched since then, except within the last 20 ms before. */
struct glance_blob {
	uint64_t size;    /* 0: not known */
	int64_t known_at; /* when it was last proved, or brought; wall ms, 0: never */
};
void glance_blob_of(const struct registry_row *row, struct glance_blob *known);
int glance_blob(const struct glance_blob *known, int fd, const struct stat *stat,
		struct err *err);

/* The same by a fingerprint that was taken when the file was proved or put there. */
int glance_blob_fingerprint(const struct blob_fingerprint *fingerprint, int fd,
			    const struct stat *stat, struct err *err);

/* Checks all copies of a kind whose rows are synced; those that were changed are doubted
 * (replicable/registry_move.h) and counted. ERR_CANCELED: stop. ERR_DISK: the root is
 * missing. Those on a file system that is not mounted are left out. */
struct glance_request {
	struct store *store;
	const struct kind *kind;
	const struct stop *stop; /* may be NULL */
	int64_t rest_ms;         /* after each page of rows */
	struct pull *pull;       /* paces the doubts; NULL: no pace */
	const char *below;       /* blobs of this directory; NULL: all */
	/* Of blobs: called before the first one of a directory. False: its files need no
	 * check. May be NULL. */
	bool (*enters)(void *arg, const char *directory);
	/* A page of rows is done. May be NULL. */
	void (*paged)(void *arg);
	void *arg;
};
#define GLANCE_REST_MS 5 /* for checks of everything while the node works */

struct glance_result {
	uint64_t looked, doubted;
	char *example;   /* one that was doubted; the caller frees */
	struct err why;  /* of the example */
	struct err away; /* of some that were left out; ERR_NONE: there are none */
};
int glance_all(const struct glance_request *request, struct glance_result *result,
	       struct err *err);

/* Checks the blobs that inotify reported; those whose rows are not synced are left
 * out. */
int glance_these(const struct glance_request *request, char *const *names, size_t count,
		 struct glance_result *result, struct err *err);

/* Logs the doubted copies and has them mended; clears the result. */
void glance_report(const struct glance_request *request, struct glance_result *result,
		   int64_t took_ms);

#endif
