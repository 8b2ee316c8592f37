#include "notice_stub.h"

#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/hook_wire.h"
#include "change/spool.h"

static size_t done;
static bool is_told;
static int read_fails; /* with this */

/* The library's. */
ssize_t read(int fd, void *to, size_t size)
{
	if (read_fails) {
		errno = read_fails;
		return -1;
	}
	return syscall(SYS_read, fd, to, size);
}

static void spool(const char *name, const char *text)
{
	AUTO_FREE char *path = xasprintf(HOOK_SPOOL "/%s", name);

	write_file(path, text);
}

static bool is_spooled(const char *name)
{
	AUTO_FREE char *path = xasprintf(HOOK_SPOOL "/%s", name);

	return is_there(path);
}

static void work(void)
{
	assert_ok(spool_work(&stub, root, &is_told, &done, &err));
}

TEST(no_spool_is_an_empty_one)
{
	assert_true(spool_is_empty(root));
	work();
	assert_int_equal(done, 0);
}

TEST(what_is_compared_is_removed)
{
	spool("100.1", "/root/a");
	spool("100.2", "/root/b");
	assert_false(spool_is_empty(root));
	work();
	assert_int_equal(done, 2);
	assert_int_equal(compared, 2);
	assert_true(spool_is_empty(root));
	assert_false(is_there(HOOK_SPOOL "/bad"));
}

TEST(one_comparison_does_for_all_that_name_a_repository)
{
	for (int i = 0; i < 50; i++) {
		char name[32];
		snprintf(name, sizeof(name), "10%d.7", i);
		spool(name, i % 2 ? "/root/a" : "/root/b");
	}
	work();
	assert_int_equal(done, 50);
	assert_int_equal(compared, 2);
	assert_true(spool_is_empty(root));
}

TEST(what_fails_for_now_stays)
{
	spool("100.1", "/root/a");
	comparison_fails = ERR_DISK;
	work();
	assert_int_equal(done, 0);
	assert_true(is_spooled("100.1"));
	comparison_fails = ERR_NONE;
	work();
	assert_int_equal(done, 1);
	assert_true(spool_is_empty(root));
}

TEST(a_repository_that_is_gone_or_damaged_is_done)
{
	static const enum err_class classes[] = { ERR_MISSING, ERR_CORRUPT, ERR_CONFIG };

	for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
		spool("100.1", "/root/a");
		comparison_fails = classes[i];
		work();
		assert_int_equal(done, 1);
		assert_true(spool_is_empty(root));
	}
}

/* As with a database that is damaged, or may not be opened. */
TEST(what_could_not_be_recorded_is_not_done)
{
	static const enum err_class classes[] = { ERR_MISSING, ERR_CORRUPT, ERR_CONFIG };

	spool("100.1", "/root/a");
	for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
		recording_fails = classes[i];
		work();
		assert_int_equal(done, 0);
		assert_true(is_spooled("100.1"));
	}
}

TEST(what_makes_no_sense_is_set_aside_and_stops_nobody)
{
	char long_path[HOOK_MESSAGE_MAX + 2];

	memset(long_path, 'a', sizeof(long_path) - 1);
	long_path[sizeof(long_path) - 1] = '\0';
	spool("100.1", "/elsewhere/a");
	spool("100.2", "");
	spool("100.3", long_path);
	spool("notes.txt", "/root/a");
	assert_return_code(symlinkat("/etc/passwd", root_fd, HOOK_SPOOL "/100.4"), errno);
	assert_ok(dir_make(root_fd, HOOK_SPOOL "/100.5", &err));
	spool("200.1", "/root/a");
	work();
	assert_int_equal(done, 1);
	assert_int_equal(compared, 1);
	assert_true(spool_is_empty(root));
	assert_true(is_spooled("bad/100.1") && is_spooled("bad/100.2") &&
		    is_spooled("bad/100.3") && is_spooled("bad/notes.txt") &&
		    is_spooled("bad/100.5"));
	assert_false(is_spooled("100.4"));
	work();
	assert_int_equal(compared, 1);
}

TEST(what_cannot_be_read_now_stays)
{
	static const int codes[] = { ENOMEM, EIO, EMFILE, ESTALE, EACCES, EPERM };

	spool("100.1", "/root/a");
	spool("notes.txt", "/root/a");
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		read_fails = codes[i];
		work();
		read_fails = 0;
		assert_int_equal(done, 0);
		assert_true(is_spooled("100.1"));
		assert_true(is_spooled("bad/notes.txt"));
	}
	work();
	assert_int_equal(done, 1);
	assert_true(spool_is_empty(root));
}

static bool work_tells(void)
{
	AUTO_CLOSE int saved = fcntl(2, F_DUPFD_CLOEXEC, 0);
	AUTO_CLOSE int fd =
		openat(root_fd, "log", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct stat st;

	dup2(fd, 2);
	log_set_level(LOG_LEVEL_WARN);
	work();
	log_set_level(LOG_LEVEL_NONE);
	dup2(saved, 2);
	assert_return_code(fstat(fd, &st), errno);
	return st.st_size > 0;
}

TEST(what_cannot_be_read_is_told_once_until_all_can_be)
{
	spool("100.1", "/root/a");
	spool("100.2", "/root/b");
	read_fails = EACCES;
	assert_true(work_tells());
	assert_false(work_tells());
	read_fails = 0;
	assert_false(work_tells());
	assert_true(spool_is_empty(root));
	spool("100.3", "/root/a");
	read_fails = EACCES;
	assert_true(work_tells());
	read_fails = 0;
}

TEST(a_file_that_is_being_written_is_left_alone)
{
	struct timespec old[2] = { { .tv_sec = 1000000 }, { .tv_sec = 1000000 } };

	spool(".100.1", "/ro");
	assert_true(spool_is_empty(root));
	work();
	assert_int_equal(compared, 0);
	assert_true(is_spooled(".100.1"));
	assert_return_code(utimensat(root_fd, HOOK_SPOOL "/.100.1", old, 0), errno);
	work();
	assert_false(is_spooled(".100.1"));
}

TEST(more_than_one_batch_is_worked_through)
{
	AUTO_CLOSE int dir = -1;

	spool("1.1", "/root/a");
	dir = dir_open(root_fd, HOOK_SPOOL, &err);
	for (int i = 2; i < 5000; i++) {
		char name[32];
		snprintf(name, sizeof(name), "%d.1", i);
		assert_return_code(linkat(dir, "1.1", dir, name, 0), errno);
	}
	work();
	assert_int_equal(done, 4999);
	assert_true(spool_is_empty(root));
}

TEST(a_spool_that_cannot_be_read_is_an_error)
{
	write_file(HOOK_SPOOL, "a file");
	assert_fails(spool_work(&stub, root, &is_told, &done, &err), ERR_MISSING);
	assert_int_equal(done, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STUB_CASE(no_spool_is_an_empty_one),
		STUB_CASE(what_is_compared_is_removed),
		STUB_CASE(one_comparison_does_for_all_that_name_a_repository),
		STUB_CASE(what_fails_for_now_stays),
		STUB_CASE(a_repository_that_is_gone_or_damaged_is_done),
		STUB_CASE(what_could_not_be_recorded_is_not_done),
		STUB_CASE(what_makes_no_sense_is_set_aside_and_stops_nobody),
		STUB_CASE(what_cannot_be_read_now_stays),
		STUB_CASE(what_cannot_be_read_is_told_once_until_all_can_be),
		STUB_CASE(a_file_that_is_being_written_is_left_alone),
		STUB_CASE(more_than_one_batch_is_worked_through),
		STUB_CASE(a_spool_that_cannot_be_read_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
