/*
 * What the files of hook_install.h share. Private to change/.
 */
#ifndef CHANGE_HOOK_PARTS_H
#define CHANGE_HOOK_PARTS_H

#include "change/hook_install.h"

/* The directory in which git looks for a repository's hooks. */
struct hook_folder {
	int dir;             /* -1: it is not there */
	int kept;            /* that beside it, for kept hooks; -1: it is not there */
	char path[PATH_MAX]; /* of it, links resolved */
	bool is_shared;      /* not the repository's own */
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

/* The directory for kept hooks, made if need be. */
int hook_folder_make_kept(struct hook_folder *folder, struct err *err);

/* Links to all that is in the directory, but for hooks of ours and those kept. */
int hook_folder_link(const struct hook_folder *folder, struct err *err);

/* Takes the links away, and the directory for kept hooks, if nothing is kept. */
void hook_folder_unlink(struct hook_folder *folder);

/* What a file is, seen through links to the end; dir -1: missing. */
enum hook_state hook_file_look(int dir, const char *name, const char *program);

/* Whether hooks/<hook> runs all files of hooks/<hook>.d: then ours can be one of them. */
bool hook_file_runs_parts(int dir, const char *name, const char *hook);

/* The names of one hook. */
struct hook_file_names {
	const char *hook;
	char old_kept[64]; /* in the same directory, by earlier versions */
	char part[64];     /* "" if it cannot be one of several */
};
struct hook_file_names hook_file_names(size_t i);

#endif
