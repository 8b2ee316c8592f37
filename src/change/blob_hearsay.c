/*
 * A file that is being written is not looked at before it is closed: then it is whole, as
 * far as anybody can tell. One that is only linked is never closed, so its second name
 * counts at once.
 */
#include "change/blob_hearsay.h"

#include <stdalign.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>

#include "base/file.h"
#include "blob/walk.h"

#define BUFFER_SIZE 65536

void blob_paths_clear(blob_paths *paths)
{
	for (size_t i = 0; i < paths->count; i++)
		free(paths->items[i]);
	vec_clear(paths);
}

void blob_heard_clear(struct blob_heard *heard)
{
	blob_paths_clear(&heard->ids);
	blob_paths_clear(&heard->directories);
	heard->is_lost = false;
}

static int order(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void blob_hint_settle_paths(blob_paths *paths)
{
	size_t kept = 0;

	vec_sort(paths, order);
	for (size_t i = 0; i < paths->count; i++) {
		if (kept > 0 && strcmp(paths->items[kept - 1], paths->items[i]) == 0)
			free(paths->items[i]);
		else
			paths->items[kept++] = paths->items[i];
	}
	paths->count = kept;
}

void blob_hearsay_settle(struct blob_heard *heard)
{
	blob_hint_settle_paths(&heard->ids);
	blob_hint_settle_paths(&heard->directories);
}

static bool has_other_name(const struct blob_kind *kind, const char *id)
{
	AUTO_FREE char *path = xasprintf("%s/%s", kind->path, id);
	struct stat st;

	return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink > 1;
}

static void hear_name(struct blob_directories *all, const struct blob_directory *in,
		      const struct blob_kind *kind, const struct inotify_event *event,
		      const char *name, struct blob_heard *heard)
{
	AUTO_FREE char *path = xasprintf("%s%s%s", in->path, *in->path ? "/" : "", name);
	size_t index = in->kind;

	if (blob_walk_leaves_out(in->path, name))
		return;
	if (event->mask & IN_ISDIR) {
		if (event->mask & (IN_MOVED_FROM | IN_DELETE))
			blob_directories_drop(all, index, path);
		vec_add(&heard->directories, TAKE(path));
	} else if (!(event->mask & IN_CREATE) || has_other_name(kind, path)) {
		vec_add(&heard->ids, TAKE(path));
	}
}

static void lose_all(const struct blob_kinds *kinds, struct blob_heard *heard)
{
	for (size_t i = 0; i < kinds->items.count; i++)
		heard[i].is_lost = true;
}

static void blob_hint_take_event(struct blob_directories *all,
				 const struct blob_kinds *kinds,
				 const struct inotify_event *event, const char *name,
				 struct blob_heard *heard)
{
	const struct blob_directory *in = blob_directories_find(all, event->wd);

	if (event->mask & IN_Q_OVERFLOW)
		lose_all(kinds, heard);
	if (!in)
		return;
	if (event->mask & (IN_IGNORED | IN_UNMOUNT | IN_DELETE_SELF | IN_MOVE_SELF)) {
		/* Of others their parents tell. */
		if (!*in->path || (event->mask & IN_UNMOUNT))
			heard[in->kind].is_lost = true;
		if (event->mask & IN_IGNORED)
			blob_directories_forget(all, event->wd);
	} else if (event->len > 0) {
		hear_name(all, in, &kinds->items.items[in->kind], event, name,
			  &heard[in->kind]);
	}
}

/* Not what others go on to change: or it might never end. */
void blob_hearsay_read(struct blob_directories *all, const struct blob_kinds *kinds,
		       struct blob_heard *heard)
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
			blob_hint_take_event(all, kinds, &event,
					     buffer + at + sizeof(event), heard);
		}
		left -= (int)len;
	}
}
