/*
 * The memory that libgit2 uses to read one object, which nothing else bounds: an object
 * of two bytes may be a delta on one of gigabytes.
 *
 * For one thread at a time. Other threads, and calls outside of enter and leave, have
 * what they ask for.
 */
#ifndef GIT_OBJECT_MEMORY_H
#define GIT_OBJECT_MEMORY_H

#include "base/base.h"

#define OBJECT_MEMORY_LARGE 8

struct object_memory {
	size_t most;      /* of one block: an object, its bases, the deltas between */
	uint64_t left;    /* of all that are asked for, one after the other; shrinks */
	bool was_refused; /* set */
	void *large[OBJECT_MEMORY_LARGE]; /* private; those in use */
	size_t large_count;
};

/* Once, before any other call of libgit2. */
void object_memory_install(void);

/* From now on what libgit2 asks for in this thread is counted; what is too much fails
 * there, as if there were none. */
void object_memory_enter(struct object_memory *memory);
/* ... no longer. What it has given is the caller's. */
void object_memory_leave(struct object_memory *memory);
/* ... and it gave nothing, and what might still use its blocks was closed in between:
 * what it has not freed by now, it has lost, and is freed here. */
void object_memory_leave_failed(struct object_memory *memory);

#endif
