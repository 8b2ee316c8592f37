/*
 * The refs of a task are names only: what is pushed is read when it is pushed. So any
 * number of changes of one ref are one task, and who knows less asks for more: a change
 * whose old state is not known, or that has too many names, becomes a task for all refs.
 *
 * Nodes that share a tree each see the same change. The first leaves a digest of what it
 * saw, after its tasks are durable; who sees the same later has nothing to add.
 */
#include "push/sink.h"

#include "base/failpoint.h"
#include "base/hash.h"
#include "base/thread.h"
#include "git/refs.h"
#include "push/push_parts.h"
#include "push/task_list.h"
#include "push/uri_state.h"

#define NAMES_MAX 500
#define DIGEST_SIZE 65

struct push_sink {
	pthread_mutex_t mutex;
	struct push_settings *settings; /* a reference; guarded by mutex */
	struct task_store *store;
};

#define AUTO_PUSH_SETTINGS __attribute__((cleanup(settings_unref)))

static void settings_unref(struct push_settings **settings)
{
	push_settings_unref(*settings);
}

struct push_sink *push_sink_new(struct task_store *store, struct push_settings *settings)
{
	struct push_sink *sink = xcalloc(1, sizeof(*sink));

	mutex_init(&sink->mutex);
	sink->store = store;
	sink->settings = push_settings_ref(settings);
	return sink;
}

void push_sink_free(struct push_sink *sink)
{
	if (!sink)
		return;
	push_settings_unref(sink->settings);
	pthread_mutex_destroy(&sink->mutex);
	free(sink);
}

static struct push_settings *settings_now(struct push_sink *sink)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&sink->mutex);

	return push_settings_ref(sink->settings);
}

void push_sink_set(struct push_sink *sink, struct push_settings *settings)
{
	AUTO_PUSH_SETTINGS struct push_settings *before = NULL;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&sink->mutex);

	before = sink->settings;
	sink->settings = push_settings_ref(settings);
}

/* One change on its way into the store. */
struct taking {
	struct task_store *store;
	const struct push_settings *settings;
	const struct change *change;
	bool is_all, is_head;
	VEC(const char *) names; /* that differ; borrowed; not with is_all */
	new_tasks tasks;
};

/* Of the step, not of where it ends: another node that came there from elsewhere made its
 * tasks for other refs. */
static void push_sink_compute_digest(const struct taking *taking,
				     char digest[DIGEST_SIZE])
{
	const char *before = taking->change->before;
	const char *checksum = taking->change->checksum;
	AUTO_STR struct str text = STR_INIT;
	AUTO_STR struct str hex = STR_INIT;

	str_addf(&text, "%s%c%s%c%s", before ? before : "none", 0,
		 checksum ? checksum : "deleted", 0, taking->settings->digest);
	hash_add_hex(HASH_SHA256, text.data, text.len, (DIGEST_SIZE - 1) / 2, &hex);
	memcpy(digest, hex.data, DIGEST_SIZE);
}

static bool push_sink_names(const struct taking *taking, const char *ref)
{
	for (size_t i = 0; i < taking->names.count; i++)
		if (strcmp(taking->names.items[i], ref) == 0)
			return true;
	return false;
}

/* A symbolic ref is pushed as the value of what it names, and moves with that. Those that
 * name another one come with the next round. */
static void push_sink_add_symbolic(struct taking *taking)
{
	const struct ref_snapshot *after = taking->change->after;
	size_t before;

	do {
		before = taking->names.count;
		for (size_t i = 0; i < after->refs.count; i++) {
			const struct ref *ref = &after->refs.items[i];
			if (ref->target && push_sink_names(taking, ref->target) &&
			    !push_sink_names(taking, ref->name))
				vec_add(&taking->names, ref->name);
		}
	} while (taking->names.count > before);
}

static void find_names(struct taking *taking)
{
	const struct change *change = taking->change;
	const struct ref_diff *diff = change->diff;

	if (!change->after)
		return;
	if (!diff || change->what == EVENT_CREATED) {
		taking->is_all = true;
		taking->is_head =
			change->what != EVENT_CREATED; /* who makes it sets it */
		return;
	}
	taking->is_head = diff->head_changed;
	taking->is_all = diff->changes.count > NAMES_MAX;
	for (size_t i = 0; i < diff->changes.count && !taking->is_all; i++)
		vec_add(&taking->names, diff->changes.items[i].name);
	if (!taking->is_all)
		push_sink_add_symbolic(taking);
}

