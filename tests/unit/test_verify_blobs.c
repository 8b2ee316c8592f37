#include "blob_notice_test.h"

#include <poll.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "store/store_conn.h"
#include "verify/verify_origin.h"

static struct verify_origin *verifier;

static atomic_int read_error; /* errno of reading files; 0: none */

/* While reads of files named "old..." block, how many did. */
static atomic_bool blocks_old;
static atomic_int blocked;

static bool is_old(int fd)
{
	AUTO_FREE char *link = xasprintf("/proc/self/fd/%d", fd);
	char path[200] = "";

	return readlink(link, path, sizeof(path) - 1) > 0 && strstr(path, "/old");
}

static void block_old(int fd)
{
	if (!blocks_old || !is_old(fd))
		return;
	blocked++;
	while (blocks_old)
		poll(NULL, 0, 1);
}

/* The library's. */
ssize_t preadv2(int fd, const struct iovec *to, int count, off_t offset, int flags)
{
	if (read_error) {
		errno = read_error;
		return -1;
	}
	block_old(fd);
	return syscall(SYS_preadv2, fd, to, count, offset, 0, flags);
}

static void notice_all(const struct kind *kind)
{
	struct map troubles = { 0 };
	struct scan_result result;
	const struct origin_kind origin = notice_kind(notice, kind);
	const struct scan_request request = { .kind = &origin, .troubles = &troubles };

	assert_ok(scan_all(&request, &result, &err));
	map_clear_owned(&troubles);
}

static void start(size_t capacity)
{
	verifier = start_verifier(root, capacity);
}

static int stop_and_remove(void **state)
{
	blocks_old = false;
	verify_origin_stop(verifier);
	verify_origin_free(verifier);
	verifier = NULL;
	return remove_site(state);
}

static int work_of(struct store_tx *tx, void *arg, struct err *error)
{
	return store_exec(tx, arg, error);
}

static void sql(const char *statement)
{
	char text[200];

	snprintf(text, sizeof(text), "%s", statement);
	assert_ok(store_write(store, work_of, text, &err));
}

/* What fails for a reason of the machine's is tried again after ten seconds. */
#define LONGEST_MS 60000

static void wait_for_more_events(size_t count)
{
	int64_t until = clock_boot_ms() + LONGEST_MS;

	while (all_events()->count < count && clock_boot_ms() < until)
		poll(NULL, 0, 10);
	assert_true(events.count >= count);
}

static void wait_for_events(size_t count)
{
	wait_for_more_events(count);
	assert_int_equal(events.count, count);
}

static void wait_for_state(const char *id, enum registry_verification state)
{
	int64_t until = clock_boot_ms() + LONGEST_MS;

	while (clock_boot_ms() < until) {
		AUTO_ORIGIN_ROW struct origin_row row = row_of(files, id);
		if (row.verification == state)
			return;
		poll(NULL, 0, 10);
	}
	fail_msg("%s never became %s", id, registry_verification_name(state));
}

TEST(all_kinds_are_read_by_one_pool)
{
	must("cd files; seq 55 | split -l 1 - f; mkdir -p ../lfs/87/42; "
	     "echo a >../lfs/87/42/"
	     "8fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7");
	notice_all(files);
	notice_all(lfs);
	start(2);
	wait_for_events(56 + 55);
}

/* The reading of old ones takes long, rests included; the new one is not behind it. */
TEST(what_was_never_read_goes_before_what_is_read_again)
{
	must("cd files; for i in $(seq 60); do head -c 2000000 /dev/zero >old$i; done");
	notice_all(files);
	sql("UPDATE origin SET verified_at = 1, verification_due_at = 2,"
	    " verification_state = 2");
	must("echo 1 >files/new");
	notice_all(files);
	start(1);
	wait_for_more_events(62); /* the old ones follow */
	assert_string_equal(events.items[61].name, "new");
}

static bool has_checksum(const char *id)
{
	AUTO_ORIGIN_ROW struct origin_row row = row_of(files, id);

	return row.checksum;
}

TEST(one_thread_is_kept_for_what_is_new)
{
	must("cd files; for i in $(seq 20); do echo $i >old$i; done");
	notice_all(files);
	sql("UPDATE origin SET verified_at = 1, verification_due_at = 2,"
	    " verification_state = 2");
	blocked = 0;
	blocks_old = true;
	start(2);
	wait_until(blocked > 0);
	poll(NULL, 0, 50); /* another would block as well */
	must("echo 1 >files/new");
	notice_all(files);
	verify_origin_wake(verifier);
	wait_until(has_checksum("new"));
	assert_int_equal(blocked, 1);
}

