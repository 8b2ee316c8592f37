#include "sync_test.h"

#include <sys/stat.h>
#include <sys/syscall.h>

/* Which were flushed. */
static struct {
	ino_t items[1000];
	size_t count;
	unsigned systems;
} flushed;

/* The library's, twice. */
int fsync(int fd)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && flushed.count < ARRAY_SIZE(flushed.items))
		flushed.items[flushed.count++] = st.st_ino;
	return 0;
}

int syncfs(int fd)
{
	(void)fd;
	flushed.systems++;
	return 0;
}

static void forget_flushed(void)
{
	flushed.count = 0;
	flushed.systems = 0;
}

static bool is_flushed(const char *path)
{
	struct stat st;

	assert_int_equal(fstatat(root_fd, path, &st, 0), 0);
	for (size_t i = 0; i < flushed.count; i++)
		if (flushed.items[i] == st.st_ino)
			return true;
	return false;
}

static int work_after_crash(struct job *job, void *arg, struct err *e)
{
	job->is_after_crash = true;
	return sync_repository(job, arg, &result, e);
}

static int sync_name(const char *name, job_work by)
{
	struct sync_request request = { .source = source,
					.root = here,
					.name = name,
					.mends = true,
					.may_rebuild = true,
					.delete_share = HOLD_SHARE };

	forget_flushed();
	return job_run(&(struct job_request){ .leases = leases,
					      .kind = KIND_REPOSITORY,
					      .name = name,
					      .operation = "sync",
					      .fence_floor = job_fence_floor(here, name),
					      .run = by,
					      .arg = &request },
		       &err);
}

static void add_nested(void **state)
{
	must("mkdir -p there/x/y && cp -r there/a.git there/x/y/b.git");
	discovery_clear(&there);
	assert_ok(discover(*state, &there, &err));
}

static bool is_place_flushed(void)
{
	return is_flushed("here/x/y") && is_flushed("here/x") && is_flushed("here");
}

TEST(the_folders_that_were_made_for_a_copy_are_on_disk)
{
	add_nested(state);
	assert_ok(sync_name("x/y/b", work));
	assert_int_equal(result.outcome, SYNC_CREATED);
	assert_true(is_place_flushed());
	assert_int_equal(flushed.systems, 0);
}

/* Where it was killed before it flushed them, the copy looks complete. */
TEST(the_place_of_a_copy_is_flushed_after_a_worker_that_died)
{
	add_nested(state);
	assert_ok(sync_name("x/y/b", work));
	usleep(30000); /* its record proves it after that */
	assert_ok(sync_name("x/y/b", work));
	assert_false(is_place_flushed());
	assert_ok(sync_name("x/y/b", work_after_crash));
	assert_int_equal(result.outcome, SYNC_UNCHANGED);
	assert_true(is_place_flushed());
	must("rm -r here/x");
	assert_ok(sync_name("x/y/b", work_after_crash));
	assert_int_equal(result.outcome, SYNC_CREATED);
}

TEST(what_somebody_else_put_there_is_flushed_before_it_has_a_record)
{
	must("cp -r there/a.git here/a.git");
	assert_ok(sync_name("a", work));
	assert_int_equal(result.outcome, SYNC_UNCHANGED);
	assert_int_equal(flushed.systems, 1);
	must("git -C there/a.git update-ref refs/heads/new main");
	assert_ok(sync_name("a", work));
	assert_int_equal(result.outcome, SYNC_UPDATED);
	assert_int_equal(flushed.systems, 0);
	must("git -C here/a.git gc -q --prune=now && "
	     "git -C there/a.git update-ref refs/heads/newer main");
	assert_ok(sync_name("a", work));
	assert_int_equal(flushed.systems, 1);
}

TEST(a_description_that_went_is_gone_from_the_disk)
{
	must("echo about >there/a.git/description");
	assert_ok(sync_name("a", work));
	must("test -s here/a.git/description && rm there/a.git/description");
	assert_ok(sync_name("a", work));
	must("test ! -e here/a.git/description");
	assert_true(is_flushed("here/a.git"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SYNC_CASE(the_folders_that_were_made_for_a_copy_are_on_disk),
		SYNC_CASE(the_place_of_a_copy_is_flushed_after_a_worker_that_died),
		SYNC_CASE(what_somebody_else_put_there_is_flushed_before_it_has_a_record),
		SYNC_CASE(a_description_that_went_is_gone_from_the_disk),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
