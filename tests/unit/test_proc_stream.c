/*
 * Children that are read while they run. Each runs in `root`, so that whoever is left of
 * it is found by its working directory.
 */
#include "test.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/proc_stream.h"
#include "base/thread.h"

static struct proc_request request;
static const char *argv[4];
static struct proc_stream *stream;
static struct proc_result result;
static struct str output = STR_INIT;

static int setup(void **state)
{
	str_reset(&output);
	request = (struct proc_request){ .directory = root };
	return test_make_root(state);
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, test_remove_root)

static int open_script(const char *script, int input_fd)
{
	argv[0] = "sh";
	argv[1] = "-c";
	argv[2] = script;
	request.argv = argv;
	return proc_stream_open(&request, input_fd, &stream, &err);
}

/* Until the end, into `output`; returns what the last read did. */
static ssize_t read_all(void)
{
	char buffer[5000];
	ssize_t got;

	while ((got = proc_stream_read(stream, buffer, sizeof(buffer))) > 0)
		str_add_bytes(&output, buffer, (size_t)got);
	return got;
}

static int close_stream(void)
{
	return proc_stream_close(stream, &result, &err);
}

static bool is_in_root(int pid)
{
	char path[64], directory[PATH_MAX];

	snprintf(path, sizeof(path), "/proc/%d/cwd", pid);
	ssize_t len = readlink(path, directory, PATH_MAX - 1);
	return len == (ssize_t)strlen(root) && memcmp(directory, root, (size_t)len) == 0;
}

static void assert_nobody(void)
{
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *proc = opendir("/proc");

	while ((entry = readdir(proc)) != NULL)
		if (atoi(entry->d_name) > 0 && is_in_root(atoi(entry->d_name)))
			fail_msg("process %s is left", entry->d_name);
}

static int count_fds(void)
{
	AUTO_CLOSEDIR DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	while (readdir(dir))
		count++;
	return count;
}

