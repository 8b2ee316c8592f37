#include "notice_test.h"

#include "rights.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "change/notice_parts.h"
#include "change/recorded_refs.h"
#include "git/git_child.h"
#include "verify/verify_origin_parts.h"

#include "registry_write.h"

static struct noticed noticed;

static int compare(const char *name)
{
	noticed_clear(&noticed);
	return notice_compare(notice, name, &noticed, &err);
}

static void assert_no_event(void)
{
	assert_ok(compare("a"));
	assert_false(noticed.is_changed);
	assert_int_equal(noticed.event.id, 0);
	noticed_clear(&noticed);
}

/* The repository changed, and this was recorded. */
static const struct event *assert_event(enum event_what what, uint64_t generation)
{
	assert_ok(compare("a"));
	assert_true(noticed.is_changed);
	const struct event *event = last_event();
	assert_int_equal(event->id, noticed.event.id);
	assert_int_equal(event->what, what);
	assert_int_equal(event->generation, generation);
	assert_int_equal(noticed.row.generation, generation);
	assert_string_equal(event->checksum, noticed.row.checksum);
	assert_string_equal(event->timeline, noticed.row.timeline);
	noticed_clear(&noticed);
	return event;
}

static void assert_changes(const struct event *event, const char *expected)
{
	assert_non_null(event->changes);
	assert_string_equal(event->changes, expected);
}

static int make_known(void **state)
{
	if (make_site(state) != 0)
		return -1;
	make_bare("a.git");
	assert_event(EVENT_CREATED, 1);
	return 0;
}

static int remove_known(void **state)
{
	event_list_clear(&events);
	noticed_clear(&noticed);
	return remove_site(state);
}

#define KNOWN_CASE(name) cmocka_unit_test_setup_teardown(name, make_known, remove_known)

TEST(what_readers_may_see_is_a_change_without_changed_refs)
{
	AUTO_FREE char *config = xasprintf("%s/a.git/config", srv);

	must("git config --file %s transfer.hideRefs refs/secret", config);
	assert_changes(assert_event(EVENT_UPDATED, 2), "[]");
	assert_no_event();
	must("git config --file %s core.logAllRefUpdates true", config);
	assert_no_event();
	assert_ok(compare("a"));
	assert_string_equal(noticed.settings,
			    "[transfer]\n\thideRefs = \"refs/secret\"\n");
	must("git config --file %s --unset transfer.hideRefs", config);
	assert_event(EVENT_UPDATED, 3);
	assert_ok(compare("a"));
	assert_string_equal(noticed.settings, "");
}

/* No fingerprint shows a change of the file that is included. */
TEST(what_readers_may_see_may_stand_in_another_file)
{
	assert_ok(git_setup(root, &err));
	must("git config --file more transfer.hideRefs refs/a && "
	     "git config --file srv/a.git/config include.path %s/more",
	     root);
	assert_event(EVENT_UPDATED, 2);
	must("touch -d '1 hour ago' srv/a.git/config");
	assert_no_event();
	AUTO_ORIGIN_ROW struct origin_row row = row_of("a");
	assert_false(row.is_settled);
	must("git config --file more transfer.hideRefs refs/b");
	assert_event(EVENT_UPDATED, 3);
}

TEST(a_new_repository_is_created_with_its_verification_spread)
{
	AUTO_ORIGIN_ROW struct origin_row row = row_of("a");
	struct checksum sum;

	assert_int_equal(last_event()->what, EVENT_CREATED);
	assert_string_equal(last_event()->name, "a");
	assert_null(last_event()->changes);
	assert_string_equal(row.path, "a.git");
	assert_int_equal(row.verification, VERIFICATION_SUCCEEDED);
	assert_in_range(row.verification_due_at - row.verified_at, 490000, 1001000);
	notice_set_reverify(notice, 4000000);
	make_bare("later.git");
	assert_ok(compare("later"));
	AUTO_ORIGIN_ROW struct origin_row later = row_of("later");
	assert_true(later.verification_due_at - later.verified_at >= 1990000);
	assert_ok(compare("a"));
	assert_int_equal(noticed.refs.refs.count, 1);
	assert_int_equal(noticed.oid_len, 20);
	checksum_of(&noticed.refs, &sum);
	char text[CHECKSUM_TEXT_SIZE];
	checksum_format(&sum, text);
	assert_string_equal(row.checksum, text);
}

