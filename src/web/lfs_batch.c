/*
 * A batch is answered by this site as far as it can be. Uploads go to the primary, and
 * so does, at a secondary, the question after objects that are not here: the primary
 * knows which a repository has. URLs are of this site in any case, as the client may
 * reach no other.
 */
#include "base/log.h"
#include "web/answer.h"
#include "web/lfs_parts.h"
#include "web/route.h"

typedef VEC(struct lfs_item *) item_list;

static void add_origin(const struct web_request *request, struct str *out)
{
	const char *url = request->services->url;
	const char *host = web_header(request, "Host");

	if (url) {
		size_t len = strlen(url);
		while (len > 0 && url[len - 1] == '/')
			len--;
		str_add_bytes(out, url, len);
	} else {
		str_addf(out, "%s://%s", request->is_secure ? "https" : "http",
			 host ? host : "");
	}
}

/* The repository's URL as the client wrote it. */
static void lfs_post_batch_add_base(const struct web_request *request, struct str *out)
{
	static const char end[] = "/info/lfs/objects/batch";
	size_t len = strcspn(request->target, "?");

	add_origin(request, out);
	str_add_bytes(out, request->target, len - strlen(end));
}

static void lfs_post_batch_answer(const struct web_request *request,
				  const struct lfs_batch *batch,
				  struct web_response *response)
{
	AUTO_STR struct str base = STR_INIT;

	lfs_post_batch_add_base(request, &base);
	lfs_answer_json(response, 200, lfs_batch_answer(batch, base.data));
}

static void judge_download(struct lfs_item *item, const struct lfs_object *object)
{
	switch (object->where) {
	case LFS_STRANGE:
		lfs_item_fail(item, 404,
			      "this repository has no such object: neither does its "
			      "history name it, nor was it uploaded");
		return;
	case LFS_ABSENT:
		lfs_item_fail(item, 404,
			      "the object is not here: it was never uploaded, or was "
			      "lost; who has it uploads it by `git lfs push --all`");
		return;
	case LFS_DAMAGED:
		lfs_item_fail(item, 409,
			      "the object is damaged here; its operator is told by "
			      "`refrelay status`");
		return;
	case LFS_HERE:
		break;
	}
	if (object->size == item->size)
		item->is_offered = true;
	else
		lfs_item_fail(item, 422, "this object has %" PRIu64 " bytes",
			      object->size);
}

/* Who uploads what is here for another repository proves that he has it. */
static void judge_upload(struct lfs_item *item, const struct lfs_object *object)
{
	if (object->where != LFS_HERE)
		item->is_offered = true;
	else if (object->size != item->size)
		lfs_item_fail(item, 422, "this object has %" PRIu64 " bytes",
			      object->size);
}

/* What is right with them so far. */
static void list_valid(struct lfs_batch *batch, item_list *list)
{
	for (size_t i = 0; i < batch->items.count; i++)
		if (batch->items.items[i].code == 0)
			vec_add(list, &batch->items.items[i]);
}

static int find_items(const struct web_request *request, const struct blob_kind *kind,
		      const char *name, const item_list *list, struct lfs_object *objects,
		      struct err *err)
{
	for (size_t i = 0; i < list->count; i++)
		objects[i] = (struct lfs_object){ .oid = list->items[i]->oid };
	return lfs_find(request, kind, name, objects, list->count, err);
}

/* At a primary. */
static int judge_here(const struct web_request *request, const struct blob_kind *kind,
		      const char *name, struct lfs_batch *batch, struct err *err)
{
	item_list list = { 0 };
	struct lfs_object *objects;
	int result;

	list_valid(batch, &list);
	objects = xcalloc(list.count + 1, sizeof(*objects));
	result = find_items(request, kind, name, &list, objects, err);
	for (size_t i = 0; result == 0 && i < list.count; i++) {
		if (batch->operation == LFS_DOWNLOAD)
			judge_download(list.items[i], &objects[i]);
		else
			judge_upload(list.items[i], &objects[i]);
	}
	free(objects);
	vec_clear(&list);
	return result;
}

static void lfs_post_batch_fail_all(const item_list *list, const struct err *err)
{
	for (size_t i = 0; i < list->count; i++)
		lfs_item_fail(list->items[i], 503,
			      "the object is not at this site yet, and the primary "
			      "does not answer: %s",
			      err->text);
}

