#include "change/identity.h"

#include <fcntl.h>
#include <sys/stat.h>

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
