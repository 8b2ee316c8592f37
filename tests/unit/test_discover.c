#include "test.h"

#include <sys/stat.h>

#include "git/repo.h"
#include "replicable/discover.h"

static struct discovery found;
static ino_t mounted; /* this folder is on another file system; 0: none */
static dev_t device_below;

/* In the place of the C library's: only root may mount. */
int fstat(int fd, struct stat *st)
{
	int result = fstatat(fd, "", st, AT_EMPTY_PATH);

	if (result == 0 && mounted && st->st_ino == mounted)
		st->st_dev = device_below;
	return result;
}

static void make(const char *path)
{
	assert_ok(dir_make_parents(root_fd, path, &err));
	assert_ok(repo_make(root_fd, path, 20, &err));
}

static void look(void)
{
	assert_ok(discover(root, &found, &err));
}

static void assert_names(const char *expected)
{
	AUTO_STR struct str names = STR_INIT;

	for (size_t i = 0; i < found.found.count; i++)
		str_addf(&names, "%s ", found.found.items[i].name);
	assert_string_equal(names.data, expected);
}

TEST(repositories_are_found_at_any_depth_and_sorted)
{
	make("z.git");
	make("group/sub/a.git");
	make("group/plain");
	make("group.git");
	look();
	assert_names("group group/plain group/sub/a z ");
	assert_int_equal(found.findings.count, 0);
	assert_true(discovery_is_complete(&found));
	assert_string_equal(discovery_find(&found, "group/sub/a")->path,
			    "group/sub/a.git");
	assert_null(discovery_find(&found, "group/sub"));
	discovery_clear(&found);
}

TEST(what_a_push_just_makes_or_deletes_is_no_repository)
{
	make("group/a.git");
	make("group/.refrelay-new-0123");
	make(".refrelay-deleted-0123");
	look();
	assert_names("group/a ");
	assert_int_equal(found.findings.count, 0);
	discovery_clear(&found);
}

TEST(a_folder_on_another_file_system_is_noted)
{
	struct stat st;

	make("a/b/r.git");
	make("c/r.git");
	assert_int_equal(fstatat(root_fd, "a/b", &st, 0), 0);
	mounted = st.st_ino;
	device_below = st.st_dev + 1;
	look();
	mounted = 0;
	assert_names("a/b/r c/r ");
	assert_int_equal(found.mounts.count, 1);
	assert_string_equal(found.mounts.items[0], "a/b");
	discovery_clear(&found);
	look();
	assert_int_equal(found.mounts.count, 0);
	discovery_clear(&found);
}

TEST(what_is_inside_a_repository_is_not_looked_at)
{
	make("outer.git");
	make("outer.git/inner.git");
	look();
	assert_names("outer ");
	discovery_clear(&found);
}

TEST(of_two_with_one_name_the_usual_form_counts_and_the_other_is_told)
{
	make("r");
	make("r.git");
	look();
	assert_names("r ");
	assert_string_equal(found.found.items[0].path, "r.git");
	assert_int_equal(found.findings.count, 1);
	assert_string_equal(found.findings.items[0].path, "r");
	assert_false(found.findings.items[0].is_harmless);
	discovery_clear(&found);
}

TEST(a_copy_that_would_lie_in_another_copy_is_left_out)
{
	make("a");
	make("a.git/x/b.git");
	make("c.git/b.git");
	look();
	assert_names("a c.git/b ");
	assert_int_equal(found.findings.count, 1);
	assert_string_equal(found.findings.items[0].path, "a.git/x/b.git");
	assert_false(found.findings.items[0].is_harmless);
	discovery_clear(&found);
}

TEST(refrelays_own_folder_is_not_searched)
{
	make(".refrelay/staging/17.3");
	make("r.git");
	look();
	assert_names("r ");
	assert_int_equal(found.findings.count, 0);
	discovery_clear(&found);
}

TEST(links_and_work_trees_are_told_and_left)
{
	make("r.git");
	make("tree/.git");
	assert_int_equal(symlinkat("r.git", root_fd, "link.git"), 0);
	assert_int_equal(symlinkat("nowhere", root_fd, "dangling"), 0);
	look();
	assert_names("r ");
	assert_int_equal(found.findings.count, 2);
	assert_true(found.findings.items[0].is_harmless);
	assert_true(found.findings.items[1].is_harmless);
	discovery_clear(&found);
}

TEST(a_repository_without_head_is_found_so_that_it_can_be_told)
{
	make("r.git");
	assert_int_equal(unlinkat(root_fd, "r.git/HEAD", 0), 0);
	look();
	assert_names("r ");
	discovery_clear(&found);
}

TEST(a_name_that_is_not_utf8_is_left_out_and_told)
{
	make("bad\xff.git");
	look();
	assert_names("");
	assert_int_equal(found.findings.count, 1);
	assert_false(found.findings.items[0].is_harmless);
	assert_true(text_starts_with(found.findings.items[0].err.text,
				     "not a repository's name")); /* the path has it */
	assert_true(discovery_is_complete(&found));
	discovery_clear(&found);
}

TEST(a_root_that_cannot_be_read_is_an_error)
{
	AUTO_FREE char *nowhere = xasprintf("%s/nowhere", root);

	assert_fails(discover(nowhere, &found, &err), ERR_MISSING);
	discovery_clear(&found);
}

TEST(directories_that_nest_without_end_hide_names)
{
	AUTO_STR struct str path = STR_INIT;

	for (int i = 0; i < 70; i++)
		str_add(&path, "d/");
	assert_ok(dir_make(root_fd, path.data, &err));
	look();
	assert_int_equal(found.findings.count, 1);
	assert_false(discovery_is_complete(&found));
	discovery_clear(&found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(repositories_are_found_at_any_depth_and_sorted),
		CASE(what_a_push_just_makes_or_deletes_is_no_repository),
		CASE(a_folder_on_another_file_system_is_noted),
		CASE(what_is_inside_a_repository_is_not_looked_at),
		CASE(of_two_with_one_name_the_usual_form_counts_and_the_other_is_told),
		CASE(a_copy_that_would_lie_in_another_copy_is_left_out),
		CASE(refrelays_own_folder_is_not_searched),
		CASE(links_and_work_trees_are_told_and_left),
		CASE(a_repository_without_head_is_found_so_that_it_can_be_told),
		CASE(a_name_that_is_not_utf8_is_left_out_and_told),
		CASE(a_root_that_cannot_be_read_is_an_error),
		CASE(directories_that_nest_without_end_hide_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
