#include "git/git_child.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hook_wire.h"
#include "base/proc.h"
#include "base/proc_stream.h"
#include "base/str.h"
#include "base/thread.h"
#include "base/vec.h"
#include "git/git_message.h"

#define ASK_MS 10000

static struct {
	pthread_mutex_t mutex;
	struct stat of;                           /* the file that was run */
	char text[GIT_VERSION_SIZE];              /* "": not known */
} known = { .mutex = PTHREAD_MUTEX_INITIALIZER }; /* guarded by mutex */

static bool look_in(const char *folder, size_t len, struct stat *program)
{
	AUTO_FREE char *path =
		xasprintf("%.*s/git", len ? (int)len : 1, len ? folder : ".");

	return stat(path, program) == 0 && S_ISREG(program->st_mode) &&
	       access(path, X_OK) == 0;
}

static bool git_version_find_program(struct stat *program)
{
	const char *path = getenv("PATH");

	if (!path)
		path = "/usr/local/bin:/usr/bin:/bin"; /* as in git_setup */
	for (;;) {
		size_t len = strcspn(path, ":");
		if (look_in(path, len, program))
			return true;
		if (!path[len])
			return false;
		path += len + 1;
	}
}

static bool git_version_ask(char text[GIT_VERSION_SIZE])
{
	static const char *const argv[] = { "git", "--version", NULL };
	AUTO_STR struct str output = STR_INIT;

	if (proc_run(&(struct proc_request){ .argv = argv,
					     .output = &output,
					     .output_limit = GIT_VERSION_SIZE - 1,
					     .timeout_ms = ASK_MS },
		     NULL, ERR_IGNORED) != 0 ||
	    !text_starts_with(output.data, "git version "))
		return false;
	snprintf(text, GIT_VERSION_SIZE, "%.*s", (int)strcspn(output.data, "\n"),
		 output.data);
	return true;
}

void git_version(char text[GIT_VERSION_SIZE])
{
	struct stat program;
	bool is_found = git_version_find_program(&program);

	{
		AUTO_UNLOCK pthread_mutex_t *held = lock(&known.mutex);
		if (is_found && known.text[0] && file_is_same(&program, &known.of)) {
			memcpy(text, known.text, GIT_VERSION_SIZE);
			return;
		}
	}
	if (!is_found || !git_version_ask(text)) {
		random_hex(text, 16);
		return;
	}
	AUTO_UNLOCK pthread_mutex_t *held = lock(&known.mutex);
	memcpy(known.text, text, GIT_VERSION_SIZE);
	known.of = program;
}

/*
 * Everybody on this machine can read a process's arguments, its owner its environment,
 * and a backup the repository's config. So the header travels in a file that has no
 * name: the child inherits its descriptor, and the environment only says that git's
 * configuration goes on in /proc/self/fd/N. Git's own children inherit it, too.
 */

#define DEFAULT_STALL_MS 60000

/* Whether it is reached by HTTP: not a path. NULL is allowed. */
static bool git_remote_is_http(const struct git_remote *remote)
{
	return remote && (text_starts_with(remote->url, "http://") ||
			  text_starts_with(remote->url, "https://"));
}

/* A line's end would begin another header. */
static int git_remote_check_header(const char *header, struct err *err)
{
	for (; *header; header++)
		if ((unsigned char)*header < ' ' || *header == 0x7f)
			return err_set(err, ERR_CONFIG,
				       "the header for git has a control character");
	return 0;
}

static void git_remote_add_quoted(struct str *text, const char *value)
{
	str_add_char(text, '"');
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			str_add_char(text, '\\');
		str_add_char(text, *value);
	}
	str_add_char(text, '"');
}

/* Of nothing: beside the file of authorities git would read the system's directory of
 * them, too. */
static char no_authorities[4096];

/* The empty values undo what a repository's own config may say. The header goes to no
 * other host than the URL's, and to no one who cannot prove to be it: redirects are
 * errors, and certificates are checked. */
