/*
 * One queue for all repositories, drained by whoever asks. Why no change goes unseen:
 *
 * The kernel makes a change and queues its event within one system call. FIONREAD takes
 * the lock of the queue; so when it says 0 after that call has ended, the event has been
 * taken by somebody's read(). Who reads has set is_draining before, and clears it only
 * when the numbers of all repositories that were hit are changed. So in inotify_epoch,
 * in this order: nothing queued, nobody draining, then the number; if either fails, wait
 * for the mutex, which the drainer holds, and drain what is left. Had the flag been
 * looked at before the queue, a drainer could start in between and the old number would
 * be taken for good. The kernel merges an event only into one that is still queued.
 *
 * inotify_arm gives the number of the moment before it looked for directories, and adds
 * the watch on a directory before it lists it. A directory made meanwhile is either
 * listed or told by its parent's watch; then the number has changed already, and
 * nothing that was seen under the old one counts: the next arming finds it. is_whole
 * says that a walk found all while nothing at all happened; it ends with the first event
 * by which a directory may have come, gone or been replaced. Watches are on inodes, by
 * opened descriptors, so that no renaming can slip another directory in.
 *
 * An inode has one watch. A repository that was renamed, or is mounted twice, can be
 * armed under its new name while the old one still has it: the new owner takes it, the
 * old one's number changes and its is_whole ends, as if a directory had gone.
 *
 * Watch descriptors rise, and one is not given again before 2^31 others were. Events
 * that are queued for a watch that was freed find no owner. None can be left when its
 * descriptor comes again, since each walk begins with a drain.
 *
 * IN_Q_OVERFLOW, and a read that fails, change the numbers of all.
 */
#include "git/inotify.h"

#include <assert.h>
#include <stdalign.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/queue.h>
#include <sys/sysinfo.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/thread.h"
#include "base/vec.h"

/* IN_CLOSE_WRITE is for who wrote through mmap() and closes. */
#define CHANGES                                                                          \
	(IN_CREATE | IN_DELETE | IN_MODIFY | IN_ATTRIB | IN_MOVE | IN_MOVE_SELF |        \
	 IN_DELETE_SELF | IN_CLOSE_WRITE)

/* Of a folder, whatever is in it. */
#define CHANGES_FOLDER (IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF)

/* After these the watches may not be all that are needed. */
#define CHANGES_DIRECTORIES                                                              \
	(IN_ISDIR | IN_IGNORED | IN_UNMOUNT | IN_MOVE_SELF | IN_DELETE_SELF)

#define RETRY_MS 60000
#define DEPTH_MAX 64 /* each takes a descriptor and some stack */
#define BUFFER_SIZE 16384
#define COMPACT_ABOVE 64

struct place {
	int wd;
	struct inotify_watch *owner; /* NULL: vacant */
};

struct inotify {
	pthread_mutex_t mutex;
	int fd;
	atomic_bool is_draining;            /* set under the mutex, read by all */
	uint64_t last_epoch;                /* guarded by mutex */
	VEC(struct place) places;           /* guarded by mutex; in order of wd */
	size_t vacant;                      /* guarded by mutex; of places */
	LIST_HEAD(, inotify_watch) watches; /* guarded by mutex */
	struct inotify_limits limits;
};

typedef VEC(int) wds;

struct inotify_watch {
	struct inotify *inotify;
	atomic_uint_fast64_t epoch;       /* set under the mutex, read by all */
	bool is_whole;                    /* guarded by mutex */
	LIST_ENTRY(inotify_watch) others; /* guarded by mutex */
	/* Who arms or frees it only: */
	wds wds; /* in order; some may be another's by now */
	dev_t device;
	ino_t inode;
	int64_t retry_at; /* boot ms; not before this, since it failed with that inode */
};

static void bump_locked(struct inotify_watch *watch)
{
	atomic_store(&watch->epoch, ++watch->inotify->last_epoch);
}

static void doubt_locked(struct inotify_watch *watch)
{
	bump_locked(watch);
	watch->is_whole = false;
}

static void doubt_all_locked(struct inotify *inotify)
{
	struct inotify_watch *watch;

	LIST_FOREACH(watch, &inotify->watches, others)
	doubt_locked(watch);
}

