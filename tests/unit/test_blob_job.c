#include "blob_job_test.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>

#include "base/failpoint.h"
#include "base/metrics.h"
#include "base/seen_time.h"
#include "blob/incoming.h"
#include "upkeep/trash.h"

static int set_up(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	open_all();
	return 0;
}

static int tear_down(void **state)
{
	close_all();
	return test_remove_root(state);
}

#define BLOB_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

TEST(small_blobs_come_in_one_request_and_are_proved)
{
	static const char *const ids[] = { "a", "b/c d.txt", "b/empty", "z" };

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		put_text(ids[i], i == 2 ? "" : ids[i]);
		tell("files", ids[i]);
	}
	assert_true(run_job("files"));
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		assert_true(is_here("files", ids[i]));
		assert_true(is_proved("files", ids[i]));
	}
	assert_int_equal(many_asked, 1);
	assert_int_equal(parts_asked, 0);
	assert_int_equal(count_incoming("files"), 0);
	assert_int_equal(pull.state.bringing[PULL_BLOB_WORKERS], 0);
	assert_false(run_job("files"));
}

TEST(a_flipped_byte_never_reaches_the_final_path)
{
	put_text("a", "right");
	put_many("big", 3 * MIB);
	tell("files", "a");
	tell("files", "big");
	flips = true;
	assert_true(run_job("files"));
	assert_int_equal(state_of("files", "a"), REGISTRY_FAILED);
	assert_int_equal(state_of("files", "big"), REGISTRY_FAILED);
	AUTO_REGISTRY_ROW struct registry_row row = row_of("files", "big");
	assert_string_equal(row.failure_class, "corrupt");
	AUTO_FREE char *path = file_of("files", "a");
	assert_int_not_equal(access(path, F_OK), 0);
	assert_int_equal(count_incoming("files"), 0);
}

TEST(an_lfs_object_is_believed_by_its_id_alone)
{
	char digest[BLOB_DIGEST_SIZE], id[BLOB_DIGEST_SIZE + 2];

	digest_of("right", 5, digest);
	blob_lfs_id(digest, id);
	put_text(id, "wrong"); /* and the primary's checksum fits to that */
	ask_for("lfs", id, (struct registry_move){ .generation = 1, .timeline = T1 });
	assert_true(run_job("lfs"));
	assert_int_equal(state_of("lfs", id), REGISTRY_FAILED);
	put_text(id, "right")->has_no_checksum = true;
	ask_for("lfs", id, (struct registry_move){ .generation = 2, .timeline = T1 });
	assert_true(run_job("lfs"));
	assert_true(is_here("lfs", id));
	assert_true(is_proved("lfs", id));
}

TEST(what_came_whole_before_a_break_is_kept_and_the_rest_asked_for_again)
{
	static char ids[20][8];

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		snprintf(ids[i], sizeof(ids[i]), "f%02zu", i);
		put_many(ids[i], 10000);
		tell("files", ids[i]);
	}
	cut_after = 85000;
	cuts_left = 2;
	assert_true(run_job("files"));
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		assert_true(is_here("files", ids[i]) && is_proved("files", ids[i]));
	assert_int_equal(many_asked, 3);
	/* 8 came whole, 8 more, then the rest: nothing twice but two halves. */
	assert_true(bytes_sent < (20 + 2) * 10300);
}

TEST(a_connection_over_which_nothing_comes_is_not_tried_on_and_on)
{
	put_many("a", 10000);
	tell("files", "a");
	cut_after = 500;
	cuts_left = 100;
	assert_true(run_job("files"));
	AUTO_REGISTRY_ROW struct registry_row row = row_of("files", "a");
	assert_int_equal(row.state, REGISTRY_FAILED);
	assert_string_equal(row.failure_class, "network");
	assert_int_equal(many_asked, 1);
	assert_int_equal(count_incoming("files"), 0);
}

TEST(only_the_primarys_own_word_makes_a_blob_missing)
{
	ask_for("files", "gone",
		(struct registry_move){ .generation = 1, .timeline = T1 });
	ask_for("files", "large",
		(struct registry_move){
			.generation = 1, .timeline = T1, .size = 5 * MIB });
	is_proxy_error = true;
	assert_true(run_job("files"));
	assert_int_equal(state_of("files", "gone"), REGISTRY_FAILED);
	assert_int_equal(state_of("files", "large"), REGISTRY_FAILED);
	is_proxy_error = false;
	assert_ok(registry_retry_unreached(store, &err));
	assert_true(run_job("files"));
	assert_int_equal(state_of("files", "gone"), REGISTRY_MISSING_ON_PRIMARY);
	assert_int_equal(state_of("files", "large"), REGISTRY_MISSING_ON_PRIMARY);
}

