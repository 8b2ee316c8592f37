/*
 * A task has an end when its file is in neither waiting/ nor running/, and no other task
 * of the URI stands for what is left of it: after a push that not all refs came through,
 * those that are tried again are a task of their own, which is followed from there on.
 * Such a push leaves a failure in the state of the URI, with which all its tasks wait; so
 * only where there is one the store is listed.
 *
 * What end it was is known once whoever worked on the URI has let go of its lease, since
 * what is recorded of a failure is written before that, and taken away by a success: a
 * dead letter that is younger than the start, or a state that tells of a failure.
 */
#include <fcntl.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/map.h"
#include "cli/cli.h"
#include "cli/push.h"
#include "git/git_child.h"
#include "push/dead_letters.h"
#include "push/destination.h"
#include "push/push.h"
#include "push/push_parts.h"
#include "push/select.h"
#include "push/sink.h"
#include "push/task_list.h"
#include "replicable/locate.h"

/* A destination's `..all..` task, and later perhaps one with what was left of it. */
struct started {
	char key[TASK_KEY_SIZE];
	char uri_key[URI_KEY_SIZE];
	const struct push_remote *remote; /* of the settings */
	char *project, *uri, *host;       /* owned */
	char *ref;                        /* only this is waited for; NULL: all; owned */
	bool is_gone, is_discarded, is_settled, is_ended, has_failed;
	uint64_t gone_fence;  /* of the URI's lease when it was first seen gone */
	int64_t discarded_at; /* before it was seen there */
};
typedef VEC(struct started) started_list;

struct waiting {
	struct push_call *call;
	started_list *list;
	int64_t started_at; /* by the store's clock; nothing older counts */
	uri_states before;  /* how the destinations were then */
};

enum {
	LOOK_FIRST_MS = 20,
	LOOK_LAST_MS = 500,
	LOOK_MAX_MS = 5000, /* where looking itself takes long */
};

static void started_list_clear(started_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		free(list->items[i].project);
		free(list->items[i].uri);
		free(list->items[i].host);
		free(list->items[i].ref);
	}
	vec_clear(list);
}

/* Reads what was before; clear it in any case. */
static int waiting_begin(struct waiting *waiting, struct err *err)
{
	struct task_store *tasks = waiting->call->push.tasks;

	if (task_store_now(tasks, &waiting->started_at, err) != 0)
		return -1;
	return uri_state_list(tasks, &waiting->before, err);
}

static void waiting_clear(struct waiting *waiting)
{
	uri_states_clear(&waiting->before);
}

static const struct uri_state *state_before(const struct waiting *waiting,
					    const struct started *one)
{
	for (size_t i = 0; i < waiting->before.count; i++)
		if (strcmp(waiting->before.items[i].uri, one->uri) == 0)
			return &waiting->before.items[i];
	return NULL;
}

static void push_wait_report_task(struct started *one, const char *failure,
				  const char *how)
{
	one->is_ended = true;
	one->has_failed = failure != NULL;
	cli_print("Replicate %s refs %s to %s, %s! (%s)", one->project,
		  one->ref ? one->ref : TASK_ALL_REFS, one->host,
		  failure ? "FAILED" : "Succeeded", failure ? failure : how);
	fflush(stdout);
}

static bool covers(const struct task *task, const char *ref)
{
	return !ref || task_is_all(task) || text_list_has(&task->refs, ref);
}

/* What was given up of a whole push may be other refs. */
static bool is_about(const struct dead_letter *letter, const struct started *one)
{
	if (strcmp(letter->task.uri, one->uri) != 0)
		return false;
	for (size_t i = 0; one->ref && i < letter->refs.count; i++)
		if (strcmp(letter->refs.items[i].ref, one->ref) == 0)
			return true;
	return !one->ref || (letter->refs.count == 0 && covers(&letter->task, one->ref));
}

static const struct dead_letter *find_letter(const struct waiting *waiting,
					     const struct started *one,
					     const dead_letters *letters)
{
	for (size_t i = 0; i < letters->count; i++) {
		const struct dead_letter *letter = &letters->items[i];
		if (letter->failed_at >= waiting->started_at && is_about(letter, one))
			return letter;
	}
	return NULL;
}

