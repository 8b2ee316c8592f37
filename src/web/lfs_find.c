/*
 * Rows first, all in one question; then a look at each file that they say is here. A
 * repository gives what its history names and what was uploaded to it, so that an object
 * of another one, to which who asks may have no right, is not to be had by its name.
 */
#include "base/clock.h"
#include "base/log.h"
#include "blob/file.h"
#include "pull/decisions.h"
#include "replicable/lfs_rows.h"
#include "replicable/name.h"
#include "web/lfs_parts.h"

enum { PATIENCE_MS = 20 * 1000 };

struct finding {
	const struct web_services *services;
	const struct blob_kind *kind;
	const char *repository;
	struct lfs_object *objects;
	size_t count;
	bool has_strange;
};

static enum lfs_side side_of(const struct web_services *services)
{
	return services->role == SITE_SECONDARY ? LFS_REGISTRY : LFS_ORIGIN;
}

/* Under the one or the other id: git-lfs itself keeps the whole oid behind its parts. */
static void lfs_find_make_id(const char *oid, int which, char id[LFS_ID_SIZE])
{
	if (which == 0)
		blob_lfs_id(oid, id);
	else
		snprintf(id, LFS_ID_SIZE, "%.2s/%.2s/%s", oid, oid + 2, oid);
}

static int lfs_find_read_origin(struct store_tx *tx, const struct finding *finding,
				struct lfs_object *object, struct err *err)
{
	AUTO_ORIGIN_ROW struct origin_row row = { 0 };
	int found = origin_row_get(tx, finding->kind->type, object->id, &row, err);

	if (found <= 0)
		return found;
	object->where = row.verification == VERIFICATION_FAILED ? LFS_DAMAGED : LFS_HERE;
	memcpy(object->timeline, row.timeline, sizeof(object->timeline));
	object->generation = row.generation;
	return 1;
}

static int read_registry(struct store_tx *tx, const struct finding *finding,
			 struct lfs_object *object, struct err *err)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	int found = registry_get_in(tx, finding->kind->type, object->id, &row, err);

	if (found <= 0)
		return found;
	if (row.state == REGISTRY_SYNCED && row.verification != VERIFICATION_FAILED)
		object->where = LFS_HERE;
	glance_blob_of(&row, &object->known);
	memcpy(object->timeline, row.timeline, sizeof(object->timeline));
	object->generation = row.generation;
	return 1;
}

static int lfs_find_read_blob(struct store_tx *tx, const struct finding *finding,
			      struct lfs_object *object, struct err *err)
{
	int found = 0;

	object->where = LFS_ABSENT;
	for (int which = 0; found == 0 && which < 2; which++) {
		lfs_find_make_id(object->oid, which, object->id);
		found = side_of(finding->services) == LFS_ORIGIN
				? lfs_find_read_origin(tx, finding, object, err)
				: read_registry(tx, finding, object, err);
	}
	if (found == 0)
		lfs_find_make_id(object->oid, 0, object->id);
	return found < 0 ? -1 : 0;
}

/* 1: what is recorded is of this very repository; 0: of one that had its name before. */
static int has_rows(struct store_tx *tx, const struct lfs_scan *now, struct err *err)
{
	AUTO_LFS_SCAN struct lfs_scan scan = { 0 };
	int found = lfs_scan_get(tx, now->repository, &scan, err);

	if (found <= 0)
		return found;
	return scan.timeline[0] == '\0' || strcmp(scan.timeline, now->timeline) == 0;
}