TEST(what_is_here_and_right_is_not_transferred)
{
	put_text("a", "the same");
	put_text("b", "not that");
	write_file("files", "a", "the same");
	write_file("files", "b", "not this");
	tell("files", "a");
	tell("files", "b");
	assert_true(run_job("files"));
	assert_true(is_proved("files", "a") && is_proved("files", "b"));
	assert_true(is_here("files", "b"));
	assert_true(bytes_sent < 300); /* of b alone */
}

TEST(what_has_no_checksum_yet_is_brought_and_verified_when_it_has)
{
	put_text("a", "text")->has_no_checksum = true;
	tell("files", "a");
	assert_true(run_job("files"));
	AUTO_REGISTRY_ROW struct registry_row row = row_of("files", "a");
	assert_int_equal(row.state, REGISTRY_SYNCED);
	assert_int_equal(row.verification, VERIFICATION_DISABLED);
	assert_false(run_verification("files"));
	need_theirs("a")->has_no_checksum = false;
	tell("files", "a");
	assert_false(run_job("files"));
	assert_true(run_verification("files"));
	assert_true(is_proved("files", "a"));
}

TEST(a_large_blob_survives_breaks_and_nothing_comes_twice)
{
	put_many("big", 10 * MIB);
	tell("files", "big");
	cut_after = 3 * MIB;
	cuts_left = 3;
	assert_true(run_job("files"));
	assert_true(is_here("files", "big"));
	assert_int_equal(state_of("files", "big"), REGISTRY_SYNCED);
	assert_int_equal(parts_asked, 4);
	assert_true(last_had_condition);
	assert_int_equal(bytes_sent, 10 * MIB);
	assert_true(run_verification("files"));
	assert_true(is_proved("files", "big"));
}

TEST(what_cannot_be_continued_is_begun_anew)
{
	put_many("big", 3 * MIB);
	tell("files", "big");
	cut_after = 1000;
	cuts_left = 5;
	assert_true(run_job("files"));
	assert_int_equal(count_incoming("files"), 1);
	knows_no_ranges = true;
	assert_ok(registry_retry_unreached(store, &err));
	assert_true(run_job("files"));
	AUTO_REGISTRY_ROW struct registry_row row = row_of("files", "big");
	assert_string_equal(row.failure_class, "corrupt");
	ask_for("files", "big", (struct registry_move){ .wishes = REGISTRY_WISH_FORCE });
	assert_true(run_job("files"));
	assert_true(is_here("files", "big"));
}

TEST(a_large_blob_that_has_become_empty_is_brought)
{
	put_many("big", 3 * MIB);
	tell("files", "big");
	put_text("big", "");
	assert_true(run_job("files"));
	assert_int_equal(many_asked, 0);
	assert_true(is_here("files", "big"));
	assert_int_equal(state_of("files", "big"), REGISTRY_SYNCED);
}

static int note_head(void *arg, const struct blob_head *head, const void *bytes,
		     size_t len, struct err *error)
{
	uint64_t *generation = arg;

	(void)bytes;
	(void)error;
	assert_int_equal(len, 0);
	assert_int_equal(head->size, 0);
	*generation += head->generation;
	return 0;
}

TEST(an_empty_blob_that_is_read_alone_tells_its_version)
{
	uint64_t generation = 0;

	put_text("none", "");
	assert_ok(source_read_blob(
		pull.source,
		&(struct blob_part){ .type = "files", .id = "none", .length = 100 },
		60000, &(struct blob_part_sink){ note_head, &generation }, &err));
	assert_int_equal(generation, 1);
}

static void flip_without_checksum(void)
{
	need_theirs("a")->has_no_checksum = need_theirs("big")->has_no_checksum = true;
	flips = true;
}

TEST(a_checksum_that_was_told_counts_when_the_answer_has_none)
{
	put_text("a", "text");
	put_many("big", 2 * MIB);
	tell("files", "a");
	tell("files", "big");
	before_answer = flip_without_checksum;
	assert_true(run_job("files"));
	assert_int_equal(state_of("files", "a"), REGISTRY_FAILED);
	assert_int_equal(state_of("files", "big"), REGISTRY_FAILED);
	assert_false(is_here("files", "a") || is_here("files", "big"));
}

TEST(ranges_make_one_blob)
{
	put_many("big", 65 * MIB + 1);
	tell("files", "big");
	assert_true(run_job("files"));
	assert_true(is_here("files", "big"));
	assert_int_equal(parts_asked, 2);
	assert_int_equal(last_offset, 64 * MIB);
}

