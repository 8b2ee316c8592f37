/*
 * Somebody says that blobs changed: a command, by itself or by way of the node. Any
 * thread.
 */
#ifndef CHANGE_BLOB_CHANGED_H
#define CHANGE_BLOB_CHANGED_H

#include "base/base.h"
#include "base/str.h"
#include "change/blob_notice.h"

/* The words for some ids of a kind: "TYPE/ID" and more ids, each after a newline. Returns
 * how many of `count` found room; 0: not even one. */
size_t blob_changed_render(const char *type, char *const *ids, size_t count, size_t room,
			   struct str *out);

/* Looks at those that the words name. *event_id: of the last event that this made, or 0.
 * ERR_CONFIG: no such kind, or a name that cannot be an id: then nothing was looked at.
 * Otherwise the error of the first that is not as it should be (blob_look.why), the
 * others being recorded; one that was deleted is no error. */
int blob_changed(struct blob_notice *notice, const char *words, uint64_t *event_id,
		 struct err *err);

#endif
