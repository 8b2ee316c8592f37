/*
 * Each child runs in `root`, so that whoever is left of it is found by its working
 * directory (assert_nobody). What must happen while proc_run waits is done by a second
 * thread once the child has made the file "ready". What needs this process stopped or
 * killed is done to a forked copy.
 */
#include "test.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/proc.h"
#include "base/proc_wire.h"
#include "base/thread.h"

#define SH(script) ((const char *const[]){ "sh", "-c", script, NULL })
#define ARGV(...) ((const char *const[]){ __VA_ARGS__, NULL })

#define RUN(...) run((struct proc_request){ __VA_ARGS__ })

static struct proc_result result;
static struct str output = STR_INIT;
static char self[PATH_MAX];

static int setup(void **state)
{
	str_reset(&output);
	return test_make_root(state);
}

/* In `root`, and into `output`, unless the request says otherwise. */
static int run(struct proc_request request)
{
	if (!request.directory)
		request.directory = root;
	if (!request.output) {
		request.output = &output;
		if (request.output_limit == 0)
			request.output_limit = 1000;
	}
	return proc_run(&request, &result, &err);
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, test_remove_root)

static void nap(void)
{
	poll(NULL, 0, 2);
}

/* Of living processes in `root`; a zombie has no directory any more. */
static int count_living(int signal)
{
	char path[64], directory[PATH_MAX];
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *proc = opendir("/proc");
	int count = 0;

	while ((entry = readdir(proc)) != NULL) {
		int pid = atoi(entry->d_name);
		snprintf(path, sizeof(path), "/proc/%d/cwd", pid);
		ssize_t len = pid > 0 ? readlink(path, directory, PATH_MAX - 1) : -1;
		if (len != (ssize_t)strlen(root) || memcmp(directory, root, (size_t)len))
			continue;
		count++;
		if (signal)
			kill(pid, signal);
	}
	return count;
}

static void assert_nobody(void)
{
	assert_int_equal(count_living(0), 0);
}

/* Less than the children would sleep. */
static void assert_nobody_soon(void)
{
	int64_t until = clock_boot_ms() + 20000;

	while (count_living(0) > 0 && clock_boot_ms() < until)
		nap();
	assert_nobody();
}

static bool exists(const char *name)
{
	return faccessat(root_fd, name, F_OK, 0) == 0;
}

static bool is_ready_within(int64_t ms)
{
	for (int64_t until = clock_boot_ms() + ms; clock_boot_ms() < until; nap())
		if (exists("ready"))
			return true;
	return false;
}

static void wait_until_ready(void)
{
	if (!is_ready_within(20000))
		abort();
}

static int count_fds(void)
{
	AUTO_CLOSEDIR DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	while (readdir(dir))
		count++;
	return count;
}

static void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" lacks \"%s\"", text, part);
}

TEST(output_is_collected_and_success_is_zero)
{
	uint64_t before = proc_started();

	str_add(&output, "> ");
	assert_ok(RUN(.argv = SH("echo out; echo err >&2")));
	assert_string_equal(output.data, "> out\n");
	assert_string_equal(result.tail, "err\n");
	assert_int_equal(result.exit_code, 0);
	assert_int_equal(result.signal, 0);
	assert_int_equal(proc_started(), before + 1);
}

TEST(all_but_argv_may_be_left_out)
{
	static const char *const argv[] = { "sh", "-c", "echo out; cat", NULL };

	assert_ok(proc_run(&(struct proc_request){ .argv = argv }, NULL, &err));
}

TEST(an_exit_code_is_told_with_the_best_line_of_stderr)
{
	assert_fails(RUN(.argv = SH("echo hm >&2; echo 'fatal: no' >&2; echo >&2;"
				    "echo 'hint: try again' >&2; exit 128")),
		     ERR_INTERNAL);
	assert_int_equal(result.exit_code, 128);
	assert_int_equal(result.signal, 0);
	assert_string_equal(err.text, "sh exited with code 128: fatal: no");
	assert_fails(RUN(.argv = SH("printf '10%%\\r20%%\\nlast\\n\\n \\n' >&2; exit 1")),
		     ERR_INTERNAL);
	assert_string_equal(err.text, "sh exited with code 1: last");
	assert_fails(RUN(.argv = ARGV("false")), ERR_INTERNAL);
	assert_string_equal(err.text, "false exited with code 1");
}

