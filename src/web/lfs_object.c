/*
 * One object: given, taken in, and verified to be there. A secondary gives what is here
 * and hands everything else on to the primary.
 */
#include "base/clock.h"
#include "base/log.h"
#include "blob/file.h"
#include "replicable/lfs_rows.h"
#include "web/answer.h"
#include "web/blob_put.h"
#include "web/git_request.h"
#include "web/lfs_parts.h"
#include "web/retrieve.h"

static bool is_copy(const struct web_request *request)
{
	return request->services->role == SITE_SECONDARY;
}

static int find_one(const struct web_request *request, const struct blob_kind *kind,
		    const char *name, struct lfs_object *object, struct err *err)
{
	return lfs_find(request, kind, name, object, 1, err);
}

/* At a secondary, whose row says that it is right. False: it is not there any more. */
static bool give_copy(const struct web_request *request, const struct blob_kind *kind,
		      const struct lfs_object *object, struct web_response *response)
{
	AUTO_BLOB_READING struct blob_reading reading = BLOB_READING_INIT;
	AUTO_CLOSE int root = -1;
	struct err err;

	root = blob_root_open(kind, &err);
	if (root < 0 ||
	    blob_open(root, object->id, &reading.fd, &reading.stat, &err) != 0 ||
	    glance_blob(&object->known, reading.fd, &reading.stat, &err) != 0)
		return false;
	blob_print_of(&reading.stat, &reading.print);
	reading.row.name = xstrdup(object->id);
	reading.row.checksum = xstrdup(object->oid);
	reading.row.generation = object->generation;
	memcpy(reading.row.timeline, object->timeline, sizeof(reading.row.timeline));
	retrieve_answer(request, kind, &reading, response);
	return true;
}

static void get_at_copy(const struct web_request *request, const struct blob_kind *kind,
			const char *name, struct lfs_object *object,
			struct web_response *response)
{
	struct err err;

	if (find_one(request, kind, name, object, &err) == 0 &&
	    object->where == LFS_HERE && give_copy(request, kind, object, response))
		return;
	lfs_forward(request, name, LFS_AS_SITE, response);
}

static int get_here(const struct web_request *request, const struct blob_kind *kind,
		    const char *name, struct lfs_object *object,
		    struct web_response *response, struct err *err)
{
	if (find_one(request, kind, name, object, err) != 0)
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
	const struct blob_kind *kind = lfs_kind(request, response);
	char oid[LFS_OID_SIZE];
	struct lfs_object object = { .oid = oid };

	if (!kind || !lfs_request_oid(request, oid, response))
		return 0;
	if (!is_copy(request))
		return get_here(request, kind, name, &object, response, err);
	get_at_copy(request, kind, name, &object, response);
	return 0;
}

struct upload {
	const char *name;
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

static int answer_upload_failed(struct web_response *response, const struct err *err)
{
	if (err->class != ERR_CORRUPT)
		return -1;
	web_answer_problem(response, 422, "WRONG_DIGEST", err->text, err->remedy);
	return 0;
}

/* One id an object: where it is already, or where new ones are put. */
static int take_upload(const struct web_request *request, struct upload *upload,
		       struct lfs_object *object, const struct blob_kind *kind,
		       struct err *err)
{
	struct blob_put put = { .kind = kind, .id = object->id };
	int result;

	memcpy(put.digest, object->oid, sizeof(put.digest));
	if (object->where == LFS_STRANGE)
		blob_lfs_id(object->oid, object->id);
	result = blob_put_upload(request, &put, err);
	upload->row.size = put.row.size;
	origin_row_clear(&put.row);
	return result;
}

static int lfs_object_put_here(const struct web_request *request,
			       const struct blob_kind *kind, const char *name,
			       struct lfs_object *object, struct web_response *response,
			       struct err *err)
{
	struct upload upload = { .name = name };
	uint64_t size;

	memcpy(upload.row.oid, object->oid, sizeof(upload.row.oid));
	if (!has_right_size(request, &size, response))
		return 0;
	if (find_one(request, kind, name, object, err) != 0 && err->class != ERR_BUSY)
		return -1;
	if (take_upload(request, &upload, object, kind, err) != 0)
		return answer_upload_failed(response, err);
	if (size != UINT64_MAX && size != upload.row.size) {
		web_answer_problem(response, 422, "WRONG_SIZE",
				   "the object has another size than was announced", "");
		return 0;
	}
	if (store_write(request->services->store, record_upload, &upload, err) != 0)
		return -1;
	lfs_answer_json(response, 200, json_object());
	return 0;
}

int lfs_put_object(const struct web_request *request, struct web_response *response,
		   struct err *err)
{
	AUTO_FREE char *name = git_request_repository(request);
	const struct blob_kind *kind = lfs_kind(request, response);
	char oid[LFS_OID_SIZE];
	struct lfs_object object = { .oid = oid };

	if (!kind || !lfs_request_oid(request, oid, response))
		return 0;
	if (!is_copy(request))
		return lfs_object_put_here(request, kind, name, &object, response, err);
	lfs_forward(request, name, LFS_AS_CLIENT, response);
	return 0;
}

static int verify_here(const struct web_request *request, const struct blob_kind *kind,
		       const char *name, const struct lfs_item *item,
		       struct web_response *response, struct err *err)
{
	struct lfs_object object = { .oid = item->oid };

	if (find_one(request, kind, name, &object, err) != 0)
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
	const struct blob_kind *kind = lfs_kind(request, response);
	struct lfs_item item = { 0 };
	int result = 0;

	if (!kind || !lfs_has_type(request, response))
		return 0;
	if (is_copy(request))
		lfs_forward(request, name, LFS_AS_CLIENT, response);
	else if (lfs_object_read(request->body->data, request->body->len, &item, err))
		answer_err(response, 422, err);
	else
		result = verify_here(request, kind, name, &item, response, err);
	lfs_item_clear(&item);
	return result;
}