/* Sets what the primary says of them. 1: the response is made. */
static int lfs_post_batch_ask_primary(const struct web_request *request, const char *name,
				      enum lfs_operation operation, const item_list *list,
				      struct web_response *response, struct err *err)
{
	json_auto_t *object = lfs_batch_body(operation, list->items, list->count);
	AUTO_STR struct str body = STR_INIT;
	AUTO_STR struct str answer = STR_INIT;
	int result;

	json_render(object, &body);
	result = lfs_ask_primary(request, name,
				 operation == LFS_UPLOAD ? LFS_AS_CLIENT : LFS_AS_SITE,
				 &body, &answer, response, err);
	if (result != 0)
		return result;
	return lfs_batch_take_answer(answer.data, answer.len, list->items, list->count,
				     err);
}

/* Offers what is here and leaves the others in the list. What cannot be found here for
 * any reason may be there. */
static void offer_here(const struct web_request *request, const struct blob_kind *kind,
		       const char *name, item_list *list)
{
	struct lfs_object *objects = xcalloc(list->count + 1, sizeof(*objects));
	size_t left = 0;
	struct err err;

	if (find_items(request, kind, name, list, objects, &err) != 0) {
		if (err.class != ERR_MISSING && err.class != ERR_BUSY)
			log_warn("lfs.not_found_here", LOG_ERR(&err),
				 LOG_TEXT("repo", name));
		free(objects);
		return;
	}
	for (size_t i = 0; i < list->count; i++) {
		struct lfs_item *item = list->items[i];
		item->is_offered =
			objects[i].where == LFS_HERE && objects[i].size == item->size;
		if (!item->is_offered)
			list->items[left++] = item;
	}
	list->count = left;
	free(objects);
}

static int download_at_copy(const struct web_request *request,
			    const struct blob_kind *kind, const char *name,
			    struct lfs_batch *batch, struct web_response *response)
{
	item_list list = { 0 };
	struct err err;
	int result = 0;

	list_valid(batch, &list);
	if (list.count > 0)
		offer_here(request, kind, name, &list);
	if (list.count > 0)
		result = lfs_post_batch_ask_primary(request, name, LFS_DOWNLOAD, &list,
						    response, &err);
	if (result < 0) {
		log_warn("lfs.not_asked", LOG_ERR(&err), LOG_TEXT("repo", name));
		lfs_post_batch_fail_all(&list, &err);
	}
	vec_clear(&list);
	return result > 0;
}

static int upload_at_copy(const struct web_request *request, const char *name,
			  struct lfs_batch *batch, struct web_response *response)
{
	item_list list = { 0 };
	struct err err;
	int result;

	list_valid(batch, &list);
	result = lfs_post_batch_ask_primary(request, name, LFS_UPLOAD, &list, response,
					    &err);
	if (result < 0)
		lfs_refuse_unreached(request, name, &err, response);
	vec_clear(&list);
	return result != 0;
}

/* 1: the response is made. */
static int lfs_post_batch_decide(const struct web_request *request,
				 const struct blob_kind *kind, struct lfs_batch *batch,
				 struct web_response *response, struct err *err)
{
	AUTO_FREE char *name = git_request_repository(request);

	if (request->services->role != SITE_SECONDARY)
		return judge_here(request, kind, name, batch, err);
	if (batch->operation == LFS_UPLOAD)
		return upload_at_copy(request, name, batch, response);
	return download_at_copy(request, kind, name, batch, response);
}

static void refuse_busy(struct web_response *response, const struct err *err)
{
	answer_err(response, 503, err);
	response->is_expected = true;
	web_set_header(response, "Retry-After", "10");
}

int lfs_post_batch(const struct web_request *request, struct web_response *response,
		   struct err *err)
{
	const struct blob_kind *kind = lfs_kind(request, response);
	AUTO_LFS_BATCH struct lfs_batch batch = { 0 };
	int status;

	if (!kind || !lfs_has_type(request, response))
		return 0;
	if (lfs_batch_read(request->body->data, request->body->len, &batch, &status,
			   err) != 0) {
		answer_err(response, status, err);
		return 0;
	}
	int result = lfs_post_batch_decide(request, kind, &batch, response, err);
	if (result < 0 && err->class == ERR_BUSY)
		refuse_busy(response, err);
	else if (result < 0)
		return -1;
	else if (result == 0)
		lfs_post_batch_answer(request, &batch, response);
	return 0;
}
