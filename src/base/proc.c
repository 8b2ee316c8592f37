/*
 * One run is one refrelay-run, which starts the program and outlives all that comes of
 * it. This side only feeds and reads; nobody's death depends on it (proc_wire.h).
 *
 * The report comes after the last descendant was reaped, or those that count. So whatever
 * they wrote is in the pipes by then, and reading until a pipe is empty gets all of it;
 * the end of the file is not waited for, since a stranger may have been handed the pipe.
 */
#include "base/proc.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/proc_run.h"
#include "base/vec.h"

/* Masks secrets before the text is cut to size, and begins with a whole line: half a
 * secret has no mark to be known by. */
static void fill_tail(struct run *run, char tail[], size_t size)
{
	AUTO_STR struct str clean = STR_INIT;
	struct str *raw = &run->tail;
	const char *from = raw->data;

	for (size_t i = 0; i < raw->len; i++)
		if (raw->data[i] == '\0')
			raw->data[i] = ' ';
	if (run->tail_is_cut) {
		from = strpbrk(raw->data, "\r\n");
		from = from ? from + 1 : "";
	}
	log_redact(from, &clean);
	snprintf(tail, size, "%s",
		 clean.len < size ? clean.data : clean.data + clean.len - (size - 1));
}

/* The line that explains the end: the last that git marks so, else the last one. */
static void find_line(const char *tail, char line[], size_t size)
{
	bool marked = false;
	size_t len;

	line[0] = '\0';
	for (; *tail; tail += len + (tail[len] != '\0')) {
		len = strcspn(tail, "\r\n");
		bool marks = text_starts_with(tail, "fatal:") ||
			     text_starts_with(tail, "error:");
		if (strspn(tail, " \t") >= len || (marked && !marks))
			continue;
		marked = marks;
		snprintf(line, size, ": %.*s", (int)len, tail);
	}
}

/* Whatever kept it from running, no file that it was to work on did: a code that no such
 * file gives. What passes by itself keeps its own. */
static void blame_machine(struct err *err)
{
	if (err->sys_errno != EAGAIN && err->sys_errno != EMFILE &&
	    err->sys_errno != ENFILE)
		err->sys_errno = ENOEXEC;
}

static int cannot_run(const char *name, int error, struct err *err)
{
	errno = error;
	err_errno(err, "cannot run %s", name);
	blame_machine(err);
	if (err->class != ERR_MISSING && err->class != ERR_CONFIG && error != ENOEXEC)
		return -1;
	err->class = ERR_CONFIG;
	return err_remedy(err, "install %s, or correct PATH", name);
}

static int cannot_watch(const char *name, int error, struct err *err)
{
	errno = error;
	err_errno(err, "refrelay-run cannot supervise %s", name);
	blame_machine(err);
	if (error != ENOENT)
		return -1;
	err->class = ERR_CONFIG;
	return err_remedy(err, "mount /proc; the kernel needs CONFIG_PROC_CHILDREN");
}

static int cannot_confine(const char *name, int error, struct err *err)
{
	errno = error;
	err_errno(err, "refrelay-run cannot confine %s", name);
	blame_machine(err);
	return -1;
}

static int no_report(const char *name, struct err *err)
{
	err_set(err, ERR_INTERNAL, "the supervisor of %s was killed, and %s with it",
		name, name);
	err->sys_errno = ENOMEM;
	return err_remedy(err, "look in the kernel's log whether memory ran out");
}

static int was_silent(const struct run *run, const char *name, const char *line,
		      struct err *err)
{
	err_set(err, ERR_TIMEOUT, "%s: nothing was heard of it for %g s%s", name,
		(double)run->request->silence_ms / 1000, line);
	return err_because(err, REASON_SILENT);
}

/* Of a signal from outside: mostly from a kernel that has no memory left, else from a
 * person. 0: what a program does to itself. */