/* A success leaves no failure behind, but that of HEAD, and then its time. So one that
 * stands as it was before says that the task went without having been tried. */
static const char *failure_of(const struct waiting *waiting, const struct started *one,
			      const struct uri_state *state)
{
	const struct uri_state *before;

	if (state->failures == 0)
		return NULL;
	before = state_before(waiting, one);
	if (before && state->is_head && before->last_success_at != state->last_success_at)
		return NULL;
	if (before && before->failures == state->failures &&
	    before->failing_since == state->failing_since)
		return "discarded";
	return state->failure.text;
}

enum rest { REST_NONE, REST_OTHERS, REST_OURS };

/* A task that stands for it is followed from here on. */
static enum rest find_rest(struct started *one, const listed_tasks *tasks)
{
	enum rest rest = REST_NONE;

	for (size_t i = 0; i < tasks->count; i++) {
		const struct listed_task *task = &tasks->items[i];
		if (strcmp(task->task.uri, one->uri) != 0)
			continue;
		rest = REST_OTHERS;
		if (!covers(&task->task, one->ref))
			continue;
		snprintf(one->key, sizeof(one->key), "%s", task->name);
		one->is_gone = one->is_discarded = one->is_settled = false;
		return REST_OURS;
	}
	return rest;
}

/* It is looked for twice: one that goes from running/ back to waiting/ may be missed, but
 * not again when it has a time to wait for. */
static int look_for_rest(struct waiting *waiting, struct started *one, enum rest *rest,
			 struct err *err)
{
	*rest = REST_NONE;
	for (int i = 0; i < 2 && *rest != REST_OURS; i++) {
		listed_tasks tasks = { 0 };
		if (task_store_list(waiting->call->push.tasks, &tasks, NULL, err) != 0)
			return -1;
		*rest = find_rest(one, &tasks);
		listed_tasks_clear(&tasks);
	}
	return 0;
}

/* What is skipped is done, like what was pushed. By what is on disk now. That a remote
 * leaves out what it is told to is no failure of a start for all; but it does not have
 * the commit. */
static void report_gone(const struct waiting *waiting, struct started *one)
{
	const char *repositories = waiting->call->push.site.repositories;
	const char *cut = NULL, *left_out = NULL;
	AUTO_FREE char *below = NULL;
	AUTO_FREE char *path = NULL;
	AUTO_CLOSE int root = dir_open(AT_FDCWD, repositories, ERR_IGNORED);

	if (root >= 0 && locate_repository(root, one->project, &below, ERR_IGNORED) > 0) {
		path = xasprintf("%s/%s", repositories, below);
		cut = push_cut_reason(path);
		left_out = push_left_out_reason(path, one->remote);
	}
	if (!cut && one->ref)
		cut = left_out;
	push_wait_report_task(one, cut, left_out ? left_out : "OK");
}

static int push_wait_check_outcome(struct waiting *waiting, struct started *one,
				   const dead_letters *letters, struct err *err)
{
	AUTO_URI_STATE struct uri_state state = { 0 };
	struct task_store *tasks = waiting->call->push.tasks;
	const struct dead_letter *letter = find_letter(waiting, one, letters);
	int found = uri_state_read(tasks, one->uri_key, &state, err);

	enum rest rest = REST_NONE;

	if (found > 0 && state.failures > 0 && !one->is_discarded) {
		if (look_for_rest(waiting, one, &rest, err) != 0)
			return -1;
		if (rest == REST_OURS)
			return 0;
		/* It may have been done since the state was read. */
		uri_state_clear(&state);
		found = uri_state_read(tasks, one->uri_key, &state, err);
	}
	if (found < 0)
		return -1;
	if (letter)
		push_wait_report_task(one, letter->why.text, NULL);
	else if (one->is_discarded)
		push_wait_report_task(one, "discarded", NULL);
	else if (one->ref && rest == REST_OTHERS) /* which fail without it */
		push_wait_report_task(one, NULL, "OK");
	else if (found > 0 && failure_of(waiting, one, &state))
		push_wait_report_task(one, failure_of(waiting, one, &state), NULL);
	else
		report_gone(waiting, one);
	return 0;
}

