#include "notice_test.h"

#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define XFS_MAGIC 0x58465342
#define BTRFS_MAGIC 0x9123683e
#define EXT4_MAGIC 0xef53

/* What was flushed, in order: a letter each, by the end of the path. */
static struct {
	long magic; /* of the file system of all here */
	struct str order;
} disk = { .order = STR_INIT };

static const struct {
	const char *end;
	char letter;
} letters[] = {
	{ "/data/db-wal", 'D' },          { "/a.git", 'r' },
	{ "/a.git/HEAD", 'h' },           { "/a.git/packed-refs", 'p' },
	{ "/a.git/refs/heads", 'f' },     { "/a.git/refs/heads/main", 'm' },
	{ "/a.git/refs/heads/new", 'n' }, { "/a.git/objects/pack", 'o' },
};

static void note_flush(int fd)
{
	char path[256], link[64];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t len = readlink(link, path, sizeof(path) - 1);
	if (len < 0)
		return;
	path[len] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(letters); i++)
		if (text_ends_with(path, letters[i].end))
			str_add_char(&disk.order, letters[i].letter);
}

int fsync(int fd)
{
	note_flush(fd);
	return 0;
}

int fdatasync(int fd)
{
	note_flush(fd);
	return 0;
}

int syncfs(int fd)
{
	(void)fd;
	str_add_char(&disk.order, 'A');
	return 0;
}

int fstatfs(int fd, struct statfs *fs)
{
	int result = (int)syscall(SYS_fstatfs, fd, fs);

	fs->f_type = disk.magic;
	return result;
}

static int make_flushed(void **state)
{
	AUTO_NOTICED struct noticed noticed = { 0 };

	if (make_site(state) != 0)
		return -1;
	disk.magic = BTRFS_MAGIC;
	str_clear(&disk.order);
	make_bare("a.git");
	must("mkdir srv/a.git/objects/pack");
	assert_ok(notice_compare(notice, "a", &noticed, &err));
	return 0;
}

static int remove_flushed(void **state)
{
	event_list_clear(&events);
	int result = remove_site(state);
	str_clear(&disk.order);
	return result;
}

#define FLUSH_CASE(name)                                                                 \
	cmocka_unit_test_setup_teardown(name, make_flushed, remove_flushed)

/* The order of what was flushed for it. */
static const char *record_change(void)
{
	AUTO_NOTICED struct noticed noticed = { 0 };

	str_cut(&disk.order, 0, disk.order.len);
	assert_ok(notice_compare(notice, "a", &noticed, &err));
	assert_true(noticed.is_changed);
	return disk.order.data;
}

static void assert_before_the_event(const char *order, const char *flushed)
{
	const char *event = strchr(order, 'D');

	assert_non_null(event);
	for (const char *one = flushed; *one; one++) {
		const char *found = strchr(order, *one);
		if (!found || found > event)
			fail_msg("no %c before the event: %s", *one, order);
	}
}

TEST(what_git_has_changed_is_on_disk_before_its_event)
{
	set_ref("a.git", "refs/heads/main", 2);
	set_ref("a.git", "refs/heads/new", 2);
	assert_before_the_event(record_change(), "mnfrho");
	must("git -C srv/a.git pack-refs --all && git -C srv/a.git update-ref -d "
	     "refs/heads/new");
	assert_before_the_event(record_change(), "pr");
	assert_null(strchr(disk.order.data, 'A'));
}

TEST(of_a_new_repository_and_of_many_refs_all_is_flushed)
{
	assert_before_the_event(disk.order.data, "A");
	must("cd srv/a.git && for i in $(seq 20); do cp refs/heads/main "
	     "refs/heads/$i; done");
	assert_before_the_event(record_change(), "A");
}

/* Or there is none: ext4 then keeps no order. */
TEST(where_one_log_has_both_the_event_takes_it_along)
{
	disk.magic = XFS_MAGIC;
	set_ref("a.git", "refs/heads/main", 2);
	assert_string_equal(record_change(), "D");
	disk.magic = EXT4_MAGIC;
	set_ref("a.git", "refs/heads/main", 3);
	assert_string_equal(record_change(), "D");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FLUSH_CASE(what_git_has_changed_is_on_disk_before_its_event),
		FLUSH_CASE(of_a_new_repository_and_of_many_refs_all_is_flushed),
		FLUSH_CASE(where_one_log_has_both_the_event_takes_it_along),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
