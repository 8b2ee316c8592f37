/*
 * Variables that are released when their scope ends, with errno untouched. Ownership is
 * handed on with TAKE(x), which clears the giver.
 */
#ifndef BASE_AUTO_H
#define BASE_AUTO_H

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define AUTO_CLOSE __attribute__((cleanup(auto_close)))       /* int fd, or -1 */
#define AUTO_CLOSEDIR __attribute__((cleanup(auto_closedir))) /* DIR *, or NULL */
#define AUTO_FCLOSE __attribute__((cleanup(auto_fclose)))     /* FILE *, or NULL */
#define AUTO_FREE __attribute__((cleanup(auto_free)))         /* malloc'ed, or NULL */
#define AUTO_UNLOCK                                                                      \
	__attribute__((cleanup(auto_unlock), unused)) /* from lock(), or NULL */

/* The value of a pointer variable, which becomes NULL. */
#define TAKE(pointer)                                                                    \
	({                                                                               \
		__typeof__(pointer) taken_ = (pointer);                                  \
		(pointer) = NULL;                                                        \
		taken_;                                                                  \
	})

/* The value of a descriptor variable, which becomes -1. */
#define TAKE_FD(fd)                                                                      \
	({                                                                               \
		int taken_ = (fd);                                                       \
		(fd) = -1;                                                               \
		taken_;                                                                  \
	})

static inline void auto_close(const int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved;
}

static inline void auto_closedir(DIR *const *dir)
{
	int saved = errno;

	if (*dir)
		closedir(*dir);
	errno = saved;
}

static inline void auto_fclose(FILE *const *file)
{
	int saved = errno;

	if (*file)
		fclose(*file);
	errno = saved;
}

static inline void auto_free(void *pointer)
{
	int saved = errno;

	free(*(void **)pointer);
	errno = saved;
}

static inline void auto_unlock(pthread_mutex_t *const *mutex)
{
	if (*mutex)
		pthread_mutex_unlock(*mutex);
}

#endif
