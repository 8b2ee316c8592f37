#include "test.h"

#include <sys/stat.h>

#include "base/conf.h"
#include "git/repo.h"
#include "mirror/mirror_places.h"

static const char text[] = "[mirror \"acme/deep/r\"]\nurl = https://example.com/r\n"
			   "[mirror \"acme/s\"]\nurl = https://example.com/s\n"
			   "[mirror \"also/s\"]\nurl = https://example.com/s\n"
			   "[mirror \"t\"]\nurl = https://example.com/t\n";

static void make(const char *path)
{
	AUTO_FREE char *whole = xasprintf("%s/git/%s", root, path);

	assert_ok(dir_make_parents(AT_FDCWD, whole, &err));
	assert_ok(repo_make(AT_FDCWD, whole, 20, &err));
}

static void join(const char *path, const char *to)
{
	AUTO_FREE char *whole = xasprintf("%s/git/%s", root, path);

	assert_ok(dir_make_parents(AT_FDCWD, whole, &err));
	assert_int_equal(symlink(to, whole), 0);
}

static int check(void)
{
	AUTO_FREE char *git = xasprintf("%s/git", root);
	AUTO_MIRRORS struct mirrors mirrors = { 0 };
	AUTO_CONF struct conf *conf = NULL;

	assert_ok(dir_make(AT_FDCWD, git, &err));
	assert_ok(conf_load_text("t.conf", text, strlen(text), &conf, &err));
	assert_ok(mirrors_read(conf, &mirrors, &err));
	return mirrors_check_places(&mirrors, git, &err);
}

/* Both are named. */
static void assert_clash(const char *mirror, const char *other)
{
	AUTO_FREE char *quoted = xasprintf("\"%s\"", mirror);
	AUTO_FREE char *spaced = xasprintf(" %s ", other);

	assert_fails(check(), ERR_CONFIG);
	if (!strstr(err.text, quoted) || !strstr(err.text, spaced))
		fail_msg("%s and %s are not in: %s", mirror, other, err.text);
	assert_true(err.remedy[0]);
}

TEST(clones_and_other_repositories_are_no_clash)
{
	assert_ok(check());
	make("acme/deep/r.git");
	make("acme/other.git");
	make("acme/deeper/r.git");
	make("s.git");
	make("other/T.git");
	assert_ok(check());
}

TEST(a_repository_of_another_case_is_one)
{
	make("acme/S.git");
	assert_clash("acme/s", "acme/S.git");
}

TEST(so_is_one_in_a_folder_of_another_case)
{
	make("acme/deep/r.git");
	make("Acme/DEEP/r.git");
	assert_clash("acme/deep/r", "Acme/DEEP/r.git");
}

TEST(so_is_one_without_git_at_its_end_which_can_be_moved)
{
	make("t");
	assert_clash("t", "t");
	assert_non_null(strstr(err.remedy, "to t.git"));
}

TEST(a_work_tree_or_a_folder_of_that_name_is_none)
{
	make("t/.git");
	make("t/inner.git");
	make("T/inner.git");
	assert_ok(check());
}

TEST(a_link_to_another_repository_is_one)
{
	make("other.git");
	join("t.git", "other.git");
	assert_clash("t", "other.git");
}

TEST(a_folder_that_is_a_link_makes_two_names_one)
{
	make("shared/s.git");
	join("acme", "shared");
	assert_clash("acme/deep/r", "shared/deep/r.git");
}

TEST(two_mirrors_are_one_by_a_link)
{
	AUTO_FREE char *away = xasprintf("%s/away", root);

	assert_ok(dir_make(AT_FDCWD, away, &err));
	join("acme", away);
	join("also", away);
	assert_clash("also/s", "acme/s");
}

TEST(a_link_that_leads_nowhere_is_one_all_the_same)
{
	join("acme/s.git", "../nothing.git");
	assert_clash("acme/s", "../nothing.git");
}

TEST(a_folder_may_be_on_another_disk_and_a_clone_not)
{
	AUTO_FREE char *away = xasprintf("%s/away", root);

	assert_ok(dir_make(AT_FDCWD, away, &err));
	join("acme", away);
	assert_ok(check());
	join("t.git", away);
	assert_clash("t", away);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(clones_and_other_repositories_are_no_clash),
		CASE(a_repository_of_another_case_is_one),
		CASE(so_is_one_in_a_folder_of_another_case),
		CASE(so_is_one_without_git_at_its_end_which_can_be_moved),
		CASE(a_work_tree_or_a_folder_of_that_name_is_none),
		CASE(a_link_to_another_repository_is_one),
		CASE(a_folder_that_is_a_link_makes_two_names_one),
		CASE(two_mirrors_are_one_by_a_link),
		CASE(a_link_that_leads_nowhere_is_one_all_the_same),
		CASE(a_folder_may_be_on_another_disk_and_a_clone_not),
	};

	return cmocka_run_group_tests_name("mirror_places", tests, NULL, NULL);
}
