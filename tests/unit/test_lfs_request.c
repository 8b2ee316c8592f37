#include "test.h"

#include "web/lfs.h"

#define OID "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393"
#define OTHER "0000000000000000000000000000000000000000000000000000000000000000"

static int read_batch(const char *text, struct lfs_batch *batch, int *status)
{

	return lfs_batch_read(text, strlen(text), batch, status, &err);
}

static int refused(const char *text)
{
	AUTO_LFS_BATCH struct lfs_batch batch;
	int status = 0;

	return read_batch(text, &batch, &status) == 0 ? 200 : status;
}

static void a_batch_names_objects(void **state)
{
	AUTO_LFS_BATCH struct lfs_batch batch;
	int status;

	(void)state;
	assert_int_equal(
		read_batch("{\"operation\":\"upload\",\"objects\":[{\"oid\":\"" OID
			   "\",\"size\":7}],\"ref\":{\"name\":\"x\"}}",
			   &batch, &status),
		0);
	assert_int_equal(batch.operation, LFS_UPLOAD);
	assert_int_equal(batch.items.count, 1);
	assert_string_equal(batch.items.items[0].oid, OID);
	assert_int_equal(batch.items.items[0].size, 7);
	assert_int_equal(batch.items.items[0].code, 0);
}

static void a_wrong_batch_is_refused(void **state)
{
	(void)state;
	assert_int_equal(refused(""), 422);
	assert_int_equal(refused("[]"), 422);
	assert_int_equal(refused("{}"), 422);
	assert_int_equal(refused("{\"operation\":\"verify\",\"objects\":[]}"), 422);
	assert_int_equal(refused("{\"operation\":\"upload\"}"), 422);
	assert_int_equal(refused("{\"operation\":\"upload\",\"objects\":{}}"), 422);
	assert_int_equal(refused("{\"operation\":\"upload\",\"hash_algo\":\"md5\","
				 "\"objects\":[]}"),
			 409);
	assert_int_equal(refused("{\"operation\":\"upload\",\"transfers\":[\"tus\"],"
				 "\"objects\":[]}"),
			 422);
	assert_int_equal(refused("{\"operation\":\"upload\",\"transfers\":[\"tus\","
				 "\"basic\"],\"hash_algo\":\"sha256\",\"objects\":[]}"),
			 200);
}

static void too_many_objects_are_refused(void **state)
{
	AUTO_STR struct str text = STR_INIT;

	(void)state;
	str_add(&text, "{\"operation\":\"download\",\"objects\":[0");
	for (int i = 1; i < LFS_BATCH_MAX; i++)
		str_add(&text, ",0");
	size_t len = text.len;
	str_add(&text, "]}");
	assert_int_equal(refused(text.data), 200);
	str_truncate(&text, len);
	str_add(&text, ",0]}");
	assert_int_equal(refused(text.data), 413);
}

static void a_wrong_object_has_its_own_error(void **state)
{
	static const char *const objects[] = {
		"7",
		"{}",
		"{\"oid\":\"" OID "\"}",
		"{\"oid\":\"" OID "\",\"size\":-1}",
		"{\"oid\":\"" OID "\",\"size\":\"1\"}",
		"{\"oid\":\"../" OID "\",\"size\":1}",
		"{\"oid\":7,\"size\":1}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(objects); i++) {
		AUTO_LFS_BATCH struct lfs_batch batch;
		AUTO_FREE char *text = xasprintf(
			"{\"operation\":\"download\",\"objects\":[%s]}", objects[i]);
		int status;
		assert_int_equal(read_batch(text, &batch, &status), 0);
		assert_int_equal(batch.items.items[0].code, 422);
		assert_non_null(batch.items.items[0].message);
	}
}

