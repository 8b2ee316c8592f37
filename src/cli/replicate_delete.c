#include "cli/replicate_run.h"

#include <sys/stat.h>

#include "job/job.h"
#include "pull/hold.h"
#include "replicable/name.h"
#include "upkeep/trash.h"

struct removal {
	struct item *item;
	char *to;
};

static int replicate_delete_remove_copy(struct job *job, void *arg, struct err *err)
{
	struct removal *removal = arg;

	return trash_put(job, removal->item->run->dest_root, removal->item->path,
			 &removal->to, err);
}

static void run_removal(struct item *item)
{
	struct replicate_run *run = item->run;
	struct removal removal = { .item = item };
	const struct job_request request = {
		.leases = run->data.leases,
		.kind = KIND_REPOSITORY,
		.name = item->name,
		.operation = "remove",
		.fence_floor = sync_fence_floor(run->dest_root, item->name),
		.wait_ms = LEASE_WAIT_MS,
		.stop = &run->stop,
		.run = replicate_delete_remove_copy,
		.arg = &removal,
	};

	if (job_run(&request, &item->err) == 0)
		item->end = ITEM_DELETED;
	else if (item->err.class == ERR_MISSING) /* another run did it */
		item->end = ITEM_UNCHANGED;
	else if (item->err.class != ERR_CANCELED)
		item->end = ITEM_FAILED;
	free(removal.to);
}

static void list_surplus(struct replicate_run *run, size_t *first)
{
	*first = run->items.count;
	for (size_t i = 0; i < run->here.found.count; i++) {
		const struct discovered *copy = &run->here.found.items[i];
		struct item item = { .run = run, .name = copy->name, .path = copy->path };
		if (!discovery_find(&run->there, copy->name))
			vec_add(&run->items, item);
	}
}

static bool replicate_delete_ask_user(size_t count, size_t all)
{
	char answer[16] = "";

	if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
		return false;
	fprintf(stderr,
		"%zu of %zu copies have no repository in SOURCE. Move them to the "
		"trash? [y/N] ",
		count, all);
	return fgets(answer, sizeof(answer), stdin) &&
	       (answer[0] == 'y' || answer[0] == 'Y');
}

/* What stands there in SOURCE is no repository that could be copied, but it is not
 * nothing: a repository that was damaged, or replaced by a link. */
static bool still_stands(const struct replicate_run *run, const char *name)
{
	AUTO_FREE char *bare = xasprintf("%s/%s", run->source_root, name);
	AUTO_FREE char *usual = xasprintf("%s.git", bare);
	struct stat st;

	if (run->primary)
		return false; /* its inventory says all there is to say */
	return lstat(bare, &st) == 0 || lstat(usual, &st) == 0;
}

static void remove_or_hold(struct replicate_run *run, struct item *item, const char *why)
{
	if (!why && still_stands(run, item->name))
		why = "something still stands there in SOURCE";
	if (why) {
		item->end = ITEM_HELD;
		item->reason = xasprintf("not deleted: %s", why);
	} else if (!stop_is_requested(&run->stop)) {
		run_removal(item);
	}
}

/* Absence proves nothing when not all of SOURCE could be seen, and a SOURCE without any
 * repository is more likely a disk that is not mounted. */
static const char *replicate_delete_refuse_removal(struct replicate_run *run,
						   size_t count)
{
	if (!discovery_is_complete(&run->there))
		return "not all of SOURCE could be read, so that absence proves nothing";
	if (run->options.is_forced)
		return NULL;
	if (run->there.found.count == 0)
		return "SOURCE has no repository at all: is its disk mounted?";
	if (hold_brake_stops(HOLD_REPLICABLES, count, run->here.found.count) &&
	    !replicate_delete_ask_user(count, run->here.found.count))
		return "very many copies would be deleted at once";
	return NULL;
}

void replicate_delete(struct replicate_run *run)
{
	size_t first, count;
	const char *why;

	list_surplus(run, &first);
	count = run->items.count - first;
	if (count == 0)
		return;
	if (!run->options.deletes) {
		run->only_in_dest = count;
		run->items.count = first;
		return;
	}
	why = replicate_delete_refuse_removal(run, count);
	for (size_t i = first; i < run->items.count; i++)
		remove_or_hold(run, &run->items.items[i], why);
}
