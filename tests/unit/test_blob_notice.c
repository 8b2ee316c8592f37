#include "blob_notice_test.h"

#include <sys/syscall.h>
#include <sys/uio.h>

#define DIGEST_A                                                                         \
	"87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7" /* a\n */
#define DIGEST_B                                                                         \
	"0263829989b6fd954f72baaf2fc64bc2e2f01d692d4de72986ea808f6e99813f" /* b\n */
#define ID_A "87/42/8fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7"

/* A tick of the clock that files' times are taken from: whatever is written until it ends
 * has the time of its begin. The longest that a kernel has are 10 ms. */
#define TICK_NS 10000000
static bool has_tick;
static struct timespec tick; /* 0: begins with the next look at a file */
static int at_work = -1;     /* of another program, open for writing */
static bool never_rests;     /* it writes after whatever is read */

static bool is_within_tick(void)
{
	return has_tick &&
	       clock_wall_ns() - tick.tv_sec * 1000000000 - tick.tv_nsec < TICK_NS;
}

/* Stand in for libc's. */
int fstat(int fd, struct stat *st)
{
	int result = (int)syscall(SYS_newfstatat, fd, "", st, AT_EMPTY_PATH);

	if (result != 0 || !has_tick || !S_ISREG(st->st_mode))
		return result;
	if (tick.tv_sec == 0)
		clock_gettime(CLOCK_REALTIME, &tick);
	st->st_mtim = st->st_ctim = tick;
	return 0;
}

/* Whoever reads within the tick is overtaken by one more write. */
ssize_t preadv2(int fd, const struct iovec *to, int count, off_t offset, int flags)
{
	ssize_t got = syscall(SYS_preadv2, fd, to, count, offset, 0, flags);

	if (never_rests || is_within_tick())
		assert_int_equal(pwrite(at_work, "c\n", 2, 0), 2);
	return got;
}

static void expect_event(enum event_what what, uint64_t generation, const char *checksum)
{
	const struct event *event = last_event();

	assert_int_equal(event->what, what);
	assert_int_equal(event->generation, generation);
	if (checksum)
		assert_string_equal(event->checksum, checksum);
	else
		assert_null(event->checksum);
}

TEST(a_new_file_is_created_and_its_checksum_comes_later)
{
	must("echo a >files/x");
	assert_int_equal(look(files, "x"), ERR_NONE);
	expect_event(EVENT_CREATED, 1, NULL);
	assert_string_equal(last_event()->kind, "files");
	assert_int_equal(last_event()->size, 2);
	assert_true(verify(files, "x"));
	expect_event(EVENT_CHECKSUMMED, 1, DIGEST_A);
	AUTO_ORIGIN_ROW struct origin_row row = row_of(files, "x");
	assert_int_equal(row.verification, VERIFICATION_SUCCEEDED);
	assert_int_equal(row.size, 2);
	assert_true(row.is_settled);
	assert_true(row.verification_due_at >= clock_wall_ms() + REVERIFY_MS / 2 - 9999);
	assert_int_equal(look(files, "x"), ERR_NONE);
	assert_true(verify(files, "x"));
	assert_int_equal(all_events()->count, 2);
}

TEST(a_change_is_a_new_generation_whose_checksum_is_not_known)
{
	must("echo a >files/x");
	look(files, "x");
	verify(files, "x");
	must("echo b >files/x");
	assert_int_equal(look(files, "x"), ERR_NONE);
	expect_event(EVENT_UPDATED, 2, NULL);
	AUTO_ORIGIN_ROW struct origin_row row = row_of(files, "x");
	assert_int_equal(row.verification, VERIFICATION_PENDING);
	assert_int_equal(row.verified_at, 0);
	verify(files, "x");
	expect_event(EVENT_CHECKSUMMED, 2, DIGEST_B);
}

TEST(touched_without_change_is_told_as_a_change_and_read_again)
{
	must("echo a >files/x");
	look(files, "x");
	verify(files, "x");
	must("touch -d 2020-01-01 files/x");
	look(files, "x");
	expect_event(EVENT_UPDATED, 2, NULL);
	verify(files, "x");
	expect_event(EVENT_CHECKSUMMED, 2, DIGEST_A);
}

