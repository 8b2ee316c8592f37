#include "test.h"

#include "base/json.h"

static void assert_renders(const json_t *value, const char *expected)
{
	AUTO_STR struct str text = STR_INIT;

	json_render(value, &text);
	assert_string_equal(text.data, expected);
}

TEST(members_keep_their_order_and_form)
{
	json_auto_t *object = json_object();

	json_put_text(object, "z", "gr\xc3\xbc\xc3\x9f \"x\"\n");
	json_put_text(object, "none", NULL);
	json_put_number(object, "a", -9007199254740993);
	json_put_bool(object, "b", true);
	json_put(object, "list", json_array());
	assert_renders(object, "{\"z\":\"gr\xc3\xbc\xc3\x9f \\\"x\\\"\\n\",\"none\":null,"
			       "\"a\":-9007199254740993,\"b\":true,\"list\":[]}");
}

TEST(text_that_is_not_utf8_travels_as_base64)
{
	json_auto_t *object = json_object();
	AUTO_STR struct str back = STR_INIT;

	json_put_text(object, "ref", "refs/heads/\xfc");
	json_put_bytes(object, "raw", "\xff\0\xfe", 3);
	json_put_bytes(object, "nul", "a\0b", 3);
	assert_renders(object, "{\"ref_base64\":\"cmVmcy9oZWFkcy/8\","
			       "\"raw_base64\":\"/wD+\",\"nul\":\"a\\u0000b\"}");
	assert_ok(json_get_bytes(object, "ref", &back, &err));
	assert_string_equal(back.data, "refs/heads/\xfc");
	str_reset(&back);
	assert_ok(json_get_bytes(object, "nul", &back, &err));
	assert_memory_equal(back.data, "a\0b", 4);
	assert_int_equal(back.len, 3);
}

TEST(every_length_survives_base64)
{
	char bytes[40];

	for (size_t len = 1; len < sizeof(bytes); len++) {
		json_auto_t *object = json_object();
		AUTO_STR struct str back = STR_INIT;

		for (size_t i = 0; i < len; i++)
			bytes[i] = (char)(0xff - 7 * i);
		json_put_bytes(object, "k", bytes, len);
		assert_non_null(json_object_get(object, "k_base64"));
		str_add(&back, ">");
		assert_ok(json_get_bytes(object, "k", &back, &err));
		assert_int_equal(back.len, len + 1);
		assert_memory_equal(back.data + 1, bytes, len);
	}
}

TEST(wrong_members_are_corrupt)
{
	static const char *const table[] = {
		"{}",
		"{\"ref\":1}",
		"{\"ref\":null}",
		"{\"ref_base64\":1}",
		"{\"ref_base64\":\"a\"}",
		"{\"ref_base64\":\"ab==\"}", /* bits that are not used are set */
		"{\"ref_base64\":\" YQ==\"}",
		"{\"ref_base64\":\"YQ= =\"}",
		"{\"ref_base64\":\"====\"}",
		"{\"ref_base64\":\"Y===\"}",
		"{\"ref_base64\":\"Y\xc3\xbcQ\"}",
		"{\"ref\":\"x\",\"ref_base64\":\"YQ==\"}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		json_auto_t *object =
			json_parse_object(table[i], strlen(table[i]), 1000, &err);
		AUTO_STR struct str out = STR_INIT;

		assert_non_null(object);
		assert_fails(json_get_bytes(object, "ref", &out, &err), ERR_CORRUPT);
		assert_int_equal(out.len, 0);
	}
}

TEST(times_and_durations_read_well)
{
	json_auto_t *object = json_object();

	json_put_time(object, "t", 1795252443120);
	json_put_time(object, "never", 0);
	json_put_seconds(object, "whole", 60000);
	json_put_seconds(object, "part", 1100);
	json_put_seconds(object, "small", 1);
	json_put_seconds(object, "less", -250);
	json_put_seconds(object, "long", 31536000001);
	assert_renders(object, "{\"t\":\"2026-11-21T09:14:03.120Z\",\"never\":null,"
			       "\"whole\":60,\"part\":1.1,\"small\":0.001,"
			       "\"less\":-0.25,\"long\":31536000.001}");
}

