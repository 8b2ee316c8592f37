/*
 * A kept hook stands in a directory of its own beside that of the hooks, so that it has
 * its own name: servers' scripts look for HOOK.d by it. The directory is found by where
 * the script is, with links resolved: `hooks` may be a link to one that many repositories
 * share. Where the script itself is a link, the directory that it leads to counts, too.
 *
 * Directories of hooks that lead into each other could run each other for ever. Whatever
 * is run by us has in its environment how often that happened and for which git; so it
 * ends, after DEPTH_MAX, whatever links there are, and only the first of them has told
 * the node.
 */
#include "hook/hook_kept.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hook_wire.h"
#include "hook/hook_state.h"
#include "hook/hook_text.h"

enum { DEPTH_MAX = 16, GIT_SIZE = 2 * NUMBER_SIZE };

static char *after_slash(char *path)
{
	char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* ".../post-receive.d/refrelay" is run for post-receive. */
static bool hook_kept_take_part(const char *directory, struct hook_call *call)
{
	const char *slash = strrchr(directory, '/');
	const char *name = slash ? slash + 1 : directory;
	size_t len = strlen(name), suffix = sizeof(HOOK_PARTS) - 1;

	if (len <= suffix || strcmp(name + len - suffix, HOOK_PARTS) != 0)
		return false;
	call->name[0] = '\0';
	hook_text_add(call->name, sizeof(call->name), name);
	call->name[strlen(call->name) - suffix] = '\0';
	return true;
}

void hook_call_of(char *script, char **arguments, struct hook_call *call)
{
	char *name = after_slash(script);

	*call = (struct hook_call){ .script = script, .arguments = arguments };
	hook_text_add(call->name, sizeof(call->name), name);
	if (strcmp(name, HOOK_PART) != 0 || name == script)
		return;
	name[-1] = '\0';
	call->is_part = hook_kept_take_part(script, call);
	name[-1] = '/';
}

/* "<depth> <git>"; 0: not run by us. */
static uint64_t running(const char **git)
{
	const char *value = getenv(HOOK_RUNNING);
	char *end;

	*git = "";
	if (!value)
		return 0;
	uint64_t depth = strtoull(value, &end, 10);
	if (*end == ' ')
		*git = end + 1;
	return depth;
}

bool hook_is_nested(void)
{
	char now[GIT_SIZE];
	const char *git;

	if (running(&git) == 0)
		return false;
	hook_state_git(now, sizeof(now));
	return strcmp(git, now) == 0;
}

/* False: it goes on without end. */
static bool note_running(void)
{
	char text[GIT_SIZE + NUMBER_SIZE] = "", git[GIT_SIZE];
	const char *before;
	uint64_t depth = running(&before) + 1;

	if (depth > DEPTH_MAX) {
		hook_text_complain("hooks run each other in a circle",
				   "see refrelay hooks list");
		return false;
	}
	hook_state_git(git, sizeof(git));
	hook_text_add_number(text, sizeof(text), depth);
	hook_text_add(text, sizeof(text), " ");
	hook_text_add(text, sizeof(text), git);
	return setenv(HOOK_RUNNING, text, 1) == 0;
}

/* As git does: what is not executable is no hook, and what has no first line that the
 * kernel knows is for the shell. Returns if there is none. */
static void hook_kept_execute(char *path, char **arguments)
{
	char shell[] = "sh";
	size_t count = 0;

	while (arguments[count])
		count++;
	char **argv = calloc(count + 3, sizeof(*argv));
	if (!argv)
		return;
	argv[0] = shell;
	argv[1] = path;
	memcpy(argv + 2, arguments, count * sizeof(*argv));
	execv(path, argv + 1);
	if (errno == ENOEXEC)
		execv("/bin/sh", argv);
	free(argv);
}

/* `directory` is absolute, without links. */
static void become_kept_beside(const char *directory, const struct hook_call *call)
{
	char path[PATH_MAX] = "";

	hook_text_add(path, sizeof(path), directory);
	hook_text_add(path, sizeof(path), HOOK_KEPT "/");
	hook_text_add(path, sizeof(path), call->name);
	hook_kept_execute(path, call->arguments);
}

/* Where earlier versions kept it. */
static void become_kept_in(const char *directory, const struct hook_call *call)
{
	char path[PATH_MAX] = "";

	hook_text_add(path, sizeof(path), directory);
	hook_text_add(path, sizeof(path), "/");
	hook_text_add(path, sizeof(path), call->name);
	hook_text_add(path, sizeof(path), HOOK_KEPT);
	hook_kept_execute(path, call->arguments);
}

/* Cuts the last part off. */
static void hook_kept_cut_last_part(char *path)
{
	char *slash = strrchr(path, '/');

	if (slash)
		*slash = '\0';
}

void hook_become_kept(const struct hook_call *call)
{
	char directory[PATH_MAX] = "", given[PATH_MAX] = "";
	char target[PATH_MAX];

	hook_text_add(given, sizeof(given), call->script);
	hook_kept_cut_last_part(given);
	if (call->is_part || !strchr(call->script, '/') || !realpath(given, directory) ||
	    !note_running())
		return;
	become_kept_beside(directory, call);
	become_kept_in(directory, call);
	become_kept_beside(directory, call); /* it was just being moved */
	if (!realpath(call->script, target))
		return;
	hook_kept_cut_last_part(target);
	if (strcmp(target, directory) != 0)
		become_kept_beside(target, call);
}