static int file_of(const char *text)
{
	int fd = openat(root_fd, "input", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_ok(file_write_all(fd, text, strlen(text), "input", &err));
	return fd;
}

TEST(output_comes_while_the_child_still_runs)
{
	char buffer[100];

	assert_int_equal(mkfifoat(root_fd, "go", 0600), 0);
	assert_ok(open_script("echo one; read line <go; echo two", -1));
	assert_int_equal(proc_stream_read(stream, buffer, sizeof(buffer)), 4);
	assert_memory_equal(buffer, "one\n", 4);
	AUTO_CLOSE int go = openat(root_fd, "go", O_WRONLY | O_CLOEXEC);
	assert_int_equal(write(go, "\n", 1), 1);
	assert_int_equal(read_all(), 0);
	assert_string_equal(output.data, "two\n");
	assert_ok(close_stream());
}

TEST(all_output_is_read_and_the_end_is_zero)
{
	int before = count_fds();

	assert_ok(open_script("seq 1 200000; echo done >&2", -1));
	assert_int_equal(read_all(), 0);
	assert_int_equal(read_all(), 0);
	assert_ok(close_stream());
	assert_int_equal(output.len, 1288895);
	assert_string_equal(result.tail, "done\n");
	assert_int_equal(count_fds(), before);
}

TEST(the_input_is_read_from_its_offset)
{
	AUTO_CLOSE int fd = file_of("header body");

	assert_int_equal(lseek(fd, 7, SEEK_SET), 7);
	assert_ok(open_script("cat", fd));
	assert_int_equal(read_all(), 0);
	assert_ok(close_stream());
	assert_string_equal(output.data, "body");
}

TEST(without_input_the_child_reads_nothing)
{
	assert_ok(open_script("cat; echo end", -1));
	assert_int_equal(read_all(), 0);
	assert_ok(close_stream());
	assert_string_equal(output.data, "end\n");
}

TEST(much_on_stderr_does_not_hold_up_stdout)
{
	assert_ok(open_script("seq 1 100000 >&2; echo out; seq 1 100000 >&2; "
			      "echo last >&2",
			      -1));
	assert_int_equal(read_all(), 0);
	assert_ok(close_stream());
	assert_string_equal(output.data, "out\n");
	assert_true(text_ends_with(result.tail, "\nlast\n"));
}

TEST(a_bad_exit_is_told_at_close)
{
	assert_ok(open_script("echo out; echo 'fatal: why' >&2; exit 3", -1));
	assert_int_equal(read_all(), 0);
	assert_fails(close_stream(), ERR_INTERNAL);
	assert_string_equal(output.data, "out\n");
	assert_int_equal(result.exit_code, 3);
	assert_non_null(strstr(err.text, "fatal: why"));
}

TEST(a_program_that_is_not_there_is_told_at_close)
{
	static const char *const nothing[] = { "refrelay-no-such-program", NULL };

	request.argv = nothing;
	assert_ok(proc_stream_open(&request, -1, &stream, &err));
	assert_int_equal(read_all(), -1);
	assert_fails(close_stream(), ERR_CONFIG);
}

TEST(the_timeout_ends_a_read)
{
	/* A shell has spoken by then, if not on a busy machine. */
	for (int ms = 1000; ms <= 16000 && output.len == 0; ms *= 2) {
		request.timeout_ms = ms;
		assert_ok(open_script("echo out; sleep 60", -1));
		assert_int_equal(read_all(), -1);
		assert_fails(close_stream(), ERR_TIMEOUT);
	}
	assert_string_equal(output.data, "out\n");
	assert_nobody();
}

TEST(the_deadline_ends_a_read)
{
	struct deadline deadline;

	deadline_init(&deadline, clock_boot_ms() + 50);
	request.deadline = &deadline;
	assert_ok(open_script("sleep 60", -1));
	assert_int_equal(read_all(), -1);
	assert_fails(close_stream(), ERR_LOST);
	deadline_clear(&deadline);
	assert_nobody();
}

static void *stop_soon(void *arg)
{
	poll(NULL, 0, 50);
	stop_request(arg);
	return NULL;
}

TEST(a_stop_ends_a_read)
{
	struct stop stop;
	pthread_t thread;

	stop_init(&stop);
	request.stop = &stop;
	assert_ok(open_script("sleep 60", -1));
	thread_start(&thread, "stopper", stop_soon, &stop);
	assert_int_equal(read_all(), -1);
	thread_join(thread);
	assert_fails(close_stream(), ERR_CANCELED);
	assert_fails(open_script("true", -1), ERR_CANCELED);
	stop_clear(&stop);
	assert_nobody();
}

TEST(a_stop_ends_a_stream_that_never_pauses)
{
	struct stop stop;
	pthread_t thread;

	stop_init(&stop);
	request.stop = &stop;
	assert_ok(open_script("exec yes", -1));
	thread_start(&thread, "stopper", stop_soon, &stop);
	assert_int_equal(read_all(), -1);
	thread_join(thread);
	assert_fails(close_stream(), ERR_CANCELED);
	stop_clear(&stop);
	assert_nobody();
}

/* Returns how long the close took, in milliseconds. */
static int64_t close_what_ignores_the_signal(void)
{
	char buffer[100];

	assert_ok(open_script("trap '' TERM; sleep 60 & setsid sleep 60 & echo up; "
			      "while :; do sleep 60; done",
			      -1));
	assert_int_equal(proc_stream_read(stream, buffer, sizeof(buffer)), 3);
	int64_t start = clock_boot_ms();
	assert_fails(close_stream(), ERR_CANCELED);
	assert_nobody();
	return clock_boot_ms() - start;
}

/* At once: the quickest of some, as the machine may be busy. */
TEST(an_early_close_kills_at_once_what_ignores_the_signal)
{
	int before = count_fds();
	int64_t took_ms = INT64_MAX;

	for (int i = 0; i < 5 && took_ms > 1500; i++)
		took_ms = close_what_ignores_the_signal();
	assert_in_range(took_ms, 0, 1500);
	assert_int_equal(count_fds(), before);
}

TEST(an_early_close_of_a_full_pipe_is_no_failure_of_the_child)
{
	char buffer[100];

	assert_ok(open_script("exec yes", -1));
	assert_true(proc_stream_read(stream, buffer, sizeof(buffer)) > 0);
	poll(NULL, 0, 20);
	assert_fails(close_stream(), ERR_CANCELED);
	assert_nobody();
}

TEST(descendants_that_outlive_the_child_do_not_outlive_the_stream)
{
	assert_ok(open_script("echo out; setsid sleep 60 & exit 0", -1));
	assert_int_equal(read_all(), 0);
	assert_ok(close_stream());
	assert_string_equal(output.data, "out\n");
	assert_nobody();
}

static int open_fed(const char *script)
{
	argv[0] = "sh";
	argv[1] = "-c";
	argv[2] = script;
	request.argv = argv;
	return proc_stream_open(&request, PROC_STREAM_FED, &stream, &err);
}

/* Offers all of it; what is said meanwhile goes into `output`. */
static void feed(const char *data, size_t len)
{
	char buffer[5000];
	ssize_t got = 1;

	proc_stream_offer(stream, data, len);
	while (proc_stream_offered(stream) > 0 && got != 0 && got != -1) {
		got = proc_stream_read_until(stream, buffer, sizeof(buffer), 0);
		if (got > 0)
			str_add_bytes(&output, buffer, (size_t)got);
	}
}

/* Far more than the pipes hold, both ways at the same time. */
TEST(a_child_is_fed_while_it_is_read)
{
	const size_t size = 16 << 20;
	AUTO_FREE char *data = xcalloc(1, size);

	assert_ok(open_fed("cat"));
	feed(data, size / 2);
	feed(data, size / 2);
	proc_stream_end_input(stream);
	assert_int_equal(read_all(), 0);
	assert_ok(close_stream());
	assert_int_equal(output.len, size);
}

TEST(a_child_that_is_gone_takes_all_that_it_is_offered)
{
	const size_t size = 4 << 20;
	AUTO_FREE char *data = xcalloc(1, size);

	assert_ok(open_fed("exec <&-; echo closed; read line; sleep 0.1"));
	feed(data, size);
	feed(data, size);
	assert_int_equal(proc_stream_offered(stream), 0);
	assert_int_equal(read_all(), 0);
	assert_string_equal(output.data, "closed\n");
	assert_ok(close_stream());
}

TEST(a_read_ends_at_its_time_and_the_child_goes_on)
{
	char buffer[16];

	assert_ok(open_fed("cat"));
	assert_int_equal(proc_stream_read_until(stream, buffer, sizeof(buffer),
						clock_boot_ms() + 50),
			 PROC_STREAM_NOTHING);
	feed("x", 1);
	assert_int_equal(proc_stream_read(stream, buffer, sizeof(buffer)), 1);
	assert_int_equal(proc_stream_close(stream, &result, &err), -1);
	assert_int_equal(err.class, ERR_CANCELED);
	assert_nobody();
}

TEST(closing_nothing_is_fine)
{
	assert_ok(proc_stream_close(NULL, NULL, &err));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(output_comes_while_the_child_still_runs),
		CASE(all_output_is_read_and_the_end_is_zero),
		CASE(the_input_is_read_from_its_offset),
		CASE(without_input_the_child_reads_nothing),
		CASE(much_on_stderr_does_not_hold_up_stdout),
		CASE(a_bad_exit_is_told_at_close),
		CASE(a_program_that_is_not_there_is_told_at_close),
		CASE(the_timeout_ends_a_read),
		CASE(the_deadline_ends_a_read),
		CASE(a_stop_ends_a_read),
		CASE(a_stop_ends_a_stream_that_never_pauses),
		CASE(an_early_close_kills_at_once_what_ignores_the_signal),
		CASE(an_early_close_of_a_full_pipe_is_no_failure_of_the_child),
		CASE(descendants_that_outlive_the_child_do_not_outlive_the_stream),
		CASE(a_child_is_fed_while_it_is_read),
		CASE(a_child_that_is_gone_takes_all_that_it_is_offered),
		CASE(a_read_ends_at_its_time_and_the_child_goes_on),
		CASE(closing_nothing_is_fine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