TEST(a_later_job_continues_what_an_earlier_one_left)
{
	put_many("big", 10 * MIB);
	tell("files", "big");
	cut_after = MIB;
	cuts_left = 5;
	assert_true(run_job("files"));
	assert_int_equal(state_of("files", "big"), REGISTRY_FAILED);
	assert_int_equal(count_incoming("files"), 1);
	assert_ok(registry_retry_unreached(store, &err));
	assert_true(run_job("files"));
	assert_true(is_here("files", "big"));
	assert_int_equal(parts_asked, 6);
	assert_int_equal(bytes_sent, 10 * MIB);
	assert_int_equal(count_incoming("files"), 0);
}

static void change_big(void)
{
	if (parts_asked == 1)
		put_many("big", 11 * MIB);
}

TEST(a_blob_that_changes_meanwhile_is_of_one_version)
{
	put_many("big", 10 * MIB);
	tell("files", "big");
	cut_after = 3 * MIB;
	cuts_left = 1;
	before_answer = change_big;
	assert_true(run_job("files"));
	assert_true(is_here("files", "big"));
	AUTO_REGISTRY_ROW struct registry_row row = row_of("files", "big");
	assert_int_equal(row.state, REGISTRY_SYNCED);
	assert_int_equal(row.generation, 2);
	assert_int_equal(row.size, 11 * MIB);
}

TEST(a_range_of_another_version_is_not_put_behind_the_first)
{
	put_many("big", 10 * MIB)->has_no_checksum = true;
	tell("files", "big");
	cut_after = 3 * MIB;
	cuts_left = 1;
	ignores_conditions = true;
	before_answer = change_big;
	assert_true(run_job("files"));
	assert_true(is_here("files", "big"));
	AUTO_REGISTRY_ROW struct registry_row row = row_of("files", "big");
	assert_int_equal(row.generation, 2);
	assert_int_equal(count_incoming("files"), 0);
}

TEST(what_turns_out_to_be_large_is_brought_alone)
{
	put_many("big", 2 * MIB);
	put_text("a", "small");
	ask_for("files", "big", (struct registry_move){ 0 }); /* nothing is known of it */
	tell("files", "a");
	assert_true(run_job("files"));
	assert_true(is_here("files", "big") && is_here("files", "a"));
	assert_int_equal(parts_asked, 1);
	assert_int_equal(state_of("files", "big"), REGISTRY_SYNCED);
}

TEST(a_blob_under_anothers_lease_is_left_for_later)
{
	struct lease *lease;
	char key[LEASE_KEY_SIZE];

	put_many("a", 2 * MIB);
	tell("files", "a");
	lease_key_for(leases, "files", replicable_id("files", "a"), "a", key);
	assert_ok(lease_acquire(leases,
				&(struct lease_request){ .key = key, .operation = "x" },
				&lease, &err));
	assert_true(run_job("files"));
	lease_release(lease);
	AUTO_REGISTRY_ROW struct registry_row row = row_of("files", "a");
	assert_int_equal(row.state, REGISTRY_PENDING);
	assert_int_equal(row.retry_count, 0);
	assert_int_equal(parts_asked, 0);
}

static int forget_rows(struct store_tx *tx, void *arg, struct err *error)
{
	(void)arg;
	return store_exec(tx, "DELETE FROM registry", error);
}

static void remove_rows(void)
{
	assert_ok(store_write(store, forget_rows, NULL, &err));
}

/* As by a person's command, between the last look at the row and the rename. */
TEST(a_blob_whose_row_is_removed_while_it_is_placed_goes_the_same_way)
{
	char digest[BLOB_DIGEST_SIZE], id[BLOB_DIGEST_SIZE + 2];

	digest_of("text", 4, digest);
	blob_lfs_id(digest, id); /* at the row of which nobody looks once more */
	put_text(id, "text");
	tell("lfs", id);
	before_answer = remove_rows;
	assert_true(run_job("lfs"));
	assert_false(is_here("lfs", id));
	AUTO_FREE char *trash = file_of("lfs", ".refrelay/trash/*/*");
	glob_t found;
	assert_int_equal(glob(trash, 0, NULL, &found), 0);
	globfree(&found);
}

static int make_due(struct store_tx *tx, void *arg, struct err *error)
{
	(void)arg;
	return store_exec(tx, "UPDATE registry SET due_at = 1", error);
}

/* As when its time was over, and another worker took it. */
static void take_row_away(void)
{
	assert_ok(registry_reset_started(store, 0, &err));
}

TEST(a_worker_whose_row_was_taken_away_places_nothing)
{
	put_text("a", "text");
	tell("files", "a");
	before_answer = take_row_away;
	assert_true(run_job("files"));
	assert_false(is_here("files", "a"));
	assert_int_equal(state_of("files", "a"), REGISTRY_PENDING);
	assert_int_equal(count_incoming("files"), 0);
}

/* Its time is over while it waits for the primary, and somebody else begins. */
static void claim_again(void)
{
	before_answer = NULL;
	assert_ok(store_write(store, make_due, NULL, &err));
	put_text("a", "newer");
	tell("files", "a");
	assert_true(run_job("files"));
}

