/*
 * Kinds of blobs that the primary does not have, or no longer; the primary is a fake one.
 */
#include "pull_test.h"

#include "replicable/name.h"
#include "store/site_value.h"

#include "registry_write.h"

static char files_path[96];
static struct blob_kind files = { .type = (char[]){ "files" }, .path = files_path };

static int set_up(void **state)
{
	if (pull_set_up(state) != 0)
		return -1;
	snprintf(files_path, sizeof(files_path), "%s/files", root);
	blob_kinds_add(&here.blobs, &files);
	kinds_fill(&here, copies);
	return 0;
}

static const char *const names[] = { "fails", "stays" };
static atomic_bool has_files, saw_etag;

/* One of them was copied; the other never is, as nobody sends it. */
static void add_copy(void)
{
	struct registry_move brought = { .event = REGISTRY_BEGUN,
					 .id = replicable_id("files", names[1]),
					 .generation = 1,
					 .timeline = "0123456789abcdef",
					 .checksum = "00" };

	assert_ok(registry_add(store, "files", names, ARRAY_SIZE(names), &err));
	assert_ok(registry_move(store, &brought, &err));
	assert_ok(registry_complete(store, &brought, &err));
}

static int read_files(const struct kind *kind, const struct page_question *question,
		      struct inventory_page *page, struct err *error)
{
	struct inventory_item item = { .generation = 1,
				       .timeline = "0123456789abcdef",
				       .changed_at = clock_wall_ms() };

	(void)kind;
	(void)error;
	if (!has_files)
		return INVENTORY_NO_KIND;
	if (question->etag) {
		saw_etag = true;
		return INVENTORY_UNCHANGED;
	}
	*page = (struct inventory_page){ .timeline = "0123456789abcdef",
					 .etag = "\"x\"" };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		item.name = xstrdup(names[i]);
		vec_add(&page->items, item);
	}
	return INVENTORY_PAGE;
}

static bool are_left_out(int64_t count)
{
	struct scan_record skipped;

	assert_ok(pull_skipped_read(store, "files", &skipped, &err));
	return skipped.left_out == count;
}

/* Nobody knows whether they are what the primary has. */
TEST(copies_of_a_kind_that_the_primary_took_away_are_left_out_until_it_is_back)
{
	struct scan_record skipped;

	fake.inventory = read_files;
	add_copy();
	has_files = true;
	saw_etag = false;
	pull_begin(20);
	eventually(saw_etag); /* the comparison found nothing to do */
	assert_true(are_left_out(0));
	has_files = false;
	eventually(are_left_out(1));
	assert_ok(pull_skipped_read(store, "files", &skipped, &err));
	assert_string_equal(skipped.example,
			    "all of kind files: the primary has no such kind");
	has_files = true; /* with the same tag */
	eventually(are_left_out(0));
}

static bool is_compared(void)
{
	AUTO_STR struct str text = STR_INIT;

	assert_true(site_value_read(store, PULL_COMPARED, &text, &err) >= 0);
	return text.len > 0 && strcmp(text.data, "0") != 0;
}

/* As where it is configured here before it is at the primary. */
TEST(of_a_kind_without_copies_nothing_is_left_out)
{
	fake.inventory = read_files;
	has_files = false;
	pull_begin(20);
	eventually(is_compared());
	assert_true(are_left_out(0));
}

#define KINDS_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, pull_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		KINDS_CASE(
			copies_of_a_kind_that_the_primary_took_away_are_left_out_until_it_is_back),
		KINDS_CASE(of_a_kind_without_copies_nothing_is_left_out),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