TEST(a_signal_is_told)
{
	assert_fails(RUN(.argv = SH("kill -SEGV $$")), ERR_INTERNAL);
	assert_int_equal(result.exit_code, -1);
	assert_int_equal(result.signal, SIGSEGV);
	assert_string_equal(err.text, "sh was killed by signal 11");
	assert_int_equal(err.sys_errno, 0);
	assert_true(err_is_of_data(&err));
}

/* The caller must not think that it is due to what the child was to read. */
TEST(what_is_not_the_childs_own_doing_has_a_code)
{
	assert_fails(RUN(.argv = SH("kill -KILL $$")), ERR_INTERNAL);
	assert_int_equal(err.sys_errno, ENOMEM);
	assert_false(err_is_of_data(&err));
	assert_has(err.remedy, "memory");
	assert_fails(RUN(.argv = SH("kill -TERM $$")), ERR_INTERNAL);
	assert_int_equal(err.sys_errno, EINTR);
	assert_fails(RUN(.argv = SH("kill -KILL $PPID; sleep 100")), ERR_INTERNAL);
	assert_int_equal(err.sys_errno, ENOMEM);
}

TEST(secrets_in_stderr_are_masked)
{
	assert_fails(RUN(.argv = SH("echo 'fatal: https://me:hush@host/x' >&2; exit 1")),
		     ERR_INTERNAL);
	assert_string_equal(result.tail, "fatal: https://***@host/x\n");
	assert_null(strstr(err.text, "hush"));
}

/* Half a token would not be known for one. */
TEST(a_tail_that_was_cut_starts_with_a_whole_line)
{
	assert_ok(RUN(.argv = SH("for i in $(seq 40); do"
				 " printf '%01000d' $i >&2; done;"
				 "printf '\\0\\nend\\n' >&2")));
	assert_string_equal(result.tail, "end\n");
	assert_ok(RUN(.argv = SH("i=0; while [ $i -lt 3000 ]; do"
				 " echo line $i; i=$((i + 1)); done >&2")));
	assert_true(text_ends_with(result.tail, "line 2999\n"));
	assert_int_equal(strlen(result.tail), sizeof(result.tail) - 1);
}

TEST(ten_megabytes_pass_through_cat_without_deadlock)
{
	size_t len = 10 * 1000 * 1000;
	AUTO_FREE char *input = xmalloc(len);

	for (size_t i = 0; i < len; i++)
		input[i] = (char)(i % 251);
	assert_ok(RUN(.argv = ARGV("cat"), .input = input, .input_len = len,
		      .output_limit = len));
	assert_int_equal(output.len, len);
	assert_memory_equal(output.data, input, len);
	str_clear(&output);
	assert_ok(RUN(.argv = ARGV("true"), .input = input, .input_len = len));
}

TEST(more_output_than_allowed_ends_it)
{
	assert_ok(RUN(.argv = SH("echo 1234567"), .output_limit = 8));
	str_reset(&output);
	assert_fails(RUN(.argv = SH("echo 12345678"), .output_limit = 8), ERR_CORRUPT);
	assert_string_equal(output.data, "12345678");
	assert_fails(RUN(.argv = ARGV("yes")), ERR_CORRUPT);
	assert_nobody();
}

TEST(what_a_child_writes_and_holds_is_bounded)
{
	static const char *const writes[] = { "sh", "-c", "head -c 20000 /dev/zero >f",
					      NULL };
	static const char *const holds[] = { "sh", "-c",
					     "python3 -c 'print(len(bytes(200 << 20)))'",
					     NULL };

	assert_ok(run((struct proc_request){ .argv = writes, .file_most = 20000 }));
	assert_fails(run((struct proc_request){ .argv = writes, .file_most = 10000 }),
		     ERR_INTERNAL);
	assert_non_null(strstr(result.tail, "File too large"));
	assert_ok(run((struct proc_request){ .argv = holds }));
	str_reset(&output);
	assert_fails(run((struct proc_request){ .argv = holds,
						.memory_most = UINT64_C(100) << 20 }),
		     ERR_INTERNAL);
	assert_non_null(strstr(result.tail, "MemoryError"));
}

TEST(a_missing_program_is_not_one_that_exits_with_127)
{
	assert_fails(RUN(.argv = SH("exit 127")), ERR_INTERNAL);
	assert_int_equal(result.exit_code, 127);
	assert_fails(RUN(.argv = ARGV("no-such-program")), ERR_CONFIG);
	assert_int_equal(result.exit_code, -1);
	assert_int_equal(err.sys_errno, ENOEXEC);
	assert_has(err.text, "No such file");
	assert_has(err.text, "no-such-program");
	assert_has(err.remedy, "PATH");
	assert_fails(RUN(.argv = ARGV("/etc/passwd")), ERR_CONFIG);
	assert_fails(RUN(.argv = ARGV("/etc")), ERR_CONFIG);
	assert_fails(RUN(.argv = ARGV("true"), .directory = "/nowhere"), ERR_MISSING);
	assert_has(err.text, "/nowhere");
}

