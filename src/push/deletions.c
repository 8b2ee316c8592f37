#include "push/deletions.h"

#include "base/clock.h"
#include "base/map.h"

enum {
	FREE_DELETIONS = 10,  /* are never too many */
	PATIENCE_MS = 60000,  /* with more that keep coming */
	COUNT_KEPT_MS = 30000 /* to count means to walk through all directories */
};

/* What is to be deleted for one remote. */
struct pending {
	size_t repositories;
	int64_t own, newest; /* since when */
};

static int64_t deletions_smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* A repository with several URLs counts once. */
static void add_pending(const struct push_run *run, const struct requested *one,
			struct map *projects, struct pending *pending)
{
	int64_t since = deletions_smaller(one->since, run->now);

	if (strcmp(one->uri_key, run->uri_key) == 0)
		pending->own = since;
	if (since > pending->newest)
		pending->newest = since;
	map_put(projects, one->project, projects);
	pending->repositories = projects->count;
}

static int read_pending(const struct push_run *run, const char *remote,
			struct pending *pending, struct err *err)
{
	requested_list list = { 0 };
	struct map projects = { 0 };
	int result = uri_request_list(run->push->options.tasks, &list, err);

	*pending = (struct pending){ .own = run->now };
	for (size_t i = 0; result == 0 && i < list.count; i++)
		if (list.items[i].request == REQUEST_DELETE &&
		    strcmp(list.items[i].remote, remote) == 0)
			add_pending(run, &list.items[i], &projects, pending);
	map_clear(&projects);
	requested_list_clear(&list);
	return result;
}

static int count_names(const struct push *push, size_t *count, struct err *err)
{
	text_list names = { 0 };
	int result = push->options.names
			     ? push->options.names(push->options.arg, &names, err)
			     : 0;

	*count = names.count;
	vec_clear_owned(&names);
	return result;
}

/* Those that are there. */
static int count_repositories(struct push *push, size_t *count, struct err *err)
{
	int64_t now = clock_boot_ms();
	bool is_known;

	lock(&push->mutex);
	is_known = push->counted_at > 0 && now - push->counted_at < COUNT_KEPT_MS;
	*count = push->repositories;
	unlock(&push->mutex);
	if (is_known)
		return 0;
	if (count_names(push, count, err) != 0)
		return -1;
	lock(&push->mutex);
	push->repositories = *count;
	push->counted_at = now;
	unlock(&push->mutex);
	return 0;
}

/* What was held stays so: that others were allowed, and fewer are left, says nothing of
 * this one. */
static bool was_held(const struct push_run *run, const struct pending *pending)
{
	return pending->own <= run->state.held_since;
}

static enum deletion weigh(const struct push_run *run, const struct pending *pending,
			   const char *remote, struct err *err)
{
	size_t there, all;

	if (pending->repositories <= FREE_DELETIONS)
		return DELETION_DUE;
	if (count_repositories(run->push, &there, err) != 0)
		return DELETION_UNKNOWN;
	all = there + pending->repositories;
	if ((double)pending->repositories <=
	    run->push->options.delete_brake * (double)all)
		return DELETION_DUE;
	err_set(err, ERR_CONFLICT,
		"held: %zu repositories of %zu are to be deleted at %s at once",
		pending->repositories, all, remote);
	err_remedy(err, "if that is right: refrelay push retry --force --remote %.100s",
		   remote);
	return DELETION_HELD;
}

enum deletion deletion_judge(struct push_run *run, const struct push_group *group,
			     int64_t *at, struct err *err)
{
	struct pending pending;

	if (has_request(run, REQUEST_FORCE))
		return DELETION_DUE;
	if (read_pending(run, group->remote, &pending, err) != 0)
		return DELETION_UNKNOWN;
	if (was_held(run, &pending)) {
		*err = run->state.failure;
		return DELETION_HELD;
	}
	*at = pending.own + DELETION_QUIET_MS;
	if (pending.repositories > FREE_DELETIONS)
		*at = deletions_smaller(pending.newest + DELETION_QUIET_MS,
					pending.own + PATIENCE_MS);
	if (*at > run->now)
		return DELETION_LATER;
	return weigh(run, &pending, group->remote, err);
}
