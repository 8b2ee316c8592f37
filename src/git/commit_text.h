/*
 * The lines at the head of a commit or a tag, as git wrote them. SHA-1 only. Pure.
 */
#ifndef GIT_COMMIT_TEXT_H
#define GIT_COMMIT_TEXT_H

#include "base/base.h"
#include "git/oid.h"

/* The value of the line "<name> <object>" at *at, which moves behind it. */
bool commit_text_oid(const char **at, const char *end, const char *name, struct oid *oid);

/* When it was committed, seconds since 1970, of the text from the end of some line above
 * that one; 0 if it makes no sense. Clocks are wrong now and then. */
int64_t commit_text_date(const char *at, const char *end);

#endif
