/*
 * A hook is known by what its file says, so that one that a server has rewritten in
 * place is foreign. Links are followed: what counts is the file that git would run.
 */
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/conf.h"
#include "base/file.h"
#include "base/hook_wire.h"
#include "base/proc.h"
#include "base/str.h"
#include "change/hook_parts.h"

/*
 * Where git looks for hooks, and where our program is. Starting git for each of
 * thousands of repositories would take minutes, so it is asked only about those whose
 * configuration could say something of it.
 */

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

/* Where an open file or directory stands, links resolved; "" if that cannot be told. */
static void hook_fd_path(int fd, char path[PATH_MAX])
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

/* What the file itself, without what it includes, says of core.hooksPath. */
enum hooks_path { HOOKS_PATH_UNSET, HOOKS_PATH_PLAIN, HOOKS_PATH_ASK_GIT };

static enum hooks_path hook_folder_parse_path(const struct str *config, struct str *value)
{
	AUTO_CONF struct conf *conf = NULL;
	const struct conf_entry *entry;

	if (!strcasestr(config->data, "hooksPath"))
		return HOOKS_PATH_UNSET;
	if (conf_load_text("config", config->data, config->len, &conf, ERR_IGNORED) != 0)
		return HOOKS_PATH_ASK_GIT;
	entry = conf_get(conf, "core", NULL, "hooksPath");
	if (!entry)
		return HOOKS_PATH_UNSET;
	if (!entry->value || entry->value[0] != '/')
		return HOOKS_PATH_ASK_GIT;
	str_add(value, entry->value);
	return HOOKS_PATH_PLAIN;
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
	enum hooks_path says;
	char path[PATH_MAX];