static void git_remote_write_http(const struct git_remote *remote, struct str *text)
{
	int64_t stall_ms = remote->stall_ms != 0 ? remote->stall_ms : DEFAULT_STALL_MS;

	str_add(text, "\tsslVerify = true\n\tfollowRedirects = false\n\tproxy =\n"
		      "\tcookieFile =\n\textraHeader =\n\tcurloptResolve =\n");
	if (remote->header) {
		str_add(text, "\textraHeader = ");
		git_remote_add_quoted(text, remote->header);
		str_add_char(text, '\n');
	}
	if (remote->ca_file) {
		str_add(text, "\tsslCAInfo = ");
		git_remote_add_quoted(text, remote->ca_file);
		str_add(text, "\n\tsslCAPath = ");
		git_remote_add_quoted(text, no_authorities);
		str_add_char(text, '\n');
	}
	if (stall_ms > 0)
		str_addf(text, "\tlowSpeedLimit = 1\n\tlowSpeedTime = %" PRId64 "\n",
			 (stall_ms + 999) / 1000);
}

/* Git prefers what a repository says of a part of the URL, http.<part>.*, to [http]. The
 * section for all of it counts more than those, or as much, and stands behind them. That
 * for none is for URLs that git cannot compare. */
static void git_remote_write_config(const struct git_remote *remote, struct str *text)
{
	size_t values = strlen(remote->header ? remote->header : "") +
			strlen(remote->ca_file ? remote->ca_file : "") +
			strlen(no_authorities);

	/* It does not grow: what a smaller one held would stay in memory. */
	str_reserve(text, 4 * values + 2 * strlen(remote->url) + 1024);
	str_add(text, "[credential]\n\thelper =\n[http]\n");
	git_remote_write_http(remote, text);
	str_add(text, "[http ");
	git_remote_add_quoted(text, remote->url);
	str_add(text, "]\n");
	git_remote_write_http(remote, text);
}

/* A sealed file in memory with git's configuration for this remote, which must be one
 * reached by HTTP; the caller closes it. -1 with *err filled: ERR_CONFIG if the header
 * is none. */