TEST(changes_are_told_with_their_old_values)
{
	char one[OID_MAX_TEXT], two[OID_MAX_TEXT];
	AUTO_FREE char *expected = NULL;

	oid_text(&commits[1], one);
	oid_text(&commits[2], two);
	set_ref("a.git", "refs/heads/main", 2);
	set_ref("a.git", "refs/heads/topic", 1);
	expected =
		xasprintf("[{\"ref\":\"refs/heads/main\",\"old\":\"%s\",\"new\":\"%s\"},"
			  "{\"ref\":\"refs/heads/topic\",\"new\":\"%s\"}]",
			  one, two, one);
	assert_changes(assert_event(EVENT_UPDATED, 2), expected);
	must("git -C srv/a.git update-ref -d refs/heads/topic");
	free(expected);
	expected = xasprintf("[{\"ref\":\"refs/heads/topic\",\"old\":\"%s\"}]", one);
	assert_changes(assert_event(EVENT_UPDATED, 3), expected);
	assert_no_event();
}

TEST(head_and_symbolic_refs_are_changes)
{
	must("git -C srv/a.git symbolic-ref HEAD refs/heads/topic");
	assert_changes(assert_event(EVENT_UPDATED, 2),
		       "[{\"ref\":\"HEAD\",\"old_target\":\"refs/heads/main\","
		       "\"new_target\":\"refs/heads/topic\"}]");
	must("git -C srv/a.git symbolic-ref refs/heads/s refs/heads/main");
	assert_changes(assert_event(EVENT_UPDATED, 3),
		       "[{\"ref\":\"refs/heads/s\",\"new_target\":\"refs/heads/main\"}]");
}

TEST(packing_refs_is_no_event)
{
	must("git -C srv/a.git pack-refs --all");
	assert_no_event();
	assert_int_equal(all_events()->count, 1);
}

/* As somebody may choose them; here it is the record that says so. */
TEST(other_refs_of_the_same_sum_are_an_event)
{
	AUTO_SNAPSHOT struct ref_snapshot others = REF_SNAPSHOT_INIT;
	AUTO_ORIGIN_ROW struct origin_row row = row_of("a");
	AUTO_CLOSE int fd = openat(root_fd, "srv/a.git", O_RDONLY | O_DIRECTORY);
	char one[OID_MAX_TEXT], two[OID_MAX_TEXT];
	AUTO_FREE char *expected =
		xasprintf("[{\"ref\":\"refs/heads/main\",\"old\":\"%s\",\"new\":\"%s\"}]",
			  oid_text(&commits[2], two), oid_text(&commits[1], one));

	assert_ok(ref_snapshot_read(fd, 20, &others, &err));
	others.refs.items[0].oid = commits[2];
	assert_ok(recorded_refs_write(data, row.id, row.checksum, &others, &err));
	assert_no_event(); /* nothing was touched */
	must("git -C srv/a.git pack-refs --all");
	assert_changes(assert_event(EVENT_UPDATED, 2), expected);
	must("touch srv/a.git/packed-refs");
	assert_no_event();
}

TEST(a_ref_moved_by_hand_is_an_event)
{
	char oid[OID_MAX_TEXT];

	must("echo %s >srv/a.git/refs/heads/main", oid_text(&commits[3], oid));
	assert_event(EVENT_UPDATED, 2);
}

TEST(a_description_is_an_event_without_changes)
{
	must("echo hello >srv/a.git/description");
	assert_changes(assert_event(EVENT_UPDATED, 2), "[]");
	assert_no_event();
	must("rm srv/a.git/description");
	assert_changes(assert_event(EVENT_UPDATED, 3), "[]");
}

TEST(many_changes_are_not_listed)
{
	char oid[OID_MAX_TEXT];

	oid_text(&commits[1], oid);
	must("cd srv/a.git && for i in $(seq 200); do echo %s >refs/heads/b$i; done",
	     oid);
	assert_non_null(assert_event(EVENT_UPDATED, 2)->changes);
	must("cd srv/a.git && for i in $(seq 201); do echo %s >refs/heads/c$i; done",
	     oid);
	assert_null(assert_event(EVENT_UPDATED, 3)->changes);
}

TEST(a_record_that_is_lost_or_torn_is_not_believed)
{
	must("rm data/refs/*");
	set_ref("a.git", "refs/heads/main", 2);
	assert_null(assert_event(EVENT_UPDATED, 2)->changes);
	must("f=$(ls data/refs/*) && head -c -8 $f >x && cat x >$f");
	set_ref("a.git", "refs/heads/main", 3);
	assert_null(assert_event(EVENT_UPDATED, 3)->changes);
	set_ref("a.git", "refs/heads/main", 4);
	assert_non_null(assert_event(EVENT_UPDATED, 4)->changes);
}

TEST(deleted_and_made_again_is_another_timeline)
{
	char timeline[TIMELINE_SIZE];

	memcpy(timeline, last_event()->timeline, sizeof(timeline));
	must("mv srv/a.git away");
	assert_fails(compare("a"), ERR_MISSING);
	assert_true(noticed.is_changed);
	assert_int_equal(last_event()->what, EVENT_DELETED);
	assert_string_equal(last_event()->timeline, timeline);
	assert_null(last_event()->checksum);
	assert_fails(compare("a"), ERR_MISSING);
	assert_false(noticed.is_changed);
	AUTO_ORIGIN_ROW struct origin_row none = row_of("a");
	assert_null(none.name);
	must("mv away srv/a.git");
	assert_string_not_equal(assert_event(EVENT_CREATED, 1)->timeline, timeline);
}

