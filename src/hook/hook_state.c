/*
 * Files, below refrelay/state in the repository:
 *	key			random digits, replaced by one rename
 *	pending/git-<pid>-<start>-<random>
 *				"refrelay process boot=... pidns=... pid=... start=..."
 *
 * This program ends at once, so it cannot hold a lock: the file names the git process,
 * which lives as long as the change goes on. Transactions nest (one of packed-refs in
 * one of loose refs), so a process may have several files; which of them goes first is
 * all the same, since the key changes before each removal.
 *
 * Pending files get their name when they are whole: to readers a file without a line is
 * one that its maker had no time to fill.
 */
#include "hook/hook_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hook_wire.h"
#include "hook/hook_text.h"

enum { ANCESTORS_LIMIT = 64, NAME_SIZE = 128, RANDOM_DIGITS = 16 };

struct process {
	uint64_t pid, parent;
	uint64_t start; /* 0: not known */
	char name[32];
};

/* What belongs to the git process on whose behalf we are run. */
struct owner {
	char prefix[80]; /* of its pending files' names */
	char line[OWNER_LINE_MAX];
};

static bool random_digits(char *text, size_t digits)
{
	unsigned char raw[STATE_KEY_DIGITS / 2];

	if (getrandom(raw, digits / 2, 0) != (ssize_t)(digits / 2))
		return false;
	for (size_t i = 0; i < digits; i++)
		text[i] = "0123456789abcdef"[raw[i / 2] >> (i % 2 ? 0 : 4) & 15];
	text[digits] = '\0';
	return true;
}

static uint64_t hook_state_leading_number(const char *text)
{
	uint64_t value = 0;

	for (; *text >= '0' && *text <= '9'; text++)
		value = value * 10 + (uint64_t)(*text - '0');
	return value;
}

static void proc_path(uint64_t pid, const char *name, char *path, size_t size)
{
	path[0] = '\0';
	hook_text_add(path, size, "/proc/");
	hook_text_add_number(path, size, pid);
	hook_text_add(path, size, name);
}

/* /proc/PID/stat: "<pid> (<name>) <state> <parent> ..."; the start is field 22. The name
 * may have spaces and parentheses. */
static bool read_process(uint64_t pid, struct process *process)
{
	char path[NAME_SIZE], text[1024];
	const char *from, *at;

	*process = (struct process){ .pid = pid };
	proc_path(pid, "/stat", path, sizeof(path));
	if (!hook_text_read_file(AT_FDCWD, path, text, sizeof(text)))
		return false;
	from = strchr(text, '(');
	at = strrchr(text, ')');
	if (!from || !at)
		return false;
	size_t len = (size_t)(at - from - 1);
	if (len >= sizeof(process->name))
		len = sizeof(process->name) - 1;
	memcpy(process->name, from + 1, len);
	for (int field = 2; at && field < 22; field++) {
		at = strchr(at + 1, ' ');
		if (at && field == 3)
			process->parent = hook_state_leading_number(at + 1);
	}
	process->start = at ? hook_state_leading_number(at + 1) : 0;
	return true;
}

/* A script may be called git-something as well; but its program is a shell. */
static bool hook_state_is_git_process(const struct process *process)
{
	char path[NAME_SIZE], program[PATH_MAX];
	const char *slash;

	if (strcmp(process->name, "git") != 0 &&
	    !hook_text_begins_with(process->name, "git-"))
		return false;
	proc_path(process->pid, "/exe", path, sizeof(path));
	ssize_t len = readlink(path, program, sizeof(program) - 1);
	if (len <= 0)
		return true; /* another user's: it cannot be told */
	program[len] = '\0';
	slash = strrchr(program, '/');
	return slash && hook_text_begins_with(slash + 1, "git");
}

/* The git process that changes refs: there may be scripts between it and us. Without one
 * that can be seen it is our parent, if need be by number only. False: git was killed,
 * and who has inherited us, as init does, lives on; it is in another process group. */
