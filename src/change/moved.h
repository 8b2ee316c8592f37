/*
 * Where the repositories are that are missing under their names: the tree is walked, and
 * one walk answers for all that were missing before it began. Any thread.
 */
#ifndef CHANGE_MOVED_H
#define CHANGE_MOVED_H

#include "change/origin_root.h"
#include "replicable/origin_rows.h"

struct moved;
struct moved *moved_new(void);
void moved_free(struct moved *moved); /* NULL is allowed */

/* Searches the tree for the directory (the identity, which is not NULL) of a row that was
 * seen to be missing. 1: found, with its name, which the caller frees; 0: not found; -1:
 * the root, or the rows, cannot be read. Waits for a walk under way; not inside
 * store_read() or store_write(). */
int moved_find(struct moved *moved, const struct origin_root *root,
	       const struct origin_row *row, char **name, struct err *err);

#endif
