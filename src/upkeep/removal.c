/*
 * What was removed in the last hour is kept in site_value as "MINUTE:COUNT ...", minutes
 * of the wall clock, in the transaction that removes the row: so deletions that come
 * drop by drop reach the deletion limit as well.
 */
#include "upkeep/removal.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "git/lock_file.h"
#include "job/job.h"
#include "replicable/kind.h"
#include "replicable/name.h"
#include "replicable/registry.h"
#include "store/site_value.h"
#include "upkeep/checkout.h"
#include "upkeep/copies_root.h"
#include "upkeep/trash.h"

#define REMOVED "pull.removed"
#define MINUTES 60
/* Of that kind alone: the deletion limit may hold another for another reason. The caller
 * frees. */
static char *removal_make_remedy(const char *kind)
{
	bool is_blobs = !kind_is_repository(kind);

	if (strcmp(kind, KIND_MIRROR) == 0)
		return xstrdup("if they are not to be mirrored any more: refrelay mirror "
			       "remove NAME...; if they are, see why their list has "
			       "them no more, or give them sections [mirror]");
	return xasprintf(
		"if they were deleted on purpose: refrelay %s%s --state held; if "
		"not, bring them back at the primary",
		is_blobs ? "blob remove --type " : "repository remove",
		is_blobs ? kind : "");
}

/* The key in site_value; the caller frees. */
static char *removed_key(const char *kind)
{
	return strcmp(kind, KIND_REPOSITORY) == 0 ? xstrdup(REMOVED)
						  : xasprintf(REMOVED ".%s", kind);
}

static int64_t this_minute(void)
{
	return clock_wall_ms() / 60000;
}

/* Counts those of the last hour, and copies them to *kept (may be NULL). What cannot be
 * understood counts as nothing. */
static int64_t sum_removed(const char *text, struct str *kept)
{
	int64_t now = this_minute(), sum = 0, minute, count;
	int len;

	while (sscanf(text, "%" SCNd64 ":%" SCNd64 "%n", &minute, &count, &len) == 2) {
		text += len;
		if (minute <= now - MINUTES || minute > now || count <= 0)
			continue;
		sum += count;
		if (kept)
			str_addf(kept, "%" PRId64 ":%" PRId64 " ", minute, count);
	}
	return sum;
}

static int read_removed(struct store_tx *tx, const char *kind, int64_t *sum,
			struct str *kept, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_FREE char *key = removed_key(kind);

	if (site_value_get(tx, key, &text, err) < 0)
		return -1;
	*sum = sum_removed(text.data, kept);
	return 0;
}

/* So many rows of a kind were removed because the primary has them no more: for the
 * limit. The last minute's number is raised, or a new minute begins. */
static int removal_note(struct store_tx *tx, const char *kind, int64_t removed,
			struct err *err)
{
	AUTO_STR struct str kept = STR_INIT;
	AUTO_FREE char *key = removed_key(kind);
	int64_t sum, minute = this_minute(), last, count = 0;
	char *at;

	if (read_removed(tx, kind, &sum, &kept, err) != 0)
		return -1;
	if (kept.len > 0)
		str_truncate(&kept, kept.len - 1);
	at = strrchr(kept.data, ' ');
	at = at ? at + 1 : kept.data;
	if (sscanf(at, "%" SCNd64 ":%" SCNd64, &last, &count) == 2 && last == minute)
		str_truncate(&kept, (size_t)(at - kept.data));
	else
		count = 0;
	str_addf(&kept, "%s%" PRId64 ":%" PRId64,
		 kept.len > 0 && kept.data[kept.len - 1] != ' ' ? " " : "", minute,
		 count + removed);
	return site_value_set(tx, key, kept.data, err);
}

struct braking {
	const struct removal_limit *deletion_limit;
	int64_t deletions, all;
	int64_t held; /* by this run */
	bool may;
};

bool removal_has_no_copy(int root, const struct registry_row *row)
{
	AUTO_FREE char *path = kind_is_repository(row->kind) ? name_to_path(row->name)
							     : xstrdup(row->name);
	struct stat st;

	return root >= 0 && fstatat(root, path, &st, AT_SYMLINK_NOFOLLOW) != 0 &&
	       errno == ENOENT;
}

int removal_hold_in(struct store_tx *tx, const struct registry_row *row,
		    const char *reason, struct err *err)
{
	AUTO_FREE char *remedy = removal_make_remedy(row->kind);
	const struct registry_move move = { .id = row->id,
					    .event = REGISTRY_HELD,
					    .held_reason = reason,
					    .remedy = remedy };

	return registry_move_in(tx, &move, err) < 0 ? -1 : 0;
}

