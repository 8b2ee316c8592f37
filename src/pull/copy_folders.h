/*
 * The folders between the root and the copies. When one is moved or deleted, nothing is
 * told of the copies that stand in it. For the thread that watches copies.
 */
#ifndef PULL_COPY_FOLDERS_H
#define PULL_COPY_FOLDERS_H

#include "base/map.h"
#include "base/vec.h"
#include "git/inotify.h"

struct copy_folders {
	const char *root;        /* borrowed */
	struct inotify *inotify; /* borrowed; NULL: nothing is watched */
	struct map folders;      /* path below the root -> struct folder, owned */
};

/* Watches those above the copy at this path below the root; each at most once a scan,
 * unless it was lost. */
void copy_folders_meet(struct copy_folders *folders, const char *below, uint64_t scan);

typedef VEC(char *) copy_folder_list; /* paths below the root, owned */

/* Appends those that were moved, deleted or given other rights since they were met. They
 * are lost until they are met again. After inotify_drain(). */
void copy_folders_hear(struct copy_folders *folders, copy_folder_list *changed);

/* Whether the copy stands below one of these. */
bool copy_folders_has(const copy_folder_list *list, const char *below);
void copy_folder_list_clear(copy_folder_list *list);

/* Forgets those that this scan did not meet. */
void copy_folders_drop_unmet(struct copy_folders *folders, uint64_t scan);
void copy_folders_clear(struct copy_folders *folders);

#endif
