#include "rights.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>

static void put(const char *path, const char *text)
{
	assert_ok(file_replace(root_fd, path, text, strlen(text), FILE_NO_SYNC, &err));
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(fstatat(root_fd, path, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st.st_mode & 07777;
}

static bool exists(const char *path)
{
	return faccessat(root_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static size_t count_names(void)
{
	AUTO_CLOSEDIR DIR *dir = opendir(root);
	size_t count = 0;

	while (readdir(dir))
		count++;
	return count - 2;
}

TEST(a_file_is_appended_whole)
{
	AUTO_STR struct str text = STR_INIT;

	put("a", "hello");
	str_add(&text, ">");
	assert_ok(file_read(root_fd, "a", 5, &text, &err));
	assert_string_equal(text.data, ">hello");
	put("empty", "");
	assert_ok(file_read(root_fd, "empty", 0, &text, &err));
	assert_string_equal(text.data, ">hello");
}

/* A repository's owner could make us read what only we may, or wait for ever. */
TEST(what_is_no_plain_file_is_neither_followed_nor_waited_for)
{
	AUTO_STR struct str text = STR_INIT;

	put("a", "secret");
	assert_int_equal(symlinkat("a", root_fd, "link"), 0);
	assert_int_equal(mkfifoat(root_fd, "pipe", 0600), 0);
	assert_fails(file_read(root_fd, "link", 100, &text, &err), ERR_CONFIG);
	assert_fails(file_read(root_fd, "pipe", 100, &text, &err), ERR_CONFIG);
	assert_fails(file_read(AT_FDCWD, "/dev/zero", 100, &text, &err), ERR_CONFIG);
	assert_int_equal(text.len, 0);
	assert_ok(file_read_any(root_fd, "link", 100, &text, &err));
	assert_string_equal(text.data, "secret");
}

TEST(a_file_beyond_the_limit_is_corrupt_and_leaves_the_string)
{
	AUTO_STR struct str text = STR_INIT;

	put("a", "hello");
	str_add(&text, ">");
	assert_fails(file_read(root_fd, "a", 4, &text, &err), ERR_CORRUPT);
	assert_string_equal(text.data, ">");
	assert_fails(file_read(root_fd, "a", 0, &text, &err), ERR_CORRUPT);
	assert_fails(file_read_any(AT_FDCWD, "/dev/zero", 100000, &text, &err),
		     ERR_CORRUPT);
	assert_int_equal(text.len, 1);
	assert_fails(file_read(root_fd, "nowhere", 4, &text, &err), ERR_MISSING);
	assert_fails(file_read(root_fd, ".", 4, &text, &err), ERR_CONFIG);
	assert_int_equal(text.len, 1);
}

/* The size of such a file is 0, or wrong. */
TEST(a_file_is_read_to_its_end_whatever_its_size_says)
{
	AUTO_STR struct str text = STR_INIT;

	assert_ok(file_read(AT_FDCWD, "/proc/self/maps", 1 << 20, &text, &err));
	assert_true(text.len > 1000);
	assert_int_equal(strlen(text.data), text.len);
}

TEST(sizes_around_the_buffers_are_read_right)
{
	static char data[9000];

	memset(data, 'x', sizeof(data));
	for (size_t size = 4000; size < sizeof(data);
	     size += size % 4096 < 4090 ? 97 : 1) {
		AUTO_STR struct str text = STR_INIT;
		assert_ok(file_replace(root_fd, "a", data, size, FILE_NO_SYNC, &err));
		assert_ok(file_read(root_fd, "a", size, &text, &err));
		assert_int_equal(text.len, size);
		assert_fails(file_read(root_fd, "a", size - 1, &text, &err), ERR_CORRUPT);
	}
}

TEST(a_replaced_file_keeps_its_mode_and_a_new_one_obeys_the_umask)
{
	mode_t before = umask(027);

	put("new", "1");
	assert_int_equal(mode_of("new"), 0640);
	assert_int_equal(fchmodat(root_fd, "new", 0600, 0), 0);
	put("new", "2");
	assert_int_equal(mode_of("new"), 0600);
	assert_int_equal(fchmodat(root_fd, "new", 0666, 0), 0);
	put("new", "3");
	assert_int_equal(mode_of("new"), 0666);
	umask(before);
}

TEST(replacing_leaves_one_name_and_a_link_is_replaced_itself)
{
	AUTO_STR struct str text = STR_INIT;

	put("target", "old");
	assert_int_equal(symlinkat("target", root_fd, "link"), 0);
	put("link", "new");
	assert_int_equal(count_names(), 2);
	assert_ok(file_read(root_fd, "target", 10, &text, &err));
	assert_string_equal(text.data, "old");
	assert_ok(dir_make(root_fd, "sub", &err));
	assert_ok(file_replace(root_fd, "sub/x", "y", 1, FILE_SYNC, &err));
	assert_ok(file_replace(root_fd, "z", "y", 1, FILE_SYNC, &err));
	assert_true(exists("sub/x") && exists("z"));
}

static ino_t overwrite(const char *path, const char *text)
{
	AUTO_STR struct str is = STR_INIT;
	struct stat st;

	assert_ok(file_overwrite(root_fd, path, text, strlen(text), FILE_NO_SYNC, &err));
	assert_ok(file_read(root_fd, path, 100, &is, &err));
	assert_string_equal(is.data, text);
	assert_int_equal(fstatat(root_fd, path, &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISREG(st.st_mode));
	return st.st_ino;
}

TEST(what_is_as_long_is_written_over_and_all_else_is_replaced)
{
	AUTO_STR struct str text = STR_INIT;
	ino_t first = overwrite("a", "1234");

	assert_int_equal(overwrite("a", "5678"), first);
	assert_int_not_equal(overwrite("a", "123456"), first);
	/* What others see by another name, or wherever a link leads, stays. */
	first = overwrite("a", "1234");
	assert_int_equal(linkat(root_fd, "a", root_fd, "b", 0), 0);
	assert_int_not_equal(overwrite("a", "5678"), first);
	assert_int_equal(symlinkat("b", root_fd, "c"), 0);
	overwrite("c", "9999");
	assert_ok(file_read(root_fd, "b", 100, &text, &err));
	assert_string_equal(text.data, "1234");
	assert_int_equal(count_names(), 3);
}

TEST(a_failed_replacement_leaves_nothing_behind)
{
	assert_ok(dir_make(root_fd, "d/full", &err));
	assert_fails(file_replace(root_fd, "d", "x", 1, FILE_SYNC, &err), ERR_CONFIG);
	assert_int_equal(count_names(), 1);
	assert_fails(file_replace(root_fd, "no/where", "x", 1, FILE_SYNC, &err),
		     ERR_MISSING);
}

static atomic_bool writer_done;
static atomic_int mixtures, reads;

enum { PAGE = 64 * 1024 };

static void *read_in_a_loop(void *unused)
{
	(void)unused;
	while (!atomic_load(&writer_done)) {
		AUTO_STR struct str text = STR_INIT;
		struct err mine;

		if (file_read(root_fd, "a", PAGE, &text, &mine) != 0 || text.len != PAGE)
			atomic_fetch_add(&mixtures, 1);
		for (size_t i = 1; i < text.len; i++)
			if (text.data[i] != text.data[0]) {
				atomic_fetch_add(&mixtures, 1);
				break;
			}
		atomic_fetch_add(&reads, 1);
	}
	return NULL;
}

TEST(a_reader_never_sees_a_mixture)
{
	static char page[PAGE];
	pthread_t reader;

	memset(page, 'a', sizeof(page));
	assert_ok(file_replace(root_fd, "a", page, sizeof(page), FILE_NO_SYNC, &err));
	assert_int_equal(pthread_create(&reader, NULL, read_in_a_loop, NULL), 0);
	for (int i = 0; i < 500 || atomic_load(&reads) < 50; i++) {
		memset(page, 'a' + i % 26, sizeof(page));
		assert_ok(file_replace(root_fd, "a", page, sizeof(page), FILE_NO_SYNC,
				       &err));
	}
	atomic_store(&writer_done, true);
	pthread_join(reader, NULL);
	assert_int_equal(atomic_load(&mixtures), 0);
}

TEST(directories_are_made_with_those_above)
{
	assert_ok(dir_make(root_fd, "a/b//c/", &err));
	assert_true(exists("a/b/c"));
	assert_ok(dir_make(root_fd, "a/b/c", &err));
	assert_ok(dir_make_parents(root_fd, "x/y/z", &err));
	assert_true(exists("x/y"));
	assert_false(exists("x/y/z"));
	assert_ok(dir_make_parents(root_fd, "single", &err));
	assert_ok(dir_make_parents(root_fd, "x/w//", &err));
	assert_false(exists("x/w"));
	assert_ok(dir_make_parents(AT_FDCWD, "///", &err));
	assert_ok(dir_make(AT_FDCWD, "/", &err));
	assert_fails(dir_make(root_fd, "", &err), ERR_MISSING);
}

TEST(a_file_in_the_way_of_a_directory_is_told)
{
	put("f", "x");
	assert_fails(dir_make(root_fd, "f", &err), ERR_CONFIG);
	assert_non_null(strstr(err.text, "in the way"));
	assert_string_not_equal(err.remedy, "");
	assert_fails(dir_make(root_fd, "f/g/h", &err), ERR_CONFIG);
	assert_non_null(strstr(err.text, "in the way"));
	assert_int_equal(symlinkat("nowhere", root_fd, "dangling"), 0);
	assert_int_equal(dir_make(root_fd, "dangling", &err), -1);
}

TEST(a_tree_is_removed_without_following_links)
{
	assert_ok(dir_make(root_fd, "outside", &err));
	put("outside/kept", "x");
	assert_ok(dir_make(root_fd, "tree/a/b", &err));
	put("tree/a/b/f", "x");
	assert_int_equal(symlinkat("../../outside", root_fd, "tree/a/dir"), 0);
	assert_int_equal(symlinkat("../outside/kept", root_fd, "tree/file"), 0);
	assert_ok(tree_remove(root_fd, "tree", &err));
	assert_false(exists("tree"));
	assert_true(exists("outside/kept"));

	assert_int_equal(symlinkat("outside", root_fd, "link"), 0);
	assert_ok(tree_remove(root_fd, "link", &err));
	assert_false(exists("link"));
	assert_int_equal(symlinkat("outside", root_fd, "link"), 0);
	assert_ok(tree_remove(root_fd, "link//", &err));
	assert_false(exists("link"));
	assert_true(exists("outside/kept"));
	assert_ok(tree_remove(root_fd, "outside/", &err));
	assert_false(exists("outside"));
}

TEST(removing_what_is_absent_or_a_file_is_fine)
{
	assert_ok(tree_remove(root_fd, "nothing", &err));
	put("f", "x");
	assert_ok(tree_remove(root_fd, "f", &err));
	assert_false(exists("f"));
}

TEST(random_names_differ)
{
	char one[33], two[33];

	random_hex(one, 16);
	random_hex(two, 16);
	assert_int_equal(strspn(one, "0123456789abcdef"), 32);
	assert_string_not_equal(one, two);
}

TEST(a_tree_that_may_not_be_entered_is_removed)
{
	assert_int_equal(mkdirat(root_fd, "closed", 0700), 0);
	assert_int_equal(mkdirat(root_fd, "closed/inside", 0700), 0);
	assert_int_equal(mkdirat(root_fd, "closed/inside/x", 0000), 0);
	assert_int_equal(fchmodat(root_fd, "closed/inside", 0, 0), 0);
	assert_int_equal(fchmodat(root_fd, "closed", 0, 0), 0);
	rights_set_override(false);
	int result = tree_remove(root_fd, "closed", &err);
	rights_set_override(true);
	assert_ok(result);
	assert_false(exists("closed"));
}

TEST(a_path_of_which_nothing_is_there_is_resolved_from_where_we_are)
{
	AUTO_FREE char *before = realpath(".", NULL);
	AUTO_FREE char *below = NULL, *alone = NULL;

	assert_int_equal(chdir(root), 0);
	AUTO_FREE char *here = realpath(".", NULL);
	AUTO_FREE char *expected = xasprintf("%s/new", here);
	AUTO_FREE char *deeper = xasprintf("%s/new/er", here);
	alone = path_resolve("new");
	below = path_resolve("new/er");
	AUTO_FREE char *plain = path_resolve("./new//x/..///./er//");
	AUTO_FREE char *above = path_resolve("new/../../..");
	AUTO_FREE char *whole = xasprintf("%s/new/er/", here);
	AUTO_FREE char *absolute = path_resolve(whole);
	assert_int_equal(chdir(before), 0);
	assert_string_equal(alone, expected);
	assert_string_equal(below, deeper);
	assert_string_equal(plain, deeper);
	assert_string_equal(absolute, deeper);
	assert_true(path_is_below(here, above) && strcmp(here, above) != 0);
	AUTO_FREE char *top = path_resolve("/no such/..");
	assert_string_equal(top, "/");
	AUTO_FREE char *doubled = path_resolve("//no such/x");
	assert_string_equal(doubled, "/no such/x");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_tree_that_may_not_be_entered_is_removed),
		CASE(a_file_is_appended_whole),
		CASE(what_is_no_plain_file_is_neither_followed_nor_waited_for),
		CASE(a_file_beyond_the_limit_is_corrupt_and_leaves_the_string),
		CASE(a_file_is_read_to_its_end_whatever_its_size_says),
		CASE(sizes_around_the_buffers_are_read_right),
		CASE(a_replaced_file_keeps_its_mode_and_a_new_one_obeys_the_umask),
		CASE(replacing_leaves_one_name_and_a_link_is_replaced_itself),
		CASE(what_is_as_long_is_written_over_and_all_else_is_replaced),
		CASE(a_failed_replacement_leaves_nothing_behind),
		CASE(a_reader_never_sees_a_mixture),
		CASE(directories_are_made_with_those_above),
		CASE(a_file_in_the_way_of_a_directory_is_told),
		CASE(a_tree_is_removed_without_following_links),
		CASE(removing_what_is_absent_or_a_file_is_fine),
		CASE(random_names_differ),
		CASE(a_path_of_which_nothing_is_there_is_resolved_from_where_we_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
