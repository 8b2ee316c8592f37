/*
 * The store is read without its locks, while nodes work: a URI whose push ends in between
 * may be seen a last time, or for the last time not. Nothing is decided by a view.
 *
 * A URI runs where its lease is held. Without a lease manager, or until
 * it is known better, it runs if it has tasks in running/.
 */
#include "push/queue_view.h"

#include <sys/file.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "git/repo.h"
#include "push/outcome.h"
#include "push/push.h"
#include "push/view.h"

static json_t *requests_json(const struct queued_uri *uri)
{
	json_t *array = json_array();

	for (int i = 0; i < URI_REQUESTS; i++)
		if (uri->is_requested[i])
			json_array_append_new(array, json_string(uri_request_word(
							     (enum uri_request)i)));
	return array;
}

static void queue_view_json_put_failure(json_t *object, const struct err *failure)
{
	json_put(object, "failure",
		 failure->class == ERR_NONE ? json_null() : json_from_err(failure));
}

json_t *queued_uri_json(const struct queued_uri *uri)
{
	json_t *object = json_object();

	json_put_text(object, "state", queued_uri_word(uri));
	json_put_text(object, "key", uri->uri_key);
	json_put_text(object, "remote", uri->remote);
	json_put_text(object, "project", uri->project);
	json_put_text(object, "uri", uri->uri);
	json_put(object, "refs", json_texts(uri->refs.items, uri->refs.count));
	json_put(object, "tasks", json_texts(uri->keys.items, uri->keys.count));
	json_put_number(object, "waiting", (int64_t)uri->waiting);
	json_put_number(object, "running", (int64_t)uri->running);
	json_put(object, "requests", requests_json(uri));
	json_put_text(object, "node", uri->node[0] ? uri->node : NULL);
	json_put_time(object, "since", uri->since);
	json_put_time(object, "running_since", uri->running_since);
	json_put_time(object, "next_at", uri->next_at);
	json_put_number(object, "failures", (int64_t)uri->failures);
	json_put_time(object, "failing_since", uri->failing_since);
	queue_view_json_put_failure(object, &uri->failure);
	return object;
}