	if (file_read(repository, "config", CONFIG_LIMIT, &config, err) != 0)
		return err->class == ERR_MISSING ? 0 : -1;
	if (!place->is_quick && may_be_included(config.data))
		says = HOOKS_PATH_ASK_GIT;
	else
		says = hook_folder_parse_path(&config, value);
	if (says == HOOKS_PATH_PLAIN)
		return 1;
	if (says == HOOKS_PATH_UNSET) {
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
		return err_remedy(
			err, "install it next to refrelay or in " REFRELAY_LIBEXEC " "
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

enum { TEXT_LIMIT = 65536 };

const char *const hook_names[HOOKS] = { "reference-transaction", "post-receive",
					"pre-receive" };

const char *hook_state_name(enum hook_state state)
{
	static const char *const texts[] = { [HOOK_MISSING] = "missing",
					     [HOOK_INSTALLED] = "installed",
					     [HOOK_OUTDATED] = "outdated",
					     [HOOK_FOREIGN] = "foreign" };

	return texts[state];
}

/* Only the exit status of post-receive counts for nothing, and it has no arguments; so
 * the server's script can be trusted with it. */
struct hook_file_names hook_file_names(size_t i)
{
	struct hook_file_names names = { .hook = hook_names[i] };

	snprintf(names.old_kept, sizeof(names.old_kept), "%s" HOOK_KEPT, names.hook);
	if (strcmp(names.hook, "post-receive") == 0)
		snprintf(names.part, sizeof(names.part), "%s" HOOK_PARTS "/" HOOK_PART,
			 names.hook);
	return names;
}

/* For the kernel at most 127 bytes are safe, and a blank ends the path. */
static bool fits_first_line(const char *program)
{
	return strlen(program) + sizeof("#! " HOOK_MARK) <= 120 &&
	       strcspn(program, " \t\n") == strlen(program);
}

static void hook_file_add_quoted(struct str *text, const char *path)
{
	str_add_char(text, '\'');
	for (; *path; path++) {
		if (*path == '\'')
			str_add(text, "'\\''");
		else
			str_add_char(text, *path);
	}
	str_add_char(text, '\'');
}

char *hook_file_text(const char *program)
{
	AUTO_STR struct str text = STR_INIT;

	if (fits_first_line(program)) {
		str_addf(&text, "#!%s " HOOK_MARK "\n", program);
		str_add(&text, "# of refrelay hooks install\n");
	} else {
		str_add(&text, "#!/bin/sh\nexec ");
		hook_file_add_quoted(&text, program);
		str_add(&text, " " HOOK_MARK " \"$0\" \"$@\"\n");
	}
	return str_take(&text);
}

static bool is_program(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && strcmp(slash + 1, HOOK_PROGRAM) == 0;
}

/* A link that leads nowhere is ours if it led to the program. */
static enum hook_state look_at_link(int dir, const char *name)
{
	char target[PATH_MAX];
	ssize_t len = readlinkat(dir, name, target, sizeof(target) - 1);

	if (len < 0)
		return errno == ENOENT || errno == ENOTDIR ? HOOK_MISSING : HOOK_FOREIGN;
	target[len] = '\0';
	return is_program(target) ? HOOK_OUTDATED : HOOK_FOREIGN;
}

/* One of two lines, the first of which names the program. An empty one is what a crash
 * of the machine leaves. */
static bool hook_file_is_ours(const char *text)
{
	return !*text || (text_starts_with(text, "#!") && strlen(text) < 2 * PATH_MAX &&
			  strstr(text, HOOK_PROGRAM) && strstr(text, " " HOOK_MARK));
}

static enum hook_state hook_file_classify(const struct stat *st, const char *text,
					  const char *program)
{
	AUTO_FREE char *wanted = hook_file_text(program);

	if (!hook_file_is_ours(text))
		return HOOK_FOREIGN;
	return (st->st_mode & 0100) && strcmp(text, wanted) == 0 ? HOOK_INSTALLED
								 : HOOK_OUTDATED;
}

/* Appends what is at the beginning; a hook that is a program is of no use as text. */
static void hook_file_read_text(int fd, struct str *text)
{
	char block[TEXT_LIMIT];
	ssize_t len = pread(fd, block, sizeof(block) - 1, 0);

	block[len > 0 ? len : 0] = '\0';
	str_add(text, len < 0 ? "?" : block);
}

enum hook_state hook_file_look(int dir, const char *name, const char *program)
{
	AUTO_STR struct str text = STR_INIT;
	char path[PATH_MAX];
	struct stat st;

	if (dir < 0)
		return HOOK_MISSING;
	AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? look_at_link(dir, name) : HOOK_FOREIGN;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return HOOK_FOREIGN;
	hook_fd_path(fd, path);
	if (is_program(path))
		return HOOK_OUTDATED;
	hook_file_read_text(fd, &text);
	return hook_file_classify(&st, text.data, program);
}

bool hook_file_runs_parts(int dir, const char *name, const char *hook)
{
	AUTO_FREE char *parts = xasprintf("%s" HOOK_PARTS, hook);
	AUTO_STR struct str text = STR_INIT;
	struct stat st;

	if (dir < 0 || fstatat(dir, parts, &st, 0) != 0 || !S_ISDIR(st.st_mode) ||
	    faccessat(dir, name, X_OK, AT_EACCESS) != 0)
		return false;
	AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return false;
	hook_file_read_text(fd, &text);
	return strstr(text.data, HOOK_PARTS "/") || strstr(text.data, HOOK_PARTS "\"/");
}

static enum hook_state hook_file_observe(const struct hook_folder *folder,
					 const struct hook_file_names *names,
					 const char *program)
{
	enum hook_state state = hook_file_look(folder->dir, names->hook, program);

	if (state != HOOK_FOREIGN || !names->part[0] ||
	    !hook_file_runs_parts(folder->dir, names->hook, names->hook))
		return state;
	return hook_file_look(folder->dir, names->part, program);
}

static void look_at_node(int repository, const struct hook_place *place,
			 struct hook_look *look)
{
	char target[PATH_MAX];
	ssize_t len = readlinkat(repository, HOOK_NODE_LINK, target, PATH_MAX - 1);

	target[len > 0 ? len : 0] = '\0';
	look->has_node = strcmp(target, place->data) == 0;
	if (!look->has_node)
		memcpy(look->other, target, sizeof(look->other));
}

int hook_look(int repository, const struct hook_place *place, struct hook_look *look,
	      struct err *err)
{
	AUTO_HOOK_FOLDER struct hook_folder folder = HOOK_FOLDER_INIT;

	*look = (struct hook_look){ 0 };
	look_at_node(repository, place, look);
	if (hook_folder_open(repository, place, &folder, err) != 0)
		return -1;
	look->is_shared = folder.is_shared;
	look->is_noexec = folder.is_noexec;
	memcpy(look->folder, folder.path, sizeof(look->folder));
	for (size_t i = 0; i < HOOKS; i++) {
		struct hook_file_names names = hook_file_names(i);
		look->states[i] = hook_file_observe(&folder, &names, place->program);
		look->is_kept[i] = hook_file_look(folder.kept, names.hook,
						  place->program) == HOOK_FOREIGN ||
				   hook_file_look(folder.dir, names.old_kept,
						  place->program) == HOOK_FOREIGN;
	}
	return 0;
}

/* What is worse counts. */
enum hook_state hook_look_state(const struct hook_look *look,
				const struct hook_place *place)
{
	bool has[HOOK_STATES] = { 0 };

	for (size_t i = 0; i < (size_t)place->side; i++)
		has[look->states[i]] = true;
	if (has[HOOK_FOREIGN])
		return HOOK_FOREIGN;
	if (has[HOOK_MISSING])
		return HOOK_MISSING;
	bool was_reported =
		look->has_node || (place->accepts_others && look->other[0] != '\0');
	if (has[HOOK_OUTDATED] || look->is_noexec || !was_reported)
		return HOOK_OUTDATED;
	return HOOK_INSTALLED;
}

static bool is_ours_at(const struct hook_look *look, size_t i)
{
	return look->states[i] == HOOK_INSTALLED || look->states[i] == HOOK_OUTDATED;
}

bool hook_look_is_astray(const struct hook_look *look, const struct hook_place *place)
{
	for (size_t i = 0; i < (size_t)place->side; i++)
		if (is_ours_at(look, i))
			return hook_look_state(look, place) != HOOK_INSTALLED;
	return false;
}

bool hook_look_is_removed(const struct hook_look *look, const struct hook_place *place)
{
	if (look->is_shared && !place->changes_shared)
		return !look->has_node;
	for (size_t i = 0; i < HOOKS; i++)
		if (look->is_kept[i] || is_ours_at(look, i))
			return false;
	return !look->has_node;
}

void hook_count(struct hook_counts *counts, const char *name, enum hook_state state)
{
	AUTO_STR struct str text = STR_INIT;

	counts->states[state]++;
	if (state == HOOK_INSTALLED || counts->example[0])
		return;
	str_add_printable(&text, name);
	str_addf(&text, ": %s", hook_state_name(state));
	snprintf(counts->example, sizeof(counts->example), "%s", text.data);
}

int64_t hook_counts_lacking(const struct hook_counts *counts)
{
	return counts->states[HOOK_MISSING] + counts->states[HOOK_OUTDATED] +
	       counts->states[HOOK_FOREIGN];
}
