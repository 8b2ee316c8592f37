#include "git/state.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "git/lock_file.h"

#define NAME_STATE (&STATE_FOLDER[sizeof(HOOK_NODE_FOLDER)])
#define NAME_KEY (&STATE_KEY[sizeof(STATE_FOLDER)])
#define NAME_PENDING (&STATE_PENDING[sizeof(STATE_FOLDER)])

/* Never through a link: whoever may write in the repository could lay one to anywhere,
 * and have files written and removed there that only this process may touch. */
static int open_folder(int parent, const char *name, struct err *err)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		return fd;
	if (errno != ENOTDIR && errno != ELOOP)
		return err_errno(err, "cannot open directory %s of the repository", name);
	err_set(err, ERR_CONFLICT, "%s of the repository is not a directory", name);
	return err_remedy(err, "remove it; " STATE_PENDING " is made anew, links are "
			       "not followed");
}

static int open_state(int dir, struct err *err)
{
	AUTO_CLOSE int folder = open_folder(dir, HOOK_NODE_FOLDER, err);

	return folder < 0 ? -1 : open_folder(folder, NAME_STATE, err);
}

static int set_mode(int state, mode_t mode, struct err *err)
{
	AUTO_CLOSE int fd =
		openat(state, NAME_KEY, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || fchmod(fd, mode & 0666) != 0)
		return err_errno(err, "cannot set the mode of %s", STATE_KEY);
	return 0;
}

/* Who can read HEAD can read the key; later keys get the mode of the first. A reader that
 * sees some of the old key and some of the new one has a key that nothing else has, and
 * finds another one there when it looks again. It is opened after the change: if a hook
 * has replaced it by then, the hook's key is newer than the change, too. */
static int new_key(int dir, struct err *err)
{
	char key[STATE_KEY_SIZE];
	struct stat head;
	AUTO_CLOSE int state = open_state(dir, err);

	if (state < 0)
		return -1;
	bool is_first = !file_is_there(state, NAME_KEY);
	random_hex(key, STATE_KEY_DIGITS / 2);
	if (file_overwrite(state, NAME_KEY, key, STATE_KEY_DIGITS, FILE_NO_SYNC, err) !=
	    0)
		return -1;
	return is_first && fstatat(dir, "HEAD", &head, 0) == 0
		       ? set_mode(state, head.st_mode, err)
		       : 0;
}

/* With the repository's own mode: the hooks of all who may push write there. Made by
 * root for a repository of somebody else, it becomes that user's. Returns it, open. */
static int state_make_folder(int parent, const char *name, const struct stat *like,
			     struct err *err)
{
	bool is_new = mkdirat(parent, name, like->st_mode & 0777) == 0;

	if (!is_new && errno != EEXIST)
		return err_errno(err, "cannot make %s", name);
	AUTO_CLOSE int fd = open_folder(parent, name, err);
	if (fd < 0)
		return -1;
	if (is_new && geteuid() == 0 && fchown(fd, like->st_uid, like->st_gid) != 0)
		return err_errno(err, "cannot give %s to its owner", name);
	if (is_new && fchmod(fd, like->st_mode & (S_ISGID | 0777)) != 0)
		return err_errno(err, "cannot set the mode of %s", name);
	return TAKE_FD(fd);
}

static int state_make_folders(int dir, struct err *err)
{
	struct stat st;

	if (fstat(dir, &st) != 0)
		return err_errno(err, "cannot look at the repository");
	AUTO_CLOSE int folder = state_make_folder(dir, HOOK_NODE_FOLDER, &st, err);
	if (folder < 0)
		return -1;
	AUTO_CLOSE int state = state_make_folder(folder, NAME_STATE, &st, err);
	if (state < 0)
		return -1;
	AUTO_CLOSE int pending = state_make_folder(state, NAME_PENDING, &st, err);
	return pending < 0 ? -1 : 0;
}

/* ERR_MISSING: it was never made. */
static int check_pending(int dir, struct err *err)
{
	AUTO_CLOSE int state = open_state(dir, err);
	if (state < 0)
		return -1;
	AUTO_CLOSE int pending = open_folder(state, NAME_PENDING, err);
	return pending < 0 ? -1 : 0;
}

int state_prepare(int dir, struct err *err)
{
	if (!file_is_there(dir, STATE_PENDING) && state_make_folders(dir, err) != 0)
		return -1;
	return file_is_there(dir, STATE_KEY) ? 0 : new_key(dir, err);
}

int state_begin(int dir, struct lock_owner *writer, struct err *err)
{
	*writer = (struct lock_owner){ .dir = dir, .fd = -1 };
	if (check_pending(dir, err) == 0 &&
	    lock_owner_open(dir, STATE_PENDING, writer, err) == 0)
		return 0;
	if (err->class != ERR_MISSING)
		return -1;
	if (state_prepare(dir, err) != 0) /* the first change ever */
		return -1;
	return lock_owner_open(dir, STATE_PENDING, writer, err);
}

