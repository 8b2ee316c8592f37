#include "git_test.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/syscall.h>

#include "serve/receive_pack.h"

static int renames; /* that the kernel meets while it follows links */

/* In place of libc's. */
long syscall(long number, ...)
{
	static long (*real)(long, ...);
	long words[5]; /* none here has more */
	va_list list;

	if (number == SYS_openat2 && renames > 0) {
		renames--;
		errno = EAGAIN;
		return -1;
	}
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "syscall");
	va_start(list, number);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		words[i] = va_arg(list, long);
	va_end(list);
	return real(number, words[0], words[1], words[2], words[3], words[4]);
}

static int setup(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	must("git init -q --bare r.git && mkdir -p elsewhere/d && touch elsewhere/f && "
	     "cd r.git && mkdir -p logs/refs/heads refs/heads/a objects/ab && "
	     "touch packed-refs");
	repo_fd = openat(root_fd, "r.git", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return repo_fd < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	close(repo_fd);
	return test_remove_root(state);
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

TEST(a_plain_repository_is_written_to)
{
	assert_ok(receive_places_check(repo_fd, &err));
	must("cd r.git && rm -r logs packed-refs");
	assert_ok(receive_places_check(repo_fd, &err));
	/* Read only, or replaced as they are. */
	must("cd r.git && ln -sf ../elsewhere/f description && "
	     "echo ../../elsewhere/d >objects/info/alternates && "
	     "ln -s ../../../elsewhere/f objects/ab/0123 && rm -r hooks && "
	     "ln -s ../elsewhere/d hooks");
	assert_ok(receive_places_check(repo_fd, &err));
}

/* What is done in r.git; the name that is told. */
TEST(a_link_that_leads_out_is_refused_by_name)
{
	static const char *const cases[][2] = {
		{ "mv objects ../elsewhere && ln -s ../elsewhere/objects objects",
		  "objects" },
		{ "mv objects/pack ../elsewhere && ln -s ../../elsewhere/pack "
		  "objects/pack",
		  "objects/pack" },
		{ "rmdir objects/ab && ln -s $PWD/../elsewhere/d objects/ab",
		  "objects/ab" },
		{ "mv refs ../elsewhere && ln -s ../elsewhere/refs refs", "refs" },
		{ "ln -s ../../../../elsewhere/d refs/heads/a/b", "refs/heads/a/b" },
		{ "ln -s ../../../../elsewhere/none refs/heads/a/b", "refs/heads/a/b" },
		{ "ln -s ../../elsewhere/d logs/more", "logs/more" },
		{ "ln -s ../../../../elsewhere/f logs/refs/heads/main",
		  "logs/refs/heads/main" },
		{ "rm packed-refs && ln -s ../elsewhere/f packed-refs", "packed-refs" },
		{ "ln -s ../elsewhere/f shallow", "shallow" },
		{ "rm HEAD && ln -s /none HEAD", "HEAD" },
		{ "mkdir x && ln -s ../../elsewhere/d x/y && ln -s ../../x refs/heads/z",
		  "refs/heads/z/y" },
		{ "ln -s ../elsewhere/d refrelay", "refrelay" },
		{ "mkdir refrelay && ln -s ../../elsewhere/d refrelay/state",
		  "refrelay/state" },
		{ "echo ../elsewhere >commondir", "commondir" },
		{ "ln -s loop refs/heads/loop", "refs/heads/loop" },
		{ "ln -s .. refs/heads/up", "refs/heads/up/" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		must("rm -rf kept && cp -a r.git kept && cd r.git && %s", cases[i][0]);
		if (receive_places_check(repo_fd, &err) == 0)
			fail_msg("%s: let in", cases[i][0]);
		assert_int_equal(err.class, ERR_CONFIG);
		if (!strstr(err.text, cases[i][1]) || !*err.remedy)
			fail_msg("%s: %s", cases[i][0], err.text);
		assert_int_equal(teardown(NULL), 0);
		assert_int_equal(setup(NULL), 0);
	}
}

TEST(a_link_that_stays_inside_is_not_in_the_way)
{
	must("cd r.git && rm HEAD && ln -s refs/heads/main HEAD && "
	     "mkdir refs/heads/b && ln -s ../b refs/heads/a/b && "
	     "ln -s refs/heads/none refs/heads/unborn");
	assert_ok(receive_places_check(repo_fd, &err));
}

TEST(a_rename_elsewhere_is_not_in_the_way)
{
	must("cd r.git && mkdir refs/heads/b && ln -s ../b refs/heads/a/b");
	renames = 2;
	assert_ok(receive_places_check(repo_fd, &err));
	assert_int_equal(renames, 0);
	renames = INT_MAX;
	assert_fails(receive_places_check(repo_fd, &err), ERR_INTERNAL);
	renames = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_plain_repository_is_written_to),
		CASE(a_link_that_leads_out_is_refused_by_name),
		CASE(a_link_that_stays_inside_is_not_in_the_way),
		CASE(a_rename_elsewhere_is_not_in_the_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