static bool find_process(struct process *found)
{
	struct process parent;
	pid_t pid = getppid();

	read_process((uint64_t)pid, &parent);
	*found = parent;
	for (int i = 0; i < ANCESTORS_LIMIT && !hook_state_is_git_process(found); i++)
		if (found->parent == 0 || !read_process(found->parent, found))
			break;
	if (hook_state_is_git_process(found))
		return true;
	*found = parent;
	return getpgid(pid) == getpgrp();
}

static void read_boot(char boot[BOOT_ID_LEN + 1])
{
	const char *given = getenv(BOOT_ID_VARIABLE);
	char text[64] = "";

	hook_text_read_file(AT_FDCWD, BOOT_ID_PATH, text, sizeof(text));
	if (!boot_id_read(text, boot) && !(given && boot_id_read(given, boot)))
		boot[0] = '\0';
}

static bool find_owner(struct owner *owner)
{
	char boot[BOOT_ID_LEN + 1];
	struct process process;
	struct stat st;

	if (!find_process(&process)) {
		errno = ESRCH;
		return false;
	}
	read_boot(boot);
	*owner = (struct owner){ .line = OWNER_PROCESS OWNER_BOOT,
				 .prefix = STATE_GIT_PREFIX };
	hook_text_add(owner->line, sizeof(owner->line), *boot ? boot : "unknown");
	hook_text_add(owner->line, sizeof(owner->line), OWNER_PIDNS);
	hook_text_add_number(owner->line, sizeof(owner->line),
			     stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0);
	hook_text_add(owner->line, sizeof(owner->line), OWNER_PID);
	hook_text_add_number(owner->line, sizeof(owner->line), process.pid);
	hook_text_add(owner->line, sizeof(owner->line), OWNER_START);
	hook_text_add_number(owner->line, sizeof(owner->line), process.start);
	hook_text_add(owner->line, sizeof(owner->line), "\n");
	hook_text_add_number(owner->prefix, sizeof(owner->prefix), process.pid);
	hook_text_add(owner->prefix, sizeof(owner->prefix), "-");
	hook_text_add_number(owner->prefix, sizeof(owner->prefix), process.start);
	hook_text_add(owner->prefix, sizeof(owner->prefix), "-");
	return true;
}

/* Made by root for a repository of somebody else, it becomes that user's. */
static bool hook_state_make_folder(int repository, const char *path,
				   const struct stat *like)
{
	if (mkdirat(repository, path, like->st_mode & 0777) != 0)
		return errno == EEXIST;
	return geteuid() != 0 || fchownat(repository, path, like->st_uid, like->st_gid,
					  AT_SYMLINK_NOFOLLOW) == 0;
}

/* All who may push must be able to write there, whatever this one's umask. */
static bool hook_state_make_folders(int repository)
{
	static const char *const names[] = { HOOK_NODE_FOLDER, STATE_FOLDER,
					     STATE_PENDING };
	struct stat st;
	bool is_made = fstat(repository, &st) == 0;
	mode_t old = umask(0);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && is_made; i++)
		is_made = hook_state_make_folder(repository, names[i], &st);
	umask(old);
	return is_made;
}

