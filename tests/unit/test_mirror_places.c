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

/*
 * Of names that a list wants to take.
 */

#define URL "https://forge.example/acme/r.git"

static const char *recorded; /* in each clone; NULL: nothing */

static char *recorded_source(int clone)
{
	(void)clone;
	return recorded ? xstrdup(recorded) : NULL;
}

/* The caller frees. */
static char *find_other(const char *name)
{
	AUTO_FREE char *git = xasprintf("%s/git", root);
	AUTO_MIRROR_PLACES mirror_place_list wanted = { 0 };
	const struct mirror_place place = { .name = name, .url = URL };
	const struct mirror_place more = { .name = "acme/free", .url = URL };

	assert_ok(dir_make(AT_FDCWD, git, &err));
	vec_add(&wanted, place);
	vec_add(&wanted, more);
	assert_ok(mirror_places_find_taken(&wanted, git, recorded_source, &err));
	return wanted.items[0].other ? xstrdup(wanted.items[0].other) : NULL;
}

static void assert_free(const char *name)
{
	AUTO_FREE char *other = find_other(name);

	if (other)
		fail_msg("%s is taken by %s", name, other);
}

static void assert_taken(const char *name, const char *by)
{
	AUTO_FREE char *other = find_other(name);

	assert_non_null(other);
	assert_string_equal(other, by);
}

static void set_origin(const char *repository, const char *url)
{
	AUTO_FREE char *path = xasprintf("%s/git/%s/config", root, repository);
	AUTO_FREE char *config = xasprintf("[core]\n\tbare = true\n[remote \"origin\"]\n"
					   "\turl = %s\n",
					   url);

	assert_ok(
		file_replace(AT_FDCWD, path, config, strlen(config), FILE_NO_SYNC, &err));
}

TEST(a_list_takes_no_place_of_another_repository)
{
	assert_free("acme/r");
	make("acme/other.git");
	assert_free("acme/r");
	make("acme/r.git");
	assert_taken("acme/r", "acme/r.git");
	assert_free("acme/r2");
	make("acme/plain");
	assert_taken("acme/plain", "acme/plain");
	make("Acme/R3.git");
	assert_taken("acme/r3", "Acme/R3.git");
	make("whole");
	assert_taken("whole/r", "whole");
}

TEST(a_list_takes_over_a_clone_of_that_upstream)
{
	static const char *const same[] = { URL, "https://token@FORGE.example/acme/r",
					    "ssh://git@forge.example:22/acme/r.git/",
					    "git@forge.example:acme/r.git" };
	static const char *const other[] = { "https://forge.example/acme/r2.git",
					     "https://else.example/acme/r.git",
					     "/acme/r.git" };

	make("acme/r.git");
	for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
		set_origin("acme/r.git", same[i]);
		assert_free("acme/r");
	}
	for (size_t i = 0; i < ARRAY_SIZE(other); i++) {
		set_origin("acme/r.git", other[i]);
		assert_taken("acme/r", "acme/r.git");
		recorded = other[i];
		assert_taken("acme/r", "acme/r.git");
		recorded = URL; /* as after the loss of the database */
		assert_free("acme/r");
		recorded = NULL;
	}
}

TEST(a_working_tree_is_taken_over_likewise)
{
	make("acme/r/.git");
	assert_taken("acme/r", "acme/r");
	set_origin("acme/r/.git", URL);
	assert_free("acme/r");
	make("acme/folder/inner.git");
	assert_free("acme/folder");
}

TEST(a_list_follows_no_link_to_another_place_below_the_root)
{
	AUTO_FREE char *away = xasprintf("%s/away", root);
	AUTO_FREE char *there = xasprintf("%s/away/r.git", root);

	make("shared/other.git");
	join("acme", "shared");
	assert_taken("acme/r", "acme");
	assert_ok(dir_make(AT_FDCWD, away, &err));
	join("disk", away);
	assert_free("disk/r");
	assert_ok(repo_make(AT_FDCWD, there, 20, &err));
	assert_taken("disk/r", "disk/r.git");
	recorded = URL;
	assert_free("disk/r");
	join("disk/linked.git", "../git/shared/other.git");
	assert_taken("disk/linked", "disk/linked.git");
	recorded = NULL;
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
		CASE(a_list_takes_no_place_of_another_repository),
		CASE(a_list_takes_over_a_clone_of_that_upstream),
		CASE(a_working_tree_is_taken_over_likewise),
		CASE(a_list_follows_no_link_to_another_place_below_the_root),
	};

	return cmocka_run_group_tests_name("mirror_places", tests, NULL, NULL);
}