/* 1: nobody works on the URI any more who did when the task was first seen gone. */
static int push_wait_is_settled(struct waiting *waiting, struct started *one,
				struct err *err)
{
	struct lease_holder holder = { 0 };
	AUTO_FREE char *key = xasprintf(PUSH_URI_LEASE "%s", one->uri_key);
	bool was_gone = one->is_gone;

	one->is_gone = true;
	if (lease_inspect(waiting->call->push.leases, key, &holder, err) != 0)
		return err->class == ERR_MISSING ? 1 : -1;
	if (!holder.held || holder.is_dead)
		return 1;
	if (!was_gone)
		one->gone_fence = holder.fence;
	return holder.fence != one->gone_fence;
}

/* Whether it is there; if not, whether it was discarded, and not done. What waits again
 * since it was discarded was added anew; a push of that name may run that knows nothing
 * of it. */
static int push_wait_look(struct waiting *waiting, struct started *one, bool *is_there,
			  struct err *err)
{
	struct task_store *tasks = waiting->call->push.tasks;
	int64_t before, after;
	bool waits = false;

	if (task_store_discarded_at(tasks, one->key, &before, err) != 0 ||
	    task_store_has(tasks, one->key, is_there, err) != 0)
		return -1;
	if (*is_there && before != one->discarded_at) {
		if (task_store_waits(tasks, one->key, &waits, err) != 0)
			return -1;
		one->discarded_at = waits ? before : one->discarded_at;
	}
	if (*is_there)
		return 0;
	if (task_store_discarded_at(tasks, one->key, &after, err) != 0)
		return -1;
	one->is_discarded = after >= waiting->started_at && after != one->discarded_at;
	return 0;
}

static int push_wait_observe_task(struct waiting *waiting, struct started *one,
				  struct err *err)
{
	bool is_there = false;
	int settled;

	if (!one->is_gone && push_wait_look(waiting, one, &is_there, err) != 0)
		return -1;
	settled = is_there ? 0 : push_wait_is_settled(waiting, one, err);
	one->is_settled = settled > 0;
	return settled < 0 ? -1 : 0;
}

/* Letters are read after their tasks were seen gone: they are written before that. */
static int judge_settled(struct waiting *waiting, struct err *err)
{
	dead_letters letters = { 0 };
	int result = task_store_dead_letters(waiting->call->push.tasks, &letters, err);

	for (size_t i = 0; result == 0 && i < waiting->list->count; i++) {
		struct started *one = &waiting->list->items[i];
		if (one->is_settled && !one->is_ended)
			result = push_wait_check_outcome(waiting, one, &letters, err);
	}
	dead_letters_clear(&letters);
	return result;
}

/* *left: how many have not ended. */
static int push_wait_observe_all(struct waiting *waiting, size_t *left, struct err *err)
{
	size_t settled = 0;

	for (size_t i = 0; i < waiting->list->count; i++) {
		struct started *one = &waiting->list->items[i];
		if (one->is_ended)
			continue;
		if (push_wait_observe_task(waiting, one, err) != 0)
			return -1;
		settled += one->is_settled;
	}
	if (settled > 0 && judge_settled(waiting, err) != 0)
		return -1;
	*left = 0;
	for (size_t i = 0; i < waiting->list->count; i++)
		*left += !waiting->list->items[i].is_ended;
	return 0;
}

static void report_why_it_waits(struct waiting *waiting, struct started *one)
{
	AUTO_URI_STATE struct uri_state state = { 0 };
	AUTO_FREE char *why = NULL;

	if (uri_state_read(waiting->call->push.tasks, one->uri_key, &state, ERR_IGNORED) >
		    0 &&
	    state.failures > 0)
		why = xasprintf("timed out; it will be retried: %s", state.failure.text);
	else
		why = xstrdup(
			"timed out; still waiting or running: see refrelay push queue");
	push_wait_report_task(one, why, NULL);
}

