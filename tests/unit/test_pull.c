#include "test.h"

#include <stdatomic.h>

#include "pull/copy_record.h"
#include "pull/hold.h"
#include "pull/mirror_job.h"
#include "pull/repository_maintenance.h"

TEST(the_brake_needs_a_number_and_a_share)
{
	static const struct {
		size_t deletions, all;
		bool stops;
	} table[] = {
		{ 0, 0, false },    { 20, 20, false },    { 21, 21, true },
		{ 21, 419, true },  { 21, 420, false },   { 50, 1000, false },
		{ 51, 1000, true }, { 1000, 1000, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		assert_int_equal(hold_limit_stops(HOLD_REFS(HOLD_SHARE),
						  table[i].deletions, table[i].all),
				 table[i].stops);
}

static struct fingerprint print_of(unsigned char fill, int64_t age_ns)
{
	struct fingerprint fingerprint = { .newest_ns = INT64_C(1700000000000000000) };

	memset(fingerprint.digest, fill, sizeof(fingerprint.digest));
	fingerprint.taken_ns = fingerprint.newest_ns + age_ns;
	return fingerprint;
}

static const struct checksum sum = { .sum = { 1, 2, 3 } };

static void write_record(const struct fingerprint *source, const struct fingerprint *copy)
{
	assert_ok(dir_make(root_fd, "refrelay", &err));
	const struct copy_proof proof = { .source = "/srv/a.git",
					  .sum = &sum,
					  .source_fingerprint = source,
					  .copy_fingerprint = copy };
	assert_ok(copy_record_write(root_fd, &proof, &err));
}

TEST(a_record_proves_only_what_it_says)
{
	const struct fingerprint source = print_of(1, 1000000000);
	const struct fingerprint copy = print_of(2, 1000000000);
	const struct fingerprint other = print_of(3, 1000000000);
	AUTO_RECORD struct copy_record record = { 0 };

	write_record(&source, &copy);
	copy_record_read(root_fd, &record);
	assert_true(record.is_there);
	assert_true(checksum_equal(&record.sum, &sum));
	assert_true(copy_record_proves(&record, "/srv/a.git", &source, &copy));
	assert_false(copy_record_proves(&record, "/srv/b.git", &source, &copy));
	assert_false(copy_record_proves(&record, "/srv/a.git", &other, &copy));
	assert_false(copy_record_proves(&record, "/srv/a.git", &source, &other));
}

/* A change within the same tick of the clock would leave equal stamps. */
TEST(a_young_fingerprint_proves_nothing)
{
	const struct fingerprint old = print_of(1, 1000000000);
	const struct fingerprint young = print_of(2, 19000000);
	AUTO_RECORD struct copy_record record = { 0 };

	write_record(&old, &young);
	copy_record_read(root_fd, &record);
	assert_false(copy_record_proves(&record, "/srv/a.git", &old, &young));
	assert_true(copy_record_has_copy(&record, &young));
}

TEST(a_record_that_cannot_be_read_is_none)
{
	static const char *const garbage[] = {
		"",
		"{",
		"[]",
		"{\"source\":\"/a\"}",
		"{\"source\":\"/a\",\"checksum\":\"2-00\"}",
		"{\"source\":7,\"checksum\":null}",
	};

	assert_ok(dir_make(root_fd, "refrelay", &err));
	for (size_t i = 0; i < ARRAY_SIZE(garbage); i++) {
		AUTO_RECORD struct copy_record record = { 0 };
		assert_ok(file_replace(root_fd, "refrelay/copy", garbage[i],
				       strlen(garbage[i]), FILE_NO_SYNC, &err));
		copy_record_read(root_fd, &record);
		assert_false(record.is_there);
	}
}

/* Its content alone, or that there is none, lets a mirror's clone be removed. */
TEST(a_record_that_is_not_given_is_no_proof_that_nobody_changed_a_clone)
{
	const struct registry_row row = { .name = (char[]){ "a" }, .timeline = "t" };

	assert_int_equal(mirror_job_is_from_elsewhere(&row, root_fd, &err), 0);
	assert_ok(dir_make(root_fd, "refrelay", &err));
	assert_ok(file_replace(root_fd, "refrelay/copy", "{", 1, FILE_NO_SYNC, &err));
	assert_int_equal(mirror_job_is_from_elsewhere(&row, root_fd, &err), 0);
	assert_int_equal(unlinkat(root_fd, "refrelay/copy", 0), 0);
	assert_ok(dir_make(root_fd, "refrelay/copy", &err)); /* reading it fails */
	assert_int_equal(mirror_job_is_from_elsewhere(&row, root_fd, &err), -1);
}

static void read_text(struct str *text)
{
	str_truncate(text, 0);
	assert_ok(file_read(root_fd, "refrelay/copy", 4096, text, &err));
}

static bool is_there(void)
{
	AUTO_RECORD struct copy_record record = { 0 };

	copy_record_read(root_fd, &record);
	return record.is_there;
}

/* It is written over the one before; a crash of the machine may leave some of both. */
TEST(a_record_that_is_torn_is_none)
{
	const struct fingerprint one = print_of(1, 1000000000);
	const struct fingerprint other = print_of(2, 1000000000);
	AUTO_STR struct str before = STR_INIT;
	AUTO_STR struct str after = STR_INIT;
	struct stat first, second;

	write_record(&one, &one);
	read_text(&before);
	assert_int_equal(fstatat(root_fd, "refrelay/copy", &first, 0), 0);
	write_record(&other, &other);
	read_text(&after);
	assert_int_equal(fstatat(root_fd, "refrelay/copy", &second, 0), 0);
	assert_int_equal(first.st_ino, second.st_ino);
	assert_int_equal(before.len, after.len);
	assert_true(is_there());
	size_t torn = 0;
	for (size_t i = 1; i < after.len; i++) {
		if (memcmp(before.data, after.data, i) == 0 ||
		    memcmp(before.data + i, after.data + i, after.len - i) == 0)
			continue;
		AUTO_STR struct str mixed = STR_INIT;
		str_add_bytes(&mixed, after.data, i);
		str_add_bytes(&mixed, before.data + i, after.len - i);
		assert_ok(file_replace(root_fd, "refrelay/copy", mixed.data, mixed.len,
				       FILE_NO_SYNC, &err));
		assert_false(is_there());
		torn++;
	}
	assert_true(torn > 100);
}

/* Whatever its length is. */
TEST(the_record_of_an_earlier_version_is_read)
{
	const struct fingerprint print = print_of(1, 1000000000);
	AUTO_STR struct str text = STR_INIT;

	write_record(&print, &print);
	read_text(&text);
	str_truncate(&text, (size_t)(strrchr(text.data, '}') - text.data));
	while (text.len % 64 != 62)
		str_add_char(&text, ' ');
	str_add(&text, "}\n");
	assert_ok(file_replace(root_fd, "refrelay/copy", text.data, text.len,
			       FILE_NO_SYNC, &err));
	assert_true(is_there());
}

/* What was seen beside the one says nothing beside the other. */
TEST(a_record_that_was_written_meanwhile_is_another)
{
	const struct fingerprint one = print_of(1, 1000000000);
	const struct fingerprint other = print_of(2, 1000000000);
	AUTO_RECORD struct copy_record record = { 0 };

	write_record(&one, &one);
	copy_record_read(root_fd, &record);
	assert_false(repository_is_maintained(root_fd, &record));
	write_record(&other, &other);
	assert_true(repository_is_maintained(root_fd, &record));
	write_record(&one, &one);
	assert_false(repository_is_maintained(root_fd, &record));
	assert_int_equal(unlinkat(root_fd, "refrelay/copy", 0), 0);
	assert_true(repository_is_maintained(root_fd, &record));
}

static struct str whole_record = STR_INIT;

static atomic_int rests_before_it_is_whole;

/* In place of libc's. The reader rests between two looks: in one of these rests the rest
 * of the record is written, whatever else the machine has to do. */
int usleep(useconds_t us)
{
	if (rests_before_it_is_whole > 0 && --rests_before_it_is_whole == 0)
		assert_ok(file_overwrite(root_fd, "refrelay/copy", whole_record.data,
					 whole_record.len, FILE_NO_SYNC, &err));
	const struct timespec time = { .tv_sec = us / 1000000,
				       .tv_nsec = us % 1000000 * 1000 };
	return nanosleep(&time, NULL);
}

/* Its writer has lost the processor in the middle. */
TEST(a_record_that_is_whole_a_moment_later_is_read)
{
	const struct fingerprint print = print_of(1, 1000000000);

	write_record(&print, &print);
	read_text(&whole_record);
	whole_record.data[50] ^= 1;
	assert_ok(file_overwrite(root_fd, "refrelay/copy", whole_record.data,
				 whole_record.len, FILE_NO_SYNC, &err));
	whole_record.data[50] ^= 1;
	rests_before_it_is_whole = 2;
	assert_true(is_there());
	assert_int_equal(rests_before_it_is_whole, 0);
	str_reset(&whole_record);
}

static atomic_bool is_enough;

static void *rewrite(void *arg)
{
	const struct fingerprint prints[] = { print_of(1, 1000000000),
					      print_of(2, 1000000000) };

	(void)arg;
	for (size_t i = 0; !is_enough; i++)
		write_record(&prints[i % 2], &prints[i % 2]);
	return NULL;
}

TEST(who_reads_a_record_while_it_is_written_finds_one)
{
	const struct fingerprint print = print_of(1, 1000000000);
	pthread_t writer;

	write_record(&print, &print);
	is_enough = false;
	thread_start(&writer, "writer", rewrite, NULL);
	for (int i = 0; i < 5000; i++) {
		AUTO_RECORD struct copy_record record = { 0 };
		copy_record_read(root_fd, &record);
		assert_true(record.is_there);
		assert_string_equal(record.copy_fingerprint, record.source_fingerprint);
	}
	is_enough = true;
	thread_join(writer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_brake_needs_a_number_and_a_share),
		CASE(a_record_proves_only_what_it_says),
		CASE(a_young_fingerprint_proves_nothing),
		CASE(a_record_that_cannot_be_read_is_none),
		CASE(a_record_that_is_not_given_is_no_proof_that_nobody_changed_a_clone),
		CASE(a_record_that_is_torn_is_none),
		CASE(the_record_of_an_earlier_version_is_read),
		CASE(a_record_that_was_written_meanwhile_is_another),
		CASE(a_record_that_is_whole_a_moment_later_is_read),
		CASE(who_reads_a_record_while_it_is_written_finds_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