static int errno_of_signal(int signal)
{
	switch (signal) {
	case SIGKILL:
		return ENOMEM;
	case SIGHUP:
	case SIGINT:
	case SIGTERM:
		return EINTR;
	default:
		return 0;
	}
}

static int was_killed(const char *name, int signal, const char *line, struct err *err)
{
	err_set(err, ERR_INTERNAL, "%s was killed by signal %d%s", name, signal, line);
	err->sys_errno = errno_of_signal(signal);
	return signal == SIGKILL
		       ? err_remedy(err,
				    "look in the kernel's log whether memory ran out")
		       : -1;
}

static int judge_exit(const struct run *run, const char *name, const char *line,
		      struct err *err)
{
	const struct stop *stop = run->request->stop;

	if (run->report.exit_code == 0)
		return 0;
	if (run->is_silent)
		return was_silent(run, name, line, err);
	if (run->is_asked_to_end || (stop && stop_is_requested(stop)))
		return err_set(err, ERR_CANCELED, "%s was stopped%s", name, line);
	if (run->report.signal != 0)
		return was_killed(name, run->report.signal, line, err);
	return err_set(err, ERR_INTERNAL, "%s exited with code %d%s", name,
		       run->report.exit_code, line);
}

static int proc_classify_outcome(const struct run *run, const char *line, struct err *err)
{
	const char *name = run->request->argv[0];

	if (!run->reported)
		return no_report(name, err);
	if (run->over_limit)
		return err_set(err, ERR_CORRUPT, "%s wrote more than %zu bytes", name,
			       run->request->output_limit);
	switch ((enum proc_cause)run->report.cause) {
	case PROC_BY_ITSELF:
		return judge_exit(run, name, line, err);
	case PROC_TIMEOUT:
		return err_set(err, ERR_TIMEOUT, "%s took longer than %" PRId64 " ms%s",
			       name, run->request->timeout_ms, line);
	case PROC_DEADLINE:
		return err_set(err, ERR_LOST, "%s had to end at its deadline%s", name,
			       line);
	case PROC_ASKED:
		if (run->is_silent)
			return was_silent(run, name, line, err);
		return err_set(err, ERR_CANCELED, "%s was stopped%s", name, line);
	case PROC_NO_PROGRAM:
		return cannot_run(name, run->report.error, err);
	case PROC_NO_WATCH:
		return cannot_watch(name, run->report.error, err);
	case PROC_NOT_CONFINED:
		return cannot_confine(name, run->report.error, err);
	}
	return err_set(err, ERR_INTERNAL, "%s is of another version than this program",
		       proc_supervisor_path());
}

int run_judge(struct run *run, struct proc_result *result, struct err *err)
{
	char line[400];

	result->exit_code = run->report.exit_code;
	result->signal = run->report.signal;
	fill_tail(run, result->tail, sizeof(result->tail));
	find_line(result->tail, line, sizeof(line));
	return proc_classify_outcome(run, line, err);
}

/*
 * Every descriptor is O_CLOEXEC, so other threads' children cannot keep ours open. The
 * supervisor starts with its signals blocked: none can hit it unprepared.
 */

#define DEFAULT_GRACE_MS 2000
#define STREAM_GRACE_MS 200   /* it only reads: there is little to tidy up */
#define STREAM_PIPE (1 << 20) /* what its writer may be ahead, if the kernel allows */

static pthread_once_t path_once = PTHREAD_ONCE_INIT;
static char supervisor_path[PATH_MAX];
static _Atomic uint64_t started;

static long landlock_version(void)
{
	enum { SAY_VERSION = 1 };

	return syscall(SYS_landlock_create_ruleset, NULL, 0, SAY_VERSION);
}

bool proc_can_confine(void)
{
	return landlock_version() > 0;
}

bool proc_can_confine_signals(void)
{
	enum { HAS_SCOPES = 6 };

	return landlock_version() >= HAS_SCOPES;
}

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