TEST(who_was_too_slow_leaves_what_another_brought)
{
	put_text("a", "text");
	tell("files", "a");
	before_answer = claim_again;
	assert_true(run_job("files"));
	assert_true(is_here("files", "a") && is_proved("files", "a"));
	AUTO_REGISTRY_ROW struct registry_row row = row_of("files", "a");
	assert_int_equal(row.generation, 2);
	assert_int_equal(row.retry_count, 0);
	assert_int_equal(count_incoming("files"), 0);
}

static void (*before_placing)(void);

/* In the place of the real one: between the last look at the rows and the rename. */
void failpoint(const char *name)
{
	void (*run)(void) = before_placing;

	if (!run || strcmp(name, "blob.received") != 0)
		return;
	before_placing = NULL;
	run();
}

TEST(what_was_put_in_place_too_late_is_brought_again)
{
	put_text("a", "text");
	tell("files", "a");
	before_placing = claim_again;
	assert_true(run_job("files"));
	assert_false(is_here("files", "a")); /* the older one came last */
	assert_false(is_proved("files", "a"));
	assert_int_equal(state_of("files", "a"), REGISTRY_PENDING);
	assert_true(run_job("files"));
	assert_true(is_here("files", "a") && is_proved("files", "a"));
}

/* Who put it there put the same bytes. */
static void claim_object_again(void)
{
	before_answer = NULL;
	assert_ok(store_write(store, make_due, NULL, &err));
	assert_true(run_job("lfs"));
}

TEST(an_object_that_two_workers_brought_is_not_doubted)
{
	char digest[BLOB_DIGEST_SIZE], id[BLOB_DIGEST_SIZE + 2];

	digest_of("text", 4, digest);
	blob_lfs_id(digest, id); /* no lease holds the second one back */
	put_text(id, "text");
	tell("lfs", id);
	before_answer = claim_object_again;
	assert_true(run_job("lfs"));
	assert_int_equal(many_asked, 2);
	assert_true(is_here("lfs", id) && is_proved("lfs", id));
}

TEST(what_waited_for_most_of_its_claim_is_given_back)
{
	struct pull_job *job = new_job("files", false);

	put_text("a", "text");
	tell("files", "a");
	job->claimed_at = clock_boot_ms() - pull.settings.timeout_ms / 2 - 1000;
	assert_ok(registry_claim(store, "files", 1, 60000, &job->rows, &err));
	run_rows(job);
	AUTO_REGISTRY_ROW struct registry_row row = row_of("files", "a");
	assert_int_equal(row.state, REGISTRY_PENDING);
	assert_int_equal(row.retry_count, 0);
	assert_int_equal(many_asked, 0);
	assert_int_equal(pull.state.bringing[PULL_BLOB_WORKERS], 0);
	assert_true(run_job("files"));
	assert_true(is_proved("files", "a"));
}

TEST(a_directory_that_is_away_is_not_filled)
{
	put_text("a", "text");
	tell("files", "a");
	AUTO_FREE char *path = file_of("files", "");
	assert_int_equal(rmdir(path), 0);
	assert_true(run_job("files"));
	AUTO_REGISTRY_ROW struct registry_row row = row_of("files", "a");
	assert_int_equal(row.state, REGISTRY_FAILED);
	assert_string_equal(row.failure_class, "disk");
}

TEST(a_directory_in_a_blobs_place_stops_no_other)
{
	put_text("a", "text");
	put_text("b", "text");
	tell("files", "a");
	tell("files", "b");
	put_text("a/inside", "x");
	tell("files", "a/inside"); /* which goes when the primary says so */
	write_file("files", "a/inside", "x");
	while (run_job("files"))
		;
	assert_int_equal(state_of("files", "a"), REGISTRY_FAILED);
	assert_true(is_proved("files", "b") && is_here("files", "b"));
}

/* No blob is there, and nobody else puts anything below a copy's directory. */
TEST(what_is_in_a_blobs_way_goes_to_the_trash)
{
	put_text("a", "text");
	put_text("b/c", "text");
	tell("files", "a");
	tell("files", "b/c");
	write_file("files", "a/inside", "x");
	write_file("files", "b", "x");
	assert_true(run_job("files"));
	assert_true(is_proved("files", "a") && is_here("files", "a"));
	assert_true(is_proved("files", "b/c") && is_here("files", "b/c"));
	AUTO_FREE char *trash = file_of("files", ".refrelay/trash/*/*");
	glob_t found;
	assert_int_equal(glob(trash, 0, NULL, &found), 0);
	assert_int_equal(found.gl_pathc, 2);
	globfree(&found);
}

