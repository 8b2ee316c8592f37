/*
 * Objects: where they are; and one of them given, taken in, and verified to be there. A
 * secondary gives what is here and hands everything else on to the primary.
 *
 * They are looked for in rows first, all in one question; then each file that they say is
 * here is looked at. A repository gives what its history names and what was uploaded to
 * it, so that an object of another one, to which who asks may have no right, is not to be
 * had by its name.
 */
#include "base/clock.h"
#include "base/log.h"
#include "blob/file.h"
#include "replicable/lfs_rows.h"
#include "replicable/name.h"
#include "web/answer.h"
#include "web/blob_put.h"
#include "web/blobs.h"
#include "web/lfs_parts.h"
#include "web/route.h"

enum { PATIENCE_MS = 20 * 1000 };

struct finding {
	const struct web_services *services;
	const struct kind *kind;
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
		if (notice_compare_hint(services->notice, finding->repository, &noticed,
					&why) != 0 &&
		    why.class != ERR_MISSING)
			log_warn("lfs.not_compared", LOG_ERR(&why),
				 LOG_TEXT("repo", finding->repository));
	}
	return lfs_names_look(services->lfs_names, finding->repository, until, err);
}

/* A file without a row is here, too, at the primary: it was just put there. */
static int look_at_file(int root, struct lfs_object *object, struct err *err)
{
	AUTO_CLOSE int fd = -1;
	struct stat stat;

	if (blob_open(root, object->id, &fd, &stat, err) != 0) {
		object->where = err->class == ERR_MISSING ? LFS_ABSENT : LFS_DAMAGED;
		return err_is_of_data(err) ? 0 : -1;
	}
	object->size = (uint64_t)stat.st_size;
	if (object->where == LFS_ABSENT)
		object->where = LFS_HERE;
	return 0;
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
	if (err_is_of_data(&err))
		pull_doubt(finding->services->pull, finding->kind->type, object->id,
			   &err);
}

static int lfs_find_look_at_files(const struct finding *finding, struct err *err)
{
	AUTO_CLOSE int root = blob_root_open(finding->kind->blobs, err);

	if (root < 0)
		return -1;
	for (size_t i = 0; i < finding->count; i++) {
		if (side_of(finding->services) == LFS_REGISTRY)
			look_at_copy(finding, root, &finding->objects[i]);
		else if (finding->objects[i].where != LFS_STRANGE &&
			 look_at_file(root, &finding->objects[i], err) != 0)
			return -1;
	}
	return 0;
}

