/*
 * A small change of an upstream by one request over HTTP, without git. Any thread.
 */
#ifndef MIRROR_UPSTREAM_FETCH_H
#define MIRROR_UPSTREAM_FETCH_H

#include "git/git_child.h"
#include "git/oid.h"
#include "net/http.h"

struct upstream_fetch {
	const struct git_work *work;
	const char *url, *header, *ca_file; /* as in struct upstream_view */
	const oid_list *wanted;             /* of SHA-1, as these */
	const oid_list *have;               /* with all they reach */
	size_t most;                        /* bytes of the answer */
	int64_t *retry_after_ms;            /* set if the upstream wants rest */
};

/* Appends a pack, not yet checked, of the objects wanted and not reached from `have`.
 * ERR_NETWORK with REASON_RATE_LIMITED, ERR_CANCELED, ERR_LOST: git would get the same
 * answer. Any other error means only that git must do it, or find out what is wrong. */
int upstream_fetch_pack(const struct upstream_fetch *fetch, struct http_line *line,
			struct str *pack, struct err *err);

#endif
