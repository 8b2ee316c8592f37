/*
 * What a lease guards, in tests: as a repository, a fence (git/fence.h), and a list to
 * which each holder adds the number after the one that was last when it began. It does so
 * without a look at its lease, so that the fence alone stops those that are late. A
 * number that is there twice, or a fence that is not above the one before, is an overlap
 * which nothing stopped.
 */
#ifndef UNIT_LEASE_GUARDED_TEST_H
#define UNIT_LEASE_GUARDED_TEST_H

#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "git/fence.h"
#include "git/lock_file.h"

static inline int guarded_open(int key)
{
	AUTO_FREE char *path = xasprintf("%s/guarded-%d", root, key);
	int fd;

	mkdir(path, 0700);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		abort();
	return fd;
}

/* The number that was added last; 0: none. Each line was added by one write. */
static inline uint64_t guarded_last(int dir)
{
	AUTO_CLOSE int fd = openat(dir, "list", O_RDONLY | O_CLOEXEC);
	char text[256] = "";
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		return 0;
	off_t from = st.st_size < 200 ? 0 : st.st_size - 200;
	ssize_t len = pread(fd, text, (size_t)(st.st_size - from), from);
	if (len <= 0)
		return 0;
	text[len - 1] = '\0';
	const char *line = strrchr(text, '\n');
	return strtoull(line ? line + 1 : text, NULL, 10);
}

/* That is in force; 0: none. */
static inline uint64_t guarded_fence(int dir)
{
	uint64_t fence;

	assert_ok(fence_read(dir, &fence, &err));
	return fence;
}

static inline void guarded_add(int dir, uint64_t number, uint64_t fence)
{
	AUTO_CLOSE int fd =
		openat(dir, "list", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	char line[64];
	int len =
		snprintf(line, sizeof(line), "%" PRIu64 " %" PRIu64 "\n", number, fence);

	if (fd < 0 || write(fd, line, (size_t)len) != len)
		abort();
}

/* As a publication of refs. */
static inline int guarded_publish(int dir, uint64_t number, uint64_t fence,
				  struct err *error)
{
	struct lock_owner owner;
	struct lock_file lock;
	int result = -1;

	if (lock_owner_open(dir, "refrelay", &owner, error) != 0)
		return -1;
	if (lock_file_take(&owner, "packed-refs", LOCK_FILE_WAIT_MS, &lock, error) == 0) {
		result = fence_check_locked(dir, fence, error);
		if (result == 0)
			guarded_add(dir, number, fence);
		lock_file_release(&lock);
	}
	lock_owner_close(&owner);
	return result;
}

/* Of the keys below `keys`: each number once, each fence above the one before. How many
 * there are. */
static inline size_t guarded_check(int keys, const char *who)
{
	size_t count = 0;

	for (int key = 0; key < keys; key++) {
		AUTO_FREE char *path = xasprintf("%s/guarded-%d/list", root, key);
		AUTO_FCLOSE FILE *file = fopen(path, "re");
		uint64_t number, fence, before = 0, fence_before = 0;
		while (file &&
		       fscanf(file, "%" SCNu64 " %" SCNu64, &number, &fence) == 2) {
			bool is_overlap = number != before + 1 || fence <= fence_before;
			if (is_overlap)
				print_message("# %s: %" PRIu64 " by fence %" PRIu64
					      " was not stopped\n",
					      who, number, fence);
			if (is_overlap)
				fail_msg("%s: %" PRIu64 " by fence %" PRIu64
					 " came after %" PRIu64 " by %" PRIu64,
					 who, number, fence, before, fence_before);
			before = number;
			fence_before = fence;
			count++;
		}
	}
	return count;
}

#endif
