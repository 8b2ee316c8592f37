/*
 * Removals by a person's order, and the comparisons that know of them; the primary is a
 * fake one.
 */
#include "pull_test.h"

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

static int note_ordered(struct store_tx *tx, void *arg, struct err *error)
{
	return registry_note_ordered(tx, arg, error);
}

/* Files, of which the primary has none, in two pages. */
static struct {
	atomic_bool removes; /* a row is removed by order while the next pass is begun */
	atomic_bool is_next; /* that is done */
	atomic_bool holds;   /* the pass that knows of it does not get its last page */
	atomic_bool is_held;
} in_two;

static int inventory_in_two(const struct kind *kind, const struct page_question *question,
			    struct inventory_page *page, struct err *error)
{
	(void)kind;
	*page = (struct inventory_page){ .timeline = "0123456789abcdef",
					 .etag = "\"x\"" };
	if (!question->after) {
		page->next = xstrdup("m");
		in_two.holds = in_two.is_next;
		in_two.is_next = atomic_exchange(&in_two.removes, false);
		if (in_two.is_next &&
		    store_write(store, note_ordered, files.type, error) != 0)
			return -1;
		return INVENTORY_PAGE;
	}
	if (!in_two.holds)
		return INVENTORY_PAGE;
	in_two.is_held = true;
	return err_set(error, ERR_CANCELED, "later");
}

/* -1: nothing was compared. */
static long count_known(void)
{
	AUTO_STR struct str text = STR_INIT;

	assert_true(site_value_read(store, PULL_COMPARED_ORDERED, &text, &err) >= 0);
	return text.len > 0 ? strtol(text.data, NULL, 10) : -1;
}

/* Else a site whose rows somebody removed is in sync before anybody looked. */
TEST(a_comparison_under_way_says_nothing_of_what_was_removed_before_it)
{
	fake.inventory = inventory_in_two;
	pull_begin(20);
	eventually(count_known() == 0);
	in_two.removes = true;
	eventually(in_two.is_held);
	int unchanged = fake.unchanged;
	eventually(fake.unchanged > unchanged + 2); /* of repositories */
	assert_int_equal(count_known(), 0);
	in_two.holds = false;
	eventually(count_known() == 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_comparison_under_way_says_nothing_of_what_was_removed_before_it,
			set_up, pull_tear_down),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