static int git_remote_open(const struct git_remote *remote, struct err *err)
{
	struct str text = STR_INIT;
	AUTO_CLOSE int fd = -1;
	int result;

	if (remote->header && git_remote_check_header(remote->header, err) != 0)
		return -1;
	fd = memfd_create("gitconfig", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return err_errno(err, "cannot make a file in memory");
	git_remote_write_config(remote, &text);
	result = file_write_all(fd, text.data, text.len, "a file in memory", err);
	str_wipe(&text);
	if (result != 0)
		return -1;
	if (fcntl(fd, F_ADD_SEALS,
		  F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
		return err_errno(err, "cannot seal a file in memory");
	return TAKE_FD(fd);
}

/* Packs stay packs, so that what arrives is one file to sync; git syncs it before it
 * gets its name. The directory's own sync is ours (git/objects.c). */
static const char config[] = "[safe]\n"
			     "\tdirectory = *\n"
			     "[core]\n"
			     "\thooksPath = /dev/null\n"
			     "\tfsync = objects,derived-metadata,reference\n"
			     "\talternateRefsCommand = true\n"
			     "[gc]\n"
			     "\tauto = 0\n"
			     "[maintenance]\n"
			     "\tauto = false\n"
			     "[fetch]\n"
			     "\tunpackLimit = 1\n"
			     "\twriteCommitGraph = false\n"
			     "\trecurseSubmodules = false\n"
			     "[transfer]\n"
			     "\tunpackLimit = 1\n"
			     "[protocol]\n"
			     "\tversion = 2\n"
			     "[credential]\n"
			     "\thelper =\n"
			     "[submodule]\n"
			     "\trecurse = false\n";

/* Of a filter by a blob that is not there git says that the repository may be damaged. */
#define NO_SPARSE "[uploadpackfilter \"sparse:oid\"]\n\tallow = false\n"

static const char serve_config[] = "[safe]\n"
				   "\tdirectory = *\n" NO_SPARSE;

static const char partial_config[] = "[safe]\n"
				     "\tdirectory = *\n"
				     "[uploadpack]\n"
				     "\tallowFilter = true\n" NO_SPARSE;

/* For a push: on this machine the other side reads this as well, and has hooks of its
 * own. What it took is on disk when it says so; when it is repacked is its owner's
 * business. Where deletions are pushed, that of the branch that HEAD names is one: the
 * source has deleted it, and its HEAD names a branch that is not there, too. What the
 * other side's own configuration says counts more. */
static const char push_config[] = "[safe]\n"
				  "\tdirectory = *\n"
				  "[core]\n"
				  "\tfsync = objects,derived-metadata,reference\n"
				  "[advice]\n"
				  "\tpushUpdateRejected = false\n"
				  "[receive]\n"
				  "\tautogc = false\n"
				  "\tdenyDeleteCurrent = ignore\n"
				  "[credential]\n"
				  "\thelper =\n"
				  "[push]\n"
				  "\trecurseSubmodules = no\n";

/* For pushes of clients. The repository's own settings stand above these. All pushes that
 * delete refs lock the same packed-refs; by itself git waits a second for that. Of the
 * refs of a repository whose objects are borrowed nothing is said: not all of them are
 * for everyone that may push here, and there may be very many. */
static const char receive_config[] = "[safe]\n"
				     "\tdirectory = *\n"
				     "[core]\n"
				     "\tfilesRefLockTimeout = 1000\n"
				     "\tpackedRefsTimeout = 3000\n"
				     "\talternateRefsPrefixes = refs/none/\n"
				     "[receive]\n"
				     "\tadvertisePushOptions = true\n";

static char home_variable[4096];
static char path_variable[4096];

#define CONFIG_VARIABLE "GIT_CONFIG_GLOBAL="

enum { CONFIG_PUSH = GIT_CONFIG_RECEIVE + 1 };

static struct {
	const char *name, *text;
	char variable[4096];
} configs[] = {
	[GIT_CONFIG_WORK] = { "gitconfig", config, "" },
	[GIT_CONFIG_SERVE] = { "gitconfig-serve", serve_config, "" },
	[GIT_CONFIG_SERVE_PARTIAL] = { "gitconfig-serve-partial", partial_config, "" },
	[GIT_CONFIG_RECEIVE] = { "gitconfig-receive", receive_config, "" },
	[CONFIG_PUSH] = { "gitconfig-push", push_config, "" },
};

static bool has_content(const char *path, const char *text)
{
	AUTO_STR struct str content = STR_INIT;

	return file_read(AT_FDCWD, path, strlen(text), &content, ERR_IGNORED) == 0 &&
	       content.len == strlen(text) &&
	       memcmp(content.data, text, content.len) == 0;
}

/* One that is as it should be stays: Landlock gives a child the file that it saw, and a
 * command replaces it while the node's own children start. */
static int git_child_write_config(const char *directory, size_t which, struct err *err)
{
	AUTO_FREE char *file = xasprintf("%s/%s", directory, configs[which].name);
	const char *text = configs[which].text;

	if (strlen(file) + 64 > sizeof(configs[which].variable))
		return err_set(err, ERR_CONFIG, "%s: the path is too long", directory);
	snprintf(configs[which].variable, sizeof(configs[which].variable),
		 CONFIG_VARIABLE "%s", file);
	if (has_content(file, text))
		return 0;
	return file_replace(AT_FDCWD, file, text, strlen(text), FILE_NO_SYNC, err);
}

int git_setup(const char *directory, struct err *err)
{
	const char *path = getenv("PATH");

	for (size_t i = 0; i < ARRAY_SIZE(configs); i++)
		if (git_child_write_config(directory, i, err) != 0)
			return -1;
	snprintf(no_authorities, sizeof(no_authorities), "%s/no-authorities", directory);
	if (mkdir(no_authorities, 0700) != 0 && errno != EEXIST)
		return err_errno(err, "%s", no_authorities);
	snprintf(home_variable, sizeof(home_variable), "HOME=%s", directory);
	snprintf(path_variable, sizeof(path_variable), "PATH=%s",
		 path ? path : "/usr/local/bin:/usr/bin:/bin");
	return 0;
}

/* What a repository's own configuration may not change. Older protocols get no objects of
 * hidden refs, and some ways to negotiate get all of them anew. */
static const char *const environment[] = {
	"GIT_CONFIG_KEY_0=core.hooksPath",
	"GIT_CONFIG_VALUE_0=/dev/null",
	"GIT_CONFIG_KEY_1=core.fsync",
	"GIT_CONFIG_VALUE_1=objects,derived-metadata,reference",
	"GIT_CONFIG_KEY_2=core.fsmonitor",
	"GIT_CONFIG_VALUE_2=false",
	"GIT_CONFIG_KEY_3=core.alternateRefsCommand",
	"GIT_CONFIG_VALUE_3=true",
	"GIT_CONFIG_KEY_4=fetch.unpackLimit",
	"GIT_CONFIG_VALUE_4=1",
	"GIT_CONFIG_KEY_5=transfer.unpackLimit",
	"GIT_CONFIG_VALUE_5=1",
	"GIT_CONFIG_KEY_6=gc.auto",
	"GIT_CONFIG_VALUE_6=0",
	"GIT_CONFIG_KEY_7=pack.indexVersion",
	"GIT_CONFIG_VALUE_7=2",
	"GIT_CONFIG_KEY_8=core.fsyncMethod",
	"GIT_CONFIG_VALUE_8=fsync",
	"GIT_CONFIG_KEY_9=protocol.version",
	"GIT_CONFIG_VALUE_9=2",
	"GIT_CONFIG_KEY_10=fetch.negotiationAlgorithm",
	"GIT_CONFIG_VALUE_10=default",
	home_variable,
	path_variable,
	"GIT_CONFIG_NOSYSTEM=1",
	"GIT_ATTR_NOSYSTEM=1",
	"GIT_TERMINAL_PROMPT=0",
	"GIT_ASKPASS=false",
	"SSH_ASKPASS=false",
	"GIT_PROXY_COMMAND=", /* none, whatever core.gitProxy says */
	"GIT_NO_REPLACE_OBJECTS=1",
	"GIT_NO_LAZY_FETCH=1",
	"GIT_OPTIONAL_LOCKS=0",
	"GIT_DIR=.",
	"LC_ALL=C",
};

/* The child's hooks have it as well, and the git that they run: so it says no more than
 * it must. A gc that git leaves behind would run beside the next one's, and unseen. */
static const char *const receive_environment[] = {
	"GIT_CONFIG_COUNT=3",
	"GIT_CONFIG_KEY_0=core.fsync",
	"GIT_CONFIG_VALUE_0=objects,derived-metadata,reference",
	"GIT_CONFIG_KEY_1=receive.autogc",
	"GIT_CONFIG_VALUE_1=false",
	"GIT_CONFIG_KEY_2=core.fsyncMethod",
	"GIT_CONFIG_VALUE_2=fsync",
	home_variable,
	path_variable,
	"GIT_CONFIG_NOSYSTEM=1",
	"GIT_ATTR_NOSYSTEM=1",
	"GIT_TERMINAL_PROMPT=0",
	"GIT_ASKPASS=false",
	"SSH_ASKPASS=false",
	"GIT_NO_REPLACE_OBJECTS=1",
	"GIT_NO_LAZY_FETCH=1",
	"GIT_DIR=.",
	"LC_ALL=C.UTF-8",
};

/* What a running child's request points to. */
struct child {
	VEC(const char *) argv;
	VEC(const char *) env;
	int keep[3];
	int remote; /* git_remote_open's, or -1 */
	bool is_of_site;
	char include[64];
	VEC(char *) owned; /* what env has of them */
	git_reach_paths reach;
	VEC(const char *) reads; /* empty: it is free */
};

/* Takes the variable. */
static void git_child_add_owned(struct child *child, char *variable)
{
	vec_add(&child->owned, variable);
	vec_add(&child->env, variable);
}

static const char *protocols_of(const struct git_remote *remote)
{
	if (git_remote_is_http(remote))
		return "GIT_ALLOW_PROTOCOL=http:https";
	if (remote && remote->ssh_command)
		return "GIT_ALLOW_PROTOCOL=ssh";
	if (remote && text_starts_with(remote->url, "git://"))
		return "GIT_ALLOW_PROTOCOL=git";
	return "GIT_ALLOW_PROTOCOL=file";
}

/* The agent holds keys, but gives away none. */
static void add_ssh(struct child *child, const char *command)
{
	const char *agent = getenv("SSH_AUTH_SOCK");

	git_child_add_owned(child, xasprintf("GIT_SSH_COMMAND=%s", command));
	vec_add(&child->env, "GIT_SSH_VARIANT=ssh");
	if (agent)
		git_child_add_owned(child, xasprintf("SSH_AUTH_SOCK=%s", agent));
}

static void add_list(struct child *child, const char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		vec_add(&child->env, list[i]);
}

/* For hooks, where /proc does not say it. */
static void add_boot(struct child *child)
{
	const char *given = getenv(BOOT_ID_VARIABLE);

	if (given)
		git_child_add_owned(child, xasprintf(BOOT_ID_VARIABLE "=%s", given));
}

static void add_call(struct child *child, const struct git_call *call)
{
	const char *const *more = call->variables;

	add_boot(child);

	if (call->protocol)
		git_child_add_owned(child, xasprintf("GIT_PROTOCOL=%s", call->protocol));
	if (call->object_directory)
		git_child_add_owned(child, xasprintf("GIT_OBJECT_DIRECTORY=%s",
						     call->object_directory));
	for (; more && *more; more++)
		git_child_add_owned(child, xstrdup(*more));
}

static void add_receive_environment(struct child *child, const struct git_call *call)
{
	add_list(child, receive_environment, ARRAY_SIZE(receive_environment));
	vec_add(&child->env, configs[GIT_CONFIG_RECEIVE].variable);
	add_call(child, call);
	vec_add(&child->env, NULL);
}

static void git_child_add_environment(struct child *child, const struct git_call *call)
{
	const struct git_remote *remote = call->remote;
	bool is_http = child->remote >= 0;

	add_list(child, environment, ARRAY_SIZE(environment));
	vec_add(&child->env,
		configs[remote && remote->is_pushed_to ? CONFIG_PUSH : (int)call->config]
			.variable);
	vec_add(&child->env, protocols_of(remote));
	vec_add(&child->env, is_http ? "GIT_CONFIG_COUNT=12" : "GIT_CONFIG_COUNT=11");
	if (is_http) {
		snprintf(child->include, sizeof(child->include),
			 "GIT_CONFIG_VALUE_11=/proc/self/fd/%d", child->remote);
		vec_add(&child->env, "GIT_CONFIG_KEY_11=include.path");
		vec_add(&child->env, child->include);
	}
	if (remote && remote->ssh_command)
		add_ssh(child, remote->ssh_command);
	add_call(child, call);
	vec_add(&child->env, NULL);
}

static void child_clear(struct child *child)
{
	vec_clear(&child->argv);
	vec_clear(&child->env);
	vec_clear_owned(&child->owned);
	vec_clear_owned(&child->reach);
	vec_clear(&child->reads);
	if (child->remote >= 0)
		close(child->remote);
}

static void keep_files(struct child *child, int guard_fd)
{
	int count = 0;

	if (guard_fd >= 0)
		child->keep[count++] = guard_fd;
	if (child->remote >= 0)
		child->keep[count++] = child->remote;
	child->keep[count] = -1;
}

/* Git itself says what is wrong with a repository that cannot be opened. */
static void add_reach(struct child *child, const struct git_call *call)
{
	AUTO_CLOSE int opened =
		call->repository_fd > 0
			? -1
			: open(call->repository, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int repository = call->repository_fd > 0 ? call->repository_fd : opened;

	vec_add(&child->reads, configs[call->config].variable + strlen(CONFIG_VARIABLE));
	if (call->reach == GIT_REACH_READS_ALL)
		vec_add(&child->reads, "/");
	else if (repository >= 0)
		git_reach_find(repository, &child->reach);
	for (size_t i = 0; i < child->reach.count; i++)
		vec_add(&child->reads, child->reach.items[i]);
	vec_add(&child->reads, NULL);
}

static int child_init(struct child *child, const struct git_call *call, struct err *err)
{
	*child = (struct child){ .remote = -1,
				 .is_of_site = call->remote && call->remote->is_site };
	if (git_remote_is_http(call->remote)) {
		child->remote = git_remote_open(call->remote, err);
		if (child->remote < 0)
			return -1;
	}
	vec_add(&child->argv, "git");
	for (size_t i = 0; call->args[i]; i++)
		vec_add(&child->argv, call->args[i]);
	vec_add(&child->argv, NULL);
	if (call->config == GIT_CONFIG_RECEIVE)
		add_receive_environment(child, call);
	else
		git_child_add_environment(child, call);
	keep_files(child, call->work->guard_fd);
	if (call->reach != GIT_REACH_FREE)
		add_reach(child, call);
	return 0;
}

/* As proc_run wants it: 0 is none, so what is over by now has one millisecond left. */
static int64_t git_child_time_left(const struct git_work *work)
{
	int64_t left;

	if (work->until == 0)
		return 0;
	left = work->until - clock_boot_ms();
	return left > 0 ? left : 1;
}

static struct proc_request git_child_make_request(const struct child *child,
						  const struct git_call *call)
{
	return (struct proc_request){
		.argv = child->argv.items,
		.env = child->env.items,
		.directory = call->repository,
		.directory_fd = call->repository_fd,
		.input = call->input ? call->input->data : NULL,
		.input_len = call->input ? call->input->len : 0,
		.silence_ms = call->silence_ms,
		.yields = call->yields,
		.leaves_jobs = call->config == GIT_CONFIG_RECEIVE,
		.reads = child->reads.items,
		.keep_fds = child->keep,
		.file_most = call->remote ? call->remote->pack_most : 0,
		.memory_most = call->remote ? call->remote->memory_most : 0,
		.timeout_ms = git_child_time_left(call->work),
		.deadline = call->work->deadline,
		.stop = call->work->stop,
	};
}

/* Returns status. Last words do not tell why somebody else ended git. */
static int git_child_explain_failure(int status, bool is_of_site,
				     const struct proc_result *result, struct err *err)
{
	if (status != 0 && err->class == ERR_INTERNAL && err->sys_errno == 0)
		git_message_find(is_of_site ? SPEAKER_SITE : SPEAKER_GIT, result->tail,
				 err);
	return status;
}

int git_run(const struct git_call *call, struct err *err)
{
	struct proc_request request;
	struct proc_result result;
	struct child child;
	int status;

	if (child_init(&child, call, err) != 0)
		return -1;
	request = git_child_make_request(&child, call);
	request.output = call->output;
	request.output_limit = call->output_limit;
	status = proc_run(&request, &result, err);
	child_clear(&child);
	if (call->ended)
		*call->ended = result;
	return git_child_explain_failure(status, child.is_of_site, &result, err);
}

struct git_stream {
	struct child child;
	struct proc_request request;
	struct proc_stream *proc;
	struct proc_result *ended; /* the call's, or NULL */
};

static void stream_free(struct git_stream *stream)
{
	child_clear(&stream->child);
	free(stream);
}

int git_stream_open(const struct git_call *call, int input_fd, struct git_stream **stream,
		    struct err *err)
{
	struct git_stream *made = xcalloc(1, sizeof(*made));

	if (child_init(&made->child, call, err) != 0) {
		stream_free(made);
		return -1;
	}
	made->request = git_child_make_request(&made->child, call);
	made->ended = call->ended;
	if (proc_stream_open(&made->request, input_fd, &made->proc, err) != 0) {
		stream_free(made);
		return -1;
	}
	*stream = made;
	return 0;
}

struct proc_stream *git_stream_proc(const struct git_stream *stream)
{
	return stream->proc;
}

int git_stream_close(struct git_stream *stream, struct err *err)
{
	struct proc_result result;
	int status;

	if (!stream)
		return 0;
	bool is_of_site = stream->child.is_of_site;
	status = proc_stream_close(stream->proc, &result, err);
	if (stream->ended)
		*stream->ended = result;
	stream_free(stream);
	return git_child_explain_failure(status, is_of_site, &result, err);
}
