#include "test.h"

#include "base/clock.h"
#include "base/log.h"
#include "job/job.h"
#include "lease/manager.h"
#include "replicable/name.h"
#include "store/store.h"

static struct store *store;
static struct lease_manager *leases;

static void open_leases(int64_t ttl_ms)
{
	AUTO_FREE char *url = xasprintf("sqlite:%s/db", root);
	AUTO_FREE char *directory = xasprintf("%s/leases", root);

	log_set_level(LOG_LEVEL_NONE);
	assert_ok(git_setup(root, &err));
	assert_ok(store_open(url, &store, &err));
	assert_ok(lease_manager_open_local(
		store,
		&(struct lease_options){ .directory = directory, .ttl_ms = ttl_ms },
		&leases, &err));
}

static void close_leases(void)
{
	lease_manager_close(leases);
	store_close(store);
}

static const char *kind = KIND_REPOSITORY;

static int run(job_work work, void *arg, int64_t timeout_ms, const struct stop *stop)
{
	return job_run(&(struct job_request){ .leases = leases,
					      .kind = kind,
					      .name = "group/r",
					      .operation = "sync",
					      .timeout_ms = timeout_ms,
					      .stop = stop,
					      .run = work,
					      .arg = arg },
		       &err);
}

static int note_fence(struct job *job, void *arg, struct err *e)
{
	uint64_t *fence = arg;

	if (job->fence <= *fence)
		return err_set(e, ERR_INTERNAL, "the fence did not grow");
	*fence = job->fence;
	return lease_check(job->lease, e);
}

TEST(each_job_has_the_lease_and_a_higher_fence)
{
	uint64_t fence = 0;

	open_leases(0);
	for (int i = 0; i < 3; i++)
		assert_ok(run(note_fence, &fence, 0, NULL));
	close_leases();
}

static int run_again(struct job *job, void *arg, struct err *e)
{
	(void)job;
	(void)e;
	assert_fails(run(arg, NULL, 0, NULL), ERR_BUSY);
	assert_non_null(strstr(err.text, "Cannot obtain an exclusive lease"));
	return 0;
}

static int never(struct job *job, void *arg, struct err *e)
{
	(void)job;
	(void)arg;
	return err_set(e, ERR_INTERNAL, "it ran");
}

TEST(a_lease_that_is_held_means_later)
{
	open_leases(0);
	union {
		job_work work;
		void *pointer;
	} inner = { .work = never };
	assert_ok(run(run_again, inner.pointer, 0, NULL));
	close_leases();
}

static int sleep_in_git(struct job *job, void *arg, struct err *e)
{
	static const char *const args[] = { "-c", "alias.nap=!sleep 30", "nap", NULL };

	(void)arg;
	return git_run(&(struct git_call){ .work = &job->work,
					   .repository = root,
					   .args = args },
		       e);
}

static int run_as(struct job *job, void *arg, struct err *e)
{
	const char *own = kind;

	(void)job;
	(void)e;
	kind = arg;
	int result = run(never, NULL, 0, NULL);
	kind = own;
	assert_int_equal(result, -1);
	return 0;
}

static bool excludes(const char *one, const char *other)
{
	kind = one;
	err.class = ERR_NONE;
	assert_ok(run(run_as, (void *)(uintptr_t)other, 0, NULL));
	kind = KIND_REPOSITORY;
	return err.class == ERR_BUSY;
}

/* A mirror is a repository of its name: a sync of the one and a removal of the other must
 * not be at work on it together. */
TEST(a_mirror_has_the_lease_of_its_repository)
{
	open_leases(0);
	assert_true(excludes(KIND_MIRROR, KIND_REPOSITORY));
	assert_true(excludes(KIND_REPOSITORY, KIND_MIRROR));
	assert_true(excludes(KIND_MIRROR, KIND_MIRROR));
	assert_false(excludes(KIND_MIRROR, "lfs"));
	close_leases();
}

TEST(git_children_end_at_the_jobs_timeout)
{
	int64_t started = clock_boot_ms();

	open_leases(0);
	assert_fails(run(sleep_in_git, NULL, 300, NULL), ERR_TIMEOUT);
	assert_true(clock_boot_ms() - started < 5000);
	close_leases();
}

static void *request_soon(void *stop)
{
	usleep(200000);
	stop_request(stop);
	return NULL;
}

TEST(git_children_end_when_we_are_asked_to_stop)
{
	struct stop stop;
	pthread_t thread;

	open_leases(0);
	stop_init(&stop);
	thread_start(&thread, "stopper", request_soon, &stop);
	assert_fails(run(sleep_in_git, NULL, 0, &stop), ERR_CANCELED);
	thread_join(thread);
	stop_clear(&stop);
	close_leases();
}

