/*
 * One node a data directory: the node holds a lock on data/node.lock as long as it lives.
 */
#ifndef STORE_DATA_LOCK_H
#define STORE_DATA_LOCK_H

#include "base/base.h"

/* Takes it; *fd is closed to give it up (the end of the process does it, too). ERR_BUSY:
 * another process has it, which the text names. */
int data_lock_take(const char *data, int *fd, struct err *err);

/* Whether a node runs. Does not disturb one that starts. */
bool data_lock_is_held(const char *data);

/*
 * One node a tree of repositories, or of blobs: the node holds a lock on the directory
 * itself as long as it lives. Two that work on one tree, as a secondary on its own
 * primary's, would each undo what the other does. Those whose leases exclude
 * each other may share one (upkeep/tree_node.h), and so may standalone nodes that only
 * look.
 */

enum root_lock_mode { ROOT_LOCK_ALONE, ROOT_LOCK_SHARED };

/* `key` is the one of the configuration that names the tree, for messages.
 * Takes it, unless *fd (-1 at first) is it already; *fd is closed to give it up (the end
 * of the process does it, too). ERR_BUSY: another node has it in a mode that excludes
 * ours. A directory that is not there, or whose file system has no such locks, is no
 * failure: *fd stays -1. */
int root_lock_take(const char *key, const char *root, enum root_lock_mode mode, int *fd,
		   struct err *err);

#endif
