/*
 * What a confined child can do, and what it cannot. Each attempt is also made by a free
 * child, which succeeds: so it is the confinement that refuses.
 */
#include "test.h"

#include <sys/syscall.h>

#include "base/file.h"
#include "base/proc.h"
#include "git/git_reach.h"

static struct str output = STR_INIT;
static char *inside, *outside; /* directories in `root` */

static void put(const char *directory, const char *name, const char *text)
{
	AUTO_FREE char *path = xasprintf("%s/%s", directory, name);

	assert_ok(file_replace(AT_FDCWD, path, text, strlen(text), FILE_NO_SYNC, &err));
}

static int set_up(void **state)
{
	int result = test_make_root(state);

	inside = xasprintf("%s/inside", root);
	outside = xasprintf("%s/outside", root);
	assert_int_equal(mkdir(inside, 0700), 0);
	assert_int_equal(mkdir(outside, 0700), 0);
	put(inside, "file", "mine\n");
	put(outside, "file", "another's\n");
	str_reset(&output);
	return result;
}

static int tear_down(void **state)
{
	free(inside);
	free(outside);
	str_clear(&output);
	return test_remove_root(state);
}

#define CONFINE_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* reads NULL: free. */
static int run(const char *const *argv, const char *const *reads)
{
	AUTO_FREE char *variable = xasprintf("OUTSIDE=%s", outside);
	const char *const env[] = { "PATH=/usr/bin:/bin", "LC_ALL=C", variable, NULL };

	str_reset(&output);
	return proc_run(&(struct proc_request){ .argv = argv,
						.env = env,
						.directory = inside,
						.reads = reads,
						.output = &output,
						.output_limit = 65536 },
			NULL, &err);
}

static int run_shell(const char *script, const char *const *reads)
{
	const char *const argv[] = { "sh", "-c", script, NULL };

	return run(argv, reads);
}

static const char *const nothing_else[] = { NULL };

static void require_landlock(void)
{
	if (!proc_can_confine())
		skip(); /* the kernel has no Landlock */
}

/* Each command fails in a confined child, and succeeds in a free one. */
static void assert_refused(const char *const *scripts, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (run_shell(scripts[i], nothing_else) == 0)
			fail_msg("a confined child can: %s", scripts[i]);
		if (run_shell(scripts[i], NULL) != 0)
			fail_msg("a free child cannot: %s: %s", scripts[i], err.text);
	}
}

TEST(it_reads_its_directory_and_what_is_named)
{
	const char *const named[] = { outside, "/no/such/directory", NULL };

	require_landlock();
	assert_ok(run_shell("cat file && ls . >/dev/null", nothing_else));
	assert_string_equal(output.data, "mine\n");
	assert_fails(run_shell("cat $OUTSIDE/file", nothing_else), ERR_INTERNAL);
	assert_string_equal(output.data, "");
	assert_ok(run_shell("cat $OUTSIDE/file", named));
	assert_string_equal(output.data, "another's\n");
	assert_fails(run_shell("echo x >$OUTSIDE/file", named), ERR_INTERNAL);
}

TEST(it_reads_nothing_else_by_whatever_way)
{
	static const char *const scripts[] = {
		"cat ../outside/file", "cat link", "cat /proc/$PPID/cmdline", "ls /tmp",
		"cat /etc/hosts",
	};

	require_landlock();
	assert_ok(run_shell("ln -s ../outside/file link", NULL));
	assert_refused(scripts, ARRAY_SIZE(scripts));
}

TEST(it_writes_nothing)
{
	static const char *const scripts[] = {
		"echo x >>file",
		"echo x >new",
		"echo x >$OUTSIDE/new && rm $OUTSIDE/new",
	};

	require_landlock();
	assert_refused(scripts, ARRAY_SIZE(scripts));
	assert_ok(run_shell("echo x >/dev/null", nothing_else));
}

