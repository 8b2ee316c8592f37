#include "test.h"

#include <fcntl.h>

#include "base/file.h"
#include "pull/source.h"

#define MIB ((size_t)1 << 20)

static struct source *source;

/* What came, a line a call; bytes by their number. */
static struct str heard = STR_INIT;
static char last_timeline[TIMELINE_SIZE];
static void (*at_bytes)(void);

static int set_up(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	source = source_new_files(root_fd);
	str_reset(&heard);
	at_bytes = NULL;
	return 0;
}

static int tear_down(void **state)
{
	source_free(source);
	str_clear(&heard);
	return test_remove_root(state);
}

#define SOURCE_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static void put(const char *id, size_t len)
{
	AUTO_FREE char *bytes = xcalloc(1, len + 1);

	memset(bytes, 'x', len);
	assert_ok(file_replace(root_fd, id, bytes, len, 0, &err));
}

static int begin(void *arg, const struct wire_frame *frame, struct err *error)
{
	(void)arg;
	(void)error;
	assert_int_equal(frame->generation, SOURCE_FILE_GENERATION);
	str_addf(&heard, "begin %s %" PRIu64 "\n", frame->name, frame->size);
	memcpy(last_timeline, frame->timeline, sizeof(last_timeline));
	return 0;
}

static int refuse(void *arg, const char *id, const struct err *why, struct err *error)
{
	(void)arg;
	(void)error;
	str_addf(&heard, "refuse %s %s\n", id,
		 why ? err_class_name(why->class) : "large");
	return 0;
}

static int bytes(void *arg, const void *data, size_t len, struct err *error)
{
	(void)arg;
	(void)data;
	(void)error;
	str_addf(&heard, "%zu bytes\n", len);
	return 0;
}

static int end(void *arg, struct err *error)
{
	(void)arg;
	(void)error;
	str_add(&heard, "end\n");
	return 0;
}

static const struct source_blobs_sink sink = { { begin, bytes, end, NULL }, refuse };

static void read_many(const char *const *ids, size_t count)
{
	const struct blob_many many = { .ids = ids, .count = count };

	assert_ok(source_read_blobs(source, &many, 1000, &sink, &err));
}

static int take(void *arg, const struct blob_head *head, const void *data, size_t len,
		struct err *error)
{
	uint64_t *count = arg;

	(void)data;
	(void)error;
	*count += len;
	memcpy(last_timeline, head->timeline, sizeof(last_timeline));
	if (at_bytes)
		at_bytes();
	return 0;
}

static int read_part(uint64_t offset, uint64_t length, const char *version,
		     uint64_t *count)
{
	const struct blob_part part = {
		.id = "large", .offset = offset, .length = length, .version = version
	};

	*count = 0;
	return source_read_blob(source, &part, 1000,
				&(struct blob_part_sink){ take, count }, &err);
}

TEST(small_files_come_in_the_order_asked_and_each_fails_by_itself)
{
	static const char *const ids[] = { "b", "gone", "large", "empty", "a" };

	put("a", 3);
	put("b", 700000);
	put("empty", 0);
	put("large", MIB + 1);
	read_many(ids, ARRAY_SIZE(ids));
	assert_string_equal(heard.data, "begin b 700000\n700000 bytes\nend\n"
					"refuse gone missing\nrefuse large large\n"
					"begin empty 0\n0 bytes\nend\n"
					"begin a 3\n3 bytes\nend\n");
}

TEST(a_link_is_not_followed)
{
	static const char *const ids[] = { "link" };

	assert_int_equal(symlinkat("/etc/passwd", root_fd, "link"), 0);
	read_many(ids, 1);
	assert_string_equal(heard.data, "refuse link corrupt\n");
}

TEST(a_large_file_comes_in_ranges_of_one_version)
{
	uint64_t count;

	put("large", 3 * MIB);
	assert_ok(read_part(0, 2 * MIB, NULL, &count));
	assert_int_equal(count, 2 * MIB);
	AUTO_FREE char *version =
		xasprintf("%s-%d", last_timeline, SOURCE_FILE_GENERATION);
	assert_ok(read_part(2 * MIB, 2 * MIB, version, &count));
	assert_int_equal(count, MIB);
	put("large", 3 * MIB); /* another file with the same content */
	assert_fails(read_part(2 * MIB, MIB, version, &count), ERR_CONFLICT);
	assert_int_equal(count, 0);
}

static unsigned calls;

static void count_calls(void)
{
	calls++;
}

TEST(an_empty_file_that_is_read_alone_tells_its_version)
{
	uint64_t count;

	put("large", 0);
	at_bytes = count_calls;
	assert_ok(read_part(0, MIB, NULL, &count));
	assert_int_equal(count, 0);
	assert_int_equal(calls, 1);
}

static void append(void)
{
	AUTO_CLOSE int fd = openat(root_fd, "large", O_WRONLY | O_APPEND);

	assert_int_equal(write(fd, "x", 1), 1);
}

TEST(what_changes_while_it_is_read_does_not_count)
{
	uint64_t count;

	put("large", 2 * MIB);
	at_bytes = append;
	assert_fails(read_part(0, 2 * MIB, NULL, &count), ERR_CONFLICT);
}

TEST(a_files_timeline_is_of_its_size_time_and_inode)
{
	struct blob_fingerprint one = { .size = 5, .mtime_ns = 7, .inode = 9 }, other;
	char first[TIMELINE_SIZE], second[TIMELINE_SIZE];

	source_file_timeline(&one, first);
	other = one;
	other.ctime_ns = 1;
	source_file_timeline(&other, second);
	assert_string_equal(first, second);
	other.size = 7;
	other.mtime_ns = 5;
	source_file_timeline(&other, second);
	assert_string_not_equal(first, second);
	other = one;
	other.inode = 10;
	source_file_timeline(&other, second);
	assert_string_not_equal(first, second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SOURCE_CASE(small_files_come_in_the_order_asked_and_each_fails_by_itself),
		SOURCE_CASE(a_link_is_not_followed),
		SOURCE_CASE(a_large_file_comes_in_ranges_of_one_version),
		SOURCE_CASE(an_empty_file_that_is_read_alone_tells_its_version),
		SOURCE_CASE(what_changes_while_it_is_read_does_not_count),
		SOURCE_CASE(a_files_timeline_is_of_its_size_time_and_inode),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
