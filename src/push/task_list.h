/*
 * What is in the task store, read now, for views and commands.
 */
#ifndef PUSH_TASK_LIST_H
#define PUSH_TASK_LIST_H

#include "push/task_store.h"

struct listed_task {
	char name[72];
	bool is_running;
	int64_t since;
	uint64_t inode; /* the same wherever it is moved */
	struct task task;
};
typedef VEC(struct listed_task) listed_tasks;
void listed_tasks_clear(listed_tasks *tasks);

/* Files that are no tasks. */
struct unreadable {
	size_t count;
	char example[256];
};

/* All that waits and runs, read now, by URI. What is no task and was not set aside yet,
 * as no node has looked since, is added to `unreadable` (may be NULL). */
int task_store_list(struct task_store *store, listed_tasks *tasks,
		    struct unreadable *unreadable, struct err *err);

/* Adds those that were set aside. */
int task_store_unreadable(struct task_store *store, struct unreadable *unreadable,
			  struct err *err);

/* Removes those that were set aside, and those in waiting/. */
int task_store_drop_unreadable(struct task_store *store, size_t *dropped,
			       struct err *err);

/* Whether a task for that ref, or for all, waits for the URI, as far as this process has
 * read the directory, or runs. */
bool task_store_covers(struct task_store *store, const char *uri, const char *ref);

/* Whether the task is in waiting/ or running/. */
int task_store_has(struct task_store *store, const char *key, bool *has, struct err *err);

#endif
