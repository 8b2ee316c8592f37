#include "cli/hook_install.h"

#include <sys/file.h>

#include "base/file.h"
#include "base/hook_wire.h"

const char *const hook_names[HOOKS] = { "reference-transaction", "post-receive" };

/* The names of one hook. */
struct names {
	const char *hook;
	char kept[64];
};

static struct names names_of(size_t i)
{
	struct names names = { .hook = hook_names[i] };

	snprintf(names.kept, sizeof(names.kept), "%s" HOOK_KEPT, names.hook);
	return names;
}

const char *hook_state_name(enum hook_state state)
{
	static const char *const texts[] = { [HOOK_MISSING] = "missing",
					     [HOOK_INSTALLED] = "installed",
					     [HOOK_OUTDATED] = "outdated",
					     [HOOK_FOREIGN] = "foreign" };

	return texts[state];
}

/* Fills the target of a symbolic link; "" if it is none. */
static void read_link(int dir, const char *name, char target[PATH_MAX])
{
	ssize_t len = readlinkat(dir, name, target, PATH_MAX - 1);

	target[len > 0 ? len : 0] = '\0';
}

static bool is_there(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static enum hook_state look_at(int dir, const char *name, const char *program)
{
	char target[PATH_MAX];
	const char *slash;

	read_link(dir, name, target);
	slash = strrchr(target, '/');
	if (slash && strcmp(slash + 1, HOOK_PROGRAM) == 0)
		return strcmp(target, program) == 0 ? HOOK_INSTALLED : HOOK_OUTDATED;
	return is_there(dir, name) ? HOOK_FOREIGN : HOOK_MISSING;
}

/* -1 with errno ENOENT as any other error: fills *err. */
static int open_hooks(int repository, struct err *err)
{
	int dir = openat(repository, "hooks",
			 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dir >= 0)
		return dir;
	if (errno != ELOOP && errno != ENOTDIR)
		return err_errno(err, "cannot open directory hooks");
	err_set(err, ERR_CONFIG, "hooks is no directory of this repository alone");
	return err_remedy(err, "links to " HOOK_PROGRAM " in the directory that it names "
			       "must be made by hand, see refrelay-hooks(1)");
}

int hook_look(int repository, const struct hook_place *place, struct hook_look *look,
	      struct err *err)
{
	char target[PATH_MAX];
	AUTO_CLOSE int dir = open_hooks(repository, err);

	*look = (struct hook_look){ 0 };
	read_link(repository, HOOK_NODE_LINK, target);
	look->has_node = strcmp(target, place->data) == 0;
	if (!look->has_node)
		memcpy(look->other, target, sizeof(look->other));
	if (dir < 0)
		return err->sys_errno == ENOENT ? 0 : -1;
	for (size_t i = 0; i < HOOKS; i++) {
		struct names names = names_of(i);
		look->states[i] = look_at(dir, names.hook, place->program);
		look->is_kept[i] =
			look_at(dir, names.kept, place->program) == HOOK_FOREIGN;
	}
	return 0;
}

bool hook_is_installed(const struct hook_look *look)
{
	return look->has_node && look->states[0] == HOOK_INSTALLED &&
	       look->states[1] == HOOK_INSTALLED;
}

bool hook_is_astray(const struct hook_look *look)
{
	bool is_any = false;

	for (size_t i = 0; i < HOOKS; i++)
		is_any |= look->states[i] == HOOK_INSTALLED ||
			  look->states[i] == HOOK_OUTDATED;
	return is_any && !hook_is_installed(look);
}

bool hook_is_removed(const struct hook_look *look)
{
	for (size_t i = 0; i < HOOKS; i++)
		if (look->is_kept[i] || look->states[i] == HOOK_INSTALLED ||
		    look->states[i] == HOOK_OUTDATED)
			return false;
	return !look->has_node;
}

/* By one rename, whatever was there. */
static int put_link(int dir, const char *name, const char *target, struct err *err)
{
	char suffix[17];
	AUTO_FREE char *temporary = NULL;

	random_hex(suffix, 8);
	temporary = xasprintf("%s.tmp-%s", name, suffix);
	if (symlinkat(target, dir, temporary) != 0)
		return err_errno(err, "cannot make the link %s", temporary);
	if (renameat(dir, temporary, dir, name) == 0)
		return 0;
	err_errno(err, "cannot rename %s to %s", temporary, name);
	unlinkat(dir, temporary, 0);
	return -1;
}

static int both_are_there(const struct names *names, struct err *err)
{
	err_set(err, ERR_CONFLICT, "hooks/%s was put over ours, and hooks/%s is there",
		names->hook, names->kept);
	return err_remedy(err, "move one of them away, then run the command again");
}

/* Whether the second name was given to the hook by a run that was cut short. */
static bool is_same_file(int dir, const struct names *names)
{
	struct stat hook, kept;

	return fstatat(dir, names->hook, &hook, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstatat(dir, names->kept, &kept, AT_SYMLINK_NOFOLLOW) == 0 &&
	       hook.st_dev == kept.st_dev && hook.st_ino == kept.st_ino;
}

/* For file systems that cannot exchange two names: there are two names for a while. */
static int keep_by_link(int dir, const struct names *names, const char *program,
			struct err *err)
{
	if (unlinkat(dir, names->kept, 0) != 0 && errno != ENOENT)
		return err_errno(err, "cannot remove hooks/%s", names->kept);
	if (linkat(dir, names->hook, dir, names->kept, 0) != 0)
		return err_errno(err, "cannot keep hooks/%s as %s", names->hook,
				 names->kept);
	return put_link(dir, names->hook, program, err);
}

/* Ours is made under the name of the kept one; then they change places at once. */
static int keep(int dir, const struct names *names, const char *program, struct err *err)
{
	struct stat st;

	if (look_at(dir, names->kept, program) == HOOK_FOREIGN &&
	    !is_same_file(dir, names))
		return both_are_there(names, err);
	if (fstatat(dir, names->hook, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISDIR(st.st_mode))
		return err_set(err, ERR_CONFIG, "hooks/%s is a directory", names->hook);
	if (put_link(dir, names->kept, program, err) != 0)
		return -1;
	if (renameat2(dir, names->hook, dir, names->kept, RENAME_EXCHANGE) == 0)
		return 0;
	if (errno == EINVAL || errno == ENOSYS)
		return keep_by_link(dir, names, program, err);
	err_errno(err, "cannot rename hooks/%s to %s", names->hook, names->kept);
	unlinkat(dir, names->kept, 0);
	return -1;
}

static int install_one(int dir, const struct names *names, const char *program,
		       struct err *err)
{
	switch (look_at(dir, names->hook, program)) {
	case HOOK_INSTALLED:
		return 0;
	case HOOK_FOREIGN:
		return keep(dir, names, program, err);
	default:
		return put_link(dir, names->hook, program, err);
	}
}

/* Our hooks make files there, also those that users other than the owner run: the
 * folder gets the repository's mode. Made by root for a repository of somebody else, it
 * becomes that user's: the node works in it, too. */
static int make_folder(int repository, struct err *err)
{
	struct stat st, folder;
	bool is_new = mkdirat(repository, HOOK_NODE_FOLDER, 0777) == 0;

	if (!is_new && errno != EEXIST)
		return err_errno(err, "cannot make " HOOK_NODE_FOLDER);
	if (fstat(repository, &st) != 0 ||
	    fstatat(repository, HOOK_NODE_FOLDER, &folder, AT_SYMLINK_NOFOLLOW) != 0)
		return err_errno(err, "cannot look at " HOOK_NODE_FOLDER);
	if (!S_ISDIR(folder.st_mode)) /* a link may lead to anywhere */
		return err_set(err, ERR_CONFIG, HOOK_NODE_FOLDER " is no directory");
	if (is_new && geteuid() == 0 &&
	    fchownat(repository, HOOK_NODE_FOLDER, st.st_uid, st.st_gid,
		     AT_SYMLINK_NOFOLLOW) != 0)
		return err_errno(err, "cannot give " HOOK_NODE_FOLDER " to its owner");
	mode_t mode = (folder.st_mode | st.st_mode) & (S_ISGID | 0777);
	if ((folder.st_mode & (S_ISGID | 0777)) != mode &&
	    fchmodat(repository, HOOK_NODE_FOLDER, mode, AT_SYMLINK_NOFOLLOW) != 0)
		return err_errno(err, "cannot set the mode of " HOOK_NODE_FOLDER);
	return 0;
}

static int install_node(int repository, const char *data, struct err *err)
{
	char target[PATH_MAX];

	if (make_folder(repository, err) != 0)
		return -1;
	read_link(repository, HOOK_NODE_LINK, target);
	if (strcmp(target, data) == 0)
		return 0;
	if (put_link(repository, HOOK_NODE_LINK, data, err) != 0)
		return -1;
	return dir_sync(repository, HOOK_NODE_FOLDER, err);
}

/* Two commands at once would exchange names twice. */
static int lock_hooks(int dir, struct err *err)
{
	return flock(dir, LOCK_EX) == 0 ? 0 : err_errno(err, "cannot lock hooks");
}

int hook_install(int repository, const struct hook_place *place, struct err *err)
{
	if (mkdirat(repository, "hooks", 0777) != 0 && errno != EEXIST)
		return err_errno(err, "cannot make directory hooks");
	AUTO_CLOSE int dir = open_hooks(repository, err);
	if (dir < 0 || lock_hooks(dir, err) != 0 ||
	    install_node(repository, place->data, err) != 0)
		return -1;
	for (size_t i = 0; i < HOOKS; i++) {
		struct names names = names_of(i);
		if (install_one(dir, &names, place->program, err) != 0)
			return -1;
	}
	return dir_sync(dir, ".", err);
}

static int remove_one(int dir, const struct names *names, const char *program,
		      struct err *err)
{
	enum hook_state hook = look_at(dir, names->hook, program);
	enum hook_state kept = look_at(dir, names->kept, program);

	if (kept == HOOK_FOREIGN && hook == HOOK_FOREIGN && !is_same_file(dir, names))
		return both_are_there(names, err);
	if (kept == HOOK_FOREIGN && hook != HOOK_FOREIGN) {
		if (renameat(dir, names->kept, dir, names->hook) == 0)
			return 0;
		return err_errno(err, "cannot put hooks/%s back", names->hook);
	}
	if (kept != HOOK_MISSING && unlinkat(dir, names->kept, 0) != 0)
		return err_errno(err, "cannot remove hooks/%s", names->kept);
	if (hook != HOOK_MISSING && hook != HOOK_FOREIGN &&
	    unlinkat(dir, names->hook, 0) != 0)
		return err_errno(err, "cannot remove hooks/%s", names->hook);
	return 0;
}

int hook_remove(int repository, const struct hook_place *place, struct err *err)
{
	AUTO_CLOSE int dir = open_hooks(repository, err);

	if (dir < 0 && err->sys_errno != ENOENT)
		return -1;
	if (dir >= 0 && lock_hooks(dir, err) != 0)
		return -1;
	for (size_t i = 0; dir >= 0 && i < HOOKS; i++) {
		struct names names = names_of(i);
		if (remove_one(dir, &names, place->program, err) != 0)
			return -1;
	}
	if (unlinkat(repository, HOOK_NODE_LINK, 0) != 0 && errno != ENOENT)
		return err_errno(err, "cannot remove " HOOK_NODE_LINK);
	unlinkat(repository, HOOK_NODE_FOLDER, AT_REMOVEDIR); /* if it is empty now */
	return dir >= 0 ? dir_sync(dir, ".", err) : 0;
}