TEST(a_change_of_ctime_alone_is_no_event_but_is_read_again)
{
	must("echo a >files/x");
	look(files, "x");
	verify(files, "x");
	usleep(20000);
	must("chmod 600 files/x");
	assert_int_equal(look(files, "x"), ERR_NONE);
	assert_int_equal(all_events()->count, 2);
	AUTO_ORIGIN_ROW struct origin_row row = row_of(files, "x");
	assert_int_equal(row.verification, VERIFICATION_PENDING);
	assert_string_equal(row.checksum, DIGEST_A);
	assert_true(row.verification_due_at <= clock_wall_ms());
	verify(files, "x");
	assert_int_equal(all_events()->count, 2);
}

TEST(a_change_whose_time_was_set_back_is_found_by_reading)
{
	must("echo a >files/x; touch -d 2020-01-01 files/x");
	look(files, "x");
	verify(files, "x");
	usleep(20000);
	must("printf 'b\\n' | dd of=files/x conv=notrunc status=none; "
	     "touch -d 2020-01-01 files/x");
	verify(files, "x");
	expect_event(EVENT_UPDATED, 2, DIGEST_B);
}

/* A write within the tick in which the file was looked at shows nowhere: so its content
 * is read after that tick, and what is read is what is recorded. */
TEST(a_change_within_one_tick_does_not_escape)
{
	must("echo a >files/x");
	AUTO_CLOSE int dir = dir_open(root_fd, "files", &err);
	at_work = openat(dir, "x", O_WRONLY | O_CLOEXEC);
	has_tick = true;
	assert_int_equal(look(files, "x"), ERR_NONE);
	assert_true(tick.tv_sec > 0);
	assert_int_equal(pwrite(at_work, "b\n", 2, 0), 2);
	verify(files, "x");
	AUTO_ORIGIN_ROW struct origin_row row = row_of(files, "x");
	assert_string_equal(row.checksum, DIGEST_B);
	must("test $(cat files/x) = b");
	has_tick = false;
	close(TAKE_FD(at_work));
}

static int damage_work(struct store_tx *tx, void *arg, struct err *error)
{
	(void)arg;
	return store_exec(tx, "UPDATE origin SET checksum = '" DIGEST_B "'", error);
}

TEST(what_changed_although_nobody_wrote_is_damaged_and_not_passed_on)
{
	must("echo a >files/x");
	look(files, "x");
	verify(files, "x");
	assert_ok(store_write(store, damage_work, NULL, &err));
	verify(files, "x");
	AUTO_ORIGIN_ROW struct origin_row row = row_of(files, "x");
	assert_int_equal(row.verification, VERIFICATION_FAILED);
	assert_string_equal(row.failure_class, "corrupt");
	assert_int_equal(row.failure_reason, REASON_DAMAGED);
	assert_string_equal(row.checksum, DIGEST_B);
	assert_int_equal(row.generation, 1);
	assert_int_equal(row.verification_retry_count, 1);
	assert_true(row.verification_due_at > clock_wall_ms() + 10000);
	usleep(20000);
	must("chmod 600 files/x"); /* which says nothing of its content */
	look(files, "x");
	verify(files, "x");
	AUTO_ORIGIN_ROW struct origin_row again = row_of(files, "x");
	assert_int_equal(again.failure_reason, REASON_DAMAGED);
	assert_int_equal(again.generation, 1);
	assert_int_equal(all_events()->count, 2);
	must("touch files/x"); /* a person accepts it */
	verify(files, "x");
	expect_event(EVENT_CHECKSUMMED, 2, DIGEST_A);
}

TEST(an_upload_is_proved_at_once)
{
	struct blob_known known = { .digest = DIGEST_A };
	struct noticed one = { .name = "d/x", .known = &known };
	struct stat st;

	must("mkdir files/d; echo a >files/d/x");
	assert_int_equal(fstatat(root_fd, "files/d/x", &st, 0), 0);
	blob_fingerprint_of(&st, &known.fingerprint);
	assert_ok(notice_compare_this(notice, files, &one, &err));
	assert_true(one.is_changed);
	assert_int_equal(one.row.verification, VERIFICATION_SUCCEEDED);
	assert_true(one.row.verification_due_at <= clock_wall_ms()); /* read soon */
	noticed_clear(&one);
	expect_event(EVENT_CREATED, 1, DIGEST_A);
	verify(files, "d/x");
	AUTO_ORIGIN_ROW struct origin_row row = row_of(files, "d/x");
	assert_true(row.verification_due_at > clock_wall_ms() + 10000);
	assert_int_equal(all_events()->count, 1);
}

