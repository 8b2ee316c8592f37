#include "wire_test.h"

#include "wire/wire_blob.h"

#define TIMELINE "8a2f000000000001"
#define DIGEST "0000000000000000000000000000000000000000000000000000000000000001"

/* Content-Range, ETag and WIRE_CHECKSUM, as lines. */
static bool headers_again(const struct str *text, struct str *out)
{
	AUTO_FREE char *copy = xstrdup(text->data);
	char *rest = copy, range[WIRE_BLOB_RANGE_SIZE], etag[WIRE_BLOB_ETAG_SIZE];
	const char *said = strsep(&rest, "\n"), *tag = rest ? strsep(&rest, "\n") : NULL;
	struct blob_head head;

	if (!rest)
		return false;
	const struct wire_blob_headers headers = { tag, rest, said, -1 };
	if (wire_blob_parse(&headers, 7, &head, &err) != 0)
		return false;
	wire_blob_range(&head, 3, range);
	wire_blob_etag(head.timeline, head.generation, etag);
	str_addf(out, "%s\n%s\n%s", range, etag, head.checksum);
	return true;
}

TEST(headers_of_a_part_travel)
{
	AUTO_STR struct str text = STR_INIT;

	str_add(&text, "bytes 7-9/20\n\"" TIMELINE "-3\"\n" DIGEST);
	assert_comes_back(&text, headers_again);
	str_reset(&text);
	str_add(&text, "bytes 7-9/20\n\"" TIMELINE "-3\"\n");
	assert_comes_back(&text, headers_again);
}

TEST(headers_that_make_no_sense_are_refused)
{
	static const struct wire_blob_headers table[] = {
		{ "", "", "bytes 7-9/20", -1 },
		{ "\"" TIMELINE "-0\"", "", "bytes 7-9/20", -1 },
		{ "\"" TIMELINE "\"", "", "bytes 7-9/20", -1 },
		{ TIMELINE "-3", "", "bytes 7-9/20", -1 },
		{ "W/\"" TIMELINE "-3\"", "", "bytes 7-9/20", -1 },
		{ "\"8A2F000000000001-3\"", "", "bytes 7-9/20", -1 },
		{ "\"" TIMELINE "-3\"", "5f70", "bytes 7-9/20", -1 },
		{ "\"" TIMELINE "-3\"", "", "", -1 },
		{ "\"" TIMELINE "-3\"", "", "bytes */20", -1 },
		{ "\"" TIMELINE "-3\"", "", "bytes 6-9/20", -1 },
		{ "\"" TIMELINE "-3\"", "", "bytes 7-6/20", -1 },
		{ "\"" TIMELINE "-3\"", "", "bytes 7-20/20", -1 },
		{ "\"" TIMELINE "-3\"", "", "bytes 7-9/20x", -1 },
		{ "\"" TIMELINE "-3\"", "", NULL, 20 }, /* all of it, from 0 on */
	};
	struct blob_head head;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (wire_blob_parse(&table[i], 7, &head, &err) == 0 ||
		    err.class != ERR_CORRUPT)
			fail_msg("%zu is taken", i);
}

TEST(a_whole_blob_has_its_length)
{
	struct wire_blob_headers headers = { "\"" TIMELINE "-3\"", DIGEST, NULL, 20 };
	struct blob_head head;

	assert_ok(wire_blob_parse(&headers, 0, &head, &err));
	assert_int_equal(head.size, 20);
	assert_int_equal(head.offset, 0);
	assert_string_equal(head.checksum, DIGEST);
	headers.length = -1;
	assert_fails(wire_blob_parse(&headers, 0, &head, &err), ERR_CORRUPT);
}

static bool kinds_again(const struct str *text, struct str *out)
{
	AUTO_BLOB_KINDS struct blob_kinds kinds = { 0 };
	json_t *list = json_array();

	int result = wire_kinds_parse(text, &kinds, &err);
	for (size_t i = 0; i < kinds.items.count; i++)
		json_array_append_new(list, wire_kind_json(kinds.items.items[i].type,
							   kinds.items.items[i].layout));
	json_auto_t *object = wire_kinds_json(list);
	json_render(object, out);
	return result == 0;
}

TEST(kinds_travel)
{
	AUTO_STR struct str text = STR_INIT;

	str_add(&text, "{\"types\":[{\"type\":\"lfs\",\"layout\":\"lfs\"}]}");
	assert_travels(&text, kinds_again);
	str_reset(&text);
	str_add(&text, "{\"types\":[{\"type\":\"a-1\",\"layout\":\"plain\"},{\"type\":"
		       "\"b\",\"layout\":\"lfs\"}]}");
	assert_comes_back(&text, kinds_again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(headers_of_a_part_travel),
		cmocka_unit_test(headers_that_make_no_sense_are_refused),
		cmocka_unit_test(a_whole_blob_has_its_length),
		cmocka_unit_test(kinds_travel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
