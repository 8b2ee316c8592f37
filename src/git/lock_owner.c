#include "git/lock_owner.h"

#include <pthread.h>
#include <signal.h>
#include <sys/file.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hook_wire.h"
#include "base/str.h"

/* Six beats. */
#define LOCK_AGE_S 60

/* Gitaly's figure for locks whose owner nobody knows; a git process that takes longer
 * between "prepared" and "committed" is none that we know of. */
#define UNKNOWN_OWNER_AGE_S 3600

static uint64_t own_pidns;

static void read_pidns(void)
{
	struct stat st;

	own_pidns = stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

static uint64_t pidns(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_pidns);
	return own_pidns;
}

bool lock_owner_stands(const struct lock_owner *owner)
{
	return file_is_named(owner->dir, owner->name, owner->fd);
}

int64_t lock_owner_beat(const struct lock_owner *owner)
{
	struct stat st;

	if (futimens(owner->fd, NULL) != 0 || fstat(owner->fd, &st) != 0)
		return -1;
	return (int64_t)st.st_mtime;
}

/* Whoever can read HEAD can see whether its owner lives, whatever the umask. Where that
 * cannot be had, as for root on NFS, age tells. */
static void let_be_read(const struct lock_owner *owner)
{
	struct stat head;

	if (fstatat(owner->dir, "HEAD", &head, 0) != 0)
		return;
	if (geteuid() == 0 && fchown(owner->fd, head.st_uid, head.st_gid) != 0)
		return;
	fchmod(owner->fd, head.st_mode & 0666);
}

/* 1: somebody who looks for dead owners came between create and flock, and has taken
 * the file for one. */
static int make_owner(struct lock_owner *owner, struct err *err)
{
	char text[OWNER_LINE_MAX];

	snprintf(text, sizeof(text),
		 OWNER_LOCK OWNER_BOOT "%s" OWNER_PIDNS "%" PRIu64 OWNER_PID "%ld\n",
		 clock_boot_id(), pidns(), (long)getpid());
	owner->fd = openat(owner->dir, owner->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
			   0666);
	if (owner->fd < 0)
		return err_errno(err, "cannot create %s", owner->name);
	let_be_read(owner);
	if (flock(owner->fd, LOCK_EX | LOCK_NB) != 0) {
		if (errno == EWOULDBLOCK)
			return 1;
		return err_errno(err, "cannot lock %s", owner->name);
	}
	if (!lock_owner_stands(owner))
		return 1;
	return file_write_all(owner->fd, text, strlen(text), owner->name, err);
}

static int open_owner(int dir, const char *folder, const char *prefix,
		      struct lock_owner *owner, struct err *err)
{
	size_t digits = *prefix ? 16 : 32;
	char nonce[33];
	int result = 1;

	for (int tries = 0; tries < 10 && result > 0; tries++) {
		random_hex(nonce, digits / 2);
		*owner = (struct lock_owner){ .dir = dir, .fd = -1 };
		snprintf(owner->name, sizeof(owner->name), "%s/%s%s", folder, prefix,
			 nonce);
		result = make_owner(owner, err);
		if (result != 0)
			lock_owner_close(owner);
	}
	if (result > 0)
		err_set(err, ERR_CONFLICT, "%s: owner files vanish as they are made",
			folder);
	return result == 0 ? 0 : -1;
}

int lock_owner_open(int dir, const char *folder, struct lock_owner *owner,
		    struct err *err)
{
	return open_owner(dir, folder, "", owner, err);
}

int lock_owner_open_hidden(int dir, const char *folder, struct lock_owner *owner,
			   struct err *err)
{
	return open_owner(dir, folder, "owner" STATE_TEMPORARY, owner, err);
}