/* Of what is read, and of what was read by who brought it. */
TEST(another_interval_counts_from_then_on)
{
	struct blob_known known = { .digest = DIGEST_A };
	struct noticed one = { .name = ID_A, .known = &known };
	struct stat st;

	notice_set_reverify(notice, 4 * REVERIFY_MS);
	must("echo a >files/x; mkdir -p lfs/87/42; echo a >lfs/" ID_A);
	look(files, "x");
	verify(files, "x");
	AUTO_ORIGIN_ROW struct origin_row row = row_of(files, "x");
	assert_true(row.verification_due_at - row.verified_at >= 2 * REVERIFY_MS);
	assert_int_equal(fstatat(root_fd, "lfs/" ID_A, &st, 0), 0);
	blob_fingerprint_of(&st, &known.fingerprint);
	assert_ok(notice_compare_this(notice, lfs, &one, &err));
	assert_int_equal(one.row.verification, VERIFICATION_SUCCEEDED);
	assert_true(one.row.verification_due_at - one.row.verified_at >= 2 * REVERIFY_MS);
	noticed_clear(&one);
}

/* inotify was faster than who put it there. */
TEST(what_is_known_of_an_upload_counts_also_when_it_was_noticed_before)
{
	struct blob_known known = { .digest = DIGEST_A };
	struct noticed one = { .name = "x", .known = &known };
	struct stat st;

	must("echo a >files/x");
	look(files, "x");
	assert_int_equal(fstatat(root_fd, "files/x", &st, 0), 0);
	blob_fingerprint_of(&st, &known.fingerprint);
	assert_ok(notice_compare_this(notice, files, &one, &err));
	expect_event(EVENT_CHECKSUMMED, 1, DIGEST_A);
	assert_int_equal(one.event.id, last_event()->id);
	noticed_clear(&one);
}

TEST(what_is_known_of_another_file_does_not_count)
{
	struct blob_known known = { .digest = DIGEST_A };
	struct noticed one = { .name = "x", .known = &known };

	must("echo b >files/x");
	assert_ok(notice_compare_this(notice, files, &one, &err));
	assert_null(one.row.checksum);
	noticed_clear(&one);
}

TEST(a_deleted_file_is_told_once)
{
	must("echo a >files/x");
	look(files, "x");
	must("rm files/x");
	assert_int_equal(look(files, "x"), ERR_MISSING);
	expect_event(EVENT_DELETED, 2, NULL);
	assert_int_equal(look(files, "x"), ERR_MISSING);
	assert_int_equal(all_events()->count, 2);
	AUTO_ORIGIN_ROW struct origin_row row = row_of(files, "x");
	assert_null(row.name);
}

TEST(a_created_name_is_of_another_timeline_than_one_before)
{
	must("echo a >files/x");
	look(files, "x");
	AUTO_ORIGIN_ROW struct origin_row before = row_of(files, "x");
	must("rm files/x");
	look(files, "x");
	must("echo a >files/x");
	look(files, "x");
	AUTO_ORIGIN_ROW struct origin_row after = row_of(files, "x");
	assert_string_not_equal(before.timeline, after.timeline);
	assert_int_equal(after.generation, 1);
}

TEST(nothing_is_deleted_in_another_directory_than_the_one_that_was_seen)
{
	must("echo a >files/x");
	look(files, "x");
	must("mv files away; mkdir files");
	assert_int_equal(look(files, "x"), ERR_DISK);
	must("rmdir files");
	assert_int_equal(look(files, "x"), ERR_DISK);
	assert_true(verify(files, "x") == false);
	must("mv away files");
	assert_int_equal(look(files, "x"), ERR_NONE);
	assert_int_equal(all_events()->count, 1);
	AUTO_ORIGIN_ROW struct origin_row row = row_of(files, "x");
	assert_int_equal(row.verification, VERIFICATION_PENDING);
}

