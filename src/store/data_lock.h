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

#endif