TEST(errors_have_code_message_and_remedy)
{
	err_set(&err, ERR_AUTH, "https://u:CANARY@h refused \xff");
	err_remedy(&err, "look at \xc3");
	json_auto_t *problem = json_from_err(&err);
	assert_renders(problem, "{\"code\":\"auth\",\"message\":\"https://***@h refused "
				"\xef\xbf\xbd\",\"remedy\":\"look at \xef\xbf\xbd\"}");
	json_auto_t *missing = json_problem("FILE_NOT_FOUND", "gone", "");
	assert_renders(missing, "{\"code\":\"FILE_NOT_FOUND\",\"message\":\"gone\","
				"\"remedy\":\"\"}");
}

TEST(a_value_is_written_as_one_line)
{
	AUTO_FREE char *text = NULL;
	size_t len;
	FILE *file = open_memstream(&text, &len);
	json_auto_t *object = json_object();

	json_put_text(object, "a", "1\n2");
	json_write(file, object);
	json_write(file, object);
	fclose(file);
	assert_string_equal(text, "{\"a\":\"1\\n2\"}\n{\"a\":\"1\\n2\"}\n");
}

TEST(only_one_whole_object_within_the_limit_is_read)
{
	static const char *const wrong[] = {
		"",
		"{",
		"[]",
		"1",
		"\"x\"",
		"null",
		"{}x",
		"{} {}",
		"{'a':1}",
		"{\"a\":1,}",
		"{\"a\":1,\"a\":2}",
		"{\"a\":\"\xff\"}",
		"{\"a\":\"\\u0000\"}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		assert_null(json_parse_object(wrong[i], strlen(wrong[i]), 100, &err));
		assert_int_equal(err.class, ERR_CORRUPT);
	}
	json_auto_t *object = json_parse_object(" {\"a\":1} \n(beyond", 10, 10, &err);
	assert_non_null(object);
	assert_int_equal(json_integer_value(json_object_get(object, "a")), 1);
	assert_null(json_parse_object(" {\"a\":1} \n", 10, 9, &err));
	assert_int_equal(err.class, ERR_CORRUPT);
}

TEST(deep_nesting_is_refused_not_followed)
{
	AUTO_STR struct str text = STR_INIT;

	str_add(&text, "{\"a\":");
	for (int i = 0; i < 100000; i++)
		str_add_char(&text, '[');
	assert_null(json_parse_object(text.data, text.len, text.len, &err));
	assert_int_equal(err.class, ERR_CORRUPT);
}

TEST(short_values_beyond_a_number_are_not_read)
{
	static const char three[] = "{\"a\":[1,\"[,{\\\",{\"]}";
	const struct json_limits four = { 100, 4 }, three_only = { 100, 3 };
	json_auto_t *object = json_parse_foreign(three, strlen(three), &four, &err);

	assert_non_null(object);
	assert_null(json_parse_foreign(three, strlen(three), &three_only, &err));
	assert_int_equal(err.class, ERR_CORRUPT);
	assert_null(json_parse_foreign("{\"a\":\"", 6, &four, &err));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_keep_their_order_and_form),
		cmocka_unit_test(text_that_is_not_utf8_travels_as_base64),
		cmocka_unit_test(every_length_survives_base64),
		cmocka_unit_test(wrong_members_are_corrupt),
		cmocka_unit_test(times_and_durations_read_well),
		cmocka_unit_test(errors_have_code_message_and_remedy),
		cmocka_unit_test(a_value_is_written_as_one_line),
		cmocka_unit_test(only_one_whole_object_within_the_limit_is_read),
		cmocka_unit_test(short_values_beyond_a_number_are_not_read),
		cmocka_unit_test(deep_nesting_is_refused_not_followed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
