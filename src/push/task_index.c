#include "push/task_index.h"

#include "base/thread.h"
#include "push/task_parts.h"

void task_index_init(struct task_index *index)
{
	*index = (struct task_index){ 0 };
	mutex_init(&index->mutex);
	TAILQ_INIT(&index->changed);
}

static void free_task(struct known_task *task)
{
	free(task->name);
	free(task->remote);
	free(task->project);
	free(task);
}

static void free_uri(struct known_uri *uri)
{
	free(uri->uri);
	free(uri);
}

void task_index_clear(struct task_index *index)
{
	const struct map_entry *entry;

	for (size_t at = 0; (entry = map_next(&index->tasks, &at)) != NULL;)
		free_task(entry->value);
	for (size_t at = 0; (entry = map_next(&index->uris, &at)) != NULL;)
		free_uri(entry->value);
	map_clear(&index->tasks);
	map_clear(&index->uris);
	map_clear(&index->troubles);
	pthread_mutex_destroy(&index->mutex);
}

static void set_changed(struct task_index *index, struct known_uri *uri)
{
	if (uri->is_changed)
		return;
	uri->is_changed = true;
	TAILQ_INSERT_TAIL(&index->changed, uri, changed);
}

static struct known_uri *need_uri(struct task_index *index, const char *text)
{
	struct known_uri *uri = map_get(&index->uris, text);

	if (uri)
		return uri;
	uri = xcalloc(1, sizeof(*uri));
	uri->uri = xstrdup(text);
	uri_key_of(text, uri->key);
	LIST_INIT(&uri->tasks);
	map_put(&index->uris, text, uri);
	return uri;
}

static void drop_locked(struct task_index *index, const char *name)
{
	struct known_task *task = map_remove(&index->tasks, name);

	if (!task)
		return;
	LIST_REMOVE(task, of_uri);
	task->uri->count--;
	if (task->uri->oldest == task)
		task->uri->oldest = NULL;
	set_changed(index, task->uri);
	free_task(task);
}

bool task_index_knows(struct task_index *index, const char *name, uint64_t inode,
		      int64_t since)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&index->mutex);
	const struct known_task *task = map_get(&index->tasks, name);

	return task && task->inode == inode && (since == 0 || task->since == since);
}

void task_index_put(struct task_index *index, const char *name, const struct stat *st,
		    const struct task *from)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&index->mutex);
	struct known_task *task = xcalloc(1, sizeof(*task));
	bool is_oldest;

	drop_locked(index, name);
	map_remove(&index->troubles, name);
	task->name = xstrdup(name);
	task->remote = xstrdup(from->remote);
	task->project = xstrdup(from->project);
	task->inode = st->st_ino;
	task->since = stat_ms(st);
	task->birth = ++index->births;
	task->uri = need_uri(index, from->uri);
	is_oldest = task->uri->count == 0 ||
		    (task->uri->oldest && task->uri->oldest->since > task->since);
	if (is_oldest)
		task->uri->oldest = task;
	task->uri->count++;
	LIST_INSERT_HEAD(&task->uri->tasks, task, of_uri);
	map_put(&index->tasks, name, task);
	set_changed(index, task->uri);
}

void task_index_drop(struct task_index *index, const char *name, uint64_t births)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&index->mutex);
	const struct known_task *task = map_get(&index->tasks, name);

	map_remove(&index->troubles, name);
	if (task && task->birth <= births)
		drop_locked(index, name);
}

void task_index_names(struct task_index *index, const char *uri, store_names *names)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&index->mutex);
	const struct known_uri *known = map_get(&index->uris, uri);
	const struct known_task *task;

	if (!known)
		return;
	LIST_FOREACH(task, &known->tasks, of_uri)
	vec_add(names, xstrdup(task->name));
}

uint64_t task_index_births(struct task_index *index)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&index->mutex);

	return index->births;
}

static void drop_unmet_locked(struct task_index *index, uint64_t births)
{
	store_names gone = { 0 };
	const struct map_entry *entry;

	for (size_t at = 0; (entry = map_next(&index->tasks, &at)) != NULL;) {
		const struct known_task *task = entry->value;
		if (task->round != index->rounds && task->birth <= births)
			vec_add(&gone, task->name);
	}
	for (size_t i = 0; i < gone.count; i++)
		drop_locked(index, gone.items[i]);
	vec_clear(&gone);
}

void task_index_compare(struct task_index *index, const listed_names *listed,
			const char *texts, uint64_t births, listed_names *unknown)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&index->mutex);
	size_t met = 0;

	index->rounds++;
	for (size_t i = 0; i < listed->count; i++) {
		struct listed_name one = listed->items[i];
		struct known_task *task = map_get(&index->tasks, texts + one.at);
		if (task) {
			task->round = index->rounds;
			met++;
		}
		if (!task || task->inode != one.inode)
			vec_add(unknown, one);
	}
	if (met < index->tasks.count)
		drop_unmet_locked(index, births);
}

static struct known_task *oldest_locked(struct known_uri *uri)
{
	struct known_task *task;

	if (uri->oldest)
		return uri->oldest;
	LIST_FOREACH(task, &uri->tasks, of_uri)
	if (!uri->oldest || task->since < uri->oldest->since)
		uri->oldest = task;
	return uri->oldest;
}

struct told {
	char *uri, *remote, *project; /* owned */
	char key[URI_KEY_SIZE];
	size_t tasks;
	int64_t since;
};

static struct told tell_locked(struct known_uri *uri)
{
	const struct known_task *oldest = oldest_locked(uri);
	struct told told = { .uri = xstrdup(uri->uri),
			     .remote = xstrdup(oldest ? oldest->remote : ""),
			     .project = xstrdup(oldest ? oldest->project : ""),
			     .tasks = uri->count,
			     .since = oldest ? oldest->since : 0 };

	memcpy(told.key, uri->key, sizeof(told.key));
	return told;
}

/* The next URI that changed; false: no more. */
static bool next_told(struct task_index *index, struct told *told)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&index->mutex);
	struct known_uri *uri = TAILQ_FIRST(&index->changed);

	if (!uri)
		return false;
	TAILQ_REMOVE(&index->changed, uri, changed);
	uri->is_changed = false;
	*told = tell_locked(uri);
	if (uri->count == 0) {
		map_remove(&index->uris, uri->uri);
		free_uri(uri);
	}
	return true;
}

void task_index_report(struct task_index *index, waiting_uri_seen seen, void *arg)
{
	struct told told;

	if (!seen)
		return;
	while (next_told(index, &told)) {
		struct waiting_uri waiting = { .uri = told.uri,
					       .uri_key = told.key,
					       .remote = told.remote,
					       .project = told.project,
					       .tasks = told.tasks,
					       .since = told.since };
		seen(arg, &waiting);
		free(told.uri);
		free(told.remote);
		free(told.project);
	}
}

bool task_index_trouble(struct task_index *index, const char *name)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&index->mutex);

	return map_put(&index->troubles, name, index) == NULL;
}