/* Whoever asks for the old name first, a reader for instance. */
TEST(a_renamed_one_is_known_by_its_former_name)
{
	AUTO_FREE char *timeline = xstrdup(last_event()->timeline);

	must("mkdir srv/deeper && mv srv/a.git srv/deeper/z.git");
	assert_fails(compare("a"), ERR_MISSING);
	assert_true(noticed.is_changed);
	assert_int_equal(last_event()->what, EVENT_DELETED);
	assert_ok(compare("deeper/z"));
	assert_false(noticed.is_changed);
	assert_string_equal(noticed.row.timeline, timeline);
}

/* A file server that knows no times of birth gives a number anew at once. */
static bool is_number_reused;

int statx(int dir, const char *path, int flags, unsigned mask, struct statx *st)
{
	int result = (int)syscall(SYS_statx, dir, path, flags, mask, st);

	if (result == 0 && is_number_reused && *path) {
		st->stx_mask &= ~(unsigned)STATX_BTIME;
		st->stx_ino = 7;
	}
	return result;
}

TEST(another_with_the_number_of_a_deleted_one_is_no_renamed_one)
{
	AUTO_FREE char *timeline = xstrdup(last_event()->timeline);

	is_number_reused = true;
	set_ref("a.git", "refs/heads/main", 3);
	assert_event(EVENT_UPDATED, 2);
	must("mv srv/a.git srv/y.git");
	assert_ok(compare("y"));
	assert_string_equal(noticed.row.timeline, timeline);
	must("mv srv/y.git srv/z.git");
	set_ref("z.git", "refs/heads/main", 4);
	assert_ok(compare("z"));
	is_number_reused = false;
	assert_string_not_equal(noticed.row.timeline, timeline);
	assert_int_equal(noticed.row.generation, 1);
	assert_fails(compare("y"), ERR_MISSING);
	assert_int_equal(last_event()->what, EVENT_DELETED);
}

/* Within one scan interval. */
TEST(a_repository_that_takes_the_place_of_another_has_another_timeline)
{
	static const char *const before[] = { "set -- main", "git pack-refs --all",
					      "rm refs/heads/main" };

	for (size_t i = 0; i < ARRAY_SIZE(before); i++) {
		must("cd srv/a.git && %s", before[i]);
		assert_ok(compare("a"));
		AUTO_FREE char *timeline = xstrdup(last_event()->timeline);
		uint64_t generation = last_event()->generation;
		must("rm -rf srv/a.git");
		make_bare("a.git");
		set_ref("a.git", "refs/heads/main", 10 + (int)i);
		assert_string_not_equal(
			assert_event(EVENT_UPDATED, generation + 1)->timeline, timeline);
		assert_no_event();
	}
}

TEST(what_was_restored_or_moved_to_another_disk_keeps_its_timeline)
{
	static const char *const changes[] = {
		"true",
		"git update-ref refs/heads/new main",
		"git pack-refs --all && git update-ref refs/heads/main v1",
		"git branch -q -m new other",
	};
	AUTO_FREE char *timeline = xstrdup(last_event()->timeline);

	set_ref("a.git", "refs/tags/v1", 2);
	assert_event(EVENT_UPDATED, 2);
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		must("cp -a srv/a.git new && rm -rf srv/a.git && mv new srv/a.git && "
		     "cd srv/a.git && %s",
		     changes[i]);
		assert_ok(compare("a"));
		assert_int_equal(noticed.is_changed, i > 0);
		assert_string_equal(noticed.row.timeline, timeline);
	}
}

TEST(what_may_be_the_same_directory_keeps_its_timeline)
{
	AUTO_FREE char *timeline = xstrdup(last_event()->timeline);

	is_number_reused = true;
	set_ref("a.git", "refs/heads/main", 3);
	assert_string_equal(assert_event(EVENT_UPDATED, 2)->timeline, timeline);
	is_number_reused = false;
	set_ref("a.git", "refs/heads/main", 4);
	assert_string_equal(assert_event(EVENT_UPDATED, 3)->timeline, timeline);
}

TEST(what_nobody_can_compare_has_another_timeline)
{
	AUTO_FREE char *timeline = xstrdup(last_event()->timeline);

	must("rm -rf data/refs && cp -a srv/a.git new && rm -rf srv/a.git && "
	     "mv new srv/a.git");
	set_ref("a.git", "refs/heads/new", 1);
	assert_string_not_equal(assert_event(EVENT_UPDATED, 2)->timeline, timeline);
}

