/*
 * Lists of what git and its helpers say, with what a caller is to make of it. Any thread.
 */
#ifndef GIT_GIT_MESSAGE_H
#define GIT_GIT_MESSAGE_H

#include "base/base.h"

struct git_meaning {
	const char *said; /* in any case */
	enum err_class class;
	const char *remedy;
	enum err_reason reason;
};

/* Fills *err by the first of the list that is found anywhere in the end of stderr: causes
 * come before their consequences. -1, and *err as it was: none is. */
int git_find_meaning(const struct git_meaning *list, size_t count, const char *tail,
		     struct err *err);

#endif
