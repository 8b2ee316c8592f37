/*
 * Removals by a person's order, and the comparisons that know of them; the primary is a
 * fake one.
 */
#include "fake_primary.h"

#include "pull/pull.h"
#include "store/site_value.h"

#include "registry_write.h"

static struct store *store;
static struct lease_manager *leases;
static struct pull *pull;
static char copies[96], files_path[96];
static struct blob_kind files = { .type = (char[]){ "files" }, .path = files_path };
static struct kinds_here here;

static int set_up(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	AUTO_FREE char *url = xasprintf("sqlite:%s/db", root);
	AUTO_FREE char *directory = xasprintf("%s/leases", root);
	const struct lease_options options = { .directory = directory };

	fake_init();
	snprintf(copies, sizeof(copies), "%s/copies", root);
	snprintf(files_path, sizeof(files_path), "%s/files", root);
	blob_kinds_add(&here.blobs, &files);
	kinds_fill(&here, copies);
	assert_ok(git_setup(root, &err));
	assert_ok(store_open(url, &store, &err));
	assert_ok(lease_manager_open_local(store, &options, &leases, &err));
	return 0;
}

static int tear_down(void **state)
{
	if (pull)
		pull_stop(TAKE(pull), 0);
	lease_manager_close(leases);
	store_close(store);
	kinds_clear(&here);
	fake_clear();
	return test_remove_root(state);
}

static void begin(void)
{
	const struct pull_options options = {
		.store = store,
		.leases = leases,
		.primary = &fake,
		.here = &here,
		.settings = { .repository_capacity = 1,
			      .verification_capacity = 1,
			      .consistency_interval_ms = 20,
			      .timeout_ms = 60000,
			      .delete_brake = 0.05 },
	};

	assert_ok(pull_start(&options, &pull, &err));
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
	begin();
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
			set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
