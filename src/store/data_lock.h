/*
 * One node per data directory: the node holds a lock on data/node.lock as long as it
 * lives.
 */
#ifndef STORE_DATA_LOCK_H
#define STORE_DATA_LOCK_H

#include "base/base.h"

/* Takes it; close *fd to release it (the end of the process does so, too). ERR_BUSY:
 * another process has it; the text names that. */
int data_lock_take(const char *data, int *fd, struct err *err);

/* Whether a node runs. Does not disturb a starting one. */
bool data_lock_is_held(const char *data);

/*
 * One node per tree of repositories, or of blobs: the node holds a lock on the directory
 * itself as long as it lives. Two nodes on one tree, e.g. a secondary on its primary's,
 * would undo each other's work. Nodes whose leases exclude each other may share one
 * (upkeep/tree_node.h), as may standalone nodes that only read.
 */

enum root_lock_mode { ROOT_LOCK_ALONE, ROOT_LOCK_SHARED };

/* `key` is the configuration key of the tree, for messages. Takes the lock, unless *fd
 * (-1 at first) holds it already; close *fd to release it (the end of the process does
 * so, too). ERR_BUSY: another node has it in a mode that excludes ours. A missing
 * directory, or a file system without these locks, is not a failure: *fd stays -1. */
int root_lock_take(const char *key, const char *root, enum root_lock_mode mode, int *fd,
		   struct err *err);

#endif
