#include "git_test.h"

#include <sys/resource.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "git/fence.h"
#include "pull/copy_kind.h"
#include "pull/copy_record.h"
#include "pull/copy_watch.h"
#include "pull/glance.h"
#include "pull/pull_parts.h"
#include "replicable/name.h"

#include "registry_write.h"

#define SUM "1-5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"

/* A node of which only the rows count, and copies below root/git. */
static struct pull pull;
static struct registry_row row;
static char *copies;
static struct kinds_here here;

/* Done where a failpoint is passed; once. */
static const char *passed;
static void (*then)(void);

void failpoint(const char *name)
{
	if (passed && strcmp(name, passed) == 0) {
		passed = NULL;
		then();
	}
}

static int set_up(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	copies = xasprintf("%s/git", root);
	kinds_fill(&here, copies);
	pull = (struct pull){ .options.here = &here };
	mutex_init(&pull.mutex);
	cond_init(&pull.changed);
	assert_ok(store_open("sqlite::memory:", &pull.options.store, &err));
	must("mkdir git");
	return 0;
}

static int tear_down(void **state)
{
	registry_row_clear(&row);
	doubts_clear(&pull);
	kinds_clear(&here);
	store_close(pull.options.store);
	pthread_cond_destroy(&pull.changed);
	pthread_mutex_destroy(&pull.mutex);
	free(copies);
	return test_remove_root(state);
}

static int move(const char *name, struct registry_move change)
{
	change.id = replicable_id(KIND_REPOSITORY, name);
	return registry_move(pull.options.store, &change, &err);
}

static void bring_sum(const char *name, const char *checksum)
{
	assert_ok(move(name, (struct registry_move){ .event = REGISTRY_BEGUN,
						     .timeout_ms = 1000 }));
	assert_ok(registry_complete(
		pull.options.store,
		&(struct registry_move){ .id = replicable_id(KIND_REPOSITORY, name),
					 .event = REGISTRY_BROUGHT,
					 .generation = 1,
					 .timeline = "0123456789abcdef",
					 .checksum = checksum,
					 .timeout_ms = 1000000 },
		&err));
}

static void bring(const char *name)
{
	bring_sum(name, "1-00");
}

static void add_synced(const char *name)
{
	assert_ok(registry_add(pull.options.store, KIND_REPOSITORY, &name, 1, &err));
	bring(name);
}

static const struct registry_row *row_of(const char *name)
{
	registry_row_clear(&row);
	assert_ok(registry_get(pull.options.store, KIND_REPOSITORY, name, &row, &err));
	return &row;
}

static void doubt(const char *name)
{
	const struct err why = { .class = ERR_CORRUPT, .text = "bad object" };

	pull_doubt(&pull, KIND_REPOSITORY, name, &why);
}

TEST(who_meets_damage_marks_the_row_and_wakes_the_scheduler)
{
	add_synced("a");
	add_synced("b");
	doubt("a");
	assert_int_equal(row_of("a")->state, REGISTRY_PENDING);
	assert_string_equal(row.failure, "bad object");
	assert_true(row.due_at <= clock_wall_ms());
	assert_true(pull.woken);
	assert_int_equal(row_of("b")->state, REGISTRY_SYNCED);
	doubt("no such");
}

/* Whoever looks through it may have passed that place before it broke. */
TEST(a_doubt_while_the_copy_is_looked_through_has_it_looked_through_again)
{
	const struct registry_move begun = { .event = REGISTRY_BEGUN,
					     .timeout_ms = 100000 };

	add_synced("a");
	doubt("a");
	assert_ok(move("a", begun));
	doubt("a");
	doubt("a"); /* once is enough */
	assert_int_equal(row_of("a")->wishes_later, REGISTRY_WISH_RECHECK);
	const struct registry_move brought = { .event = REGISTRY_BROUGHT,
					       .generation = 1,
					       .timeline = "0123456789abcdef" };
	assert_fails(move("a", brought), ERR_CONFLICT);
	assert_int_equal(row_of("a")->state, REGISTRY_PENDING);
	assert_int_equal(row.wishes, REGISTRY_WISH_RECHECK);
	assert_true(row.due_at <= clock_wall_ms());
}

