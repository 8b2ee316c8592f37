/*
 * In this order: the content of all is on disk; then, by one rename each, all have their
 * names; then the names are on disk. A crash between leaves old files or new ones, and
 * temporary ones that are resumed or expire.
 */
#include <assert.h>
#include <fcntl.h>

#include "base/failpoint.h"
#include "blob/flush.h"
#include "blob/incoming.h"
#include "blob/incoming_parts.h"
#include "blob/place.h"

#define TRIES 3

/* Those on one file system. */
struct group {
	VEC(struct blob_arrival *) items;
	VEC(int) files;
	enum flush_way way;
};

static void blob_arrivals_mark_failed(struct blob_arrival *arrival, const struct err *why)
{
	arrival->failed = true;
	arrival->why = *why;
}

/* Who could not read the old file cannot read the new one; but we must. */
static int blob_arrivals_prepare(struct blob_arrival *arrival, struct err *err)
{
	struct blob_incoming *incoming = arrival->incoming;
	struct stat old;

	if (incoming->is_broken)
		return err_set(err, ERR_DISK, "%s could not be written", incoming->id);
	if (incoming->used > 0 && incoming_store(incoming, err) != 0)
		return -1;
	if (place_check(incoming->root, incoming->id, &old, err) != 0)
		return -1;
	if ((old.st_mode & S_IRUSR) && fchmod(incoming->fd, old.st_mode & 0777) != 0)
		return err_errno(err, "cannot set the mode of %s", incoming->id);
	return 0;
}

static int try_rename(const struct blob_incoming *incoming, struct err *err)
{
	AUTO_CLOSE int from =
		path_open_beneath(incoming->root, incoming->place, O_PATH | O_DIRECTORY);
	AUTO_CLOSE int to = place_open_parent(incoming->root, incoming->id, err);

	if (to < 0)
		return -1;
	if (from >= 0 &&
	    renameat(from, incoming->name, to, place_name(incoming->id)) == 0)
		return 0;
	err_errno(err, "cannot move %s into place", incoming->id);
	if (err->sys_errno == EISDIR)
		err->class = ERR_CONFLICT;
	return -1;
}

/* Again, when the directory was taken away as an empty one just then. */
static int move_into_place(struct blob_arrival *arrival, struct err *err)
{
	struct stat st;
	int result = -1;

	*err = (struct err){ .class = ERR_MISSING };
	for (int i = 0; i < TRIES && result != 0 && err->class == ERR_MISSING; i++)
		result = try_rename(arrival->incoming, err);
	if (result != 0)
		return -1;
	failpoint("blob.renamed");
	if (fstat(arrival->incoming->fd, &st) != 0)
		return err_errno(err, "cannot look at %s", arrival->incoming->id);
	blob_print_of(&st, &arrival->print);
	return 0;
}

/* With a log or a whole file system, the last name takes all others along. */
static int flush_names(int root, const struct group *group, struct err *err)
{
	bool is_done = false;

	for (size_t i = group->items.count; i > 0 && !is_done; i--) {
		const struct blob_arrival *arrival = group->items.items[i - 1];
		if (arrival->failed)
			continue;
		if (flush_name(root, arrival->incoming->id, group->way, err) != 0)
			return -1;
		is_done = group->way != FLUSH_EACH;
	}
	return 0;
}

static int commit_group(int root, struct group *group, struct err *err)
{
	assert(group->files.items); /* at least one */
	group->way = flush_way_for(group->files.items[0], group->files.count);
	if (flush_data(group->files.items, group->files.count, group->way, err) != 0)
		return -1;
	failpoint("blob.synced");
	for (size_t i = 0; i < group->items.count; i++) {
		struct err why;
		if (move_into_place(group->items.items[i], &why) != 0)
			blob_arrivals_mark_failed(group->items.items[i], &why);
	}
	return flush_names(root, group, err);
}

/* Those from `first` on that are on the same file system as that one. */
static void blob_arrivals_collect_group(blob_arrivals *arrivals, size_t first,
					bool *is_taken, struct group *group)
{
	dev_t device = arrivals->items[first].incoming->device;

	for (size_t i = first; i < arrivals->count; i++) {
		struct blob_arrival *arrival = &arrivals->items[i];
		if (is_taken[i] || arrival->incoming->device != device)
			continue;
		is_taken[i] = true;
		vec_add(&group->items, arrival);
		vec_add(&group->files, arrival->incoming->fd);
	}
}

static int commit_all(int root, blob_arrivals *arrivals, struct err *err)
{
	AUTO_FREE bool *is_taken = xcalloc(arrivals->count + 1, sizeof(*is_taken));
	int result = 0;

	for (size_t i = 0; i < arrivals->count; i++)
		is_taken[i] = arrivals->items[i].failed;
	for (size_t i = 0; i < arrivals->count && result == 0; i++) {
		struct group group = { 0 };
		if (is_taken[i])
			continue;
		blob_arrivals_collect_group(arrivals, i, is_taken, &group);
		result = commit_group(root, &group, err);
		vec_clear(&group.items);
		vec_clear(&group.files);
	}
	return result;
}

int blob_arrivals_commit(int root, blob_arrivals *arrivals, struct err *err)
{
	int result;

	for (size_t i = 0; i < arrivals->count; i++) {
		struct err why;
		arrivals->items[i].failed = false;
		arrivals->items[i].print = (struct blob_print){ 0 };
		if (blob_arrivals_prepare(&arrivals->items[i], &why) != 0)
			blob_arrivals_mark_failed(&arrivals->items[i], &why);
	}
	result = commit_all(root, arrivals, err);
	for (size_t i = 0; i < arrivals->count; i++) {
		struct blob_incoming *incoming = TAKE(arrivals->items[i].incoming);
		if (arrivals->items[i].print.inode != 0)
			incoming_free(incoming, INCOMING_IN_PLACE);
		else
			blob_incoming_close(incoming, false);
	}
	return result;
}
