#include "wire_test.h"

#include "replicable/name.h"
#include "wire/wire_inventory.h"

#define SUM "1-0000000000000000000000000000000000000000000000000000000000000001"
#define LOG                                                                              \
	"\"timeline\":\"8a2f000000000001\",\"last_event\":4,\"last_mark\":"              \
	"\"5f0c000000000001\""
#define ROW(name, rest)                                                                  \
	"{\"name\":\"" name                                                              \
	"\",\"timeline\":\"8a2f000000000002\",\"generation\":7," rest "}"
#define GOOD "\"checksum\":\"" SUM "\",\"changed_at\":\"2026-11-21T09:14:03.120Z\""

static struct inventory_page page;

static int parse(const char *text, const char *after)
{
	AUTO_STR struct str body = STR_INIT;

	str_add(&body, text);
	const struct kind repositories = kind_of_repositories(NULL);

	return wire_inventory_parse(&body, &repositories,
				    &(struct page_question){ .after = after, .limit = 3 },
				    &page, &err);
}

TEST(a_page_is_read)
{
	assert_ok(parse(
		"{" LOG
		",\"next\":\"b/c\",\"new\":[1],\"repositories\":[" ROW("a", GOOD) "," ROW(
			"b/c", "\"checksum\":null,\"failure\":\"x\"") "]}",
		NULL));
	assert_int_equal(page.items.count, 2);
	assert_string_equal(page.items.items[0].checksum, SUM);
	assert_int_equal(page.items.items[0].changed_at, INT64_C(1795252443120));
	assert_int_equal(page.items.items[0].generation, 7);
	assert_null(page.items.items[1].checksum);
	assert_false(page.is_part);
	assert_string_equal(page.next, "b/c");
	assert_int_equal(page.last_event, 4);
	assert_string_equal(page.last_mark, "5f0c000000000001");
	inventory_page_clear(&page);
}

TEST(an_empty_inventory_of_an_empty_log_is_read)
{
	assert_ok(parse("{\"timeline\":\"8a2f000000000001\",\"last_event\":0,"
			"\"repositories\":[]}",
			NULL));
	assert_int_equal(page.items.count, 0);
	assert_null(page.next);
	inventory_page_clear(&page);
}

