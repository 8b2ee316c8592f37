/*
 * Which functions a process enters, while somebody wants to know: linked into a build
 *with -finstrument-functions. $ENTERED names a file, which all threads and children
 *share:
 *
 *	 0  8  not 0: record
 *	 8  8  how many entries follow, also those for which there was no room
 *	16  8  where the program was loaded
 *	24  8  unused
 *	32 16  for each entry: the function's address, the thread
 *
 * tools/trace/entered.py reads it. Only functions of the program that was executed with
 * it are of use: a child that executes another program is not seen.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UNSEEN __attribute__((no_instrument_function))

struct entered {
	uint64_t function;
	uint64_t thread;
};

struct ring {
	volatile uint64_t is_on;
	uint64_t count, base, unused;
	struct entered entries[];
};

extern const char __executable_start[];
static struct ring *ring;
static uint64_t room;

UNSEEN __attribute__((constructor)) static void entered_open(void)
{
	const char *path = getenv("ENTERED");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	struct stat stat;

	if (fd >= 0 && fstat(fd, &stat) == 0 && stat.st_size > (off_t)sizeof(*ring)) {
		void *map = mmap(NULL, (size_t)stat.st_size, PROT_READ | PROT_WRITE,
				 MAP_SHARED, fd, 0);
		room = ((size_t)stat.st_size - sizeof(*ring)) / sizeof(*ring->entries);
		ring = map == MAP_FAILED ? NULL : map;
	}
	if (fd >= 0)
		close(fd);
	if (ring && ring->base == 0)
		ring->base = (uint64_t)(uintptr_t)__executable_start;
}

UNSEEN void __cyg_profile_func_enter(void *function, void *caller)
{
	static _Thread_local uint64_t thread;

	(void)caller;
	if (!ring || !ring->is_on)
		return;
	uint64_t at = __atomic_fetch_add(&ring->count, 1, __ATOMIC_RELAXED);
	if (thread == 0)
		thread = (uint64_t)syscall(SYS_gettid);
	if (at < room)
		ring->entries[at] =
			(struct entered){ (uint64_t)(uintptr_t)function, thread };
}

UNSEEN void __cyg_profile_func_exit(void *function, void *caller)
{
	(void)function;
	(void)caller;
}
