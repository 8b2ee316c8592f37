#include <assert.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/site.h"
#include "git/state.h"
#include "replicable/name.h"
#include "serve/find.h"
#include "serve/look.h"

struct bracket_request {
	const char *root; /* site.repositories */
	const char *name; /* of the repository */
	char **argv;      /* the command; NULL-terminated */
};

/*
 * The command gets our pending file's descriptor, and with it the flock: if we are
 * killed, the repository counts as being written until the command has ended, too. The
 * next look makes a new key then.
 *
 * It is in our process group and has our terminal: what the terminal sends, it gets by
 * itself. What is sent to us alone we hand on, and wait for its end in any case.
 */

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
	cli_note("%s disappeared; announcing the write again", writer->name);
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

/* Returns the command's status as a shell gives it: 126, 127, 128 and a signal's number.
 * -1: the repository could not be announced as being written, and the command did not
 * run. What fails after the command is said on stderr; it makes a status of 0 one of 1.
 */
static int bracket_run(const struct bracket_request *request, struct err *err)
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
	err_prefix(err, "cannot record the end of the write in %s", path);
	cli_fail(err);
	return status == 0 ? EXIT_FAILED : status;
}

static const char *const owner_states[] = {
	[LOCK_OWNER_GONE] = "gone",       [LOCK_OWNER_ALIVE] = "alive",
	[LOCK_OWNER_DEAD] = "dead",       [LOCK_OWNER_FOREIGN] = "foreign",
	[LOCK_OWNER_UNKNOWN] = "unknown",
};

static const char *const reasons[BYPASS_COUNT] = {
	[BYPASS_PENDING] = "it is being written",
	[BYPASS_UNSETTLED] = "it changed a moment ago, on a file system that other hosts "
			     "write",
	[BYPASS_CONFIG] = "files elsewhere decide its refs: includes or links",
	[BYPASS_UNWRITABLE] = "its state cannot be read or written",
	[BYPASS_MOVING] = "it changes faster than it can be read",
	[BYPASS_UNREADABLE] = "Git lists its refs, but refrelay cannot parse them",
};

struct state_call {
	const char *name;
	char **argv; /* of the command; NULL: none */
	bool is_json;
};

static const struct cli_option rows[] = {
	{ "-- COMMAND [ARGUMENT...]", 0, NULL,
	  "run this while the repository is marked as being written; its exit\nstatus is "
	  "returned",
	  .type = CLI_NOTE },
	{ "json", 0, NULL, "print one JSON object; not with a command",
	  CLI_AT(FLAG, struct state_call, is_json) },
	{ 0 },
};

const struct cli_options state_options = { .rows = rows,
					   .least = 1,
					   .most = 1,
					   .takes = "one NAME",
					   .has_command = true,
					   .column = 13 };

struct state_view {
	char *name, *path; /* owned */
	state_writers writers;
	struct state_look state; /* key "": it cannot be read */
	struct fingerprint fingerprint;
	bool has_fingerprint;
	struct look look;
	struct err trouble; /* with its state; ERR_NONE: none */
	struct err failure; /* of the look; ERR_NONE: none */
};

static void view_clear(struct state_view *view)
{
	free(view->name);
	free(view->path);
	vec_clear(&view->writers);
	observation_clear(&view->look);
}

/* Writers first: the look cleans up after the dead ones. */
static int cli_state_read_view(const char *root, struct state_view *view, struct err *err)
{
	const struct look_request request = { .root = root, .name = view->name };
	AUTO_CLOSE int dir = find_repository(root, view->name, &view->path, err);

	if (dir < 0)
		return -1;
	if (state_list(dir, &view->writers, &view->trouble) == 0 &&
	    state_look(dir, &view->state, &view->trouble) == 0)
		view->trouble = (struct err){ 0 };
	if (look_take(&request, &view->look, &view->failure) == 0)
		view->failure = (struct err){ 0 };
	/* Last: the look waits until it is settled. */
	view->has_fingerprint = fingerprint_take(dir, FINGERPRINT_REFS,
						 &view->fingerprint, ERR_IGNORED) == 0;
	return 0;
}

static void print_writer(const struct state_writer *writer)
{
	AUTO_STR struct str text = STR_INIT;

	str_addf(&text, "  writing: %s", writer->program[0] ? writer->program : "?");
	if (writer->pid > 0)
		str_addf(&text, " process %" PRIu64, writer->pid);
	if (writer->is_elsewhere)
		str_add(&text, " on another host or in another container");
	cli_print("%s, %s, last sign of life %" PRId64 " s ago, file %s", text.data,
		  owner_states[writer->state], writer->age_s, writer->name);
}

