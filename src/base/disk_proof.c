/*
 * A disk is full before its last byte is: copies and the database need some room to do
 * anything at all. So a little more is reserved than is written.
 */
#include "base/disk_proof.h"

#include "base/file.h"

enum { ROOM = 64 * 1024, WRITTEN = 4096 };

/* Without O_TMPFILE (some file systems) it has a name for a moment. */
static int disk_proof_open_nameless(const char *directory)
{
	AUTO_FREE char *path = xasprintf("%s/.refrelay-proof.XXXXXX", directory);
	int fd = open(directory, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
		return fd;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0)
		unlink(path);
	return fd;
}

int disk_prove(const char *directory, struct err *err)
{
	static const char zeros[WRITTEN];
	AUTO_CLOSE int fd = disk_proof_open_nameless(directory);

	if (fd < 0)
		return err_errno(err, "cannot write to %s", directory);
	errno = posix_fallocate(fd, 0, ROOM);
	if (errno != 0)
		return err_errno(err, "cannot write to %s", directory);
	if (pwrite(fd, zeros, sizeof(zeros), 0) != (ssize_t)sizeof(zeros) ||
	    fdatasync(fd) != 0)
		return err_errno(err, "cannot write to %s", directory);
	return 0;
}
