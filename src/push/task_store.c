#include "push/task_store.h"

#include <fcntl.h>
#include <sys/inotify.h>

#include "base/clock.h"
#include "base/thread.h"
#include "push/store_file.h"
#include "push/task_parts.h"

enum { TORN_AGE_MS = 10 * 60 * 1000 };

#define CLOCK ".clock"
#define NEWS (IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CLOSE_WRITE)
#define SELF (IN_MOVE_SELF | IN_ONLYDIR)
#define REQUEST_NEWS (IN_CREATE | IN_MOVED_TO | IN_DELETE | SELF)

static const char *const places[STORE_PLACES] = {
	[BUILDING] = "ref-updates/building",  [WAITING] = "ref-updates/waiting",
	[RUNNING] = "ref-updates/running",    [STATES] = "refrelay",
	[REQUESTS] = "refrelay/requests",     [FAILED] = "refrelay/failed",
	[UNREADABLE] = "refrelay/unreadable", [SEEN] = "refrelay/seen",
	[NODES] = "refrelay/nodes",           [DISCARDED] = "refrelay/discarded",
};

static int make_place(const char *path, struct err *err)
{
	if (dir_make_parents(AT_FDCWD, path, err) != 0)
		return -1;
	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		return err_errno(err, "cannot make directory %s", path);
	return 0;
}

/* What rename and link need: the same file system, by the same mount. */
static int check_mounts(const struct task_store *store, struct err *err)
{
	struct statx first, here;

	for (size_t i = 0; i < STORE_PLACES; i++) {
		if (statx(AT_FDCWD, store->paths[i], 0, STATX_BASIC_STATS | STATX_MNT_ID,
			  &here) != 0)
			return err_errno(err, "cannot look at %s", store->paths[i]);
		if (i == 0)
			first = here;
		if (here.stx_dev_major == first.stx_dev_major &&
		    here.stx_dev_minor == first.stx_dev_minor &&
		    here.stx_mnt_id == first.stx_mnt_id)
			continue;
		err_set(err, ERR_CONFIG, "%s and %s are on different file systems",
			store->paths[0], store->paths[i]);
		return err_remedy(err, "mount one file system at the directory that "
				       "holds both");
	}
	return 0;
}

static int make_places(struct task_store *store, struct err *err)
{
	AUTO_FREE char *flat = xasprintf("%s/ref-updates", store->directory);

	if (make_place(store->directory, err) != 0 || make_place(flat, err) != 0)
		return -1;
	for (size_t i = 0; i < STORE_PLACES; i++)
		if (make_place(store->paths[i], err) != 0)
			return -1;
	return check_mounts(store, err);
}

/* By ctime, which nobody can set: a task may be given an old mtime. */
static int sweep_place(struct task_store *store, enum store_place place, const char *end,
		       struct err *err)
{
	AUTO_TEXT_LIST text_list names = { 0 };
	AUTO_CLOSE int dir = store_dir(store, place, err);
	struct stat st;
	int64_t now = 0;

	if (dir < 0 || task_store_now(store, &now, err) != 0 ||
	    store_list_files(dir, &names, err) != 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		const char *name = names.items[i];
		if (text_ends_with(name, end) &&
		    fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    now - (int64_t)st.st_ctim.tv_sec * 1000 > TORN_AGE_MS)
			unlinkat(dir, name, 0);
	}
	return 0;
}

int task_store_sweep(struct task_store *store, struct err *err)
{
	return sweep_place(store, BUILDING, ".tmp", err) == 0
		       ? sweep_place(store, DISCARDED, "", err)
		       : -1;
}

static struct task_store *new_store(const char *directory)
{
	struct task_store *store = xcalloc(1, sizeof(*store));

	store->directory = xstrdup(directory);
	store->watch = store->request_watch = -1;
	for (size_t i = 0; i < STORE_PLACES; i++)
		store->paths[i] = xasprintf("%s/%s", directory, places[i]);
	task_index_init(&store->index);
	mutex_init(&store->listing_mutex);
	return store;
}

static int fail_open(struct task_store *store, struct err *err)
{
	task_store_close(store);
	return err_prefix(err, "task store");
}

int task_store_open(const char *directory, struct task_store **out, struct err *err)
{
	struct task_store *store = new_store(directory);

	if (make_places(store, err) != 0 || task_store_sweep(store, err) != 0 ||
	    store_identity_open(store, err) != 0)
		return fail_open(store, err);
	AUTO_CLOSE int fd = store_dir(store, WAITING, err);
	store->is_local = fd >= 0 && file_system_is_local(fd);
	store_watch_again(store);
	*out = store;
	return 0;
}

int task_store_open_to_read(const char *directory, const char *data,
			    struct task_store **out, struct err *err)
{
	struct task_store *store;

	if (task_store_recognize(directory, data, err) != 0)
		return err_prefix(err, "task store");
	store = new_store(directory);
	store->is_reading = true;
	*out = store;
	return 0;
}

/* Or, if it is missing, the nearest directory above it that is there. */
static int check_place(const char *place, struct err *err)
{
	AUTO_FREE char *path = xstrdup(place);

	/* whose parent is / ends as "/" */
	while (access(path, F_OK) != 0 && errno == ENOENT && path[1]) {
		char *slash = strrchr(path, '/');
		slash[slash == path ? 1 : 0] = '\0';
	}
	return access(path, W_OK | X_OK) == 0
		       ? 0
		       : err_errno(err, "task store: %s cannot be written", path);
}

