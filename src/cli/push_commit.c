/*
 * `push wait`: that a destination has a commit is known from a push of a ref which
 * contains it, if that push read the ref after we found the commit there. A task that
 * waits will; where none does, as after the push was done, one is added that is due at
 * once, and finds the ref up to date there. So nothing has to be kept of what was pushed
 * when, and a commit that no hook told of is pushed.
 */
#include <fcntl.h>

#include "base/file.h"
#include "cli/push.h"
#include "cli/push_wait.h"
#include "git/git_child.h"
#include "push/push_parts.h"
#include "push/select.h"
#include "push/sink.h"
#include "replicable/locate.h"

#define REFS_LIMIT ((size_t)256 << 20)

struct commit_wait {
	struct push_call *call;
	const char *commit;
	listed_tasks tasks; /* as they were */
	started_list started;
	bool is_found; /* some repository has the commit */
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
					   .args = args,
					   .output = output,
					   .output_limit = REFS_LIMIT },
		       err);
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

	*has = push_commit_run_git(repository, look, NULL, ERR_IGNORED) == 0;
	return *has ? push_commit_run_git(repository, list, refs, err) : 0;
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
		    (task_is_all(&task->task) || ref_names_have(&task->task.refs, ref)))
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
	struct started one = {
		.project = xstrdup(destination->project),
		.uri = xstrdup(destination->uri),
		.host = xstrdup(destination->host ? destination->host
						  : destination->path),
		.ref = ref,
	};
	memcpy(one.uri_key, destination->uri_key, sizeof(one.uri_key));
	name = find_waiting(wait, one.uri, ref);
	if (name)
		snprintf(one.key, sizeof(one.key), "%s", name);
	int result = name ? 0 : push_commit_add_task(wait, destination, &one, err);
	vec_add(&wait->started, one);
	return result;
}

static int wait_for_all_of(struct commit_wait *wait, const char *name, const char *refs,
			   struct err *err)
{
	AUTO_DESTINATIONS destination_list list = { 0 };
	int result = destinations_of(wait->call->push.settings, name, &list, err);

	/* Read only now: what waits after the commit was found will read its ref. */
	listed_tasks_clear(&wait->tasks);
	if (result == 0)
		result = task_store_list(wait->call->push.tasks, &wait->tasks, NULL, err);
	for (size_t i = 0; i < list.count && result == 0; i++)
		if (push_call_has_remote(wait->call, list.items[i].remote->name))
			result = wait_for_destination(wait, &list.items[i], refs, err);
	return result;
}

static int push_commit_inspect_repository(struct commit_wait *wait, int root,
					  const char *name, struct err *err)
{
	AUTO_FREE char *below = NULL;
	AUTO_FREE char *path = NULL;
	AUTO_STR struct str refs = STR_INIT;
	bool has = false;
	int found = locate_repository(root, name, &below, err);

	if (found <= 0)
		return found;
	path = xasprintf("%s/%s", wait->call->push.site.repositories, below);
	if (push_commit_read_refs(wait, path, &has, &refs, err) != 0)
		return err_prefix(err, "%s", name);
	wait->is_found |= has;
	return has ? wait_for_all_of(wait, name, refs.data, err) : 0;
}

static int look_into_all(struct commit_wait *wait, struct err *err)
{
	const struct push_call *call = wait->call;
	const char *const one[] = { call->repository, NULL };
	AUTO_CLOSE int root = dir_open(AT_FDCWD, call->push.site.repositories, err);
	task_keys names = { 0 };
	int result = root < 0 ? -1 : 0;

	if (result == 0)
		result = push_select(call->push.site.repositories, one,
				     call->repository ? 1 : 0, &names, err);
	for (size_t i = 0; i < names.count && result == 0; i++)
		result = push_commit_inspect_repository(wait, root, names.items[i], err);
	task_keys_clear(&names);
	return result;
}

static int say_nothing_found(const struct commit_wait *wait)
{
	if (wait->is_found)
		fprintf(stderr,
			"refrelay: commit %s is on no ref that the remote takes\n",
			wait->commit);
	else
		fprintf(stderr, "refrelay: there is no commit %s here\n", wait->commit);
	return EXIT_NOT_FOUND;
}

static int find_and_wait(struct commit_wait *wait, struct err *err)
{
	struct waiting waiting = { .call = wait->call, .list = &wait->started };
	int status = -1;

	if (git_setup(wait->call->push.site.data, err) == 0 &&
	    waiting_begin(&waiting, err) == 0 && look_into_all(wait, err) == 0) {
		push_site_wake(&wait->call->push);
		status = wait->started.count > 0 ? waiting_run(&waiting, err)
						 : say_nothing_found(wait);
	}
	waiting_clear(&waiting);
	return status;
}

int push_wait_run(struct push_call *call, struct err *err)
{
	struct commit_wait wait = { .call = call, .commit = call->words[0] };
	int status;

	if (!is_commit(wait.commit))
		return cli_usage("push", "wait takes a commit: 7 to 64 hexadecimal "
					 "digits");
	if (!push_call_knows_remotes(call, NULL))
		return EXIT_NOT_FOUND;
	status = find_and_wait(&wait, err);
	listed_tasks_clear(&wait.tasks);
	started_list_clear(&wait.started);
	return status;
}