/* As where this site was the primary before: what it did not pass on is only here. */
TEST(what_was_never_brought_is_not_overwritten)
{
	glob_t found;

	put_text("a", "theirs");
	put_text("b", "the same");
	write_file("files", "a", "ours and newer");
	write_file("files", "b", "the same");
	tell("files", "a");
	tell("files", "b");
	assert_true(run_job("files"));
	assert_true(is_proved("files", "a") && is_here("files", "a"));
	assert_true(is_proved("files", "b") && is_here("files", "b"));
	AUTO_FREE char *trash = file_of("files", ".refrelay/trash/*/*");
	assert_int_equal(glob(trash, 0, NULL, &found), 0);
	assert_int_equal(found.gl_pathc, 1);
	AUTO_STR struct str kept = STR_INIT;
	assert_ok(file_read(AT_FDCWD, found.gl_pathv[0], 100, &kept, &err));
	assert_string_equal(kept.data, "ours and newer");
	globfree(&found);
	/* a copy is replaced by its next state, and that is all */
	put_text("a", "theirs, changed");
	tell("files", "a");
	assert_true(run_job("files"));
	assert_true(is_here("files", "a"));
	assert_int_equal(glob(trash, 0, NULL, &found), 0);
	assert_int_equal(found.gl_pathc, 1);
	globfree(&found);
}

/* As of a secondary that was promoted, and has less than this one. Where the row does not
 * say so, the answer does. */
TEST(what_was_brought_of_another_history_is_not_overwritten)
{
	static const struct registry_move rebuild = { .wishes = REGISTRY_WISH_REBUILD };
	static const char *const ids[] = { "told", "other", "back" };

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		put_text(ids[i], "old");
		put_text(ids[i], "ours and newer");
		tell("files", ids[i]);
	}
	assert_true(run_job("files"));
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		AUTO_FREE char *trash =
			xasprintf("%s/files/.refrelay/trash/*/%s", root, ids[i]);
		AUTO_STR struct str kept = STR_INIT;
		glob_t found;
		their_timeline = i < 2 ? T2 : T1;
		put_text(ids[i], "old")->generation = i == 1 ? 2 : 1;
		i == 0 ? tell("files", ids[i]) : ask_for("files", ids[i], rebuild);
		assert_true(run_job("files"));
		assert_true(is_here("files", ids[i]));
		assert_int_equal(glob(trash, 0, NULL, &found), 0);
		assert_ok(file_read(AT_FDCWD, found.gl_pathv[0], 100, &kept, &err));
		assert_string_equal(kept.data, "ours and newer");
		globfree(&found);
	}
}

static int disown(struct store_tx *tx, void *arg, struct err *error)
{
	(void)arg;
	return registry_disown_blobs_in(tx, error);
}

