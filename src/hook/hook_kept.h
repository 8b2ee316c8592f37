/*
 * As which hook the program was run, and the hook of that name that was there before:
 * that one is run after ours, under its own name, with the same arguments and standard
 * input. One thread.
 */
#ifndef HOOK_HOOK_KEPT_H
#define HOOK_HOOK_KEPT_H

#include <limits.h>
#include <stdbool.h>

struct hook_call {
	char name[NAME_MAX + 1];
	char *script;     /* the path by which git, or a script, ran it */
	char **arguments; /* of the hook; ends with NULL */
	bool is_part;     /* a file of HOOK.d: others run what else there is */
};

/* Fills the call from the script's path. */
void hook_call_of(char *script, char **arguments, struct hook_call *call);

/* Whether a hook of ours has run us for the very same git: that one has said it all. */
bool hook_is_nested(void);

/* Becomes the kept hook. Returns if there is none, and where hooks run each other
 * without end. */
void hook_become_kept(const struct hook_call *call);

#endif
