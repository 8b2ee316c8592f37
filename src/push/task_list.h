/*
 * The content of the task store, read now, for views and commands.
 */
#ifndef PUSH_TASK_LIST_H
#define PUSH_TASK_LIST_H

#include <pthread.h>
#include <sys/queue.h>
#include <sys/stat.h>

#include "base/map.h"
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

/* Files that are not tasks, or cannot be read: their number, each once. */
struct unreadable {
	size_t count;
	size_t kept; /* of them: may be tasks, but cannot be read now */
	char example[256];
	/* Inodes of those in waiting/: a node may set them aside meanwhile. */
	VEC(ino_t) waiting;
};
void unreadable_clear(struct unreadable *unreadable);

/* All waiting and running tasks, read now, by URI. Files that cannot be read, or are not
 * tasks and that nodes have not yet set aside, are added to `unreadable` (may be NULL).
 */
int task_store_list(struct task_store *store, listed_tasks *tasks,
		    struct unreadable *unreadable, struct err *err);

/* Adds those that were set aside. */
int task_store_unreadable(struct task_store *store, struct unreadable *unreadable,
			  struct err *err);

/* Removes the files that were set aside, and those in waiting/ that are not tasks. */
int task_store_drop_unreadable(struct task_store *store, size_t *dropped,
			       struct err *err);

/* Puts what the URI's tasks are for, TASK_ALL_REFS too, into a map without meaning of its
 * values: of those that wait, as far as this process has read the directory, or run. */
void task_store_add_refs(struct task_store *store, const char *uri, struct map *refs);

/* Whether the task is in waiting/ or running/. */
int task_store_has(struct task_store *store, const char *key, bool *has, struct err *err);
/* Whether it is in waiting/. */
int task_store_waits(struct task_store *store, const char *key, bool *waits,
		     struct err *err);

/*
 * An index of waiting/: each name with its URI, and each URI with its names. In memory
 * only; the directory is the truth, and a wrong entry costs a failed rename. Any thread.
 * Private to push/.
 */

struct known_task {
	LIST_ENTRY(known_task) of_uri;
	struct known_uri *uri;
	char *name, *remote, *project; /* owned */
	uint64_t inode;
	int64_t since;
	uint64_t birth; /* greater than those of all entries before */
	uint64_t round; /* the last listing that had it */
};

struct known_uri {
	LIST_HEAD(, known_task) tasks;
	TAILQ_ENTRY(known_uri) changed;
	size_t count;
	struct known_task *oldest; /* NULL: to be found */
	bool is_changed;           /* since it was last reported */
	char *uri;                 /* owned */
	char key[URI_KEY_SIZE];
};

struct task_index {
	pthread_mutex_t mutex; /* guards all, and the store's listing */
	struct map tasks;      /* by name */
	struct map uris;
	struct map troubles; /* names that could not be read, and were logged */
	struct map troubled; /* those of them since the last refresh */
	TAILQ_HEAD(, known_uri) changed;
	uint64_t births, rounds;
};

void task_index_init(struct task_index *index);
void task_index_clear(struct task_index *index);

/* Whether the name is in the index with this inode and, unless `since` is 0, this
 * time. */
bool task_index_knows(struct task_index *index, const char *name, uint64_t inode,
		      int64_t since);

void task_index_put(struct task_index *index, const char *name, const struct stat *st,
		    const struct task *task);

/* The name was found missing, by a check that began after birth number `births`: an entry
 * put since is another file. */
void task_index_drop(struct task_index *index, const char *name, uint64_t births);

/* Appends the names of a URI's waiting tasks. */
void task_index_names(struct task_index *index, const char *uri, text_list *names);

/* The number of the last birth: later ones may be missing from a listing that begins
 * now. */
uint64_t task_index_births(struct task_index *index);

/* Applies a listing that began after birth number `births`: drops entries that are not in
 * it, and appends to *unknown names that are new, or whose file is another one now. */
struct listed_name {
	size_t at; /* in `texts` */
	uint64_t inode;
};
typedef VEC(struct listed_name) listed_names;
void task_index_compare(struct task_index *index, const listed_names *listed,
			const char *texts, uint64_t births, listed_names *unknown);

/* Reports each URI that changed since its last report, without holding the mutex. */
void task_index_report(struct task_index *index, waiting_uri_seen seen, void *arg);

/* Whether this is the first trouble with the name; remembers it, and that there is one.
 */
bool task_index_trouble(struct task_index *index, const char *name);

#endif
