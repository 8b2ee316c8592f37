/*
 * What is looked for is what a lost disk, a folder that was moved away, or an index of
 * other packs takes away: the objects that refs name. That costs some reads of indexes
 * and no process, unless they are loose, or gone.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "git/objects.h"
#include "replicable/name.h"
#include "replicable/origin_rows.h"
#include "verify/verify_origin_parts.h"

#define REFS_MOST 16 /* which are looked for without a process */
#define TIMEOUT_MS ((int64_t)60 * 1000)
#define PAGE 200

/* Sixteen of all, evenly. What names and ids point to stays the snapshot's. */
static void choose(const struct ref_snapshot *all, struct ref_snapshot *some)
{
	size_t step = (all->refs.count + REFS_MOST - 1) / REFS_MOST;

	for (size_t i = 0; i < all->refs.count; i += step)
		vec_add(&some->refs, all->refs.items[i]);
	some->head_target = all->head_target;
	some->head_oid = all->head_oid;
}

static int look_for_objects(const struct repo *repo, const struct stop *stop,
			    struct err *err)
{
	AUTO_SNAPSHOT struct ref_snapshot refs = REF_SNAPSHOT_INIT;
	const struct git_work work = { .stop = stop,
				       .guard_fd = -1,
				       .until = clock_boot_ms() + TIMEOUT_MS };
	struct ref_snapshot some = { 0 };
	int result;

	if (ref_snapshot_read(repo->fd, repo->oid_len, &refs, err) != 0)
		return -1;
	choose(&refs, &some);
	result = objects_check_tips(&work, repo, &some, err);
	vec_clear(&some.refs);
	if (result != 0 && err->class == ERR_CORRUPT)
		err_because(err, REASON_LOST_OBJECT);
	return result;
}

/* One that changes meanwhile is looked at again: its refs may be older than its objects,
 * and the other way round. */
int verify_origin_glance(const char *root, const char *path, const struct stop *stop,
			 struct err *err)
{
	AUTO_FREE char *whole = xasprintf("%s/%s", root, path);
	int result = -1;

	for (int looks = 0; looks < 2 && result != 0; looks++) {
		AUTO_REPO struct repo repo = REPO_INIT;
		result = repo_open(AT_FDCWD, whole, &repo, err);
		if (result == 0)
			result = look_for_objects(&repo, stop, err);
	}
	return result;
}

static int verify_origin_glance_note_failure(struct store *store, const char *name,
					     const struct err *why,
					     struct verify_glances *glances,
					     struct err *err)
{
	if (glances->broken++ == 0) {
		glances->example = xstrdup(name);
		glances->why = *why;
	}
	return verify_doubt_fail(store, name, why, err);
}

/* One that was deleted meanwhile lacks nothing; one that changes all the time is looked
 * at again; one of another format is a finding of its own. */
static void note_unseen(const char *name, const struct err *why,
			struct verify_glances *glances)
{
	if (why->class == ERR_MISSING || why->class == ERR_CONFLICT ||
	    why->reason == REASON_FORMAT || glances->unseen++ > 0)
		return;
	glances->unseen_example = xstrdup(name);
	glances->unseen_why = *why;
}

static int look_at_page(struct store *store, const char *root, const origin_rows *rows,
			struct verify_glances *glances, struct err *err)
{
	struct err why;

	for (size_t i = 0; i < rows->count; i++) {
		const struct origin_row *row = &rows->items[i];
		const bool is_well =
			verify_origin_glance(root, row->path, NULL, &why) == 0;
		if (!is_well && why.class != ERR_CORRUPT) {
			note_unseen(row->name, &why, glances);
			continue;
		}
		glances->looked++;
		if (!is_well && verify_origin_glance_note_failure(store, row->name, &why,
								  glances, err) != 0)
			return -1;
	}
	return 0;
}

int verify_origin_glance_all(struct store *store, const char *root,
			     struct verify_glances *glances, struct err *err)
{
	AUTO_FREE char *after = NULL;
	size_t count = PAGE;
	int result = 0;

	*glances = (struct verify_glances){ 0 };
	while (result == 0 && count == PAGE) {
		AUTO_ORIGIN_ROWS origin_rows rows = { 0 };
		result = origin_rows_read_page(store, KIND_REPOSITORY, after, PAGE, &rows,
					       err);
		if (result == 0)
			result = look_at_page(store, root, &rows, glances, err);
		count = rows.count;
		free(TAKE(after));
		if (count > 0)
			after = xstrdup(rows.items[count - 1].name);
	}
	return result;
}