/* store_work; arg: struct finding */
static int lfs_find_read_rows(struct store_tx *tx, void *arg, struct err *err)
{
	struct finding *finding = arg;
	AUTO_LFS_SCAN struct lfs_scan scan = { 0 };
	int found = lfs_scan_now(tx, side_of(finding->services), finding->repository,
				 &scan, err);

	finding->has_strange = false;
	if (found == 0)
		err_set(err, ERR_MISSING, "%s: there is no such repository here",
			finding->repository);
	int is_known = found > 0 ? has_rows(tx, &scan, err) : -1;
	if (is_known < 0)
		return -1;
	for (size_t i = 0; i < finding->count; i++) {
		struct lfs_object *object = &finding->objects[i];
		uint64_t size;
		found = 0;
		if (is_known)
			found = lfs_row_get(tx, scan.repository, object->oid, &size, err);
		if (found < 0 ||
		    (found > 0 && lfs_find_read_blob(tx, finding, object, err) != 0))
			return -1;
		if (found == 0)
			object->where = LFS_STRANGE;
		finding->has_strange |= found == 0;
	}
	return 0;
}

/* What a push has brought may not be in the rows yet, or not looked through. */
static int lfs_find_observe_again(const struct finding *finding, struct err *err)
{
	const struct web_services *services = finding->services;
	int64_t until = clock_boot_ms() + PATIENCE_MS;

	if (services->notice) {
		AUTO_NOTICED struct noticed noticed = { 0 };
		struct err why;
		if (notice_compare(services->notice, finding->repository, &noticed,
				   &why) != 0 &&
		    why.class != ERR_MISSING)
			log_warn("lfs.not_compared", LOG_ERR(&why),
				 LOG_TEXT("repo", finding->repository));
	}
	return lfs_names_look(services->lfs_names, finding->repository, until, err);
}

/* A file without a row is here, too, at the primary: it was just put there. */
static void look_at_file(int root, struct lfs_object *object)
{
	AUTO_CLOSE int fd = -1;
	struct stat stat;
	struct err err;

	if (blob_open(root, object->id, &fd, &stat, &err) != 0) {
		object->where = err.class == ERR_MISSING ? LFS_ABSENT : LFS_DAMAGED;
		return;
	}
	object->size = (uint64_t)stat.st_size;
	if (object->where == LFS_ABSENT)
		object->where = LFS_HERE;
}

/* At a secondary: what is not as it was left is asked of the primary, and looked at. */
static void look_at_copy(const struct finding *finding, int root,
			 struct lfs_object *object)
{
	AUTO_CLOSE int fd = -1;
	struct stat stat;
	struct err err;

	if (object->where != LFS_HERE)
		return;
	if (blob_open(root, object->id, &fd, &stat, &err) == 0 &&
	    glance_blob(&object->known, fd, &stat, &err) == 0) {
		object->size = (uint64_t)stat.st_size;
		return;
	}
	object->where = LFS_ABSENT;
	if (copy_is_at_fault(&err))
		pull_doubt(finding->services->pull, finding->kind->type, object->id,
			   &err);
}

static int lfs_find_look_at_files(const struct finding *finding, struct err *err)
{
	AUTO_CLOSE int root = blob_root_open(finding->kind, err);

	if (root < 0)
		return -1;
	for (size_t i = 0; i < finding->count; i++) {
		if (side_of(finding->services) == LFS_REGISTRY)
			look_at_copy(finding, root, &finding->objects[i]);
		else if (finding->objects[i].where != LFS_STRANGE)
			look_at_file(root, &finding->objects[i]);
	}
	return 0;
}

int lfs_find(const struct web_request *request, const struct blob_kind *kind,
	     const char *repository, struct lfs_object *objects, size_t count,
	     struct err *err)
{
	struct finding finding = { .services = request->services,
				   .kind = kind,
				   .repository = repository,
				   .objects = objects,
				   .count = count };
	struct store *store = request->services->store;
	int result = store_read(store, lfs_find_read_rows, &finding, err);

	if ((result != 0 && err->class == ERR_MISSING) ||
	    (result == 0 && finding.has_strange)) {
		if (lfs_find_observe_again(&finding, err) != 0)
			return -1;
		result = store_read(store, lfs_find_read_rows, &finding, err);
	}
	return result == 0 ? lfs_find_look_at_files(&finding, err) : -1;
}
