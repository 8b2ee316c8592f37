/*
 * What stands for ${name} in a URL.
 */
#ifndef PUSH_NAME_ENCODING_H
#define PUSH_NAME_ENCODING_H

#include "push/settings.h"

/* Appends the project's name in remoteNameStyle. Nothing is appended if nothing is left
 * of it (".git" by basenameOnly). */
void name_add_styled(struct str *out, const char *project, enum name_style style);

/* Appends it as the path of an HTTP URL: each part as Guava's path segment escaper has
 * it. */
void name_add_encoded(struct str *out, const char *name);

#endif