/* It was a secondary, then the primary, and now is a secondary again. */
TEST(what_was_brought_before_this_site_was_the_primary_is_not_overwritten)
{
	AUTO_FREE char *trash = file_of("files", ".refrelay/trash/*/private/a");
	AUTO_FREE char *folder = file_of("files", "private");
	struct stat st;
	glob_t found;

	put_text("private/a", "theirs");
	tell("files", "private/a");
	assert_true(run_job("files"));
	write_file("files", "private/a", "ours and newer");
	assert_int_equal(chmod(folder, 0700), 0);
	assert_ok(store_write(store, disown, NULL, &err));
	put_text("private/a", "theirs, changed");
	tell("files", "private/a");
	assert_true(run_job("files"));
	assert_true(is_here("files", "private/a"));
	assert_int_equal(glob(trash, 0, NULL, &found), 0);
	assert_int_equal(found.gl_pathc, 1);
	globfree(&found);
	/* which others may not enter is not made anew */
	assert_int_equal(stat(folder, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
}

/* The trash counts by a clock of its own, which wall time may be far behind. */
TEST(what_is_in_a_blobs_way_is_not_deleted_at_once)
{
	const int64_t ahead = clock_wall_ms() + 3 * TRASH_KEEP_MS;
	AUTO_FREE char *folder = file_of("files", "");
	AUTO_FREE char *trash = file_of("files", ".refrelay/trash/*/a");
	AUTO_CLOSE int files = dir_open(AT_FDCWD, folder, &err);
	glob_t found;

	assert_ok(dir_make(files, OWN_FOLDER, &err));
	assert_int_equal(seen_time_keep(files, OWN_FOLDER "/" TRASH_CLOCK, ahead), ahead);
	put_text("a", "text");
	tell("files", "a");
	write_file("files", "a/inside", "x");
	assert_true(run_job("files"));
	assert_true(is_here("files", "a"));
	trash_expire(folder);
	assert_int_equal(glob(trash, 0, NULL, &found), 0);
	globfree(&found);
}

static void say_gone(const char *type, const char *id)
{
	assert_ok(registry_move(store,
				&(struct registry_move){ .id = replicable_id(type, id),
							 .event = REGISTRY_GONE },
				&err));
}

TEST(a_deletion_follows_into_the_trash)
{
	put_text("a", "text");
	tell("files", "a");
	assert_true(run_job("files"));
	say_gone("files", "a");
	assert_true(run_job("files"));
	assert_int_equal(state_of("files", "a"), REGISTRY_STATES);
	assert_false(is_here("files", "a"));
	AUTO_FREE char *trash = file_of("files", ".refrelay/trash");
	AUTO_CLOSEDIR DIR *dir = dir_list(AT_FDCWD, trash);
	const struct dirent *entry;
	size_t count = 0;
	while (dir && (entry = readdir(dir)) != NULL)
		count += entry->d_name[0] != '.';
	assert_int_equal(count, 1);
}

TEST(too_many_deletions_of_a_kind_are_held)
{
	AUTO_STR struct str metrics = STR_INIT;
	static char ids[20][8];

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		snprintf(ids[i], sizeof(ids[i]), "f%02zu", i);
		put_text(ids[i], "text");
		tell("files", ids[i]);
	}
	assert_true(run_job("files"));
	for (size_t i = 0; i < 11; i++)
		say_gone("files", ids[i]);
	assert_true(run_job("files"));
	for (size_t i = 0; i < 11; i++) {
		AUTO_REGISTRY_ROW struct registry_row row = row_of("files", ids[i]);
		assert_non_null(row.held_reason);
		assert_true(is_here("files", ids[i]));
	}
	assert_false(run_job("files"));
	metrics_render_as(METRICS_PROMETHEUS, &metrics);
	assert_non_null(
		strstr(metrics.data,
		       "refrelay_syncs_total{kind=\"files\",state=\"held\"} 11\n"));
	AUTO_REGISTRY_ROW struct registry_row one = row_of("files", "f00");
	assert_non_null(strstr(one.remedy,
			       "refrelay blob remove --type files --state held; if not"));
}

TEST(a_bit_flipped_on_the_disk_is_found_and_healed)
{
	put_many("big", 2 * MIB);
	tell("files", "big");
	assert_true(run_job("files"));
	write_file("files", "big", "damaged");
	assert_true(run_verification("files"));
	AUTO_REGISTRY_ROW struct registry_row row = row_of("files", "big");
	assert_int_equal(row.state, REGISTRY_FAILED);
	assert_int_equal(row.verification, VERIFICATION_FAILED);
	ask_for("files", "big",
		(struct registry_move){ .wishes = REGISTRY_WISH_RECHECK });
	assert_true(run_job("files"));
	assert_true(is_here("files", "big"));
	assert_true(run_verification("files"));
	assert_true(is_proved("files", "big"));
}

TEST(what_is_replaced_while_it_is_verified_is_no_mismatch)
{
	struct pull_job *job = new_job("files", true);
	registry_rows claimed = { 0 };

	put_many("big", 2 * MIB);
	tell("files", "big");
	assert_true(run_job("files"));
	assert_ok(
		registry_claim_verification(store, "files", 1, 60000, &job->rows, &err));
	assert_int_equal(job->rows.count, 1);
	put_many("big", 3 * MIB);
	tell("files", "big");
	assert_ok(registry_claim(store, "files", 1, 60000, &claimed, &err));
	write_file("files", "big", "the next");
	run_rows(job);
	assert_int_equal(reverified, 0);
	assert_int_equal(state_of("files", "big"), REGISTRY_STARTED);
	registry_rows_clear(&claimed);
}

TEST(a_checksum_that_never_fits_is_computed_again_at_the_primary_once)
{
	static const int expected[] = { 0, 1, 1 };

	put_text("a", "text");
	tell("files", "a");
	flips = true;
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		assert_ok(store_write(store, make_due, NULL, &err));
		assert_true(run_job("files"));
		assert_int_equal(reverified, expected[i]);
	}
}

TEST(a_primary_that_has_just_read_a_blob_is_asked_again_later)
{
	put_text("a", "text");
	tell("files", "a");
	flips = has_just_read = true;
	for (int i = 0; i < 3; i++) {
		assert_ok(store_write(store, make_due, NULL, &err));
		assert_true(run_job("files"));
		assert_int_equal(reverified, i);
	}
}

static void write_to_present(void)
{
	write_file("files", "present", "other");
}

/* Whoever looks at the file later finds it older than the row. */
TEST(what_a_stranger_does_while_others_are_brought_is_not_called_proved)
{
	put_text("present", "right");
	tell("files", "present");
	assert_true(run_job("files"));
	ask_for("files", "present",
		(struct registry_move){ .wishes = REGISTRY_WISH_RECHECK });
	put_text("absent", "right");
	tell("files", "absent");
	before_answer = write_to_present; /* after it was read, and found right */
	assert_true(run_job("files"));
	before_answer = NULL;
	assert_true(is_proved("files", "absent"));
	assert_int_equal(state_of("files", "present"), REGISTRY_PENDING);
	assert_true(run_job("files"));
	assert_true(is_proved("files", "present"));
	assert_true(is_here("files", "present"));
}