/* The filter refuses these on all kernels. */
TEST(it_changes_nothing)
{
	static const char *const scripts[] = {
		"mkdir new && rmdir new",
		"ln file other && rm other",
		"ln -s file other && rm other",
		"mv file other && mv other file",
		"touch file",
		"chmod 0644 file",
		"mkfifo new && rm new",
	};

	assert_refused(scripts, ARRAY_SIZE(scripts));
}

static const char attempts[] =
	"import ctypes, os, socket, signal, sys\n"
	"libc = ctypes.CDLL(None, use_errno=True)\n"
	"def call(number, *arguments):\n"
	"    if libc.syscall(number, *map(ctypes.c_long, arguments)) == -1:\n"
	"        raise OSError(ctypes.get_errno(), 'no')\n"
	"def connect():\n"
	"    socket.socket(socket.AF_UNIX).bind('\\0confine-%d' % os.getpid())\n"
	"tries = {\n"
	"    'inet': lambda: socket.socket(socket.AF_INET),\n"
	"    'unix': connect,\n"
	"    'namespace': lambda: call(NR['unshare'], 0x04000000),\n"
	"    'keys': lambda: call(NR['keyctl'], 0, -3, 1),\n"
	"    'memory': lambda: call(NR['process_vm_readv'], os.getpid(), 0, 0, 0, 0, "
	"0),\n"
	"    'ipc': lambda: call(NR['msgget'], 0, 0o1600),\n"
	"    'fork': lambda: os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0),\n"
	"}\n"
	"for name, attempt in tries.items():\n"
	"    try:\n"
	"        attempt()\n"
	"        print(name)\n"
	"    except OSError as error:\n"
	"        if error.errno not in (1, 13):\n"
	"            print(name, error.errno)\n";

static int run_attempts(const char *const *reads)
{
	AUTO_FREE char *script = xasprintf(
		"NR = {'unshare': %d, 'keyctl': %d, 'process_vm_readv': %d, "
		"'msgget': %d}\n%s",
		SYS_unshare, SYS_keyctl, SYS_process_vm_readv, SYS_msgget, attempts);
	const char *const argv[] = { "/usr/bin/python3", "-c", script, NULL };

	return run(argv, reads);
}

TEST(it_reaches_nobody_but_runs_programs)
{
	assert_ok(run_attempts(NULL));
	assert_string_equal(output.data,
			    "inet\nunix\nnamespace\nkeys\nmemory\nipc\nfork\n");
	assert_ok(run_attempts(nothing_else));
	assert_string_equal(output.data, "fork\n");
}

/* The filter's answers. Landlock's would be EACCES; and where its version is an old one,
 * or there is no Landlock at all, each of these would be done. */
struct answer {
	const char *attempt;
	const char *free; /* NULL: it depends on the kernel */
	const char *confined;
};

static const struct answer openings[] = {
	{ "os.open('file', os.O_RDONLY | os.O_TRUNC)", "done", "EPERM" },
	{ "os.open('file', os.O_ACCMODE | os.O_TRUNC)", "done", "EPERM" },
	{ "os.open('file', os.O_RDONLY | os.O_TRUNC | os.O_CREAT, 0o600)", "done",
	  "EPERM" },
	{ "os.open('file', os.O_RDONLY)", "done", "done" },
	{ "os.open('/dev/null', os.O_WRONLY | os.O_CREAT | os.O_TRUNC)", "done", "done" },
	{ "os.open('/dev/null', os.O_RDWR | os.O_TRUNC)", "done", "done" },
	{ "call(SYS['openat2'], -100, b'file', struct.pack('QQQ', 0, 0, 0), 24)", NULL,
	  "ENOSYS" },
	{ "call(SYS['fchmodat2'], -100, b'file', 0o600, 0)", NULL, "EPERM" },
#ifdef __x86_64__
	{ "call(SYS['open'], b'file', os.O_RDONLY | os.O_TRUNC)", "done", "EPERM" },
	{ "call(SYS['open'], b'file', os.O_ACCMODE | os.O_TRUNC)", "done", "EPERM" },
	{ "call(SYS['open'], b'file', os.O_RDONLY)", "done", "done" },
	{ "call(SYS['open'], b'/dev/null', os.O_WRONLY | os.O_TRUNC)", "done", "done" },
	{ "call(SYS['creat'], b'file', 0o600)", "done", "EPERM" },
#endif
};

