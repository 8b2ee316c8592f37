/*
 * The kernel resolves each link beneath the repository, so that none is taken for good
 * that leads out by way of another. Files below objects/ are never written through a
 * link: git makes them under another name first. Logs are.
 */
#include "serve/receive_places.h"

#include <linux/openat2.h>
#include <sys/syscall.h>

#include "base/file.h"
#include "base/str.h"

enum {
	DEPTH = 64, /* of folders in each other, each of which takes a descriptor */
	LINK_DEPTH = DEPTH / 2 + 1, /* so no more than one link is on the way */
};

static const char *const names[] = {
	"HEAD", "packed-refs", "shallow",  "objects",
	"refs", "logs",        "refrelay", "refrelay/state"
};

/* Git writes below these under names that clients choose. */
static const char *const trees[] = { "refs", "logs" };

static int receive_places_refuse(const char *path, struct err *err)
{
	err_set(err, ERR_CONFIG,
		"%s is a link that leads out of the repository: pushes would write there",
		path);
	return err_remedy(err, "put what it leads to into the repository; what is only "
			       "read may stay elsewhere, by objects/info/alternates");
}

/* What is not there is made by git at its place, or not at all. Kernels before Linux 5.6
 * and some containers do not know the call: there any link is refused. */
static int check_link(int top, const char *path, struct err *err)
{
	const struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};
	AUTO_CLOSE int fd = (int)syscall(SYS_openat2, top, path, &how, sizeof(how));

	if (fd >= 0 || errno == ENOENT || errno == ENOTDIR)
		return 0;
	if (errno == EXDEV || errno == ELOOP || errno == ENOSYS || errno == EPERM)
		return receive_places_refuse(path, err);
	return err_errno(err, "cannot tell where %s leads", path);
}

static bool is_kind(int dir, const char *name, int flags, mode_t kind)
{
	struct stat st;

	return fstatat(dir, name, &st, flags) == 0 && (st.st_mode & S_IFMT) == kind;
}

static bool receive_places_is_link(int dir, const struct dirent *entry)
{
	if (entry->d_type != DT_UNKNOWN)
		return entry->d_type == DT_LNK;
	return is_kind(dir, entry->d_name, AT_SYMLINK_NOFOLLOW, S_IFLNK);
}

static bool is_folder(int dir, const struct dirent *entry)
{
	return entry->d_type == DT_DIR || is_kind(dir, entry->d_name, 0, S_IFDIR);
}

struct place {
	int top; /* the repository */
	const char *path;
	bool is_tree;
	int depth; /* how many more folders may be in each other */
};

static int receive_places_check_folder(const struct place *place, struct err *err);

static int receive_places_check_entry(const struct place *place, int dir,
				      const struct dirent *entry, struct err *err)
{
	if (entry->d_type == DT_REG || strcmp(entry->d_name, ".") == 0 ||
	    strcmp(entry->d_name, "..") == 0)
		return 0;
	AUTO_FREE char *inner = xasprintf("%s/%s", place->path, entry->d_name);
	bool follows = receive_places_is_link(dir, entry);
	if (follows && check_link(place->top, inner, err) != 0)
		return -1;
	if (!place->is_tree || !is_folder(dir, entry))
		return 0;
	return receive_places_check_folder(
		&(struct place){ .top = place->top,
				 .path = inner,
				 .is_tree = true,
				 .depth = place->depth - (follows ? LINK_DEPTH : 1) },
		err);
}

/* By links, too, as git goes there. */
static DIR *list_of(const struct place *place)
{
	int fd = openat(place->top, place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);

	if (!list && fd >= 0)
		close(fd);
	return list;
}

static int receive_places_check_folder(const struct place *place, struct err *err)
{
	AUTO_CLOSEDIR DIR *list = list_of(place);
	struct dirent *entry;

	if (!list)
		return errno == ENOENT
			       ? 0
			       : err_errno(err, "cannot list directory %s", place->path);
	if (place->depth < 0) {
		err_set(err, ERR_CONFIG, "%s is reached by links or too deep",
			place->path);
		return err_remedy(err, "put plain directories there");
	}
	while ((entry = readdir(list)) != NULL)
		if (receive_places_check_entry(place, dirfd(list), entry, err) != 0)
			return -1;
	return 0;
}

/* All that the repository has is read and written there. */
static int check_common(int top, struct err *err)
{
	struct stat st;

	if (fstatat(top, "commondir", &st, AT_SYMLINK_NOFOLLOW) != 0)
		return 0;
	err_set(err, ERR_CONFIG, "it has a file commondir: pushes would write elsewhere");
	return err_remedy(err, "push to the repository to which this one belongs; or "
			       "remove the file, if it is one by itself");
}

int receive_places_check(int dir, struct err *err)
{
	if (check_common(dir, err) != 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (is_kind(dir, names[i], AT_SYMLINK_NOFOLLOW, S_IFLNK) &&
		    check_link(dir, names[i], err) != 0)
			return -1;
	for (size_t i = 0; i < ARRAY_SIZE(trees); i++)
		if (receive_places_check_folder(&(struct place){ .top = dir,
								 .path = trees[i],
								 .is_tree = true,
								 .depth = DEPTH },
						err) != 0)
			return -1;
	return receive_places_check_folder(
		&(struct place){ .top = dir, .path = "objects" }, err);
}
