/*
 * A hook is known by what its file says, so that one that a server has rewritten in
 * place is foreign. Links are followed: what counts is the file that git would run.
 */
#include <sys/stat.h>

#include "base/file.h"
#include "base/hook_wire.h"
#include "base/str.h"
#include "change/hook_parts.h"

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
	bool is_told =
		look->has_node || (place->accepts_others && look->other[0] != '\0');
	if (has[HOOK_OUTDATED] || look->is_noexec || !is_told)
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
