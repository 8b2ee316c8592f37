/*
 * Every descriptor is O_CLOEXEC, so other threads' children cannot keep ours open. The
 * supervisor starts with its signals blocked: none can hit it unprepared.
 */
#include "base/proc_run.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/vec.h"

#define DEFAULT_GRACE_MS 2000
#define STREAM_GRACE_MS 200   /* it only reads: there is little to tidy up */
#define STREAM_PIPE (1 << 20) /* what its writer may be ahead, if the kernel allows */

static pthread_once_t path_once = PTHREAD_ONCE_INIT;
static char supervisor_path[PATH_MAX];
static _Atomic uint64_t started;

uint64_t proc_started(void)
{
	return atomic_load(&started);
}

static void proc_start_require_success(int result)
{
	if (result != 0)
		abort();
}

/* Absolute, since the child may start in another directory. */
static void find_supervisor(void)
{
	const char *given = getenv("REFRELAY_RUN");
	AUTO_FREE char *here = NULL, *self = NULL;
	char *slash;

	if (given && *given) {
		here = realpath(given, NULL);
		snprintf(supervisor_path, sizeof(supervisor_path), "%s",
			 here ? here : given);
		return;
	}
	self = realpath("/proc/self/exe", NULL);
	slash = self ? strrchr(self, '/') : NULL;
	if (slash)
		*slash = '\0';
	here = xasprintf("%s/refrelay-run", self ? self : "");
	if (access(here, X_OK) == 0)
		snprintf(supervisor_path, sizeof(supervisor_path), "%s", here);
	else
		snprintf(supervisor_path, sizeof(supervisor_path),
			 "%s/" REFRELAY_LIBEXEC "/refrelay-run", self ? self : "");
}

const char *proc_supervisor_path(void)
{
	proc_start_require_success(pthread_once(&path_once, find_supervisor));
	return supervisor_path;
}

void run_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void run_init(struct run *run, const struct proc_request *request)
{
	*run = (struct run){
		.request = request,
		.input = -1,
		.feed = -1,
		.output = { -1, -1 },
		.errors = { -1, -1 },
		.control = { -1, -1 },
		.directory = -1,
		.report = { .exit_code = -1 },
		.heard_at = clock_boot_ms(),
		.room = request->output_limit,
		.tail = STR_INIT,
	};
}

/* What only the supervisor and the child may hold, for the ends of files to be seen. */
static void close_theirs(struct run *run)
{
	run_close(&run->input);
	run_close(&run->output[1]);
	run_close(&run->errors[1]);
	run_close(&run->control[1]);
	run_close(&run->directory);
}

void run_clear(struct run *run)
{
	close_theirs(run);
	run_close(&run->feed);
	run_close(&run->output[0]);
	run_close(&run->errors[0]);
	run_close(&run->control[0]);
	str_clear(&run->tail);
}

/* A socket, not a pipe: writing to one that nobody reads any more can be told to raise
 * no signal. */
static int open_feed(struct run *run, struct err *err)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
		return err_errno(err, "cannot make a socket pair");
	run->input = ends[0];
	run->feed = ends[1];
	shutdown(run->feed, SHUT_RD);
	if (fcntl(run->feed, F_SETFL, O_NONBLOCK) != 0)
		return err_errno(err, "cannot set up a socket");
	return 0;
}

/* A file in memory: a child that does not read it all, or writes before it reads,
 * cannot block us. */
