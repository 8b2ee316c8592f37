/*
 * Lists of what git and its helpers say, with what a caller is to make of it. Any thread.
 */
#ifndef GIT_GIT_MESSAGE_H
#define GIT_GIT_MESSAGE_H

#include "base/base.h"
#include "base/str.h"

struct git_meaning {
	const char *said; /* in any case */
	enum err_class class;
	const char *remedy;
};

/* Fills *err by the first of the list that is found anywhere in the end of stderr: causes
 * come before their consequences. -1, and *err as it was: none is. */
int git_find_meaning(const struct git_meaning *list, size_t count, const char *tail,
		     struct err *err);

/* What one site tells another's git of an error, as text of a packet "ERR": the class
 * comes through, so that git_classify() gives it back, with REASON_AT_PEER. */
void git_told_render(const struct err *err, struct str *out);

#endif
