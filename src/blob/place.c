/*
 * A rename works within one mount only. New files for what is on another mount below the
 * root wait at the top of that, in ".refrelay-incoming"; so that they are found again
 * when nobody came to finish them, a link in PLACE_INCOMING remembers the place. It is
 * only read, never followed.
 */
#include "blob/place.h"

#include <fcntl.h>
#include <sys/sysmacros.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/str.h"

#define BESIDE OWN_FOLDER "-incoming"
#define TRIES 3

enum { OPEN_DIRECTORY = O_RDONLY | O_DIRECTORY | O_CLOEXEC };

const char *place_name(const char *id)
{
	const char *slash = strrchr(id, '/');

	return slash ? slash + 1 : id;
}

static char *parent_of(const char *id)
{
	const char *name = place_name(id);

	return xstrndup(id, name > id ? (size_t)(name - id - 1) : 0);
}

static int place_fail_in_the_way(const char *id, const char *what, struct err *err)
{
	err_set(err, ERR_CONFLICT, "%s: %s is in the way", id, what);
	return err_remedy(err, "move it away");
}

static int parent_failed(const char *id, struct err *err)
{
	if (errno == ENOTDIR || errno == ELOOP || errno == EXDEV)
		return place_fail_in_the_way(id, "a file or a symbolic link above it",
					     err);
	return err_errno(err, "cannot open the directory of %s", id);
}

/* What is refrelay's own is for us alone: in the trash, directories do not keep others
 * out as those did from which the files came. */
static int make_below(int dir, const char *part)
{
	mode_t mode = text_starts_with(part, OWN_FOLDER) ? 0700 : 0777;

	if (mkdirat(dir, part, mode) != 0 && errno != EEXIST)
		return -1;
	return openat(dir, part, OPEN_DIRECTORY | O_NOFOLLOW);
}

static int make_parent(int root, const char *id)
{
	int fd = openat(root, ".", OPEN_DIRECTORY);

	while (fd >= 0 && strchr(id, '/')) {
		AUTO_CLOSE int above = fd;
		AUTO_FREE char *part = xstrndup(id, strcspn(id, "/"));
		fd = make_below(above, part);
		id += strlen(part) + 1;
	}
	return fd;
}

int place_open_parent(int root, const char *id, struct err *err)
{
	AUTO_FREE char *parent = parent_of(id);
	int fd = path_open_beneath(root, parent, OPEN_DIRECTORY);

	/* again when an emptied one is taken away just then */
	for (int i = 0; i < TRIES && fd < 0 && errno == ENOENT; i++)
		fd = make_parent(root, id);
	return fd >= 0 ? fd : parent_failed(id, err);
}

int place_check(int root, const char *id, struct stat *old, struct err *err)
{
	AUTO_FREE char *parent = parent_of(id);
	AUTO_CLOSE int dir = path_open_beneath(root, parent, O_PATH | O_DIRECTORY);

	*old = (struct stat){ 0 };
	if (dir < 0)
		return errno == ENOENT ? 0 : parent_failed(id, err);
	if (fstatat(dir, place_name(id), old, AT_SYMLINK_NOFOLLOW) != 0) {
		*old = (struct stat){ 0 };
		return errno == ENOENT ? 0 : err_errno(err, "cannot look at %s", id);
	}
	if (S_ISREG(old->st_mode))
		return 0;
	if (!S_ISDIR(old->st_mode))
		return place_fail_in_the_way(id, "something other than a regular file",
					     err);
	*old = (struct stat){ 0 };
	if (unlinkat(dir, place_name(id), AT_REMOVEDIR) != 0 && errno != ENOENT)
		return place_fail_in_the_way(id, "a directory", err);
	return 0;
}

struct mount {
	unsigned major, minor;
	uint64_t id; /* 0 before Linux 5.8 */
};

static bool mount_of(int root, const char *path, struct mount *mount)
{
	struct statx st;

	if (statx(root, path, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
		  STATX_TYPE | STATX_MNT_ID, &st) != 0)
		return false;
	*mount = (struct mount){ st.stx_dev_major, st.stx_dev_minor,
				 st.stx_mask & STATX_MNT_ID ? st.stx_mnt_id : 0 };
	return true;
}

static bool mount_equal(const struct mount *a, const struct mount *b)
{
	return a->major == b->major && a->minor == b->minor && a->id == b->id;
}

/* Cuts the path to the last directory in it that is there; "" is. */
static void cut_to_present(int root, char *path, struct mount *mount)
{
	while (!mount_of(root, path, mount) && *path) {
		char *slash = strrchr(path, '/');
		path[slash ? slash - path : 0] = '\0';
	}
}

char *place_of_incoming(int root, const char *id)
{
	struct mount top = { 0 }, here = { 0 }, above;
	AUTO_FREE char *path = parent_of(id);

	if (!mount_of(root, "", &top))
		return xstrdup(PLACE_INCOMING);
	cut_to_present(root, path, &here);
	if (mount_equal(&here, &top))
		return xstrdup(PLACE_INCOMING);
	for (char *slash; (slash = strrchr(path, '/')) != NULL;) {
		*slash = '\0';
		if (mount_of(root, path, &above) && mount_equal(&above, &here))
			continue;
		*slash = '/';
		break;
	}
	return xasprintf("%s/" BESIDE, path);
}

/* For us alone: what waits there may be for few to read. */
static int make_own(int root, const char *place)
{
	AUTO_CLOSE int above = make_parent(root, place);

	if (above < 0 ||
	    (mkdirat(above, place_name(place), 0700) != 0 && errno != EEXIST))
		return -1;
	return openat(above, place_name(place), OPEN_DIRECTORY | O_NOFOLLOW);
}

static int place_remember_incoming(int root, const char *place)
{
	AUTO_STR struct str name = STR_INIT;
	AUTO_CLOSE int dir = path_open_beneath(root, PLACE_INCOMING, OPEN_DIRECTORY);

	if (dir < 0)
		dir = make_own(root, PLACE_INCOMING);
	if (dir < 0)
		return -1;
	str_add(&name, PLACE_LINK_PREFIX);
	hash_add_hex(HASH_SHA256, place, strlen(place), 8, &name);
	return symlinkat(place, dir, name.data) == 0 || errno == EEXIST ? 0 : -1;
}

int place_open_incoming(int root, const char *place, struct err *err)
{
	int fd = path_open_beneath(root, place, OPEN_DIRECTORY);

	for (int i = 0; i < TRIES && fd < 0 && errno == ENOENT; i++)
		fd = make_own(root, place);
	if (fd >= 0 && strcmp(place, PLACE_INCOMING) != 0 &&
	    place_remember_incoming(root, place) != 0) {
		close(fd);
		fd = -1;
	}
	if (fd >= 0)
		return fd;
	err_errno(err, "cannot make the directory %s", place);
	if (err->class == ERR_MISSING)
		err->class = ERR_DISK;
	return -1;
}

void place_remove_empty(int root, const char *id)
{
	AUTO_FREE char *path = parent_of(id);

	while (*path) {
		AUTO_FREE char *above = parent_of(path);
		AUTO_CLOSE int dir = path_open_beneath(root, above, O_PATH | O_DIRECTORY);
		if ((dir < 0 || unlinkat(dir, place_name(path), AT_REMOVEDIR) != 0) &&
		    errno != ENOENT)
			return;
		path[strlen(above)] = '\0';
	}
}
