#include "change/hook_install.h"

#include <sys/file.h>

#include "base/file.h"
#include "base/hook_wire.h"
#include "base/log.h"
#include "change/hook_parts.h"

/* "URL\nROOT\n", without credentials and slashes at the end. */
static void hook_role_render(const char *url, const char *root, struct str *text)
{
	AUTO_FREE char *resolved = path_resolve(root);

	log_redact(url, text);
	while (text->len > 0 && text->data[text->len - 1] == '/')
		str_truncate(text, text->len - 1);
	str_addf(text, "\n%s\n", resolved ? resolved : root);
}

int hook_role_set(const char *data, const char *primary_url, const char *root,
		  struct err *err)
{
	AUTO_CLOSE int dir = dir_open(AT_FDCWD, data, err);
	AUTO_STR struct str text = STR_INIT;

	if (dir < 0)
		return -1;
	if (primary_url) {
		hook_role_render(primary_url, root, &text);
		return file_replace(dir, HOOK_PRIMARY, text.data, text.len, FILE_SYNC,
				    err);
	}
	if (unlinkat(dir, HOOK_PRIMARY, 0) != 0 && errno != ENOENT)
		return err_errno(err, "cannot remove %s/" HOOK_PRIMARY, data);
	return 0;
}

static void temporary_name(char name[64])
{
	char suffix[17];

	random_hex(suffix, 8);
	snprintf(name, 64, ".refrelay.tmp-%s", suffix);
}

