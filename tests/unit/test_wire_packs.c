#include "wire_test.h"

#include "wire/wire_packs.h"

#define A "pack-1111111111111111111111111111111111111111"
#define B "pack-2222222222222222222222222222222222222222222222222222222222222222"
#define PACK(name) "{\"name\":\"" name "\",\"bytes\":5,\"index_bytes\":6,\"objects\":7}"

static bool packs_again(const struct str *text, struct str *out)
{
	AUTO_WIRE_PACKS wire_packs packs = { 0 };

	if (wire_packs_parse(text, &packs, &err) != 0)
		return false;
	json_auto_t *object = wire_packs_json(&packs);
	json_render(object, out);
	return true;
}

static int parse(const char *text)
{
	AUTO_WIRE_PACKS wire_packs packs = { 0 };
	AUTO_STR struct str body = STR_INIT;

	str_add(&body, text);
	return wire_packs_parse(&body, &packs, &err);
}

TEST(packs_travel_and_each_byte_of_them_counts)
{
	AUTO_WIRE_PACKS wire_packs packs = { 0 };
	AUTO_STR struct str text = STR_INIT;

	vec_add(&packs, ((struct wire_pack){ A, 1, 2, 3 }));
	vec_add(&packs, ((struct wire_pack){ B, INT64_MAX, 1 << 20, 0 }));
	json_auto_t *object = wire_packs_json(&packs);
	json_render(object, &text);
	assert_travels(&text, packs_again);
}

TEST(what_is_no_list_of_packs_is_refused)
{
	static const char *const wrong[] = {
		"",
		"[]",
		"{\"packs\":{}}",
		"{\"packs\":[7]}",
		"{\"packs\":[{\"name\":\"" A "\"}]}",
		"{\"packs\":[" PACK("") "]}",
		"{\"packs\":[" PACK("../x") "]}",
		"{\"packs\":[" PACK(A "/") "]}",
		"{\"packs\":[" PACK(A "1") "]}",
		"{\"packs\":[" PACK("pack-A111111111111111111111111111111111111111") "]}",
		"{\"packs\":[" PACK(A) "," PACK(A) "]}",
		"{\"packs\":[" PACK(B) "," PACK(A) "]}",
		"{\"packs\":[{\"name\":\"" A
		"\",\"bytes\":-1,\"index_bytes\":6,\"objects\":7}]}",
	};

	assert_ok(parse("{\"packs\":[],\"new\":1}"));
	assert_ok(parse("{\"packs\":[" PACK(A) "," PACK(B) "]}"));
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_fails(parse(wrong[i]), ERR_CORRUPT);
}

TEST(a_file_of_a_pack_has_no_other_name)
{
	assert_true(wire_pack_is_file(A ".pack"));
	assert_true(wire_pack_is_file(B ".idx"));
	assert_false(wire_pack_is_file(A));
	assert_false(wire_pack_is_file(A ".keep"));
	assert_false(wire_pack_is_file(A ".idx.pack"));
	assert_false(wire_pack_is_file("x/" A ".pack"));
	assert_false(wire_pack_is_file("pack-.pack"));
	assert_false(wire_pack_is_file(".idx"));
	assert_false(wire_pack_is_file("../../config"));
	assert_false(wire_pack_is_file(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packs_travel_and_each_byte_of_them_counts),
		cmocka_unit_test(what_is_no_list_of_packs_is_refused),
		cmocka_unit_test(a_file_of_a_pack_has_no_other_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