static int compare_scanned(enum absence absence)
{
	const struct notice_cause scanned = { .is_scanned = true, .absence = absence };
	const struct origin_kind kind = notice_origin_kind(notice);

	noticed_clear(&noticed);
	noticed.name = "a";
	return notice_compare_one(&kind, &scanned, &noticed, &err);
}

TEST(what_a_scan_loses_sight_of_is_left_to_the_next)
{
	uint64_t before = last_event()->id;

	must("rm -r srv/a.git");
	assert_fails(compare_scanned(ABSENCE_LATER), ERR_MISSING);
	assert_int_equal(last_event()->id, before);
	assert_fails(compare_scanned(ABSENCE_DELETED), ERR_MISSING);
	assert_int_equal(last_event()->what, EVENT_DELETED);
}

/* Its directory can be read, but not searched, as after chmod a-x. Root may look all the
 * same, unless it gives that up. */
TEST(what_cannot_be_looked_at_is_no_deletion)
{
	rights_set_override(false);
	must("chmod 400 srv/a.git");
	assert_fails(compare("a"), ERR_CONFIG);
	must("chmod 700 srv/a.git");
	rights_set_override(true);
	assert_int_equal(last_event()->what, EVENT_UPDATED);
	assert_event(EVENT_UPDATED, 3);
}

/* What is not whole yet is no damaged one for its first two seconds: until then it is not
 * recorded. */
TEST(a_new_name_that_cannot_be_recorded_yet_is_no_deletion)
{
	AUTO_FREE char *timeline = xstrdup(last_event()->timeline);
	uint64_t before = last_event()->id;

	must("mv srv/a.git srv/z.git && mv srv/z.git/HEAD srv");
	assert_fails(compare("a"), ERR_CONFLICT);
	assert_int_equal(last_event()->id, before);
	must("mv srv/HEAD srv/z.git");
	assert_fails(compare("a"), ERR_MISSING);
	assert_int_equal(last_event()->what, EVENT_DELETED);
	assert_ok(compare("z"));
	assert_string_equal(noticed.row.timeline, timeline);
}

TEST(what_is_left_of_a_repository_is_no_deletion)
{
	must("rm -r srv/a.git/refs srv/a.git/objects");
	assert_fails(compare("a"), ERR_CORRUPT);
	must("rm srv/a.git/*");
	assert_fails(compare("a"), ERR_CORRUPT);
	must("rmdir srv/a.git && ln -s /tmp srv/a.git");
	assert_fails(compare("a"), ERR_CORRUPT);
	assert_int_equal(last_event()->what, EVENT_UPDATED);
	must("rm srv/a.git && mkdir srv/a");
	assert_fails(compare("a"), ERR_MISSING);
	assert_int_equal(last_event()->what, EVENT_DELETED);
}

TEST(a_root_that_is_away_or_another_deletes_nothing)
{
	must("mv srv away");
	assert_fails(compare("a"), ERR_DISK);
	must("mkdir srv");
	assert_fails(compare("a"), ERR_DISK);
	assert_int_equal(all_events()->count, 1);
	must("rmdir srv && mv away srv");
	assert_no_event();
}

TEST(an_unreadable_repository_is_told_once)
{
	must("cd srv/a.git && cp HEAD saved && rm HEAD");
	assert_fails(compare("a"), ERR_CORRUPT);
	assert_true(noticed.is_changed);
	assert_null(last_event()->checksum);
	assert_null(last_event()->changes);
	assert_int_equal(last_event()->what, EVENT_UPDATED);
	assert_fails(compare("a"), ERR_CORRUPT);
	assert_false(noticed.is_changed);
	AUTO_ORIGIN_ROW struct origin_row row = row_of("a");
	assert_null(row.checksum);
	assert_string_equal(row.failure_class, "corrupt");
	assert_string_equal(row.failure, "it has no HEAD");
	assert_int_equal(row.verification, VERIFICATION_FAILED);
	must("mv srv/a.git/saved srv/a.git/HEAD");
	assert_null(assert_event(EVENT_UPDATED, 3)->changes);
	AUTO_ORIGIN_ROW struct origin_row mended = row_of("a");
	assert_null(mended.failure);
}

static int run_sql(struct store_tx *tx, void *sql, struct err *error)
{
	return store_exec(tx, sql, error);
}

static void set_rows(const char *columns)
{
	AUTO_FREE char *sql = xasprintf("UPDATE origin SET %s", columns);

	assert_ok(store_write(store, run_sql, sql, &err));
}

static void set_verification(enum registry_verification state)
{
	AUTO_FREE char *columns = xasprintf("verification_state = %d", state);

	set_rows(columns);
}

static void assert_verification(const char *name, enum registry_verification state)
{
	AUTO_ORIGIN_ROW struct origin_row row = row_of(name);

	assert_string_equal(registry_verification_name(row.verification),
			    registry_verification_name(state));
}

