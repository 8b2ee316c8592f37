/*
 * The pointer that represents a Git LFS file in a repository: a short text that names the
 * file's content by its SHA-256 and size. A pure function.
 *
 * Source: the specification of Git LFS, version 1; and the forms that git-lfs 3 itself
 * reads: versions before 1, lines of extensions, lines that end in CR LF, empty lines.
 * (Blanks around the text are those of ASCII; git-lfs accepts more.)
 */
#ifndef GIT_LFS_POINTER_H
#define GIT_LFS_POINTER_H

#include "base/base.h"

/* A text this long, or longer, is not a pointer. */
#define LFS_POINTER_LIMIT 1024

#define LFS_OID_SIZE 65 /* SHA-256 in 64 lower-case hexadecimal digits, and a NUL */

struct lfs_pointer {
	char oid[LFS_OID_SIZE];
	uint64_t size;
};

/* Whether the text is one, regardless of what follows its first `len` bytes. */
bool lfs_pointer_parse(const char *text, size_t len, struct lfs_pointer *pointer);

/* Whether text is nothing but 64 lower-case hexadecimal digits. */
bool lfs_oid_is_valid(const char *text);

#endif