/* Where it is, or belongs. */
static size_t place_of_locked(const struct inotify *inotify, int wd)
{
	size_t low = 0, high = inotify->places.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (inotify->places.items[middle].wd < wd)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* NULL: not known. */
static struct place *inotify_find_locked(struct inotify *inotify, int wd)
{
	size_t at = place_of_locked(inotify, wd);

	if (at == inotify->places.count || inotify->places.items[at].wd != wd)
		return NULL;
	return &inotify->places.items[at];
}

static void vacate_locked(struct inotify *inotify, struct place *place)
{
	place->owner = NULL;
	inotify->vacant++;
}

static void compact_locked(struct inotify *inotify)
{
	size_t kept = 0;

	if (inotify->vacant < COMPACT_ABOVE ||
	    inotify->vacant < inotify->places.count / 2)
		return;
	for (size_t i = 0; i < inotify->places.count; i++)
		if (inotify->places.items[i].owner)
			inotify->places.items[kept++] = inotify->places.items[i];
	inotify->places.count = kept;
	inotify->vacant = 0;
}

/* At the end, but for descriptors that begin at 1 again. */
static void inotify_insert_locked(struct inotify *inotify, struct place place)
{
	size_t at = place_of_locked(inotify, place.wd);
	struct place *items;

	vec_add(&inotify->places, place);
	items = inotify->places.items;
	memmove(&items[at + 1], &items[at],
		(inotify->places.count - 1 - at) * sizeof(*items));
	items[at] = place;
}

static void claim_locked(struct inotify_watch *watch, int wd)
{
	struct place *place = inotify_find_locked(watch->inotify, wd);

	if (!place) {
		inotify_insert_locked(watch->inotify, (struct place){ wd, watch });
		return;
	}
	if (place->owner == watch)
		return;
	if (place->owner)
		doubt_locked(place->owner);
	else
		watch->inotify->vacant--;
	place->owner = watch;
}

static void note_locked(struct inotify *inotify, const struct inotify_event *event)
{
	struct place *place = inotify_find_locked(inotify, event->wd);

	if (event->mask & IN_Q_OVERFLOW)
		doubt_all_locked(inotify);
	if (!place || !place->owner)
		return;
	bump_locked(place->owner);
	if (event->mask & CHANGES_DIRECTORIES)
		place->owner->is_whole = false;
	if (event->mask & IN_IGNORED) /* the kernel has dropped it */
		vacate_locked(inotify, place);
}

static void note_all_locked(struct inotify *inotify, const char *bytes, size_t len)
{
	struct inotify_event event;

	for (size_t at = 0; at < len; at += sizeof(event) + event.len) {
		memcpy(&event, bytes + at, sizeof(event));
		note_locked(inotify, &event);
	}
}

/* What is queued now, not what others go on to change: or it might never end. */
static void drain_locked(struct inotify *inotify)
{
	alignas(struct inotify_event) char buffer[BUFFER_SIZE];
	int left = 0;

	atomic_store(&inotify->is_draining, true);
	if (ioctl(inotify->fd, FIONREAD, &left) != 0)
		doubt_all_locked(inotify);
	while (left > 0) {
		ssize_t len = read(inotify->fd, buffer, sizeof(buffer));
		if (len <= 0) {
			doubt_all_locked(inotify);
			break;
		}
		note_all_locked(inotify, buffer, (size_t)len);
		left -= (int)len;
	}
	atomic_store(&inotify->is_draining, false);
}

uint64_t inotify_epoch(struct inotify_watch *watch)
{
	struct inotify *inotify = watch->inotify;
	int queued = 0;

	if (ioctl(inotify->fd, FIONREAD, &queued) != 0 || queued > 0 ||
	    atomic_load(&inotify->is_draining)) {
		AUTO_UNLOCK pthread_mutex_t *held = lock(&inotify->mutex);
		drain_locked(inotify);
	}
	return atomic_load(&watch->epoch);
}

uint64_t inotify_drained_epoch(const struct inotify_watch *watch)
{
	return atomic_load(&watch->epoch);
}

/* Others of the same user watch, too. */
#define SHARE 4
#define LIMIT_LEAST 8192
#define LIMIT_MOST (1 << 20)

/* What the kernel takes by itself: a hundredth of the memory, by what a watch needs of
 * it. Where an administrator has lowered it, watches fail, and what is left is looked at.
 */
static size_t guess_limit(void)
{
	enum { WATCH_COST = 2048 };
	struct sysinfo info;

	if (sysinfo(&info) != 0)
		return LIMIT_LEAST;
	uint64_t guess = (uint64_t)info.totalram * info.mem_unit / 100 / WATCH_COST;
	return guess < LIMIT_LEAST  ? LIMIT_LEAST
	       : guess > LIMIT_MOST ? LIMIT_MOST
				    : (size_t)guess;
}

size_t inotify_share(void)
{
	AUTO_STR struct str text = STR_INIT;
	uint64_t all;

	if (file_read_any(AT_FDCWD, "/proc/sys/fs/inotify/max_user_watches", 64, &text,
			  ERR_IGNORED) != 0)
		return guess_limit() / SHARE;
	str_truncate(&text, strcspn(text.data, "\n"));
	return (text_to_uint64(text.data, &all) ? (size_t)all : guess_limit()) / SHARE;
}

struct inotify *inotify_open(const struct inotify_limits *limits, struct err *err)
{
	int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

	if (fd < 0) {
		err_errno(err, "cannot watch repositories");
		return NULL;
	}
	struct inotify *inotify = xcalloc(1, sizeof(*inotify));
	mutex_init(&inotify->mutex);
	LIST_INIT(&inotify->watches);
	inotify->fd = fd;
	inotify->limits = *limits;
	if (limits->directories == 0)
		inotify->limits.directories = inotify_share();
	return inotify;
}

void inotify_close(struct inotify *inotify)
{
	if (!inotify)
		return;
	assert(LIST_EMPTY(&inotify->watches));
	close(inotify->fd);
	vec_clear(&inotify->places);
	pthread_mutex_destroy(&inotify->mutex);
	free(inotify);
}

int inotify_descriptor(const struct inotify *inotify)
{
	return inotify->fd;
}

void inotify_drain(struct inotify *inotify)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&inotify->mutex);

	drain_locked(inotify);
}