/* The parent is the supervisor: of the same user, and not confined. Nothing here may
 * reach further where the filter fails: a priority of a group stands for those of a user,
 * too. */
static const struct answer reaches[] = {
	{ "resource.prlimit(parent, resource.RLIMIT_CORE)", "done", "EPERM" },
	{ "resource.prlimit(0, resource.RLIMIT_CORE)", "done", "done" },
	{ "os.sched_setaffinity(parent, os.sched_getaffinity(parent))", "done", "EPERM" },
	{ "os.sched_setaffinity(0, os.sched_getaffinity(0))", "done", "done" },
	{ "os.sched_setparam(parent, os.sched_param(0))", "done", "EPERM" },
	{ "os.sched_setparam(0, os.sched_param(0))", "done", "done" },
	{ "os.sched_setscheduler(parent, os.SCHED_OTHER, os.sched_param(0))", "done",
	  "EPERM" },
	{ "os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))", "done", "done" },
	{ "call(SYS['sched_setattr'], parent, batch, 0)", "done", "EPERM" },
	{ "call(SYS['sched_setattr'], 0, batch, 0)", "done", "done" },
	{ "os.setpriority(os.PRIO_PROCESS, parent, priority)", "done", "EPERM" },
	{ "os.setpriority(os.PRIO_PROCESS, 0, priority)", "done", "done" },
	{ "os.setpriority(os.PRIO_PGRP, 0, priority)", "done", "EPERM" },
	{ "call(SYS['ioprio_set'], 1, parent, 0)", "done", "EPERM" },
	{ "call(SYS['ioprio_set'], 1, 0, 0)", "done", "done" },
	{ "call(SYS['ioprio_set'], 2, 0, 0)", "done", "EPERM" },
	{ "os.close(os.pidfd_open(parent))", "done", "EPERM" },
	{ "call(SYS['pidfd_send_signal'], -1, 0, 0, 0)", "EBADF", "EPERM" },
	{ "call(SYS['rt_sigqueueinfo'], parent, 0, queued)", "done", "EPERM" },
	{ "call(SYS['rt_tgsigqueueinfo'], parent, parent, 0, queued)", "done", "EPERM" },
	{ "call(SYS['migrate_pages'], parent, 0, 0, 0)", NULL, "EPERM" },
	{ "call(SYS['move_pages'], parent, 0, 0, 0, 0, 0)", NULL, "EPERM" },
	{ "os.kill(os.getpid(), 0)", "done", "done" },
	{ "call(SYS['shmctl'], -1, 2, 0)", "EINVAL", "EPERM" },
	{ "call(SYS['msgsnd'], -1, queued, 1, 0)", "EINVAL", "EPERM" },
	{ "call(SYS['msgrcv'], -1, queued, 1, 0, 0)", "EINVAL", "EPERM" },
	{ "call(SYS['msgctl'], -1, 0, 0)", "EINVAL", "EPERM" },
	{ "call(SYS['semop'], -1, queued, 1)", "EINVAL", "EPERM" },
	{ "call(SYS['semtimedop'], -1, queued, 1, 0)", "EINVAL", "EPERM" },
	{ "call(SYS['semctl'], -1, 0, 0, 0)", "EINVAL", "EPERM" },
};

