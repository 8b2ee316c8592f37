/*
 * What hosts and file servers may do to leases in a directory: functions of the C
 * library, in its stead.
 */
#ifndef UNIT_LEASE_DIRECTORY_FAULTS_H
#define UNIT_LEASE_DIRECTORY_FAULTS_H

#include <errno.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_int mkdir_errno, symlink_errno, lock_errno, touch_errno;
static atomic_int clock_lead_s;   /* how wrong this host's clock is */
static atomic_int late_at;        /* the file server hangs before this touch from now */
static atomic_int late_s;         /* for so long */
static atomic_bool is_reply_lost; /* of the next rename */
static void (*_Atomic before_rename)(void);
static void (*_Atomic before_symlink)(void);
static void (*_Atomic before_probe)(void);
static void (*_Atomic before_touch)(void);

static int fail_with(int code)
{
	errno = code;
	return -1;
}

int mkdirat(int dir, const char *path, mode_t mode)
{
	return mkdir_errno ? fail_with(mkdir_errno)
			   : (int)syscall(SYS_mkdirat, dir, path, mode);
}

int symlinkat(const char *text, int dir, const char *path)
{
	void (*hook)(void) = before_symlink;

	before_symlink = NULL;
	if (hook)
		hook();
	return symlink_errno ? fail_with(symlink_errno)
			     : (int)syscall(SYS_symlinkat, text, dir, path);
}

int flock(int fd, int operation)
{
	void (*hook)(void) = operation & LOCK_SH ? before_probe : NULL;

	if (lock_errno)
		return fail_with(lock_errno);
	if (hook) {
		before_probe = NULL;
		hook();
	}
	return (int)syscall(SYS_flock, fd, operation);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int result = (int)syscall(SYS_clock_gettime, clock, now);

	if (clock == CLOCK_REALTIME)
		now->tv_sec += clock_lead_s;
	return result;
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	void (*hook)(void) = before_rename;

	before_rename = NULL;
	if (hook)
		hook();
	int result = (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, 0);
	return atomic_exchange(&is_reply_lost, false) ? fail_with(ENOENT) : result;
}

int futimens(int fd, const struct timespec times[2])
{
	struct timespec now, late[2];
	void (*hook)(void) = times ? NULL : before_touch;

	if (touch_errno)
		return fail_with(touch_errno);
	if (hook) {
		before_touch = NULL;
		hook();
	}
	if (!times && late_at > 0 && atomic_fetch_sub(&late_at, 1) == 1) {
		syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
		now.tv_sec += late_s;
		late[0] = late[1] = now;
		times = late;
	}
	return (int)syscall(SYS_utimensat, fd, NULL, times, 0);
}

#endif
