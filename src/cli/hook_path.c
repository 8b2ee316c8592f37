/*
 * Where git looks for hooks, and where our program is. Starting git for each of
 * thousands of repositories would take minutes, so it is asked only about those whose
 * configuration could say something of it.
 */
#include "base/file.h"
#include "base/hook_wire.h"
#include "base/proc.h"
#include "base/str.h"
#include "cli/hook_install.h"

enum { CONFIG_LIMIT = 1 << 20, GIT_TIMEOUT_MS = 30000 };

/* What git says of core.hooksPath; git_dir "": outside of repositories. 1: set. */
static int ask_git(const char *git_dir, struct str *value, struct err *err)
{
	AUTO_FREE char *option = xasprintf("--git-dir=%s", git_dir);
	const char *const argv[] = { "git",   option,           "config",
				     "--get", "core.hooksPath", NULL };
	struct proc_result result;

	if (proc_run(&(struct proc_request){ .argv = argv,
					     .directory = "/",
					     .output = value,
					     .output_limit = 65536,
					     .timeout_ms = GIT_TIMEOUT_MS },
		     &result, err) == 0) {
		while (value->len > 0 && value->data[value->len - 1] == '\n')
			str_truncate(value, value->len - 1);
		return 1;
	}
	return result.exit_code == 1 ? 0 : -1;
}

bool hook_path_is_global(void)
{
	AUTO_STR struct str value = STR_INIT;

	return ask_git("/dev/null", &value, ERR_IGNORED) != 0;
}

static bool mentions_path(const char *config)
{
	return strcasestr(config, "hooksPath") || strcasestr(config, "include") ||
	       strcasestr(config, "worktreeConfig");
}

int hook_check_path(int repository, const char *path, bool everywhere, struct err *err)
{
	AUTO_STR struct str config = STR_INIT;
	AUTO_STR struct str value = STR_INIT;
	int found;

	if (file_read(repository, "config", CONFIG_LIMIT, &config, err) != 0)
		return err->class == ERR_MISSING ? 0 : -1;
	if (!everywhere && !mentions_path(config.data))
		return 0;
	found = ask_git(path, &value, err);
	if (found <= 0)
		return found;
	err_set(err, ERR_CONFIG,
		"core.hooksPath is %s, so git does not run its own hooks", value.data);
	return err_remedy(err, "unset it, or make links to " HOOK_PROGRAM
			       " there by hand, see refrelay-hooks(1)");
}

static char *find_program(void)
{
	const char *given = getenv("REFRELAY_HOOK");
	AUTO_FREE char *self = realpath("/proc/self/exe", NULL);
	AUTO_FREE char *beside = NULL, *installed = NULL;
	char *slash = self ? strrchr(self, '/') : NULL;
	char *found;

	if (given && *given)
		return realpath(given, NULL);
	if (slash)
		*slash = '\0';
	beside = xasprintf("%s/" HOOK_PROGRAM, self ? self : "");
	installed = xasprintf("%s/" REFRELAY_LIBEXEC "/" HOOK_PROGRAM, self ? self : "");
	found = realpath(beside, NULL);
	return found ? found : realpath(installed, NULL);
}

char *hook_program(struct err *err)
{
	AUTO_FREE char *found = find_program();

	if (found && access(found, X_OK) == 0 && text_ends_with(found, "/" HOOK_PROGRAM))
		return TAKE(found);
	err_set(err, ERR_CONFIG, "cannot find the program " HOOK_PROGRAM);
	err_remedy(err,
		   "install it beside refrelay or in " REFRELAY_LIBEXEC " from there, "
		   "or set REFRELAY_HOOK to its path");
	return NULL;
}
