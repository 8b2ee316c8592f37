/*
 * How long a job of blobs reads what is here, and waits for its checksum; and what is
 * here that another primary has as well.
 */
#include "blob_job_test.h"

#include <dlfcn.h>
#include <glob.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define TIME_MS 10000

/* While it reads a large file its time passes, or the file's server is away. */
static const struct pull_job *_Atomic running;
static bool is_away;

static int64_t wall_ahead_s;
static atomic_int_least64_t boot_ahead_s;

/* The library's. */
int clock_gettime(clockid_t id, struct timespec *now)
{
	const int result = (int)syscall(SYS_clock_gettime, id, now);

	if (id == CLOCK_REALTIME)
		now->tv_sec += wall_ahead_s;
	if (id == CLOCK_BOOTTIME)
		now->tv_sec += boot_ahead_s;
	return result;
}

/* The library's. */
ssize_t preadv2(int fd, const struct iovec *to, int count, off_t offset, int flags)
{
	if (is_away && to->iov_len > 100000) {
		errno = ETIMEDOUT;
		return -1;
	}
	while (running && offset > 0 && to->iov_len > 100000 &&
	       clock_boot_ms() < running->until)
		boot_ahead_s++;
	return syscall(SYS_preadv2, fd, to, count, (long)offset, 0L, flags);
}

/* The library's. A verification rests for as long as it took: none of it was real. */
bool stop_wait(const struct stop *stop, int64_t ms)
{
	bool (*real)(const struct stop *, int64_t);

	*(void **)&real = dlsym(RTLD_NEXT, "stop_wait");
	return real(stop, running ? 0 : ms);
}

static int set_up(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	open_all();
	is_away = false;
	return 0;
}

static int tear_down(void **state)
{
	running = NULL;
	wall_ahead_s = 0;
	close_all();
	return test_remove_root(state);
}

static int run_sql(struct store_tx *tx, void *arg, struct err *error)
{
	return store_exec(tx, arg, error);
}

/* All that was told of was brought and proved, long ago. */
static void have_proved(void)
{
	static char due[] = "UPDATE registry SET verification_due_at ="
			    " CASE name WHEN 'a' THEN 1 ELSE 2 END";

	while (run_job("files") || run_verification("files"))
		;
	assert_ok(store_write(store, run_sql, due, &err));
	AUTO_REGISTRY_ROW struct registry_row row = row_of("files", "big");
	assert_true(row.is_proved && row.verification_due_at == 2);
}

static void run_slowly(struct pull_job *job)
{
	pull.settings.timeout_ms = TIME_MS;
	job->claimed_at = clock_boot_ms();
	running = job;
	run_rows(job);
	running = NULL;
	pull.settings.timeout_ms = 60000;
}

static void verify_slowly(void)
{
	struct pull_job *job = new_job("files", true);

	assert_ok(
		registry_claim_verification(store, "files", 10, 60000, &job->rows, &err));
	run_slowly(job);
}

TEST(a_blob_that_cannot_be_read_in_time_is_proved_no_longer)
{
	const int64_t now = clock_wall_ms();

	put_many("big", 2 * MIB);
	tell("files", "big");
	have_proved();
	verify_slowly();
	AUTO_REGISTRY_ROW struct registry_row row = row_of("files", "big");
	assert_int_equal(row.state, REGISTRY_SYNCED);
	assert_false(row.is_proved);
	assert_int_equal(row.verification, VERIFICATION_PENDING);
	assert_string_equal(row.failure_class, "timeout");
	assert_non_null(strstr(row.remedy, "sync.timeout"));
	assert_true(row.verification_due_at >= now + 10 * TIME_MS);
}

/* The others took of its time. */
TEST(one_of_several_that_was_not_read_in_time_is_read_anew_at_once)
{
	put_text("a", "text");
	put_many("big", 2 * MIB);
	tell("files", "a");
	tell("files", "big");
	have_proved();
	verify_slowly();
	AUTO_REGISTRY_ROW struct registry_row row = row_of("files", "big");
	assert_true(row.is_proved);
	assert_null(row.failure_class);
	assert_int_equal(row.verification_due_at, 2);
	AUTO_REGISTRY_ROW struct registry_row other = row_of("files", "a");
	assert_true(other.is_proved && other.verification_due_at > clock_wall_ms());
}

