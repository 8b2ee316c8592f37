#include "git_test.h"

#include <sys/resource.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "git/checksum.h"
#include "git/sound_files.h"
#include "pull/copy_record.h"
#include "pull/share.h"

static void write_in_place(const char *name, const char *text)
{
	AUTO_CLOSE int fd = openat(root_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void link_as(const char *name, const char *other)
{
	assert_int_equal(linkat(root_fd, name, root_fd, other, 0), 0);
}

static struct stat stat_of(const char *name)
{
	struct stat st;

	assert_int_equal(fstatat(root_fd, name, &st, 0), 0);
	return st;
}

TEST(a_file_with_links_is_read_once)
{
	write_in_place("one", "content");
	link_as("one", "two");
	struct stat st = stat_of("one");
	assert_false(sound_file_is(&st));
	sound_file_note(&st);
	st = stat_of("two");
	assert_true(sound_file_is(&st));
}

TEST(whatever_is_done_to_it_it_is_read_again)
{
	write_in_place("one", "content");
	link_as("one", "two");
	struct stat before = stat_of("one");
	sound_file_note(&before);
	usleep(20000); /* another tick of the file system's clock */
	write_in_place("two", "CONTENT");
	const struct timespec times[2] = { before.st_atim, before.st_mtim };
	assert_int_equal(utimensat(root_fd, "two", times, 0), 0);
	struct stat st = stat_of("one");
	assert_int_equal(st.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
	assert_false(sound_file_is(&st));
	sound_file_note(&st);
	usleep(20000);
	link_as("one", "three");
	st = stat_of("one");
	assert_false(sound_file_is(&st));
}

TEST(a_file_that_nobody_shares_is_not_kept_in_mind)
{
	write_in_place("one", "content");
	struct stat st = stat_of("one");
	sound_file_note(&st);
	assert_false(sound_file_is(&st));
}

TEST(two_that_wait_for_each_other_do_not)
{
	assert_true(share_await("fork", "pool"));
	assert_false(share_await("pool", "fork"));
	assert_true(share_await("fork", "pool"));
	assert_false(share_await("fork", NULL));
	assert_true(share_await("pool", "fork"));
	share_await("pool", NULL);
}

TEST(a_ring_of_many_is_no_reason_to_wait)
{
	assert_true(share_await("a", "b"));
	assert_true(share_await("b", "c"));
	assert_true(share_await("d", "a"));
	assert_false(share_await("c", "d"));
	assert_false(share_await("e", "e"));
	assert_true(share_await("c", "f"));
	share_await("a", NULL);
	share_await("b", NULL);
	share_await("c", NULL);
	share_await("d", NULL);
}

/* In the place of the program's. */
static int64_t now = 1;

int64_t clock_boot_ms(void)
{
	return now;
}

/* A job asks twice. */
TEST(who_has_waited_for_an_hour_waits_no_more)
{
	assert_true(share_await("fork", "pool"));
	now += (int64_t)3600 * 1000 + 1;
	for (size_t i = 0; i < 3; i++)
		assert_false(share_await("fork", "pool"));
	assert_false(share_await("fork", NULL)); /* it was brought */
	assert_null(share_awaited("fork"));
	assert_true(share_await("fork", "pool"));
	share_await("fork", NULL);
}

/* The copy of a lender, proved once, with a pack that is worth sharing; and a new copy of
 * one that borrows from it. */
static void make_lender(void)
{
	struct fingerprint fingerprint;
	struct checksum sum = { 0 };

	assert_ok(git_setup(root, &err));
	must("git init -q --bare lender.git && git init -q --bare new.git && "
	     "cd lender.git && head -c 1200000 /dev/urandom | git hash-object -w --stdin "
	     "| "
	     "git pack-objects -q objects/pack/pack >/dev/null && git prune-packed && "
	     "mkdir refrelay");
	AUTO_CLOSE int fd = openat(root_fd, "lender.git", O_RDONLY | O_DIRECTORY);
	assert_ok(fingerprint_take(fd, FINGERPRINT_COPY, &fingerprint, &err));
	assert_ok(
		copy_record_write(fd,
				  &(struct copy_proof){ .source = "x",
							.sum = &sum,
							.copy_fingerprint = &fingerprint,
							.timeline = "0123456789abcdef",
							.generation = 1 },
				  &err));
}

/* Done once the packs are linked, before they are read. */
static void (*when_linked)(void);
static struct stop stop;
static size_t doubts;

void failpoint(const char *name)
{
	if (strcmp(name, "share.linked") == 0 && when_linked)
		when_linked();
}

static void count_doubt(void *arg, const char *name, const struct err *why)
{
	(void)arg;
	(void)why;
	assert_string_equal(name, "lender");
	doubts++;
}

static void damage_index(void)
{
	must("cd new.git/objects/pack && chmod u+w *.idx && "
	     "printf x | dd of=$(ls *.idx) conv=notrunc 2>/dev/null");
}

static void damage_index_and_stop(void)
{
	damage_index();
	stop_request(&stop);
}

static struct rlimit limit_before;

/* One is free: for the folder of the packs, but not for a file in it. */
static void use_up_files(void)
{
	int next = dup(0);
	struct rlimit limit;

	assert_true(next >= 0);
	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit_before), 0);
	limit = limit_before;
	limit.rlim_cur = (rlim_t)next + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static int share(void (*deed)(void))
{
	const struct git_work work = { .guard_fd = -1, .stop = &stop };
	AUTO_TEXT_LIST text_list lenders = { 0 };
	AUTO_REPO struct repo copy = REPO_INIT;

	make_lender();
	vec_add(&lenders, xstrdup("lender"));
	assert_ok(repo_open(root_fd, "new.git", &copy, &err));
	stop_init(&stop);
	doubts = 0;
	when_linked = deed;
	int result = share_packs(&(struct share_request){ .work = &work,
							  .root = root,
							  .lenders = &lenders,
							  .copy = &copy,
							  .doubt = count_doubt },
				 &err);
	stop_clear(&stop);
	return result;
}

TEST(a_pack_that_is_sound_is_shared)
{
	assert_int_equal(share(NULL), 1);
	assert_int_equal(doubts, 0);
}

TEST(a_lender_is_doubted_for_what_was_read_of_it)
{
	assert_int_equal(share(damage_index), 0);
	assert_int_equal(doubts, 1);
}

TEST(a_lender_is_not_doubted_for_what_this_machine_lacks)
{
	int result = share(use_up_files);

	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit_before), 0);
	assert_int_equal(result, 0);
	assert_int_equal(doubts, 0);
}

TEST(a_lender_is_not_doubted_by_work_that_must_end)
{
	assert_fails(share(damage_index_and_stop), ERR_CANCELED);
	assert_int_equal(doubts, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_file_with_links_is_read_once),
		CASE(whatever_is_done_to_it_it_is_read_again),
		CASE(a_file_that_nobody_shares_is_not_kept_in_mind),
		CASE(a_pack_that_is_sound_is_shared),
		CASE(a_lender_is_doubted_for_what_was_read_of_it),
		CASE(a_lender_is_not_doubted_for_what_this_machine_lacks),
		CASE(a_lender_is_not_doubted_by_work_that_must_end),
		CASE(two_that_wait_for_each_other_do_not),
		CASE(a_ring_of_many_is_no_reason_to_wait),
		CASE(who_has_waited_for_an_hour_waits_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
