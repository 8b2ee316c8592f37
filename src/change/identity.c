#include "change/identity.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/file.h"
#include "replicable/discover.h"

char *identity_of(int dir, const char *path)
{
	struct statx st;

	if (statx(dir, path, AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &st) != 0)
		return NULL;
	if (!(st.stx_mask & STATX_BTIME))
		return xasprintf("%" PRIu64 " %x:%x", (uint64_t)st.stx_ino,
				 st.stx_dev_major, st.stx_dev_minor);
	return xasprintf("%" PRIu64 " %" PRId64 ".%09" PRIu32, (uint64_t)st.stx_ino,
			 (int64_t)st.stx_btime.tv_sec, st.stx_btime.tv_nsec);
}

int identity_find(const char *root, const char *identity, char **name, struct err *err)
{
	AUTO_DISCOVERY struct discovery discovery = { 0 };
	AUTO_CLOSE int fd = dir_open(AT_FDCWD, root, err);

	*name = NULL;
	if (fd < 0 || discover(root, &discovery, err) != 0)
		return -1;
	for (size_t i = 0; i < discovery.found.count && !*name; i++) {
		const struct discovered *one = &discovery.found.items[i];
		AUTO_FREE char *its = identity_of(fd, one->path);
		if (its && strcmp(its, identity) == 0)
			*name = xstrdup(one->name);
	}
	return *name != NULL;
}