static int open_input(struct run *run, struct err *err)
{
	const struct proc_request *request = run->request;

	if (run->input >= 0)
		return 0;
	if (run->is_fed)
		return open_feed(run, err);
	if (request->input_len == 0) {
		run->input = open("/dev/null", O_RDONLY | O_CLOEXEC);
		return run->input >= 0 ? 0 : err_errno(err, "cannot open /dev/null");
	}
	run->input = memfd_create("stdin", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (run->input < 0)
		return err_errno(err, "cannot make a file in memory");
	if (file_write_all(run->input, request->input, request->input_len,
			   "a file in memory", err) != 0)
		return -1;
	if (lseek(run->input, 0, SEEK_SET) != 0 ||
	    fcntl(run->input, F_ADD_SEALS,
		  F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
		return err_errno(err, "cannot seal a file in memory");
	return 0;
}

/* Only our end never blocks: the flag belongs to one end. */
static int open_pipe(int ends[2], struct err *err)
{
	if (pipe2(ends, O_CLOEXEC) != 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
		return err_errno(err, "cannot make a pipe");
	return 0;
}

static int open_output(struct run *run, struct err *err)
{
	if (run->request->output || run->is_streamed) {
		if (open_pipe(run->output, err) != 0)
			return -1;
		if (run->is_streamed)
			fcntl(run->output[0], F_SETPIPE_SZ, STREAM_PIPE);
		return 0;
	}
	run->output[1] = open("/dev/null", O_WRONLY | O_CLOEXEC);
	return run->output[1] >= 0 ? 0 : err_errno(err, "cannot open /dev/null");
}

static int proc_start_open_directory(struct run *run, struct err *err)
{
	const char *path = run->request->directory;
	int fd = run->request->directory_fd;

	if (fd > 0)
		run->directory = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	else if (path)
		run->directory = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (run->directory < 0 && (fd > 0 || path))
		return err_errno(err, "cannot enter directory %s", path ? path : "");
	return 0;
}

int run_open(struct run *run, struct err *err)
{
	if (proc_start_open_directory(run, err) != 0)
		return -1;
	if (open_input(run, err) != 0 || open_output(run, err) != 0 ||
	    open_pipe(run->errors, err) != 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, run->control) != 0)
		return err_errno(err, "cannot make a socket pair");
	return 0;
}

/* Number and copy are equal where the child's descriptor keeps its number; that clears
 * FD_CLOEXEC in the child alone. */
static void proc_start_add_files(posix_spawn_file_actions_t *actions,
				 const struct run *run)
{
	const int *keep = run->request->keep_fds;

	assert(run->input > 2 && run->output[1] > 2 && run->errors[1] > 2);
	proc_start_require_success(
		posix_spawn_file_actions_adddup2(actions, run->input, STDIN_FILENO));
	proc_start_require_success(
		posix_spawn_file_actions_adddup2(actions, run->output[1], STDOUT_FILENO));
	proc_start_require_success(
		posix_spawn_file_actions_adddup2(actions, run->errors[1], STDERR_FILENO));
	proc_start_require_success(posix_spawn_file_actions_adddup2(
		actions, run->control[1], run->control[1]));
	for (; keep && *keep >= 0; keep++)
		proc_start_require_success(
			posix_spawn_file_actions_adddup2(actions, *keep, *keep));
	if (run->directory >= 0)
		proc_start_require_success(
			posix_spawn_file_actions_addfchdir_np(actions, run->directory));
}

static void set_attributes(posix_spawnattr_t *attributes)
{
	sigset_t mask, all;

	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGHUP);
	sigfillset(&all);
	proc_start_require_success(posix_spawnattr_setsigmask(attributes, &mask));
	proc_start_require_success(posix_spawnattr_setsigdefault(attributes, &all));
	proc_start_require_success(posix_spawnattr_setflags(
		attributes,
		POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID));
}

/* posix_spawn only reads them, but its type is older than const. */
static char *const *unconst(const char *const *list)
{
	union {
		const char *const *in;
		char *const *out;
	} same = { .in = list };

	return same.out;
}

static int posix_spawn_all(struct run *run, const char *const *argv)
{
	const char *const *env = run->request->env;
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int result;

	proc_start_require_success(posix_spawn_file_actions_init(&actions));
	proc_start_require_success(posix_spawnattr_init(&attributes));
	proc_start_add_files(&actions, run);
	set_attributes(&attributes);
	result = posix_spawn(&run->supervisor, argv[0], &actions, &attributes,
			     unconst(argv), env ? unconst(env) : environ);
	proc_start_require_success(posix_spawnattr_destroy(&attributes));
	proc_start_require_success(posix_spawn_file_actions_destroy(&actions));
	return result;
}

static int cannot_spawn(const struct run *run, struct err *err)
{
	bool missing = errno == ENOENT || errno == EACCES || errno == ENOEXEC;

	err_errno(err, "cannot start the supervisor %s for %s", proc_supervisor_path(),
		  run->request->argv[0]);
	if (!missing)
		return -1;
	err->class = ERR_CONFIG;
	return err_remedy(err, "install refrelay-run there, or set REFRELAY_RUN to its "
			       "path");
}

static void list_fds(const struct run *run, struct str *list)
{
	const int *keep = run->request->keep_fds;
	int count = 1;

	str_addf(list, "%d", run->control[1]);
	for (; keep && *keep >= 0; keep++, count++)
		str_addf(list, ",%d", *keep);
	assert(count <= PROC_FDS_MAX);
}

int run_start(struct run *run, struct err *err)
{
	const struct proc_request *request = run->request;
	bool only_reads = run->is_streamed && !run->is_fed;
	int64_t grace_ms = request->grace_ms > 0 ? request->grace_ms
			   : only_reads          ? STREAM_GRACE_MS
						 : DEFAULT_GRACE_MS;
	int64_t timeout_at = request->timeout_ms > 0
				     ? clock_boot_ms() + request->timeout_ms
				     : INT64_MAX;
	VEC(const char *) argv = { 0 };
	AUTO_STR struct str fds = STR_INIT;
	char grace[24], timeout[24], nice[24];

	list_fds(run, &fds);
	snprintf(grace, sizeof(grace), "%" PRId64, grace_ms);
	snprintf(timeout, sizeof(timeout), "%" PRId64, timeout_at);
	snprintf(nice, sizeof(nice), "%d", request->yields ? PROC_NICE : 0);
	vec_add(&argv, proc_supervisor_path());
	vec_add(&argv, fds.data);
	vec_add(&argv, grace);
	vec_add(&argv, timeout);
	vec_add(&argv, nice);
	for (const char *const *arg = request->argv; *arg; arg++)
		vec_add(&argv, *arg);
	vec_add(&argv, NULL);
	errno = posix_spawn_all(run, argv.items);
	vec_clear(&argv);
	if (errno != 0)
		return cannot_spawn(run, err);
	atomic_fetch_add(&started, 1);
	close_theirs(run);
	return 0;
}
