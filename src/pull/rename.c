/*
 * The primary notices the new name first, and tells the deletion of the former one right
 * after it. So a new row whose repository is still recorded under another name waits for
 * that; not for ever, since the deletion may never come.
 *
 * The copy's fence is raised by the former name's lease before it is moved: a worker that
 * was paused with it is too late. The sync that follows begins with the fence that it
 * finds at the new place. A crash between the move and the row leaves a gone row without
 * a copy, which its removal drops.
 */
#include "pull/rename.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "git/fence.h"
#include "job/job.h"
#include "pull/sync_repository.h"
#include "replicable/name.h"
#include "upkeep/copies_root.h"
#include "upkeep/trash.h"

#define PATIENCE_MS 15000

struct renaming {
	struct pull *pull;
	const struct registry_row *row; /* the new name */
	struct registry_row former;     /* the other; no name: there is none */
	bool is_moved;
};

static int rename_read_former(struct store_tx *tx, void *arg, struct err *err)
{
	struct renaming *renaming = arg;

	registry_row_clear(&renaming->former);
	return registry_twin_in(tx, renaming->row, &renaming->former, err) < 0 ? -1 : 0;
}

static int move_folder(const struct renaming *renaming, int root, struct err *err)
{
	AUTO_FREE char *from = name_to_path(renaming->former.name);
	AUTO_FREE char *to = name_to_path(renaming->row->name);
	char *slash = strrchr(to, '/');

	if (dir_make_parents(root, to, err) != 0)
		return -1;
	if (renameat2(root, from, root, to, RENAME_NOREPLACE) != 0)
		return err_errno(err, "cannot move %s to %s", from, to);
	failpoint("rename.moved");
	trash_remove_folders(root, from);
	if (slash)
		*slash = '\0';
	if (dir_sync(root, slash ? to : ".", err) != 0)
		return -1;
	return dir_sync(root, ".", err);
}

/* Under its lease: since it was read, the name may be wanted again. */
static int check_former(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_REGISTRY_ROW struct registry_row now = { 0 };
	const struct renaming *renaming = arg;
	int found =
		registry_get_in(tx, KIND_REPOSITORY, renaming->former.name, &now, err);

	if (found > 0 && now.is_gone)
		return 0;
	return found < 0 ? -1
			 : err_set(err, ERR_BUSY, "%s is wanted again, or is removed",
				   renaming->former.name);
}

static int drop_former(struct store_tx *tx, void *arg, struct err *err)
{
	const struct renaming *renaming = arg;

	return registry_remove_in(tx, renaming->former.id, err) < 0 ? -1 : 0;
}

/* Under both leases; the job is the former name's. */
static int move_copy(struct job *job, void *arg, struct err *err)
{
	struct renaming *renaming = arg;
	const struct pull_options *options = &renaming->pull->options;
	AUTO_CLOSE int root = dir_open(AT_FDCWD, options->root, err);
	AUTO_FREE char *from = name_to_path(renaming->former.name);
	AUTO_CLOSE int copy = root < 0 ? -1 : dir_open(root, from, err);

	if (copy < 0 || store_read(options->store, check_former, renaming, err) != 0)
		return -1;
	if (fence_raise(copy, job->fence, err) != 0 ||
	    lease_check(job->lease, err) != 0 || move_folder(renaming, root, err) != 0)
		return -1;
	renaming->is_moved = true;
	return store_write(options->store, drop_former, renaming, err);
}

static int lock_former(struct job *job, void *arg, struct err *err)
{
	struct renaming *renaming = arg;
	const struct pull_options *options = &renaming->pull->options;

	(void)job;
	if (copies_root_check(options->store, options->root, err) != 0)
		return -1;
	return job_run(
		&(struct job_request){
			.leases = options->leases,
			.kind = KIND_REPOSITORY,
			.name = renaming->former.name,
			.operation = "rename",
			.fence_floor =
				sync_fence_floor(options->root, renaming->former.name),
			.stop = &renaming->pull->kill,
			.run = move_copy,
			.arg = renaming,
		},
		err);
}

static int move_under_leases(struct renaming *renaming, struct err *err)
{
	const struct pull_options *options = &renaming->pull->options;

	return job_run(
		&(struct job_request){
			.leases = options->leases,
			.kind = KIND_REPOSITORY,
			.name = renaming->row->name,
			.operation = "rename",
			.fence_floor =
				sync_fence_floor(options->root, renaming->row->name),
			.stop = &renaming->pull->kill,
			.run = lock_former,
			.arg = renaming,
		},
		err);
}

static bool is_recent(const struct renaming *renaming)
{
	int64_t since = renaming->row->behind_since;

	return since > 0 &&
	       primary_now_ms(renaming->pull->options.primary) - since < PATIENCE_MS;
}

static bool is_here(const struct renaming *renaming, const char *name)
{
	AUTO_FREE char *below = name_to_path(name);
	AUTO_FREE char *path = xasprintf("%s/%s", renaming->pull->options.root, below);

	return access(path, F_OK) == 0;
}

/* What cannot be moved is fetched. */
static bool move_or_wait(struct renaming *renaming)
{
	const struct pull_options *options = &renaming->pull->options;
	struct err err;
	int result;

	if (!renaming->former.is_gone)
		return is_recent(renaming);
	if (!is_here(renaming, renaming->former.name))
		return false;
	result = move_under_leases(renaming, &err);
	if (renaming->is_moved) {
		log_info("sync.renamed", LOG_TEXT("from", renaming->former.name));
		if (options->published)
			options->published(options->arg, renaming->former.name);
	}
	return result != 0 && (err.class == ERR_BUSY || err.class == ERR_CANCELED ||
			       err.class == ERR_LOST);
}

bool rename_puts_off(struct pull *pull, const struct registry_row *row)
{
	struct renaming renaming = { .pull = pull, .row = row };
	bool is_put_off;

	if (row->last_success_at > 0 || row->wishes != 0 ||
	    store_read(pull->options.store, rename_read_former, &renaming, ERR_IGNORED) !=
		    0)
		return false;
	is_put_off = renaming.former.name && !is_here(&renaming, row->name) &&
		     move_or_wait(&renaming);
	registry_row_clear(&renaming.former);
	return is_put_off;
}

bool rename_is_expected(struct pull *pull, const struct registry_row *row)
{
	struct renaming renaming = { .pull = pull, .row = row };
	bool is_expected;

	if (store_read(pull->options.store, rename_read_former, &renaming, ERR_IGNORED) !=
	    0)
		return false;
	is_expected = renaming.former.name && row->is_gone && !renaming.former.is_gone &&
		      renaming.former.last_success_at == 0;
	registry_row_clear(&renaming.former);
	return is_expected;
}
