/*
 * `changed --blob`: tells the node, or does its work if none runs.
 */
#ifndef CLI_CHANGED_BLOBS_H
#define CLI_CHANGED_BLOBS_H

#include "base/base.h"
#include "blob/kinds.h"

struct changed_blobs {
	const char *data; /* site.data */
	const struct blob_kinds *kinds;
	int64_t reverify_ms;
	const char *type;
	char *const *ids;
	size_t count;
};

/* *event_id: of the last event, or 0. The error of the first that failed; the others are
 * recorded all the same, but for ERR_CONFIG. */
int changed_blobs_tell(const struct changed_blobs *changed, uint64_t *event_id,
		       struct err *err);

#endif