/* One run over the files of a directory. */

static struct str ends = STR_INIT;

static void note_end(void *arg, const struct pull_item *item)
{
	(void)arg;
	str_addf(&ends, "%s %s %" PRIu64 "\n", item->row->name, pull_item_word(item),
		 item->bytes);
}

static atomic_uint_fast64_t arrived;
static struct pull_once once = { .bytes = &arrived, .ended = note_end };
static int from = -1;

static void begin_once(void)
{
	AUTO_FREE char *path = xasprintf("%s/from", root);

	assert_int_equal(mkdir(path, 0777), 0);
	from = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(from >= 0);
	str_reset(&ends);
	arrived = 0;
	source_free(pull.source);
	pull.source = once.source = source_new_files(from);
	pull.options.once = &once;
}

static void end_once(void)
{
	close(from);
	str_clear(&ends);
}

static void put_file(const char *id, size_t len, const char *copied_as)
{
	struct blob_fingerprint fingerprint;
	char timeline[TIMELINE_SIZE];
	AUTO_FREE char *bytes = xcalloc(1, len + 1);
	struct stat st;

	if (copied_as)
		write_file("files", id, copied_as);
	assert_ok(file_replace(from, id, bytes, len, 0, &err));
	assert_int_equal(fstatat(from, id, &st, 0), 0);
	blob_fingerprint_of(&st, &fingerprint);
	source_file_timeline(&fingerprint, timeline);
	ask_for("files", id,
		(struct registry_move){ .generation = SOURCE_FILE_GENERATION,
					.timeline = timeline,
					.size = len });
}

TEST(one_run_brings_files_of_a_directory_and_tells_the_end_of_each)
{
	begin_once();
	put_file("a", 5, NULL);
	put_file("b", 6, "other");
	put_file("large", 3 * MIB, NULL);
	assert_true(run_job("files"));
	assert_non_null(strstr(ends.data, "a created 5\n"));
	assert_non_null(strstr(ends.data, "b created 6\n"));
	assert_non_null(strstr(ends.data, "large created 3145728\n"));
	assert_int_equal(arrived, 3 * MIB + 11);
	assert_true(is_proved("files", "a") && is_proved("files", "b"));
	assert_true(is_proved("files", "large")); /* read again at once, too */
	assert_int_equal(count_incoming("files"), 0);
	end_once();
}

TEST(what_fails_in_one_run_is_not_tried_again_and_what_is_in_the_way_stays)
{
	AUTO_FREE char *path = file_of("files", "way");
	int64_t sync_at, verification_at;

	begin_once();
	assert_int_equal(mkdir(path, 0777), 0);
	AUTO_FREE char *below = xasprintf("%s/x", path);
	assert_int_equal(mkdir(below, 0777), 0);
	put_file("way", 5, NULL);
	put_file("gone", 5, NULL);
	assert_int_equal(unlinkat(from, "gone", 0), 0);
	assert_true(run_job("files"));
	assert_non_null(strstr(ends.data, "gone missing 0\n"));
	assert_non_null(strstr(ends.data, "way failed 0\n"));
	assert_int_equal(ends.len, strlen("gone missing 0\nway failed 0\n"));
	assert_int_equal(access(below, F_OK), 0);
	assert_ok(registry_next_due(store, "files", &sync_at, &verification_at, &err));
	assert_true(sync_at > clock_wall_ms() + (int64_t)365 * 24 * 3600 * 1000);
	end_once();
}

TEST(a_part_of_a_file_that_nothing_can_check_is_not_continued)
{
	begin_once();
	put_file("large", 3 * MIB, NULL);
	AUTO_REGISTRY_ROW struct registry_row row = row_of("files", "large");
	AUTO_FREE char *version =
		xasprintf("%s-%d", row.timeline, SOURCE_FILE_GENERATION);
	int to = blob_root_open(kind_named("files").blobs, &err);
	const struct blob_incoming_request request = { .root = to,
						       .type = "files",
						       .id = "large",
						       .size = 3 * MIB,
						       .resume = version };
	struct blob_incoming *incoming;
	assert_ok(blob_incoming_open(&request, &incoming, &err));
	assert_ok(blob_incoming_write(incoming, "damaged", 7, &err));
	blob_incoming_close(incoming, false);
	close(to);
	assert_true(run_job("files"));
	assert_int_equal(arrived, 3 * MIB);
	assert_true(is_proved("files", "large"));
	end_once();
}

