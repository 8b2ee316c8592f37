/*
 * libgit2 takes each object of a chain of deltas as one block, of the size that the pack
 * says of it, before it unpacks that. So a block that it does not get ends the read
 * before the memory or the time is used; nothing has to be looked up for that, and
 * whichever of several packs it reads is the one that is bounded.
 *
 * When it gets no block for a delta, it forgets to free the base, unless it has put it
 * into the cache of its pack, which other stores and threads use, too, if the pack is of
 * an alternate. That keeps none of more than 1 MiB, and a block has one byte more. So
 * larger ones are remembered, but none that it resizes: such is a table, as that of this
 * cache.
 */
#include "git/object_memory.h"

#include <git2.h>
#include <git2/sys/alloc.h>

/* Before 1.7 an allocator has six functions more. */
#define HAS_MORE (LIBGIT2_VER_MAJOR == 1 && LIBGIT2_VER_MINOR < 7)

#define SMALL ((size_t)4 << 10) /* it has these at any time, as for messages */
#define LARGE (((size_t)1 << 20) + 1)
/* What the time of a block is worth, however small it is. */
#define EACH ((uint64_t)512)

static _Thread_local struct object_memory *here;

static bool object_memory_grant(size_t size)
{
	struct object_memory *memory = here;
	const uint64_t cost = size + EACH;

	if (!memory)
		return true;
	if (size > SMALL && (size > memory->most || cost > memory->left)) {
		memory->was_refused = true;
		git_error_set_oom();
		return false;
	}
	memory->left -= cost < memory->left ? cost : memory->left;
	return true;
}

static void *object_memory_note(void *block, size_t size)
{
	struct object_memory *memory = here;

	if (!block)
		git_error_set_oom();
	else if (memory && size > LARGE && memory->large_count < OBJECT_MEMORY_LARGE)
		memory->large[memory->large_count++] = block;
	return block;
}

static void object_memory_forget(const void *block)
{
	struct object_memory *memory = here;

	for (size_t i = 0; memory && i < memory->large_count; i++)
		if (memory->large[i] == block) {
			memory->large[i] = memory->large[--memory->large_count];
			return;
		}
}

static void *memory_malloc(size_t size, const char *file, int line)
{
	(void)file;
	(void)line;
	return object_memory_grant(size) ? object_memory_note(malloc(size), size) : NULL;
}

static void *memory_realloc(void *block, size_t size, const char *file, int line)
{
	(void)file;
	(void)line;
	if (!object_memory_grant(size))
		return NULL;
	object_memory_forget(block);
	block = realloc(block, size);
	if (!block)
		git_error_set_oom();
	return block;
}

static void memory_free(void *block)
{
	object_memory_forget(block);
	free(block);
}

#if HAS_MORE /* all that can be made of the above */
static bool is_product(size_t count, size_t each, size_t *size)
{
	if (!__builtin_mul_overflow(count, each, size))
		return true;
	git_error_set_oom();
	return false;
}

static void *memory_calloc(size_t count, size_t each, const char *file, int line)
{
	size_t size;

	(void)file;
	(void)line;
	return is_product(count, each, &size) && object_memory_grant(size)
		       ? object_memory_note(calloc(1, size), size)
		       : NULL;
}

static void *memory_reallocarray(void *block, size_t count, size_t each, const char *file,
				 int line)
{
	size_t size;

	return is_product(count, each, &size) ? memory_realloc(block, size, file, line)
					      : NULL;
}

static void *memory_mallocarray(size_t count, size_t each, const char *file, int line)
{
	return memory_reallocarray(NULL, count, each, file, line);
}

static char *memory_substrdup(const char *text, size_t len, const char *file, int line)
{
	char *copy = len < SIZE_MAX ? memory_malloc(len + 1, file, line) : NULL;

	if (copy) {
		memcpy(copy, text, len);
		copy[len] = '\0';
	}
	return copy;
}

static char *memory_strndup(const char *text, size_t most, const char *file, int line)
{
	return memory_substrdup(text, strnlen(text, most), file, line);
}

static char *memory_strdup(const char *text, const char *file, int line)
{
	return memory_substrdup(text, strlen(text), file, line);
}
#endif

void object_memory_install(void)
{
	static git_allocator allocator = {
		.gmalloc = memory_malloc,
		.grealloc = memory_realloc,
		.gfree = memory_free,
#if HAS_MORE
		.gcalloc = memory_calloc,
		.gmallocarray = memory_mallocarray,
		.greallocarray = memory_reallocarray,
		.gstrdup = memory_strdup,
		.gstrndup = memory_strndup,
		.gsubstrdup = memory_substrdup,
#endif
	};

	if (git_libgit2_opts(GIT_OPT_SET_ALLOCATOR, &allocator) < 0)
		abort();
}

void object_memory_enter(struct object_memory *memory)
{
	memory->was_refused = false;
	memory->large_count = 0;
	here = memory;
}

void object_memory_leave(struct object_memory *memory)
{
	memory->large_count = 0;
	here = NULL;
}

void object_memory_leave_failed(struct object_memory *memory)
{
	here = NULL;
	while (memory->large_count > 0)
		free(memory->large[--memory->large_count]);
}
