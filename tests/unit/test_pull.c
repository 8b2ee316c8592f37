#include "test.h"

#include "pull/copy_record.h"
#include "pull/hold.h"

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
		assert_int_equal(
			hold_limit_stops(HOLD_REFS, table[i].deletions, table[i].all),
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_brake_needs_a_number_and_a_share),
		CASE(a_record_proves_only_what_it_says),
		CASE(a_young_fingerprint_proves_nothing),
		CASE(a_record_that_cannot_be_read_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