static int push_wait_print_summary(struct waiting *waiting)
{
	size_t failed = 0;

	for (size_t i = 0; i < waiting->list->count; i++)
		failed += waiting->list->items[i].has_failed;
	if (failed == 0) {
		puts("Replication completed successfully!");
		return EXIT_DONE;
	}
	printf("Replication completed with errors: %zu of %zu failed\n", failed,
	       waiting->list->count);
	return failed < waiting->list->count ? EXIT_PARTLY : EXIT_FAILED;
}

/* Looking at many tasks on a slow file system takes a fifth of the time at most. */
static int64_t next_pause(int64_t pause, int64_t looked_ms)
{
	pause = pause * 3 / 2 < LOOK_LAST_MS ? pause * 3 / 2 : LOOK_LAST_MS;
	if (pause < looked_ms * 4)
		pause = looked_ms * 4 < LOOK_MAX_MS ? looked_ms * 4 : LOOK_MAX_MS;
	return pause;
}

static int push_wait_for_all(struct waiting *waiting, const struct stop *stop,
			     struct err *err)
{
	int64_t timeout_ms = waiting->call->timeout_ms;
	int64_t until = clock_boot_ms() + timeout_ms;
	int64_t pause = LOOK_FIRST_MS;
	size_t left;

	for (;;) {
		int64_t from = clock_boot_ms();
		if (push_wait_observe_all(waiting, &left, err) != 0)
			return -1;
		int64_t now = clock_boot_ms();
		if (left == 0 || (timeout_ms > 0 && now >= until))
			break;
		if (timeout_ms > 0 && pause > until - now)
			pause = until - now;
		if (stop_wait(stop, pause)) {
			err_set(err, ERR_CANCELED, "interrupted");
			return err_remedy(err, "the tasks stay: see refrelay push queue");
		}
		pause = next_pause(pause, now - from);
	}
	for (size_t i = 0; left > 0 && i < waiting->list->count; i++)
		if (!waiting->list->items[i].is_ended)
			report_why_it_waits(waiting, &waiting->list->items[i]);
	return push_wait_print_summary(waiting);
}

/* Exit status, or -1. Says on stdout what became of each. */
static int waiting_run(struct waiting *waiting, struct err *err)
{
	struct stop stop;
	int status;

	cli_catch_signals(&stop);
	status = push_wait_for_all(waiting, &stop, err);
	cli_end_signals(&stop);
	return status;
}

/*
 * `push start`.
 */

struct starting {
	struct push_call *call;
	text_list names, keys;
	struct map by_key; /* the same keys */
	started_list started;
};

static void starting_clear(struct starting *starting)
{
	text_list_clear(&starting->names);
	map_clear(&starting->by_key);
	text_list_clear(&starting->keys);
	started_list_clear(&starting->started);
}

static void key_of_all(const struct destination *destination, char key[TASK_KEY_SIZE])
{
	char all[] = TASK_ALL_REFS;
	char *refs[] = { all };
	const struct task task = {
		.project = destination->project,
		.uri = destination->uri,
		.remote = destination->remote->name,
		.refs = { .items = refs, .count = 1, .capacity = 1 },
	};

	task_key(&task, key);
}

/* key NULL: not known yet. ref is the result's. */
static struct started started_of(const struct destination *destination, const char *key,
				 char *ref)
{
	struct started one = {
		.remote = destination->remote,
		.project = xstrdup(destination->project),
		.uri = xstrdup(destination->uri),
		.host = xstrdup(destination->host ? destination->host
						  : destination->path),
		.ref = ref,
	};

	snprintf(one.key, sizeof(one.key), "%s", key ? key : "");
	memcpy(one.uri_key, destination->uri_key, sizeof(one.uri_key));
	return one;
}