/* A hook, a reader, and the verification itself before it reads an object. */
TEST(reading_refs_ends_no_doubt)
{
	set_verification(VERIFICATION_PENDING);
	set_rows("verified_at = 1, verification_due_at = 2");
	assert_no_event();
	assert_verification("a", VERIFICATION_PENDING);
	set_ref("a.git", "refs/heads/main", 2);
	assert_event(EVENT_UPDATED, 2);
	AUTO_ORIGIN_ROW struct origin_row row = row_of("a");
	assert_int_equal(row.verification, VERIFICATION_PENDING);
	assert_int_equal(row.verified_at, 1);
	assert_int_equal(row.verification_due_at, 2);
}

TEST(a_change_is_no_verification)
{
	set_rows("verified_at = 1");
	set_ref("a.git", "refs/heads/main", 2);
	assert_event(EVENT_UPDATED, 2);
	AUTO_ORIGIN_ROW struct origin_row row = row_of("a");
	assert_int_equal(row.verification, VERIFICATION_SUCCEEDED);
	assert_int_equal(row.verified_at, 1);
}

static void count_due(void *arg)
{
	++*(int *)arg;
}

/* Its objects may have been lost before, or with what made it unreadable. */
TEST(what_can_be_read_again_is_verified_soon)
{
	int due = 0;

	notice_set_due(notice, count_due, &due);
	set_verification(VERIFICATION_FAILED);
	must("mv srv/a.git/HEAD srv/a.git/saved");
	assert_fails(compare("a"), ERR_CORRUPT);
	assert_verification("a", VERIFICATION_FAILED);
	assert_int_equal(due, 0);
	must("mv srv/a.git/saved srv/a.git/HEAD");
	assert_event(EVENT_UPDATED, 3);
	assert_int_equal(due, 1);
	AUTO_ORIGIN_ROW struct origin_row row = row_of("a");
	assert_null(row.failure);
	assert_int_equal(row.verification, VERIFICATION_PENDING);
	assert_true(row.verification_due_at <= clock_wall_ms());
}

static int set_copies(struct store_tx *tx, void *arg, struct err *error)
{
	(void)arg;
	return store_exec(tx,
			  "UPDATE registry SET state = 2, proved = 1 WHERE name = 'good';"
			  "UPDATE registry SET state = 3, verification_state = 3"
			  " WHERE name = 'bad'",
			  error);
}

/* As where this site was a secondary before: nobody has read them since. */
TEST(what_was_not_proved_as_a_copy_is_not_taken_for_whole)
{
	const char *const copies[] = { "good", "bad", "behind" };

	assert_ok(registry_add(store, KIND_REPOSITORY, copies, ARRAY_SIZE(copies), &err));
	assert_ok(store_write(store, set_copies, NULL, &err));
	for (size_t i = 0; i < ARRAY_SIZE(copies); i++) {
		AUTO_FREE char *path = xasprintf("%s.git", copies[i]);
		make_bare(path);
		assert_ok(compare(copies[i]));
		AUTO_ORIGIN_ROW struct origin_row row = row_of(copies[i]);
		assert_int_equal(row.verification,
				 i == 0 ? VERIFICATION_SUCCEEDED : VERIFICATION_PENDING);
		assert_int_equal(row.verification_due_at <= clock_wall_ms(), i > 0);
	}
}

/* What began before may have read what was there before. */
TEST(what_can_be_read_again_is_not_judged_by_what_was_begun_before)
{
	must("mv srv/a.git/HEAD srv/a.git/saved");
	assert_fails(compare("a"), ERR_CORRUPT);
	AUTO_FREE char *sql = xstrdup("UPDATE origin SET claim_token = 'x'");
	assert_ok(store_write(store, run_sql, sql, &err));
	must("mv srv/a.git/saved srv/a.git/HEAD");
	assert_event(EVENT_UPDATED, 3);
	AUTO_ORIGIN_ROW struct origin_row row = row_of("a");
	assert_string_equal(row.claim_token, "");
}

TEST(a_verification_that_is_the_first_to_read_it_again_counts)
{
	const struct origin_kind kind = notice_origin_kind(notice);
	struct verify_origin verify = { .options = { .store = store,
						     .timeout_ms = 60000 } };
	AUTO_ORIGIN_ROWS origin_rows rows = { 0 };
	char name[] = "a";
	char *names[] = { name };

	assert_ok(git_setup(root, &err));
	mutex_init(&verify.mutex);
	must("git -C srv/a.git repack -adq && mv srv/a.git/HEAD srv/a.git/saved");
	assert_fails(compare("a"), ERR_CORRUPT);
	assert_ok(origin_row_claim(store, KIND_REPOSITORY, name, &rows, &err));
	must("mv srv/a.git/saved srv/a.git/HEAD");
	assert_true(repository_verify_ops.verify(
		&(struct verify_batch){ .verify = &verify,
					.kind = &kind,
					.names = names,
					.count = 1,
					.claim_token = rows.items[0].claim_token }));
	assert_verification("a", VERIFICATION_SUCCEEDED);
	verify_places_clear(&verify);
	pthread_mutex_destroy(&verify.mutex);
}