/* One walk: which directories it met. */
struct walk {
	struct inotify_watch *watch;
	uint32_t mask;
	unsigned depth;
	wds met;
};

static int inotify_refuse(struct err *err, const char *what)
{
	return err_set(err, ERR_INTERNAL, "too many directories to watch: %s", what);
}

static int add_failed(struct err *err)
{
	if (errno != ENOSPC)
		return err_errno(err, "cannot watch a directory");
	inotify_refuse(err, "the kernel's limit is reached");
	return err_remedy(err, "raise the sysctl fs.inotify.max_user_watches");
}

/* Under the mutex, or somebody could drain an event of a watch that is not known yet. */
static int inotify_watch_directory(struct walk *walk, int fd, struct err *err)
{
	struct inotify *inotify = walk->watch->inotify;
	char path[32];
	int wd;

	if (walk->depth >= DEPTH_MAX)
		return inotify_refuse(err, "they are too deep");
	if (walk->met.count >= inotify->limits.directories_each)
		return inotify_refuse(err, "the repository's limit is reached");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&inotify->mutex);
	wd = inotify_add_watch(inotify->fd, path, walk->mask | IN_ONLYDIR);
	if (wd < 0)
		return add_failed(err);
	claim_locked(walk->watch, wd);
	vec_add(&walk->met, wd);
	if (inotify->places.count - inotify->vacant > inotify->limits.directories)
		return inotify_refuse(err, "the limit for all repositories is reached");
	return 0;
}

/* -1 also when it is not there, or is no directory: err->sys_errno tells. */
static int inotify_enter_directory(struct walk *walk, int parent, const char *name,
				   struct err *err)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return err_errno(err, "cannot open directory %s", name);
	if (inotify_watch_directory(walk, fd, err) == 0)
		return fd;
	err->sys_errno = 0;
	close(fd);
	return -1;
}

static bool may_be_directory(const struct dirent *entry)
{
	return (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN) &&
	       !name_is_dots(entry->d_name);
}

static int watch_below(struct walk *walk, int fd, struct err *err);