static void add_started(struct starting *starting, const struct destination *destination,
			const char *key)
{
	vec_add(&starting->started, started_of(destination, key, NULL));
	if (starting->call->is_verbose)
		fprintf(stderr, "refrelay: %s waits for %s: %s\n", destination->project,
			destination->remote->name, destination->uri);
}

/* Those of the repository's destinations whose tasks are among the keys. */
static void find_started(struct starting *starting, const char *name)
{
	AUTO_DESTINATIONS destination_list list = { 0 };

	destinations_of(starting->call->push.settings, name, &list);
	for (size_t i = 0; i < list.count; i++) {
		char key[TASK_KEY_SIZE];
		key_of_all(&list.items[i], key);
		if (map_get(&starting->by_key, key))
			add_started(starting, &list.items[i], key);
	}
}

static int start_all(struct starting *starting, struct err *err)
{
	const struct push_call *call = starting->call;
	const struct push_start_filter filter = {
		.remotes = call->remotes.items,
		.url = call->url,
		.now = call->is_now,
	};

	if (push_select(call->push.site.repositories, (const char *const *)call->words,
			call->word_count, &starting->names, err) != 0 ||
	    push_start_repositories(call->push.tasks, call->push.settings,
				    &starting->names, &filter, &starting->keys, err) != 0)
		return -1;
	for (size_t i = 0; i < starting->keys.count; i++)
		map_put(&starting->by_key, starting->keys.items[i], starting);
	for (size_t i = 0; i < starting->names.count; i++)
		find_started(starting, starting->names.items[i]);
	return 0;
}

static int nothing(const struct starting *starting)
{
	const struct push_call *call = starting->call;
	AUTO_STR struct str text = STR_INIT;

	if (starting->names.count > 0)
		str_add(&text, "no destination matches");
	else if (call->word_count == 0)
		str_add(&text, "no repository here");
	else
		str_add(&text, "no repository of this name:");
	for (size_t i = 0; starting->names.count == 0 && i < call->word_count; i++) {
		str_add(&text, " ");
		str_add_printable(&text, call->words[i]);
	}
	fprintf(stderr, "refrelay: Nothing to replicate: %s\n", text.data);
	return EXIT_NOT_FOUND;
}

/* That nobody works on them does not make the tasks less durable. */
static void warn_of_nodes(const struct push_call *call)
{
	text_list nodes = { 0 };

	if (push_nodes_living(call->push.tasks, call->push.leases, &nodes, ERR_IGNORED) ==
		    0 &&
	    nodes.count == 0)
		cli_note("no node of the cluster is running: the push starts when a node "
			 "does");
	text_list_clear(&nodes);
}

static int push_start_finish(struct starting *starting, struct waiting *waiting,
			     struct err *err)
{
	if (starting->keys.count == 0)
		return nothing(starting);
	site_wake(starting->call->push.site.data);
	warn_of_nodes(starting->call);
	return starting->call->waits ? waiting_run(waiting, err) : EXIT_DONE;
}

static int start_and_wait(struct starting *starting, struct err *err)
{
	struct waiting waiting = { .call = starting->call, .list = &starting->started };
	int status = -1;

	if ((!starting->call->waits || waiting_begin(&waiting, err) == 0) &&
	    start_all(starting, err) == 0)
		status = push_start_finish(starting, &waiting, err);
	waiting_clear(&waiting);
	return status;
}

int push_start_run(struct push_call *call, struct err *err)
{
	struct starting starting = { .call = call };
	int status;

	if (!push_call_knows_remotes(call, NULL))
		return EXIT_NOT_FOUND;
	status = start_and_wait(&starting, err);
	starting_clear(&starting);
	return status;
}

/*
 * `push wait`: that a destination has a commit is known from a push of a ref which
 * contains it, if that push read the ref after we found the commit there. A task that
 * waits will; where none does, as after the push was done, one is added that is due at
 * once, and finds the ref up to date there. So nothing has to be kept of what was pushed
 * when, and a commit that no hook told of is pushed.
 */

#define REFS_LIMIT ((size_t)256 << 20)

