/*
 * Watches are on inodes. A directory that was moved still has its watch when it is added
 * under its new path: then it gets the new path.
 *
 * A file that is being written is not looked at before it is closed: then it is whole, as
 * far as anybody can tell. One that is only linked is never closed, so its second name
 * counts at once.
 */
#include "change/blob_hints.h"

#include <stdalign.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>

#include "base/file.h"
#include "blob/walk.h"
#include "git/inotify.h"

#define BUFFER_SIZE 65536
/* IN_CREATE of a file counts only where it is another name of one that is whole. */
#define CHANGES                                                                          \
	(IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CREATE |          \
	 IN_DELETE_SELF | IN_MOVE_SELF)
#define CHANGES_COPY (CHANGES | IN_MODIFY | IN_ATTRIB)

int blob_directories_open(struct blob_directories *all, enum blob_scope scope,
			  size_t limit, struct err *err)
{
	*all = (struct blob_directories){ .scope = scope,
					  .limit = limit ? limit : inotify_share() };
	all->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	return all->fd >= 0 ? 0 : err_errno(err, "cannot watch directories of blobs");
}

void blob_directories_close(struct blob_directories *all)
{
	vec_clear_members(&all->items, path);
	if (all->fd >= 0)
		close(all->fd);
	all->fd = -1;
}

