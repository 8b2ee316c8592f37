/*
 * Basics for nearly every file: the error type, scope cleanup, and a ban on calls that
 * cannot be used safely. Standard headers come first, since the ban would also hit them.
 */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

static inline int64_t int64_min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t int64_max(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static inline size_t size_min(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* malloc, calloc, realloc and strdup that abort when memory runs out: a supervisor
 * restarts us, and no code here could be trusted to go on. Sizes from a peer are bounded
 * before they come here. */
void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *old, size_t size);
char *xstrdup(const char *text);
char *xstrdup_or_null(const char *text); /* NULL: NULL */
char *xstrndup(const char *text, size_t len);
PRINTF_LIKE(1, 2) char *xasprintf(const char *fmt, ...);

/* Some are macros where the C library checks its callers. */
#undef strcpy
#undef strcat
#undef sprintf
#undef vsprintf
#undef strncpy
#pragma GCC poison strcpy strcat sprintf vsprintf strncpy strtok system popen gmtime     \
	localtime

#endif