static json_t *failed_refs_json(const ref_failures *refs)
{
	json_t *array = json_array();

	for (size_t i = 0; i < refs->count; i++) {
		json_t *object = json_object();
		json_put_text(object, "ref", refs->items[i].ref);
		if (refs->items[i].text)
			json_put_message(object, "text", refs->items[i].text);
		else
			json_put(object, "text", json_null());
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *letter_json(const struct dead_letter *letter)
{
	json_t *object = json_object();

	json_put_text(object, "key", letter->key);
	json_put_text(object, "remote", letter->task.remote);
	json_put_text(object, "project", letter->task.project);
	json_put_text(object, "uri", letter->task.uri);
	json_put(object, "refs",
		 json_texts(letter->task.refs.items, letter->task.refs.count));
	json_put(object, "failed_refs", failed_refs_json(&letter->refs));
	json_put_time(object, "since", letter->since);
	json_put_time(object, "failed_at", letter->failed_at);
	queue_view_json_put_failure(object, &letter->why);
	return object;
}

json_t *queue_view_json(const struct queue_view *view)
{
	json_t *object = json_object(), *uris = json_array(), *letters = json_array();

	for (size_t i = 0; i < view->uris.count; i++)
		json_array_append_new(uris, queued_uri_json(&view->uris.items[i]));
	for (size_t i = 0; i < view->letters.count; i++)
		json_array_append_new(letters, letter_json(&view->letters.items[i]));
	json_put_time(object, "at", view->now);
	json_put(object, "nodes", json_texts(view->nodes.items, view->nodes.count));
	json_put(object, "queue", uris);
	json_put(object, "given_up", letters);
	json_put_number(object, "unreadable", (int64_t)view->unreadable.count);
	if (view->unreadable.count > 0)
		json_put_message(object, "unreadable_example", view->unreadable.example);
	else
		json_put(object, "unreadable_example", json_null());
	return object;
}

/*
 * <directory>/view-<random>, made whole by repo_make, and in it:
 *	lock		locked (flock) by who made it: without, it is a dead one's
 *	shallow		a copy of the repository's
 *	packed-refs	the refs
 * The objects are found by GIT_OBJECT_DIRECTORY: the view's own stay empty.
 */

#define PREFIX "view-"
#define SHALLOW_LIMIT ((size_t)256 << 20)
#define LEFT_AFTER_MS ((int64_t)10 * 60 * 1000) /* making one takes less */

static int take_lock(const char *path)
{
	AUTO_FREE char *name = xasprintf("%s/lock", path);
	AUTO_CLOSE int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0)
		return -1;
	return TAKE_FD(fd);
}

static int copy_shallow(const char *from, const char *to, struct err *err)
{
	AUTO_FREE char *source = xasprintf("%s/shallow", from);
	AUTO_FREE char *copy = xasprintf("%s/shallow", to);
	AUTO_STR struct str text = STR_INIT;

	if (file_read(AT_FDCWD, source, SHALLOW_LIMIT, &text, err) != 0) {
		if (err->class == ERR_MISSING)
			return 0;
		return outcome_is_local(err, from);
	}
	return file_replace(AT_FDCWD, copy, text.data, text.len, FILE_NO_SYNC, err);
}

int view_create(const char *directory, const char *repository, size_t oid_len,
		struct view *view, struct err *err)
{
	char random[17];

	*view = (struct view)VIEW_INIT;
	if (dir_make(AT_FDCWD, directory, err) != 0)
		return -1;
	random_hex(random, 8);
	view->path = xasprintf("%s/" PREFIX "%s", directory, random);
	if (repo_make(AT_FDCWD, view->path, oid_len, err) != 0)
		return -1;
	view->lock = take_lock(view->path);
	if (view->lock < 0)
		return err_errno(err, "cannot lock %s", view->path);
	return copy_shallow(repository, view->path, err);
}

int view_fill(struct view *view, const struct ref_snapshot *refs, struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/packed-refs", view->path);
	AUTO_STR struct str text = STR_INIT;

	ref_write_packed(refs, &text);
	return file_replace(AT_FDCWD, path, text.data, text.len, FILE_NO_SYNC, err);
}

static void remove_path(const char *path)
{
	struct err err;

	if (tree_remove(AT_FDCWD, path, &err) != 0)
		log_warn("push.view_left", LOG_TEXT("path", path), LOG_ERR(&err));
}

void view_remove(struct view *view)
{
	if (view->path)
		remove_path(view->path);
	if (view->lock >= 0)
		close(view->lock);
	free(view->path);
	*view = (struct view)VIEW_INIT;
}

static bool view_is_old(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
	       clock_wall_ms() - (int64_t)st.st_mtim.tv_sec * 1000 > LEFT_AFTER_MS;
}

static void sweep_one(const char *path)
{
	AUTO_CLOSE int lock = view_is_old(path) ? take_lock(path) : -1;

	if (lock >= 0)
		remove_path(path);
}

void view_sweep(const char *directory)
{
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *list = dir_list(AT_FDCWD, directory);

	while (list && (entry = readdir(list)) != NULL) {
		if (!text_starts_with(entry->d_name, PREFIX))
			continue;
		AUTO_FREE char *path = xasprintf("%s/%s", directory, entry->d_name);
		sweep_one(path);
	}
}

struct reading {
	struct queue_view *view;
	const struct push_settings *settings;
	struct map places; /* uri key -> its place in the view, from 1 */
	struct map
		running; /* those of struct listed_task in running/ by name, borrowed */
};

static void queued_uri_clear(struct queued_uri *uri)
{
	free(uri->uri);
	free(uri->remote);
	free(uri->project);
	text_list_clear(&uri->refs);
	text_list_clear(&uri->keys);
}

void queue_view_clear(struct queue_view *view)
{
	vec_clear_each(&view->uris, queued_uri_clear);
	dead_letters_clear(&view->letters);
	text_list_clear(&view->nodes);
	unreadable_clear(&view->unreadable);
	*view = (struct queue_view){ 0 };
}

static struct queued_uri *queue_view_find_uri(struct reading *reading,
					      const char *uri_key)
{
	uintptr_t place = (uintptr_t)map_get(&reading->places, uri_key);

	return place > 0 ? &reading->view->uris.items[place - 1] : NULL;
}

/* Who comes first gives remote and project. */
static struct queued_uri *find_or_add(struct reading *reading, const char *uri,
				      const char *remote, const char *project)
{
	struct queued_uri one = { 0 };
	struct queued_uri *found;

	uri_key_of(uri, one.uri_key);
	found = queue_view_find_uri(reading, one.uri_key);
	if (found)
		return found;
	one.uri = xstrdup(uri);
	one.remote = xstrdup(remote);
	one.project = xstrdup(project);
	vec_add(&reading->view->uris, one);
	map_put(&reading->places, one.uri_key, (void *)reading->view->uris.count);
	return &reading->view->uris.items[reading->view->uris.count - 1];
}

static void see_since(struct queued_uri *uri, int64_t since)
{
	if (uri->since == 0 || since < uri->since)
		uri->since = since;
}

/* What a task is called, whatever its file's name ends in. */
static char *queue_view_make_task_key(const char *name)
{
	return xstrndup(name, strlen(name) - (text_ends_with(name, ".json") ? 5 : 0));
}

/* One that was claimed while the store was read is met in both places. But the same
 * change may have come again since, and then its task waits for the next push. */
static const struct listed_task *same_that_runs(struct reading *reading,
						struct listed_task *one)
{
	if (!one->is_running)
		return map_get(&reading->running, one->name);
	map_put(&reading->running, one->name, one);
	return NULL;
}

static void see_task(struct reading *reading, struct listed_task *one)
{
	const struct task *task = &one->task;
	struct queued_uri *uri =
		find_or_add(reading, task->uri, task->remote, task->project);
	const struct listed_task *same = same_that_runs(reading, one);

	if (same && same->inode == one->inode)
		return;
	uri->waiting += !one->is_running;
	uri->running += one->is_running;
	see_since(uri, one->since);
	if (same)
		return;
	for (size_t i = 0; i < task->refs.count; i++)
		vec_add(&uri->refs, xstrdup(task->refs.items[i]));
	vec_add(&uri->keys, queue_view_make_task_key(one->name));
}

static int read_tasks(struct reading *reading, struct task_store *store, struct err *err)
{
	listed_tasks tasks = { 0 };
	int result = task_store_list(store, &tasks, &reading->view->unreadable, err);

	for (size_t i = 0; result == 0 && i < tasks.count; i++)
		see_task(reading, &tasks.items[i]);
	map_clear(&reading->running);
	listed_tasks_clear(&tasks);
	return result;
}

static void see_request(struct reading *reading, const struct requested *one)
{
	struct queued_uri *uri =
		find_or_add(reading, one->uri, one->remote, one->project);

	uri->is_requested[one->request] = true;
	see_since(uri, one->since);
}

/* By itself a permission asks for nothing. */
static bool is_of_use(struct reading *reading, const struct requested *permission)
{
	const struct queued_uri *uri = queue_view_find_uri(reading, permission->uri_key);

	return uri && (uri->is_requested[REQUEST_DELETE] ||
		       !uri_request_is_outdated(permission, reading->view->now));
}

static int queue_view_read_requests(struct reading *reading, struct task_store *store,
				    struct err *err)
{
	requested_list list = { 0 };
	int result = uri_request_list(store, &list, err);

	for (size_t i = 0; result == 0 && i < list.count; i++)
		if (list.items[i].request != REQUEST_FORCE)
			see_request(reading, &list.items[i]);
	for (size_t i = 0; result == 0 && i < list.count; i++)
		if (list.items[i].request == REQUEST_FORCE &&
		    is_of_use(reading, &list.items[i]))
			see_request(reading, &list.items[i]);
	requested_list_clear(&list);
	return result == 0 ? 0 : -1;
}

static int read_states(struct reading *reading, struct task_store *store, struct err *err)
{
	uri_states states = { 0 };
	int result = uri_state_list(store, &states, err);

	for (size_t i = 0; result == 0 && i < states.count; i++) {
		const struct uri_state *state = &states.items[i];
		char uri_key[URI_KEY_SIZE];
		struct queued_uri *uri;
		uri_key_of(state->uri, uri_key);
		uri = queue_view_find_uri(reading, uri_key);
		if (!uri)
			continue;
		snprintf(uri->node, sizeof(uri->node), "%.*s", (int)sizeof(uri->node) - 1,
			 state->node);
		if (!state->is_head || uri->keys.count == 0)
			uri->next_at = state->retry_at;
		if (state->failures == 0)
			continue;
		uri->failures = state->failures;
		uri->is_held = state->held_since > 0 && uri->is_requested[REQUEST_DELETE];
		uri->failing_since = state->failing_since;
		uri->failure = state->failure;
	}
	uri_states_clear(&states);
	return result;
}

/* Only where something may run: there is a lease for each URI that ever was. */
static int read_lease(struct lease_manager *leases, struct queued_uri *uri,
		      struct err *err)
{
	AUTO_FREE char *key = xasprintf(PUSH_URI_LEASE "%s", uri->uri_key);
	struct lease_holder holder;

	if (lease_inspect(leases, key, &holder, err) != 0)
		return err->class == ERR_MISSING ? 0 : -1;
	if (!push_holder_lives(&holder))
		return 0;
	uri->is_running = true;
	uri->running_since = holder.acquired_at;
	memcpy(uri->node, holder.node, sizeof(uri->node));
	return 0;
}

static int read_leases(struct reading *reading, struct task_store *store,
		       struct lease_manager *leases, struct err *err)
{
	struct queue_view *view = reading->view;

	for (size_t i = 0; i < view->uris.count; i++) {
		struct queued_uri *uri = &view->uris.items[i];
		if (!leases)
			uri->is_running = uri->running > 0;
		else if ((uri->running > 0 || uri->keys.count == 0) &&
			 read_lease(leases, uri, err) != 0)
			return -1;
	}
	return leases ? push_nodes_living(store, leases, &view->nodes, err) : 0;
}

/* What is pushed: each ref once, or all. */
static void join_refs(struct queued_uri *uri)
{
	text_list joined = { 0 };

	if (text_list_has(&uri->refs, TASK_ALL_REFS)) {
		text_list_clear(&uri->refs);
		vec_add(&uri->refs, xstrdup(TASK_ALL_REFS));
		return;
	}
	vec_sort(&uri->refs, text_list_order);
	for (size_t i = 0; i < uri->refs.count; i++)
		if (i == 0 || strcmp(uri->refs.items[i], uri->refs.items[i - 1]) != 0)
			vec_add(&joined, xstrdup(uri->refs.items[i]));
	text_list_clear(&uri->refs);
	uri->refs = joined;
}

/* The remote that pushes it now may be another one than its tasks say. */
static void judge_remote(const struct push_settings *settings, struct queued_uri *uri)
{
	struct err err = { 0 };
	AUTO_DESTINATION struct destination destination = { 0 };

	if (!settings)
		return;
	if (destination_find(settings, uri->remote, uri->project, uri->uri, &destination,
			     &err) != 0) {
		uri->is_orphan = err.class == ERR_MISSING;
	} else if (strcmp(destination.remote->name, uri->remote) != 0) {
		free(uri->remote);
		uri->remote = xstrdup(destination.remote->name);
	}
}

/* As the distributor does it, less the random part. A time that is ahead, by whatever
 * clock it was set, is now. */
static void schedule(const struct push_settings *settings, int64_t now,
		     struct queued_uri *uri)
{
	const struct push_remote *remote =
		settings ? push_remote_find(settings, uri->remote) : NULL;
	int64_t due = uri->since < now ? uri->since : now;

	if (uri->is_running || uri->is_orphan) {
		uri->next_at = 0;
		return;
	}
	if (remote && uri->keys.count > 0)
		due += push_delay_ms(settings, remote);
	if (uri->next_at < due)
		uri->next_at = due;
}

/* Running ones, then by when they are tried, at last those that never are. */
static int compare_uris(const void *one, const void *other)
{
	const struct queued_uri *a = one, *b = other;

	if (a->is_running != b->is_running)
		return a->is_running ? -1 : 1;
	if (a->is_orphan != b->is_orphan)
		return a->is_orphan ? 1 : -1;
	if (a->next_at != b->next_at)
		return a->next_at < b->next_at ? -1 : 1;
	if (a->since != b->since)
		return a->since < b->since ? -1 : 1;
	return strcmp(a->uri, b->uri);
}

static int queue_view_read_all(struct reading *reading, struct task_store *store,
			       struct lease_manager *leases, struct err *err)
{
	struct queue_view *view = reading->view;

	if (task_store_now(store, &view->now, err) != 0 ||
	    read_tasks(reading, store, err) != 0 ||
	    queue_view_read_requests(reading, store, err) != 0 ||
	    read_states(reading, store, err) != 0 ||
	    read_leases(reading, store, leases, err) != 0 ||
	    task_store_dead_letters(store, &view->letters, err) != 0 ||
	    task_store_unreadable(store, &view->unreadable, err) != 0)
		return -1;
	for (size_t i = 0; i < view->uris.count; i++) {
		join_refs(&view->uris.items[i]);
		judge_remote(reading->settings, &view->uris.items[i]);
		schedule(reading->settings, view->now, &view->uris.items[i]);
	}
	vec_sort(&view->uris, compare_uris);
	return 0;
}

int queue_view_read(struct task_store *store, struct lease_manager *leases,
		    const struct push_settings *settings, struct queue_view *view,
		    struct err *err)
{
	struct reading reading = { .view = view, .settings = settings };
	int result;

	*view = (struct queue_view){ 0 };
	result = queue_view_read_all(&reading, store, leases, err);
	map_clear(&reading.places);
	if (result != 0)
		queue_view_clear(view);
	return result;
}

const char *queued_uri_word(const struct queued_uri *uri)
{
	if (uri->is_running)
		return "running";
	if (uri->is_orphan)
		return "orphan";
	if (uri->is_held)
		return "held";
	return uri->failures > 0 ? "failing" : "waiting";
}

void queue_view_filter(struct queue_view *view, const struct queue_filter *filter)
{
	dead_letters kept = { 0 }, dropped = { 0 };
	size_t count = 0;

	for (size_t i = 0; i < view->uris.count; i++) {
		struct queued_uri *uri = &view->uris.items[i];
		if (push_remote_is_named(filter->remotes, uri->remote) &&
		    (!filter->failed_only || uri->failures > 0 || uri->is_orphan))
			view->uris.items[count++] = *uri;
		else
			queued_uri_clear(uri);
	}
	view->uris.count = count;
	for (size_t i = 0; i < view->letters.count; i++) {
		const struct dead_letter *letter = &view->letters.items[i];
		if (push_remote_is_named(filter->remotes, letter->task.remote))
			vec_add(&kept, *letter);
		else
			vec_add(&dropped, *letter);
	}
	vec_clear(&view->letters);
	view->letters = kept;
	dead_letters_clear(&dropped);
}

void queue_view_sum(const struct queue_view *view, const char *remote,
		    struct remote_sum *sum)
{
	*sum = (struct remote_sum){ .remote = remote };
	for (size_t i = 0; i < view->uris.count; i++) {
		const struct queued_uri *uri = &view->uris.items[i];
		if (uri->is_orphan || strcmp(uri->remote, remote) != 0)
			continue;
		sum->running += uri->is_running;
		sum->waiting += !uri->is_running;
		sum->failing += uri->failures > 0;
		if (uri->failures > 0 && !sum->example)
			sum->example = uri;
		if (sum->oldest == 0 || uri->since < sum->oldest)
			sum->oldest = uri->since;
	}
	for (size_t i = 0; i < view->letters.count; i++)
		sum->letters += strcmp(view->letters.items[i].task.remote, remote) == 0;
}

bool queue_view_knows_remote(const struct queue_view *view,
			     const struct push_settings *settings, const char *remote)
{
	if (push_remote_find(settings, remote))
		return true;
	for (size_t i = 0; view && i < view->uris.count; i++)
		if (strcmp(view->uris.items[i].remote, remote) == 0)
			return true;
	for (size_t i = 0; view && i < view->letters.count; i++)
		if (strcmp(view->letters.items[i].task.remote, remote) == 0)
			return true;
	return false;
}