TEST(what_stands_in_a_files_place_fails_and_keeps_the_row)
{
	static const char bind[] = "python3 -c 'import socket; "
				   "socket.socket(socket.AF_UNIX).bind(\"files/x\")'";
	const char *const odd[] = { "ln -s /etc/passwd files/x", "mkfifo files/x", bind };

	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		must("rm -rf files/x; echo a >files/x");
		look(files, "x");
		verify(files, "x");
		size_t before = all_events()->count;
		must("rm -rf files/x; %s", odd[i]);
		assert_int_equal(look(files, "x"), ERR_CORRUPT);
		AUTO_ORIGIN_ROW struct origin_row row = row_of(files, "x");
		assert_int_equal(row.verification, VERIFICATION_FAILED);
		assert_string_equal(row.failure_class, "corrupt");
		assert_string_equal(row.checksum, DIGEST_A);
		assert_int_equal(row.verification_retry_count, 0);
		assert_int_equal(all_events()->count, before);
		verify(files, "x");
		AUTO_ORIGIN_ROW struct origin_row again = row_of(files, "x");
		assert_int_equal(again.verification_retry_count, 1);
		assert_true(again.verification_due_at > clock_wall_ms() + 10000);
	}
}

TEST(a_file_whose_place_a_directory_has_taken_is_deleted)
{
	must("echo a >files/x");
	look(files, "x");
	must("rm files/x; mkdir files/x; echo a >files/x/y");
	assert_int_equal(look(files, "x"), ERR_MISSING);
	assert_int_equal(look(files, "x/y"), ERR_NONE);
	assert_int_equal(all_events()->count, 3);
	assert_int_equal(all_events()->items[1].what, EVENT_DELETED);
}

TEST(one_that_can_be_opened_again_is_read_soon_although_it_did_not_change)
{
	must("mkdir files/d; echo a >files/d/x");
	look(files, "d/x");
	verify(files, "d/x");
	must("mv files/d moved; ln -s ../moved files/d");
	assert_int_equal(look(files, "d/x"), ERR_CORRUPT);
	verify(files, "d/x");
	must("rm files/d; mv moved files/d");
	assert_int_equal(look(files, "d/x"), ERR_NONE);
	AUTO_ORIGIN_ROW struct origin_row row = row_of(files, "d/x");
	assert_true(row.verification_due_at <= clock_wall_ms());
	verify(files, "d/x");
	AUTO_ORIGIN_ROW struct origin_row read = row_of(files, "d/x");
	assert_int_equal(read.verification, VERIFICATION_SUCCEEDED);
}

TEST(a_link_on_the_way_is_not_followed)
{
	must("mkdir other files/d; echo a >other/x; echo a >files/d/x");
	look(files, "d/x");
	must("rm -r files/d; ln -s ../other files/d");
	assert_int_equal(look(files, "d/x"), ERR_CORRUPT);
	assert_int_equal(all_events()->count, 1);
}

TEST(what_is_no_blob_and_has_no_row_gets_none)
{
	must("ln -s nowhere files/x");
	assert_int_equal(look(files, "x"), ERR_CORRUPT);
	assert_int_equal(look(files, "../db"), ERR_CONFIG);
	assert_int_equal(look(files, ".refrelay/incoming/1"), ERR_CONFIG);
	assert_int_equal(look(files, "none"), ERR_MISSING);
	assert_int_equal(all_events()->count, 0);
}

TEST(odd_names_are_names)
{
	static const char *const odd[] = { " ",        "a b",  "-rf", "%41",     "a'\"b",
					   "\xc3\xa4", "a\\b", "*",   ".hidden", "x;y" };

	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		AUTO_CLOSE int dir = dir_open(root_fd, "files", &err);
		assert_ok(file_replace(dir, odd[i], "a\n", 2, FILE_NO_SYNC, &err));
		assert_int_equal(look(files, odd[i]), ERR_NONE);
		assert_true(verify(files, odd[i]));
		assert_string_equal(last_event()->name, odd[i]);
		assert_string_equal(last_event()->checksum, DIGEST_A);
	}
}

