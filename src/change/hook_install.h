/*
 * Our hooks in one repository, as src/hook/refrelay-hook.c wants to find them:
 *
 *	hooks/<hook>			two lines that run refrelay-hook
 *	hooks.refrelay-kept/<hook>	the previous hook; beside it links to
 *					the other files of hooks/, which scripts use
 *	refrelay/node			-> the data directory
 *
 * Each repository has separate files: a server that rewrites a hook in place changes only
 * that one. If hooks/post-receive runs all files in hooks/post-receive.d, as with Gitea
 * and similar servers, it stays, and ours is hooks/post-receive.d/refrelay.
 *
 * Git may use hooks elsewhere (core.hooksPath), and `hooks` or a hook may be a link: all
 * functions work on the final target. A directory shared with others is only changed on
 * request.
 *
 * Each step is one rename, so that every push runs either the previous hook or ours,
 * which runs it; the next run finishes an interrupted one. Any thread.
 */
#ifndef CHANGE_HOOK_INSTALL_H
#define CHANGE_HOOK_INSTALL_H

#include <limits.h>

#include "base/base.h"

enum hook_state {
	HOOK_MISSING,
	HOOK_INSTALLED,
	HOOK_OUTDATED, /* ours, but for a program at another path, a link of an earlier
			  version, or not executable */
	HOOK_FOREIGN,
	HOOK_STATES,
};

enum hook_side {
	HOOKS_OF_ORIGIN = 2, /* of a primary or standalone site: the first two hooks */
	HOOKS_OF_COPY = 3,   /* of a secondary: all; they refuse pushes, and report if it
				becomes a primary */
};
#define HOOKS 3
extern const char *const hook_names[HOOKS];
const char *hook_state_name(enum hook_state state); /* static */

/* The target of the hooks. */
struct hook_place {
	char *program; /* absolute path of refrelay-hook; owned */
	char *data;    /* absolute path of the data directory; owned */
	enum hook_side side;
	char *path;    /* core.hooksPath as set outside of repositories; owned; NULL */
	bool is_quick; /* for scans: does not read files included by a configuration */
	bool changes_shared; /* may change directories that other repositories use, too */
	bool accepts_others; /* accepts hooks that report to another node of this host as
				installed: standalone nodes share trees and tasks */
};

/* Finds the program: $REFRELAY_HOOK, beside this program, or in ../libexec/refrelay.
 * ERR_CONFIG: not found. */
int hook_place_find(const char *data, enum hook_side side, struct hook_place *place,
		    struct err *err);
void hook_place_clear(struct hook_place *place);
#define AUTO_HOOK_PLACE __attribute__((cleanup(hook_place_clear)))

struct hook_look {
	enum hook_state states[HOOKS]; /* as many as `side` says */
	bool is_kept[HOOKS];           /* ours runs another hook */
	bool is_noexec;                /* a file system on which git cannot run hooks */
	bool is_shared;                /* the directory is shared with other
					  repositories */
	char folder[PATH_MAX];         /* that directory, links resolved; "" if absent */
	bool has_node;                 /* the link to this data directory exists */
	char other[PATH_MAX];          /* another one to which it leads; "" */
};

/* Reads the present state. `repository`: the open directory. */
int hook_look(int repository, const struct hook_place *place, struct hook_look *look,
	      struct err *err);

/* The state of all of them together: HOOK_INSTALLED only if each is installed, is run,
 * and reports to the right node. */
enum hook_state hook_look_state(const struct hook_look *look,
				const struct hook_place *place);

/* Whether there are hooks of ours that report to another node, or are incomplete. */
bool hook_look_is_astray(const struct hook_look *look, const struct hook_place *place);

/* Whether nothing of ours is left, not even a kept hook. With a shared directory that may
 * not be changed only the link to the node is ours. */
bool hook_look_is_removed(const struct hook_look *look, const struct hook_place *place);

/* ERR_CONFLICT: there is a foreign hook, and another one is kept already. ERR_CONFIG: the
 * directory is shared, or its file system is mounted noexec. */
int hook_install(int repository, const struct hook_place *place, struct err *err);
int hook_remove(int repository, const struct hook_place *place, struct err *err);

/* The text of a hook file of ours; the caller frees. */
char *hook_file_text(const char *program);

/* How many repositories are in which state. */
struct hook_counts {
	int64_t states[HOOK_STATES];
	char example[256]; /* "NAME: STATE" of one that is not installed; "": all are */
};
void hook_count(struct hook_counts *counts, const char *name, enum hook_state state);
int64_t hook_counts_lacking(const struct hook_counts *counts);

/*
 * The site's role for its hooks, in its data directory: whether its repositories are
 * copies, and where their primary is. Any thread.
 */

/* Sets it for all hooks that lead to `data`, at once. primary_url NULL: the site is not a
 * secondary: its repositories accept pushes. */
int hook_role_set(const char *data, const char *primary_url, const char *root,
		  struct err *err);

#endif