/* In a program of its own, since the path is found once. */
TEST(a_missing_supervisor_is_named)
{
	assert_ok(RUN(.argv = ARGV(self, "missing"),
		      .env = ARGV("REFRELAY_RUN=/gone/refrelay-run")));
	assert_has(output.data, "/gone/refrelay-run");
	assert_has(output.data, "config: install refrelay-run");
	str_reset(&output);
	assert_ok(RUN(.argv = ARGV(self, "path"), .env = ARGV("A=1")));
	assert_has(output.data, "/../libexec/refrelay/refrelay-run");
}

TEST(directory_and_environment_are_given)
{
	char expected[128];

	snprintf(expected, sizeof(expected), "%s 1 x\n", root);
	assert_ok(RUN(.argv = SH("echo $(pwd) $A ${HOME-x}"), .env = ARGV("A=1")));
	assert_string_equal(output.data, expected);
}

TEST(the_child_has_default_signals_but_sigxfsz_whatever_ours_are)
{
	sigset_t all, before;

	sigfillset(&all);
	signal(SIGPIPE, SIG_IGN);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int status = RUN(.argv = ARGV("cat", "/proc/self/status"), .output_limit = 9999);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	signal(SIGPIPE, SIG_DFL);
	assert_ok(status);
	assert_has(output.data, "SigBlk:\t0000000000000000");
	assert_has(output.data, "SigIgn:\t");
	const char *ignored = strstr(output.data, "SigIgn:\t") + strlen("SigIgn:\t");
	/* glibc's posix_spawn ignores 32 and 33, which every libc sets up for itself; the
	 * supervisor ignores SIGXFSZ, so that a write beyond the limit is an error */
	assert_int_equal(strtoull(ignored, NULL, 16) & 0x7fffffff,
			 UINT64_C(1) << (SIGXFSZ - 1));
}

TEST(the_terminal_reaches_neither_child_nor_supervisor)
{
	int group, session;

	assert_ok(RUN(.argv = SH("cut -d' ' -f5,6 /proc/$$/stat")));
	assert_int_equal(sscanf(output.data, "%d %d", &group, &session), 2);
	assert_int_not_equal(session, getsid(0));
	assert_int_not_equal(group, session); /* the session is the supervisor's group */
}

TEST(only_the_files_to_be_kept_are_inherited)
{
	int careless = open("/dev/null", O_RDONLY), ends[2];
	char expected[64];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_ok(RUN(.argv = SH("ls /proc/$$/fd; true")));
	assert_string_equal(output.data, "0\n1\n2\n");

	str_reset(&output);
	snprintf(expected, sizeof(expected), "0\n1\n2\n%d\n", ends[1]);
	assert_ok(RUN(.argv = SH("ls /proc/$$/fd; true"),
		      .keep_fds = (int[]){ ends[1], -1 }));
	assert_string_equal(output.data, expected);
	assert_int_equal(fcntl(ends[1], F_GETFD), FD_CLOEXEC);
	close(careless);
	close(ends[0]);
	close(ends[1]);
}