TEST(an_immutable_one_claims_its_checksum_and_is_read_all_the_same)
{
	must("mkdir -p lfs/87/42; echo a >lfs/" ID_A);
	assert_int_equal(look(lfs, ID_A), ERR_NONE);
	expect_event(EVENT_CREATED, 1, DIGEST_A);
	AUTO_ORIGIN_ROW struct origin_row before = row_of(lfs, ID_A);
	assert_int_equal(before.verification, VERIFICATION_PENDING);
	verify(lfs, ID_A);
	AUTO_ORIGIN_ROW struct origin_row after = row_of(lfs, ID_A);
	assert_int_equal(after.verification, VERIFICATION_SUCCEEDED);
	assert_int_equal(all_events()->count, 1);
}

TEST(an_immutable_one_with_another_content_is_corrupt_until_it_is_right)
{
	must("mkdir -p lfs/87/42; echo b >lfs/" ID_A);
	look(lfs, ID_A);
	verify(lfs, ID_A);
	AUTO_ORIGIN_ROW struct origin_row row = row_of(lfs, ID_A);
	assert_int_equal(row.verification, VERIFICATION_FAILED);
	assert_string_equal(row.failure_class, "corrupt");
	assert_string_equal(row.checksum, DIGEST_A);
	must("echo a >lfs/new; mv lfs/new lfs/" ID_A);
	look(lfs, ID_A);
	assert_int_equal(all_events()->count, 1);
	verify(lfs, ID_A);
	expect_event(EVENT_CHECKSUMMED, 1, DIGEST_A);
	AUTO_ORIGIN_ROW struct origin_row healed = row_of(lfs, ID_A);
	assert_int_equal(healed.verification, VERIFICATION_SUCCEEDED);
	assert_null(healed.failure);
}

TEST(a_file_that_changes_while_it_is_read_has_no_checksum)
{
	must("head -c 3000000 /dev/zero >files/x && touch -d '1 minute ago' files/x");
	look(files, "x");
	at_work = openat(root_fd, "files/x", O_WRONLY | O_CLOEXEC);
	never_rests = true;
	verify(files, "x");
	never_rests = false;
	close(TAKE_FD(at_work));
	AUTO_ORIGIN_ROW struct origin_row row = row_of(files, "x");
	assert_null(row.checksum);
	assert_int_equal(row.verification, VERIFICATION_PENDING);
	assert_null(row.failure);
	verify(files, "x");
	AUTO_ORIGIN_ROW struct origin_row after = row_of(files, "x");
	assert_non_null(after.checksum);
}

TEST(what_a_command_names_is_looked_at)
{
	char *ids[] = { (char[]){ "x" }, (char[]){ "d/y z" }, (char[]){ "none" } };
	AUTO_STR struct str words = STR_INIT;
	uint64_t event_id;

	must("mkdir files/d; echo 1 >files/x; echo 1 >'files/d/y z'");
	assert_int_equal(blob_changed_render("files", ids, 3, 4096, &words), 3);
	assert_fails(blob_changed(notice, words.data, &event_id, &err), ERR_MISSING);
	assert_int_equal(all_events()->count, 2);
	assert_int_equal(event_id, last_event()->id);
	must("rm files/x");
	assert_ok(blob_changed(notice, "files/x", &event_id, &err));
	assert_int_equal(event_id, last_event()->id);
	assert_ok(blob_changed(notice, "files/d/y z", &event_id, &err));
	assert_int_equal(event_id, 0);
	assert_fails(blob_changed(notice, "other/x", &event_id, &err), ERR_CONFIG);
	assert_fails(blob_changed(notice, "files", &event_id, &err), ERR_CONFIG);
	assert_fails(blob_changed(notice, "files/x\n../db", &event_id, &err), ERR_CONFIG);
}

TEST(as_many_ids_are_put_into_a_message_as_there_is_room_for)
{
	char *ids[] = { (char[]){ "aaaa" }, (char[]){ "bbbb" }, (char[]){ "cccc" } };
	AUTO_STR struct str words = STR_INIT;
	AUTO_STR struct str none = STR_INIT;

	assert_int_equal(blob_changed_render("t", ids, 3, 12, &words), 2);
	assert_string_equal(words.data, "t/aaaa\nbbbb");
	assert_int_equal(blob_changed_render("t", ids, 3, 5, &none), 0);
}

