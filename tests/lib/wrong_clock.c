/*
 * To be preloaded: wall time is wrong by $WRONG_CLOCK seconds in the process alone, or by
 * as many as the file of that absolute path says at the moment, and everything else is as
 * it is. libfaketime moves the times that are given to files, too,
 * which are a file server's.
 *
 * $WRONG_FILE_CLOCK, in the same way, is the clock of a file server: what is touched is
 * touched at its time, and whoever touches a file and looks sees that.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long wrong_by(const char *wrong)
{
	char text[24] = "";

	if (wrong[0] != '/')
		return strtol(wrong, NULL, 10);
	int fd = open(wrong, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		abort();
	close(fd);
	return strtol(text, NULL, 10);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	const char *wrong = getenv("WRONG_CLOCK");
	int result = (int)syscall(SYS_clock_gettime, clock, now);

	if (result == 0 && wrong &&
	    (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		now->tv_sec += wrong_by(wrong);
	return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec precise;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &precise);
	*now = (struct timeval){ precise.tv_sec, precise.tv_nsec / 1000 };
	return 0;
}

time_t time(time_t *now)
{
	struct timespec precise;

	clock_gettime(CLOCK_REALTIME, &precise);
	if (now)
		*now = precise.tv_sec;
	return precise.tv_sec;
}

static _Thread_local int touched_fd = -1;
static _Thread_local struct timespec touched_at;

int futimens(int fd, const struct timespec times[2])
{
	const char *wrong = getenv("WRONG_FILE_CLOCK");
	struct timespec now[2];

	if (times || !wrong)
		return (int)syscall(SYS_utimensat, fd, NULL, times, 0);
	syscall(SYS_clock_gettime, CLOCK_REALTIME, &now[0]);
	now[0].tv_sec += wrong_by(wrong);
	touched_at = now[1] = now[0];
	touched_fd = fd;
	return (int)syscall(SYS_utimensat, fd, NULL, now, 0);
}

/* Others may have changed the directory meanwhile, by the kernel's clock. */
int fstat(int fd, struct stat *st)
{
	int result = fstatat(fd, "", st, AT_EMPTY_PATH);

	if (result == 0 && fd == touched_fd)
		st->st_mtim = touched_at;
	touched_fd = -1;
	return result;
}
