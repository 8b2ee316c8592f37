/*
 * Leases in a shared directory: who takes the place of lease/local.c where several
 * hosts work on the same data.
 *
 * Why at most one living, unlapsed holder:
 *
 * - The next number is made by one rename (directory_take.c), and only by who saw the
 *   latest one end: released, dead, lapsed, or forced by an operator.
 * - Dead: its guard can be locked, on the same boot of the same kernel. The guard was
 *   locked before its owner could be read, and children inherit it.
 * - Lapsed: by the file server's clock, its last heartbeat is the holder's own ttl old. A
 *   contender reads that clock before the heartbeat, and a heartbeat that lands a ttl
 *   after the one before is void. So once anybody has seen a lapse, that number cannot
 *   revive. The holder itself stops earlier, by its kernel's clock (lease/manager.c).
 * - Each generation is a directory of its own and is touched by descriptor: whatever a
 *   late holder does lands on its own generation.
 */
#include "lease/directory.h"

#include <sys/inotify.h>

#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"
#include "lease/directory_grant.h"
#include "lease/directory_take.h"

/* So often a holder may be overtaken while we look at it. */
#define LOOKS 5

static struct directory *directory_from_backend(struct lease_backend *backend)
{
	return (struct directory *)backend;
}

static int directory_hint_open(struct lease_backend *backend)
{
	(void)backend;
	return inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
}

/* Nobody has a place in a line here. */
static void directory_leave(struct lease_backend *backend, struct lease_attempt *attempt)
{
	(void)backend;
	attempt->place = 0;
}

/* ------------------------------------------------------------------ operators */

/* 1: *holder; 0: never granted. */
static int directory_observe_holder(int key_fd, const char *key,
				    struct lease_holder *holder, struct err *err)
{
	struct key_view view = { .is_overtaken = true };

	for (int i = 0; i < LOOKS && view.is_overtaken; i++) {
		if (key_look(key_fd, key, -1, &view, err) != 0)
			return -1;
	}
	*holder = view.owner.holder;
	return view.number != 0;
}

