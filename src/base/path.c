#include "base/path.h"

#include <linux/openat2.h>
#include <sys/syscall.h>

#include "base/str.h"

#define PATH_LIMIT 1024
#define PART_LIMIT 250

static bool has_control(const char *path)
{
	for (; *path; path++)
		if ((unsigned char)*path < 0x20 || *path == 0x7f)
			return true;
	return false;
}

static const char *part_fault(const char *part, size_t len)
{
	if (len == 0)
		return "a part of it is empty";
	if ((len == 1 && part[0] == '.') ||
	    (len == 2 && part[0] == '.' && part[1] == '.'))
		return "a part of it is \".\" or \"..\"";
	return len > PART_LIMIT ? "a part of it has more than 250 bytes" : NULL;
}

const char *path_fault(const char *path)
{
	const char *fault = NULL;
	size_t len = 0;

	if (!text_is_utf8(path, strlen(path)))
		return "it is not UTF-8";
	if (has_control(path))
		return "it has control characters";
	if (strlen(path) > PATH_LIMIT)
		return "it has more than 1024 bytes";
	do {
		len = strcspn(path, "/");
		fault = part_fault(path, len);
		path += len + 1;
	} while (!fault && path[-1] == '/');
	return fault;
}

/* O_DIRECTORY hides from errno that the last one was a link. */
static int path_open_part(int dir, const char *part)
{
	int fd = openat(dir, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char target[1];

	if (fd < 0 && errno == ENOTDIR)
		errno = readlinkat(dir, part, target, sizeof(target)) < 0 ? ENOTDIR
									  : ELOOP;
	return fd;
}

/* For kernels before Linux 5.6, and containers whose filter does not know the call. */
static int path_open_by_parts(int root, const char *path, int flags)
{
	int fd = openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	while (fd >= 0 && strchr(path, '/')) {
		AUTO_CLOSE int parent = fd;
		AUTO_FREE char *part = xstrndup(path, strcspn(path, "/"));
		fd = path_open_part(parent, part);
		path += strlen(part) + 1;
	}
	AUTO_CLOSE int last = fd;
	return last < 0 ? -1 : openat(last, path, flags | O_NOFOLLOW);
}

int path_open_beneath(int root, const char *path, int flags)
{
	const char *name = *path ? path : ".";
	const struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC),
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, root, name, &how, sizeof(how));

	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		return path_open_by_parts(root, name, flags | O_CLOEXEC);
	return (int)fd;
}