static const char answer_helpers[] =
	"import ctypes, errno, os, resource, struct\n"
	"libc = ctypes.CDLL(None, use_errno=True)\n"
	"parent = os.getppid()\n"
	"priority = os.getpriority(os.PRIO_PROCESS, 0)\n"
	"batch = struct.pack('IIQiIQQQ', 48, os.SCHED_BATCH, 0, priority, 0, 0, 0, 0)\n"
	"queued = struct.pack('iii116x', 0, 0, -1)\n"
	"def call(number, *arguments):\n"
	"    given = [a if isinstance(a, bytes) else ctypes.c_long(a) for a in "
	"arguments]\n"
	"    if libc.syscall(number, *given) == -1:\n"
	"        raise OSError(ctypes.get_errno(), 'no')\n"
	"def answer(attempt):\n"
	"    try:\n"
	"        attempt()\n"
	"        return 'done'\n"
	"    except OSError as error:\n"
	"        return errno.errorcode[error.errno]\n";

static void add_numbers(struct str *script)
{
	static const struct {
		const char *name;
		int number;
	} numbers[] = {
		{ "openat2", SYS_openat2 },
		{ "fchmodat2", 452 }, /* headers may be older */
#ifdef __x86_64__
		{ "open", SYS_open },
		{ "creat", SYS_creat },
#endif
		{ "sched_setattr", SYS_sched_setattr },
		{ "ioprio_set", SYS_ioprio_set },
		{ "pidfd_send_signal", SYS_pidfd_send_signal },
		{ "rt_sigqueueinfo", SYS_rt_sigqueueinfo },
		{ "rt_tgsigqueueinfo", SYS_rt_tgsigqueueinfo },
		{ "migrate_pages", SYS_migrate_pages },
		{ "move_pages", SYS_move_pages },
		{ "shmctl", SYS_shmctl },
		{ "msgsnd", SYS_msgsnd },
		{ "msgrcv", SYS_msgrcv },
		{ "msgctl", SYS_msgctl },
		{ "semop", SYS_semop },
		{ "semtimedop", SYS_semtimedop },
		{ "semctl", SYS_semctl },
	};

	str_add(script, "SYS = {");
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		str_addf(script, "'%s': %d, ", numbers[i].name, numbers[i].number);
	str_add(script, "}\n");
}

static void assert_answers(const struct answer *answers, size_t count, bool confined)
{
	AUTO_STR struct str script = STR_INIT, wanted = STR_INIT;

	str_add(&script, answer_helpers);
	add_numbers(&script);
	for (size_t i = 0; i < count; i++) {
		const char *answer = confined ? answers[i].confined : answers[i].free;

		if (!answer)
			continue;
		str_addf(&script, "print(\"%s:\", answer(lambda: %s))\n",
			 answers[i].attempt, answers[i].attempt);
		str_addf(&wanted, "%s: %s\n", answers[i].attempt, answer);
	}
	const char *const argv[] = { "/usr/bin/python3", "-c", script.data, NULL };
	assert_ok(run(argv, confined ? nothing_else : NULL));
	assert_string_equal(output.data, wanted.data);
}

TEST(it_empties_nothing_by_opening_it)
{
	AUTO_FREE char *path = xasprintf("%s/file", inside);
	struct stat st;

	assert_answers(openings, ARRAY_SIZE(openings), true);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, strlen("mine\n"));
	assert_answers(openings, ARRAY_SIZE(openings), false);
}

TEST(it_changes_no_other_process)
{
	assert_answers(reaches, ARRAY_SIZE(reaches), true);
	assert_answers(reaches, ARRAY_SIZE(reaches), false);
}

TEST(it_signals_no_strangers)
{
	require_landlock();
	if (syscall(SYS_landlock_create_ruleset, NULL, 0, 1) < 6)
		skip(); /* Landlock of this kernel knows no signals */
	assert_ok(run_shell("kill -0 $PPID", NULL));
	assert_fails(run_shell("kill -0 $PPID", nothing_else), ERR_INTERNAL);
	assert_ok(run_shell("sleep 300 & kill $!", nothing_else));
}

