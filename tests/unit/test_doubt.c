#include "git_test.h"

#include "base/clock.h"
#include "pull/copy_kind.h"
#include "pull/copy_record.h"
#include "pull/glance.h"
#include "pull/pull_parts.h"
#include "replicable/name.h"

#define SUM "1-5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"

/* A node of which only the rows count, and copies below root/git. */
static struct pull pull;
static struct registry_row row;
static char *copies;
static struct kinds_here here;

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

static void bring(const char *name)
{
	assert_ok(move(name, (struct registry_move){ .event = REGISTRY_BEGUN,
						     .timeout_ms = 1000 }));
	assert_ok(registry_complete(
		pull.options.store,
		&(struct registry_move){ .id = replicable_id(KIND_REPOSITORY, name),
					 .event = REGISTRY_BROUGHT,
					 .generation = 1,
					 .timeline = "0123456789abcdef",
					 .checksum = "1-00",
					 .timeout_ms = 1000000 },
		&err));
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
		DOUBT_CASE(what_is_doubted_again_and_again_waits_longer_each_time),
		DOUBT_CASE(rebuilds_have_a_pace_of_their_own),
		DOUBT_CASE(a_copy_that_is_not_there_is_seen_at_a_glance),
		DOUBT_CASE(a_reader_who_looks_is_told_that_the_copy_is_damaged),
		DOUBT_CASE(
			a_copy_is_that_of_its_row_only_by_name_generation_and_checksum),
		DOUBT_CASE(a_blob_of_another_size_or_written_since_is_not_as_it_was_left),
		DOUBT_CASE(a_time_that_was_put_back_hides_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