struct commit_wait {
	struct push_call *call;
	const char *commit;
	listed_tasks tasks; /* as they were */
	started_list started;
	bool is_found;  /* some repository has the commit */
	bool is_partly; /* one that cannot be looked into may have it, too */
};

static bool is_commit(const char *word)
{
	size_t len = strlen(word);

	return len >= 7 && len <= 64 && strspn(word, "0123456789abcdefABCDEF") == len;
}

static int push_commit_run_git(const char *repository, const char *const *args,
			       struct str *output, struct err *err)
{
	const struct git_work work = { .guard_fd = -1 };

	return git_run(&(struct git_call){ .work = &work,
					   .repository = repository,
					   .reach = GIT_REACH_READS_ALL,
					   .args = args,
					   .output = output,
					   .output_limit = REFS_LIMIT },
		       err);
}

/* As git says it of an id that names no commit; all else says nothing of it. */
static bool push_commit_is_absent(const struct err *err)
{
	return strstr(err->text, "Not a valid object name") ||
	       strstr(err->text, "expected commit type");
}

/* The refs that contain it, a line each; none, and *has false: it is not there. */
static int push_commit_read_refs(const struct commit_wait *wait, const char *repository,
				 bool *has, struct str *refs, struct err *err)
{
	AUTO_FREE char *object = xasprintf("%s^{commit}", wait->commit);
	AUTO_FREE char *contains = xasprintf("--contains=%s", wait->commit);
	const char *const look[] = { "cat-file", "-e", object, NULL };
	const char *const list[] = { "for-each-ref", "--format=%(refname)", contains,
				     NULL };

	*has = push_commit_run_git(repository, look, NULL, err) == 0;
	if (!*has)
		return push_commit_is_absent(err) ? 0 : -1;
	return push_commit_run_git(repository, list, refs, err);
}

/* One of them that the remote replicates, a branch if there is one; the caller frees. */
static char *choose_ref(const struct push_remote *remote, const char *refs)
{
	AUTO_FREE char *text = xstrdup(refs);
	char *save = NULL, *chosen = NULL;

	for (char *ref = strtok_r(text, "\n", &save); ref;
	     ref = strtok_r(NULL, "\n", &save)) {
		AUTO_FREE char *dst = NULL;
		bool force, is_branch = text_starts_with(ref, "refs/heads/");
		if ((chosen && !is_branch) ||
		    !push_remote_maps(remote, ref, &dst, &force))
			continue;
		free(chosen);
		chosen = xstrdup(ref);
		if (is_branch)
			break;
	}
	return chosen;
}

/* A task that waits and will read the ref. */
static const char *find_waiting(const struct commit_wait *wait, const char *uri,
				const char *ref)
{
	for (size_t i = 0; i < wait->tasks.count; i++) {
		const struct listed_task *task = &wait->tasks.items[i];
		if (!task->is_running && strcmp(task->task.uri, uri) == 0 &&
		    (task_is_all(&task->task) || text_list_has(&task->task.refs, ref)))
			return task->name;
	}
	return NULL;
}

static int push_commit_add_task(const struct commit_wait *wait,
				const struct destination *destination,
				struct started *one, struct err *err)
{
	const struct push_site *site = &wait->call->push;
	AUTO_TASK struct task task = { .project = xstrdup(destination->project),
				       .uri = xstrdup(destination->uri),
				       .remote = xstrdup(destination->remote->name) };
	bool is_new;

	vec_add(&task.refs, xstrdup(one->ref));
	task_key(&task, one->key);
	if (task_store_add(site->tasks, &task, 0, &is_new, err) != 0)
		return -1;
	return push_hurry(site->tasks, site->settings, &task, err);
}

static int wait_for_destination(struct commit_wait *wait,
				const struct destination *destination, const char *refs,
				struct err *err)
{
	char *ref = choose_ref(destination->remote, refs);
	const char *name;

	if (!ref)
		return 0;
	name = find_waiting(wait, destination->uri, ref);
	struct started one = started_of(destination, name, ref);
	int result = name ? 0 : push_commit_add_task(wait, destination, &one, err);
	vec_add(&wait->started, one);
	return result;
}

