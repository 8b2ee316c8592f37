/*
 * To be preloaded: to the process alone the kernel says that it has version
 * $LANDLOCK_VERSION of Landlock; 0: it was left out of lsm=.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static long version(void)
{
	const char *text = getenv("LANDLOCK_VERSION");
	long number = text ? strtol(text, NULL, 10) : 0;

	if (number > 0)
		return number;
	errno = EOPNOTSUPP;
	return -1;
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
	if (number == SYS_landlock_create_ruleset && given[0] == 0)
		return version();
	return real(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}