void removal_report_held(const char *kind, int64_t held)
{
	AUTO_FREE char *remedy = removal_make_remedy(kind);

	log_error("registry.held", LOG_TEXT("kind", kind), LOG_NUMBER("held", held),
		  LOG_TEXT("remedy", remedy));
}

/* One that is being removed this moment is let go. More may come to be held later: so
 * "at least". */
static int hold_row(struct store_tx *tx, const struct registry_row *row, void *arg,
		    struct err *err)
{
	struct braking *braking = arg;
	const char *kind = braking->deletion_limit->kind;
	char reason[160];

	if (row->state == REGISTRY_STARTED ||
	    (kind_is_repository(kind) &&
	     removal_has_no_copy(braking->deletion_limit->root, row)))
		return 0;
	int renamed = registry_was_renamed_in(tx, row, err);
	if (renamed != 0)
		return renamed < 0 ? -1 : 0;
	snprintf(reason, sizeof(reason),
		 "at least %" PRId64 " of %" PRId64 " %s would be deleted at once",
		 braking->deletions, braking->all,
		 kind_is_repository(kind) ? "repositories" : kind);
	braking->held++;
	return removal_hold_in(tx, row, reason, err);
}

static int hold_all(struct store_tx *tx, struct braking *braking, struct err *err)
{
	const struct registry_filter gone = { .kind = braking->deletion_limit->kind,
					      .state = REGISTRY_ANY,
					      .unheld_only = true,
					      .gone_only = true };

	return registry_each_in(tx, &gone, hold_row, braking, err);
}

struct harmless {
	int root;
	int64_t count;
};

static int count_harmless(struct store_tx *tx, const struct registry_row *row, void *arg,
			  struct err *err)
{
	struct harmless *harmless = arg;
	/* the copy of one that is being removed has just gone */
	int result =
		row->state != REGISTRY_STARTED && removal_has_no_copy(harmless->root, row)
			? 1
			: registry_was_renamed_in(tx, row, err);

	harmless->count += result > 0;
	return result < 0 ? -1 : 0;
}

/* Millions of blobs, which are not renamed, are not looked through for it. */
static int take_harmless(struct store_tx *tx, struct braking *braking, struct err *err)
{
	const struct registry_filter gone = { .kind = braking->deletion_limit->kind,
					      .state = REGISTRY_ANY,
					      .gone_only = true };
	struct harmless harmless = { .root = braking->deletion_limit->root };

	if (!kind_is_repository(gone.kind))
		return 0;
	if (registry_each_in(tx, &gone, count_harmless, &harmless, err) != 0)
		return -1;
	braking->deletions -= harmless.count;
	return 0;
}

static bool may_go(const struct braking *braking)
{
	const struct removal_limit *limit = braking->deletion_limit;

	return braking->deletions <= (int64_t)limit->more_than ||
	       (double)braking->deletions <= limit->share * (double)braking->all;
}

static int removal_check_deletion_limit(struct store_tx *tx, void *arg, struct err *err)
{
	struct braking *braking = arg;
	const struct removal_limit *limit = braking->deletion_limit;
	int64_t gone, rows, removed;

	braking->held = 0;
	if (counter_get(tx, limit->kind, "gone", &gone, err) != 0 ||
	    counter_get(tx, limit->kind, "all", &rows, err) != 0 ||
	    read_removed(tx, limit->kind, &removed, NULL, err) != 0)
		return -1;
	braking->deletions = gone + removed;
	braking->all = rows + removed;
	if (!may_go(braking) && take_harmless(tx, braking, err) != 0)
		return -1;
	braking->may = may_go(braking);
	return braking->may ? 0 : hold_all(tx, braking, err);
}

int removal_may(struct store *store, const struct removal_limit *limit, bool *may,
		struct err *err)
{
	struct braking braking = { .deletion_limit = limit };
	AUTO_FREE char *remedy = removal_make_remedy(limit->kind);

	*may = false;
	if (store_write(store, removal_check_deletion_limit, &braking, err) != 0)
		return -1;
	if (braking.held > 0)
		log_error("registry.held", LOG_TEXT("kind", limit->kind),
			  LOG_NUMBER("held", braking.held),
			  LOG_NUMBER("deletions", braking.deletions),
			  LOG_NUMBER("all", braking.all), LOG_TEXT("remedy", remedy));
	*may = braking.may;
	return 0;
}