TEST(a_doubt_that_cannot_be_written_is_kept_until_it_can)
{
	add_synced("a");
	assert_ok(store_run(pull.options.store, &err,
			    "CREATE TRIGGER full BEFORE UPDATE ON registry"
			    " BEGIN SELECT RAISE(FAIL, 'disk full'); END"));
	doubt("a");
	doubt("a");
	assert_int_equal(row_of("a")->state, REGISTRY_SYNCED);
	assert_int_equal(pull.given_back.count, 1);
	assert_int_equal(pull_give_back_now(&pull, &err), -1);
	assert_int_equal(pull.given_back.count, 1);
	assert_ok(store_run(pull.options.store, &err, "DROP TRIGGER full"));
	assert_ok(pull_give_back_now(&pull, &err));
	assert_int_equal(row_of("a")->state, REGISTRY_PENDING);
	assert_int_equal(row.wishes, REGISTRY_WISH_RECHECK);
	vec_clear(&pull.given_back);
}

/* A disk that goes on failing must not have everything brought again and again. */
TEST(what_is_doubted_again_and_again_waits_longer_each_time)
{
	int64_t wait_ms = 0;

	add_synced("a");
	add_synced("b");
	for (int i = 0; i < 9; i++) {
		doubt("a");
		int64_t now = clock_wall_ms(), due_at = row_of("a")->due_at;
		assert_int_equal(row.state, REGISTRY_PENDING);
		if (i < 3)
			assert_true(due_at <= now);
		else
			assert_true(due_at - now > wait_ms);
		wait_ms = due_at - now;
		bring("a");
	}
	assert_in_range(wait_ms, 60 * 1000, 3600 * 1000);
	doubt("b");
	assert_true(row_of("b")->due_at <= clock_wall_ms());
}

TEST(rebuilds_have_a_pace_of_their_own)
{
	for (int i = 0; i < 3; i++) {
		assert_int_equal(rebuild_wait_ms(&pull, 7), 0);
		rebuild_take(&pull, 7);
	}
	assert_in_range(rebuild_wait_ms(&pull, 7), 1, 5000);
	assert_int_equal(rebuild_wait_ms(&pull, 8), 0);
}

TEST(a_copy_that_is_not_there_is_seen_at_a_glance)
{
	struct glance_result result;
	const struct glance_request request = {
		.store = pull.options.store, .kind = kinds_find(&here, KIND_REPOSITORY)
	};

	add_synced("a");
	assert_ok(glance_all(&request, &result, &err));
	assert_int_equal(result.looked, 1);
	assert_int_equal(result.doubted, 1);
	assert_string_equal(result.example, "a");
	free(result.example);
	assert_int_equal(row_of("a")->state, REGISTRY_PENDING);
	assert_true(row.wishes & REGISTRY_WISH_RECHECK);
	assert_ok(glance_all(&request, &result, &err)); /* it is known by now */
	assert_int_equal(result.looked, 0);
}

TEST(a_reader_who_looks_is_told_that_the_copy_is_damaged)
{
	add_synced("a");
	must("git init -q --bare git/a.git");
	assert_false(pull_glance(&pull, "a")); /* it has no record */
	assert_int_equal(row_of("a")->state, REGISTRY_PENDING);
	assert_true(pull_glance(&pull, "a")); /* nothing is claimed of it any more */
}

static void record_of(const char *path, const char *source, uint64_t generation)
{
	AUTO_CLOSE int fd = openat(root_fd, path, O_RDONLY | O_DIRECTORY);
	struct checksum sum;
	struct fingerprint fingerprint;

	assert_true(checksum_parse(SUM, &sum));
	assert_ok(fingerprint_take(fd, FINGERPRINT_COPY, &fingerprint, &err));
	assert_ok(
		copy_record_write(fd,
				  &(struct copy_proof){ .source = source,
							.sum = &sum,
							.copy_fingerprint = &fingerprint,
							.timeline = "0123456789abcdef",
							.generation = generation },
				  &err));
}