/* It would be read again and again, and nobody told. */
TEST(a_file_whose_server_is_away_was_not_left_by_its_job)
{
	const int64_t now = clock_wall_ms();

	put_text("a", "");
	put_many("big", 2 * MIB);
	tell("files", "a");
	tell("files", "big");
	have_proved();
	is_away = true;
	assert_true(run_verification("files"));
	AUTO_REGISTRY_ROW struct registry_row row = row_of("files", "big");
	assert_false(row.is_proved);
	assert_string_equal(row.failure_class, "timeout");
	assert_string_equal(row.remedy ? row.remedy : "", "");
	assert_in_range(row.verification_due_at - now, 600000, 630000);
}

/* Larger than one piece of it. */
static void have_file(const char *id)
{
	AUTO_FREE char *text = xmalloc(MIB + 1);

	memset(text, 'x', MIB);
	text[MIB] = '\0';
	put_text(id, text);
	write_file("files", id, text);
	tell("files", id);
}

static int make_due(struct store_tx *tx, void *arg, struct err *error)
{
	(void)arg;
	return store_exec(tx, "UPDATE registry SET due_at = name <> 'big'", error);
}

TEST(what_cannot_be_read_because_its_server_is_away_is_brought)
{
	have_file("big");
	is_away = true;
	assert_true(run_job("files"));
	is_away = false;
	assert_int_equal(many_asked, 1);
	assert_true(is_here("files", "big"));
}

TEST(what_was_not_come_to_while_another_was_read_is_not_blamed)
{
	struct pull_job *job = new_job("files", false);

	have_file("big");
	put_text("here", "text");
	write_file("files", "here", "text");
	tell("files", "here");
	put_text("new", "text");
	tell("files", "new");
	assert_ok(store_write(store, make_due, NULL, &err));
	assert_ok(registry_claim(store, "files", 10, 60000, &job->rows, &err));
	assert_string_equal(job->rows.items[0].name, "big");
	run_slowly(job);
	assert_int_equal(state_of("files", "big"), REGISTRY_FAILED);
	for (size_t i = 0; i < 2; i++) {
		const char *id = i == 0 ? "here" : "new";
		AUTO_REGISTRY_ROW struct registry_row row = row_of("files", id);
		assert_int_equal(row.state, REGISTRY_PENDING);
		assert_int_equal(row.retry_count, 0);
		assert_null(row.failure_class);
	}
}

TEST(who_looks_for_what_is_here_has_no_more_time_than_its_job)
{
	struct pull_job *job = new_job("files", false);

	have_file("big");
	assert_ok(registry_claim(store, "files", 10, 60000, &job->rows, &err));
	run_slowly(job);
	AUTO_REGISTRY_ROW struct registry_row row = row_of("files", "big");
	assert_int_equal(row.state, REGISTRY_FAILED);
	assert_string_equal(row.failure_class, "timeout");
	assert_non_null(strstr(row.failure, "too long to read"));
	assert_int_equal(many_asked + parts_asked, 0);
	assert_ok(store_write(store, make_due, NULL, &err));
	job = new_job("files", false); /* and does not look again */
	assert_ok(registry_claim(store, "files", 10, 60000, &job->rows, &err));
	run_slowly(job);
	assert_int_equal(many_asked + parts_asked, 1);
	assert_true(is_here("files", "big"));
}

/* As at a secondary that lacks a change of long ago when it is pointed at a new primary,
 * or is pointed at it late. */
