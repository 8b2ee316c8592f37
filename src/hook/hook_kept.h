/*
 * The hook as which the program was run, and the earlier hook of that name: it is run
 * after ours, under its own name, with the same arguments and standard input. One thread.
 */
#ifndef HOOK_HOOK_KEPT_H
#define HOOK_HOOK_KEPT_H

#include <limits.h>
#include <stdbool.h>

struct hook_call {
	char name[NAME_MAX + 1];
	char *script;     /* the path with which git, or a script, ran it */
	char **arguments; /* of the hook; ends with NULL */
	bool is_part;     /* a file of HOOK.d: others run the other files */
};

/* Fills the call from the script's path. */
void hook_call_of(char *script, char **arguments, struct hook_call *call);

/* Whether our own hook has run us for the same git: it has already reported
 * everything. */
bool hook_is_nested(void);

/* Becomes the kept hook. Returns if there is none, or if hooks run each other in a
 * loop. */
void hook_become_kept(const struct hook_call *call);

#endif