static void removal_refuse_wanted(struct removal_copy *copy)
{
	err_set(&copy->why, ERR_CONFLICT,
		"%s is not deleted at the primary: its copy is wanted", copy->name);
	err_because(&copy->why, REASON_WANTED);
	err_remedy(&copy->why, "delete it at the primary first");
}

static int removal_mark(struct store_tx *tx, const struct removal_batch *removal,
			const struct removal_copy *copy, enum registry_event event,
			struct err *err)
{
	const struct registry_move move = {
		.id = replicable_id(removal->kind, copy->name),
		.event = event,
	};

	return registry_move_in(tx, &move, err) < 0 ? -1 : 0;
}

/* Since they were read some may be wanted again, or another worker's. What a person has
 * go is marked here, under its lease: a crash leaves what a node completes. */
static int removal_check_gone(struct store_tx *tx, void *arg, struct err *err)
{
	const struct removal_batch *removal = arg;

	for (size_t i = 0; i < removal->count; i++) {
		AUTO_REGISTRY_ROW struct registry_row row = { 0 };
		struct removal_copy *copy = &removal->copies[i];
		int found = registry_get_in(tx, removal->kind, copy->name, &row, err);
		if (found < 0)
			return -1;
		copy->why.class = ERR_NONE;
		copy->was_never_equal = found > 0 && row.last_success_at == 0;
		copy->was_marked = found > 0 && !row.is_gone && removal->takes_wanted;
		if (copy->was_marked) {
			if (removal_mark(tx, removal, copy, REGISTRY_GONE, err) != 0)
				return -1;
		} else if (found > 0 && !row.is_gone)
			removal_refuse_wanted(copy);
		else if (found > 0 && copy->claim_token &&
			 strcmp(copy->claim_token, row.claim_token) != 0)
			err_set(&copy->why, ERR_LOST, "%s is another worker's by now",
				copy->name);
	}
	return 0;
}

static void removal_discard_copies(const struct removal_batch *removal)
{
	for (size_t i = 0; i < removal->count; i++) {
		struct removal_copy *copy = &removal->copies[i];
		struct err why;
		if (copy->why.class != ERR_NONE ||
		    removal->discard(removal->arg, copy, &why) == 0)
			continue;
		copy->was_missing = why.class == ERR_MISSING;
		if (!copy->was_missing)
			copy->why = why;
	}
}

/* 1: it counts for nothing, since it lives on under another name. */
static int read_renamed(struct store_tx *tx, const struct removal_batch *removal,
			const char *name, struct err *err)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	if (!kind_is_repository(removal->kind))
		return 0; /* no other is, and blobs go by the thousand */
	int found = registry_get_in(tx, removal->kind, name, &row, err);
	return found > 0 ? registry_was_renamed_in(tx, &row, err) : found;
}

/* 1: it is one deletion more. A row that is wanted by now stays, as one of which nothing
 * is here, but for one that a person has go all the same. */
static int removal_remove_row(struct store_tx *tx, const struct removal_batch *removal,
			      struct removal_copy *copy, struct err *err)
{
	int renamed = read_renamed(tx, removal, copy->name, err), result;

	if (renamed < 0 || (copy->was_marked &&
			    removal_mark(tx, removal, copy, REGISTRY_GONE, err) != 0))
		return -1;
	result = registry_remove_in(tx, replicable_id(removal->kind, copy->name), err);
	copy->is_wanted = result > 0;
	return result < 0 ? -1 : !copy->is_wanted && !renamed && !copy->was_missing;
}

static int removal_remove_rows(struct store_tx *tx, void *arg, struct err *err)
{
	const struct removal_batch *removal = arg;
	int64_t removed = 0;
	size_t rows = 0;

	for (size_t i = 0; i < removal->count; i++) {
		struct removal_copy *copy = &removal->copies[i];
		const bool is_kept = copy->why.class != ERR_NONE;
		if (is_kept && !copy->was_marked)
			continue;
		int result =
			is_kept ? removal_mark(tx, removal, copy, REGISTRY_ASKED, err)
				: removal_remove_row(tx, removal, copy, err);
		if (result < 0)
			return -1;
		if (is_kept)
			continue;
		removed += result;
		rows += !removal->copies[i].is_wanted;
	}
	/* Also of a row without a copy: only a comparison tells what is missing now. */
	if (removal->is_ordered)
		return rows > 0 ? registry_note_ordered(tx, removal->kind, err) : 0;
	return removed > 0 ? removal_note(tx, removal->kind, removed, err) : 0;
}

