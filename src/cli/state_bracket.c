/*
 * The command gets our pending file's descriptor, and with it the flock: if we are
 * killed, the repository counts as being written until the command has ended, too. The
 * next look makes a new key then.
 *
 * It is in our process group and has our terminal: what the terminal sends, it gets by
 * itself. What is sent to us alone we hand on, and wait for its end in any case.
 */
#include "cli/state_bracket.h"

#include <assert.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "git/state.h"
#include "serve/find.h"

enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127, BY_SIGNAL = 128 };

struct bracket {
	const struct bracket_request *request;
	int dir;
	struct lock_owner writer;
	sigset_t handled, before; /* signals that we take; the mask that we had */
	pid_t child;
};

static void take_signals(struct bracket *bracket)
{
	static const int numbers[] = { SIGINT,  SIGTERM, SIGHUP, SIGQUIT,
				       SIGUSR1, SIGUSR2, SIGCHLD };

	sigemptyset(&bracket->handled);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		sigaddset(&bracket->handled, numbers[i]);
	signal(SIGCHLD, SIG_DFL); /* who started us may not want to hear of children */
	pthread_sigmask(SIG_BLOCK, &bracket->handled, &bracket->before);
}

static void bracket_require_success(int result)
{
	if (result != 0)
		abort();
}

/* What main() ignores the command shall not. Returns an errno. */
static int bracket_start_command(struct bracket *bracket)
{
	char **argv = bracket->request->argv;
	int flock_fd = bracket->writer.fd, result;
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t defaults;

	sigemptyset(&defaults);
	sigaddset(&defaults, SIGPIPE);
	sigaddset(&defaults, SIGXFSZ);
	bracket_require_success(posix_spawn_file_actions_init(&actions));
	bracket_require_success(posix_spawnattr_init(&attributes));
	bracket_require_success(
		posix_spawn_file_actions_adddup2(&actions, flock_fd, flock_fd));
	bracket_require_success(
		posix_spawnattr_setsigmask(&attributes, &bracket->before));
	bracket_require_success(posix_spawnattr_setsigdefault(&attributes, &defaults));
	bracket_require_success(posix_spawnattr_setflags(
		&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
	result = posix_spawnp(&bracket->child, argv[0], &actions, &attributes, argv,
			      environ);
	bracket_require_success(posix_spawnattr_destroy(&attributes));
	bracket_require_success(posix_spawn_file_actions_destroy(&actions));
	return result;
}

/* 0: none until then. */
static int next_signal(const struct bracket *bracket, int64_t until, siginfo_t *info)
{
	int64_t rest_ms = until - clock_boot_ms();
	struct timespec rest = { 0 };
	int number;

	if (rest_ms > 0) {
		rest.tv_sec = rest_ms / 1000;
		rest.tv_nsec = rest_ms % 1000 * 1000000;
	}
	number = sigtimedwait(&bracket->handled, info, &rest);
	return number > 0 ? number : 0;
}

/* A command that removes our file (rsync --delete) does not end the write. */
static void bracket_beat_writer(struct bracket *bracket)
{
	struct lock_owner *writer = &bracket->writer;
	struct err err;

	if (writer->fd >= 0 && state_beat(writer, &err) == 0)
		return;
	if (writer->fd >= 0 && err.class != ERR_LOST) {
		cli_fail(&err);
		return;
	}
	fprintf(stderr, "refrelay: %s is gone; the write is announced anew\n",
		writer->name);
	if (writer->fd >= 0)
		close(TAKE_FD(writer->fd));
	if (state_begin(bracket->dir, writer, &err) != 0)
		cli_fail(&err);
}

static int bracket_wait_for_end(struct bracket *bracket)
{
	int64_t due = clock_boot_ms() + STATE_BEAT_MS;
	siginfo_t info;
	pid_t ended;
	int status = 0;

	while ((ended = waitpid(bracket->child, &status, WNOHANG)) == 0) {
		int number = next_signal(bracket, due, &info);
		if (number > 0 && number != SIGCHLD && info.si_code <= 0)
			kill(bracket->child, number); /* a process sent it, to us */
		if (clock_boot_ms() >= due) {
			bracket_beat_writer(bracket);
			due = clock_boot_ms() + STATE_BEAT_MS;
		}
	}
	assert(ended == bracket->child);
	return WIFSIGNALED(status) ? BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

static int bracket_run_command(struct bracket *bracket)
{
	int cause = bracket_start_command(bracket);

	if (cause == 0)
		return bracket_wait_for_end(bracket);
	fprintf(stderr, "refrelay: cannot run %s: %s\n", bracket->request->argv[0],
		strerror(cause));
	return cause == ENOENT ? NOT_FOUND : NOT_EXECUTABLE;
}

static bool is_same_directory(int a, int b)
{
	struct stat one, other;

	return fstat(a, &one) == 0 && fstat(b, &other) == 0 &&
	       one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/* The command may have taken away state and all, or put another directory in the place
 * of the repository, with the key of a backup. */
static int bracket_end_write(struct bracket *bracket, struct err *err)
{
	const struct bracket_request *request = bracket->request;
	bool is_ended = bracket->writer.fd >= 0 && state_end(&bracket->writer, err) == 0;
	AUTO_FREE char *path = NULL;
	AUTO_CLOSE int now = find_repository(request->root, request->name, &path, err);

	if (now < 0)
		return err->class == ERR_MISSING ? 0 : -1;
	if (is_ended && is_same_directory(now, bracket->dir))
		return 0;
	return state_renew(now, err);
}

int bracket_run(const struct bracket_request *request, struct err *err)
{
	struct bracket bracket = { .request = request };
	AUTO_FREE char *path = NULL;
	AUTO_CLOSE int dir = find_repository(request->root, request->name, &path, err);
	int status;

	bracket.dir = dir;
	if (dir < 0)
		return -1;
	take_signals(&bracket);
	if (state_begin(dir, &bracket.writer, err) != 0) {
		if (err->class == ERR_MISSING) /* of what is in it, not it */
			err->class = ERR_CONFLICT;
		return err_prefix(err, "%s cannot be announced as being written", path);
	}
	status = bracket_run_command(&bracket);
	if (bracket_end_write(&bracket, err) == 0)
		return status;
	err_prefix(err, "the end of the write cannot be told in %s", path);
	cli_fail(err);
	return status == 0 ? EXIT_FAILED : status;
}
