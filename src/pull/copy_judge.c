/*
 * While a row is synced, pull writes nothing to its copy; whatever it writes before, it
 * records before the row is synced. So when a synced row's copy does not look as its
 * record says, and no attempt has begun since the row was read, it was somebody else.
 */
#include "base/file.h"
#include "base/log.h"
#include "base/metrics.h"
#include "pull/copy_content.h"
#include "pull/copy_watch.h"
#include "pull/mend.h"
#include "pull/sync_repository.h"
#include "replicable/name.h"
#include "upkeep/copies_root.h"

static bool is_at_rest(const struct registry_row *row)
{
	return row->state == REGISTRY_SYNCED && !row->is_gone;
}

/* What was only stamped anew is read once. */
static bool has_objects(const struct pull *pull, const struct repo *copy,
			const struct copy_record *record, const struct copy_files *files)
{
	enum copy_stamps stamps = copy_record_compare_objects(record, files);

	return stamps == COPY_STAMPS_SAME ||
	       (stamps == COPY_STAMPS_LATER &&
		copy_content_is_sound(copy, record->files_changed_ns, &pull->stop));
}

/* COPY_OURS, COPY_YOUNG or COPY_CHANGED; COPY_BUSY after a stop. */
static enum copy_verdict look_at_disk(struct pull *pull, const struct registry_row *row)
{
	AUTO_FREE char *below = name_to_path(row->name);
	AUTO_FREE char *path = xasprintf("%s/%s", pull->options.root, below);
	AUTO_RECORD struct copy_record record = { 0 };
	AUTO_REPO struct repo copy = REPO_INIT;
	struct copy_files files;

	if (repo_open(AT_FDCWD, path, &copy, ERR_IGNORED) != 0 ||
	    repo_check_diversions(copy.fd, ERR_IGNORED) != 0 ||
	    mend_check_refs(copy.fd, ERR_IGNORED) != 0 ||
	    copy_files_take(copy.fd, &files, ERR_IGNORED) != 0)
		return COPY_CHANGED;
	copy_record_read(copy.fd, &record);
	if (!copy_record_is_of_row(&record, row) || !sync_is_as_recorded(&copy, &record))
		return COPY_CHANGED;
	copy_record_clear(&record);
	copy_record_read(copy.fd, &record);
	if (!has_objects(pull, &copy, &record, &files))
		return stop_is_requested(&pull->stop) ? COPY_BUSY : COPY_CHANGED;
	copy_record_restamp(copy.fd, &record, &files);
	return record.is_settled ? COPY_OURS : COPY_YOUNG;
}

static int copy_judge_read_row(struct pull *pull, const char *name,
			       struct registry_row *row, struct err *err)
{
	if (registry_get(pull->options.store, KIND_REPOSITORY, name, row, err) == 0 ||
	    err->class == ERR_MISSING)
		return 0;
	return -1;
}

int copy_judge(struct pull *pull, const char *name, enum copy_verdict *verdict,
	       struct err *err)
{
	AUTO_REGISTRY_ROW struct registry_row before = { 0 }, after = { 0 };

	if (copy_judge_read_row(pull, name, &before, err) != 0)
		return -1;
	if (!before.name)
		*verdict = COPY_UNKNOWN;
	else if (before.state == REGISTRY_STARTED)
		*verdict = COPY_BUSY;
	else if (!is_at_rest(&before))
		*verdict = COPY_AWAITED;
	else if ((*verdict = look_at_disk(pull, &before)) != COPY_CHANGED)
		return 0;
	else if (copy_judge_read_row(pull, name, &after, err) != 0)
		return -1;
	else
		*verdict = after.name && is_at_rest(&after) &&
					   after.last_attempt_at == before.last_attempt_at
				   ? COPY_CHANGED
				   : COPY_BUSY;
	return 0;
}

static void copy_judge_count_change(void)
{
	struct metric *changes = metric_counter(
		"refrelay_copy_changes_total",
		"Changes of copies by others than refrelay that were noticed.");

	metric_add(metric_at(changes), 1);
}

int copy_doubt(struct pull *pull, const char *name, struct err *err)
{
	const struct pull_options *options = &pull->options;
	struct err why;

	if (copies_root_check(options->store, options->root, err) != 0)
		return -1;
	err_set(&why, ERR_CONFLICT, "somebody else has changed the copy's disk");
	copy_judge_count_change();
	log_warn("copy.changed", LOG_TEXT("repo", name));
	pull_doubt(pull, KIND_REPOSITORY, name, &why);
	return 0;
}