int state_ready(int dir, struct lock_owner *writer, struct err *err)
{
	*writer = (struct lock_owner){ .dir = dir, .fd = -1 };
	if (check_pending(dir, err) != 0 &&
	    (err->class != ERR_MISSING || state_prepare(dir, err) != 0))
		return -1;
	return lock_owner_open_hidden(dir, STATE_FOLDER, writer, err);
}

int state_announce(struct lock_owner *writer, struct err *err)
{
	if (check_pending(writer->dir, err) != 0)
		return -1;
	return lock_owner_show(writer, STATE_PENDING, err);
}

int state_check(const struct lock_owner *writer, struct err *err)
{
	if (lock_owner_stands(writer))
		return 0;
	return err_set(err, ERR_LOST, "this change was taken for dead: %s is gone",
		       writer->name);
}

int state_beat(const struct lock_owner *writer, struct err *err)
{
	if (lock_owner_beat(writer) < 0)
		return err_errno(err, "cannot touch %s", writer->name);
	return state_check(writer, err);
}

/* Recovery will find a dead writer. */
void state_leave(struct lock_owner *writer)
{
	close(TAKE_FD(writer->fd));
}

int state_end(struct lock_owner *writer, struct err *err)
{
	if (new_key(writer->dir, err) != 0) {
		state_leave(writer);
		return -1;
	}
	failpoint("state.key");
	lock_owner_close(writer);
	failpoint("state.ended");
	return 0;
}

void state_abandon(struct lock_owner *writer)
{
	lock_owner_close(writer);
}

int state_renew(int dir, struct err *err)
{
	if (!file_is_there(dir, STATE_PENDING) && state_make_folders(dir, err) != 0)
		return -1;
	return new_key(dir, err);
}

/* A walk through the pending files. */
struct walk {
	int dir;
	int state; /* its folders, which no link has led to */
	DIR *list;
	int64_t now; /* by the file system's clock; 0: not asked yet */
	bool is_pending;
	unsigned recovered;
};

/* NULL at the end, or with errno set. */
static const char *next_pending(struct walk *walk)
{
	struct dirent *entry;

	while (errno = 0, (entry = readdir(walk->list)) != NULL)
		if (entry->d_name[0] != '.')
			return entry->d_name;
	return NULL;
}

/* Asked at most once a walk, and only for one that may be on another host. */
static int64_t walk_now(struct walk *walk)
{
	if (walk->now == 0)
		walk->now = lock_owner_clock(walk->state, ".");
	return walk->now;
}

/* Who reads the log is in no directory. */
static void report_recovered(int dir, const char *name)
{
	AUTO_FREE char *link = xasprintf("/proc/self/fd/%d", dir);
	char repository[PATH_MAX] = ".";
	ssize_t len = readlink(link, repository, sizeof(repository) - 1);
	AUTO_FREE char *whole = NULL;

	if (len > 0)
		repository[len] = '\0';
	whole = xasprintf("%s/" STATE_PENDING "/%s", repository, name);
	log_warn("state.recovered", LOG_TEXT("path", whole));
}

/* The flock of the dead writer is held, so that only one of us cleans up. Where there is
 * none, several may: each makes a new key before the file is gone, and that is enough. */
static int recover_one(struct walk *walk, const char *name, int fd, struct err *err)
{
	failpoint("state.dead");
	if (new_key(walk->dir, err) != 0)
		return -1;
	failpoint("state.recover");
	lock_file_bury_of(walk->dir, fd);
	failpoint("state.buried");
	if (syncfs(walk->dir) != 0)
		return err_errno(err, "cannot flush what a change that died has left");
	if (unlinkat(dirfd(walk->list), name, 0) != 0 && errno != ENOENT)
		return err_errno(err, "cannot remove " STATE_PENDING "/%s", name);
	failpoint("state.removed");
	report_recovered(walk->dir, name);
	walk->recovered++;
	return 0;
}

static bool state_is_old(struct walk *walk, const char *name, int fd)
{
	int64_t now = walk_now(walk);

	return fd >= 0 ? lock_owner_is_old(fd, now)
		       : lock_owner_is_old_unread(dirfd(walk->list), name, now);
}

/* The folder is ours alone: what is not marked there was not marked in time. */
static int recover_if_dead(struct walk *walk, const char *name, struct err *err)
{
	AUTO_CLOSE int fd = -1;

	switch (lock_owner_probe(dirfd(walk->list), name, &fd)) {
	case LOCK_OWNER_UNKNOWN:
		if (state_is_old(walk, name, fd))
			return recover_one(walk, name, fd, err);
		walk->is_pending = true;
		break;
	case LOCK_OWNER_DEAD:
	case LOCK_OWNER_FOREIGN:
		return recover_one(walk, name, fd, err);
	case LOCK_OWNER_ALIVE:
		walk->is_pending = true;
		break;
	case LOCK_OWNER_GONE:
		break;
	}
	return 0;
}

