/*
 * Asks an upstream for objects of Git LFS, and downloads them: over HTTP by batches, or
 * from the directory of a repository on this machine. What comes has the size and the
 * SHA-256 that its pointer says, or it is thrown away.
 *
 * The watcher's credential goes to scheme, host and port of the mirror's own URL, and
 * nowhere else. What the upstream gives out for an object goes to that object's URL, and
 * not where that redirects to, if it is another place. Nothing that was asked for over
 * https comes over http. A repository's .lfsconfig is not read.
 *
 * One thread at a time a struct lfs_asker.
 *
 * Source: Git LFS API, batch, basic transfers.
 */
#ifndef MIRROR_LFS_ASK_H
#define MIRROR_LFS_ASK_H

#include "base/thread.h"
#include "blob/incoming.h"
#include "mirror/lfs_offer.h"
#include "mirror/mirrors.h"
#include "net/http.h"

/* What all askers of a mirror have in common; borrowed, and not changed. */
struct lfs_upstream {
	const struct mirror *mirror;
	const struct watcher *watcher; /* whose credential it is; NULL: nobody's */
	const char *header;            /* "Authorization: ..."; secret; NULL: none */
	int local;                     /* lfs/objects of a path, open; -1: over HTTP */
	const struct stop *stop;
	int64_t until;    /* boot ms */
	int root;         /* where objects are put, open */
	const char *type; /* the kind of blobs that they are there */
};

struct lfs_asker {
	const struct lfs_upstream *upstream;
	struct http_line line; /* opened by the owner */
	int64_t rest_ms;       /* filled: the other side wants so much rest */
	uint64_t bytes;        /* likewise: that arrived, ever */
};

/* Opens the directory of a repository's objects at that path. ERR_MISSING: it has none;
 * -1 in any other case. */
int lfs_upstream_open_path(const char *path, struct err *err);

/* ERR_AUTH: the credential is refused; ERR_MISSING: there is no LFS there, or it is
 * hidden; ERR_NETWORK with REASON_RATE_LIMITED; ERR_CONFIG: it redirects; ERR_CORRUPT: it
 * is no answer. The caller clears the offers in any case. */
int lfs_ask_batch(struct lfs_asker *asker, const struct lfs_row *rows, size_t count,
		  lfs_offers *offers, struct err *err);

/* Brings the object on its way to `id`: all of it is there and right, and not durable.
 * The caller commits, or closes it. What an earlier try left is continued. ERR_MISSING:
 * it is not there; ERR_CORRUPT: what came is something else; ERR_DISK; ERR_CANCELED. */
int lfs_ask_object(struct lfs_asker *asker, const struct lfs_offer *offer, const char *id,
		   struct blob_incoming **incoming, struct err *err);

#endif