/* Only our end never blocks: the flag belongs to one end. */
static int open_pipe(int ends[2], struct err *err)
{
	if (pipe2(ends, O_CLOEXEC) != 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
		return err_errno(err, "cannot make a pipe");
	return 0;
}

static int open_own(int fd, int *copy, struct err *err)
{
	*copy = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	return *copy >= 0 ? 0 : err_errno(err, "cannot hand on descriptor %d", fd);
}

/* With a stderr of its own nothing ever comes through the pipe. */
static int open_errors(struct run *run, struct err *err)
{
	if (open_pipe(run->errors, err) != 0)
		return -1;
	if (!run->request->has_ours)
		return 0;
	run_close(&run->errors[1]);
	return open_own(STDERR_FILENO, &run->errors[1], err);
}

/* A file in memory: a child that does not read it all, or writes before it reads,
 * cannot block us. */
static int open_input(struct run *run, struct err *err)
{
	const struct proc_request *request = run->request;

	if (run->input >= 0)
		return 0;
	if (request->has_ours)
		return open_own(STDIN_FILENO, &run->input, err);
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

static int open_output(struct run *run, struct err *err)
{
	if (run->request->has_ours)
		return open_own(STDOUT_FILENO, &run->output[1], err);
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

/* Opens what run_start needs, but for an input that is there already; the control sockets
 * are there when it returns 0. */
static int run_open(struct run *run, struct err *err)
{
	if (proc_start_open_directory(run, err) != 0)
		return -1;
	if (open_input(run, err) != 0 || open_output(run, err) != 0 ||
	    open_errors(run, err) != 0)
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
	blame_machine(err);
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

typedef VEC(const char *) run_words;

/* `number` gets "+N". */
static void add_confinement(const char *const *reads, char number[24], run_words *argv)
{
	size_t count = 0;

	if (!reads)
		return;
	vec_add(argv, number);
	for (; reads[count]; count++)
		vec_add(argv, reads[count]);
	assert(count <= PROC_READS_MAX);
	snprintf(number, 24, "+%zu", count);
}

static int64_t run_grace_ms(const struct run *run)
{
	const struct proc_request *request = run->request;
	bool only_reads = run->is_streamed && !run->is_fed;
	int64_t most = request->deadline ? request->deadline->grace_ms : 0;
	int64_t grace = request->grace_ms > 0 ? request->grace_ms
			: only_reads          ? STREAM_GRACE_MS
					      : DEFAULT_GRACE_MS;

	return most > 0 && most < grace ? most : grace;
}

/* Starts the supervisor. Class config: it is not installed. */
static int run_start(struct run *run, struct err *err)
{
	const struct proc_request *request = run->request;
	int64_t timeout_at = request->timeout_ms > 0
				     ? clock_boot_ms() + request->timeout_ms
				     : INT64_MAX;
	run_words argv = { 0 };
	AUTO_STR struct str fds = STR_INIT;
	char grace[24], timeout[24], nice[64], reads[24];

	list_fds(run, &fds);
	snprintf(grace, sizeof(grace), "%" PRId64, run_grace_ms(run));
	snprintf(timeout, sizeof(timeout), "%" PRId64, timeout_at);
	snprintf(nice, sizeof(nice), "%d,%" PRIu64 ",%" PRIu64 ",%d",
		 request->yields ? PROC_NICE : 0, request->file_most,
		 request->memory_most, request->leaves_jobs);
	vec_add(&argv, proc_supervisor_path());
	vec_add(&argv, fds.data);
	vec_add(&argv, grace);
	vec_add(&argv, timeout);
	vec_add(&argv, nice);
	add_confinement(request->reads, reads, &argv);
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

enum {
	CHUNK_SIZE = 32768,
	LAST_READS = 64, /* more than a pipe holds; jobs that were left may write on */
	ORPHANS_MAX_WAIT_MS = 500 /* for the death of a killed supervisor's orphans */
};

/* Until it is reaped, its number cannot be another's. */
void run_ask_to_end(struct run *run)
{
	if (!run->is_asked_to_end)
		kill(run->supervisor, SIGTERM);
	run->is_asked_to_end = true;
}

/* A child over its limit is heard out, so that it can end in good order. */
static void proc_take_output(struct run *run, const char *data, size_t len)
{
	size_t fits = len < run->room ? len : run->room;

	str_add_bytes(run->request->output, data, fits);
	run->room -= fits;
	if (fits < len) {
		run->over_limit = true;
		run_ask_to_end(run);
	}
}

static void take_errors(struct run *run, const char *data, size_t len)
{
	struct str *tail = &run->tail;

	if (len > PROC_TAIL_KEPT) {
		str_reset(tail);
		run->tail_is_cut = true;
		data += len - PROC_TAIL_KEPT;
		len = PROC_TAIL_KEPT;
	}
	if (tail->len + len > 2 * PROC_TAIL_KEPT) {
		run->tail_is_cut = true;
		memmove(tail->data, tail->data + tail->len - PROC_TAIL_KEPT,
			PROC_TAIL_KEPT);
		str_truncate(tail, PROC_TAIL_KEPT);
	}
	str_add_bytes(tail, data, len);
}

/* Reads once; false when there is nothing, for now or for ever. */
static bool pull(struct run *run, int *fd,
		 void (*take)(struct run *run, const char *data, size_t len))
{
	char chunk[CHUNK_SIZE];
	ssize_t got = *fd >= 0 ? read(*fd, chunk, sizeof(chunk)) : 0;

	if (got > 0) {
		run->heard_at = clock_boot_ms();
		take(run, chunk, (size_t)got);
	} else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
		run_close(fd);
	}
	return got > 0;
}

static void read_rest(struct run *run, int *fd,
		      void (*take)(struct run *run, const char *data, size_t len))
{
	for (int i = 0; i < LAST_READS && pull(run, fd, take); i++)
		continue;
}

/* False while neither the report nor the end without it has come. The socket says
 * ECONNRESET, once and even before a report, when the supervisor left without reading
 * the last move of the deadline. */
static bool proc_receive_report(struct run *run)
{
	ssize_t got;

	do
		got = recv(run->control[0], &run->report, sizeof(run->report),
			   MSG_DONTWAIT);
	while (got < 0 && (errno == EINTR || errno == ECONNRESET));
	if (got < 0 && errno == EAGAIN)
		return false;
	run->reported = got == sizeof(run->report);
	return true;
}

/* When it will have been silent for too long. */
static int64_t silent_at(const struct run *run)
{
	if (run->request->silence_ms <= 0 || run->is_asked_to_end)
		return INT64_MAX;
	return run->heard_at + run->request->silence_ms;
}

/* For poll(). */
static int patience(const struct run *run)
{
	int64_t at = silent_at(run), left;

	if (run->wake_at > 0 && run->wake_at < at)
		at = run->wake_at;
	if (at == INT64_MAX)
		return -1;
	left = at - clock_boot_ms();
	return left <= 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

void run_feed(struct run *run)
{
	while (run->feed >= 0 && run->offered_len > 0) {
		ssize_t sent =
			send(run->feed, run->offered, run->offered_len, MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && errno == EAGAIN)
			return;
		if (sent < 0) {
			run_close(&run->feed);
			break;
		}
		run->offered += sent;
		run->offered_len -= (size_t)sent;
	}
	run->offered_len = 0;
}

void run_step(struct run *run)
{
	const struct stop *stop = run->request->stop;
	struct pollfd watched[] = {
		{ .fd = run->output[0], .events = POLLIN },
		{ .fd = run->errors[0], .events = POLLIN },
		{ .fd = run->control[0], .events = POLLIN },
		{ .fd = stop && !run->is_asked_to_end ? stop->fd : -1, .events = POLLIN },
		{ .fd = run->offered_len > 0 ? run->feed : -1, .events = POLLOUT },
	};

	int count = poll(watched, ARRAY_SIZE(watched), patience(run));

	if (count == 0 && clock_boot_ms() >= silent_at(run)) {
		run->is_silent = true;
		run_ask_to_end(run);
	}
	if (count <= 0)
		return;
	if (watched[0].revents && !run->is_streamed)
		pull(run, &run->output[0], proc_take_output);
	if (watched[1].revents)
		pull(run, &run->errors[0], take_errors);
	if (watched[3].revents)
		run_ask_to_end(run);
	if (watched[4].revents)
		run_feed(run);
	if (watched[2].revents)
		run->is_over = proc_receive_report(run);
}

/* False if it is of another session or dead, perhaps still a zombie. The pidfd makes
 * sure that what is killed is what was asked for its session. */
static bool kill_if_of(pid_t session, pid_t pid, int64_t until)
{
	AUTO_CLOSE int pidfd = pidfd_open(pid, 0);
	struct pollfd dead = { .fd = pidfd, .events = POLLIN };
	int64_t left = until - clock_boot_ms();

	if (pidfd < 0 || getsid(pid) != session || poll(&dead, 1, 0) != 0)
		return false;
	pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
	poll(&dead, 1, left > 0 ? (int)left : 0);
	return true;
}

static bool kill_session_once(pid_t session, int64_t until)
{
	struct dirent *entry;
	bool found = false;
	AUTO_CLOSEDIR DIR *proc = opendir("/proc");

	while (proc && (entry = readdir(proc)) != NULL) {
		uint64_t number;
		if (!text_to_uint64(entry->d_name, &number))
			continue;
		pid_t pid = (pid_t)number;
		if (pid != session && getsid(pid) == session)
			found |= kill_if_of(session, pid, until);
	}
	return found;
}

/* For a supervisor that was itself killed: its child is dying, the rest is not. While it
 * is not reaped, the number of its session is nobody else's. Orphans in sessions of
 * their own are out of reach. */
static void kill_session(pid_t session)
{
	int64_t until = clock_boot_ms() + ORPHANS_MAX_WAIT_MS;

	while (kill_session_once(session, until) && clock_boot_ms() < until)
		continue;
}

/* After its report the supervisor has nothing left to do but to exit. */
static void proc_reap_supervisor(struct run *run)
{
	if (!run->reported)
		kill_session(run->supervisor);
	kill(run->supervisor, SIGKILL);
	while (waitpid(run->supervisor, NULL, 0) < 0 && errno == EINTR)
		continue;
	if (!run->reported)
		return;
	if (!run->is_streamed)
		read_rest(run, &run->output[0], proc_take_output);
	read_rest(run, &run->errors[0], take_errors);
}

static void leave_deadline(struct run *run)
{
	if (run->request->deadline)
		deadline_detach(run->request->deadline, run->control[0]);
}

int run_begin(struct run *run, struct err *err)
{
	struct deadline *deadline = run->request->deadline;

	if (run->request->stop && stop_is_requested(run->request->stop))
		return err_set(err, ERR_CANCELED, "%s was not started: stopped",
			       run->request->argv[0]);
	if (run_open(run, err) != 0)
		return -1;
	if (deadline) /* first: it is heard even if we are stopped from here on */
		deadline_attach(deadline, run->control[0]);
	if (run_start(run, err) == 0)
		return 0;
	leave_deadline(run);
	return -1;
}

void run_end(struct run *run)
{
	proc_reap_supervisor(run);
	leave_deadline(run);
}

int proc_run(const struct proc_request *request, struct proc_result *result,
	     struct err *err)
{
	struct proc_result unwanted;
	struct run run;
	int status;

	if (!result)
		result = &unwanted;
	*result = (struct proc_result){ .exit_code = -1 };
	run_init(&run, request);
	status = run_begin(&run, err);
	if (status == 0) {
		while (!run.is_over)
			run_step(&run);
		run_end(&run);
		status = run_judge(&run, result, err);
	}
	run_clear(&run);
	return status;
}
