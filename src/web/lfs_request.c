#include "web/lfs_request.h"

#include <stdarg.h>

#include "git/lfs_pointer.h"

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
	for (size_t i = 0; i < batch->items.count; i++)
		lfs_item_clear(&batch->items.items[i]);
	vec_clear(&batch->items);
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
			      "this oid is no SHA-256 in 64 lower-case digits");
	if (!json_is_integer(size) || json_integer_value(size) < 0)
		lfs_item_fail(item, 422, "this object's size is no number of bytes");
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

static const json_t *lfs_request_find_answer(const json_t *objects, const char *oid,
					     size_t expected)
{
	const json_t *one = json_array_get(objects, expected);
	const char *shown = json_string_value(json_object_get(one, "oid"));
	size_t i;
	json_t *any;

	if (shown && strcmp(shown, oid) == 0)
		return one;
	json_array_foreach((json_t *)(uintptr_t)objects, i, any)
	{
		shown = json_string_value(json_object_get(any, "oid"));
		if (shown && strcmp(shown, oid) == 0)
			return any;
	}
	return NULL;
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
		return err_set(err, ERR_CORRUPT, "the primary's answer is no batch");
	for (size_t i = 0; i < count; i++) {
		const json_t *one = lfs_request_find_answer(objects, items[i]->oid, i);
		if (one)
			lfs_request_take_item(one, items[i]);
		else
			lfs_item_fail(items[i], 500, "the primary says nothing of it");
	}
	return 0;
}

static json_t *object_json(const struct lfs_item *item)
{
	json_t *object = json_object();

	json_put_text(object, "oid", item->oid);
	json_put_number(object, "size", (int64_t)item->size);
	return object;
}

json_t *lfs_batch_body(enum lfs_operation operation, struct lfs_item *const *items,
		       size_t count)
{
	json_t *body = json_object();
	json_t *objects = json_array();

	json_put_text(body, "operation", operation == LFS_UPLOAD ? "upload" : "download");
	json_put(body, "transfers", json_pack("[s]", "basic"));
	for (size_t i = 0; i < count; i++)
		json_array_append_new(objects, object_json(items[i]));
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
		json_t *object = object_json(item);
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