static void make_task(const struct destination *destination, struct task *task)
{
	*task = (struct task){ .project = xstrdup(destination->project),
			       .uri = xstrdup(destination->uri),
			       .remote = xstrdup(destination->remote->name) };
}

/* While HEAD names refs/meta/config, a repository may be left out, and its tasks are done
 * without a push. Whether it did before, not even the last HEAD tells: another may have
 * come in between. */
static bool push_sink_needs_all(const struct taking *taking,
				const struct push_remote *remote)
{
	return taking->is_all || (taking->is_head && !remote->replicates_permissions &&
				  !push_remote_leaves_out_permissions(
					  remote, taking->change->after->head_target));
}

/* None, if the remote takes none of the refs. */
static void push_sink_make_task(struct taking *taking,
				const struct destination *destination)
{
	struct new_task new = { .since_ms = 0 };

	make_task(destination, &new.task);
	bool is_all = push_sink_needs_all(taking, destination->remote);
	if (is_all)
		vec_add(&new.task.refs, xstrdup(TASK_ALL_REFS));
	for (size_t i = 0; i < taking->names.count && !is_all; i++)
		if (push_remote_takes_ref(destination->remote, taking->names.items[i]))
			vec_add(&new.task.refs, xstrdup(taking->names.items[i]));
	if (new.task.refs.count > 0)
		vec_add(&taking->tasks, new);
	else
		task_clear(&new.task);
}

/* Together: a push that has ended at one destination is told as done everywhere if no
 * task for another is there. */
static int push_sink_add_tasks(struct taking *taking, struct err *err)
{
	struct new_task *tasks = taking->tasks.items;
	size_t count = taking->tasks.count;
	bool is_new;

	if (count == 0)
		return 0;
	if (count == 1 ? task_store_add(taking->store, &tasks[0].task, 0, &is_new, err)
		       : task_store_add_all(taking->store, tasks, count, err))
		return -1;
	failpoint("sink.task");
	return 0;
}

/* A permission from before is not for this deletion. One that is beside it may be: so it
 * goes first, and stays if another node has asked for the same. */
static int add_deletion(const struct taking *taking,
			const struct destination *destination, struct err *err)
{
	struct requested before = { 0 };
	int found;

	if (!destination->remote->replicates_deletions)
		return 0;
	found = uri_request_get(taking->store, destination->uri_key, REQUEST_DELETE,
				&before, err);
	requested_clear(&before);
	if (found < 0 ||
	    (found == 0 && uri_request_remove(taking->store, destination->uri_key,
					      REQUEST_FORCE, err) != 0))
		return -1;
	/* one that is there may not be on disk yet */
	return uri_request_add(taking->store, destination, REQUEST_DELETE, err);
}

/* A deletion that is still asked for is not of what is there now, nor is a permission. */
static int withdraw_deletion(const struct taking *taking,
			     const struct destination *destination, struct err *err)
{
	if (taking->change->diff || !destination->remote->replicates_deletions)
		return 0;
	if (uri_request_remove(taking->store, destination->uri_key, REQUEST_DELETE,
			       err) != 0)
		return -1;
	return uri_request_remove(taking->store, destination->uri_key, REQUEST_FORCE,
				  err);
}

/* Whether it is to be deleted there, or else is not any more. */
static int settle_deletion(const struct taking *taking,
			   const struct destination *destination, struct err *err)
{
	return taking->change->after ? withdraw_deletion(taking, destination, err)
				     : add_deletion(taking, destination, err);
}

static int push_sink_add_all(struct taking *taking, const destination_list *list,
			     struct err *err)
{
	int result = 0;

	find_names(taking);
	for (size_t i = 0; i < list->count && result == 0; i++)
		result = settle_deletion(taking, &list->items[i], err);
	for (size_t i = 0; i < list->count && taking->change->after; i++)
		push_sink_make_task(taking, &list->items[i]);
	if (result == 0)
		result = push_sink_add_tasks(taking, err);
	for (size_t i = 0; i < list->count && taking->is_head && result == 0; i++)
		result = uri_request_add(taking->store, &list->items[i], REQUEST_HEAD,
					 err);
	new_tasks_clear(&taking->tasks);
	vec_clear(&taking->names);
	return result;
}