static void print_cache(const struct state_view *view)
{
	const struct err *why = &view->failure;
	AUTO_STR struct str text = STR_INIT;

	if (why->class != ERR_NONE)
		str_add(&text, "not used; the repository is not served");
	else if (view->look.bypass != BYPASS_NONE)
		str_addf(&text, "not used: %s", reasons[view->look.bypass]);
	else
		str_add(&text, "used");
	if (view->look.bypass == BYPASS_UNWRITABLE)
		why = &view->trouble;
	if (why->class != ERR_NONE)
		str_addf(&text, ": %s", why->text);
	if (why->class != ERR_NONE && why->remedy[0])
		str_addf(&text, "; hint: %s", why->remedy);
	cli_print("  cache: %s", text.data);
}

static void cli_state_print_text(const struct state_view *view)
{
	char fingerprint[FINGERPRINT_TEXT_SIZE] = "unknown";

	if (view->has_fingerprint)
		fingerprint_format(&view->fingerprint, fingerprint);
	printf("%s\n  key %s\n  fingerprint %s%s\n", view->name,
	       view->state.key[0] ? view->state.key : "unknown", fingerprint,
	       view->has_fingerprint && !fingerprint_is_settled(&view->fingerprint)
		       ? ", not settled"
		       : "");
	for (size_t i = 0; i < view->writers.count; i++)
		print_writer(&view->writers.items[i]);
	if (view->state.recovered > 0)
		printf("  recovered: cleaned up after %u dead writer%s, so the key is "
		       "new\n",
		       view->state.recovered, view->state.recovered == 1 ? "" : "s");
	print_cache(view);
}

static json_t *writer_to_json(const struct state_writer *writer)
{
	json_t *object = json_object();

	json_put_text(object, "file", writer->name);
	json_put_text(object, "program", writer->program[0] ? writer->program : NULL);
	if (writer->pid > 0)
		json_put_number(object, "pid", (int64_t)writer->pid);
	else
		json_put(object, "pid", json_null());
	json_put_text(object, "state", owner_states[writer->state]);
	json_put_bool(object, "elsewhere", writer->is_elsewhere);
	json_put_seconds(object, "age", writer->age_s * 1000);
	return object;
}

static void cli_state_print_json(const struct state_view *view)
{
	char fingerprint[FINGERPRINT_TEXT_SIZE];
	bool has_failed = view->failure.class != ERR_NONE;
	bool is_used = !has_failed && view->look.bypass == BYPASS_NONE;
	json_auto_t *object = json_object();
	json_t *pending = json_array();

	if (view->has_fingerprint)
		fingerprint_format(&view->fingerprint, fingerprint);
	for (size_t i = 0; i < view->writers.count; i++)
		json_array_append_new(pending, writer_to_json(&view->writers.items[i]));
	json_put_text(object, "name", view->name);
	json_put_text(object, "path", view->path);
	json_put_text(object, "key", view->state.key[0] ? view->state.key : NULL);
	json_put(object, "pending", pending);
	json_put_number(object, "recovered", view->state.recovered);
	json_put_text(object, "fingerprint", view->has_fingerprint ? fingerprint : NULL);
	json_put_bool(object, "settled",
		      view->has_fingerprint &&
			      fingerprint_is_settled(&view->fingerprint));
	json_put_bool(object, "cache_used", is_used);
	json_put_text(object, "bypass",
		      is_used || has_failed ? NULL : bypass_name(view->look.bypass));
	if (has_failed)
		json_put_message(object, "failure", view->failure.text);
	else
		json_put(object, "failure", json_null());
	json_write(stdout, object);
}

static int cli_state_show_repository(const char *root, const struct state_call *call,
				     struct err *err)
{
	struct state_view view = { .name = name_of_path(call->name) };
	int result = cli_state_read_view(root, &view, err);

	if (result == 0 && call->is_json)
		cli_state_print_json(&view);
	else if (result == 0)
		cli_state_print_text(&view);
	view_clear(&view);
	return result;
}

static int run_bracketed(const char *root, const struct state_call *call, struct err *err)
{
	AUTO_FREE char *name = name_of_path(call->name);
	const struct bracket_request request = {
		.root = root,
		.name = name,
		.argv = call->argv,
	};

	return bracket_run(&request, err);
}

int cli_state(struct cli *cli, char **argv)
{
	struct state_call call = { 0 };
	struct cli_operands operands;
	struct site site;
	struct err err;
	int status = cli_read_options(cli->command, argv, &call, &operands);

	if (status >= 0)
		return status;
	call.name = operands.items[0];
	call.argv = operands.command;
	if (call.argv && !call.argv[0])
		return cli_usage("state", "-- needs a COMMAND");
	if (call.argv && call.is_json)
		return cli_usage("state", "--json and a COMMAND cannot be combined");
	if (site_read(cli, NULL, &site, &err) != 0)
		return cli_fail(&err);
	status = call.argv ? run_bracketed(site.repositories, &call, &err)
			   : cli_state_show_repository(site.repositories, &call, &err);
	site_clear(&site);
	return status < 0 ? cli_fail(&err) : status;
}
