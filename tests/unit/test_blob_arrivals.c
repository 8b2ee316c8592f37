#include "blob_incoming_test.h"

#include "base/flush.h"

#include <sys/syscall.h>
#include <sys/vfs.h>

#define XFS_MAGIC 0x58465342
#define BTRFS_MAGIC 0x9123683e
#define WAITS 7 /* all flags of sync_file_range */

/* What stands for the disk: which file system it says it is, and what it cannot do. */
static struct {
	long magic;
	bool fails_fsync, fails_syncfs;
	unsigned fsyncs, syncfses, ranges;
	ino_t touched, synced; /* the last ones */
	bool is_in_place_too_early;
} disk;

/* The library's, five times. */
int fstatfs(int fd, struct statfs *fs)
{
	int result = (int)syscall(SYS_fstatfs, fd, fs);

	if (disk.magic)
		fs->f_type = disk.magic;
	return result;
}

static void watch(void)
{
	if (faccessat(root_fd, "watched", F_OK, 0) == 0 && disk.synced == 0)
		disk.is_in_place_too_early = true;
}

static int sync_one(int fd, bool fails)
{
	struct stat st;

	watch();
	if (fails) {
		errno = EIO;
		return -1;
	}
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		disk.synced = st.st_ino;
	return 0;
}

int fsync(int fd)
{
	disk.fsyncs++;
	return sync_one(fd, disk.fails_fsync);
}

int syncfs(int fd)
{
	disk.syncfses++;
	return sync_one(fd, disk.fails_syncfs);
}

int sync_file_range(int fd, off_t offset, off_t len, unsigned flags)
{
	disk.ranges += flags == WAITS;
	return (int)syscall(SYS_sync_file_range, fd, offset, len, flags);
}

int futimens(int fd, const struct timespec times[2])
{
	struct stat st;

	(void)times;
	fstat(fd, &st);
	disk.touched = st.st_ino;
	return 0;
}

static int setup(void **state)
{
	memset(&disk, 0, sizeof(disk));
	return test_make_root(state);
}

#define ARRIVALS(name) cmocka_unit_test_setup_teardown(name, setup, test_remove_root)

TEST(what_stands_in_the_way_is_left_alone_and_harms_nobody_else)
{
	static const char *const bad[] = { "dir", "file/below", "link", "pipe",
					   "dirlink/x" };
	blob_arrivals arrivals = { 0 };

	put("dir/inner");
	put("file");
	assert_int_equal(symlinkat("file", root_fd, "link"), 0);
	assert_int_equal(symlinkat("dir", root_fd, "dirlink"), 0);
	mkfifoat(root_fd, "pipe", 0644);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_fails(try_open(bad[i], 3), ERR_CONFLICT);
	/* what comes there later is seen, too; an empty folder is nobody's */
	add_text(&arrivals, "a", "abc");
	add_text(&arrivals, "b/c", "abc");
	add_text(&arrivals, "empty", "abc");
	add_text(&arrivals, "z", "abc");
	put("a/inner");
	put("b");
	mkdirat(root_fd, "empty", 0755);
	assert_ok(blob_arrivals_commit(root_fd, &arrivals, &err));
	assert_true(arrivals.items[0].failed && arrivals.items[1].failed);
	assert_int_equal(arrivals.items[0].why.class, ERR_CONFLICT);
	assert_int_equal(arrivals.items[1].why.class, ERR_CONFLICT);
	assert_false(arrivals.items[2].failed || arrivals.items[3].failed);
	assert_true(holds("empty", "abc") && holds("z", "abc"));
	assert_true(holds("a/inner", "x") && holds("dir/inner", "x"));
	assert_int_equal(left_over(), 0);
	vec_clear(&arrivals);
}

TEST(who_could_not_read_the_old_file_cannot_read_the_new_one)
{
	struct stat st;

	put("a");
	assert_int_equal(fchmodat(root_fd, "a", 0640, 0), 0);
	assert_ok(bring("a", "secret"));
	assert_int_equal(fstatat(root_fd, "a", &st, 0), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	assert_true(holds("a", "secret"));
	fstatat(root_fd, ".refrelay/incoming", &st, 0);
	assert_int_equal(st.st_mode & 0077, 0);
}

static void bring_many(blob_arrivals *arrivals, size_t count)
{
	for (size_t i = 0; i + 1 < count; i++) {
		AUTO_FREE char *id = xasprintf("%zu/f", i % 5);
		AUTO_FREE char *other = xasprintf("%s%zu", id, i);
		add_text(arrivals, other, "abc");
	}
	add_text(arrivals, "watched", "abc");
}

TEST(one_log_needs_two_flushes_for_any_number_and_the_first_is_of_a_touched_file)
{
	blob_arrivals arrivals = { 0 };
	struct stat st;

	disk.magic = XFS_MAGIC;
	bring_many(&arrivals, 100);
	assert_ok(blob_arrivals_commit(root_fd, &arrivals, &err));
	assert_int_equal(disk.fsyncs, 2);
	assert_int_equal(disk.syncfses, 0);
	assert_int_equal(disk.ranges, 100);
	assert_int_equal(fstatat(root_fd, "watched", &st, 0), 0);
	assert_int_equal(disk.touched, st.st_ino);
	assert_int_equal(disk.synced, st.st_ino);
	assert_false(disk.is_in_place_too_early);
	vec_clear(&arrivals);
}

TEST(other_file_systems_flush_each_of_few_and_all_of_many)
{
	blob_arrivals arrivals = { 0 };

	disk.magic = BTRFS_MAGIC;
	bring_many(&arrivals, 3);
	assert_ok(blob_arrivals_commit(root_fd, &arrivals, &err));
	/* three files, their two folders and above, one folder */
	assert_int_equal(disk.fsyncs, 3 + 2 + 2 + 1);
	assert_int_equal(disk.syncfses, 0);
	assert_false(disk.is_in_place_too_early);
	vec_clear(&arrivals);
	tree_remove(root_fd, "watched", ERR_IGNORED);
	disk.fsyncs = 0;
	disk.synced = 0;
	bring_many(&arrivals, 16);
	assert_ok(blob_arrivals_commit(root_fd, &arrivals, &err));
	assert_int_equal(disk.fsyncs, 0);
	assert_int_equal(disk.syncfses, 2);
	vec_clear(&arrivals);
}

TEST(what_somebody_else_put_there_is_flushed_and_not_touched)
{
	static char names[20][8];
	const char *ids[20];

	disk.magic = XFS_MAGIC;
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		snprintf(names[i], sizeof(names[i]), "a/%zu", i);
		put(names[i]);
		ids[i] = names[i];
	}
	assert_ok(flush_present(root_fd, ids, 3, &err));
	assert_int_equal(disk.fsyncs, 3 * 3); /* a file, its folder, the root */
	assert_ok(flush_present(root_fd, ids, 20, &err));
	assert_int_equal(disk.syncfses, 1);
	assert_int_equal(disk.touched, 0);
	disk.fails_fsync = disk.fails_syncfs = true;
	assert_fails(flush_present(root_fd, ids, 3, &err), ERR_DISK);
	assert_fails(flush_present(root_fd, ids, 20, &err), ERR_DISK);
	assert_ok(flush_present(root_fd, ids, 0, &err));
}