/* Who may is decided by it: it must be the handler's. */
static void the_operation_is_the_same_as_the_batchs(void **state)
{
	static const char *const texts[] = {
		"{\"operation\":\"upload\",\"objects\":[]}",
		"{\"operation\":\"download\",\"objects\":[]}",
		"{\"operation\":\"other\",\"objects\":[]}",
		"{\"operation\":\"download\",\"operation\":\"upload\",\"objects\":[]}",
		"{\"operation\":\"download\",\"objects\":[]} {\"operation\":\"upload\"}",
		"",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		AUTO_LFS_BATCH struct lfs_batch batch;
		int status;
		read_batch(texts[i], &batch, &status);
		assert_int_equal(lfs_batch_operation(texts[i], strlen(texts[i])),
				 batch.operation);
	}
}

static void an_answer_offers_urls_and_errors(void **state)
{
	struct lfs_item items[] = {
		{ .oid = xstrdup(OID), .size = 5, .is_offered = true },
		{ .oid = xstrdup(OTHER), .size = 6 },
		{ .oid = xstrdup(OTHER), .size = 7 },
	};
	struct lfs_batch batch = { .operation = LFS_UPLOAD };
	AUTO_STR struct str text = STR_INIT;

	(void)state;
	lfs_item_fail(&items[1], 404, "none");
	for (size_t i = 0; i < ARRAY_SIZE(items); i++)
		vec_add(&batch.items, items[i]);
	json_auto_t *answer = lfs_batch_answer(&batch, "http://x/r.git");
	json_render(answer, &text);
	assert_string_equal(text.data,
			    "{\"transfer\":\"basic\",\"objects\":[{\"oid\":\"" OID
			    "\",\"size\":5,\"actions\":{\"upload\":{\"href\":\"http://x/"
			    "r.git/info/lfs/"
			    "objects/" OID
			    "?size=5\"},\"verify\":{\"href\":\"http://x/r.git/info/lfs/"
			    "verify\"}}},{\"oid\":\"" OTHER
			    "\",\"size\":6,\"error\":{\"code\":404,"
			    "\"message\":\"none\"}},{\"oid\":\"" OTHER
			    "\",\"size\":7}],\"hash_algo\":\"sha256\"}");
	lfs_batch_clear(&batch);
}

static void what_the_primary_says_is_taken_over(void **state)
{
	struct lfs_item one = { .oid = xstrdup(OID) }, other = { .oid = xstrdup(OTHER) };
	struct lfs_item *const items[] = { &one, &other };
	static const char text[] =
		"{\"objects\":[{\"oid\":\"" OTHER
		"\",\"error\":{\"code\":404,\"message\":"
		"\"gone\"}},{\"oid\":\"" OID "\",\"actions\":{\"download\":{\"href\":"
		"\"http://evil/\"}}}]}";

	(void)state;
	assert_int_equal(lfs_batch_take_answer(text, strlen(text), items, 2, &err), 0);
	assert_true(one.is_offered);
	assert_int_equal(one.code, 0);
	assert_false(other.is_offered);
	assert_int_equal(other.code, 404);
	assert_string_equal(other.message, "gone");
	assert_int_equal(lfs_batch_take_answer("{}", 2, items, 2, &err), -1);
	assert_int_equal(err.class, ERR_CORRUPT);
	lfs_item_clear(&one);
	lfs_item_clear(&other);
}

static void what_the_primary_leaves_out_is_an_error(void **state)
{
	struct lfs_item one = { .oid = xstrdup(OID) };
	struct lfs_item *const items[] = { &one };

	(void)state;
	assert_int_equal(lfs_batch_take_answer("{\"objects\":[]}", 14, items, 1, &err),
			 0);
	assert_false(one.is_offered);
	assert_int_equal(one.code, 500);
	lfs_item_clear(&one);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_batch_names_objects),
		cmocka_unit_test(a_wrong_batch_is_refused),
		cmocka_unit_test(too_many_objects_are_refused),
		cmocka_unit_test(a_wrong_object_has_its_own_error),
		cmocka_unit_test(the_operation_is_the_same_as_the_batchs),
		cmocka_unit_test(an_answer_offers_urls_and_errors),
		cmocka_unit_test(what_the_primary_says_is_taken_over),
		cmocka_unit_test(what_the_primary_leaves_out_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