/* By one rename, whatever was there. */
static int put_link(int dir, const char *name, const char *target, struct err *err)
{
	AUTO_FREE char *temporary = NULL;
	char suffix[17];

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

/* Whoever may list the directory may run it; made by root, it is the owner's. */
static int write_hook(int dir, int fd, const struct hook_place *place, struct err *err)
{
	AUTO_FREE char *text = hook_file_text(place->program);
	struct stat st;

	if (file_write_all(fd, text, strlen(text), "a hook", err) != 0)
		return -1;
	if (fstat(dir, &st) != 0 || fchmod(fd, (st.st_mode & 0555) | 0700) != 0 ||
	    (geteuid() == 0 && fchown(fd, st.st_uid, st.st_gid) != 0))
		return err_errno(err, "cannot set owner and mode of a hook");
	/* a copy's are looked at each time the node starts */
	if (place->side != HOOKS_OF_COPY && fsync(fd) != 0)
		return err_errno(err, "cannot sync a hook");
	return 0;
}

/* Our file, by one rename, whatever was there; in `at`, which may be another directory
 * of the same file system. */
static int put_hook(int dir, int at, const char *name, const struct hook_place *place,
		    struct err *err)
{
	char temporary[64];

	temporary_name(temporary);
	AUTO_CLOSE int fd =
		openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	if (fd < 0)
		return err_errno(err, "cannot make a file in directory hooks");
	if (write_hook(dir, fd, place, err) == 0) {
		if (renameat(dir, temporary, at, name) == 0)
			return 0;
		err_errno(err, "cannot rename a hook to %s", name);
	}
	unlinkat(dir, temporary, 0);
	return -1;
}

static int both_are_there(const struct hook_folder *folder,
			  const struct hook_file_names *names, struct err *err)
{
	err_set(err, ERR_CONFLICT,
		"%s replaced refrelay's hook, and another one is already kept in "
		"%s" HOOK_KEPT,
		names->hook, folder->path);
	return err_remedy(err, "move one of them away, then run the command again");
}

/* Whether two hooks are one file, or say the same. */
static bool hook_install_is_same_hook(int dir, const char *name, int other_dir,
				      const char *other)
{
	AUTO_STR struct str text = STR_INIT, other_text = STR_INIT;

	return file_read_any(dir, name, 1 << 20, &text, ERR_IGNORED) == 0 &&
	       file_read_any(other_dir, other, 1 << 20, &other_text, ERR_IGNORED) == 0 &&
	       text.len == other_text.len &&
	       memcmp(text.data, other_text.data, text.len) == 0;
}

/* For file systems that cannot exchange two names: there are two names for a while. */
static int keep_by_link(const struct hook_folder *folder, const char *hook,
			const struct hook_place *place, struct err *err)
{
	if (unlinkat(folder->kept, hook, 0) != 0 && errno != ENOENT)
		return err_errno(err, "cannot remove a kept %s", hook);
	if (linkat(folder->dir, hook, folder->kept, hook, 0) != 0)
		return err_errno(err, "cannot keep %s", hook);
	return put_hook(folder->dir, folder->dir, hook, place, err);
}

/* Ours is made under the name of the kept one; then they change places at once. */
static int hook_install_exchange_kept(const struct hook_folder *folder, const char *hook,
				      const struct hook_place *place, struct err *err)
{
	if (put_hook(folder->dir, folder->kept, hook, place, err) != 0)
		return -1;
	if (renameat2(folder->dir, hook, folder->kept, hook, RENAME_EXCHANGE) == 0)
		return 0;
	if (errno == EINVAL || errno == ENOSYS)
		return keep_by_link(folder, hook, place, err);
	err_errno(err, "cannot keep %s", hook);
	unlinkat(folder->kept, hook, 0);
	return -1;
}

static bool is_foreign(int dir, const char *name, const struct hook_place *place)
{
	return hook_file_look(dir, name, place->program) == HOOK_FOREIGN;
}

/* A server that writes its hooks again at each start writes what is kept already. */
static int hook_install_keep_foreign(struct hook_folder *folder,
				     const struct hook_file_names *names,
				     const struct hook_place *place, struct err *err)
{
	struct stat st;

	if ((is_foreign(folder->kept, names->hook, place) &&
	     !hook_install_is_same_hook(folder->dir, names->hook, folder->kept,
					names->hook)) ||
	    (is_foreign(folder->dir, names->old_kept, place) &&
	     !hook_install_is_same_hook(folder->dir, names->hook, folder->dir,
					names->old_kept)))
		return both_are_there(folder, names, err);
	if (fstatat(folder->dir, names->hook, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISDIR(st.st_mode))
		return err_set(err, ERR_CONFIG, "hooks/%s is a directory", names->hook);
	if (hook_folder_make_kept(folder, err) != 0 ||
	    hook_install_exchange_kept(folder, names->hook, place, err) != 0)
		return -1;
	unlinkat(folder->dir, names->old_kept, 0);
	return hook_folder_link(folder, err);
}

/* One of several that the server's own hook runs. */
static int put_part(const struct hook_folder *folder, const struct hook_file_names *names,
		    const struct hook_place *place, struct err *err)
{
	if (hook_file_look(folder->dir, names->part, place->program) == HOOK_INSTALLED)
		return 0;
	return put_hook(folder->dir, folder->dir, names->part, place, err);
}

static int hook_install_restore_kept(int from, const char *name, int to, const char *hook,
				     struct err *err)
{
	if (renameat(from, name, to, hook) == 0)
		return 0;
	return err_errno(err, "cannot put %s back as %s", name, hook);
}

/* What earlier versions have kept gets its own name again. Ours looks for it at both
 * places. */
static int bring_old_kept(struct hook_folder *folder, const struct hook_file_names *names,
			  struct err *err)
{
	if (hook_folder_make_kept(folder, err) != 0 ||
	    hook_install_restore_kept(folder->dir, names->old_kept, folder->kept,
				      names->hook, err) != 0)
		return -1;
	return hook_folder_link(folder, err);
}

/* If it is ours. */
static int hook_install_drop_own(int dir, const char *name,
				 const struct hook_place *place, struct err *err)
{
	enum hook_state state = hook_file_look(dir, name, place->program);

	if ((state == HOOK_INSTALLED || state == HOOK_OUTDATED) &&
	    unlinkat(dir, name, 0) != 0)
		return err_errno(err, "cannot remove hooks/%s", name);
	return 0;
}

/* What a run that was cut short has left there. */
static int drop_kept(const struct hook_folder *folder, const char *hook,
		     const struct hook_place *place, struct err *err)
{
	return folder->kept < 0 ? 0
				: hook_install_drop_own(folder->kept, hook, place, err);
}

static int put_over(struct hook_folder *folder, const struct hook_file_names *names,
		    const struct hook_place *place, struct err *err)
{
	if (hook_file_look(folder->dir, names->hook, place->program) != HOOK_INSTALLED &&
	    put_hook(folder->dir, folder->dir, names->hook, place, err) != 0)
		return -1;
	if (!is_foreign(folder->dir, names->old_kept, place)) {
		unlinkat(folder->dir, names->old_kept, 0);
		return drop_kept(folder, names->hook, place, err);
	}
	if (is_foreign(folder->kept, names->hook, place))
		return both_are_there(folder, names, err);
	return bring_old_kept(folder, names, err);
}

/* Whether a hook that was kept is one that runs parts: it is put back, since ours needs
 * no place of its own there. */
static bool runs_parts(int dir, const char *name, const struct hook_folder *folder,
		       const struct hook_file_names *names)
{
	AUTO_FREE char *path = NULL;

	if (dir < 0 || !names->part[0])
		return false;
	if (dir == folder->dir)
		return hook_file_runs_parts(dir, name, names->hook);
	path = xasprintf("../%s" HOOK_KEPT "/%s", strrchr(folder->path, '/') + 1, name);
	return hook_file_runs_parts(folder->dir, path, names->hook);
}

static int install_one(struct hook_folder *folder, const struct hook_file_names *names,
		       const struct hook_place *place, struct err *err)
{
	if (is_foreign(folder->dir, names->hook, place))
		return runs_parts(folder->dir, names->hook, folder, names)
			       ? put_part(folder, names, place, err)
			       : hook_install_keep_foreign(folder, names, place, err);
	if (runs_parts(folder->dir, names->old_kept, folder, names))
		return put_part(folder, names, place, err) != 0
			       ? -1
			       : hook_install_restore_kept(folder->dir, names->old_kept,
							   folder->dir, names->hook, err);
	if (runs_parts(folder->kept, names->hook, folder, names))
		return put_part(folder, names, place, err) != 0
			       ? -1
			       : hook_install_restore_kept(folder->kept, names->hook,
							   folder->dir, names->hook, err);
	return put_over(folder, names, place, err);
}

/* Our hooks make files there, also those that users other than the owner run: the
 * folder gets the repository's mode. Made by root for a repository of somebody else, it
 * becomes that user's: the node works in it, too. */
static int hook_install_make_folder(int repository, struct err *err)
{
	struct stat st, folder;
	bool is_new = mkdirat(repository, HOOK_NODE_FOLDER, 0777) == 0;

	if (!is_new && errno != EEXIST)
		return err_errno(err, "cannot make " HOOK_NODE_FOLDER);
	if (fstat(repository, &st) != 0 ||
	    fstatat(repository, HOOK_NODE_FOLDER, &folder, AT_SYMLINK_NOFOLLOW) != 0)
		return err_errno(err, "cannot look at " HOOK_NODE_FOLDER);
	if (!S_ISDIR(folder.st_mode)) /* a link may lead to anywhere */
		return err_set(err, ERR_CONFIG, HOOK_NODE_FOLDER " is not a directory");
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

	if (hook_install_make_folder(repository, err) != 0)
		return -1;
	ssize_t len = readlinkat(repository, HOOK_NODE_LINK, target, PATH_MAX - 1);
	target[len > 0 ? len : 0] = '\0';
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

static int hook_install_check_folder(const struct hook_folder *folder,
				     const struct hook_place *place, struct err *err)
{
	if (folder->is_noexec) {
		err_set(err, ERR_CONFIG, "%s is on a file system that is mounted noexec",
			folder->path);
		return err_remedy(err,
				  "mount it without noexec: git runs no hooks there");
	}
	if (!folder->is_shared || place->changes_shared)
		return 0;
	err_set(err, ERR_CONFIG,
		"git uses the hooks in %s, which other repositories may share",
		folder->path);
	return err_remedy(
		err, "use --shared to install the hooks there, or unset core.hooksPath");
}

static bool are_all_installed(const struct hook_folder *folder,
			      const struct hook_place *place)
{
	for (size_t i = 0; i < (size_t)place->side; i++) {
		struct hook_file_names names = hook_file_names(i);
		bool is_part = names.part[0] &&
			       runs_parts(folder->dir, names.hook, folder, &names);
		if (hook_file_look(folder->dir, is_part ? names.part : names.hook,
				   place->program) != HOOK_INSTALLED)
			return false;
	}
	return true;
}

static int install_all(struct hook_folder *folder, const struct hook_place *place,
		       struct err *err)
{
	if (lock_hooks(folder->dir, err) != 0)
		return -1;
	for (size_t i = 0; i < (size_t)place->side; i++) {
		struct hook_file_names names = hook_file_names(i);
		if (install_one(folder, &names, place, err) != 0)
			return -1;
	}
	hook_folder_unlink(folder); /* what was kept may have been put back */
	return dir_sync(folder->dir, ".", err);
}

static int open_or_make(int repository, const struct hook_place *place,
			struct hook_folder *folder, struct err *err)
{
	if (hook_folder_open(repository, place, folder, err) != 0)
		return -1;
	if (folder->dir >= 0)
		return 0;
	if (folder->is_shared) {
		err_set(err, ERR_CONFIG, "core.hooksPath is %s, which does not exist",
			folder->path);
		return err_remedy(err, "create that directory, or unset core.hooksPath");
	}
	if (mkdirat(repository, "hooks", 0777) != 0)
		return err_errno(err, "cannot make directory hooks");
	return hook_folder_open(repository, place, folder, err);
}

int hook_install(int repository, const struct hook_place *place, struct err *err)
{
	AUTO_HOOK_FOLDER struct hook_folder folder = HOOK_FOLDER_INIT;

	if (open_or_make(repository, place, &folder, err) != 0)
		return -1;
	if (folder.is_noexec || !are_all_installed(&folder, place)) {
		if (hook_install_check_folder(&folder, place, err) != 0)
			return -1;
	} else if (folder.is_shared) {
		return install_node(repository, place->data, err);
	}
	if (install_node(repository, place->data, err) != 0)
		return -1;
	return install_all(&folder, place, err);
}

/* Under which name, and where, a hook is kept; NULL: nowhere. */
static const char *kept_at(const struct hook_folder *folder,
			   const struct hook_file_names *names,
			   const struct hook_place *place, int *dir)
{
	*dir = folder->kept;
	if (is_foreign(*dir, names->hook, place))
		return names->hook;
	*dir = folder->dir;
	return is_foreign(*dir, names->old_kept, place) ? names->old_kept : NULL;
}

static int hook_install_remove_one(const struct hook_folder *folder,
				   const struct hook_file_names *names,
				   const struct hook_place *place, struct err *err)
{
	int kept_dir;
	const char *kept = kept_at(folder, names, place, &kept_dir);

	if (names->part[0] &&
	    hook_install_drop_own(folder->dir, names->part, place, err) != 0)
		return -1;
	if (kept && is_foreign(folder->dir, names->hook, place) &&
	    !hook_install_is_same_hook(folder->dir, names->hook, kept_dir, kept))
		return both_are_there(folder, names, err);
	if (kept)
		return hook_install_restore_kept(kept_dir, kept, folder->dir, names->hook,
						 err);
	if (hook_install_drop_own(folder->dir, names->hook, place, err) != 0 ||
	    hook_install_drop_own(folder->dir, names->old_kept, place, err) != 0)
		return -1;
	return drop_kept(folder, names->hook, place, err);
}

static int hook_install_remove_all(struct hook_folder *folder,
				   const struct hook_place *place, struct err *err)
{
	if (lock_hooks(folder->dir, err) != 0)
		return -1;
	for (size_t i = 0; i < HOOKS; i++) {
		struct hook_file_names names = hook_file_names(i);
		if (hook_install_remove_one(folder, &names, place, err) != 0)
			return -1;
	}
	hook_folder_unlink(folder);
	return dir_sync(folder->dir, ".", err);
}

int hook_remove(int repository, const struct hook_place *place, struct err *err)
{
	AUTO_HOOK_FOLDER struct hook_folder folder = HOOK_FOLDER_INIT;

	if (hook_folder_open(repository, place, &folder, err) != 0)
		return -1;
	/* without the link the hooks of a shared directory have nobody to tell */
	if (folder.dir >= 0 && (!folder.is_shared || place->changes_shared) &&
	    hook_install_remove_all(&folder, place, err) != 0)
		return -1;
	if (unlinkat(repository, HOOK_NODE_LINK, 0) != 0 && errno != ENOENT)
		return err_errno(err, "cannot remove " HOOK_NODE_LINK);
	unlinkat(repository, HOOK_NODE_FOLDER, AT_REMOVEDIR); /* if it is empty now */
	return 0;
}