static int take_it_away(struct job *job, void *arg, struct err *e)
{
	(void)arg;
	return lease_force_release(leases, lease_key(job->lease), job->fence, "test",
				   "to see what happens", e) == 0
		       ? sleep_in_git(job, NULL, e)
		       : -1;
}

TEST(a_job_that_lost_its_lease_ends_with_its_children)
{
	int64_t started = clock_boot_ms();

	open_leases(900);
	assert_fails(run(take_it_away, NULL, 0, NULL), ERR_LOST);
	assert_int_equal(err.reason, REASON_LOCK_LOST);
	assert_non_null(strstr(err.text, "no longer ours"));
	assert_true(clock_boot_ms() - started < 5000);
	close_leases();
}

static int lose_it_and_succeed(struct job *job, void *arg, struct err *e)
{
	(void)arg;
	if (lease_force_release(leases, lease_key(job->lease), job->fence, "test",
				"to see what happens", e) != 0)
		return -1;
	usleep(1200000); /* longer than the ttl: the keeper has noticed */
	return 0;
}

TEST(a_result_that_was_reached_without_the_lease_is_none)
{
	open_leases(900);
	assert_fails(run(lose_it_and_succeed, NULL, 0, NULL), ERR_LOST);
	assert_int_equal(err.reason, REASON_LOCK_LOST);
	close_leases();
}

static int sleep_for_long(struct job *job, void *arg, struct err *e)
{
	(void)job;
	(void)arg;
	(void)e;
	usleep(1200000);
	return 0;
}

static int find_no_use(struct job *job, void *arg, struct err *e)
{
	(void)job;
	(void)arg;
	return err_set(e, ERR_LOST, "another has it");
}

static int fail_late(struct job *job, void *arg, struct err *e)
{
	sleep_for_long(job, arg, e);
	return err_set(e, ERR_NETWORK, "nobody answers");
}

static void assert_too_long(job_work work)
{
	assert_fails(run(work, NULL, 0, NULL), ERR_TIMEOUT);
	assert_int_equal(err.reason, REASON_LOCK_LOST);
	assert_non_null(strstr(err.text, "lease.ttl (1 s)"));
	assert_non_null(strstr(err.text, "lease.compatibility = docora"));
	assert_non_null(strstr(err.remedy, "raise lease.ttl"));
}

/* Whether git was stopped at the lease's end, or the work itself came too late. */
TEST(what_needs_longer_than_a_lease_that_is_never_renewed_fails)
{
	open_leases(1000);
	leases->ways.is_fixed = true;
	assert_too_long(sleep_in_git);
	assert_too_long(sleep_for_long);
	assert_fails(run(fail_late, NULL, 0, NULL), ERR_NETWORK);
	assert_int_equal(err.reason, REASON_NONE);
	assert_fails(run(find_no_use, NULL, 0, NULL), ERR_LOST);
	assert_string_equal(err.text, "another has it");
	close_leases();
}

/* Under the lease, by another job that would wait for it for a minute. */
static int wait_while_leaving(struct job *job, void *arg, struct err *e)
{
	struct stop *leaving = arg;
	int64_t begun = clock_boot_ms();
	struct stop kill;

	(void)job;
	(void)e;
	stop_init(&kill);
	stop_request(leaving);
	assert_fails(job_run(&(struct job_request){ .leases = leases,
						    .kind = kind,
						    .name = "group/r",
						    .operation = "sync",
						    .wait_ms = 60000,
						    .stop = &kill,
						    .leaving = leaving,
						    .run = never },
			     &err),
		     ERR_CANCELED);
	stop_clear(&kill);
	assert_in_range(clock_boot_ms() - begun, 0, 20000);
	return 0;
}

TEST(who_leaves_waits_for_no_lease_but_ends_what_runs)
{
	struct stop leaving;

	stop_init(&leaving);
	open_leases(0);
	assert_ok(run(wait_while_leaving, &leaving, 0, NULL));
	close_leases();
	stop_clear(&leaving);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(each_job_has_the_lease_and_a_higher_fence),
		CASE(a_lease_that_is_held_means_later),
		CASE(a_mirror_has_the_lease_of_its_repository),
		CASE(who_leaves_waits_for_no_lease_but_ends_what_runs),
		CASE(git_children_end_at_the_jobs_timeout),
		CASE(git_children_end_when_we_are_asked_to_stop),
		CASE(a_job_that_lost_its_lease_ends_with_its_children),
		CASE(a_result_that_was_reached_without_the_lease_is_none),
		CASE(what_needs_longer_than_a_lease_that_is_never_renewed_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
