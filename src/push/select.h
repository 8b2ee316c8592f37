/*
 * Which repositories a person means by some names: those below a directory, by
 * patterns as remote.NAME.projects has them.
 */
#ifndef PUSH_SELECT_H
#define PUSH_SELECT_H

#include "push/sink.h"

/* Appends the names of the repositories below `root` that one of the patterns takes, in
 * byte order; without patterns all. ERR_CONFIG: a pattern is none. */
int push_select(const char *root, const char *const *patterns, size_t count,
		text_list *names, struct err *err);

/* Frees the texts, too. */

#endif
