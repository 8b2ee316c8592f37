/*
 * Selects the repositories below a directory that a person names by patterns like those
 * of remote.NAME.projects.
 */
#ifndef PUSH_SELECT_H
#define PUSH_SELECT_H

#include "push/sink.h"

/* Appends the names of the repositories below `root` that one of the patterns takes, in
 * byte order; without patterns, all. ERR_CONFIG: a pattern is invalid. */
int push_select(const char *root, const char *const *patterns, size_t count,
		text_list *names, struct err *err);

/* Frees the texts, too. */

#endif