TEST(what_could_not_be_flushed_is_not_put_into_place)
{
	static const struct {
		long magic;
		size_t count;
	} table[] = { { XFS_MAGIC, 3 }, { BTRFS_MAGIC, 3 }, { BTRFS_MAGIC, 20 } };

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		blob_arrivals arrivals = { 0 };
		disk.magic = table[i].magic;
		disk.fails_fsync = disk.fails_syncfs = true;
		bring_many(&arrivals, table[i].count);
		assert_fails(blob_arrivals_commit(root_fd, &arrivals, &err), ERR_DISK);
		assert_int_equal(faccessat(root_fd, "watched", F_OK, 0), -1);
		assert_int_equal(count_in("0"), 0);
		assert_int_equal(left_over(), 0);
		vec_clear(&arrivals);
	}
}

TEST(a_deleted_blob_is_found_in_the_trash_and_folders_that_it_leaves_empty_go)
{
	AUTO_CLOSEDIR DIR *trash = NULL;
	struct dirent *entry;
	AUTO_FREE char *place = NULL;

	struct stat st;

	put("a/b/c");
	put("a/other");
	assert_ok(blob_discard(root_fd, "a/b/c", &err));
	/* as "a" may have kept others out */
	assert_int_equal(fstatat(root_fd, ".refrelay", &st, 0), 0);
	assert_int_equal(st.st_mode & 0077, 0);
	assert_int_equal(faccessat(root_fd, "a/b", F_OK, 0), -1);
	assert_int_equal(size_of("a/other"), 1);
	trash = dir_list(root_fd, ".refrelay/trash");
	assert_non_null(trash);
	while ((entry = readdir(trash)) != NULL)
		if (entry->d_name[0] != '.')
			place = xasprintf(".refrelay/trash/%s/a/b/c", entry->d_name);
	assert_int_equal(size_of(place), 1);
	/* as who empties the trash reads it */
	assert_true(strtoll(strrchr(place, '/') - strlen("1700000000000-") -
				    strlen("0123456789abcdef") - strlen("/a/b"),
			    NULL, 10) > INT64_C(1600000000000));
	assert_fails(blob_discard(root_fd, "a/b/c", &err), ERR_MISSING);
	assert_int_equal(symlinkat("/etc", root_fd, "etc"), 0);
	assert_fails(blob_discard(root_fd, "etc", &err), ERR_MISSING);
	assert_fails(blob_discard(root_fd, "etc/passwd", &err), ERR_CONFIG);
	assert_fails(blob_discard(root_fd, "a", &err), ERR_MISSING);
	assert_int_equal(size_of("a/other"), 1);
}

/* As a crash between the two leaves it. */
TEST(folders_that_became_empty_go_although_their_blob_is_gone_already)
{
	put("a/b/c");
	put("d/e/f");
	assert_int_equal(unlinkat(root_fd, "a/b/c", 0), 0);
	assert_fails(blob_discard(root_fd, "a/b/c", &err), ERR_MISSING);
	assert_int_equal(faccessat(root_fd, "a", F_OK, 0), -1);
	assert_int_equal(unlinkat(root_fd, "d/e/f", 0), 0);
	assert_int_equal(unlinkat(root_fd, "d/e", AT_REMOVEDIR), 0);
	assert_fails(blob_discard(root_fd, "d/e/f", &err), ERR_MISSING);
	assert_int_equal(faccessat(root_fd, "d", F_OK, 0), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ARRIVALS(what_stands_in_the_way_is_left_alone_and_harms_nobody_else),
		ARRIVALS(who_could_not_read_the_old_file_cannot_read_the_new_one),
		ARRIVALS(
			one_log_needs_two_flushes_for_any_number_and_the_first_is_of_a_touched_file),
		ARRIVALS(other_file_systems_flush_each_of_few_and_all_of_many),
		ARRIVALS(what_somebody_else_put_there_is_flushed_and_not_touched),
		ARRIVALS(what_could_not_be_flushed_is_not_put_into_place),
		ARRIVALS(
			a_deleted_blob_is_found_in_the_trash_and_folders_that_it_leaves_empty_go),
		ARRIVALS(
			folders_that_became_empty_go_although_their_blob_is_gone_already),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