static int directory_list_key(const struct directory *directory, const char *name,
			      lease_holders *holders, struct err *err)
{
	AUTO_CLOSE int key_fd =
		openat(directory->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char key[LEASE_KEY_SIZE];
	struct lease_holder holder;

	ssize_t len = key_fd < 0 ? -1 : readlinkat(key_fd, "key", key, sizeof(key) - 1);
	if (len < 0)
		return errno == ENOENT ? 0 : key_error("look at", name, err);
	key[len] = '\0';
	int found = directory_observe_holder(key_fd, key, &holder, err);
	if (found > 0)
		vec_add(holders, holder);
	return found < 0 ? -1 : 0;
}

static bool is_key_name(const char *name)
{
	return strlen(name) == KEY_NAME_SIZE - 1 &&
	       strspn(name, "0123456789abcdef") == KEY_NAME_SIZE - 1;
}

static int compare_keys(const void *a, const void *b)
{
	return strcmp(((const struct lease_holder *)a)->key,
		      ((const struct lease_holder *)b)->key);
}

static int directory_list(struct lease_backend *backend, lease_holders *holders,
			  struct err *err)
{
	const struct directory *directory = directory_from_backend(backend);
	AUTO_CLOSEDIR DIR *dir = dir_list(directory->fd, ".");
	struct dirent *entry;

	holders->count = 0;
	while (dir && (errno = 0, entry = readdir(dir)) != NULL) {
		if (is_key_name(entry->d_name) &&
		    directory_list_key(directory, entry->d_name, holders, err) != 0)
			return -1;
	}
	if (!dir || errno != 0)
		return key_error("list", directory->path, err);
	vec_sort(holders, compare_keys);
	return 0;
}

static int directory_report_never_granted(const char *key, struct err *err)
{
	return err_set(err, ERR_MISSING, "no lease %.300s was ever granted", key);
}

/* The descriptor of a key that was granted; ERR_MISSING: it never was. */
static int open_granted(const struct directory *directory, const char *key,
			struct err *err)
{
	int key_fd = directory_open_key(directory, key, KEY_FIND, err);

	return key_fd < 0 && err->sys_errno == ENOENT
		       ? directory_report_never_granted(key, err)
		       : key_fd;
}

static int directory_inspect(struct lease_backend *backend, const char *key,
			     struct lease_holder *holder, struct err *err)
{
	AUTO_CLOSE int key_fd = open_granted(directory_from_backend(backend), key, err);

	if (key_fd < 0)
		return -1;
	int found = directory_observe_holder(key_fd, key, holder, err);
	return found == 0 ? directory_report_never_granted(key, err) : found < 0 ? -1 : 0;
}

static int directory_force_release(struct lease_backend *backend, const char *key,
				   uint64_t fence, struct err *err)
{
	AUTO_CLOSE int key_fd = open_granted(directory_from_backend(backend), key, err);
	struct key_view view;

	if (key_fd < 0 || key_look(key_fd, key, -1, &view, err) != 0)
		return -1;
	if (view.number == 0)
		return directory_report_never_granted(key, err);
	bool is_it = !view.is_overtaken && !view.is_released &&
		     view.owner.holder.fence == fence;
	int late = is_it ? directory_take_away(key, key_fd, &view, err) : 1;
	if (late <= 0)
		return late;
	return err_set(err, ERR_CONFLICT,
		       "lease %.300s: %s at fence %" PRIu64 ", not %" PRIu64, key,
		       view.is_released ? "released" : "held", view.owner.holder.fence,
		       fence);
}

/* ------------------------------------------------------------------ life */

static void directory_close(struct lease_backend *backend)
{
	struct directory *directory = directory_from_backend(backend);

	if (directory->fd >= 0)
		close(directory->fd);
	map_clear(&directory->held);
	pthread_mutex_destroy(&directory->mutex);
	free(directory->path);
	free(directory);
}

static const struct lease_backend_ops ops = {
	.hint_open = directory_hint_open,
	.try_acquire = directory_try_acquire,
	.leave = directory_leave,
	.extend_all = directory_extend_all,
	.release = directory_release,
	.list = directory_list,
	.inspect = directory_inspect,
	.force_release = directory_force_release,
	.close = directory_close,
};

static int cannot_be_used(const char *path, const char *what, struct err *err)
{
	err_errno(err, "leases cannot be kept in %s: %s", path, what);
	if (err->class == ERR_DISK)
		return -1;
	err->class = ERR_CONFIG;
	if (err->remedy[0])
		return -1;
	return err_remedy(err, "use a file system with atomic renames, symbolic links "
			       "and times that can be set: a local one, or NFS");
}

/* What every grant relies on, tried between two of them. */
static int try_two(const char *path, const struct next *one, const struct next *two,
		   int fd, struct err *err)
{
	struct stat st;
	int64_t stamp_ns;

	if (renameat(fd, one->name, fd, two->name) == 0) {
		errno = EINVAL;
		return cannot_be_used(path, "a rename replaces what is not empty", err);
	}
	if (errno != ENOTEMPTY && errno != EEXIST)
		return cannot_be_used(path, "cannot rename directories", err);
	if (key_stamp_released(one->fd) != 0 || fstat(one->fd, &st) != 0)
		return cannot_be_used(path, "cannot set times", err);
	if (st.st_mtim.tv_sec != 0 || st.st_mtim.tv_nsec != 0 ||
	    key_touch(one->fd, &stamp_ns) != 0 || stamp_ns == 0) {
		errno = EINVAL;
		return cannot_be_used(path, "times are not kept", err);
	}
	if (one->guard_fd < 0)
		log_warn("lease.no_locks", LOG_TEXT("path", path));
	return 0;
}

/* What was left by a check that was killed. */
static void sweep_place(int fd)
{
	key_entries entries = { 0 };
	uint64_t latest;
	int64_t at_ns;

	if (key_touch(fd, &at_ns) == 0 && key_list(fd, &entries, &latest) == 0)
		key_sweep(fd, &entries, 0, at_ns);
	vec_clear(&entries);
}

static int directory_check_place(const char *path, int fd, struct err *err)
{
	static const struct owner nobody = { .holder.fence = 1, .ttl_ms = 1 };
	struct next one = NO_NEXT, two = NO_NEXT;
	int result;

	sweep_place(fd);
	if (next_prepare(&one, fd, &nobody) != 0 || next_prepare(&two, fd, &nobody) != 0)
		result = cannot_be_used(path, "cannot make a generation", err);
	else
		result = try_two(path, &one, &two, fd, err);
	next_drop(&one, fd);
	next_drop(&two, fd);
	return result;
}

/* Who can write there can take leases away: only their own user may. */
static int directory_make_place(const char *path, struct err *err)
{
	if (mkdir(path, 0700) != 0 && errno == ENOENT &&
	    dir_make_parents(AT_FDCWD, path, err) == 0)
		mkdir(path, 0700);
	return dir_make(AT_FDCWD, path, err); /* says what is wrong */
}

int lease_manager_open_directory(const struct lease_options *options,
				 struct lease_manager **manager, struct err *err)
{
	struct directory *directory = xcalloc(1, sizeof(*directory));
	struct stat st;

	*manager = NULL;
	directory->fd = -1;
	directory->path = xstrdup(options->directory);
	mutex_init(&directory->mutex);
	lease_backend_init(&directory->base, &ops, options);
	if (directory_make_place(directory->path, err) == 0)
		directory->fd = dir_open(AT_FDCWD, directory->path, err);
	if (directory->fd >= 0 && fstat(directory->fd, &st) == 0)
		directory->device = st.st_dev;
	if (directory->fd < 0 ||
	    directory_check_place(directory->path, directory->fd, err) != 0) {
		directory_close(&directory->base);
		return err_prefix(err, "leases");
	}
	*manager = lease_manager_new(&directory->base);
	return 0;
}
