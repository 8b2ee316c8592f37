/*
 * Our hooks in one repository, as src/hook/refrelay-hook.c wants to find them:
 *
 *	hooks/<hook>			-> .../libexec/refrelay/refrelay-hook
 *	hooks/<hook>.refrelay-kept	the hook that was there before
 *	refrelay/node			-> the data directory
 *
 * Each step is one rename, so that every push meets either the hook that was there or
 * ours that runs it; a run that was cut short is finished by the next.
 */
#ifndef CLI_HOOK_INSTALL_H
#define CLI_HOOK_INSTALL_H

#include <limits.h>

#include "base/base.h"

enum hook_state {
	HOOK_MISSING,
	HOOK_INSTALLED,
	HOOK_OUTDATED, /* ours, but of a program that is elsewhere now */
	HOOK_FOREIGN,
};

#define HOOKS 2

/* Where the links lead. */
struct hook_place {
	const char *program; /* absolute path of refrelay-hook */
	const char *data;    /* absolute path of the data directory */
};

struct hook_look {
	enum hook_state states[HOOKS];
	bool is_kept[HOOKS];  /* another hook is run by ours */
	bool has_node;        /* the link to this data directory */
	char other[PATH_MAX]; /* another one that it leads to; "" */
};

extern const char *const hook_names[HOOKS];
const char *hook_state_name(enum hook_state state); /* static */

/* Functions for the repository whose directory is open as `repository`. hook_look: what
 * is there. ERR_CONFIG: its hooks directory is shared with others. */
int hook_look(int repository, const struct hook_place *place, struct hook_look *look,
	      struct err *err);
bool hook_is_installed(const struct hook_look *look);

/* Whether there are hooks of ours that tell another node, or are not whole. */
bool hook_is_astray(const struct hook_look *look);

/* Whether there is nothing of ours, not even a kept hook. */
bool hook_is_removed(const struct hook_look *look);

/* ERR_CONFLICT: there is a foreign hook, and a kept one as well. */
int hook_install(int repository, const struct hook_place *place, struct err *err);
int hook_remove(int repository, const struct hook_place *place, struct err *err);

/* ERR_CONFIG: git looks for this repository's hooks elsewhere. everywhere: it may do so
 * for all repositories, so git itself is asked. */
int hook_check_path(int repository, const char *path, bool everywhere, struct err *err);

/* Whether core.hooksPath is set outside of repositories. */
bool hook_path_is_global(void);

/* Where refrelay-hook stands: $REFRELAY_HOOK, beside this program, or in
 * ../libexec/refrelay. The caller frees; NULL: ERR_CONFIG. */
char *hook_program(struct err *err);

#endif
