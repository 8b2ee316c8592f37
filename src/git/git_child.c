#include "git/git_child.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/vec.h"

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
			     "[uploadpack]\n"
			     "\tallowAnySHA1InWant = true\n"
			     "[credential]\n"
			     "\thelper =\n"
			     "[submodule]\n"
			     "\trecurse = false\n";

static char config_variable[4096];
static char home_variable[4096];
static char path_variable[4096];

int git_setup(const char *directory, struct err *err)
{
	const char *path = getenv("PATH");
	AUTO_FREE char *file = xasprintf("%s/gitconfig", directory);

	if (strlen(file) + 64 > sizeof(config_variable))
		return err_set(err, ERR_CONFIG, "%s: the path is too long", directory);
	if (file_replace(AT_FDCWD, file, config, strlen(config), FILE_NO_SYNC, err) != 0)
		return -1;
	snprintf(config_variable, sizeof(config_variable), "GIT_CONFIG_GLOBAL=%s", file);
	snprintf(home_variable, sizeof(home_variable), "HOME=%s", directory);
	snprintf(path_variable, sizeof(path_variable), "PATH=%s",
		 path ? path : "/usr/local/bin:/usr/bin:/bin");
	return 0;
}

/* What a repository's own configuration may not change. */
static const char *const environment[] = {
	"GIT_ALLOW_PROTOCOL=file",
	"GIT_CONFIG_COUNT=7",
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
	config_variable,
	home_variable,
	path_variable,
	"GIT_CONFIG_NOSYSTEM=1",
	"GIT_ATTR_NOSYSTEM=1",
	"GIT_TERMINAL_PROMPT=0",
	"GIT_ASKPASS=false",
	"SSH_ASKPASS=false",
	"GIT_NO_REPLACE_OBJECTS=1",
	"GIT_NO_LAZY_FETCH=1",
	"GIT_OPTIONAL_LOCKS=0",
	"GIT_DIR=.",
	"LC_ALL=C",
	NULL,
};

struct meaning {
	const char *said; /* in any case */
	enum err_class class;
	const char *remedy;
};

/* The first that is found anywhere counts: causes come before their consequences. */
static const struct meaning meanings[] = {
	{ "no space left on device", ERR_DISK, "free some space on that file system" },
	{ "disk quota exceeded", ERR_DISK, "raise the quota, or free some space" },
	{ "file too large", ERR_DISK, "raise the limit of file sizes (ulimit -f)" },
	{ "read-only file system", ERR_DISK, "mount that file system for writing" },
	{ "input/output error", ERR_DISK, "look at the kernel's log: the disk fails" },
	{ "dubious ownership", ERR_CONFIG, "run refrelay as the repositories' owner" },
	{ "permission denied", ERR_CONFIG, "check owner and mode of the repository" },
	{ "does not appear to be a git repository", ERR_MISSING,
	  "it was renamed or deleted meanwhile; repeat" },
	{ "' not allowed", ERR_CONFIG,
	  "remove url.<base>.insteadOf from the repository's config" },
	{ "is corrupt", ERR_CORRUPT, "run git fsck there and restore what it names" },
	{ "inflate:", ERR_CORRUPT, "run git fsck there and restore what it names" },
	{ "sha1 mismatch", ERR_CORRUPT, "run git fsck there and restore what it names" },
	{ "hash mismatch", ERR_CORRUPT, "run git fsck there and restore what it names" },
	{ "bad object", ERR_CORRUPT, "run git fsck there and restore what it names" },
	{ "missing blob", ERR_CORRUPT, "run git fsck there and restore what it names" },
	{ "missing tree", ERR_CORRUPT, "run git fsck there and restore what it names" },
	{ "unable to read", ERR_CORRUPT, "run git fsck there and restore what it names" },
	{ "not our ref", ERR_CORRUPT,
	  "a ref names an object that is not there: run git "
	  "fsck there, delete or mend that ref" },
	{ "bad tree", ERR_CORRUPT, "run git fsck there and restore what it names" },
	{ "unresolved deltas", ERR_CORRUPT, "run git fsck there" },
	{ "did not receive expected object", ERR_CORRUPT, "run git fsck there" },
	{ "did not send all necessary objects", ERR_CORRUPT, "run git fsck there" },
	{ "index file corrupt", ERR_CORRUPT, "run git fsck there" },
	{ "authentication failed", ERR_AUTH, "check the name and the password" },
	{ "could not resolve host", ERR_NETWORK, "" },
	{ "connection refused", ERR_NETWORK, "" },
	{ "connection reset", ERR_NETWORK, "" },
	{ "connection timed out", ERR_NETWORK, "" },
	{ "not a git repository", ERR_CORRUPT, "it needs HEAD, objects/ and refs/" },
	{ "early eof", ERR_NETWORK, "" },
	{ "hung up unexpectedly", ERR_NETWORK, "" },
	{ ".lock': file exists", ERR_CONFLICT, "" },
};

/* The whole line around `at`, without git's "fatal: " and the like. */
static void copy_line(const char *tail, const char *at, char *out, size_t size)
{
	static const char *const marks[] = { "remote: ", "fatal: ", "error: " };
	const char *start = at;

	while (start > tail && start[-1] != '\n')
		start--;
	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (text_starts_with(start, marks[i]) && start + strlen(marks[i]) <= at)
			start += strlen(marks[i]);
	size_t len = strcspn(start, "\n");
	while (len > 0 && start[len - 1] == ' ')
		len--; /* the other side's line was padded over a progress bar */
	snprintf(out, size, "%.*s", (int)len, start);
}

int git_classify(const char *tail, struct err *err)
{
	char line[400];

	for (size_t i = 0; i < ARRAY_SIZE(meanings); i++) {
		const char *at = strcasestr(tail, meanings[i].said);
		if (!at)
			continue;
		copy_line(tail, at, line, sizeof(line));
		err_set(err, meanings[i].class, "git: %s", line);
		return err_remedy(err, "%s", meanings[i].remedy);
	}
	return -1; /* what proc_run said stands */
}

/* As proc_run wants it: 0 is none, so what is over by now has one millisecond left. */
static int64_t time_left(const struct git_work *work)
{
	int64_t left;

	if (work->until == 0)
		return 0;
	left = work->until - clock_boot_ms();
	return left > 0 ? left : 1;
}

int git_run(const struct git_call *call, struct err *err)
{
	VEC(const char *) argv = { 0 };
	const int keep[] = { call->work->guard_fd, -1 };
	struct proc_result result;
	int status;

	vec_add(&argv, "git");
	for (size_t i = 0; call->args[i]; i++)
		vec_add(&argv, call->args[i]);
	vec_add(&argv, NULL);
	status = proc_run(
		&(struct proc_request){
			.argv = argv.items,
			.env = environment,
			.directory = call->repository,
			.input = call->input ? call->input->data : NULL,
			.input_len = call->input ? call->input->len : 0,
			.output = call->output,
			.output_limit = call->output_limit,
			.keep_fds = keep,
			.timeout_ms = time_left(call->work),
			.deadline = call->work->deadline,
			.stop = call->work->stop,
		},
		&result, err);
	vec_clear(&argv);
	if (status != 0 && err->class == ERR_INTERNAL)
		git_classify(result.tail, err);
	return status;
}
