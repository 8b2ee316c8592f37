/*
 * A kind of replicables of this site: its name, its directory, and the operations of the
 * program's parts on it. Each table of operations is defined in the layer that uses it;
 * the table in pull/kinds.c combines them. Borrowed, as is everything in it. A NULL part
 * means that this site does not do that work for this kind: it is skipped there.
 */
#ifndef REPLICABLE_KIND_H
#define REPLICABLE_KIND_H

#include "base/base.h"
#include "base/vec.h"
#include "blob/kinds.h"

struct kind {
	const char *type; /* as in rows, leases, events, metrics and URLs */
	const char *key;  /* the configuration key of its directory; NULL:
			     blob.TYPE.path */
	const char *path; /* its directory: absolute; NULL: not on this site */
	const struct blob_kind *blobs; /* of one file each; NULL: of another kind */
	/* Names become paths: each one, from any source, is checked on entry. */
	int (*check_name)(const struct kind *kind, const char *name, struct err *err);
	const struct origin_kind_ops *origin; /* change/origin_kind.h; at a primary */
	const struct verify_kind_ops *verify; /* verify/verify_origin.h; likewise */
	const struct copy_kind_ops *copies;   /* pull/copy_kind.h; at a secondary */
};

/* These have the texts but no parts yet. */
struct kind kind_of_repositories(const char *path);
struct kind kind_of_mirrors(const char *path);
struct kind kind_of_blobs(const struct blob_kind *blobs);

/* Whether users and older versions know the kind by the names of repositories; true for
 * mirrors, too. */
bool kind_is_repository(const char *type);

/* The configuration key of its directory: "site.repositories", "blob.TYPE.path". The
 * caller frees. */
char *kind_key(const struct kind *kind);

/* The layout of a kind of blobs; other kinds: the plain layout. */
enum blob_layout kind_layout(const struct kind *kind);

/* The noun for one of them in messages. Static. */
const char *kind_noun(const char *type);

/* All kinds of a site, as pull/kinds.h reads them from its configuration. Others borrow
 * it. */
struct kinds_here {
	VEC(struct kind) all; /* repositories first */
	/* The data that they point to: */
	char *root; /* site.repositories; owned; NULL: none */
	struct blob_kinds blobs;
};

/* One after another: begins with NULL; returns NULL at the end. `here` may be NULL: no
 * kinds. */
const struct kind *kinds_next(const struct kinds_here *here, const struct kind *before);

/* NULL: not a kind of this site. */
const struct kind *kinds_find(const struct kinds_here *here, const char *type);

/* The kind for objects of Git LFS; NULL: not configured. */
const struct kind *kinds_find_lfs(const struct kinds_here *here);

#endif
