/* When a history is looked through again, and how long who asks waits for it. */
#include "notice_test.h"

#include <dlfcn.h>

#include "base/retry.h"
#include "git/git_child.h"
#include "replicable/lfs_rows.h"
#include "verify/lfs_names.h"

#define HOUR_MS ((int64_t)3600 * 1000)

static struct {
	atomic_int fails;       /* so many more searches, for want of descriptors */
	atomic_int failed;      /* so many did */
	atomic_bool has_time;   /* the last search had more than an hour */
	int64_t delay_ms;       /* of the next one */
	atomic_bool takes_long; /* a search without an hour goes on until its end */
	atomic_int cut_off;     /* so many did */
	atomic_bool is_over;    /* nobody asks any more */
} script;

static struct lfs_names *names;

int64_t retry_random_delay_ms(uint64_t n, enum retry_cap cap)
{
	assert_int_equal(n, atomic_load(&script.failed));
	assert_int_equal(cap, RETRY_CAP);
	return script.delay_ms;
}

int git_stream_open(const struct git_call *call, int input_fd, struct git_stream **stream,
		    struct err *error)
{
	int (*open)(const struct git_call *, int, struct git_stream **, struct err *);
	void *found = dlsym(RTLD_NEXT, "git_stream_open");

	atomic_store(&script.has_time, call->work->until > clock_boot_ms() + HOUR_MS);
	if (call->work->until <= clock_boot_ms() + HOUR_MS) {
		while (atomic_load(&script.takes_long) &&
		       clock_boot_ms() < call->work->until)
			usleep(1000);
		atomic_fetch_add(&script.cut_off, 1);
		return err_set(error, ERR_TIMEOUT, "it takes longer than that");
	}
	if (atomic_fetch_sub(&script.fails, 1) > 0) {
		atomic_fetch_add(&script.failed, 1);
		errno = EMFILE;
		return err_errno(error, "cannot start git");
	}
	memcpy(&open, &found, sizeof(found));
	return open(call, input_fd, stream, error);
}

static void make_pointing(void)
{
	must("git init -q --bare srv/a.git && git init -q -b main work && cd work && "
	     "printf 'version https://git-lfs.github.com/spec/v1\\noid sha256:%%064d\\n"
	     "size 5\\n' 1 >a.bin && git add a.bin && git -c user.name=a -c user.email=a "
	     "commit -qm a && git push -q ../srv/a.git main && "
	     "git -C ../srv/a.git symbolic-ref HEAD refs/heads/main");
}

static int make_names(void **state)
{
	struct scan_result result = { 0 };

	if (make_site(state) != 0)
		return -1;
	make_pointing();
	assert_ok(scan_site(NULL, &result));
	assert_ok(dir_make(root_fd, "data/lfs", &err));
	atomic_store(&script.fails, 1);
	atomic_store(&script.failed, 0);
	script.delay_ms = 0;
	atomic_store(&script.takes_long, false);
	atomic_store(&script.cut_off, 0);
	atomic_store(&script.is_over, false);
	return 0;
}

static void start_names(void)
{
	names = lfs_names_start(&(struct lfs_names_options){ .store = store,
							     .root = srv,
							     .data = data,
							     .kind = "lfs",
							     .side = LFS_ORIGIN });
}

static int remove_names(void **state)
{
	lfs_names_stop(TAKE(names));
	return remove_site(state);
}

static int find_scan(struct store_tx *tx, void *arg, struct err *error)
{
	struct lfs_scan *scan = arg;

	lfs_scan_clear(scan);
	return lfs_scan_get(tx, replicable_id(KIND_REPOSITORY, "a"), scan, error) < 0 ? -1
										      : 0;
}

static int64_t absent(void)
{
	AUTO_LFS_SCAN struct lfs_scan scan = { 0 };

	assert_ok(store_read(store, find_scan, &scan, &err));
	return scan.absent;
}

TEST(what_failed_once_is_looked_through_without_another_change)
{
	atomic_store(&script.fails, 2);
	start_names();
	wait_until(absent() == 1);
	assert_int_equal(atomic_load(&script.failed), 2);
}

TEST(who_asks_does_not_wait_for_longer_than_he_says)
{
	script.delay_ms = HOUR_MS; /* the thread leaves it to him */
	start_names();
	wait_until(atomic_load(&script.failed) == 1);
	assert_fails(lfs_names_look(names, "a", clock_boot_ms() + 20000, &err), ERR_BUSY);
	assert_false(atomic_load(&script.has_time));
	assert_ok(lfs_names_look(names, "a", clock_boot_ms() + 2 * HOUR_MS, &err));
}

static void *ask_on(void *arg)
{
	struct err why;

	(void)arg;
	while (!atomic_load(&script.is_over))
		lfs_names_look(names, "a", clock_boot_ms() + 300, &why);
	return NULL;
}

TEST(the_thread_has_its_turn_among_those_who_ask_on_and_on)
{
	pthread_t asking[3];

	script.delay_ms = 1000; /* it is back when the others are at it */
	atomic_store(&script.takes_long, true);
	start_names();
	wait_until(atomic_load(&script.failed) == 1);
	for (size_t i = 0; i < ARRAY_SIZE(asking); i++) {
		thread_start(&asking[i], "asking", ask_on, NULL);
		usleep(100000); /* one begins when another has time left */
	}
	for (int i = 0; i < 1000 && absent() != 1; i++)
		usleep(10000);
	atomic_store(&script.is_over, true);
	for (size_t i = 0; i < ARRAY_SIZE(asking); i++)
		thread_join(asking[i]);
	assert_true(atomic_load(&script.cut_off) > 0);
	assert_int_equal(absent(), 1);
}

#define NAMES_CASE(name) cmocka_unit_test_setup_teardown(name, make_names, remove_names)

int main(void)
{
	const struct CMUnitTest tests[] = {
		NAMES_CASE(what_failed_once_is_looked_through_without_another_change),
		NAMES_CASE(who_asks_does_not_wait_for_longer_than_he_says),
		NAMES_CASE(the_thread_has_its_turn_among_those_who_ask_on_and_on),
	};

	log_set_level(LOG_LEVEL_NONE);
	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