/* What vanished meanwhile was told by its parent. */
static int watch_entry(struct walk *walk, int parent, const char *name, struct err *err)
{
	int fd = inotify_enter_directory(walk, parent, name, err);

	if (fd >= 0) {
		walk->depth++;
		int result = watch_below(walk, fd, err);
		walk->depth--;
		return result;
	}
	return err->sys_errno == ENOENT || err->sys_errno == ENOTDIR ? 0 : -1;
}

/* Takes the descriptor. */
static int watch_below(struct walk *walk, int fd, struct err *err)
{
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *list = fdopendir(fd);

	if (!list) {
		close(fd);
		return err_errno(err, "cannot list a directory");
	}
	while (errno = 0, (entry = readdir(list)) != NULL)
		if (may_be_directory(entry) &&
		    watch_entry(walk, dirfd(list), entry->d_name, err) != 0)
			return -1;
	return errno == 0 ? 0 : err_errno(err, "cannot list a directory");
}

/* The directories of this path, as far as they are there. */
static int watch_path(struct walk *walk, int dir, const char *const *names, size_t count,
		      struct err *err)
{
	int fd = fcntl(dir, F_DUPFD_CLOEXEC, 0);

	for (size_t i = 0; fd >= 0 && i < count; i++) {
		AUTO_CLOSE int parent = fd;
		fd = inotify_enter_directory(walk, parent, names[i], err);
		if (fd < 0)
			return err->sys_errno == ENOENT ? 0 : -1;
	}
	if (fd < 0)
		return err_errno(err, "cannot open a directory to watch");
	close(fd);
	return 0;
}

/* A directory is met once, however many paths lead through it. */
static int watch_copy(struct walk *walk, int dir, struct err *err)
{
	static const char *const packs[] = { "pack", "multi-pack-index.d" };
	static const char *const derived[] = { "info", "commit-graphs" };
	static const char *const more[] = { "info" };

	if (watch_path(walk, dir, more, ARRAY_SIZE(more), err) != 0)
		return -1;
	AUTO_CLOSE int objects = inotify_enter_directory(walk, dir, "objects", err);
	if (objects < 0)
		return err->sys_errno == ENOENT ? 0 : -1;
	if (watch_path(walk, objects, packs, ARRAY_SIZE(packs), err) != 0)
		return -1;
	return watch_path(walk, objects, derived, ARRAY_SIZE(derived), err);
}

static int watch_beside_refs(struct walk *walk, int dir, struct err *err)
{
	static const char *const state[] = { "refrelay", "state", "pending" };

	if (walk->watch->inotify->limits.scope == INOTIFY_COPY)
		return watch_copy(walk, dir, err);
	return watch_path(walk, dir, state, ARRAY_SIZE(state), err);
}

static int watch_all(struct walk *walk, int dir, struct err *err)
{
	int refs;

	if (inotify_watch_directory(walk, dir, err) != 0 ||
	    watch_beside_refs(walk, dir, err) != 0)
		return -1;
	refs = inotify_enter_directory(walk, dir, "refs", err);
	return refs < 0 ? -1 : watch_below(walk, refs, err);
}

static int order_wds(const void *a, const void *b)
{
	int left = *(const int *)a, right = *(const int *)b;

	return (left > right) - (left < right);
}

static void inotify_release_place(struct inotify_watch *watch, int wd)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&watch->inotify->mutex);
	struct place *place = inotify_find_locked(watch->inotify, wd);

	if (!place || place->owner != watch)
		return;
	vacate_locked(watch->inotify, place);
	inotify_rm_watch(watch->inotify->fd, wd); /* it may be gone by itself */
}

/* What the walk did not meet is not its own any more. */
static void keep_met(struct walk *walk)
{
	struct inotify_watch *watch = walk->watch;

	vec_sort(&walk->met, order_wds);
	for (size_t i = 0; i < watch->wds.count; i++)
		if (walk->met.count == 0 ||
		    !bsearch(&watch->wds.items[i], walk->met.items, walk->met.count,
			     sizeof(int), order_wds))
			inotify_release_place(watch, watch->wds.items[i]);
	vec_clear(&watch->wds);
	watch->wds = walk->met;
}

