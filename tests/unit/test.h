/*
 * What every unit test needs. cmocka wants its headers first; TEST names a test by a
 * sentence; CASE runs it in a fresh temporary directory, whose path is `root` and
 * whose descriptor is `root_fd`.
 */
#ifndef UNIT_TEST_H
#define UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"

#define TEST(name) static void name(void **state __attribute__((unused)))
#define CASE(name) cmocka_unit_test_setup_teardown(name, test_make_root, test_remove_root)

static char root[64] __attribute__((unused));
static int root_fd __attribute__((unused));
/* Each thread has its own: some steps of a test are done by threads of the program. */
static _Thread_local struct err err __attribute__((unused));

static inline int test_make_root(void **state)
{
	const char *folder = getenv("TMPDIR");

	(void)state;
	snprintf(root, sizeof(root), "%s/refrelay-test.XXXXXX", folder ? folder : "/tmp");
	if (!mkdtemp(root))
		return -1;
	root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return root_fd < 0 ? -1 : 0;
}

/* For tests that put a program of their own into the place of git: children are not
 * confined. Before the first of them is started. */
static inline void test_free_children(void)
{
	const char *run = getenv("REFRELAY_RUN");
	const char *slash = run ? strrchr(run, '/') : NULL;
	AUTO_FREE char *path = xasprintf("%.*s/tests/free_run",
					 slash ? (int)(slash - run) : 0, run ? run : "");

	setenv("REFRELAY_RUN", path, 1);
}

static inline int test_remove_root(void **state)
{
	(void)state;
	close(root_fd);
	return tree_remove(AT_FDCWD, root, ERR_IGNORED);
}

/* Waits until the condition holds; fails after twenty seconds of sleep: less than any ttl
 * or interval that would make it hold some day. Where each look takes long it fails
 * before the test's own timeout, so that it is told what did not come. */
#define wait_until(condition)                                                            \
	do {                                                                             \
		const int64_t until_ = clock_boot_ms() + 90000;                          \
		for (int i_ = 0; !(condition); i_++) {                                   \
			if (i_ > 10000 || clock_boot_ms() > until_)                      \
				fail_msg("never: %s", #condition);                       \
			usleep(2000);                                                    \
		}                                                                        \
	} while (0)

/* The call succeeds; otherwise the error's own text is shown. */
#define assert_ok(call)                                                                  \
	do {                                                                             \
		if ((call) != 0)                                                         \
			fail_msg("%s: %s", #call, err.text);                             \
	} while (0)

/* The call fails with an error of this class. */
#define assert_fails(call, expected)                                                     \
	do {                                                                             \
		assert_int_equal((call), -1);                                            \
		if (err.class != (expected))                                             \
			fail_msg("%s: class %s: %s", #call, err_class_name(err.class),   \
				 err.text);                                              \
	} while (0)

#endif