TEST(one_that_cannot_be_read_backs_off_and_the_others_go_on)
{
	must("cd files; seq 12 | split -l 1 - f");
	notice_all(files);
	must("rm files/faa; ln -s fab files/faa");
	start(1);
	wait_for_state("faa", VERIFICATION_FAILED);
	wait_for_events(12 + 11);
	AUTO_ORIGIN_ROW struct origin_row row = row_of(files, "faa");
	assert_string_equal(row.failure_class, "corrupt");
}

TEST(one_that_vanished_is_told_and_not_looked_for_again)
{
	must("echo 1 >files/x; echo 1 >files/y");
	notice_all(files);
	must("rm files/x");
	start(1);
	wait_for_events(4);
	AUTO_ORIGIN_ROW struct origin_row row = row_of(files, "x");
	assert_null(row.name);
}

TEST(a_fault_of_the_machine_is_none_of_a_blob)
{
	must("echo 1 >files/x");
	notice_all(files);
	sql("UPDATE origin SET verification_due_at = 2");
	read_error = ENOMEM;
	start(1);
	AUTO_ORIGIN_ROW struct origin_row row = { 0 };
	int64_t until = clock_boot_ms() + LONGEST_MS;
	while (row.verification_due_at <= 2 && clock_boot_ms() < until) {
		poll(NULL, 0, 10);
		origin_row_clear(&row);
		row = row_of(files, "x");
	}
	assert_int_equal(row.verification, VERIFICATION_PENDING);
	assert_true(row.verification_due_at > clock_wall_ms());
	assert_null(row.failure);
	read_error = EIO; /* that is one of its disk */
	sql("UPDATE origin SET verification_due_at = 2");
	verify_origin_wake(verifier);
	wait_for_state("x", VERIFICATION_FAILED);
	read_error = 0;
}

/* And nothing spins meanwhile. */
TEST(while_the_directory_is_away_nothing_fails)
{
	struct timespec before, after;

	must("cd files; seq 30 | split -l 1 - f");
	notice_all(files);
	must("mv files away");
	uint64_t commits = store_commits(store);
	start(2);
	/* a claim, and its end */
	wait_until(store_commits(store) >= commits + 2);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
	poll(NULL, 0, 300);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
	assert_int_equal(all_events()->count, 30);
	AUTO_ORIGIN_ROW struct origin_row row = row_of(files, "faa");
	assert_int_equal(row.verification, VERIFICATION_PENDING);
	assert_in_range((after.tv_sec - before.tv_sec) * 1000 +
				(after.tv_nsec - before.tv_nsec) / 1000000,
			0, 150);
}

static int64_t verified_at(const char *id)
{
	AUTO_ORIGIN_ROW struct origin_row row = row_of(files, id);

	return row.verified_at;
}

TEST(who_asks_for_one_has_it_read_again)
{
	must("echo 1 >files/x");
	notice_all(files);
	start(1);
	wait_for_events(2);
	wait_for_state("x", VERIFICATION_SUCCEEDED);
	assert_fails(verify_origin_ask_kind(store, "files", "none", 0, &err),
		     ERR_MISSING);
	assert_fails(verify_origin_ask_kind(store, "files", "x", 60000, &err), ERR_BUSY);
	int64_t before = verified_at("x");
	assert_ok(verify_origin_ask_kind(store, "files", "x", 0, &err));
	verify_origin_wake(verifier);
	wait_until(verified_at("x") > before);
	wait_for_state("x", VERIFICATION_SUCCEEDED);
	assert_int_equal(all_events()->count, 2);
}

#define VERIFY_CASE(name)                                                                \
	cmocka_unit_test_setup_teardown(name, make_site, stop_and_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		VERIFY_CASE(all_kinds_are_read_by_one_pool),
		VERIFY_CASE(what_was_never_read_goes_before_what_is_read_again),
		VERIFY_CASE(one_thread_is_kept_for_what_is_new),
		VERIFY_CASE(one_that_cannot_be_read_backs_off_and_the_others_go_on),
		VERIFY_CASE(one_that_vanished_is_told_and_not_looked_for_again),
		VERIFY_CASE(a_fault_of_the_machine_is_none_of_a_blob),
		VERIFY_CASE(while_the_directory_is_away_nothing_fails),
		VERIFY_CASE(who_asks_for_one_has_it_read_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