TEST(where_nothing_is_verified_nothing_waits_for_it)
{
	const struct notice_options options = {
		.store = store, .log = event_log, .root = srv, .data = data
	};

	notice_free(notice);
	notice = notice_new(&options);
	must("mv srv/a.git/HEAD srv/a.git/saved");
	assert_fails(compare("a"), ERR_CORRUPT);
	must("mv srv/a.git/saved srv/a.git/HEAD");
	assert_event(EVENT_UPDATED, 3);
	assert_verification("a", VERIFICATION_SUCCEEDED);
}

/* Whose fault it is: those of the hook and of the spool ask. */
TEST(what_cannot_be_recorded_says_nothing_of_the_repository)
{
	static const char sql[] = "CREATE TRIGGER full BEFORE INSERT ON event"
				  " BEGIN SELECT RAISE(ABORT, 'full'); END";
	AUTO_FREE char *own = xstrdup(sql);

	assert_ok(store_write(store, run_sql, own, &err));
	set_ref("a.git", "refs/heads/main", 2);
	assert_int_equal(compare("a"), -1);
	assert_int_equal(noticed.why.class, ERR_NONE);
	must("mv srv/a.git/HEAD srv/a.git/saved");
	assert_int_equal(compare("a"), -1);
	assert_int_equal(noticed.why.class, ERR_NONE);
	must("rm -r srv/a.git");
	assert_int_equal(compare("a"), -1);
	assert_int_equal(noticed.why.class, ERR_NONE);
	noticed_clear(&noticed);
}

TEST(a_new_name_ends_no_doubt)
{
	must("mv srv/a.git srv/b.git");
	assert_ok(compare("b"));
	assert_verification("b", VERIFICATION_SUCCEEDED);
	set_verification(VERIFICATION_FAILED);
	must("mv srv/b.git srv/c.git");
	assert_ok(compare("c"));
	assert_verification("c", VERIFICATION_PENDING);
}

TEST(a_shallow_repository_cannot_be_read_whole)
{
	must("echo x >srv/a.git/shallow");
	assert_fails(compare("a"), ERR_CONFIG);
	AUTO_ORIGIN_ROW struct origin_row row = row_of("a");
	assert_null(row.checksum);
	assert_string_equal(row.failure_class, "config");
}

TEST(what_is_being_made_is_not_told_as_damaged)
{
	must("mkdir -p srv/b.git/refs && echo 'ref: refs/heads/main' >srv/b.git/HEAD");
	assert_fails(compare("b"), ERR_CONFLICT);
	assert_int_equal(all_events()->count, 1);
}

TEST(a_fingerprint_settles_without_an_event)
{
	set_ref("a.git", "refs/heads/main", 2);
	assert_event(EVENT_UPDATED, 2);
	usleep(30000);
	assert_no_event();
	AUTO_ORIGIN_ROW struct origin_row row = row_of("a");
	assert_true(row.is_settled);
}

TEST(only_what_a_scan_finds_is_found)
{
	must("mkdir -p srv/group && ln -s ../../srv srv/link");
	make_bare("a.git/inside.git");
	assert_fails(compare("a.git/inside"), ERR_MISSING);
	assert_fails(compare("link/a"), ERR_MISSING);
	make_bare("group/plain");
	assert_ok(compare("group/plain"));
	assert_string_equal(noticed.row.path, "group/plain");
	assert_fails(compare("../srv/a"), ERR_CONFIG);
}

TEST(a_repository_is_named_by_paths_and_by_its_name)
{
	static const char *const good[] = {
		"a", "a.git", "a.git/", "%s/a.git", "%s/./a.git/", "%s/gone/../a.git"
	};
	char path[160];

	must("mkdir srv/gone");
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		if (good[i][0] == '%')
			snprintf(path, sizeof(path), "%s%s", srv, good[i] + 2);
		else
			snprintf(path, sizeof(path), "%s", good[i]);
		AUTO_FREE char *name = notice_name_of(notice, path, &err);
		assert_non_null(name);
		assert_string_equal(name, "a");
	}
	snprintf(path, sizeof(path), "%s/x/y.git", srv); /* not there any more */
	AUTO_FREE char *gone = notice_name_of(notice, path, &err);
	assert_string_equal(gone, "x/y");
	assert_null(notice_name_of(notice, "/etc", &err));
	assert_int_equal(err.class, ERR_CONFIG);
	assert_null(notice_name_of(notice, "a/../b", &err));
	assert_null(notice_name_of(notice, srv, &err));
}