/* NULL with err->class ERR_MISSING: there is none yet. */
static DIR *list_pending(int dir, int *state, struct err *err)
{
	DIR *list;

	*state = open_state(dir, err);
	if (*state < 0)
		return NULL;
	list = dir_list(*state, NAME_PENDING);
	if (!list)
		err_errno(err, "cannot list %s", STATE_PENDING);
	if (!list && err->sys_errno == ENOTDIR)
		err->class = ERR_CONFLICT; /* a link, or a file */
	return list;
}

static int state_recover_all(struct walk *walk, struct err *err)
{
	const char *name;
	AUTO_CLOSE int state = -1;
	AUTO_CLOSEDIR DIR *list = list_pending(walk->dir, &state, err);

	walk->state = state;
	walk->list = list;
	if (!list)
		return err->class == ERR_MISSING ? 0 : -1;
	while ((name = next_pending(walk)) != NULL)
		if (recover_if_dead(walk, name, err) != 0)
			return -1;
	return errno == 0 ? 0 : err_errno(err, "cannot list %s", STATE_PENDING);
}

int state_recover(int dir, struct err *err)
{
	struct walk walk = { .dir = dir };

	return state_recover_all(&walk, err);
}

/* ERR_MISSING: there is none, or a crash of the machine has emptied it. */
static int state_read_key(int dir, char key[STATE_KEY_SIZE], struct err *err)
{
	char text[STATE_KEY_SIZE];
	AUTO_CLOSE int state = open_state(dir, err);
	if (state < 0)
		return -1;
	AUTO_CLOSE int fd =
		openat(state, NAME_KEY, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text));

	if (len < 0)
		return err_errno(err, "cannot read %s", STATE_KEY);
	if (len != STATE_KEY_DIGITS)
		return err_set(err, ERR_MISSING, "%s holds no key", STATE_KEY);
	memcpy(key, text, STATE_KEY_DIGITS);
	key[STATE_KEY_DIGITS] = '\0';
	if (strspn(key, "0123456789abcdef") != STATE_KEY_DIGITS)
		return err_set(err, ERR_MISSING, "%s holds no key", STATE_KEY);
	return 0;
}

/* When two make one, the last stays: what was made is read again. */
static int read_or_make_key(int dir, char key[STATE_KEY_SIZE], struct err *err)
{
	if (state_read_key(dir, key, err) == 0)
		return 0;
	if (err->class != ERR_MISSING || state_renew(dir, err) != 0)
		return -1;
	return state_read_key(dir, key, err);
}

int state_look(int dir, struct state_look *look, struct err *err)
{
	struct walk walk = { .dir = dir };

	*look = (struct state_look){ 0 };
	if (state_recover_all(&walk, err) != 0)
		return -1;
	look->is_pending = walk.is_pending;
	look->recovered = walk.recovered;
	return read_or_make_key(dir, look->key, err);
}

static const char *program_of(enum lock_owner_kind kind)
{
	switch (kind) {
	case LOCK_OWNER_LOCK:
		return "refrelay";
	case LOCK_OWNER_PROCESS:
		return "git";
	case LOCK_OWNER_OTHER:
		break;
	}
	return "";
}

/* Who may not write there asks the local clock; for a person that will do. */
static int64_t state_find_age(struct walk *walk, const char *name)
{
	struct stat st;
	int64_t now = walk_now(walk);

	if (now < 0)
		now = clock_wall_ms() / 1000;
	if (fstatat(dirfd(walk->list), name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
	    now < (int64_t)st.st_mtime)
		return 0;
	return now - (int64_t)st.st_mtime;
}

static void state_describe_writer(struct walk *walk, const char *name,
				  struct state_writer *writer)
{
	struct lock_owner_line line;
	AUTO_CLOSE int probed = -1;

	*writer = (struct state_writer){ 0 };
	snprintf(writer->name, sizeof(writer->name), "%s", name);
	writer->state = lock_owner_probe(dirfd(walk->list), name, &probed);
	AUTO_CLOSE int fd = openat(dirfd(walk->list), name,
				   O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	lock_owner_read(fd, &line);
	writer->pid = line.pid;
	snprintf(writer->program, sizeof(writer->program), "%s", program_of(line.kind));
	writer->age_s = state_find_age(walk, name);
	writer->is_elsewhere =
		lock_owner_is_elsewhere(&line) && writer->state == LOCK_OWNER_UNKNOWN;
}

int state_list(int dir, state_writers *writers, struct err *err)
{
	struct walk walk = { .dir = dir };
	const char *name;
	AUTO_CLOSE int state = -1;
	AUTO_CLOSEDIR DIR *list = list_pending(dir, &state, err);

	*writers = (state_writers){ 0 };
	walk.state = state;
	walk.list = list;
	if (!list)
		return err->class == ERR_MISSING ? 0 : -1;
	while ((name = next_pending(&walk)) != NULL) {
		struct state_writer writer;
		state_describe_writer(&walk, name, &writer);
		if (writer.state != LOCK_OWNER_GONE)
			vec_add(writers, writer);
	}
	return errno == 0 ? 0 : err_errno(err, "cannot list %s", STATE_PENDING);
}
