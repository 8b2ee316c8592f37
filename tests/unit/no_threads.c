/*
 * To be preloaded into unit tests that are not listed as ones that start threads: the
 * thread sanitizer does not see them, so they must not. Programs that they run may.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes,
		   void *(*run)(void *), void *restrict arg)
{
	create *real;

	if (strncmp(program_invocation_short_name, "test_", 5) == 0) {
		fprintf(stderr,
			"%s starts a thread: add it to thread_tests in "
			"tests/unit/meson.build\n",
			program_invocation_short_name);
		abort();
	}
	*(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
	return real(thread, attributes, run, arg);
}