/* What an inventory leaves out is deleted: so nothing of a doubtful one may count. */
TEST(a_lying_page_is_refused_as_a_whole)
{
	static const struct {
		const char *text, *after, *says;
	} table[] = {
		{ "", NULL, "JSON" },
		{ "[]", NULL, "JSON" },
		{ "{" LOG "}", NULL, "repositories" },
		{ "{\"repositories\":[]}", NULL, "timeline" },
		{ "{" LOG ",\"repositories\":[" ROW("b", GOOD) "," ROW("a", GOOD) "]}",
		  NULL, "a stands behind b" },
		{ "{" LOG ",\"repositories\":[" ROW("a", GOOD) "," ROW("a", GOOD) "]}",
		  NULL, "behind" },
		{ "{" LOG ",\"repositories\":[" ROW("b", GOOD) "]}", "b", "behind" },
		{ "{" LOG
		  ",\"repositories\":[" ROW("b/../x", GOOD) "," ROW("a", GOOD) "]}",
		  NULL, "behind" },
		{ "{" LOG ",\"repositories\":[{}]}", NULL, "no name" },
		{ "{" LOG ",\"repositories\":[7]}", NULL, "no name" },
		{ "{" LOG ",\"repositories\":[" ROW("a", "\"checksum\":\"2-0\"") "]}",
		  NULL, "checksum" },
		{ "{" LOG ",\"repositories\":[{\"name\":\"a\","
		  "\"timeline\":\"8a2f000000000002\",\"generation\":0}]}",
		  NULL, "generation" },
		{ "{" LOG ",\"repositories\":[{\"name\":\"a\",\"timeline\":\"8A\","
		  "\"generation\":1}]}",
		  NULL, "timeline" },
		{ "{" LOG ",\"next\":\"z\",\"repositories\":[" ROW("a", GOOD) "]}", NULL,
		  "next" },
		{ "{" LOG ",\"next\":\"a\",\"repositories\":[]}", NULL, "next" },
		{ "{\"timeline\":\"8a2f000000000001\",\"last_event\":4,"
		  "\"repositories\":[]}",
		  NULL, "last_mark" },
		{ "{" LOG ",\"repositories\":[" ROW("a", GOOD) "," ROW("b", GOOD) "," ROW(
			  "c", GOOD) "," ROW("d", GOOD) "]}",
		  NULL, "more repositories" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		assert_fails(parse(table[i].text, table[i].after), ERR_CORRUPT);
		if (!strstr(err.text, table[i].says))
			fail_msg("page %zu: %s", i, err.text);
		assert_int_equal(page.items.count, 0);
	}
}

TEST(a_name_that_cannot_be_one_is_left_out_and_counted)
{
	assert_ok(parse(
		"{" LOG ",\"next\":\"z/../\\u001b\",\"repositories\":[" ROW(
			"../x", "\"later\":1") "," ROW("a", GOOD) "," ROW("z/../\\u001b",
									  GOOD) "]}",
		NULL));
	assert_int_equal(page.items.count, 1);
	assert_string_equal(page.items.items[0].name, "a");
	assert_int_equal(page.skipped, 2);
	assert_true(page.is_part);
	assert_non_null(strstr(page.skipped_example, "../x"));
	assert_string_equal(page.next, "z/../\x1b");
	inventory_page_clear(&page);
	assert_ok(
		parse("{" LOG ",\"repositories\":[" ROW("\\u001b[2J", GOOD) "]}", NULL));
	assert_int_equal(page.items.count, 0);
	assert_null(strchr(page.skipped_example, '\x1b'));
	inventory_page_clear(&page);
}

#define DIGEST "0000000000000000000000000000000000000000000000000000000000000001"

static struct kind kind; /* that travels */

static void render(const struct inventory_page *sent, struct str *out)
{
	json_auto_t *object = wire_inventory_json(kind.type, sent);

	json_render(object, out);
}

static bool page_again(const struct str *text, struct str *out)
{
	if (wire_inventory_parse(text, &kind, &(struct page_question){ .limit = 3 },
				 &page, &err) != 0)
		return false;
	render(&page, out);
	inventory_page_clear(&page);
	return true;
}

/* One row that says all that there is to say, one that says little. */
static void assert_page_travels(char *checksum)
{
	char names[][2] = { "a", "b" }, class[] = "disk", failure[] = "it is gone",
	     remedy[] = "mend it";
	struct inventory_page sent = { .is_part = true,
				       .timeline = "8a2f000000000001",
				       .last_event = 4,
				       .last_mark = "5f0c000000000004",
				       .next = names[0] };
	struct inventory_item full = { .name = names[0],
				       .checksum = checksum,
				       .timeline = "8a2f000000000002",
				       .generation = 7,
				       .size = kind.blobs ? 12 : 0,
				       .changed_at = 1795252443120,
				       .verified_at = 1795252443121,
				       .verification = VERIFICATION_SUCCEEDED,
				       .failure_class = class,
				       .failure = failure,
				       .remedy = remedy };
	struct inventory_item bare = { .name = names[1],
				       .timeline = "8a2f000000000002",
				       .generation = 8 };
	AUTO_STR struct str text = STR_INIT;

	vec_add(&sent.items, full);
	render(&sent, &text);
	assert_travels(&text, page_again);
	vec_add(&sent.items, bare);
	sent.next = names[1];
	sent.is_part = false;
	str_reset(&text);
	render(&sent, &text);
	assert_comes_back(&text, page_again);
	vec_clear(&sent.items);
}

TEST(pages_travel_and_each_byte_of_them_counts)
{
	char files[] = "files", sum[] = SUM, digest[] = DIGEST;
	const struct blob_kind of_files = { .type = files, .layout = BLOB_PLAIN };

	kind = kind_of_repositories(NULL);
	assert_page_travels(sum);
	kind = kind_of_blobs(&of_files);
	assert_page_travels(digest);
}

TEST(a_row_says_whether_it_is_verified)
{
	static const struct {
		const char *row;
		bool is_verified;
	} table[] = {
		{ "{\"verification\":\"succeeded\"}", true },
		{ "{\"verification\":\"pending\"}", false },
		{ "{\"verification\":\"later\"}", false },
		{ "{\"verification\":7}", false },
		{ "{}", false },
		{ "<html>", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		AUTO_STR struct str body = STR_INIT;
		str_add(&body, table[i].row);
		assert_int_equal(wire_inventory_is_verified(&body), table[i].is_verified);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_travel_and_each_byte_of_them_counts),
		cmocka_unit_test(a_row_says_whether_it_is_verified),
		cmocka_unit_test(a_page_is_read),
		cmocka_unit_test(an_empty_inventory_of_an_empty_log_is_read),
		cmocka_unit_test(a_name_that_cannot_be_one_is_left_out_and_counted),
		cmocka_unit_test(a_lying_page_is_refused_as_a_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