int task_store_check_writable(const struct task_store *store, struct err *err)
{
	for (size_t i = 0; i < STORE_PLACES; i++)
		if (check_place(store->paths[i], err) != 0)
			return -1;
	return 0;
}

void task_store_close(struct task_store *store)
{
	if (!store)
		return;
	if (store->watch >= 0)
		close(store->watch);
	if (store->request_watch >= 0)
		close(store->request_watch);
	for (size_t i = 0; i < STORE_PLACES; i++)
		free(store->paths[i]);
	task_index_clear(&store->index);
	pthread_mutex_destroy(&store->listing_mutex);
	store_identity_close(store);
	free(store->directory);
	free(store);
}

/* A pipe would have us wait for a reader, a link lead us out of the store. */
static int open_clock(int dir)
{
	const int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	struct stat st;

	if (fstatat(dir, CLOCK, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(st.st_mode))
		unlinkat(dir, CLOCK, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0);
	return openat(dir, CLOCK, flags, 0600);
}

int store_clock(const struct task_store *store, struct err *err)
{
	AUTO_CLOSE int dir = store_dir(store, BUILDING, err);
	int fd = dir < 0 ? -1 : open_clock(dir);

	if (dir >= 0 && fd < 0)
		err_errno(err, "cannot open %s/" CLOCK, store->paths[BUILDING]);
	return fd;
}

static int read_clock(const struct task_store *store, int64_t *now_ms, struct err *err)
{
	AUTO_CLOSE int fd = store_clock(store, err);
	struct stat st;

	if (fd < 0)
		return -1;
	if (futimens(fd, NULL) != 0 || fstat(fd, &st) != 0)
		return err_errno(err, "cannot read the time of %s/" CLOCK,
				 store->paths[BUILDING]);
	*now_ms = clock_ms(&st.st_mtim);
	return 0;
}

static bool has_clock(const struct task_store *store)
{
	AUTO_FREE char *path = xasprintf("%s/" CLOCK, store->paths[BUILDING]);

	return access(path, W_OK) == 0;
}

int task_store_now(struct task_store *store, int64_t *now_ms, struct err *err)
{
	if (!store->is_reading)
		return read_clock(store, now_ms, err);
	if (!has_clock(store) || read_clock(store, now_ms, err) != 0)
		*now_ms = clock_wall_ms(); /* only ages are told by it */
	return 0;
}

int task_store_watch_fd(const struct task_store *store)
{
	return store->watch;
}

bool task_store_is_watched(const struct task_store *store)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&store->identity->mutex);

	return store->identity->watched >= 0 && store->requests_watched >= 0;
}

/* The watch's number; -1: there is none, as the directory is missing or the user has too
 * many. */
static int task_store_watch(int *fd, const char *path, uint32_t what)
{
	if (*fd < 0)
		*fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	return *fd < 0 ? -1 : inotify_add_watch(*fd, path, what);
}

void store_watch_requests(struct task_store *store)
{
	store->requests_watched = task_store_watch(&store->request_watch,
						   store->paths[REQUESTS], REQUEST_NEWS);
}

void store_watch_again(struct task_store *store)
{
	store_watch_requests(store);

	AUTO_UNLOCK pthread_mutex_t *held = lock(&store->identity->mutex);
	store->identity->watched =
		task_store_watch(&store->watch, store->paths[WAITING], NEWS | SELF);
}

/* Whether one event says that all must be read again. */
static bool hear_one(struct task_store *store, int dir, const struct inotify_event *event)
{
	if (event->mask & IN_MOVE_SELF)
		inotify_rm_watch(store->watch, event->wd);
	if (event->mask & (IN_IGNORED | IN_MOVE_SELF | IN_Q_OVERFLOW | IN_ISDIR))
		return true;
	if (event->len > 0 && dir >= 0)
		/* Somebody may just be writing what was created: IN_CLOSE_WRITE will
		 * come. */
		store_notice_name(store, dir, event->name, event->mask & IN_CREATE);
	return dir < 0;
}

void task_store_report(struct task_store *store, waiting_uri_seen seen, void *arg)
{
	task_index_report(&store->index, seen, arg);
}

bool task_store_hear(struct task_store *store, waiting_uri_seen seen, void *arg)
{
	enum { BUFFERS_AT_ONCE = 16 };
	char buffer[65536] __attribute__((aligned(__alignof__(struct inotify_event))));
	AUTO_CLOSE int dir = store_dir(store, WAITING, ERR_IGNORED);
	bool all = false;

	for (int i = 0; i < BUFFERS_AT_ONCE && store->watch >= 0; i++) {
		ssize_t got = read(store->watch, buffer, sizeof(buffer));
		if (got <= 0)
			break;
		for (char *at = buffer; at < buffer + got;) {
			const struct inotify_event *event = (const void *)at;
			all |= hear_one(store, dir, event);
			at += sizeof(*event) + event->len;
		}
	}
	task_store_report(store, seen, arg);
	return all;
}
