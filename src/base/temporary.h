/*
 * Temporary files of file_replace(), which a killed process leaves: "<file>.tmp-<16
 * hexadecimal digits>". Any thread.
 */
#ifndef BASE_TEMPORARY_H
#define BASE_TEMPORARY_H

#include "base/base.h"

bool temporary_is_name(const char *name);

/* Removes those in a directory, which may be absent, and where nobody replaces a file
 * now. */
void temporary_remove_all(const char *directory);

#endif
