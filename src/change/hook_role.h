/*
 * What hooks are to know of the site's role, in its data directory: whether its
 * repositories are copies, and where their primary is. Any thread.
 */
#ifndef CHANGE_HOOK_ROLE_H
#define CHANGE_HOOK_ROLE_H

#include "base/base.h"

/* Says it to all hooks that lead to `data`, at once. primary_url NULL: the site is no
 * secondary: its repositories can be pushed to. */
int hook_role_set(const char *data, const char *primary_url, const char *root,
		  struct err *err);

#endif
