#include "blob_incoming_test.h"

#include <glob.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "rights.h"

#define PIECE ((size_t)256 << 10)

static int sync_error; /* errno of bringing a file to disk; 0: none */

int fsync(int fd)
{
	errno = sync_error;
	return sync_error ? -1 : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
	errno = sync_error;
	return sync_error ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int sync_file_range(int fd, off64_t offset, off64_t count, unsigned int flags)
{
	errno = sync_error;
	return sync_error ? -1
			  : (int)syscall(SYS_sync_file_range, fd, offset, count, flags);
}

static int lock_error; /* EBADF: as on NFS, where what is only read is not locked */

int flock(int fd, int operation)
{
	const bool fails =
		lock_error != EBADF ||
		((operation & LOCK_EX) && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY);

	errno = lock_error;
	return lock_error && fails ? -1 : (int)syscall(SYS_flock, fd, operation);
}

static const char *immutable; /* a name that cannot be removed; or NULL */

int unlinkat(int dir, const char *name, int flags)
{
	char path[PATH_MAX], link[64];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
	len = readlink(link, path, sizeof(path) - 1);
	path[len > 0 ? len : 0] = '\0';
	errno = EPERM;
	return immutable && strcmp(name, immutable) == 0 && !strstr(path, "/.refrelay/")
		       ? -1
		       : (int)syscall(SYS_unlinkat, dir, name, flags);
}

/* In a process of its own that a failpoint kills. Files of 600 kB in three pieces. */
static void bring_killed(const char *failpoint)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		char data[600000];
		char digest[BLOB_DIGEST_SIZE];
		blob_arrivals arrivals = { 0 };

		setenv("REFRELAY_FAILPOINT", failpoint, 1);
		memset(data, 'n', sizeof(data));
		for (int i = 0; i < 2; i++) {
			struct blob_arrival arrival = {
				.incoming = open_one(i ? "d/two" : "d/one", sizeof(data),
						     i ? NULL : "7-3")
			};
			blob_incoming_write(arrival.incoming, data, sizeof(data), &err);
			blob_incoming_digest(arrival.incoming, digest, &err);
			vec_add(&arrivals, arrival);
		}
		blob_arrivals_commit(root_fd, &arrivals, &err);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* First of all, before this process passes a failpoint itself. */
TEST(who_is_killed_leaves_old_files_or_whole_new_ones_and_what_came_is_resumed)
{
	static const struct {
		const char *failpoint;
		off_t one, two;
		uint64_t resumed;
	} table[] = {
		{ "blob.written@2=kill", 1, 1, 2 * PIECE },
		{ "blob.written@4=kill", 1, 1, 600000 },
		{ "blob.synced=kill", 1, 1, 600000 },
		{ "blob.renamed=kill", 600000, 1, 0 },
		{ "blob.renamed@2=kill", 600000, 600000, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		put("d/one");
		put("d/two");
		bring_killed(table[i].failpoint);
		assert_int_equal(size_of("d/one"), table[i].one);
		assert_int_equal(size_of("d/two"), table[i].two);
		struct blob_incoming *again = open_one("d/one", 600000, "7-3");
		if (blob_incoming_size(again) != table[i].resumed)
			fail_msg("%s: %" PRIu64, table[i].failpoint,
				 blob_incoming_size(again));
		blob_incoming_close(again, true);
		expire(0);
		assert_int_equal(left_over(), 0);
	}
}

static void make_part_read_only(struct stat *was)
{
	AUTO_FREE char *pattern = xasprintf("%s/.refrelay/incoming/*.part", root);
	glob_t found = { 0 };

	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	assert_int_equal(found.gl_pathc, 1);
	assert_int_equal(stat(found.gl_pathv[0], was), 0);
	assert_int_equal(chmod(found.gl_pathv[0], 0444), 0);
	globfree(&found);
}

TEST(what_took_the_mode_of_a_read_only_file_is_continued_unless_somebody_writes_it)
{
	struct stat before, after;

	put("d/one");
	put("d/two");
	assert_int_equal(fchmodat(root_fd, "d/one", 0444, 0), 0);
	bring_killed("blob.synced=kill");
	rights_set_override(false);
	lock_error = EBADF;
	struct blob_incoming *again = open_one("d/one", 600000, "7-3");
	assert_int_equal(blob_incoming_size(again), 600000);
	assert_int_equal(left_over(), 2);
	/* about to be renamed */
	make_part_read_only(&before);
	struct blob_incoming *other = open_one("d/one", 600000, "7-3");
	assert_int_equal(blob_incoming_size(other), 0);
	assert_int_equal(left_over(), 3);
	make_part_read_only(&after);
	assert_int_equal(after.st_mode & 0777, 0444);
	blob_incoming_close(other, true);
	blob_incoming_close(again, false);
	expire(0);
	lock_error = 0;
	rights_set_override(true);
	assert_int_equal(left_over(), 0);
}

TEST(a_blob_comes_into_place_whole_with_its_print_and_leaves_nothing_behind)
{
	char digest[BLOB_DIGEST_SIZE], again[BLOB_DIGEST_SIZE];
	blob_arrivals arrivals = { 0 };
	struct blob_arrival arrival = { 0 };
	struct blob_fingerprint fingerprint;
	struct stat st;

	arrival.incoming = open_one("new/dir/a", UINT64_MAX, NULL);
	assert_ok(blob_incoming_write(arrival.incoming, "ab", 2, &err));
	assert_ok(blob_incoming_write(arrival.incoming, "c", 1, &err));
	assert_int_equal(blob_incoming_size(arrival.incoming), 3);
	assert_ok(blob_incoming_digest(arrival.incoming, digest, &err));
	assert_ok(blob_incoming_digest(arrival.incoming, again, &err));
	assert_string_equal(digest, "ba7816bf8f01cfea414140de5dae2223"
				    "b00361a396177a9cb410ff61f20015ad");
	assert_string_equal(digest, again);
	assert_int_equal(faccessat(root_fd, "new", F_OK, 0), -1);
	vec_add(&arrivals, arrival);
	assert_ok(blob_arrivals_commit(root_fd, &arrivals, &err));
	assert_false(arrivals.items[0].failed);
	assert_true(holds("new/dir/a", "abc"));
	assert_int_equal(fstatat(root_fd, "new/dir/a", &st, 0), 0);
	blob_fingerprint_of(&st, &fingerprint);
	assert_memory_equal(&fingerprint, &arrivals.items[0].fingerprint,
			    sizeof(fingerprint));
	assert_int_equal(left_over(), 0);
	vec_clear(&arrivals);
}

/* The digest is of what is on disk, not of what was told to be. */
static void check_pieces(size_t size, size_t step, uint64_t reported, const char *resume)
{
	AUTO_FREE char *data = xmalloc(size + 1);
	char digest[BLOB_DIGEST_SIZE], on_disk[BLOB_DIGEST_SIZE];
	blob_arrivals arrivals = { 0 };
	struct blob_arrival arrival = { .incoming = open_one("p", reported, resume) };
	struct blob_fingerprint fingerprint;

	for (size_t i = 0; i < size; i++)
		data[i] = (char)(i * 31 >> 4);
	for (size_t at = blob_incoming_size(arrival.incoming); at < size; at += step) {
		size_t part = size - at < step ? size - at : step;
		assert_ok(blob_incoming_write(arrival.incoming, data + at, part, &err));
	}
	assert_ok(blob_incoming_digest(arrival.incoming, digest, &err));
	vec_add(&arrivals, arrival);
	assert_ok(blob_arrivals_commit(root_fd, &arrivals, &err));
	vec_clear(&arrivals);
	AUTO_CLOSE int fd = openat(root_fd, "p", O_RDONLY | O_CLOEXEC);
	assert_ok(blob_digest(fd, &fingerprint, on_disk, NULL, &err));
	assert_int_equal(fingerprint.size, size);
	assert_string_equal(digest, on_disk);
	for (size_t at = 0; at < size; at += PIECE) {
		char back[PIECE];
		ssize_t got = pread(fd, back, sizeof(back), (off_t)at);
		assert_memory_equal(back, data + at, (size_t)got);
	}
}

TEST(pieces_of_any_length_come_together_to_the_same_bytes)
{
	static const struct {
		size_t size, step;
	} table[] = {
		{ 0, 1 },
		{ 1, 1 },
		{ PIECE - 1, 1000 },
		{ PIECE, PIECE },
		{ PIECE + 1, PIECE + 1 },
		{ 3 * PIECE, 2 * PIECE + 7 },
		{ 20 * PIECE + 5, 65537 },
		{ 80 * PIECE + 3, PIECE * 3 }, /* 20 MiB: written while more comes */
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		check_pieces(table[i].size, table[i].step, UINT64_MAX, NULL);
		check_pieces(table[i].size, table[i].step, table[i].size, NULL);
	}
}

TEST(what_was_cut_is_continued_from_where_it_was_at_any_byte)
{
	static const size_t cuts[] = { 1, 1000, PIECE, PIECE + 1, 3 * PIECE + 77 };
	const size_t size = 4 * PIECE;

	for (size_t i = 0; i < ARRAY_SIZE(cuts); i++) {
		AUTO_FREE char *data = xmalloc(size);
		struct blob_incoming *first = open_one("p", size, "1-1");
		for (size_t k = 0; k < size; k++)
			data[k] = (char)(k * 31 >> 4);
		assert_int_equal(blob_incoming_size(first), 0);
		assert_ok(blob_incoming_write(first, data, cuts[i], &err));
		blob_incoming_close(first, false);
		struct blob_incoming *other = open_one("p", size, "1-2");
		assert_int_equal(blob_incoming_size(other), 0);
		blob_incoming_close(other, false);
		struct blob_incoming *again = open_one("p", size, "1-1");
		assert_int_equal(blob_incoming_size(again), cuts[i]);
		blob_incoming_close(again, false);
		check_pieces(size, 100000, size, "1-1");
		assert_int_equal(left_over(), 0);
	}
}

static blkcnt_t blocks_left_over(void)
{
	AUTO_CLOSEDIR DIR *dir = dir_list(root_fd, ".refrelay/incoming");
	struct dirent *entry;
	blkcnt_t blocks = 0;
	struct stat st;

	assert_non_null(dir);
	while ((entry = readdir(dir)) != NULL)
		if (entry->d_name[0] != '.') {
			assert_int_equal(fstatat(dirfd(dir), entry->d_name, &st, 0), 0);
			blocks += st.st_blocks;
		}
	return blocks;
}

TEST(what_is_kept_holds_no_more_of_the_disk_than_came)
{
	struct blob_incoming *one = open_one("a", 64 << 20, "1-1");

	assert_ok(blob_incoming_write(one, "abc", 3, &err));
	blob_incoming_close(one, false);
	assert_int_equal(left_over(), 1);
	assert_in_range(blocks_left_over(), 0, 2048);
	one = open_one("a", 64 << 20, "1-1");
	assert_int_equal(blob_incoming_size(one), 3);
	blob_incoming_close(one, true);
}

TEST(what_is_wrong_or_not_named_for_resuming_is_not_kept)
{
	struct blob_incoming *one = open_one("a", 100, "1-1");

	assert_ok(blob_incoming_write(one, "abc", 3, &err));
	blob_incoming_close(one, true);
	assert_int_equal(left_over(), 0);
	one = open_one("a", 100, NULL);
	assert_ok(blob_incoming_write(one, "abc", 3, &err));
	blob_incoming_close(one, false);
	assert_int_equal(left_over(), 0);
	/* more than there can be of these bytes */
	one = open_one("a", 100, "1-1");
	assert_ok(blob_incoming_write(one, "abc", 3, &err));
	blob_incoming_close(one, false);
	one = open_one("a", 2, "1-1");
	assert_int_equal(blob_incoming_size(one), 0);
	blob_incoming_close(one, false);
	assert_int_equal(left_over(), 0);
}

/* It would be read from memory, and never be written. */
TEST(what_did_not_get_to_the_disk_is_not_gone_on_with)
{
	char digest[BLOB_DIGEST_SIZE];
	blob_arrivals arrivals = { 0 };
	struct blob_arrival arrival = { .incoming = open_one("a", 3, "1-1") };

	assert_ok(blob_incoming_write(arrival.incoming, "abc", 3, &err));
	assert_ok(blob_incoming_digest(arrival.incoming, digest, &err));
	vec_add(&arrivals, arrival);
	sync_error = EIO;
	int result = blob_arrivals_commit(root_fd, &arrivals, &err);
	sync_error = 0;
	assert_int_equal(result, -1);
	vec_clear(&arrivals);
	assert_int_equal(left_over(), 0);
	arrival.incoming = open_one("a", 3, "1-1");
	assert_int_equal(blob_incoming_size(arrival.incoming), 0);
	blob_incoming_close(arrival.incoming, true);
}

TEST(two_who_bring_the_same_bytes_do_not_write_into_one_file)
{
	struct blob_incoming *one = open_one("a", 6, "1-1");
	struct blob_incoming *two = open_one("a", 6, "1-1");
	blob_arrivals arrivals = { 0 };
	char digest[BLOB_DIGEST_SIZE];

	assert_int_equal(left_over(), 2);
	assert_ok(blob_incoming_write(one, "abc", 3, &err));
	assert_ok(blob_incoming_write(two, "abcdef", 6, &err));
	assert_ok(blob_incoming_digest(two, digest, &err));
	vec_add(&arrivals, ((struct blob_arrival){ .incoming = two }));
	assert_ok(blob_arrivals_commit(root_fd, &arrivals, &err));
	assert_true(holds("a", "abcdef"));
	/* nobody clears away what is being written */
	expire(0);
	assert_int_equal(left_over(), 1);
	assert_ok(blob_incoming_write(one, "def", 3, &err));
	assert_ok(blob_incoming_digest(one, digest, &err));
	arrivals.items[0] = (struct blob_arrival){ .incoming = one };
	assert_ok(blob_arrivals_commit(root_fd, &arrivals, &err));
	assert_false(arrivals.items[0].failed);
	assert_true(holds("a", "abcdef"));
	vec_clear(&arrivals);
}

/* Else its bytes would be cut off, or written over. */
TEST(a_file_that_also_has_another_name_is_not_written_to)
{
	struct blob_incoming *one = open_one("a", 100, "1-1");
	AUTO_CLOSEDIR DIR *dir = NULL;
	struct dirent *entry;

	assert_ok(blob_incoming_write(one, "abc", 3, &err));
	blob_incoming_close(one, false);
	dir = dir_list(root_fd, ".refrelay/incoming");
	assert_non_null(dir);
	while ((entry = readdir(dir)) != NULL)
		if (entry->d_name[0] != '.')
			assert_int_equal(
				linkat(dirfd(dir), entry->d_name, root_fd, "precious", 0),
				0);
	assert_int_equal(size_of("precious"), 3);
	one = open_one("a", 100, "1-1");
	assert_int_equal(blob_incoming_size(one), 0);
	assert_ok(blob_incoming_write(one, "xyzxyz", 6, &err));
	blob_incoming_close(one, true);
	assert_int_equal(size_of("precious"), 3);
}

TEST(neither_more_nor_fewer_bytes_than_told_are_taken)
{
	char digest[BLOB_DIGEST_SIZE];
	struct blob_incoming *one = open_one("a", 5, NULL);

	assert_fails(blob_incoming_write(one, "abcdef", 6, &err), ERR_CORRUPT);
	assert_ok(blob_incoming_write(one, "abc", 3, &err));
	assert_fails(blob_incoming_write(one, "def", 3, &err), ERR_CORRUPT);
	assert_fails(blob_incoming_digest(one, digest, &err), ERR_CORRUPT);
	blob_incoming_close(one, true);
}

TEST(room_that_is_not_there_is_noticed_before_anything_comes)
{
	assert_fails(try_open("a", UINT64_C(1) << 62), ERR_DISK);
	assert_fails(try_open("a", UINT64_MAX - 1), ERR_DISK);
	assert_int_equal(left_over(), 0);
}

static void age(const char *name)
{
	AUTO_FREE char *path = xasprintf("%s/.refrelay/incoming/%s", root, name);
	const struct timespec times[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };

	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static int real_stderr;

static void log_to(const char *name)
{
	AUTO_CLOSE int fd =
		openat(root_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	real_stderr = dup(STDERR_FILENO);
	dup2(fd, STDERR_FILENO);
}

static bool has_logged(const char *name, const char *text)
{
	AUTO_STR struct str log = STR_INIT;

	dup2(real_stderr, STDERR_FILENO);
	close(real_stderr);
	assert_ok(file_read(root_fd, name, 1 << 20, &log, &err));
	return strstr(log.data, text) != NULL;
}

TEST(only_what_is_old_and_nobodys_expires)
{
	struct blob_incoming *held = open_one("held", 100, "1-1");

	put(".refrelay/incoming/young.part");
	put(".refrelay/incoming/old.part");
	age("old.part");
	assert_int_equal(blob_incoming_bytes(root_fd), 2);
	log_to("log");
	expire(60000);
	assert_true(has_logged("log", " ev=blob.expired bytes="));
	assert_int_equal(blob_incoming_bytes(root_fd), 1);
	assert_int_equal(size_of(".refrelay/incoming/old.part"), -1);
	assert_int_equal(size_of(".refrelay/incoming/young.part"), 1);
	expire(0);
	assert_int_equal(left_over(), 1);
	blob_incoming_close(held, true);
	assert_int_equal(left_over(), 0);
}

TEST(what_cannot_be_locked_on_expiry_is_told_and_what_cannot_be_written_goes)
{
	struct stat st;

	put(".refrelay/incoming/old.part");
	assert_ok(linkat(root_fd, ".refrelay/incoming/old.part", root_fd, "other", 0));
	make_part_read_only(&st);
	lock_error = ENOLCK;
	log_to("log");
	expire(0);
	lock_error = 0;
	assert_true(has_logged("log", " ev=blob.expire_failed "));
	assert_int_equal(left_over(), 1);
	rights_set_override(false);
	expire(0);
	rights_set_override(true);
	assert_int_equal(left_over(), 0);
}

/* In name spaces of its own: nothing is left mounted. */
static char *mount_below(void)
{
	char *mounted = xasprintf("%s/a/mnt", root);

	assert_ok(dir_make(root_fd, "a/mnt", &err));
	if (unshare(CLONE_NEWNS) != 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", mounted, "tmpfs", 0, NULL) != 0) {
		free(mounted);
		skip();
	}
	close(root_fd); /* it is in the old one */
	root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return mounted;
}

TEST(what_is_on_another_file_system_arrives_and_is_deleted_there)
{
	AUTO_FREE char *mounted = mount_below();
	struct blob_incoming *one;

	assert_ok(bring("a/mnt/new/x", "abc"));
	assert_true(holds("a/mnt/new/x", "abc"));
	assert_int_equal(count_in("a/mnt/.refrelay-incoming"), 0);
	one = open_one("a/mnt/new/y", 100, "1-1");
	assert_ok(blob_incoming_write(one, "abc", 3, &err));
	blob_incoming_close(one, false);
	assert_int_equal(blob_incoming_bytes(root_fd), 0);
	assert_int_equal(count_in("a/mnt/.refrelay-incoming"), 1);
	expire(0);
	assert_int_equal(size_of("a/mnt/.refrelay-incoming"), -1);
	assert_int_equal(left_over(), 0);
	assert_ok(blob_discard(root_fd, "a/mnt/new/x", &err));
	assert_int_equal(size_of("a/mnt/new"), -1);
	assert_int_equal(count_in(".refrelay/trash"), 1);
	assert_int_equal(umount(mounted), 0);
}

static size_t count_trashed(void)
{
	AUTO_FREE char *pattern = xasprintf("%s/.refrelay/trash/*/a/mnt/x", root);
	glob_t found = { 0 };
	size_t count;

	glob(pattern, 0, NULL, &found);
	count = found.gl_pathc;
	globfree(&found);
	return count;
}

TEST(what_cannot_be_deleted_on_another_file_system_leaves_no_copies_in_the_trash)
{
	AUTO_FREE char *mounted = mount_below();
	size_t tries;

	assert_ok(bring("a/mnt/x", "abc"));
	immutable = "x";
	assert_fails(blob_discard(root_fd, "a/mnt/x", &err), ERR_CONFIG);
	assert_int_equal(err.sys_errno, EPERM);
	immutable = NULL;
	assert_int_equal(count_trashed(), 0);
	tries = count_in(".refrelay/trash");
	assert_int_equal(mount("none", mounted, "tmpfs", MS_REMOUNT | MS_RDONLY, NULL),
			 0);
	for (int i = 0; i < 2; i++)
		assert_fails(blob_discard(root_fd, "a/mnt/x", &err), ERR_DISK);
	assert_int_equal(count_in(".refrelay/trash"), tries);
	assert_true(holds("a/mnt/x", "abc"));
	assert_int_equal(umount(mounted), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(who_is_killed_leaves_old_files_or_whole_new_ones_and_what_came_is_resumed),
		CASE(what_took_the_mode_of_a_read_only_file_is_continued_unless_somebody_writes_it),
		CASE(a_blob_comes_into_place_whole_with_its_print_and_leaves_nothing_behind),
		CASE(pieces_of_any_length_come_together_to_the_same_bytes),
		CASE(what_was_cut_is_continued_from_where_it_was_at_any_byte),
		CASE(what_is_kept_holds_no_more_of_the_disk_than_came),
		CASE(what_is_wrong_or_not_named_for_resuming_is_not_kept),
		CASE(what_did_not_get_to_the_disk_is_not_gone_on_with),
		CASE(two_who_bring_the_same_bytes_do_not_write_into_one_file),
		CASE(a_file_that_also_has_another_name_is_not_written_to),
		CASE(neither_more_nor_fewer_bytes_than_told_are_taken),
		CASE(room_that_is_not_there_is_noticed_before_anything_comes),
		CASE(only_what_is_old_and_nobodys_expires),
		CASE(what_cannot_be_locked_on_expiry_is_told_and_what_cannot_be_written_goes),
		CASE(what_is_on_another_file_system_arrives_and_is_deleted_there),
		CASE(what_cannot_be_deleted_on_another_file_system_leaves_no_copies_in_the_trash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
