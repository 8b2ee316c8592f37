/*
 * Shared by the files of hook_install.h. Private to change/.
 */
#ifndef CHANGE_HOOK_PARTS_H
#define CHANGE_HOOK_PARTS_H

#include "change/hook_install.h"

/* The directory that git uses for a repository's hooks. */
struct hook_folder {
	int dir;             /* -1: missing */
	int kept;            /* the one beside it, for kept hooks; -1: missing */
	char path[PATH_MAX]; /* its path, links resolved */
	bool is_shared;      /* shared with other repositories */
	bool is_noexec;
};
#define HOOK_FOLDER_INIT                                                                 \
	{                                                                                \
		.dir = -1, .kept = -1                                                    \
	}
#define AUTO_HOOK_FOLDER __attribute__((cleanup(hook_folder_close)))

int hook_folder_open(int repository, const struct hook_place *place,
		     struct hook_folder *folder, struct err *err);
void hook_folder_close(struct hook_folder *folder);

/* Makes the directory for kept hooks if necessary. */
int hook_folder_make_kept(struct hook_folder *folder, struct err *err);

/* Makes links to all files in the directory, except our hooks and kept ones. */
int hook_folder_link(const struct hook_folder *folder, struct err *err);

/* Removes the links, and the directory for kept hooks if nothing is kept. */
void hook_folder_unlink(struct hook_folder *folder);

/* The state of a hook file, following links; dir -1: missing. */
enum hook_state hook_file_look(int dir, const char *name, const char *program);

/* Whether hooks/<hook> runs all files of hooks/<hook>.d, so that ours can be one of
 * them. */
bool hook_file_runs_parts(int dir, const char *name, const char *hook);

/* The names of one hook. */
struct hook_file_names {
	const char *hook;
	char old_kept[64]; /* in the same directory, by earlier versions */
	char part[64];     /* "" if it cannot be one of several */
};
struct hook_file_names hook_file_names(size_t i);

#endif
