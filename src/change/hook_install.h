/*
 * Our hooks in one repository, as src/hook/refrelay-hook.c wants to find them:
 *
 *	hooks/<hook>			two lines that have refrelay-hook run
 *	hooks.refrelay-kept/<hook>	the hook that was there before; beside it links to
 *					what else is in hooks/, for scripts look there
 *	refrelay/node			-> the data directory
 *
 * Each repository has files of its own: a server that rewrites a hook in place hits that
 * one. Where hooks/post-receive runs whatever is in hooks/post-receive.d, as with Gitea
 * and its like, it stays, and ours is hooks/post-receive.d/refrelay.
 *
 * Git may look for hooks elsewhere (core.hooksPath), and `hooks` or a hook may be a link:
 * what is looked at is where that ends. A directory that others use as well is only
 * changed when that was asked for.
 *
 * Each step is one rename, so that every push meets either the hook that was there or
 * ours that runs it; a run that was cut short is finished by the next. Any thread.
 */
#ifndef CHANGE_HOOK_INSTALL_H
#define CHANGE_HOOK_INSTALL_H

#include <limits.h>

#include "base/base.h"

enum hook_state {
	HOOK_MISSING,
	HOOK_INSTALLED,
	HOOK_OUTDATED, /* ours, but of a program that is elsewhere, a link of an earlier
			  version, or not executable */
	HOOK_FOREIGN,
	HOOK_STATES,
};

enum hook_side {
	HOOKS_OF_ORIGIN = 2, /* of a primary or standalone site: the first two hooks */
	HOOKS_OF_COPY = 3,   /* of a secondary: all; they refuse, and if it becomes a
				primary they tell */
};
#define HOOKS 3
extern const char *const hook_names[HOOKS];
const char *hook_state_name(enum hook_state state); /* static */

/* What hooks lead to. */
struct hook_place {
	char *program; /* absolute path of refrelay-hook; owned */
	char *data;    /* absolute path of the data directory; owned */
	enum hook_side side;
	char *path;    /* core.hooksPath as set outside of repositories; owned; NULL */
	bool is_quick; /* for scans: files that a configuration includes are not read */
	bool changes_shared; /* directories that other repositories use, too */
	bool accepts_others; /* hooks that tell another node of this host are installed:
				standalone nodes share trees and tasks */
};

/* Finds the program: $REFRELAY_HOOK, beside this program, or in ../libexec/refrelay.
 * ERR_CONFIG: it is not there. */
int hook_place_find(const char *data, enum hook_side side, struct hook_place *place,
		    struct err *err);
void hook_place_clear(struct hook_place *place);
#define AUTO_HOOK_PLACE __attribute__((cleanup(hook_place_clear)))

struct hook_look {
	enum hook_state states[HOOKS]; /* as many as the side has */
	bool is_kept[HOOKS];           /* another hook is run by ours */
	bool is_noexec;                /* a file system on which git runs no hook */
	bool is_shared;                /* the directory is not the repository's own */
	char folder[PATH_MAX];         /* that directory, links resolved; "" if absent */
	bool has_node;                 /* the link to this data directory */
	char other[PATH_MAX];          /* another one that it leads to; "" */
};

/* What is there, read anew. `repository`: the open directory. */
int hook_look(int repository, const struct hook_place *place, struct hook_look *look,
	      struct err *err);

/* The state of all of them together: HOOK_INSTALLED only if each is, is run, and tells
 * the right node. */
enum hook_state hook_look_state(const struct hook_look *look,
				const struct hook_place *place);

/* Whether there are hooks of ours that tell another node, or are not whole. */
bool hook_look_is_astray(const struct hook_look *look, const struct hook_place *place);

/* Whether there is nothing of ours, not even a kept hook. Of a shared directory that may
 * not be changed only the link to the node is ours. */
bool hook_look_is_removed(const struct hook_look *look, const struct hook_place *place);

/* ERR_CONFLICT: there is a foreign hook, and another one is kept already. ERR_CONFIG: the
 * directory is shared, or its file system lets nothing be run. */
int hook_install(int repository, const struct hook_place *place, struct err *err);
int hook_remove(int repository, const struct hook_place *place, struct err *err);

/* What a hook file of ours says; the caller frees. */
char *hook_file_text(const char *program);

/* How many repositories are in which state. */
struct hook_counts {
	int64_t states[HOOK_STATES];
	char example[256]; /* "NAME: STATE" of one that is not installed; "": none */
};
void hook_count(struct hook_counts *counts, const char *name, enum hook_state state);
int64_t hook_counts_lacking(const struct hook_counts *counts);

/*
 * What hooks are to know of the site's role, in its data directory: whether its
 * repositories are copies, and where their primary is. Any thread.
 */

/* Says it to all hooks that lead to `data`, at once. primary_url NULL: the site is no
 * secondary: its repositories can be pushed to. */
int hook_role_set(const char *data, const char *primary_url, const char *root,
		  struct err *err);

#endif