TEST(what_may_be_here_waits_for_its_checksum_since_it_was_asked_for)
{
	const int64_t hour_ms = (int64_t)3600 * 1000;

	put_text("a", "text")->has_no_checksum = true;
	write_file("files", "a", "text");
	ask_for("files", "a",
		(struct registry_move){ .generation = 1,
					.timeline = T1,
					.size = 4,
					.changed_at = clock_wall_ms() - 2 * hour_ms });
	assert_true(run_job("files"));
	assert_int_equal(state_of("files", "a"), REGISTRY_PENDING);
	assert_int_equal(many_asked + parts_asked, 0);
	wall_ahead_s = 2 * 3600; /* the clock is set */
	assert_ok(store_write(store, make_due, NULL, &err));
	assert_true(run_job("files"));
	assert_int_equal(state_of("files", "a"), REGISTRY_PENDING);
	pull.waits_since -= hour_ms;
	assert_ok(store_write(store, make_due, NULL, &err));
	assert_true(run_job("files"));
	assert_int_equal(state_of("files", "a"), REGISTRY_SYNCED);
	assert_int_equal(many_asked + parts_asked, 1);
}

/* No file was replaced by another. */
static bool is_trash_empty(void)
{
	AUTO_FREE char *trash = file_of("files", ".refrelay/trash/*/*");
	glob_t found;
	int result = glob(trash, 0, NULL, &found);

	if (result == 0)
		globfree(&found);
	return result == GLOB_NOMATCH;
}

/* As of a secondary that was promoted, and has not read its files yet: all of them would
 * be kept. */
TEST(what_another_primary_has_as_well_leaves_nothing_in_the_trash)
{
	const int64_t hour_ms = (int64_t)3600 * 1000;

	put_text("a", "text");
	tell("files", "a");
	assert_true(run_job("files") && is_proved("files", "a"));
	put_text("a", "text")->has_no_checksum = true;
	ask_for("files", "a",
		(struct registry_move){ .generation = 2,
					.timeline = T2,
					.size = 4,
					.changed_at = clock_wall_ms() - 2 * hour_ms });
	their_timeline = T2;
	pull.waits_since = clock_boot_ms() - hour_ms;
	assert_true(run_job("files"));
	assert_int_equal(state_of("files", "a"), REGISTRY_SYNCED);
	assert_int_equal(many_asked, 2);
	assert_true(is_trash_empty());
	AUTO_REGISTRY_ROW struct registry_row row = row_of("files", "a");
	assert_string_equal(row.timeline, T2);
}

static void hear_of_another_primary(void)
{
	before_answer = NULL;
	ask_for("files", "a", (struct registry_move){ .generation = 1, .timeline = T2 });
}

/* Then the row says what was proved before it. */
TEST(what_was_brought_while_the_primary_became_another_is_not_overwritten)
{
	put_text("a", "old");
	tell("files", "a");
	assert_true(run_job("files") && is_proved("files", "a"));
	put_text("a", "newer");
	tell("files", "a");
	before_answer = hear_of_another_primary;
	assert_true(run_job("files"));
	assert_true(is_here("files", "a"));
	assert_int_equal(state_of("files", "a"), REGISTRY_PENDING);
	their_timeline = T2;
	put_text("a", "old")->generation = 1;
	assert_true(run_job("files"));
	assert_true(is_here("files", "a"));
	assert_false(is_trash_empty());
}

#define VERIFY_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		VERIFY_CASE(a_blob_that_cannot_be_read_in_time_is_proved_no_longer),
		VERIFY_CASE(
			one_of_several_that_was_not_read_in_time_is_read_anew_at_once),
		VERIFY_CASE(a_file_whose_server_is_away_was_not_left_by_its_job),
		VERIFY_CASE(what_cannot_be_read_because_its_server_is_away_is_brought),
		VERIFY_CASE(what_was_not_come_to_while_another_was_read_is_not_blamed),
		VERIFY_CASE(who_looks_for_what_is_here_has_no_more_time_than_its_job),
		VERIFY_CASE(
			what_may_be_here_waits_for_its_checksum_since_it_was_asked_for),
		VERIFY_CASE(what_another_primary_has_as_well_leaves_nothing_in_the_trash),
		VERIFY_CASE(
			what_was_brought_while_the_primary_became_another_is_not_overwritten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