static bool ends_after_commit;

/* The program's own; then somebody ends the run. */
int blob_arrivals_commit(int below, blob_arrivals *arrivals, struct err *error)
{
	int (*commit)(int, blob_arrivals *, struct err *) = NULL;
	void *found = dlsym(RTLD_NEXT, "blob_arrivals_commit");

	memcpy(&commit, &found, sizeof(found));
	int result = commit(below, arrivals, error);
	if (ends_after_commit)
		stop_request(&pull.kill);
	return result;
}

/* Its time would say that it is equal, and the next run would not read it. */
TEST(what_one_run_did_not_read_again_has_no_good_end)
{
	AUTO_FREE char *path = file_of("files", "a");

	begin_once();
	put_file("a", 5, NULL);
	ends_after_commit = true;
	run_job("files");
	ends_after_commit = false;
	assert_int_equal(access(path, F_OK), 0);
	assert_false(is_proved("files", "a"));
	assert_string_equal(ends.data ? ends.data : "", "");
	end_once();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		BLOB_CASE(small_blobs_come_in_one_request_and_are_proved),
		BLOB_CASE(a_flipped_byte_never_reaches_the_final_path),
		BLOB_CASE(an_lfs_object_is_believed_by_its_id_alone),
		BLOB_CASE(
			what_came_whole_before_a_break_is_kept_and_the_rest_asked_for_again),
		BLOB_CASE(a_connection_over_which_nothing_comes_is_not_tried_on_and_on),
		BLOB_CASE(only_the_primarys_own_word_makes_a_blob_missing),
		BLOB_CASE(what_is_here_and_right_is_not_transferred),
		BLOB_CASE(what_has_no_checksum_yet_is_brought_and_verified_when_it_has),
		BLOB_CASE(a_large_blob_survives_breaks_and_nothing_comes_twice),
		BLOB_CASE(what_cannot_be_continued_is_begun_anew),
		BLOB_CASE(a_large_blob_that_has_become_empty_is_brought),
		BLOB_CASE(an_empty_blob_that_is_read_alone_tells_its_version),
		BLOB_CASE(a_checksum_that_was_told_counts_when_the_answer_has_none),
		BLOB_CASE(ranges_make_one_blob),
		BLOB_CASE(a_later_job_continues_what_an_earlier_one_left),
		BLOB_CASE(a_blob_that_changes_meanwhile_is_of_one_version),
		BLOB_CASE(a_range_of_another_version_is_not_put_behind_the_first),
		BLOB_CASE(what_turns_out_to_be_large_is_brought_alone),
		BLOB_CASE(a_blob_under_anothers_lease_is_left_for_later),
		BLOB_CASE(
			a_blob_whose_row_is_removed_while_it_is_placed_goes_the_same_way),
		BLOB_CASE(a_worker_whose_row_was_taken_away_places_nothing),
		BLOB_CASE(who_was_too_slow_leaves_what_another_brought),
		BLOB_CASE(what_was_put_in_place_too_late_is_brought_again),
		BLOB_CASE(an_object_that_two_workers_brought_is_not_doubted),
		BLOB_CASE(what_waited_for_most_of_its_claim_is_given_back),
		BLOB_CASE(a_directory_that_is_away_is_not_filled),
		BLOB_CASE(a_directory_in_a_blobs_place_stops_no_other),
		BLOB_CASE(what_is_in_a_blobs_way_goes_to_the_trash),
		BLOB_CASE(what_was_never_brought_is_not_overwritten),
		BLOB_CASE(what_was_brought_of_another_history_is_not_overwritten),
		BLOB_CASE(
			what_was_brought_before_this_site_was_the_primary_is_not_overwritten),
		BLOB_CASE(what_is_in_a_blobs_way_is_not_deleted_at_once),
		BLOB_CASE(a_deletion_follows_into_the_trash),
		BLOB_CASE(too_many_deletions_of_a_kind_are_held),
		BLOB_CASE(a_bit_flipped_on_the_disk_is_found_and_healed),
		BLOB_CASE(a_primary_that_has_just_read_a_blob_is_asked_again_later),
		BLOB_CASE(what_is_replaced_while_it_is_verified_is_no_mismatch),
		BLOB_CASE(
			a_checksum_that_never_fits_is_computed_again_at_the_primary_once),
		BLOB_CASE(
			what_a_stranger_does_while_others_are_brought_is_not_called_proved),
		BLOB_CASE(one_run_brings_files_of_a_directory_and_tells_the_end_of_each),
		BLOB_CASE(
			what_fails_in_one_run_is_not_tried_again_and_what_is_in_the_way_stays),
		BLOB_CASE(a_part_of_a_file_that_nothing_can_check_is_not_continued),
		BLOB_CASE(what_one_run_did_not_read_again_has_no_good_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
