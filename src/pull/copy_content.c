#include "pull/copy_content.h"

#include "base/file.h"
#include "verify/verify_derived.h"

/* What has vanished, or cannot be looked at, is for others to find. */
static bool was_stamped(int dir, const char *name, int64_t since_ns)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	       (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec > since_ns;
}

static bool copy_content_is_temporary(const char *name)
{
	return text_starts_with(name, "tmp_") || text_starts_with(name, ".tmp-");
}

static bool is_folder_sound(const struct repo *copy, const char *folder, int64_t since_ns,
			    const struct stop *stop)
{
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *list = dir_list(copy->fd, folder);

	while (list && (entry = readdir(list)) != NULL)
		if (!copy_content_is_temporary(entry->d_name) &&
		    was_stamped(dirfd(list), entry->d_name, since_ns) &&
		    !verify_ends_with_digest(dirfd(list), entry->d_name, copy->oid_len,
					     stop))
			return false;
	return true;
}

bool copy_content_is_sound(const struct repo *copy, int64_t since_ns,
			   const struct stop *stop)
{
	static const char *const folders[] = { "objects/pack", "objects/info",
					       "objects/info/commit-graphs",
					       "objects/pack/multi-pack-index.d" };

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (!is_folder_sound(copy, folders[i], since_ns, stop))
			return false;
	return true;
}