#define MANY 1200

TEST(many_are_committed_in_groups_and_one_bad_one_stops_none)
{
	struct noticed *looks = xcalloc(MANY, sizeof(*looks));
	char(*ids)[16] = xcalloc(MANY, sizeof(*ids));

	must("cd files; seq 0 %d | xargs touch; rm 7; ln -s 8 7", MANY - 1);
	for (int i = 0; i < MANY; i++) {
		snprintf(ids[i], sizeof(ids[i]), "%d", i);
		looks[i].name = ids[i];
	}
	assert_ok(notice_compare_these(notice, files, looks, MANY, &err));
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(looks[i].is_changed, i != 7);
		noticed_clear(&looks[i]);
	}
	assert_int_equal(all_events()->count, MANY - 1);
	free(looks);
	free(ids);
}

static void *look_often(void *arg)
{
	struct err error;

	(void)arg;
	for (int i = 0; i < 50; i++) {
		struct noticed one = { .name = "x" };
		notice_compare_this(notice, files, &one, &error);
		noticed_clear(&one);
	}
	return NULL;
}

TEST(those_that_look_at_once_tell_each_change_once)
{
	pthread_t threads[4];
	uint64_t generation = 0;

	must("echo a >files/x");
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		thread_start(&threads[i], "look", look_often, NULL);
	for (int i = 0; i < 20; i++)
		must("echo %d >>files/x", i);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		thread_join(threads[i]);
	look(files, "x");
	all_events();
	for (size_t i = 0; i < events.count; i++)
		assert_int_equal(events.items[i].generation, ++generation);
	AUTO_ORIGIN_ROW struct origin_row row = row_of(files, "x");
	struct stat st;
	assert_int_equal(fstatat(root_fd, "files/x", &st, 0), 0);
	assert_int_equal(row.size, st.st_size);
	assert_int_equal(row.generation, generation);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SITE_CASE(a_new_file_is_created_and_its_checksum_comes_later),
		SITE_CASE(a_change_is_a_new_generation_whose_checksum_is_not_known),
		SITE_CASE(touched_without_change_is_told_as_a_change_and_read_again),
		SITE_CASE(a_change_of_ctime_alone_is_no_event_but_is_read_again),
		SITE_CASE(a_change_whose_time_was_set_back_is_found_by_reading),
		SITE_CASE(a_change_within_one_tick_does_not_escape),
		SITE_CASE(
			what_changed_although_nobody_wrote_is_damaged_and_not_passed_on),
		SITE_CASE(an_upload_is_proved_at_once),
		SITE_CASE(another_interval_counts_from_then_on),
		SITE_CASE(
			what_is_known_of_an_upload_counts_also_when_it_was_noticed_before),
		SITE_CASE(what_is_known_of_another_file_does_not_count),
		SITE_CASE(a_deleted_file_is_told_once),
		SITE_CASE(a_created_name_is_of_another_timeline_than_one_before),
		SITE_CASE(
			nothing_is_deleted_in_another_directory_than_the_one_that_was_seen),
		SITE_CASE(what_stands_in_a_files_place_fails_and_keeps_the_row),
		SITE_CASE(a_file_whose_place_a_directory_has_taken_is_deleted),
		SITE_CASE(
			one_that_can_be_opened_again_is_read_soon_although_it_did_not_change),
		SITE_CASE(a_link_on_the_way_is_not_followed),
		SITE_CASE(what_is_no_blob_and_has_no_row_gets_none),
		SITE_CASE(odd_names_are_names),
		SITE_CASE(an_immutable_one_claims_its_checksum_and_is_read_all_the_same),
		SITE_CASE(
			an_immutable_one_with_another_content_is_corrupt_until_it_is_right),
		SITE_CASE(a_file_that_changes_while_it_is_read_has_no_checksum),
		SITE_CASE(what_a_command_names_is_looked_at),
		SITE_CASE(as_many_ids_are_put_into_a_message_as_there_is_room_for),
		SITE_CASE(many_are_committed_in_groups_and_one_bad_one_stops_none),
		SITE_CASE(those_that_look_at_once_tell_each_change_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