/* What is not pushed since it may be old says nothing to other nodes. */
static int push_sink_take_change(void *arg, const struct change *change, struct err *err)
{
	struct push_sink *sink = arg;
	AUTO_PUSH_SETTINGS struct push_settings *settings = settings_now(sink);
	struct taking taking = { .store = sink->store,
				 .settings = settings,
				 .change = change };
	AUTO_DESTINATIONS destination_list list = { 0 };
	char digest[DIGEST_SIZE];

	if (change->is_first_observation)
		return 0;
	destinations_of(settings, change->name, &list);
	push_sink_compute_digest(&taking, digest);
	if (list.count == 0 || (change->is_scanned &&
				task_store_was_seen(sink->store, change->name, digest)))
		return 0;
	if (push_sink_add_all(&taking, &list, err) != 0)
		return -1;
	task_store_note_seen(sink->store, change->name, digest);
	return 0;
}

struct change_sink push_sink_as_change_sink(struct push_sink *sink)
{
	return (struct change_sink){ .take = push_sink_take_change, .arg = sink };
}

/* A task that is as old as its remote has it wait is due. */
static int since_of(struct task_store *store, const struct push_settings *settings,
		    const struct push_remote *remote, int64_t *since, struct err *err)
{
	if (task_store_now(store, since, err) != 0)
		return -1;
	*since -= push_delay_ms(settings, remote) + settings->random_ms + 1;
	return 0;
}

struct starting {
	struct task_store *store;
	const struct push_settings *settings;
	const struct push_start_filter *filter;
	new_tasks tasks;
};

static int start_destination(struct starting *starting,
			     const struct destination *destination, struct err *err)
{
	const struct push_start_filter *filter = starting->filter;
	struct new_task new = { .since_ms = 0 };

	if (!push_remote_is_named(filter->remotes, destination->remote->name) ||
	    (filter->url && !destination_matches_url(destination, filter->url)))
		return 0;
	if (filter->now && since_of(starting->store, starting->settings,
				    destination->remote, &new.since_ms, err) != 0)
		return -1;
	make_task(destination, &new.task);
	vec_add(&new.task.refs, xstrdup(TASK_ALL_REFS));
	vec_add(&starting->tasks, new);
	return 0;
}

static int start_one(struct starting *starting, const char *project, struct err *err)
{
	AUTO_DESTINATIONS destination_list list = { 0 };
	int result = 0;

	destinations_of(starting->settings, project, &list);
	for (size_t i = 0; i < list.count && result == 0; i++)
		result = start_destination(starting, &list.items[i], err);
	return result;
}

int push_start_repositories(struct task_store *store,
			    const struct push_settings *settings,
			    const text_list *projects,
			    const struct push_start_filter *filter, text_list *keys,
			    struct err *err)
{
	struct starting starting = { store, settings, filter, { 0 } };
	int result = 0;

	for (size_t i = 0; i < projects->count && result == 0; i++)
		result = start_one(&starting, projects->items[i], err);
	if (result == 0)
		result = task_store_add_all(store, starting.tasks.items,
					    starting.tasks.count, err);
	for (size_t i = 0; i < starting.tasks.count && result == 0; i++) {
		char key[TASK_KEY_SIZE];
		task_key(&starting.tasks.items[i].task, key);
		vec_add(keys, xstrdup(key));
	}
	new_tasks_clear(&starting.tasks);
	return result;
}

int push_hurry(struct task_store *store, const struct push_settings *settings,
	       struct task *task, struct err *err)
{
	AUTO_DESTINATION struct destination destination = { 0 };
	int64_t since;

	if (destination_find(settings, task->remote, task->project, task->uri,
			     &destination, err) != 0)
		return err->class == ERR_MISSING ? 0 : -1; /* an orphan */
	if (since_of(store, settings, destination.remote, &since, err) != 0)
		return -1;
	return task_store_hurry(store, task, since, err);
}
