/*
 * Git LFS: the routes, what all answers have in common, and what the primary is asked in
 * place of this secondary. Problems are made as everywhere; web/exchange.c gives
 * them the form that git-lfs shows its user.
 *
 * Reading is asked for with this site's own right, as who may read here was decided here;
 * all else with what the client showed, and the primary decides.
 */
#include "web/lfs.h"

#include <stdarg.h>

#include "base/clock.h"
#include "base/log.h"
#include "git/lfs_pointer.h"
#include "mirror/lfs_offer.h"
#include "serve/find.h"
#include "web/answer.h"
#include "web/lfs_parts.h"
#include "web/pass_on.h"
#include "web/route.h"

/*
 * A batch is answered by this site as far as it can be. Uploads go to the primary, and
 * so does, at a secondary, the question after objects that are not here: the primary
 * knows which a repository has. URLs are of this site in any case, as the client may
 * reach no other.
 */

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

static int find_items(const struct web_request *request, const struct kind *kind,
		      const char *name, const item_list *list, struct lfs_object *objects,
		      struct err *err)
{
	for (size_t i = 0; i < list->count; i++)
		objects[i] = (struct lfs_object){ .oid = list->items[i]->oid };
	return lfs_find(request, kind, name, objects, list->count, err);
}

/* At a primary. */
static int judge_here(const struct web_request *request, const struct kind *kind,
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
			      "the object is not at this site yet, and %s%s",
			      err->class == ERR_BUSY ? ""
						     : "the primary does not answer: ",
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
static void offer_here(const struct web_request *request, const struct kind *kind,
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

/* Without a kind all is asked of the primary. */
static int download_at_copy(const struct web_request *request, const struct kind *kind,
			    const char *name, struct lfs_batch *batch,
			    struct web_response *response)
{
	item_list list = { 0 };
	struct err err;
	int result = 0;

	list_valid(batch, &list);
	if (list.count > 0 && kind)
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

static void refuse_busy(struct web_response *response, const struct err *err)
{
	answer_err(response, 503, err);
	response->is_expected = true;
	web_set_header(response, "Retry-After", "10");
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
	if (result < 0 && err.class == ERR_BUSY)
		refuse_busy(response, &err);
	else if (result < 0)
		lfs_refuse_unreached(request, name, &err, response);
	vec_clear(&list);
	return result != 0;
}

/* 1: the response is made. */
static int lfs_post_batch_decide(const struct web_request *request,
				 const struct kind *kind, struct lfs_batch *batch,
				 struct web_response *response, struct err *err)
{
	AUTO_FREE char *name = git_request_repository(request);
	int is_elsewhere = lfs_check_open(
		request, name,
		batch->operation == LFS_UPLOAD ? HTTP_SERVICE_PUSH : HTTP_SERVICE_READ,
		err);

	if (is_elsewhere < 0)
		return -1;
	if (request->services->role != SITE_SECONDARY)
		return judge_here(request, kind, name, batch, err);
	if (batch->operation == LFS_UPLOAD)
		return upload_at_copy(request, name, batch, response);
	return download_at_copy(request, is_elsewhere ? NULL : kind, name, batch,
				response);
}

static int lfs_post_batch(const struct web_request *request,
			  struct web_response *response, struct err *err)
{
	const struct kind *kind = lfs_kind(request, response);
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

/* With all that clients say of an object, and more. */
static const struct json_limits body_limits = { (size_t)1 << 20, 20 * LFS_BATCH_MAX };
static const struct json_limits answer_limits = { (size_t)4 << 20, 40 * LFS_BATCH_MAX };

void lfs_item_clear(struct lfs_item *item)
{
	free(item->oid);
	free(item->message);
	*item = (struct lfs_item){ 0 };
}

void lfs_batch_clear(struct lfs_batch *batch)
{
	vec_clear_each(&batch->items, lfs_item_clear);
}

void lfs_item_fail(struct lfs_item *item, int code, const char *fmt, ...)
{
	va_list args;

	if (item->code)
		return;
	va_start(args, fmt);
	if (vasprintf(&item->message, fmt, args) < 0)
		abort();
	va_end(args);
	item->code = code;
}

static enum lfs_operation operation_of(const json_t *object)
{
	const char *word = json_string_value(json_object_get(object, "operation"));

	if (word && strcmp(word, "download") == 0)
		return LFS_DOWNLOAD;
	return word && strcmp(word, "upload") == 0 ? LFS_UPLOAD : LFS_NO_OPERATION;
}

enum lfs_operation lfs_batch_operation(const char *text, size_t len)
{
	struct err err;
	json_auto_t *object = json_parse_foreign(text, len, &body_limits, &err);

	return object ? operation_of(object) : LFS_NO_OPERATION;
}

static void read_item(const json_t *object, struct lfs_item *item)
{
	const char *oid = json_string_value(json_object_get(object, "oid"));
	const json_t *size = json_object_get(object, "size");

	*item = (struct lfs_item){ .oid = xstrdup(oid ? oid : "") };
	if (!lfs_oid_is_valid(item->oid))
		lfs_item_fail(item, 422,
			      "this oid is not a SHA-256 in 64 lower-case digits");
	if (!json_is_integer(size) || json_integer_value(size) < 0)
		lfs_item_fail(item, 422, "this object's size is not a number of bytes");
	else
		item->size = (uint64_t)json_integer_value(size);
}

int lfs_object_read(const char *text, size_t len, struct lfs_item *item, struct err *err)
{
	json_auto_t *object = json_parse_foreign(text, len, &body_limits, err);

	*item = (struct lfs_item){ 0 };
	if (!object)
		return -1;
	read_item(object, item);
	return item->code ? err_set(err, ERR_CONFIG, "%s", item->message) : 0;
}

static int lfs_request_refuse(int *status, int with, struct err *err, const char *text)
{
	*status = with;
	return err_set(err, ERR_CONFIG, "%s", text);
}

/* Nothing is said of them by clients that know no others. */
static bool takes_basic(const json_t *transfers)
{
	size_t i;
	json_t *one;

	if (!transfers || json_array_size(transfers) == 0)
		return true;
	json_array_foreach((json_t *)(uintptr_t)transfers, i,
			   one) if (json_is_string(one) &&
				    strcmp(json_string_value(one), "basic") ==
					    0) return true;
	return false;
}

static int check_batch(const json_t *object, int *status, struct err *err)
{
	const json_t *objects = json_object_get(object, "objects");
	const char *algorithm = json_string_value(json_object_get(object, "hash_algo"));

	if (operation_of(object) == LFS_NO_OPERATION)
		return lfs_request_refuse(status, 422, err,
					  "the operation must be download or upload");
	if (algorithm && strcmp(algorithm, "sha256") != 0)
		return lfs_request_refuse(status, 409, err,
					  "objects go by their sha256 here");
	if (!takes_basic(json_object_get(object, "transfers")))
		return lfs_request_refuse(
			status, 422, err,
			"the only transfer that is known here is basic");
	if (!json_is_array(objects))
		return lfs_request_refuse(status, 422, err, "the batch has no objects");
	if (json_array_size(objects) > LFS_BATCH_MAX)
		return lfs_request_refuse(status, 413, err,
					  "the batch has more than 2000 objects");
	return 0;
}

int lfs_batch_read(const char *text, size_t len, struct lfs_batch *batch, int *status,
		   struct err *err)
{
	json_auto_t *object = json_parse_foreign(text, len, &body_limits, err);
	size_t i;
	json_t *one;

	*batch = (struct lfs_batch){ 0 };
	*status = 422;
	if (!object)
		return err_prefix(err, "the request is not understood");
	if (check_batch(object, status, err) != 0)
		return -1;
	batch->operation = operation_of(object);
	json_array_foreach(json_object_get(object, "objects"), i, one)
	{
		struct lfs_item item;
		read_item(one, &item);
		vec_add(&batch->items, item);
	}
	return 0;
}

static void lfs_request_take_item(const json_t *one, struct lfs_item *item)
{
	const json_t *error = json_object_get(one, "error");
	const json_t *actions = json_object_get(one, "actions");
	const char *message = json_string_value(json_object_get(error, "message"));
	json_int_t code = json_integer_value(json_object_get(error, "code"));

	if (error)
		lfs_item_fail(item, code >= 400 && code < 600 ? (int)code : 500, "%s",
			      message ? message : "the primary refuses it");
	item->is_offered = !error && json_object_size(actions) > 0;
}

int lfs_batch_take_answer(const char *text, size_t len, struct lfs_item *const *items,
			  size_t count, struct err *err)
{
	json_auto_t *answer = json_parse_foreign(text, len, &answer_limits, err);
	const json_t *objects = json_object_get(answer, "objects");

	if (!answer)
		return -1;
	if (!json_is_array(objects))
		return err_set(err, ERR_CORRUPT, "the primary's answer is not a batch");
	for (size_t i = 0; i < count; i++) {
		const json_t *one = lfs_offer_find(objects, items[i]->oid, i);
		if (one)
			lfs_request_take_item(one, items[i]);
		else
			lfs_item_fail(items[i], 500, "the primary says nothing of it");
	}
	return 0;
}

json_t *lfs_batch_body(enum lfs_operation operation, struct lfs_item *const *items,
		       size_t count)
{
	json_t *body = json_object();
	json_t *objects = json_array();

	json_put_text(body, "operation", operation == LFS_UPLOAD ? "upload" : "download");
	json_put(body, "transfers", json_pack("[s]", "basic"));
	for (size_t i = 0; i < count; i++)
		json_array_append_new(
			objects, lfs_offer_make_object(items[i]->oid, items[i]->size));
	json_put(body, "objects", objects);
	json_put_text(body, "hash_algo", "sha256");
	return body;
}

static void put_action(json_t *actions, const char *name, char *url)
{
	json_t *action = json_object();

	json_put_text(action, "href", url);
	json_put(actions, name, action);
	free(url);
}

static json_t *actions_json(enum lfs_operation operation, const struct lfs_item *item,
			    const char *base)
{
	json_t *actions = json_object();

	if (operation == LFS_DOWNLOAD) {
		put_action(actions, "download",
			   xasprintf("%s/info/lfs/objects/%s", base, item->oid));
	} else {
		put_action(actions, "upload",
			   xasprintf("%s/info/lfs/objects/%s?size=%" PRIu64, base,
				     item->oid, item->size));
		put_action(actions, "verify", xasprintf("%s/info/lfs/verify", base));
	}
	return actions;
}

static json_t *error_json(const struct lfs_item *item)
{
	json_t *error = json_object();

	json_put_number(error, "code", item->code);
	json_put_text(error, "message", item->message);
	return error;
}

json_t *lfs_batch_answer(const struct lfs_batch *batch, const char *base)
{
	json_t *answer = json_object();
	json_t *objects = json_array();

	json_put_text(answer, "transfer", "basic");
	for (size_t i = 0; i < batch->items.count; i++) {
		const struct lfs_item *item = &batch->items.items[i];
		json_t *object = lfs_offer_make_object(item->oid, item->size);
		if (item->code)
			json_put(object, "error", error_json(item));
		else if (item->is_offered)
			json_put(object, "actions",
				 actions_json(batch->operation, item, base));
		json_array_append_new(objects, object);
	}
	json_put(answer, "objects", objects);
	json_put_text(answer, "hash_algo", "sha256");
	return answer;
}

enum { ASK_MS = 60 * 1000, CHECK_MS = 60 * 1000 };
#define ANSWER_MAX ((size_t)4 << 20)

void lfs_answer_json(struct web_response *response, int status, json_t *object)
{
	web_answer_json(response, status, object);
	response->content_type = LFS_TYPE;
}

bool lfs_has_type(const struct web_request *request, struct web_response *response)
{
	const char *type = web_header(request, "Content-Type");
	size_t len = strlen(LFS_TYPE);

	if (type && strncasecmp(type, LFS_TYPE, len) == 0 &&
	    (type[len] == '\0' || type[len] == ';' || type[len] == ' '))
		return true;
	web_answer_problem(response, 415, "WRONG_CONTENT_TYPE",
			   "Content-Type must be " LFS_TYPE, "");
	return false;
}

const struct kind *lfs_kind(const struct web_request *request,
			    struct web_response *response)
{
	const struct kind *kind = kinds_find_lfs(request->services->here);

	if (kind && request->services->lfs_names)
		return kind;
	web_answer_problem(response, 404, "NO_LFS",
			   "this site keeps no objects of Git LFS",
			   "its operator gives it a kind of blobs with layout = lfs");
	return NULL;
}

/* As with pushes: what a mirror has is its upstream's. */
static int lfs_check_no_mirror(const struct web_request *request, const char *repository,
			       struct err *err)
{
	const struct mirrors *mirrors = request->services->mirrors;
	const struct mirror *mirror = mirrors ? mirrors_find(mirrors, repository) : NULL;

	if (!mirror)
		return 0;
	err_set(err, ERR_AUTH, "%s is a mirror: push to %s instead", mirror->name,
		mirror->url);
	return err_because(err, REASON_CLOSED);
}

int lfs_check_open(const struct web_request *request, const char *repository,
		   enum http_service service, struct err *err)
{
	const struct git_work work = git_work_for(request->stop, CHECK_MS);
	AUTO_REPO struct repo repo = REPO_INIT;
	AUTO_FREE char *path = NULL;

	if (service == HTTP_SERVICE_PUSH && request->services->role == SITE_SECONDARY)
		return 0;
	if (service == HTTP_SERVICE_PUSH &&
	    lfs_check_no_mirror(request, repository, err) != 0)
		return -1;
	AUTO_CLOSE int dir =
		find_repository(request->services->root, repository, &path, err);
	if (dir < 0 || repo_open(dir, ".", &repo, err) != 0) {
		if (request->services->role == SITE_SECONDARY)
			return 1;
		return err->class == ERR_MISSING ? 0 : -1;
	}
	return service == HTTP_SERVICE_PUSH
		       ? http_service_check(path, &repo, &work, service, err)
		       : http_service_check_read(path, &repo, &work, err);
}

bool lfs_request_oid(const struct web_request *request, char oid[LFS_OID_SIZE],
		     struct web_response *response)
{
	size_t end = strcspn(request->target, "?");
	size_t len = 0;

	while (len < end && request->target[end - len - 1] != '/')
		len++;
	if (len == LFS_OID_SIZE - 1) {
		memcpy(oid, request->target + end - len, len);
		oid[len] = '\0';
		if (lfs_oid_is_valid(oid))
			return true;
	}
	web_answer_problem(response, 422, "BAD_OID",
			   "objects go by their SHA-256 in 64 lower-case digits", "");
	return false;
}

/* git-lfs goes on without locks where there are none. */
static int no_locks(const struct web_request *request, struct web_response *response,
		    struct err *err)
{
	(void)request;
	(void)err;
	web_answer_problem(response, 404, "NO_LOCKS", "files cannot be locked here", "");
	return 0;
}

static const char *const lfs_forward_headers[] = {
	"User-Agent", "Via", "Range", "If-Range", "Content-Type", NULL,
};
static const char *const lfs_forward_client_headers[] = {
	"User-Agent", "Via", "Range", "If-Range", "Content-Type", "Authorization", NULL,
};

#define LFS_FORWARD                                                                      \
	.forwarded = "lfs.forwarded", .not_forwarded = "lfs.not_forwarded",              \
	.broken = "lfs.forward_broken", .name_field = "repo",                            \
	.unreached = "this goes to the primary", .remedy = "try again in a while"

static const struct pass_on_kind lfs_forward_kinds[] = {
	[LFS_AS_SITE] = { LFS_FORWARD, .headers = lfs_forward_headers,
			  .is_own_right = true, .token_s = 3 * 3600,
			  .reports_closed = true },
	[LFS_AS_CLIENT] = { LFS_FORWARD, .headers = lfs_forward_client_headers },
};

/* From "/info/lfs/" on: as it was asked of us. */
static const char *lfs_forward_find_url_end(const struct web_request *request)
{
	static const char mark[] = "/info/lfs/";
	const char *what = request->target;
	const char *next = what, *end = what + strcspn(what, "?");

	while ((next = strstr(next, mark)) != NULL && next < end)
		what = next++;
	return what;
}

void lfs_refuse_unreached(const struct web_request *request, const char *repository,
			  const struct err *err, struct web_response *response)
{
	pass_on_refuse_unreached(&lfs_forward_kinds[LFS_AS_SITE], request, repository,
				 err, response);
}

/* NULL: there is no place for it, which is the answer. */
static struct pass_on *lfs_forward_new(const struct web_request *request,
				       const char *repository, enum lfs_as as,
				       struct web_response *response)
{
	return pass_on_new(&lfs_forward_kinds[as], request, repository,
			   request->services->forwarded_files, response);
}

void lfs_forward(const struct web_request *request, const char *repository,
		 enum lfs_as as, struct web_response *response)
{
	const struct log_field said[] = { LOG_TEXT("method", request->method),
					  LOG_TEXT("user", request->user),
					  { 0 } };
	struct err err;

	if (pass_on_is_loop(request, response))
		return;
	struct pass_on *passing = lfs_forward_new(request, repository, as, response);
	if (passing &&
	    pass_on_send(passing,
			 (struct http_request){ .body_size = pass_on_body_size(passing) },
			 lfs_forward_find_url_end(request), said, response, &err) != 0)
		lfs_refuse_unreached(request, repository, &err, response);
}

static int lfs_read_answer(struct forward *forward, struct str *answer, struct err *err)
{
	char piece[8192];
	ssize_t got;

	while ((got = forward_read(forward, piece, sizeof(piece), err)) > 0) {
		str_add_bytes(answer, piece, (size_t)got);
		if (answer->len > ANSWER_MAX)
			return err_set(err, ERR_CORRUPT,
				       "the primary's answer does not end");
	}
	return got < 0 ? -1 : 0;
}

int lfs_ask_primary(const struct web_request *request, const char *repository,
		    enum lfs_as as, const struct str *body, struct str *answer,
		    struct web_response *response, struct err *err)
{
	if (pass_on_is_loop(request, response))
		return 1;
	struct pass_on *passing = lfs_forward_new(request, repository, as, response);
	if (!passing) {
		answer_reset(response);
		err_set(err, ERR_BUSY, PASS_ON_BUSY);
		return err_remedy(err, "try again in a moment");
	}
	passing->body = body;
	int result = pass_on_open(
		passing,
		(struct http_request){ .body_size = pass_on_body_size(passing),
				       .until = clock_boot_ms() + ASK_MS },
		lfs_forward_find_url_end(request), err);
	if (result == 0 && forward_status(passing->forward) != 200) {
		pass_on_hand_on(passing, response);
		result = 1;
	} else {
		if (result == 0)
			result = lfs_read_answer(passing->forward, answer, err);
		pass_on_close(passing);
	}
	return result;
}

const struct web_route web_lfs_routes[] = {
	{ "POST", "/{path}/info/lfs/objects/batch", WEB_GIT, WEB_BODY_MEMORY,
	  lfs_post_batch },
	{ "POST", "/{path}/info/lfs/verify", WEB_GIT, WEB_BODY_MEMORY, lfs_post_verify },
	{ "GET", "/{path}/info/lfs/objects/{last}", WEB_GIT, WEB_BODY_NONE,
	  lfs_get_object },
	{ "PUT", "/{path}/info/lfs/objects/{last}", WEB_GIT, WEB_BODY_STREAM,
	  lfs_put_object },
	{ "GET", "/{path}/info/lfs/locks", WEB_ANYBODY, WEB_BODY_NONE, no_locks },
	{ "POST", "/{path}/info/lfs/locks", WEB_ANYBODY, WEB_BODY_MEMORY, no_locks },
	{ "POST", "/{path}/info/lfs/locks/verify", WEB_ANYBODY, WEB_BODY_MEMORY,
	  no_locks },
	{ 0 },
};
