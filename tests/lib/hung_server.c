/*
 * To be preloaded: as long as there is the file $HUNG_SERVER, calls by descriptor on
 * files do not return, as those on a mount of a file server that is gone.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void hang(void)
{
	const char *flag = getenv("HUNG_SERVER");

	while (flag && syscall(SYS_faccessat, AT_FDCWD, flag, F_OK, 0) == 0)
		usleep(5000);
}

static int open_below(int dir, const char *path, int flags, mode_t mode)
{
	if (path[0] != '/')
		hang();
	return (int)syscall(SYS_openat, dir, path, flags, mode);
}

int openat(int dir, const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list rest;

	va_start(rest, flags);
	if (flags & (O_CREAT | O_TMPFILE))
		mode = va_arg(rest, mode_t);
	va_end(rest);
	return open_below(dir, path, flags, mode);
}

int openat64(int dir, const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list rest;

	va_start(rest, flags);
	if (flags & (O_CREAT | O_TMPFILE))
		mode = va_arg(rest, mode_t);
	va_end(rest);
	return open_below(dir, path, flags, mode);
}

int futimens(int fd, const struct timespec times[2])
{
	hang();
	return (int)syscall(SYS_utimensat, fd, NULL, times, 0);
}

int mkdirat(int dir, const char *path, mode_t mode)
{
	hang();
	return (int)syscall(SYS_mkdirat, dir, path, mode);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	hang();
	return (int)syscall(SYS_renameat, from_dir, from, to_dir, to);
}

int unlinkat(int dir, const char *path, int flags)
{
	hang();
	return (int)syscall(SYS_unlinkat, dir, path, flags);
}