static size_t place_of(const struct blob_directories *all, int wd)
{
	size_t low = 0, high = all->items.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (all->items.items[middle].wd < wd)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* NULL: not known (any more). */
static struct blob_directory *blob_directories_find(struct blob_directories *all, int wd)
{
	size_t at = place_of(all, wd);

	if (at == all->items.count || all->items.items[at].wd != wd)
		return NULL;
	return &all->items.items[at];
}

/* Descriptors rise: nearly always at the end. */
static void blob_directories_insert(struct blob_directories *all,
				    struct blob_directory one)
{
	size_t at = place_of(all, one.wd);
	struct blob_directory *items;

	vec_add(&all->items, one);
	items = all->items.items;
	memmove(&items[at + 1], &items[at], (all->items.count - 1 - at) * sizeof(*items));
	items[at] = one;
}

static void blob_directories_put(struct blob_directories *all, int wd, size_t kind,
				 const char *path)
{
	struct blob_directory *known = blob_directories_find(all, wd);

	if (known && known->kind == kind && strcmp(known->path, path) == 0)
		return;
	if (!known) {
		blob_directories_insert(
			all, (struct blob_directory){ wd, kind, xstrdup(path) });
		return;
	}
	free(known->path);
	known->path = xstrdup(path);
	known->kind = kind;
}

static int say_limit(struct err *err)
{
	err_set(err, ERR_INTERNAL,
		"too many directories of blobs to watch: changes are found by the scan");
	return err_remedy(err, "raise the sysctl fs.inotify.max_user_watches");
}

/* Opened as the walk does, by no link below the kind's directory. */
static int blob_directories_open_one(const char *root, const char *path, struct err *err)
{
	AUTO_FREE char *whole = xasprintf("%s%s%s", root, *path ? "/" : "", path);
	int fd = open(whole,
		      O_RDONLY | O_DIRECTORY | O_CLOEXEC | (*path ? O_NOFOLLOW : 0));

	return fd >= 0 ? fd : err_errno(err, "cannot open directory %.300s", whole);
}

int blob_directories_add(struct blob_directories *all, size_t kind, const char *root,
			 const char *path, struct err *err)
{
	const uint32_t changes = all->scope == BLOB_COPY ? CHANGES_COPY : CHANGES;
	AUTO_CLOSE int fd = blob_directories_open_one(root, path, err);
	char name[32];

	if (fd < 0)
		return -1;
	if (!file_system_is_local(fd))
		return err_set(err, ERR_CONFIG, "other hosts write this file system");
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	int wd =
		all->fd < 0 ? -1 : inotify_add_watch(all->fd, name, changes | IN_ONLYDIR);
	if (wd < 0)
		return all->fd < 0 || errno == ENOSPC
			       ? say_limit(err)
			       : err_errno(err, "cannot watch directory %.300s", path);
	if (!blob_directories_find(all, wd) && all->items.count >= all->limit) {
		inotify_rm_watch(all->fd, wd);
		return say_limit(err);
	}
	blob_directories_put(all, wd, kind, path);
	return 0;
}

/* The kernel has dropped it. */
static void blob_directories_forget(struct blob_directories *all, int wd)
{
	size_t at = place_of(all, wd);
	struct blob_directory *items = all->items.items;

	if (at == all->items.count || items[at].wd != wd)
		return;
	free(items[at].path);
	memmove(&items[at], &items[at + 1], (all->items.count - at - 1) * sizeof(*items));
	all->items.count--;
}

/* The directory is away, with all below it. In one pass: there may be many. */
static void blob_directories_drop(struct blob_directories *all, size_t kind,
				  const char *path)
{
	struct blob_directory *items = all->items.items;
	size_t kept = 0;

	for (size_t i = 0; i < all->items.count; i++) {
		if (items[i].kind != kind || !path_is_within(items[i].path, path)) {
			items[kept++] = items[i];
			continue;
		}
		inotify_rm_watch(all->fd, items[i].wd); /* it may be gone by itself */
		free(items[i].path);
	}
	all->items.count = kept;
}

void blob_hints_clear(struct blob_hints *hints)
{
	text_list_clear(&hints->ids);
	text_list_clear(&hints->directories);
	hints->is_lost = false;
}

static void blob_hints_settle_paths(text_list *paths)
{
	size_t kept = 0;

	vec_sort(paths, text_list_order);
	for (size_t i = 0; i < paths->count; i++) {
		if (kept > 0 && strcmp(paths->items[kept - 1], paths->items[i]) == 0)
			free(paths->items[i]);
		else
			paths->items[kept++] = paths->items[i];
	}
	paths->count = kept;
}

void blob_hints_settle(struct blob_hints *hints)
{
	blob_hints_settle_paths(&hints->ids);
	blob_hints_settle_paths(&hints->directories);
}

static bool has_other_name(const char *root, const char *id)
{
	AUTO_FREE char *path = xasprintf("%s/%s", root, id);
	struct stat st;

	return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink > 1;
}

static void blob_hints_take_name(struct blob_directories *all,
				 const struct blob_directory *in,
				 const struct inotify_event *event, const char *name,
				 struct blob_hints *hints)
{
	AUTO_FREE char *path = xasprintf("%s%s%s", in->path, *in->path ? "/" : "", name);
	size_t index = in->kind;

	if (blob_walk_leaves_out(in->path, name))
		return;
	if (event->mask & IN_ISDIR) {
		if (event->mask & (IN_MOVED_FROM | IN_DELETE))
			blob_directories_drop(all, index, path);
		vec_add(&hints->directories, TAKE(path));
	} else if (!(event->mask & IN_CREATE) || has_other_name(hints->root, path)) {
		vec_add(&hints->ids, TAKE(path));
	}
}

static void blob_hints_take_event(struct blob_directories *all,
				  const struct inotify_event *event, const char *name,
				  blob_hints_list *hints)
{
	const struct blob_directory *in = blob_directories_find(all, event->wd);

	if (event->mask & IN_Q_OVERFLOW)
		for (size_t i = 0; i < hints->count; i++)
			hints->items[i].is_lost = true;
	if (!in)
		return;
	if (event->mask & (IN_IGNORED | IN_UNMOUNT | IN_DELETE_SELF | IN_MOVE_SELF)) {
		/* Of others their parents tell. */
		if (!*in->path || (event->mask & IN_UNMOUNT))
			hints->items[in->kind].is_lost = true;
		if (event->mask & IN_IGNORED)
			blob_directories_forget(all, event->wd);
	} else if (event->len > 0) {
		blob_hints_take_name(all, in, event, name, &hints->items[in->kind]);
	}
}

/* Not what others go on to change: or it might never end. */
void blob_hints_read(struct blob_directories *all, blob_hints_list *hints)
{
	alignas(struct inotify_event) static _Thread_local char buffer[BUFFER_SIZE];
	struct inotify_event event;
	int left = 0;

	if (all->fd < 0 || ioctl(all->fd, FIONREAD, &left) != 0)
		return;
	while (left > 0) {
		ssize_t len = read(all->fd, buffer, sizeof(buffer));
		if (len <= 0)
			return;
		for (size_t at = 0; at < (size_t)len; at += sizeof(event) + event.len) {
			memcpy(&event, buffer + at, sizeof(event));
			blob_hints_take_event(all, &event, buffer + at + sizeof(event),
					      hints);
		}
		left -= (int)len;
	}
}
