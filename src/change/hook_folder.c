/*
 * Where git looks for hooks, and where our program is. Starting git for each of
 * thousands of repositories would take minutes, so it is asked only about those whose
 * configuration could say something of it.
 */
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/file.h"
#include "base/hook_wire.h"
#include "base/proc.h"
#include "base/str.h"
#include "change/hook_parts.h"

enum { CONFIG_LIMIT = 1 << 20, GIT_TIMEOUT_MS = 30000 };

/* What git says of core.hooksPath; git_dir "/dev/null": outside of repositories. 1:
 * set. */
static int hook_folder_ask_git(const char *git_dir, struct str *value, struct err *err)
{
	AUTO_FREE char *option = xasprintf("--git-dir=%s", git_dir);
	const char *const argv[] = { "git",         option,           "config", "--get",
				     "--type=path", "core.hooksPath", NULL };
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

void hook_fd_path(int fd, char path[PATH_MAX])
{
	char link[32];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t len = readlink(link, path, PATH_MAX - 1);
	path[len > 0 ? len : 0] = '\0';
}

static char *global_path(void)
{
	AUTO_STR struct str value = STR_INIT;

	return hook_folder_ask_git("/dev/null", &value, ERR_IGNORED) > 0
		       ? str_take(&value)
		       : NULL;
}

/* Whether the text alone tells: "hooksPath = /PATH", without quotes and escapes. */
static bool hook_folder_parse_plain_path(const char *config, struct str *value)
{
	const char *at = strcasestr(config, "hooksPath");
	const char *from = at + strlen("hooksPath");

	from += strspn(from, " \t");
	if (*from != '=')
		return false;
	from += 1 + strspn(from + 1, " \t");
	size_t len = strcspn(from, "\n");
	if (*from != '/' || strcspn(from, "\"\\#;") < len ||
	    strcasestr(from, "hooksPath"))
		return false;
	while (len > 0 && strchr(" \t\r", from[len - 1]))
		len--;
	str_add_bytes(value, from, len);
	return true;
}

static bool may_be_included(const char *config)
{
	return strcasestr(config, "include") || strcasestr(config, "worktreeConfig");
}

/* 1: hooks are looked for in *value; it may be below the repository. */
static int hook_folder_read_hooks_path(int repository, const struct hook_place *place,
				       struct str *value, struct err *err)
{
	AUTO_STR struct str config = STR_INIT;
	char path[PATH_MAX];

	if (file_read(repository, "config", CONFIG_LIMIT, &config, err) != 0)
		return err->class == ERR_MISSING ? 0 : -1;
	bool is_own = strcasestr(config.data, "hooksPath") != NULL;
	bool is_elsewhere = !place->is_quick && may_be_included(config.data);
	if (is_own && !is_elsewhere && hook_folder_parse_plain_path(config.data, value))
		return 1;
	if (!is_own && !is_elsewhere) {
		str_add(value, place->path ? place->path : "");
		return place->path != NULL;
	}
	hook_fd_path(repository, path);
	return hook_folder_ask_git(path, value, err);
}

/* Whether it is the directory `hooks` that the repository itself has. */
static bool hook_folder_is_own(int repository, int dir)
{
	struct stat own, st;

	return fstatat(repository, "hooks", &own, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstat(dir, &st) == 0 && own.st_dev == st.st_dev && own.st_ino == st.st_ino;
}

int hook_folder_open(int repository, const struct hook_place *place,
		     struct hook_folder *folder, struct err *err)
{
	AUTO_STR struct str path = STR_INIT;
	struct statvfs fs;
	int found = hook_folder_read_hooks_path(repository, place, &path, err);

	if (found < 0)
		return -1;
	if (found == 0)
		str_add(&path, "hooks");
	folder->dir = openat(repository, path.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder->dir < 0 && errno == ENOENT) {
		folder->is_shared = found > 0;
		if (found > 0)
			snprintf(folder->path, sizeof(folder->path), "%s", path.data);
		return 0;
	}
	if (folder->dir < 0)
		return err_errno(err, "cannot open directory %s", path.data);
	folder->is_shared = !hook_folder_is_own(repository, folder->dir);
	folder->is_noexec =
		fstatvfs(folder->dir, &fs) == 0 && (fs.f_flag & ST_NOEXEC) != 0;
	hook_fd_path(folder->dir, folder->path);
	AUTO_FREE char *kept = xasprintf("%s" HOOK_KEPT, folder->path);
	folder->kept = open(kept, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return 0;
}

void hook_folder_close(struct hook_folder *folder)
{
	if (folder->dir >= 0)
		close(folder->dir);
	if (folder->kept >= 0)
		close(folder->kept);
}

/* Whoever may use the hooks may use these. */
int hook_folder_make_kept(struct hook_folder *folder, struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s" HOOK_KEPT, folder->path);
	struct stat st;

	if (folder->kept >= 0)
		return 0;
	if (fstat(folder->dir, &st) != 0 || mkdir(path, st.st_mode & 0777) != 0)
		return err_errno(err, "cannot make directory %s", path);
	folder->kept = dir_open(AT_FDCWD, path, err);
	if (folder->kept < 0)
		return -1;
	if (fchmod(folder->kept, st.st_mode & 07777) != 0 ||
	    (geteuid() == 0 && fchown(folder->kept, st.st_uid, st.st_gid) != 0))
		return err_errno(err, "cannot set owner and mode of %s", path);
	return 0;
}

static bool is_hook_name(const char *name)
{
	for (size_t i = 0; i < HOOKS; i++)
		if (strcmp(name, hook_names[i]) == 0)
			return true;
	return false;
}

static bool is_worth_a_link(const char *name)
{
	return name[0] != '.' && !is_hook_name(name) && !strstr(name, HOOK_KEPT) &&
	       !strstr(name, ".tmp-") && !text_ends_with(name, ".sample");
}

int hook_folder_link(const struct hook_folder *folder, struct err *err)
{
	AUTO_CLOSEDIR DIR *list = dir_list(folder->dir, ".");
	const char *base = strrchr(folder->path, '/');
	struct dirent *entry;

	if (!list || !base)
		return err_errno(err, "cannot list directory hooks");
	while (errno = 0, (entry = readdir(list)) != NULL) {
		AUTO_FREE char *target = xasprintf("..%s/%s", base, entry->d_name);
		if (is_worth_a_link(entry->d_name) &&
		    symlinkat(target, folder->kept, entry->d_name) != 0 &&
		    errno != EEXIST)
			return err_errno(err, "cannot make a link to hooks/%s",
					 entry->d_name);
	}
	return errno == 0 ? 0 : err_errno(err, "cannot list directory hooks");
}

static void unlink_own(const struct hook_folder *folder, const char *name)
{
	const char *base = strrchr(folder->path, '/');
	AUTO_FREE char *wanted = xasprintf("..%s/%s", base ? base : "", name);
	char target[PATH_MAX];
	ssize_t len = readlinkat(folder->kept, name, target, sizeof(target) - 1);

	target[len > 0 ? len : 0] = '\0';
	if (strcmp(target, wanted) == 0)
		unlinkat(folder->kept, name, 0);
}

void hook_folder_unlink(struct hook_folder *folder)
{
	AUTO_FREE char *path = xasprintf("%s" HOOK_KEPT, folder->path);
	struct dirent *entry;

	if (folder->kept < 0)
		return;
	for (size_t i = 0; i < HOOKS; i++)
		if (faccessat(folder->kept, hook_names[i], F_OK, AT_SYMLINK_NOFOLLOW) ==
		    0)
			return;
	AUTO_CLOSEDIR DIR *list = dir_list(folder->kept, ".");
	while (list && (entry = readdir(list)) != NULL)
		unlink_own(folder, entry->d_name);
	rmdir(path); /* unless others put something there */
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

int hook_place_find(const char *data, enum hook_side side, struct hook_place *place,
		    struct err *err)
{
	AUTO_FREE char *found = find_program();

	*place = (struct hook_place){ .side = side };
	if (!found || access(found, X_OK) != 0 ||
	    !text_ends_with(found, "/" HOOK_PROGRAM)) {
		err_set(err, ERR_CONFIG, "cannot find the program " HOOK_PROGRAM);
		return err_remedy(err,
				  "install it beside refrelay or in " REFRELAY_LIBEXEC " "
				  "from there, or set REFRELAY_HOOK to its path");
	}
	place->program = TAKE(found);
	place->data = xstrdup(data);
	place->path = global_path();
	return 0;
}

void hook_place_clear(struct hook_place *place)
{
	free(place->program);
	free(place->data);
	free(place->path);
	*place = (struct hook_place){ 0 };
}
