/*
 * Files in the task store that are no tasks.
 */
#include "push/task_list.h"
#include "push/task_parts.h"

void unreadable_add(struct unreadable *unreadable, const char *path, const char *name)
{
	if (unreadable->count++ == 0)
		snprintf(unreadable->example, sizeof(unreadable->example), "%s/%s", path,
			 name);
}

int task_store_unreadable(struct task_store *store, struct unreadable *unreadable,
			  struct err *err)
{
	AUTO_NAMES store_names names = { 0 };
	AUTO_CLOSE int dir = store_dir(store, UNREADABLE, err);

	if (dir < 0 || store_list_files(dir, &names, err) != 0)
		return -1;
	for (size_t i = 0; i < names.count; i++)
		unreadable_add(unreadable, store->paths[UNREADABLE], names.items[i]);
	return 0;
}

static bool is_unreadable(int dir, const char *name)
{
	AUTO_TASK struct task task = { 0 };
	struct stat st;
	struct err err;

	return store_read_task(dir, name, &task, &st, &err) != 0 && is_no_task(&err);
}

static int drop_from(struct task_store *store, enum store_place place, size_t *dropped,
		     struct err *err)
{
	AUTO_NAMES store_names names = { 0 };
	AUTO_CLOSE int dir = store_dir(store, place, err);

	if (dir < 0 || store_list_files(dir, &names, err) != 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		if (place == WAITING && !is_unreadable(dir, names.items[i]))
			continue;
		if (unlinkat(dir, names.items[i], 0) == 0)
			(*dropped)++;
		else if (errno != ENOENT)
			return err_errno(err, "cannot remove %s/%s", store->paths[place],
					 names.items[i]);
	}
	return 0;
}

int task_store_drop_unreadable(struct task_store *store, size_t *dropped, struct err *err)
{
	*dropped = 0;
	if (drop_from(store, WAITING, dropped, err) != 0)
		return -1;
	return drop_from(store, UNREADABLE, dropped, err);
}
