#include "test.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "base/clock.h"
#include "blob/file.h"

#define MEBIBYTE ((size_t)1 << 20)

static struct {
	bool has_no_flags;       /* a kernel that can only read */
	void (*before)(int fd);  /* called before the next read */
	unsigned flagged, plain; /* calls */
} reads;

/* The library's. */
ssize_t preadv2(int fd, const struct iovec *to, int count, off_t offset, int flags)
{
	void (*before)(int) = TAKE(reads.before);

	if (before)
		before(fd);
	if (flags && reads.has_no_flags) {
		errno = EOPNOTSUPP;
		return -1;
	}
	*(flags ? &reads.flagged : &reads.plain) += 1;
	return syscall(SYS_preadv2, fd, to, count, offset, 0, flags);
}

static void put(const char *path, size_t size)
{
	AUTO_FREE char *data = xmalloc(size + 1);

	memset(data, 'x', size);
	assert_ok(file_replace(root_fd, path, data, size, FILE_SYNC, &err));
}

TEST(a_print_survives_being_written_down_and_nothing_else_is_read_as_one)
{
	static const char *const bad[] = { "",         "1:2:3",   "1:2:3:4:", "1:2:3:4 ",
					   " 1:2:3:4", "1:2:x:4", "01:2:3:4", "1-2-3-4" };
	const struct blob_fingerprint fingerprint = { UINT64_MAX, INT64_MIN, INT64_MAX,
						      UINT64_MAX };
	char text[BLOB_FINGERPRINT_SIZE];
	struct blob_fingerprint again;

	blob_fingerprint_format(&fingerprint, text);
	assert_true(blob_fingerprint_parse(text, &again));
	assert_memory_equal(&fingerprint, &again, sizeof(fingerprint));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (blob_fingerprint_parse(bad[i], &again))
			fail_msg("\"%s\"", bad[i]);
}

TEST(a_change_without_a_trace_shows_only_when_the_print_was_settled)
{
	const int64_t now = INT64_C(1700000000500000000);
	struct blob_fingerprint fingerprint = { .mtime_ns = now - 1,
						.ctime_ns = now - 1000000 };

	assert_false(blob_fingerprint_is_settled(&fingerprint, now));
	fingerprint.ctime_ns = now - 30000000;
	assert_true(blob_fingerprint_is_settled(&fingerprint, now));
	fingerprint.ctime_ns = now + 1;
	assert_false(blob_fingerprint_is_settled(&fingerprint, now));
	/* a file system that knows full seconds only */
	fingerprint.ctime_ns = fingerprint.mtime_ns = INT64_C(1700000000000000000);
	assert_false(blob_fingerprint_is_settled(&fingerprint, now));
	assert_true(blob_fingerprint_is_settled(&fingerprint, now + INT64_C(2000000000)));
}

TEST(what_is_no_file_beneath_the_root_is_not_opened)
{
	static const struct {
		const char *id;
		enum err_class class;
	} table[] = {
		{ "nothing", ERR_MISSING },
		{ "dir/nothing", ERR_MISSING },
		{ "no/nothing", ERR_MISSING },
		{ "file/below", ERR_MISSING },
		{ "link", ERR_CORRUPT },
		{ "dirlink/inner", ERR_CORRUPT },
		{ "outside/passwd", ERR_CORRUPT },
		{ "dangling", ERR_CORRUPT },
		{ "dir", ERR_CORRUPT },
		{ "pipe", ERR_CORRUPT },
		{ "socket", ERR_CORRUPT },
	};
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	AUTO_CLOSE int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct stat st;
	int fd;

	put("file", 3);
	mkdirat(root_fd, "dir", 0755);
	put("dir/inner", 3);
	assert_int_equal(symlinkat("file", root_fd, "link"), 0);
	assert_int_equal(symlinkat("dir", root_fd, "dirlink"), 0);
	assert_int_equal(symlinkat("/etc", root_fd, "outside"), 0);
	assert_int_equal(symlinkat("gone", root_fd, "dangling"), 0);
	assert_int_equal(mkfifoat(root_fd, "pipe", 0644), 0);
	snprintf(name.sun_path, sizeof(name.sun_path), "%s/socket", root);
	assert_int_equal(bind(server, (struct sockaddr *)&name, sizeof(name)), 0);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		int result = blob_open(root_fd, table[i].id, &fd, &st, &err);
		if (result != -1 || fd != -1 || err.class != table[i].class)
			fail_msg("%s: %d %s", table[i].id, result, err.text);
	}
	assert_ok(blob_open(root_fd, "dir/inner", &fd, &st, &err));
	assert_int_equal(st.st_size, 3);
	close(fd);
}

TEST(a_kind_whose_directory_is_away_is_a_failure_of_the_disk)
{
	AUTO_FREE char *path = xasprintf("%s/away", root);
	const struct blob_kind kind = { .type = (char[]){ "a" }, .path = path };

	assert_fails(blob_root_open(&kind, &err), ERR_DISK);
	assert_non_null(strstr(err.remedy, "blob.a.path"));
	mkdir(path, 0755);
	int fd = blob_root_open(&kind, &err);
	assert_true(fd >= 0);
	close(fd);
}

static void digest_file(const char *path, struct blob_fingerprint *fingerprint,
			char *digest)
{
	struct stat st;
	int fd;

	assert_ok(blob_open(root_fd, path, &fd, &st, &err));
	AUTO_CLOSE int file = fd;
	assert_ok(blob_digest(file, fingerprint, digest, NULL, &err));
}