/* It may have been hidden for hours, and is young when it is seen. */
int lock_owner_show(struct lock_owner *owner, const char *folder, struct err *err)
{
	char nonce[33], name[LOCK_OWNER_NAME_SIZE];

	random_hex(nonce, 16);
	snprintf(name, sizeof(name), "%s/%s", folder, nonce);
	if (lock_owner_beat(owner) < 0 ||
	    renameat(owner->dir, owner->name, owner->dir, name) != 0)
		return err_errno(err, "cannot create %s", name);
	memcpy(owner->name, name, sizeof(name));
	return 0;
}

void lock_owner_close(struct lock_owner *owner)
{
	if (owner->fd < 0)
		return;
	unlinkat(owner->dir, owner->name, 0);
	close(TAKE_FD(owner->fd));
}

/* What stands behind `name`, up to the next space or the line's end. */
static void read_word(const char *text, const char *name, char *out, size_t size)
{
	const char *at = strstr(text, name);
	size_t len = 0;

	if (at) {
		at += strlen(name);
		len = strcspn(at, " \n");
	}
	if (len >= size)
		len = 0;
	memcpy(out, at ? at : "", len);
	out[len] = '\0';
}

static uint64_t lock_owner_read_number(const char *text, const char *name)
{
	char word[24];
	uint64_t number;

	read_word(text, name, word, sizeof(word));
	return text_to_uint64(word, &number) ? number : 0;
}

void lock_owner_read(int fd, struct lock_owner_line *line)
{
	char text[OWNER_LINE_MAX + 1] = "";
	ssize_t len = pread(fd, text, OWNER_LINE_MAX, 0);

	*line = (struct lock_owner_line){ 0 };
	text[len > 0 ? len : 0] = '\0';
	if (text_starts_with(text, OWNER_LOCK " "))
		line->kind = LOCK_OWNER_LOCK;
	else if (text_starts_with(text, OWNER_PROCESS " "))
		line->kind = LOCK_OWNER_PROCESS;
	else
		return;
	read_word(text, OWNER_BOOT, line->boot, sizeof(line->boot));
	line->pidns = lock_owner_read_number(text, OWNER_PIDNS);
	line->pid = lock_owner_read_number(text, OWNER_PID);
	line->start = lock_owner_read_number(text, OWNER_START);
}

static bool is_same_boot(const struct lock_owner_line *line)
{
	return strcmp(line->boot, clock_boot_id()) == 0;
}

bool lock_owner_is_elsewhere(const struct lock_owner_line *line)
{
	return line->kind != LOCK_OWNER_OTHER &&
	       (!is_same_boot(line) || line->pidns != pidns());
}

/* It was made before this machine started, by what ended then. Only where all that
 * write are on this machine, and by its clock. */
static bool is_before_boot(int fd)
{
	struct stat st;

	return file_system_is_local(fd) && fstat(fd, &st) == 0 &&
	       (int64_t)st.st_mtime < clock_boot_wall_s() - 1;
}

/* /proc may hide processes of other users; the call cannot. */
static enum lock_owner_state ask_kernel(pid_t pid)
{
	return kill(pid, 0) == 0 || errno != ESRCH ? LOCK_OWNER_UNKNOWN : LOCK_OWNER_DEAD;
}

/* "<pid> (<name, with any characters>) <state> <4th field> ..." */
static enum lock_owner_state ask_proc(const struct lock_owner_line *line)
{
	char path[48], text[1024];
	uint64_t start;
	char *at, *word = NULL;
	pid_t pid = (pid_t)line->pid;

	snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (len <= 0)
		return ask_kernel(pid);
	text[len] = '\0';
	at = strrchr(text, ')');
	if (!at || at[1] != ' ')
		return LOCK_OWNER_UNKNOWN;
	if (at[2] == 'Z' || at[2] == 'X')
		return LOCK_OWNER_DEAD;
	at += 2;
	for (int field = 3; field <= 22; field++)
		word = strsep(&at, " ");
	if (!word || !text_to_uint64(word, &start))
		return LOCK_OWNER_UNKNOWN;
	return start == line->start ? LOCK_OWNER_ALIVE : LOCK_OWNER_DEAD;
}