#define THREADS 8

static atomic_bool is_over;

static void *compare_until_over(void *arg)
{
	struct noticed own;
	struct err error;

	(void)arg;
	for (bool last = false; !last;) {
		last = is_over; /* once more, after the last move */
		if (notice_compare(notice, "a", &own, &error) != 0 &&
		    error.class != ERR_CONFLICT) {
			fprintf(stderr, "# %s\n", error.text);
			abort();
		}
		noticed_clear(&own);
	}
	return NULL;
}

static void move_ref(int commit)
{
	char oid[OID_MAX_TEXT];
	AUTO_CLOSE int fd = openat(root_fd, "srv/a.git/refs/heads/main.lock",
				   O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	assert_ok(file_write_all(fd, oid_text(&commits[commit], oid), 40, "ref", &err));
	assert_int_equal(renameat(root_fd, "srv/a.git/refs/heads/main.lock", root_fd,
				  "srv/a.git/refs/heads/main"),
			 0);
}

TEST(comparisons_at_once_end_with_what_is_on_disk)
{
	pthread_t threads[THREADS];
	AUTO_FREE char *timeline = xstrdup(last_event()->timeline);

	is_over = false;
	for (int i = 0; i < THREADS; i++)
		thread_start(&threads[i], "test", compare_until_over, NULL);
	for (int i = 0; i < 100 || (events.count <= 20 && i < 10000); i++) {
		move_ref(1 + i % 3); /* the same ones come back */
		usleep(3000);
		if (i % 100 == 99)
			all_events();
	}
	is_over = true;
	for (int i = 0; i < THREADS; i++)
		thread_join(threads[i]);
	all_events();
	assert_true(events.count > 20);
	for (size_t i = 0; i < events.count; i++) {
		assert_int_equal(events.items[i].generation, i + 1);
		assert_string_equal(events.items[i].timeline, timeline);
		if (i > 0)
			assert_string_not_equal(events.items[i].checksum,
						events.items[i - 1].checksum);
	}
	AUTO_FREE char *recorded = xstrdup(last_event()->checksum);
	assert_no_event();
	AUTO_ORIGIN_ROW struct origin_row row = row_of("a");
	assert_string_equal(row.checksum, recorded);
}

/* What a slow comparison saw, while the ref went there and back: committed late, it would
 * record what is on disk no more, and nobody would look again. */
static int change_meanwhile(void *arg, const struct change *change, struct err *error)
{
	int *told = arg;
	AUTO_NOTICED struct noticed other = { 0 };

	(void)change;
	(void)error;
	if ((*told)++ > 0)
		return 0;
	set_ref("a.git", "refs/heads/main", 1);
	assert_ok(notice_compare(notice, "a", &other, &err));
	assert_false(other.is_changed);
	return 0;
}

TEST(a_late_comparison_is_void_even_if_the_other_had_nothing_to_report)
{
	AUTO_NOTICED struct noticed late = { 0 };
	int told = 0;
	const struct notice_options options = {
		.store = store,
		.log = event_log,
		.root = srv,
		.data = data,
		.verifies = true,
		.reverify_ms = 1000000,
		.sink = { change_meanwhile, &told },
	};

	notice_free(notice);
	notice = notice_new(&options);
	set_ref("a.git", "refs/heads/main", 2);
	assert_ok(notice_compare(notice, "a", &late, &err));
	assert_int_equal(told, 1);
	assert_false(late.is_changed);
	assert_int_equal(all_events()->count, 1);
}

/* What is recorded is what a reading says that shares nothing with others. */
static void assert_recorded_sum(const char *text)
{
	struct ref_snapshot plain = noticed.refs;
	struct checksum sum;
	char wanted[CHECKSUM_TEXT_SIZE];

	plain.packed = NULL;
	checksum_of(&plain, &sum);
	checksum_format(&sum, wanted);
	assert_string_equal(text, wanted);
}

static void assert_large_event(uint64_t generation, const char *ref, int before,
			       int after)
{
	char oid[OID_MAX_TEXT];
	AUTO_STR struct str expected = STR_INIT;

	assert_ok(compare("large"));
	assert_true(noticed.is_changed);
	assert_int_equal(noticed.row.generation, generation);
	str_addf(&expected, "[{\"ref\":\"%s\"", ref);
	if (before >= 0)
		str_addf(&expected, ",\"old\":\"%s\"", oid_text(&commits[before], oid));
	if (after >= 0)
		str_addf(&expected, ",\"new\":\"%s\"", oid_text(&commits[after], oid));
	str_add(&expected, "}]");
	assert_changes(last_event(), expected.data);
	assert_recorded_sum(noticed.row.checksum);
	assert_ok(compare("large"));
	assert_false(noticed.is_changed);
}

#define L "refs/heads/large/"

/* packed-refs is young, then old, then another one; the node is another one, too. */
TEST(changes_of_a_large_repository_are_told)
{
	uint64_t generation = 1;

	make_bare("large.git");
	write_large("srv/large.git/packed-refs", 6000);
	assert_ok(compare("large"));
	for (int i = 0; i < 12; i++) {
		AUTO_FREE char *name = xasprintf(L "%06d", 60 * i);
		set_ref("large.git", name, 7);
		assert_large_event(++generation, name, 0, 7);
		set_ref("large.git", name, 8);
		assert_large_event(++generation, name, 7, 8);
		set_ref("large.git", "refs/heads/new", 3);
		assert_large_event(++generation, "refs/heads/new", -1, 3);
		must("git -C srv/large.git update-ref -d refs/heads/new");
		assert_large_event(++generation, "refs/heads/new", 3, -1);
		if (i % 3 == 1) {
			must("git -C srv/large.git pack-refs --all");
			assert_ok(compare("large"));
			assert_false(noticed.is_changed);
		}
		if (i % 3 == 2) {
			notice_free(notice);
			start_notice();
		}
	}
	must("git -C srv/large.git update-ref -d " L "005999");
	assert_large_event(++generation, L "005999", 59, -1);
	must("echo hello >srv/large.git/description");
	assert_ok(compare("large"));
	assert_changes(last_event(), "[]");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		KNOWN_CASE(what_readers_may_see_is_a_change_without_changed_refs),
		KNOWN_CASE(what_readers_may_see_may_stand_in_another_file),
		KNOWN_CASE(a_new_repository_is_created_with_its_verification_spread),
		KNOWN_CASE(changes_are_told_with_their_old_values),
		KNOWN_CASE(head_and_symbolic_refs_are_changes),
		KNOWN_CASE(packing_refs_is_no_event),
		KNOWN_CASE(other_refs_of_the_same_sum_are_an_event),
		KNOWN_CASE(a_ref_moved_by_hand_is_an_event),
		KNOWN_CASE(changes_of_a_large_repository_are_told),
		KNOWN_CASE(a_description_is_an_event_without_changes),
		KNOWN_CASE(many_changes_are_not_listed),
		KNOWN_CASE(a_record_that_is_lost_or_torn_is_not_believed),
		KNOWN_CASE(deleted_and_made_again_is_another_timeline),
		KNOWN_CASE(a_renamed_one_is_known_by_its_former_name),
		KNOWN_CASE(another_with_the_number_of_a_deleted_one_is_no_renamed_one),
		KNOWN_CASE(
			a_repository_that_takes_the_place_of_another_has_another_timeline),
		KNOWN_CASE(what_was_restored_or_moved_to_another_disk_keeps_its_timeline),
		KNOWN_CASE(what_may_be_the_same_directory_keeps_its_timeline),
		KNOWN_CASE(what_nobody_can_compare_has_another_timeline),
		KNOWN_CASE(what_a_scan_loses_sight_of_is_left_to_the_next),
		KNOWN_CASE(what_cannot_be_looked_at_is_no_deletion),
		KNOWN_CASE(a_new_name_that_cannot_be_recorded_yet_is_no_deletion),
		KNOWN_CASE(what_is_left_of_a_repository_is_no_deletion),
		KNOWN_CASE(a_root_that_is_away_or_another_deletes_nothing),
		KNOWN_CASE(an_unreadable_repository_is_told_once),
		KNOWN_CASE(reading_refs_ends_no_doubt),
		KNOWN_CASE(a_change_is_no_verification),
		KNOWN_CASE(what_can_be_read_again_is_verified_soon),
		KNOWN_CASE(what_was_not_proved_as_a_copy_is_not_taken_for_whole),
		KNOWN_CASE(what_can_be_read_again_is_not_judged_by_what_was_begun_before),
		KNOWN_CASE(a_verification_that_is_the_first_to_read_it_again_counts),
		KNOWN_CASE(where_nothing_is_verified_nothing_waits_for_it),
		KNOWN_CASE(what_cannot_be_recorded_says_nothing_of_the_repository),
		KNOWN_CASE(a_new_name_ends_no_doubt),
		KNOWN_CASE(a_shallow_repository_cannot_be_read_whole),
		KNOWN_CASE(what_is_being_made_is_not_told_as_damaged),
		KNOWN_CASE(a_fingerprint_settles_without_an_event),
		KNOWN_CASE(only_what_a_scan_finds_is_found),
		KNOWN_CASE(a_repository_is_named_by_paths_and_by_its_name),
		KNOWN_CASE(
			a_late_comparison_is_void_even_if_the_other_had_nothing_to_report),
		KNOWN_CASE(comparisons_at_once_end_with_what_is_on_disk),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
