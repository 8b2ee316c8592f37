/*
 * A kind of replicables that this site has: the word for it, where it stands, and what
 * the parts of the program do with it. What each pointer leads to stands on the floor of
 * those that use it; the table in pull/kinds.c puts it all together. Borrowed, as all in
 * it. A part that is NULL has no such half here: those that do that work pass it over.
 */
#ifndef REPLICABLE_KIND_H
#define REPLICABLE_KIND_H

#include "base/base.h"
#include "base/vec.h"
#include "blob/kinds.h"

struct kind {
	const char *type; /* as in rows, leases, events, metrics and URLs */
	const char *key;  /* what the configuration calls its directory; NULL:
			     blob.TYPE.path */
	const char *path; /* its directory: absolute; NULL: this site has none */
	const struct blob_kind *blobs; /* of a [blob "TYPE"]; NULL: of another kind */
	/* A name becomes a path: wherever it comes from, it is checked at the door. */
	int (*check_name)(const struct kind *kind, const char *name, struct err *err);
	const struct origin_kind_ops *origin; /* change/origin_kind.h; at a primary */
	const struct verify_kind_ops *verify; /* verify/verify_origin.h; likewise */
	const struct copy_kind_ops *copies;   /* pull/copy_kind.h; at a secondary */
};

/* These have the words and no parts yet. */
struct kind kind_of_repositories(const char *path);
struct kind kind_of_mirrors(const char *path);
struct kind kind_of_blobs(const struct blob_kind *blobs);

/* What users and older versions know by names of its own; of mirrors, too. */
bool kind_is_repository(const char *type);

/* What the configuration calls its directory: "site.repositories", "blob.TYPE.path". The
 * caller frees. */
char *kind_key(const struct kind *kind);

/* Of a kind of blobs; what is none is as plain as can be. */
enum blob_layout kind_layout(const struct kind *kind);

/* How messages call one of them. Static. */
const char *kind_noun(const char *type);

/* All kinds of a site, as pull/kinds.h reads them from its configuration. Others borrow
 * it. */
struct kinds_here {
	VEC(struct kind) all; /* repositories first */
	/* What they lead to: */
	char *root; /* site.repositories; owned; NULL: none */
	struct blob_kinds blobs;
};

/* One after another, beginning with that after NULL; NULL: no more. `here` may be NULL:
 * there are none. */
const struct kind *kinds_next(const struct kinds_here *here, const struct kind *before);

/* NULL: this site has no such kind. */
const struct kind *kinds_find(const struct kinds_here *here, const char *type);

/* The one that has objects of Git LFS; NULL: none has. */
const struct kind *kinds_find_lfs(const struct kinds_here *here);

#endif