static enum lock_owner_state judge_process(int fd, const struct lock_owner_line *line)
{
	if (line->pid == 0 || line->pid > INT32_MAX || line->start == 0)
		return LOCK_OWNER_UNKNOWN;
	if (!lock_owner_is_elsewhere(line))
		return ask_proc(line);
	return !is_same_boot(line) && is_before_boot(fd) ? LOCK_OWNER_DEAD
							 : LOCK_OWNER_UNKNOWN;
}

/* Its flock could be had, which is proof only on the owner's own kernel. */
static enum lock_owner_state judge_lock(int fd, const struct lock_owner_line *line)
{
	return is_same_boot(line) || is_before_boot(fd) ? LOCK_OWNER_DEAD
							: LOCK_OWNER_UNKNOWN;
}

/* An owner file that its owner had no time to fill, or that lost its content with the
 * machine's power, is known by its links: git never makes two names for a lock. */
static enum lock_owner_state judge_other(int fd)
{
	struct stat st;

	if (!file_system_is_local(fd))
		return LOCK_OWNER_UNKNOWN;
	if (fstat(fd, &st) == 0 && st.st_size == 0 && st.st_nlink > 1)
		return LOCK_OWNER_DEAD;
	return LOCK_OWNER_FOREIGN;
}

/* NFS has this lock only for who may write. */
static int take_flock(int *fd)
{
	char path[48];

	if (flock(*fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno != EBADF)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", *fd);
	int writable = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (writable < 0)
		return -1;
	close(*fd);
	*fd = writable;
	return flock(*fd, LOCK_EX | LOCK_NB);
}

static enum lock_owner_state lock_owner_classify(int fd, bool is_flocked)
{
	struct lock_owner_line line;

	lock_owner_read(fd, &line);
	if (line.kind == LOCK_OWNER_PROCESS)
		return judge_process(fd, &line);
	if (!is_flocked)
		return LOCK_OWNER_UNKNOWN;
	return line.kind == LOCK_OWNER_LOCK ? judge_lock(fd, &line) : judge_other(fd);
}

enum lock_owner_state lock_owner_probe(int dir, const char *path, int *fd)
{
	enum lock_owner_state state;
	int flocked;

	*fd = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (*fd < 0)
		return errno == ENOENT ? LOCK_OWNER_GONE : LOCK_OWNER_UNKNOWN;
	flocked = take_flock(fd);
	if (flocked != 0 && errno == EWOULDBLOCK)
		state = LOCK_OWNER_ALIVE;
	else
		state = lock_owner_classify(*fd, flocked == 0);
	if (state == LOCK_OWNER_ALIVE)
		close(TAKE_FD(*fd));
	return state;
}

int64_t lock_owner_clock(int dir, const char *folder)
{
	char suffix[17];
	struct stat st;
	AUTO_FREE char *path = NULL;

	random_hex(suffix, 8);
	path = xasprintf("%s/clock" STATE_TEMPORARY "%s", folder, suffix);
	AUTO_CLOSE int fd =
		openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return -1;
	int result = fstat(fd, &st);
	unlinkat(dir, path, 0);
	return result == 0 ? (int64_t)st.st_mtime : -1;
}

bool lock_owner_is_old(int fd, int64_t now)
{
	struct lock_owner_line line;
	struct stat st;

	if (fd < 0 || now < 0 || fstat(fd, &st) != 0)
		return false;
	lock_owner_read(fd, &line);
	return now - (int64_t)st.st_mtime >=
	       (line.kind == LOCK_OWNER_LOCK ? LOCK_AGE_S : UNKNOWN_OWNER_AGE_S);
}

bool lock_owner_is_old_unread(int dir, const char *path, int64_t now)
{
	struct stat st;

	return now >= 0 && fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       now - (int64_t)st.st_mtime >= UNKNOWN_OWNER_AGE_S;
}