TEST(what_it_starts_is_confined_too)
{
	require_landlock();
	assert_fails(run_shell("sh -c 'cat ../outside/file'", nothing_else),
		     ERR_INTERNAL);
	assert_fails(run_shell("setsid sh -c 'echo x >file'", nothing_else),
		     ERR_INTERNAL);
}

TEST(a_program_that_is_not_there_is_reported_as_ever)
{
	const char *const argv[] = { "no-such-program", NULL };

	assert_fails(run(argv, nothing_else), ERR_CONFIG);
	assert_string_equal(err.text,
			    "cannot run no-such-program: No such file or directory");
}

static void assert_reach(const char *const *wanted)
{
	git_reach_paths paths = { 0 };
	AUTO_CLOSE int dir = open(inside, O_PATH | O_DIRECTORY | O_CLOEXEC);
	size_t count = 0;

	git_reach_find(dir, &paths);
	for (; wanted[count]; count++) {
		assert_true(count < paths.count);
		assert_string_equal(paths.items[count], wanted[count]);
	}
	assert_int_equal(paths.count, count);
	vec_clear_owned(&paths);
}

TEST(a_repository_reaches_to_its_links_and_alternates)
{
	AUTO_FREE char *info = xasprintf("%s/objects/info", inside);
	AUTO_FREE char *other = xasprintf("%s/objects/info", outside);
	AUTO_FREE char *command = xasprintf("mkdir -p '%s' '%s'", info, other);
	AUTO_FREE char *line = xasprintf("# a remark\n%s/objects\n\n", outside);
	AUTO_FREE char *objects = xasprintf("%s/objects", outside);
	AUTO_FREE char *next = xasprintf("%s/../third", objects);
	AUTO_FREE char *link = xasprintf("%s/packed-refs", inside);

	assert_ok(run_shell(command, NULL));
	assert_reach((const char *const[]){ NULL });
	put(info, "alternates", line);
	assert_reach((const char *const[]){ objects, NULL });
	put(other, "alternates", "../third\n");
	assert_int_equal(symlink("../outside/file", link), 0);
	assert_reach((const char *const[]){ "packed-refs", objects, next, NULL });
	put(info, "alternates", "\"quoted\"\n");
	assert_reach((const char *const[]){ "packed-refs", "/", NULL });
	put(inside, "commondir", "../outside\n");
	assert_reach((const char *const[]){ "/", NULL });
}

/* More than can be named is everything. */
TEST(a_repository_of_many_alternates_reaches_everywhere)
{
	AUTO_FREE char *info = xasprintf("%s/objects/info", inside);
	AUTO_FREE char *command = xasprintf("mkdir -p '%s'", info);
	AUTO_STR struct str lines = STR_INIT;

	for (int i = 0; i < PROC_READS_MAX; i++)
		str_addf(&lines, "/srv/%d\n", i);
	assert_ok(run_shell(command, NULL));
	put(info, "alternates", lines.data);
	assert_reach((const char *const[]){ "/", NULL });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CONFINE_CASE(it_reads_its_directory_and_what_is_named),
		CONFINE_CASE(it_reads_nothing_else_by_whatever_way),
		CONFINE_CASE(it_writes_nothing),
		CONFINE_CASE(it_changes_nothing),
		CONFINE_CASE(it_reaches_nobody_but_runs_programs),
		CONFINE_CASE(it_empties_nothing_by_opening_it),
		CONFINE_CASE(it_changes_no_other_process),
		CONFINE_CASE(it_signals_no_strangers),
		CONFINE_CASE(what_it_starts_is_confined_too),
		CONFINE_CASE(a_program_that_is_not_there_is_reported_as_ever),
		CONFINE_CASE(a_repository_reaches_to_its_links_and_alternates),
		CONFINE_CASE(a_repository_of_many_alternates_reaches_everywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