static void touch(const char *name)
{
	close(openat(root_fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

static void *await_end_of_file(void *ends_of_pipe)
{
	const int *ends = ends_of_pipe;
	char byte;

	wait_until_ready();
	close(9);
	if (read(ends[0], &byte, 1) == 0)
		touch("seen");
	return NULL;
}

/* The supervisor, which still lives, must not hold the pipe open. */
TEST(the_end_of_a_kept_pipe_is_seen_once_the_child_closes_it)
{
	int ends[2];
	pthread_t reader;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(dup3(ends[1], 9, O_CLOEXEC), 9);
	close(ends[1]);
	thread_start(&reader, "reader", await_end_of_file, ends);
	assert_ok(RUN(.argv = SH("exec 9>&-; touch ready;"
				 "until [ -e seen ]; do sleep 0.01; done"),
		      .keep_fds = (int[]){ 9, -1 }, .timeout_ms = 5000));
	thread_join(reader);
	close(ends[0]);
}

TEST(no_descriptor_is_lost)
{
	int before = count_fds();

	assert_ok(RUN(.argv = ARGV("true"), .input = "x", .input_len = 1));
	assert_fails(
		proc_run(&(struct proc_request){ .argv = ARGV("false") }, NULL, &err),
		ERR_INTERNAL);
	assert_fails(RUN(.argv = ARGV("no-such-program")), ERR_CONFIG);
	assert_fails(RUN(.argv = ARGV("true"), .directory = "/nowhere"), ERR_MISSING);
	assert_fails(RUN(.argv = ARGV("yes")), ERR_CORRUPT);
	assert_fails(RUN(.argv = SH("kill -9 $PPID; sleep 100")), ERR_INTERNAL);
	assert_int_equal(count_fds(), before);
}

/* Within it a shell starts, and sets its traps. */
#define TRAPPED_MS 1000

static int64_t took_ms;

/* Lets a child take longer than its timeout, which is returned: one within which it has
 * set its traps, and made "ready", also on a machine that has much else to do. */
static int64_t run_trapped(struct proc_request request)
{
	int64_t start;

	request.timeout_ms = TRAPPED_MS / 2;
	do {
		unlinkat(root_fd, "ready", 0);
		str_reset(&output);
		request.timeout_ms *= 2;
		start = clock_boot_ms();
		assert_fails(run(request), ERR_TIMEOUT);
		took_ms = clock_boot_ms() - start;
	} while (!exists("ready") && request.timeout_ms < 16 * TRAPPED_MS);
	assert_true(exists("ready"));
	return request.timeout_ms;
}

#define RUN_TRAPPED(...) run_trapped((struct proc_request){ __VA_ARGS__ })

TEST(a_timeout_kills_the_whole_tree)
{
	int64_t start = clock_boot_ms();

	assert_fails(RUN(.argv = SH("sleep 100 & sleep 100"), .timeout_ms = TRAPPED_MS,
			 .grace_ms = 60000),
		     ERR_TIMEOUT);
	assert_nobody();
	/* without grace */
	assert_in_range(clock_boot_ms() - start, TRAPPED_MS, 30000);
	assert_int_equal(result.signal, SIGTERM);
	assert_string_equal(err.text, "sh took longer than 1000 ms");
}

TEST(sigterm_comes_first_and_its_answer_is_kept)
{
	int timeout_ms = (int)RUN_TRAPPED(
			.argv = SH("trap 'echo bye; echo why >&2; exit 3' TERM; : >ready;"
				   "sleep 100 & wait"));

	AUTO_FREE char *text = xasprintf("sh took longer than %d ms: why", timeout_ms);
	assert_string_equal(output.data, "bye\n");
	assert_int_equal(result.exit_code, 3);
	assert_string_equal(err.text, text);
}

TEST(what_ignores_sigterm_is_killed_after_the_grace)
{
	int64_t timeout_ms =
		RUN_TRAPPED(.argv = SH("trap '' TERM; : >ready; sleep 100 & sleep 100"),
			    .grace_ms = 150);

	assert_nobody();
	assert_int_equal(result.signal, SIGKILL);
	assert_in_range(took_ms, timeout_ms + 150, timeout_ms + 30000);
}

/* Out of the group and the session, with a child of its own, and obeying SIGTERM only
 * after its parent did. */
TEST(descendants_in_sessions_of_their_own_are_killed)
{
	int64_t start = clock_boot_ms();

	assert_fails(RUN(.argv = SH("setsid sh -c 'sleep 100 & sleep 100' & sleep 100"),
			 .timeout_ms = 100, .grace_ms = 60000),
		     ERR_TIMEOUT);
	assert_nobody();
	assert_in_range(clock_boot_ms() - start, 100, 30000);
	assert_fails(RUN(.argv = SH("trap '' TERM;"
				    "setsid sh -c 'setsid sleep 100 & sleep 100' & wait"),
			 .timeout_ms = TRAPPED_MS, .grace_ms = 50),
		     ERR_TIMEOUT);
	assert_nobody();
}

TEST(what_a_child_leaves_behind_ends_with_it)
{
	int64_t start = clock_boot_ms();

	assert_ok(RUN(.argv = SH("sleep 100 & setsid sleep 100 & echo done"),
		      .grace_ms = 60000));
	assert_nobody();
	assert_true(clock_boot_ms() - start < 30000);
	assert_string_equal(output.data, "done\n");
	assert_ok(RUN(.argv = SH("trap '' TERM; (sleep 100; sleep 100) & exit 0"),
		      .grace_ms = 50));
	assert_nobody();
}

/* Even if it holds our pipes, and writes on. */
TEST(jobs_of_a_child_may_go_on_after_its_success)
{
	assert_ok(RUN(.argv = SH("(sleep 100; sleep 100) & setsid sleep 100 & "
				 "yes >&2 & echo done"),
		      .leaves_jobs = true));
	assert_string_equal(output.data, "done\n");
	int64_t until = clock_boot_ms() + 20000;
	while (count_living(0) <= 2 && clock_boot_ms() < until)
		nap();
	assert_int_equal(count_living(SIGKILL) > 2, true);
	/* one that was just being started was not seen */
	while (count_living(SIGKILL) > 0 && clock_boot_ms() < until)
		nap();
	assert_nobody();
}

TEST(jobs_do_not_outlive_a_child_that_failed_or_was_ended)
{
	assert_fails(RUN(.argv = SH("sleep 100 & exit 1"), .leaves_jobs = true),
		     ERR_INTERNAL);
	assert_nobody();
	assert_fails(RUN(.argv = SH("sleep 100 & kill -9 $$"), .leaves_jobs = true),
		     ERR_INTERNAL);
	assert_nobody();
	assert_fails(RUN(.argv = SH("trap 'exit 0' TERM; sleep 100 & wait"),
			 .leaves_jobs = true, .timeout_ms = 100),
		     ERR_TIMEOUT);
	assert_nobody();
}

/* The shell stays for a while after the first one, in which a second one would come. */
TEST(descendants_get_sigterm_once)
{
	RUN_TRAPPED(.argv = SH("trap 'echo TERM; heard=x' TERM;"
			       "sleep 100 & sleep 100 &"
			       "(setsid sleep 100 &); sleep 0.01; : >ready;"
			       "until [ \"$rounds\" = xxxxxxxx ]; do"
			       " wait; sleep 0.02; rounds=$rounds$heard; done"),
		    .grace_ms = 20000);
	assert_string_equal(output.data, "TERM\n");
	assert_nobody();
}

/* Does something in a second thread once the child is ready. */
static pthread_t second;

static void when_ready(void *(*act)(void *), void *arg)
{
	thread_start(&second, "second", act, arg);
}

static void *move_to_now(void *deadline)
{
	wait_until_ready();
	deadline_move(deadline, clock_boot_ms() + 20);
	return NULL;
}

static void *move_near_and_away(void *deadline)
{
	wait_until_ready();
	deadline_move(deadline, clock_boot_ms() + 2000);
	nap();
	deadline_move(deadline, INT64_MAX);
	return NULL;
}

static void *expire(void *deadline)
{
	wait_until_ready();
	deadline_expire(deadline);
	return NULL;
}

static void *request_stop(void *stop)
{
	wait_until_ready();
	stop_request(stop);
	return NULL;
}

TEST(a_deadline_may_come_nearer_while_it_runs)
{
	struct deadline deadline;

	deadline_init(&deadline, clock_boot_ms() + 60 * 1000);
	when_ready(move_to_now, &deadline);
	assert_fails(RUN(.argv = SH("touch ready; sleep 100 & sleep 100"),
			 .deadline = &deadline, .timeout_ms = 30 * 1000),
		     ERR_LOST);
	thread_join(second);
	assert_nobody();
	deadline_clear(&deadline);
}

TEST(a_deadline_may_move_away_while_it_runs)
{
	struct deadline deadline;

	deadline_init(&deadline, clock_boot_ms() + 60 * 1000);
	when_ready(move_near_and_away, &deadline);
	assert_ok(RUN(.argv = SH("touch ready; sleep 2.2"), .deadline = &deadline));
	thread_join(second);
	deadline_clear(&deadline);
}

TEST(nothing_starts_after_the_deadline)
{
	struct deadline deadline;

	deadline_init(&deadline, clock_boot_ms() - 1);
	assert_fails(RUN(.argv = SH("touch ready"), .deadline = &deadline), ERR_LOST);
	assert_false(exists("ready"));
	assert_int_equal(result.exit_code, -1);
	assert_int_equal(result.signal, 0); /* not even killed: it never was */
	deadline_clear(&deadline);
}

/* The grace counts from the deadline, not from when it was heard of. */
TEST(sigkill_comes_at_the_deadline_plus_grace_at_the_latest)
{
	struct deadline deadline;

	deadline_init(&deadline, clock_boot_ms() + 200000);
	int64_t timeout_ms = RUN_TRAPPED(.argv = SH("trap '' TERM; : >ready; sleep 100"),
					 .deadline = &deadline, .grace_ms = 200);
	assert_in_range(took_ms, timeout_ms + 200, timeout_ms + 30000);
	deadline_move(&deadline, clock_boot_ms() + 200);
	assert_fails(RUN(.argv = SH("trap '' TERM; sleep 100"), .deadline = &deadline),
		     ERR_LOST);
	assert_nobody();
	deadline_clear(&deadline);
}

TEST(a_deadline_leaves_no_more_grace_than_its_own)
{
	struct deadline deadline;
	int64_t start = clock_boot_ms();

	deadline_init(&deadline, start + 60000);
	deadline.grace_ms = 100;
	when_ready(move_to_now, &deadline);
	assert_fails(RUN(.argv = SH("trap '' TERM; touch ready; sleep 100"),
			 .deadline = &deadline, .grace_ms = 60000),
		     ERR_LOST);
	thread_join(second);
	assert_in_range(clock_boot_ms() - start, 120, 30000);
	assert_nobody();
	deadline_clear(&deadline);
}

TEST(expiry_kills_without_grace)
{
	struct deadline deadline;
	int64_t start = clock_boot_ms();

	deadline_init(&deadline, INT64_MAX);
	when_ready(expire, &deadline);
	assert_fails(RUN(.argv = SH("trap 'echo bye' TERM; touch ready; sleep 100; wait"),
			 .deadline = &deadline, .grace_ms = 60 * 1000),
		     ERR_LOST);
	thread_join(second);
	assert_nobody();
	assert_int_equal(result.signal, SIGKILL);
	assert_string_equal(output.data, "");
	assert_true(clock_boot_ms() - start < 30000);
	deadline_clear(&deadline);
}

TEST(a_stop_ends_it)
{
	struct stop stop;
	uint64_t before = proc_started();

	stop_init(&stop);
	when_ready(request_stop, &stop);
	assert_fails(RUN(.argv = SH("touch ready; sleep 100 & sleep 100"), .stop = &stop),
		     ERR_CANCELED);
	thread_join(second);
	assert_nobody();
	assert_int_equal(result.signal, SIGTERM);
	assert_int_equal(proc_started(), before + 1);
	assert_fails(RUN(.argv = ARGV("true"), .stop = &stop), ERR_CANCELED);
	assert_int_equal(proc_started(), before + 1);
	stop_clear(&stop);
}

TEST(a_killed_supervisor_takes_its_child_with_it)
{
	int64_t start = clock_boot_ms();

	assert_fails(RUN(.argv = SH("trap '' TERM; (sleep 100; sleep 100) &"
				    "kill -9 $PPID; sleep 100")),
		     ERR_INTERNAL);
	assert_nobody_soon();
	assert_has(err.text, "supervisor");
	assert_int_equal(result.exit_code, -1);
	/* This one escapes, and keeps the pipes open; it is not waited for. */
	assert_fails(RUN(.argv = SH("setsid sh -c 'touch ready; exec sleep 100' &"
				    "until [ -e ready ]; do sleep 0.01; done;"
				    "kill -9 $PPID")),
		     ERR_INTERNAL);
	assert_int_equal(count_living(SIGKILL), 1);
	assert_true(clock_boot_ms() - start < 60000);
}

/* A copy of this process whose exit code is the class of what proc_run says. */
static pid_t fork_daemon(const struct proc_request *request)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		proc_run(request, &result, &err);
		_exit((int)err.class);
	}
	return pid;
}

static pid_t fork_ready_daemon(const struct proc_request *request)
{
	pid_t pid = fork_daemon(request);

	wait_until_ready();
	return pid;
}

static int exit_code_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(the_tree_dies_with_a_killed_daemon)
{
	struct proc_request request = {
		.argv = SH("sleep 100 & setsid sleep 100 & touch ready; sleep 100"),
		.directory = root,
	};
	pid_t daemon = fork_ready_daemon(&request);

	kill(daemon, SIGKILL);
	assert_int_equal(exit_code_of(daemon), -SIGKILL);
	assert_nobody_soon();
}

TEST(what_ignores_sigterm_dies_with_a_killed_daemon)
{
	struct proc_request request = {
		.argv = SH("trap '' TERM; touch ready; sleep 100 & sleep 100"),
		.directory = root,
		.grace_ms = 100,
	};
	pid_t daemon = fork_ready_daemon(&request);

	kill(daemon, SIGKILL);
	assert_int_equal(exit_code_of(daemon), -SIGKILL);
	assert_nobody_soon();
}

/* False: the tree was not ready in its time. */
static bool dies_under_stopped_daemon(const struct proc_request *request, int64_t ms,
				      enum err_class class)
{
	pid_t daemon = fork_daemon(request);
	bool was_ready = is_ready_within(ms);

	kill(daemon, SIGSTOP);
	was_ready &= count_living(0) > 0;
	if (was_ready)
		assert_nobody_soon();
	kill(daemon, SIGCONT);
	assert_int_equal(exit_code_of(daemon), class);
	unlinkat(root_fd, "ready", 0);
	return was_ready;
}

TEST(the_tree_dies_in_time_while_the_daemon_is_stopped)
{
	const char *const *argv = SH("sleep 100 & touch ready; sleep 100");
	bool has_died = false;

	for (int64_t ms = 3000; ms <= 12000 && !has_died; ms *= 2) {
		struct deadline deadline;
		deadline_init(&deadline, clock_boot_ms() + ms);
		has_died = dies_under_stopped_daemon(
			&(struct proc_request){
				.argv = argv, .directory = root, .deadline = &deadline },
			ms, ERR_LOST);
		deadline_clear(&deadline);
	}
	assert_true(has_died);
	has_died = false;
	for (int64_t ms = 3000; ms <= 12000 && !has_died; ms *= 2)
		has_died = dies_under_stopped_daemon(
			&(struct proc_request){
				.argv = argv, .directory = root, .timeout_ms = ms },
			ms, ERR_TIMEOUT);
	assert_true(has_died);
}

/* With proc_run stopped only the kernel is left to kill the child. */
TEST(a_child_does_not_outlive_its_supervisor)
{
	struct proc_request request = {
		.argv = SH("echo $PPID >pid; touch ready; exec sleep 100"),
		.directory = root,
	};
	pid_t daemon = fork_ready_daemon(&request);
	AUTO_STR struct str supervisor = STR_INIT;

	assert_ok(file_read(root_fd, "pid", 20, &supervisor, &err));
	kill(daemon, SIGSTOP);
	kill(atoi(supervisor.data), SIGKILL);
	assert_nobody_soon();
	kill(daemon, SIGCONT);
	assert_int_equal(exit_code_of(daemon), ERR_INTERNAL);
}

/* More than is read at once, all of it after proc_run was stopped. */
TEST(what_was_written_last_is_not_lost)
{
	struct proc_request request = {
		.argv = SH("touch ready; until [ -e go ]; do sleep 0.01; done;"
			   "head -c 60000 /dev/zero; head -c 60000 /dev/zero >&2;"
			   "printf '\nend\n' >&2"),
		.directory = root,
		.output = &output,
		.output_limit = 60000,
	};
	pid_t daemon = fork();

	if (daemon == 0) {
		proc_run(&request, &result, &err);
		_exit(output.len == 60000 && strcmp(result.tail, "end\n") == 0 ? 0 : 1);
	}
	wait_until_ready();
	kill(daemon, SIGSTOP);
	touch("go");
	assert_nobody_soon();
	kill(daemon, SIGCONT);
	assert_int_equal(exit_code_of(daemon), 0);
}

static void *move_often(void *deadline)
{
	while (!exists("enough"))
		deadline_move(deadline, INT64_MAX);
	return NULL;
}

TEST(moves_until_the_last_moment_do_no_harm)
{
	struct deadline deadline;

	deadline_init(&deadline, INT64_MAX);
	thread_start(&second, "mover", move_often, &deadline);
	for (int i = 0; i < 50; i++)
		assert_ok(RUN(.argv = ARGV("true"), .deadline = &deadline));
	touch("enough");
	thread_join(second);
	deadline_clear(&deadline);
}

/* See be_supervisor. */
TEST(a_report_counts_though_the_last_move_was_not_read)
{
	char path[PATH_MAX + 16];

	snprintf(path, sizeof(path), "REFRELAY_RUN=%s", self);
	assert_ok(RUN(.argv = ARGV(self, "daemon"), .env = ARGV(path)));
}

enum { THREADS = 4, ROUNDS = 10 };

static void *run_some(void *arg)
{
	const char *name = arg;

	for (int i = 0; i < ROUNDS; i++) {
		AUTO_STR struct str mine = STR_INIT;
		struct err error;
		struct proc_request request = { .argv = SH("cat; ls /proc/$$/fd"),
						.input = name,
						.input_len = strlen(name),
						.output = &mine,
						.output_limit = 100 };
		if (proc_run(&request, NULL, &error) != 0 ||
		    !text_starts_with(mine.data, name) ||
		    !text_ends_with(mine.data, "0\n1\n2\n"))
			return xasprintf("%s: \"%s\"", error.text, mine.data);
	}
	return NULL;
}

TEST(threads_run_children_side_by_side)
{
	static char names[THREADS][8] = { "ann ", "bob ", "cyd ", "dan " };
	pthread_t threads[THREADS];
	int before = count_fds();

	for (int i = 0; i < THREADS; i++)
		thread_start(&threads[i], "runner", run_some, names[i]);
	for (int i = 0; i < THREADS; i++) {
		void *complaint;
		pthread_join(threads[i], &complaint);
		if (complaint)
			fail_msg("%s", (char *)complaint);
	}
	assert_int_equal(count_fds(), before);
}

/* This program as a supervisor that leaves its messages unread, reports, and is gone
 * before proc_run, stopped meanwhile, looks. */
static int be_supervisor(int control)
{
	struct proc_report report = { .cause = PROC_BY_ITSELF };
	pid_t daemon = getppid();

	kill(daemon, SIGSTOP);
	if (fork() == 0) {
		close(control);
		poll(NULL, 0, 50);
		kill(daemon, SIGCONT);
		_exit(0);
	}
	return send(control, &report, sizeof(report), 0) < 0;
}

static int be_daemon(void)
{
	struct deadline deadline;

	deadline_init(&deadline, INT64_MAX);
	int status = proc_run(
		&(struct proc_request){ .argv = ARGV("true"), .deadline = &deadline },
		NULL, &err);
	deadline_clear(&deadline);
	return status != 0;
}

/* This program as a child of its own. */
static int be_child(const char *what)
{
	if (strcmp(what, "path") == 0)
		return puts(proc_supervisor_path()) < 0;
	if (strcmp(what, "daemon") == 0)
		return be_daemon();
	if (proc_run(&(struct proc_request){ .argv = ARGV("true") }, NULL, &err) == 0)
		return 1;
	printf("%s: %s: %s\n", err.text, err_class_name(err.class), err.remedy);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(output_is_collected_and_success_is_zero),
		CASE(all_but_argv_may_be_left_out),
		CASE(an_exit_code_is_told_with_the_best_line_of_stderr),
		CASE(a_signal_is_told),
		CASE(what_is_not_the_childs_own_doing_has_a_code),
		CASE(secrets_in_stderr_are_masked),
		CASE(a_tail_that_was_cut_starts_with_a_whole_line),
		CASE(ten_megabytes_pass_through_cat_without_deadlock),
		CASE(more_output_than_allowed_ends_it),
		CASE(what_a_child_writes_and_holds_is_bounded),
		CASE(a_missing_program_is_not_one_that_exits_with_127),
		CASE(a_missing_supervisor_is_named),
		CASE(directory_and_environment_are_given),
		CASE(the_child_has_default_signals_but_sigxfsz_whatever_ours_are),
		CASE(the_terminal_reaches_neither_child_nor_supervisor),
		CASE(only_the_files_to_be_kept_are_inherited),
		CASE(the_end_of_a_kept_pipe_is_seen_once_the_child_closes_it),
		CASE(no_descriptor_is_lost),
		CASE(a_timeout_kills_the_whole_tree),
		CASE(sigterm_comes_first_and_its_answer_is_kept),
		CASE(what_ignores_sigterm_is_killed_after_the_grace),
		CASE(descendants_in_sessions_of_their_own_are_killed),
		CASE(what_a_child_leaves_behind_ends_with_it),
		CASE(jobs_of_a_child_may_go_on_after_its_success),
		CASE(jobs_do_not_outlive_a_child_that_failed_or_was_ended),
		CASE(descendants_get_sigterm_once),
		CASE(a_deadline_may_come_nearer_while_it_runs),
		CASE(a_deadline_may_move_away_while_it_runs),
		CASE(nothing_starts_after_the_deadline),
		CASE(sigkill_comes_at_the_deadline_plus_grace_at_the_latest),
		CASE(a_deadline_leaves_no_more_grace_than_its_own),
		CASE(expiry_kills_without_grace),
		CASE(a_stop_ends_it),
		CASE(a_killed_supervisor_takes_its_child_with_it),
		CASE(the_tree_dies_with_a_killed_daemon),
		CASE(what_ignores_sigterm_dies_with_a_killed_daemon),
		CASE(the_tree_dies_in_time_while_the_daemon_is_stopped),
		CASE(a_child_does_not_outlive_its_supervisor),
		CASE(what_was_written_last_is_not_lost),
		CASE(moves_until_the_last_moment_do_no_harm),
		CASE(a_report_counts_though_the_last_move_was_not_read),
		CASE(threads_run_children_side_by_side),
	};

	if (argc > 2)
		return be_supervisor(atoi(argv[1]));
	if (argc > 1)
		return be_child(argv[1]);
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return 1;
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	str_clear(&output);
	return failed;
}