static int wait_for_all_of(struct commit_wait *wait, const char *name, const char *refs,
			   struct err *err)
{
	AUTO_DESTINATIONS destination_list list = { 0 };
	int result;

	destinations_of(wait->call->push.settings, name, &list);
	/* Read only now: what waits after the commit was found will read its ref. */
	listed_tasks_clear(&wait->tasks);
	result = task_store_list(wait->call->push.tasks, &wait->tasks, NULL, err);
	for (size_t i = 0; i < list.count && result == 0; i++)
		if (push_remote_is_named(wait->call->remotes.items,
					 list.items[i].remote->name))
			result = wait_for_destination(wait, &list.items[i], refs, err);
	return result;
}

static int push_commit_find(const struct commit_wait *wait, int root, const char *name,
			    bool *has, struct str *refs, struct err *err)
{
	AUTO_FREE char *below = NULL;
	AUTO_FREE char *path = NULL;
	int found = locate_repository(root, name, &below, err);

	if (found <= 0)
		return found;
	path = xasprintf("%s/%s", wait->call->push.site.repositories, below);
	if (push_commit_read_refs(wait, path, has, refs, err) != 0)
		return err_prefix(err, "%s", name);
	return 0;
}

/* One that cannot be looked into does not keep the others from it. */
static int push_commit_inspect_repository(struct commit_wait *wait, int root,
					  const char *name, struct err *err)
{
	AUTO_STR struct str refs = STR_INIT;
	bool has = false;

	if (push_commit_find(wait, root, name, &has, &refs, err) != 0) {
		cli_fail(err);
		wait->is_partly = true;
		return 0;
	}
	wait->is_found |= has;
	return has ? wait_for_all_of(wait, name, refs.data, err) : 0;
}

static int look_into_all(struct commit_wait *wait, struct err *err)
{
	const struct push_call *call = wait->call;
	const char *const one[] = { call->repository, NULL };
	AUTO_CLOSE int root = dir_open(AT_FDCWD, call->push.site.repositories, err);
	text_list names = { 0 };
	int result = root < 0 ? -1 : 0;

	if (result == 0)
		result = push_select(call->push.site.repositories, one,
				     call->repository ? 1 : 0, &names, err);
	for (size_t i = 0; i < names.count && result == 0; i++)
		result = push_commit_inspect_repository(wait, root, names.items[i], err);
	text_list_clear(&names);
	return result;
}

static int say_nothing_found(const struct commit_wait *wait)
{
	if (wait->is_found)
		fprintf(stderr,
			"refrelay: commit %s is not on a ref that the remote pushes\n",
			wait->commit);
	else if (!wait->is_partly)
		fprintf(stderr, "refrelay: no such commit here: %s\n", wait->commit);
	return wait->is_partly ? EXIT_PARTLY : EXIT_NOT_FOUND;
}

static int find_and_wait(struct commit_wait *wait, struct err *err)
{
	struct waiting waiting = { .call = wait->call, .list = &wait->started };
	int status = -1;

	if (git_setup(wait->call->push.site.data, err) == 0 &&
	    waiting_begin(&waiting, err) == 0 && look_into_all(wait, err) == 0) {
		site_wake(wait->call->push.site.data);
		status = wait->started.count > 0 ? waiting_run(&waiting, err)
						 : say_nothing_found(wait);
		if (status == EXIT_DONE && wait->is_partly)
			status = EXIT_PARTLY;
	}
	waiting_clear(&waiting);
	return status;
}

int push_wait_run(struct push_call *call, struct err *err)
{
	struct commit_wait wait = { .call = call, .commit = call->words[0] };
	int status;

	if (!is_commit(wait.commit))
		return cli_usage("push",
				 "wait takes a commit id of 7 to 64 hexadecimal digits");
	if (!push_call_knows_remotes(call, NULL))
		return EXIT_NOT_FOUND;
	status = find_and_wait(&wait, err);
	listed_tasks_clear(&wait.tasks);
	started_list_clear(&wait.started);
	return status;
}
