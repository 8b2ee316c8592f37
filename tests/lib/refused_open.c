/*
 * To be preloaded: the process cannot open, or list, the path $REFUSED_OPEN, as it names
 * it, the $REFUSED_AT-th time that it tries to (from 1; 0: each time): errno is
 * $REFUSED_ERRNO. Stderr says "refused".
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static long number_of(const char *variable)
{
	const char *text = getenv(variable);

	return text ? strtol(text, NULL, 10) : 0;
}

static bool is_refused(const char *path)
{
	static atomic_long tries;
	const char *refused = getenv("REFUSED_OPEN");
	long at = number_of("REFUSED_AT");

	if (!refused || strcmp(path, refused) != 0 ||
	    (atomic_fetch_add(&tries, 1) + 1 != at && at != 0))
		return false;
	if (write(2, "refused\n", 8) != 8)
		abort();
	errno = (int)number_of("REFUSED_ERRNO");
	return true;
}

int openat64(int dir, const char *path, int flags, ...)
{
	va_list list;

	va_start(list, flags);
	mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(list, mode_t) : 0;
	va_end(list);
	if (is_refused(path))
		return -1;
	int (*real)(int, const char *, int, ...) =
		(int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, "openat64");
	return real(dir, path, flags, mode);
}

long syscall(long number, ...)
{
	long (*real)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	long given[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		given[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_openat2 && is_refused((const char *)given[1]))
		return -1;
	return real(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}
