/*
 * Asks an upstream for objects of Git LFS, and downloads them: over HTTP by batches, or
 * from the directory of a repository on this machine. An object is discarded unless it
 * has the SHA-256 of its pointer, whatever size that says.
 *
 * The watcher's credential is sent only to scheme, host and port of the mirror's own URL.
 * Credentials that the upstream returns for an object are sent to that object's URL, but
 * not to another place to which it redirects. A request over https is never redirected to
 * http. A repository's .lfsconfig is not read.
 *
 * One thread at a time per struct lfs_asker.
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

/* Shared by all askers of a mirror; borrowed, constant. */
struct lfs_upstream {
	const struct mirror *mirror;
	const struct watcher *watcher; /* the owner of the credential; NULL: no
					  credential */
	const char *header;            /* "Authorization: ..."; secret; NULL: not sent */
	int local;                     /* lfs/objects of a path, open; -1: over HTTP */
	const struct stop *stop;
	int64_t until;    /* boot ms */
	int root;         /* where objects are put, open */
	const char *type; /* their kind of blobs there */
};

struct lfs_asker {
	const struct lfs_upstream *upstream;
	struct http_line line; /* opened by the owner */
	int64_t rest_ms;       /* set: the pause that the other side asked for */
	uint64_t bytes;        /* likewise: total that arrived */
};

/* Opens the directory of a repository's objects at that path. ERR_MISSING: it does not
 * have one. */
int lfs_upstream_open_path(const char *path, struct err *err);

/* ERR_AUTH: the credential is refused; ERR_MISSING: LFS is not available there, or
 * hidden; ERR_NETWORK with REASON_RATE_LIMITED; ERR_CONFIG: it redirects; ERR_CORRUPT:
 * invalid answer. The caller clears the offers in any case. */
int lfs_ask_batch(struct lfs_asker *asker, const struct lfs_row *rows, size_t count,
		  lfs_offers *offers, struct err *err);

/* Downloads the object for `id`: on return it is complete and correct, but not durable.
 * The caller commits or closes it. Continues an earlier try. ERR_MISSING: not found;
 * ERR_CORRUPT: other content arrived; REASON_TOO_LARGE: it has more than mirror.maxSize
 * (ERR_CONFIG), or than nine tenths of the free disk (ERR_DISK); ERR_DISK; ERR_CANCELED.
 */
int lfs_ask_object(struct lfs_asker *asker, const struct lfs_offer *offer, const char *id,
		   struct blob_incoming **incoming, struct err *err);

/* Says that it has more than mirror.maxSize, as lfs_ask_object() does. Returns -1. */
int lfs_ask_refuse_size(const struct lfs_upstream *upstream, const char *oid,
			struct err *err);

#endif