int lfs_find(const struct web_request *request, const struct kind *kind,
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

static bool is_copy(const struct web_request *request)
{
	return request->services->role == SITE_SECONDARY;
}

/* At a secondary, whose row says that it is right. False: it is not there any more. */
static bool give_copy(const struct web_request *request, const struct kind *kind,
		      const struct lfs_object *object, struct web_response *response)
{
	AUTO_BLOB_READING struct blob_reading reading = BLOB_READING_INIT;
	AUTO_CLOSE int root = -1;
	struct err err;

	root = blob_root_open(kind->blobs, &err);
	if (root < 0 ||
	    blob_open(root, object->id, &reading.fd, &reading.stat, &err) != 0 ||
	    glance_blob(&object->known, reading.fd, &reading.stat, &err) != 0)
		return false;
	blob_fingerprint_of(&reading.stat, &reading.fingerprint);
	reading.row.name = xstrdup(object->id);
	reading.row.checksum = xstrdup(object->oid);
	reading.row.generation = object->generation;
	memcpy(reading.row.timeline, object->timeline, sizeof(reading.row.timeline));
	retrieve_answer(request, kind, &reading, response);
	return true;
}

static void get_at_copy(const struct web_request *request, const struct kind *kind,
			const char *name, struct lfs_object *object,
			struct web_response *response)
{
	struct err err;

	if (lfs_find(request, kind, name, object, 1, &err) == 0 &&
	    object->where == LFS_HERE && give_copy(request, kind, object, response))
		return;
	lfs_forward(request, name, LFS_AS_SITE, response);
}

static int get_here(const struct web_request *request, const struct kind *kind,
		    const char *name, struct lfs_object *object,
		    struct web_response *response, struct err *err)
{
	if (lfs_find(request, kind, name, object, 1, err) != 0)
		return -1;
	if (object->where == LFS_STRANGE || object->where == LFS_ABSENT) {
		web_answer_problem(response, 404, WIRE_FILE_NOT_FOUND,
				   object->where == LFS_STRANGE
					   ? "this repository has no such object"
					   : "the object is not here",
				   "");
		return 0;
	}
	return retrieve_file(request, kind, object->id, response, err);
}

int lfs_get_object(const struct web_request *request, struct web_response *response,
		   struct err *err)
{
	AUTO_FREE char *name = git_request_repository(request);
	const struct kind *kind = lfs_kind(request, response);
	char oid[LFS_OID_SIZE];
	struct lfs_object object = { .oid = oid };

	if (!kind || !lfs_request_oid(request, oid, response))
		return 0;
	int is_elsewhere = lfs_check_open(request, name, HTTP_SERVICE_READ, err);
	if (is_elsewhere < 0)
		return -1;
	if (!is_copy(request))
		return get_here(request, kind, name, &object, response, err);
	if (is_elsewhere)
		lfs_forward(request, name, LFS_AS_SITE, response);
	else
		get_at_copy(request, kind, name, &object, response);
	return 0;
}

struct upload {
	const char *name;
	uint64_t size; /* as announced by the URL; UINT64_MAX: it is not */
	bool has_wrong_size;
	struct lfs_row row;
};

/* store_work; arg: struct upload */
static int record_upload(struct store_tx *tx, void *arg, struct err *err)
{
	const struct upload *upload = arg;
	AUTO_LFS_SCAN struct lfs_scan scan = { 0 };
	int found = lfs_scan_now(tx, LFS_ORIGIN, upload->name, &scan, err);

	if (found == 0)
		err_set(err, ERR_MISSING, "%s: there is no such repository any more",
			upload->name);
	if (found <= 0)
		return -1;
	return lfs_rows_add_uploaded(tx, &scan, &upload->row, err);
}

/* False, with the answer made: the URL, which names the size that the client announced,
 * and the body do not agree. */
static bool has_right_size(const struct web_request *request, uint64_t *size,
			   struct web_response *response)
{
	const char *length = web_header(request, "Content-Length");
	const char *wanted = web_query(request, "size");
	uint64_t announced;

	*size = UINT64_MAX;
	if (wanted && !text_to_uint64(wanted, size)) {
		web_answer_problem(response, 422, "BAD_SIZE", "size is no number", "");
		return false;
	}
	if (!wanted || !length || !text_to_uint64(length, &announced) ||
	    announced == *size || web_header(request, "Content-Encoding"))
		return true;
	web_answer_problem(response, 422, "WRONG_SIZE",
			   "the body has another size than was announced",
			   "ask for a batch again");
	return false;
}

static int answer_upload_failed(const struct upload *upload,
				struct web_response *response, const struct err *err)
{
	if (err->class != ERR_CORRUPT)
		return -1;
	web_answer_problem(response, 422,
			   upload->has_wrong_size ? "WRONG_SIZE" : "WRONG_DIGEST",
			   err->text, err->remedy);
	return 0;
}

/* One id an object: where it is already, or where new ones are put. */
static int take_upload(const struct web_request *request, struct upload *upload,
		       struct lfs_object *object, const struct kind *kind,
		       struct err *err)
{
	struct blob_put put = { .kind = kind, .id = object->id, .size = upload->size };
	int result;

	memcpy(put.digest, object->oid, sizeof(put.digest));
	if (object->where == LFS_STRANGE)
		blob_lfs_id(object->oid, object->id);
	result = blob_put_upload(request, &put, err);
	upload->row.size = put.row.size;
	upload->has_wrong_size = put.has_wrong_size;
	origin_row_clear(&put.row);
	return result;
}

static int lfs_object_put_here(const struct web_request *request, const struct kind *kind,
			       const char *name, struct lfs_object *object,
			       struct web_response *response, struct err *err)
{
	struct upload upload = { .name = name };

	memcpy(upload.row.oid, object->oid, sizeof(upload.row.oid));
	if (!has_right_size(request, &upload.size, response))
		return 0;
	if (lfs_find(request, kind, name, object, 1, err) != 0 && err->class != ERR_BUSY)
		return -1;
	if (take_upload(request, &upload, object, kind, err) != 0)
		return answer_upload_failed(&upload, response, err);
	if (store_write(request->services->store, record_upload, &upload, err) != 0)
		return -1;
	lfs_answer_json(response, 200, json_object());
	return 0;
}

int lfs_put_object(const struct web_request *request, struct web_response *response,
		   struct err *err)
{
	AUTO_FREE char *name = git_request_repository(request);
	const struct kind *kind = lfs_kind(request, response);
	char oid[LFS_OID_SIZE];
	struct lfs_object object = { .oid = oid };

	if (!kind || !lfs_request_oid(request, oid, response))
		return 0;
	if (lfs_check_open(request, name, HTTP_SERVICE_PUSH, err) != 0)
		return -1;
	if (!is_copy(request))
		return lfs_object_put_here(request, kind, name, &object, response, err);
	lfs_forward(request, name, LFS_AS_CLIENT, response);
	return 0;
}

static int verify_here(const struct web_request *request, const struct kind *kind,
		       const char *name, const struct lfs_item *item,
		       struct web_response *response, struct err *err)
{
	struct lfs_object object = { .oid = item->oid };

	if (lfs_find(request, kind, name, &object, 1, err) != 0)
		return -1;
	if (object.where != LFS_HERE)
		web_answer_problem(response, 404, WIRE_FILE_NOT_FOUND,
				   "the object is not here", "upload it again");
	else if (object.size != item->size)
		web_answer_problem(response, 422, "WRONG_SIZE",
				   "the object has another size", "");
	else
		lfs_answer_json(response, 200, json_object());
	return 0;
}

int lfs_post_verify(const struct web_request *request, struct web_response *response,
		    struct err *err)
{
	AUTO_FREE char *name = git_request_repository(request);
	const struct kind *kind = lfs_kind(request, response);
	struct lfs_item item = { 0 };
	int result = 0;

	if (!kind || !lfs_has_type(request, response))
		return 0;
	if (lfs_check_open(request, name, HTTP_SERVICE_PUSH, err) != 0)
		return -1;
	if (is_copy(request))
		lfs_forward(request, name, LFS_AS_CLIENT, response);
	else if (lfs_object_read(request->body->data, request->body->len, &item, err))
		answer_err(response, 422, err);
	else
		result = verify_here(request, kind, name, &item, response, err);
	lfs_item_clear(&item);
	return result;
}
