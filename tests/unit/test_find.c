/*
 * Twice: with openat2(2), and as where a filter knows it not.
 */
#include "test.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "serve/find.h"

static char *path;

static int setup(void **state)
{
	static const char *const folders[] = {
		"git",           "git/a",     "git/a/b",       "outside",
		"git/a/b/c.git", "git/plain", "outside/o.git",
	};
	static const char *const repositories[] = { "git/a/b/c.git", "git/plain",
						    "outside/o.git" };

	if (test_make_root(state) != 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (mkdirat(root_fd, folders[i], 0777) != 0)
			return -1;
	for (size_t i = 0; i < ARRAY_SIZE(repositories); i++) {
		AUTO_CLOSE int fd = dir_open(root_fd, repositories[i], &err);
		AUTO_CLOSE int head = openat(fd, "HEAD", O_CREAT | O_WRONLY, 0666);
		if (head < 0 || mkdirat(fd, "objects", 0777) != 0 ||
		    mkdirat(fd, "refs", 0777) != 0)
			return -1;
	}
	return 0;
}

static int teardown(void **state)
{
	free(TAKE(path));
	return test_remove_root(state);
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static int find_in(const char *top, const char *name)
{
	AUTO_FREE char *where = xasprintf("%s/%s", root, top);

	free(TAKE(path));
	return find_repository(where, name, &path, &err);
}

/* The directory that was opened is the one at this path. */
static void assert_found(const char *top, const char *name, const char *expected)
{
	AUTO_CLOSE int fd = find_in(top, name);
	struct stat found, wanted;

	if (fd < 0)
		fail_msg("%s: %s", name, err.text);
	assert_int_equal(fstat(fd, &found), 0);
	assert_int_equal(fstatat(root_fd, expected, &wanted, 0), 0);
	assert_int_equal(found.st_ino, wanted.st_ino);
	assert_true(text_ends_with(path, strrchr(expected, '/')));
}

static void assert_missing(const char *name)
{
	if (find_in("git", name) >= 0)
		fail_msg("%s is found", name);
	assert_int_equal(err.class, ERR_MISSING);
	assert_null(path);
}

static void link_to(const char *target, const char *name)
{
	assert_int_equal(symlinkat(target, root_fd, name), 0);
}

TEST(a_repository_is_found_by_its_name_with_or_without_its_ending)
{
	assert_found("git", "a/b/c", "git/a/b/c.git");
	assert_found("git", "plain", "git/plain");
	assert_missing("a/b/c.git.git");
	assert_missing("a/b");
	assert_missing("none");
	assert_missing("a/none/c");
}

TEST(the_root_itself_may_be_a_link)
{
	link_to("git", "alias");
	assert_found("alias", "a/b/c", "git/a/b/c.git");
}

TEST(a_root_that_is_gone_is_no_missing_repository)
{
	assert_int_equal(find_in("elsewhere", "a"), -1);
	assert_non_null(strstr(err.text, "elsewhere"));
}

TEST(names_that_climb_or_begin_at_the_root_are_refused)
{
	static const char *const names[] = {
		"",
		"/",
		".",
		"..",
		"../git/a/b/c",
		"a/../a/b/c",
		"a/./b/c",
		"a//b/c",
		"/a/b/c",
		"a/b/c/",
		"../outside/o.git",
		".refrelay/x",
		"a/b/.git",
		"\xc0\xae\xc0\xae/outside/o",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_missing(names[i]);
}

TEST(no_link_is_followed_at_any_depth)
{
	AUTO_FREE char *outside = xasprintf("%s/outside", root);
	AUTO_FREE char *repository = xasprintf("%s/outside/o.git", root);

	link_to(outside, "git/l");
	link_to(outside, "git/a/l");
	link_to("../../../outside", "git/a/b/l");
	link_to(repository, "git/o.git");
	link_to("../../outside/o.git", "git/a/o.git");
	link_to("c.git", "git/a/b/d.git");
	link_to("a", "git/inside");
	link_to("/proc/self/cwd", "git/magic");
	link_to("loop.git", "git/loop.git");
	assert_missing("l/o");
	assert_missing("a/l/o");
	assert_missing("a/b/l/o");
	assert_missing("o");
	assert_missing("a/o");
	assert_missing("a/b/d");
	assert_missing("inside/b/c");
	assert_missing("magic/x");
	assert_missing("loop");
}

TEST(what_is_no_directory_is_no_repository)
{
	AUTO_FREE char *where = xasprintf("%s/git/socket.git", root);
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	AUTO_CLOSE int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	AUTO_CLOSE int file = openat(root_fd, "git/file.git", O_CREAT | O_WRONLY, 0666);

	assert_int_equal(mkfifoat(root_fd, "git/fifo.git", 0666), 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", where);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_true(file >= 0);
	assert_missing("fifo");
	assert_missing("socket");
	assert_missing("file");
	assert_missing("file.git/x");
	assert_missing("fifo.git/x");
}

/* As a scan for what is to be replicated has it. */
TEST(what_lies_in_another_repository_is_not_found)
{
	assert_int_equal(mkdirat(root_fd, "git/a/refs", 0777), 0);
	assert_found("git", "a/b/c", "git/a/b/c.git");
	assert_int_equal(mkdirat(root_fd, "git/a/objects", 0777), 0);
	assert_missing("a/b/c");
	assert_int_equal(unlinkat(root_fd, "git/a/objects", AT_REMOVEDIR), 0);
	assert_found("git", "a/b/c", "git/a/b/c.git");
	assert_int_equal(mkdirat(root_fd, "git/refs", 0777), 0);
	assert_int_equal(mkdirat(root_fd, "git/objects", 0777), 0);
	assert_missing("a/b/c");
	assert_missing("plain");
}

/* From now on openat2 fails as where nobody knows it. */
static bool forbid_openat2(int error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { ARRAY_SIZE(code), code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* All cases behind it find repositories by the other way. */
TEST(the_kernel_may_not_know_openat2)
{
	if (!forbid_openat2(ENOSYS))
		skip();
	assert_int_equal(syscall(SYS_openat2, AT_FDCWD, ".", NULL, 0), -1);
	assert_int_equal(errno, ENOSYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_repository_is_found_by_its_name_with_or_without_its_ending),
		CASE(the_root_itself_may_be_a_link),
		CASE(a_root_that_is_gone_is_no_missing_repository),
		CASE(names_that_climb_or_begin_at_the_root_are_refused),
		CASE(no_link_is_followed_at_any_depth),
		CASE(what_is_no_directory_is_no_repository),
		CASE(what_lies_in_another_repository_is_not_found),
		CASE(the_kernel_may_not_know_openat2),
		CASE(a_repository_is_found_by_its_name_with_or_without_its_ending),
		CASE(the_root_itself_may_be_a_link),
		CASE(a_root_that_is_gone_is_no_missing_repository),
		CASE(names_that_climb_or_begin_at_the_root_are_refused),
		CASE(no_link_is_followed_at_any_depth),
		CASE(what_is_no_directory_is_no_repository),
		CASE(what_lies_in_another_repository_is_not_found),
	};

	return cmocka_run_group_tests_name("find", tests, NULL, NULL);
}