static void inotify_release_all(struct inotify_watch *watch)
{
	for (size_t i = 0; i < watch->wds.count; i++)
		inotify_release_place(watch, watch->wds.items[i]);
	vec_clear(&watch->wds);
}

static struct inotify_watch *new_watch(struct inotify *inotify)
{
	struct inotify_watch *watch = xcalloc(1, sizeof(*watch));
	AUTO_UNLOCK pthread_mutex_t *held = lock(&inotify->mutex);

	watch->inotify = inotify;
	bump_locked(watch);
	LIST_INSERT_HEAD(&inotify->watches, watch, others);
	return watch;
}

/* The number before anything is looked at; whether the watches are all there. */
static bool inotify_begin_arming(struct inotify_watch *watch, const struct stat *st,
				 uint64_t *epoch)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&watch->inotify->mutex);

	drain_locked(watch->inotify);
	*epoch = atomic_load(&watch->epoch);
	return watch->is_whole && watch->device == st->st_dev &&
	       watch->inode == st->st_ino;
}

static void inotify_end_arming(struct inotify_watch *watch, uint64_t epoch)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&watch->inotify->mutex);

	drain_locked(watch->inotify);
	watch->is_whole = atomic_load(&watch->epoch) == epoch;
	compact_locked(watch->inotify);
}

static int inotify_give_up(struct inotify_watch *watch, const struct stat *st)
{
	inotify_release_all(watch);
	watch->device = st->st_dev;
	watch->inode = st->st_ino;
	watch->retry_at = clock_boot_ms() + RETRY_MS;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&watch->inotify->mutex);
	doubt_locked(watch);
	drain_locked(watch->inotify);
	compact_locked(watch->inotify);
	return -1;
}

static bool has_just_failed(const struct inotify_watch *watch, const struct stat *st)
{
	return watch->retry_at > clock_boot_ms() && watch->device == st->st_dev &&
	       watch->inode == st->st_ino;
}

static int look_for_directories(struct inotify_watch *watch, uint32_t mask, int dir,
				struct err *err)
{
	struct walk walk = { .watch = watch, .mask = mask };
	int result;

	if (!file_system_is_local(dir))
		return err_set(err, ERR_CONFIG, "other hosts write this file system");
	result = mask == CHANGES_FOLDER ? inotify_watch_directory(&walk, dir, err)
					: watch_all(&walk, dir, err);
	keep_met(&walk);
	return result;
}

static int inotify_arm_watch(struct inotify *inotify, uint32_t mask, int dir,
			     struct inotify_watch **watch, uint64_t *epoch,
			     struct err *err)
{
	struct stat st;

	if (!*watch)
		*watch = new_watch(inotify);
	if (fstat(dir, &st) != 0)
		return err_errno(err, "cannot look at the repository's directory");
	if (has_just_failed(*watch, &st))
		return err_set(err, ERR_BUSY, "it could not be watched a moment ago");
	if (inotify_begin_arming(*watch, &st, epoch))
		return 0;
	if (look_for_directories(*watch, mask, dir, err) != 0)
		return inotify_give_up(*watch, &st);
	(*watch)->device = st.st_dev;
	(*watch)->inode = st.st_ino;
	inotify_end_arming(*watch, *epoch);
	return 0;
}

int inotify_arm(struct inotify *inotify, int dir, struct inotify_watch **watch,
		uint64_t *epoch, struct err *err)
{
	return inotify_arm_watch(inotify, CHANGES, dir, watch, epoch, err);
}

int inotify_arm_folder(struct inotify *inotify, int dir, struct inotify_watch **watch,
		       uint64_t *epoch, struct err *err)
{
	return inotify_arm_watch(inotify, CHANGES_FOLDER, dir, watch, epoch, err);
}

void inotify_retry(struct inotify_watch *watch)
{
	if (watch)
		watch->retry_at = 0;
}

void inotify_disarm(struct inotify_watch *watch)
{
	if (!watch)
		return;
	inotify_release_all(watch);
	lock(&watch->inotify->mutex);
	LIST_REMOVE(watch, others);
	drain_locked(watch->inotify);
	compact_locked(watch->inotify);
	unlock(&watch->inotify->mutex);
	free(watch);
}