TEST(a_digest_is_that_of_the_whole_file_with_the_print_that_belongs_to_it)
{
	char digest[BLOB_DIGEST_SIZE];
	struct blob_fingerprint fingerprint, seen;
	struct stat st;

	put("empty", 0);
	digest_file("empty", &fingerprint, digest);
	assert_string_equal(digest, "e3b0c44298fc1c149afbf4c8996fb924"
				    "27ae41e4649b934ca495991b7852b855");
	assert_ok(file_replace(root_fd, "abc", "abc", 3, FILE_SYNC, &err));
	digest_file("abc", &fingerprint, digest);
	assert_string_equal(digest, "ba7816bf8f01cfea414140de5dae2223"
				    "b00361a396177a9cb410ff61f20015ad");
	fstatat(root_fd, "abc", &st, 0);
	blob_fingerprint_of(&st, &seen);
	assert_memory_equal(&fingerprint, &seen, sizeof(seen));
	/* head -c 9437185 /dev/zero | tr '\0' x | sha256sum */
	put("large", 9 * MEBIBYTE + 1);
	digest_file("large", &fingerprint, digest);
	assert_string_equal(digest, "a877b9af0284fb952bfc573c50be0340"
				    "ce620b2363a34e44dd2d4b251d1c5c8a");
}

static void append(int fd)
{
	AUTO_FREE char *path = xasprintf("/proc/self/fd/%d", fd);
	AUTO_CLOSE int to = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);

	assert_int_equal(write(to, "y", 1), 1);
}

static void overwrite(int fd)
{
	AUTO_FREE char *path = xasprintf("/proc/self/fd/%d", fd);
	AUTO_CLOSE int to = open(path, O_WRONLY | O_CLOEXEC);

	assert_int_equal(write(to, "y", 1), 1);
}

static void cut(int fd)
{
	AUTO_FREE char *path = xasprintf("/proc/self/fd/%d", fd);

	assert_int_equal(truncate(path, 10), 0);
}

TEST(a_file_that_changes_while_it_is_read_has_no_digest)
{
	void (*const changes[])(int) = { append, overwrite, cut };
	char digest[BLOB_DIGEST_SIZE];
	struct blob_fingerprint fingerprint;

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		put("file", MEBIBYTE);
		AUTO_CLOSE int fd = openat(root_fd, "file", O_RDONLY | O_CLOEXEC);
		/* old enough for any kernel's clock to show the change */
		do {
			struct stat st;
			fstat(fd, &st);
			blob_fingerprint_of(&st, &fingerprint);
			usleep(1000);
		} while (!blob_fingerprint_is_settled(&fingerprint, clock_wall_ns()));
		reads.before = changes[i];
		assert_fails(blob_digest(fd, &fingerprint, digest, NULL, &err),
			     ERR_CONFLICT);
	}
}

TEST(reading_ends_when_it_is_asked_to_stop)
{
	char digest[BLOB_DIGEST_SIZE];
	struct blob_fingerprint fingerprint;
	struct stop stop;

	stop_init(&stop);
	stop_request(&stop);
	put("file", 1);
	AUTO_CLOSE int fd = openat(root_fd, "file", O_RDONLY | O_CLOEXEC);
	assert_fails(blob_digest(fd, &fingerprint, digest, &stop, &err), ERR_CANCELED);
	stop_clear(&stop);
}

static size_t pages_in_memory(int fd, size_t size)
{
	unsigned char pages[4096] = { 0 };
	size_t count = 0;
	void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);

	assert_int_equal(mincore(map, size, pages), 0);
	for (size_t i = 0; i < size / 4096; i++)
		count += pages[i] & 1;
	munmap(map, size);
	return count;
}

/* The one that is in memory stays there, the other does not come there. */
static void check_memory(void)
{
	const size_t size = 9 * MEBIBYTE;
	char digest[BLOB_DIGEST_SIZE];
	struct blob_fingerprint fingerprint;

	put("cold", size);
	put("hot", size);
	AUTO_CLOSE int cold = openat(root_fd, "cold", O_RDONLY | O_CLOEXEC);
	AUTO_CLOSE int hot = openat(root_fd, "hot", O_RDONLY | O_CLOEXEC);
	posix_fadvise(cold, 0, 0, POSIX_FADV_DONTNEED);
	if (pages_in_memory(cold, size) > 0 || pages_in_memory(hot, size) == 0)
		skip(); /* a file system in memory, or memory is short */
	assert_ok(blob_digest(cold, &fingerprint, digest, NULL, &err));
	assert_ok(blob_digest(hot, &fingerprint, digest, NULL, &err));
	assert_true(pages_in_memory(cold, size) < size / 4096 / 8);
	assert_true(pages_in_memory(hot, size) > size / 4096 / 2);
}

TEST(what_was_not_in_memory_is_not_there_after_it_was_read)
{
	check_memory();
}

TEST(nor_is_it_with_a_kernel_that_cannot_read_so)
{
	reads.has_no_flags = true;
	check_memory();
	/* and it is not asked again */
	reads.has_no_flags = false;
	reads.flagged = reads.plain = 0;
	check_memory();
	assert_int_equal(reads.flagged, 0);
	assert_true(reads.plain > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_print_survives_being_written_down_and_nothing_else_is_read_as_one),
		cmocka_unit_test(
			a_change_without_a_trace_shows_only_when_the_print_was_settled),
		CASE(what_is_no_file_beneath_the_root_is_not_opened),
		CASE(a_kind_whose_directory_is_away_is_a_failure_of_the_disk),
		CASE(a_digest_is_that_of_the_whole_file_with_the_print_that_belongs_to_it),
		CASE(a_file_that_changes_while_it_is_read_has_no_digest),
		CASE(reading_ends_when_it_is_asked_to_stop),
		CASE(what_was_not_in_memory_is_not_there_after_it_was_read),
		CASE(nor_is_it_with_a_kernel_that_cannot_read_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
