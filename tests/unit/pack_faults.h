/*
 * Calls that write, flush and rename, any of which fails when a test says so: for what
 * puts packs on disk.
 */
#ifndef UNIT_PACK_FAULTS_H
#define UNIT_PACK_FAULTS_H

#include "objects_test.h"

#include <sys/syscall.h>

/* Which of the next calls fails; 0: none. */
enum { STEP_WRITE, STEP_SYNC, STEP_RENAME, STEPS };
static int steps[STEPS], failures;
static int twisted; /* which of the next files has another byte on disk; 0: none */

static bool fails_now(int which)
{
	if (steps[which] <= 0 || --steps[which] > 0)
		return false;
	failures++;
	steps[which] = -1;
	errno = ENOSPC;
	return true;
}

/* In the place of those of the C library. */
int fsync(int fd)
{
	return fails_now(STEP_SYNC) ? -1 : (int)syscall(SYS_fsync, fd);
}

int sync_file_range(int fd, off_t offset, off_t len, unsigned flags)
{
	return fails_now(STEP_SYNC)
		       ? -1
		       : (int)syscall(SYS_sync_file_range, fd, offset, len, flags);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	return fails_now(STEP_RENAME)
		       ? -1
		       : (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, 0);
}

ssize_t write(int fd, const void *data, size_t len)
{
	ssize_t written = fails_now(STEP_WRITE) ? -1 : syscall(SYS_write, fd, data, len);

	if (written > 0 && twisted > 0 && --twisted == 0)
		assert_int_equal(pwrite(fd, "x", 1, written / 2), 1);
	return written;
}

#endif