/* Records are moved with their directories. */
TEST(a_copy_is_that_of_its_row_only_by_name_generation_and_checksum)
{
	add_synced("a b/c");
	row_of("a b/c");
	free(row.checksum);
	row.checksum = xstrdup(SUM);
	must("git init -q --bare 'git/a b/c.git' && mkdir 'git/a b/c.git/refrelay'");
	record_of("git/a b/c.git", "http://else/where/a%20b/c.git", 1);
	assert_ok(glance_repository(copies, &row, &err));
	record_of("git/a b/c.git", "http://here/c.git", 1);
	assert_fails(glance_repository(copies, &row, &err), ERR_CORRUPT);
	record_of("git/a b/c.git", "http://here/a%20b/c.git", 2);
	assert_fails(glance_repository(copies, &row, &err), ERR_CORRUPT);
	record_of("git/a b/c.git", "http://here/a%20b/c.git", 1);
	assert_ok(glance_repository(copies, &row, &err));
	/* A primary that was restored: its generations say nothing of the record's. */
	row.timeline[0] = 'f';
	row.generation = 7;
	assert_ok(glance_repository(copies, &row, &err));
	row.checksum[2] = row.checksum[2] == '0' ? '1' : '0';
	assert_fails(glance_repository(copies, &row, &err), ERR_CORRUPT);
}

/* An empty one, whose record is too young to prove anything without a look at its refs.
 */
static void make_copy(const char *name)
{
	char checksum[CHECKSUM_TEXT_SIZE];
	struct ref_snapshot refs = REF_SNAPSHOT_INIT;
	struct copy_files files;
	struct checksum sum;

	must("git init -q --bare git/%s.git && mkdir git/%s.git/refrelay", name, name);
	AUTO_FREE char *path = xasprintf("git/%s.git", name);
	AUTO_FREE char *source = xasprintf("http://here/%s.git", name);
	AUTO_CLOSE int fd = openat(root_fd, path, O_RDONLY | O_DIRECTORY);
	assert_ok(ref_snapshot_read(fd, 20, &refs, &err));
	checksum_of(&refs, &sum);
	ref_snapshot_clear(&refs);
	assert_ok(copy_files_take(fd, &files, &err));
	assert_ok(copy_record_write(fd,
				    &(struct copy_proof){ .source = source,
							  .sum = &sum,
							  .files = &files,
							  .timeline = "0123456789abcdef",
							  .generation = 1 },
				    &err));
	checksum_format(&sum, checksum);
	assert_ok(registry_add(pull.options.store, KIND_REPOSITORY, &name, 1, &err));
	bring_sum(name, checksum);
}

static rlim_t limit(int what, rlim_t to)
{
	struct rlimit limits;

	assert_int_equal(getrlimit(what, &limits), 0);
	rlim_t before = limits.rlim_cur;
	limits.rlim_cur = to;
	assert_int_equal(setrlimit(what, &limits), 0);
	return before;
}

/* With ever more descriptors, until there are enough: any step of a look may be the one
 * that gets none. */
TEST(a_copy_that_this_machine_cannot_look_at_is_not_doubted)
{
	enum copy_verdict verdict = COPY_BUSY;
	int next = dup(0), tries = 0;

	assert_true(next >= 0);
	close(next);
	make_copy("a");
	row_of("a");
	usleep(30000);
	while (verdict == COPY_BUSY && tries < 50) {
		rlim_t before = limit(RLIMIT_NOFILE, (rlim_t)(next + tries++));
		int judged = copy_judge(&pull, "a", &verdict, &err);
		int seen = glance_repository(copies, &row, &err);
		limit(RLIMIT_NOFILE, before);
		assert_int_equal(judged, 0);
		assert_int_equal(seen, 0);
	}
	assert_int_equal(verdict, COPY_OURS);
	assert_true(tries > 3);
}