int removal_run_batch(const struct removal_batch *removal, struct err *err)
{
	struct removal_batch batch = *removal; /* a work's argument is not const */

	if ((removal->takes_wanted ? store_write : store_read)(
		    removal->store, removal_check_gone, &batch, err) != 0)
		return -1;
	removal_discard_copies(removal);
	failpoint("removal.trashed");
	if (store_write(removal->store, removal_remove_rows, &batch, err) != 0)
		return -1;
	for (size_t i = 0; i < removal->count; i++)
		if (removal->copies[i].is_wanted)
			removal_refuse_wanted(&removal->copies[i]);
	return 0;
}

struct removal_leased {
	const struct removal_request *request;
	const char *path;
	struct job *job;
};

/* Only refrelay writes there. */
static void removal_bury_locks(const struct removal_leased *run)
{
	AUTO_FREE char *path = xasprintf("%s/%s", run->request->root, run->path);
	AUTO_CLOSE int copy = dir_open(AT_FDCWD, path, ERR_IGNORED);

	if (copy < 0)
		return;
	lock_file_bury_dead(copy);
	lock_file_bury_strangers(copy, LOCK_FILE_OLD_S);
}

static int removal_is_from_elsewhere(const struct removal_request *request,
				     const char *path, struct err *err)
{
	AUTO_CLOSE int clone = dir_open(AT_FDCWD, path, err);

	if (clone < 0)
		return dir_is_absent(err->sys_errno) ? 0 : -1;
	return request->is_from_elsewhere
		       ? request->is_from_elsewhere(request->row, clone, err)
		       : 0;
}

/* What stood at a mirror's name before, and has commits that its upstream lacks, is
 * somebody's own; and so is what another primary had at that name, while this site was
 * its secondary. 1: it stays where it is; 0: it goes. */
static int removal_leaves(const struct removal_leased *run,
			  const struct removal_copy *copy, struct err *err)
{
	const struct removal_request *request = run->request;
	AUTO_FREE char *path = xasprintf("%s/%s", request->root, run->path);
	int stays = copy->was_never_equal;

	if (strcmp(request->kind, KIND_MIRROR) != 0 || request->is_ordered ||
	    !file_is_there(AT_FDCWD, path))
		return 0;
	if (!stays)
		stays = removal_is_from_elsewhere(request, path, err);
	if (stays <= 0)
		return stays;
	log_warn("mirror.clone_left", LOG_TEXT("name", request->name),
		 LOG_TEXT("path", run->path),
		 LOG_TEXT("remedy", copy->was_never_equal
					    ? "it was never equal to its upstream: if "
					      "nobody needs it, remove it"
					    : "another primary changed it while this "
					      "site was a secondary: if nobody needs "
					      "it, remove it"));
	return 1;
}

static int removal_trash_copy(void *arg, const struct removal_copy *copy, struct err *err)
{
	const struct removal_leased *run = arg;
	const struct removal_request *request = run->request;
	AUTO_FREE char *to = NULL;
	int stays;

	if (copies_root_check_copy(request->store, request->kind, request->root,
				   request->name, err) != 0)
		return -1;
	if (strcmp(request->kind, KIND_MIRROR) == 0 &&
	    checkout_trash(&(struct checkout_call){ .job = run->job,
						    .root = request->root,
						    .name = request->name },
			   err) != 0)
		return -1;
	stays = removal_leaves(run, copy, err);
	if (stays != 0)
		return stays > 0 ? 0 : -1;
	removal_bury_locks(run);
	return trash_put(run->job, request->root, run->path, &to, err);
}

static int removal_run_leased(struct job *job, void *arg, struct err *err)
{
	struct removal_leased *run = arg;
	struct removal_copy copy = { .name = run->request->name };
	struct removal_batch removal = { .store = run->request->store,
					 .kind = run->request->kind,
					 .copies = &copy,
					 .count = 1,
					 .is_ordered = run->request->is_ordered,
					 .takes_wanted = run->request->takes_wanted,
					 .discard = removal_trash_copy,
					 .arg = run };

	run->job = job;
	if (removal_run_batch(&removal, err) != 0)
		return -1;
	*err = copy.why;
	return copy.why.class == ERR_NONE ? 0 : -1;
}

int removal_run(const struct removal_request *request, struct err *err)
{
	AUTO_FREE char *path = name_to_path(request->name);
	struct removal_leased run = { .request = request, .path = path };

	return job_run(
		&(struct job_request){
			.leases = request->leases,
			.kind = request->kind,
			.name = request->name,
			.id = request->job,
			.operation = "remove",
			.fence_floor = job_fence_floor(request->root, request->name),
			.wait_ms = request->wait_ms,
			.stop = request->stop,
			.run = removal_run_leased,
			.arg = &run,
		},
		err);
}