/* To be renamed; who can read HEAD can read it. */
static int hook_state_create_file(int repository, const char *path, mode_t mode)
{
	int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
	int fd = openat(repository, path, flags, 0666);

	if (fd < 0 && errno == ENOENT && hook_state_make_folders(repository))
		fd = openat(repository, path, flags, 0666);
	if (fd < 0 || fchmod(fd, mode) == 0)
		return fd;
	int saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

/* Network file systems may tell of a full disk at the close. */
static bool write_and_close(int fd, const char *text)
{
	ssize_t len = (ssize_t)strlen(text), put = write(fd, text, (size_t)len);
	int saved = put >= 0 && put < len ? ENOSPC : errno;

	if (close(fd) != 0 && put == len)
		return false;
	errno = saved;
	return put == len;
}

/* The file gets its name when it is whole. */
static bool put_file(int repository, const char *name, const char *text)
{
	char path[NAME_SIZE] = "", digits[RANDOM_DIGITS + 1];
	struct stat head;

	if (fstatat(repository, "HEAD", &head, 0) != 0 ||
	    !random_digits(digits, RANDOM_DIGITS))
		return false;
	hook_text_add(path, sizeof(path), STATE_FOLDER "/new" STATE_TEMPORARY);
	hook_text_add(path, sizeof(path), digits);
	int fd = hook_state_create_file(repository, path, head.st_mode & 0666);
	if (fd >= 0 && write_and_close(fd, text) &&
	    renameat(repository, path, repository, name) == 0)
		return true;
	int saved = errno;
	unlinkat(repository, path, 0);
	errno = saved;
	return false;
}

static bool put_pending(int repository)
{
	char name[NAME_SIZE] = STATE_PENDING "/", digits[RANDOM_DIGITS + 1];
	struct owner owner;

	if (!find_owner(&owner) || !random_digits(digits, RANDOM_DIGITS))
		return false;
	hook_text_add(name, sizeof(name), owner.prefix);
	hook_text_add(name, sizeof(name), digits);
	if (put_file(repository, name, owner.line))
		return true;
	/* All but the last folder were there. */
	return errno == ENOENT && faccessat(repository, "HEAD", F_OK, 0) == 0 &&
	       hook_state_make_folders(repository) &&
	       put_file(repository, name, owner.line);
}

static const char *remedy(int number_of_error)
{
	switch (number_of_error) {
	case EACCES:
	case EPERM:
		return "let every pusher write below " HOOK_NODE_FOLDER
		       ", as they can in the rest of the repository";
	case ENOSPC:
	case EDQUOT:
		return "make room on the repository's file system";
	case ESRCH:
		return "repeat the change: the git that made it was killed";
	case EROFS:
		return "make the repository's file system writable";
	default:
		return "make sure that files can be created in " STATE_PENDING;
	}
}

bool hook_state_begin(int repository)
{
	if (put_pending(repository))
		return true;
	int saved = errno;
	complain_errno("this change is refused, because readers would keep getting the "
		       "old refs: cannot write to " STATE_FOLDER);
	hook_text_complain("hint", remedy(saved));
	return false;
}

static bool put_key(int repository)
{
	char key[STATE_KEY_DIGITS + 1];

	return random_digits(key, STATE_KEY_DIGITS) &&
	       put_file(repository, STATE_KEY, key);
}

/* The line as well: another host may have such a process, too. */
static bool is_owned(int pending, const char *name, const struct owner *owner)
{
	char line[OWNER_LINE_MAX];

	return hook_text_begins_with(name, owner->prefix) &&
	       hook_text_read_file(pending, name, line, sizeof(line)) &&
	       strcmp(line, owner->line) == 0;
}

/* Fills the name of one of the owner's files. */
static bool find_pending(int repository, char name[NAME_SIZE])
{
	struct owner owner;
	struct dirent *entry;
	bool is_found = false;

	if (!find_owner(&owner))
		return false; /* recovery removes it */
	int fd = openat(repository, STATE_PENDING, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	while (list && !is_found && (entry = readdir(list)) != NULL) {
		is_found = is_owned(fd, entry->d_name, &owner);
		name[0] = '\0';
		hook_text_add(name, NAME_SIZE, STATE_PENDING "/");
		hook_text_add(name, NAME_SIZE, entry->d_name);
	}
	if (list)
		closedir(list);
	return is_found;
}

void hook_state_committed(int repository)
{
	char name[NAME_SIZE];
	bool is_found = find_pending(repository, name);

	if (!put_key(repository))
		complain_errno("readers are served more slowly until " STATE_FOLDER
			       " can be written");
	else if (is_found)
		unlinkat(repository, name, 0);
}

/* Without a file this is the end of a change that was refused by us. */
void hook_state_aborted(int repository)
{
	char name[NAME_SIZE];

	if (find_pending(repository, name) && put_key(repository))
		unlinkat(repository, name, 0);
}

void hook_state_git(char *text, size_t size)
{
	struct process git;

	find_process(&git);
	text[0] = '\0';
	hook_text_add_number(text, size, git.pid);
	hook_text_add(text, size, "-");
	hook_text_add_number(text, size, git.start);
}

bool hook_state_is_of_node(void)
{
	const char *supervisor = getenv(HOOK_SUPERVISOR);
	struct process git;

	return supervisor && find_process(&git) && git.parent > 0 &&
	       git.parent == hook_state_leading_number(supervisor);
}