TEST(a_record_that_cannot_be_read_now_is_not_taken_for_a_lost_one)
{
	AUTO_RECORD struct copy_record record = { 0 };

	make_copy("a");
	AUTO_CLOSE int fd = openat(root_fd, "git/a.git", O_RDONLY | O_DIRECTORY);
	rlim_t before = limit(RLIMIT_NOFILE, (rlim_t)fd + 1);
	copy_record_read(fd, &record);
	enum copy_stamps stamps = copy_record_look(&record, fd);
	limit(RLIMIT_NOFILE, before);
	assert_false(record.is_there);
	assert_true(record.is_unread);
	assert_int_equal(stamps, COPY_STAMPS_UNKNOWN);
	must("rm git/a.git/refrelay/copy");
	copy_record_read(fd, &record);
	assert_false(record.is_unread);
}

/* Of the record, which is to be written again, however long it took to make the copy. */
static void make_young(const char *path)
{
	AUTO_CLOSE int fd = openat(root_fd, path, O_RDONLY | O_DIRECTORY);
	AUTO_RECORD struct copy_record record = { 0 };
	struct fingerprint print;

	copy_record_read(fd, &record);
	assert_ok(fingerprint_take(fd, FINGERPRINT_COPY, &print, &err));
	print.taken_ns = print.newest_ns;
	assert_ok(copy_record_settle(fd, &record, &print, &err));
}

/* As on a full disk. */
TEST(a_record_that_cannot_be_written_accuses_nobody)
{
	enum copy_verdict verdict;

	make_copy("a");
	make_young("git/a.git");
	usleep(30000);
	signal(SIGXFSZ, SIG_IGN);
	rlim_t before = limit(RLIMIT_FSIZE, 0);
	int judged = copy_judge(&pull, "a", &verdict, &err);
	limit(RLIMIT_FSIZE, before);
	signal(SIGXFSZ, SIG_DFL);
	assert_int_equal(judged, 0);
	assert_int_equal(verdict, COPY_BUSY);
}

/* As a job does at its begin and at its end. */
static void record_by_job(uint64_t generation)
{
	AUTO_CLOSE int fd = openat(root_fd, "git/a.git", O_RDONLY | O_DIRECTORY);
	AUTO_RECORD struct copy_record record = { 0 };
	struct copy_files files;

	assert_ok(fence_raise(fd, generation, &err));
	copy_record_read(fd, &record);
	assert_ok(copy_files_take(fd, &files, &err));
	assert_ok(copy_record_write(fd,
				    &(struct copy_proof){ .source = record.source,
							  .sum = &record.sum,
							  .files = &files,
							  .timeline = "0123456789abcdef",
							  .generation = generation,
							  .fence = generation },
				    &err));
}

static void a_job_ends(void)
{
	record_by_job(2);
	must("cp git/a.git/refrelay/copy noted");
}

static void a_job_begins(void)
{
	AUTO_CLOSE int fd = openat(root_fd, "git/a.git", O_RDONLY | O_DIRECTORY);

	assert_ok(fence_raise(fd, 2, &err));
	must("cp git/a.git/refrelay/copy noted");
}

static enum copy_verdict judge_while(void (*it)(void), const char *point)
{
	enum copy_verdict verdict;

	passed = point;
	then = it;
	assert_ok(copy_judge(&pull, "a", &verdict, &err));
	assert_null(passed);
	return verdict;
}

static enum copy_stamps stamps_of_a(void)
{
	AUTO_CLOSE int fd = openat(root_fd, "git/a.git", O_RDONLY | O_DIRECTORY);
	AUTO_RECORD struct copy_record record = { 0 };

	copy_record_read(fd, &record);
	return copy_record_look(&record, fd);
}

/* The look at a large copy takes minutes, and has no lease. */
TEST(a_look_at_stamps_does_not_undo_what_a_job_records_meanwhile)
{
	make_copy("a");
	must("cd git/a.git && echo text | git hash-object -w --stdin | "
	     "git pack-objects -q objects/pack/pack >/dev/null");
	usleep(30000);
	record_by_job(1);
	must("cp -al git/a.git/objects/pack links");
	assert_int_equal(stamps_of_a(), COPY_STAMPS_LATER);
	judge_while(a_job_begins, "copy.looked");
	must("cmp noted git/a.git/refrelay/copy");
	judge_while(a_job_ends, "copy.looked");
	must("cmp noted git/a.git/refrelay/copy");
	assert_int_equal(stamps_of_a(), COPY_STAMPS_SAME);
}

TEST(a_look_at_a_young_copy_does_not_undo_what_a_job_records_meanwhile)
{
	make_copy("a");
	record_by_job(1);
	make_young("git/a.git");
	usleep(30000);
	assert_int_equal(judge_while(a_job_begins, "copy.settling"), COPY_BUSY);
	must("cmp noted git/a.git/refrelay/copy");
	assert_int_equal(judge_while(a_job_ends, "copy.settling"), COPY_BUSY);
	must("cmp noted git/a.git/refrelay/copy");
}

TEST(a_blob_of_another_size_or_written_since_is_not_as_it_was_left)
{
	struct glance_blob known = { .size = 5, .known_at = clock_wall_ms() + 1000 };
	AUTO_CLOSE int fd = -1;
	struct stat st;

	must("printf 12345 >blob");
	fd = openat(root_fd, "blob", O_RDONLY);
	assert_int_equal(fstat(fd, &st), 0);
	assert_ok(glance_blob(&known, fd, &st, &err));
	known.size = 6;
	assert_fails(glance_blob(&known, fd, &st, &err), ERR_CORRUPT);
	known.size = 0;
	assert_ok(glance_blob(&known, fd, &st, &err));
	known.known_at = clock_wall_ms() - 60000;
	assert_fails(glance_blob(&known, fd, &st, &err), ERR_CORRUPT);
}

TEST(a_time_that_was_put_back_hides_nothing)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT } };
	struct glance_blob known = { .size = 5 };
	AUTO_CLOSE int fd = -1;
	struct stat st;

	must("printf 12345 >blob");
	fd = openat(root_fd, "blob", O_RDWR);
	assert_int_equal(fstat(fd, &st), 0);
	known.known_at = clock_wall_ms();
	times[1] = st.st_mtim;
	/* until the clock of files has moved on */
	do {
		assert_int_equal(pwrite(fd, "X", 1, 0), 1);
		assert_int_equal(futimens(fd, times), 0);
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(st.st_mtim.tv_nsec, times[1].tv_nsec);
	} while (clock_wall_ms() < known.known_at + 100);
	assert_fails(glance_blob(&known, fd, &st, &err), ERR_CORRUPT);
	/* and one that lies in the future is no change */
	times[1].tv_sec += 1000;
	assert_int_equal(futimens(fd, times), 0);
	known.known_at = clock_wall_ms();
	assert_int_equal(fstat(fd, &st), 0);
	assert_ok(glance_blob(&known, fd, &st, &err));
}

#define DOUBT_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		DOUBT_CASE(who_meets_damage_marks_the_row_and_wakes_the_scheduler),
		DOUBT_CASE(
			a_doubt_while_the_copy_is_looked_through_has_it_looked_through_again),
		DOUBT_CASE(a_doubt_that_cannot_be_written_is_kept_until_it_can),
		DOUBT_CASE(what_is_doubted_again_and_again_waits_longer_each_time),
		DOUBT_CASE(rebuilds_have_a_pace_of_their_own),
		DOUBT_CASE(a_copy_that_is_not_there_is_seen_at_a_glance),
		DOUBT_CASE(a_reader_who_looks_is_told_that_the_copy_is_damaged),
		DOUBT_CASE(
			a_copy_is_that_of_its_row_only_by_name_generation_and_checksum),
		DOUBT_CASE(a_copy_that_this_machine_cannot_look_at_is_not_doubted),
		DOUBT_CASE(a_record_that_cannot_be_read_now_is_not_taken_for_a_lost_one),
		DOUBT_CASE(a_record_that_cannot_be_written_accuses_nobody),
		DOUBT_CASE(a_look_at_stamps_does_not_undo_what_a_job_records_meanwhile),
		DOUBT_CASE(
			a_look_at_a_young_copy_does_not_undo_what_a_job_records_meanwhile),
		DOUBT_CASE(a_blob_of_another_size_or_written_since_is_not_as_it_was_left),
		DOUBT_CASE(a_time_that_was_put_back_hides_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
