#include "lease/directory_grant.h"

#include <sys/inotify.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"
#include "lease/directory_take.h"

#define POLL_MS 1000      /* should a hint fail us */
#define BLIND_POLL_MS 500 /* without any, or held by another host */
#define ORPHAN_POLL_MS 100
#define RACE_POLL_MS 50
#define RACES 3 /* so often others may be quicker, before we rest */

static bool directory_grant_is_gone(int code)
{
	return code == ENOENT || code == ESTALE;
}

static bool is_removed(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 ? st.st_nlink == 0 : errno == ESTALE;
}

/* Somebody has removed the directory, and with it all leases: as if all were released by
 * force. Who holds one hears of it at the next heartbeat. Without this, nodes that were
 * started before would not get any until they are started anew. */
static bool restore(const struct directory *directory)
{
	struct stat st;

	if (!is_removed(directory->fd) ||
	    (mkdir(directory->path, 0700) != 0 && errno != EEXIST))
		return false;
	AUTO_CLOSE int fd = dir_open(AT_FDCWD, directory->path, ERR_IGNORED);
	if (fd < 0 || fstat(fd, &st) != 0 || st.st_dev != directory->device ||
	    dup3(fd, directory->fd, O_CLOEXEC) < 0)
		return false;
	log_warn("lease.directory_restored", LOG_TEXT("path", directory->path));
	return true;
}

int directory_open_key(const struct directory *directory, const char *key,
		       enum key_mode mode, struct err *err)
{
	char name[KEY_NAME_SIZE];

	key_name(key, name);
	for (bool is_restored = false;;) {
		int fd = openat(directory->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0)
			return fd;
		if (!directory_grant_is_gone(errno) || mode == KEY_FIND)
			return key_error("open", key, err);
		if (mkdirat(directory->fd, name, 0700) == 0 || errno == EEXIST)
			continue;
		int code = errno;
		if (is_restored || !directory_grant_is_gone(code) ||
		    !restore(directory)) {
			errno = code;
			return key_error("make", key, err);
		}
		is_restored = true;
	}
}

/* ------------------------------------------------------------------ what we hold */

static struct held *held_get(struct directory *directory, const char *nonce)
{
	AUTO_UNLOCK pthread_mutex_t *mutex = lock(&directory->mutex);
	struct held *held = map_get(&directory->held, nonce);

	if (held)
		held->users++;
	return held;
}

static void held_put(struct directory *directory, struct held *held)
{
	lock(&directory->mutex);
	bool is_last = --held->users == 0;
	unlock(&directory->mutex);
	if (!is_last)
		return;
	close(held->fd);
	free(held);
}

static void held_forget(struct directory *directory, const char *nonce)
{
	lock(&directory->mutex);
	struct held *held = map_remove(&directory->held, nonce);
	unlock(&directory->mutex);
	if (held)
		held_put(directory, held);
}

/* ------------------------------------------------------------------ giving up */

/* The keeper may be renewing it just now: who comes second sees the other, and the stamp
 * of the release is the last one. */
static int stamp_released(struct held *held)
{
	atomic_store(&held->is_released, true);
	return key_stamp_released(held->fd);
}

/* 1: somebody is past it; 0; -1: errno. */
static int held_is_overtaken(const struct directory *directory, const struct held *held)
{
	AUTO_CLOSE int key_fd =
		openat(directory->fd, held->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (key_fd < 0)
		return directory_grant_is_gone(errno) ? 1 : -1;
	return key_is_overtaken(key_fd, held->number, held->fd);
}

static int directory_grant_give_up(struct directory *directory,
				   const struct lease_grant *grant,
				   enum lease_released *how, struct err *err)
{
	struct held *held = held_get(directory, grant->nonce);

	*how = LEASE_GONE;
	if (!held)
		return 0;
	int overtaken = held_is_overtaken(directory, held);
	if (overtaken == 0 && stamp_released(held) != 0)
		overtaken = directory_grant_is_gone(errno) ? 1 : -1;
	if (overtaken == 0)
		*how = LEASE_RELEASED;
	if (overtaken < 0)
		key_error("release", grant->key, err);
	held_put(directory, held);
	return overtaken < 0 ? -1 : 0;
}

/* The locks go after the stamp: who waits for them finds it released. */
static void directory_grant_forget(struct directory *directory, struct lease_grant *grant)
{
	held_forget(directory, grant->nonce);
	if (grant->guard_fd >= 0)
		close(grant->guard_fd);
	*grant = LEASE_NO_GRANT;
}

int directory_release(struct lease_backend *backend, struct lease_grant *grant,
		      enum lease_released *how, struct err *err)
{
	struct directory *directory = (struct directory *)backend;
	int result = directory_grant_give_up(directory, grant, how, err);

	directory_grant_forget(directory, grant);
	return result;
}

/* ------------------------------------------------------------------ renewing */

/* Sends a heartbeat, and says whether it came in time: 1, 0; -1: errno. */
static int directory_grant_beat(const struct directory *directory, struct held *held)
{
	int64_t stamp;

	if (key_touch(held->fd, &stamp) != 0)
		return directory_grant_is_gone(errno) ? 0 : -1;
	if (atomic_load(&held->is_released))
		return key_stamp_released(held->fd);
	if (stamp - held->beat_ns >= directory->base.ttl_ms * NS_PER_MS)
		return 0;
	held->beat_ns = stamp;
	int overtaken = held_is_overtaken(directory, held);
	return overtaken < 0 ? -1 : !overtaken;
}

int directory_extend_all(struct lease_backend *backend, struct lease_extension *all,
			 size_t count, int64_t sent_at, struct err *err)
{
	struct directory *directory = (struct directory *)backend;
	int result = 0;

	(void)sent_at;
	for (size_t i = 0; i < count; i++) {
		struct held *held = held_get(directory, all[i].grant.nonce);
		int in_time = held ? directory_grant_beat(directory, held) : 0;
		all[i].lost = in_time == 0;
		if (in_time < 0)
			result = key_error("renew", all[i].grant.key, err);
		if (held)
			held_put(directory, held);
	}
	return result;
}

/* ------------------------------------------------------------------ taking */

static uint64_t directory_grant_next_fence(const struct lease_request *request,
					   const struct key_view *view)
{
	uint64_t fence = view->number;

	if (fence < view->owner.holder.fence)
		fence = view->owner.holder.fence;
	if (fence < request->fence_floor)
		fence = request->fence_floor;
	return fence + 1;
}

static void directory_grant_describe_owner(const struct directory *directory,
					   const struct lease_attempt *attempt,
					   const struct key_view *view,
					   struct owner *owner)
{
	const struct lease_request *request = attempt->request;
	struct lease_holder *holder = &owner->holder;

	*owner = (struct owner){
		.ttl_ms = directory->base.ttl_ms,
		.holder = { .fence = directory_grant_next_fence(request, view),
			    .pid = getpid(),
			    .acquired_at = clock_wall_ms() },
	};
	snprintf(holder->node, sizeof(holder->node), "%s", directory->base.node);
	snprintf(holder->boot_id, sizeof(holder->boot_id), "%s", clock_boot_id());
	snprintf(holder->operation, sizeof(holder->operation), "%s", request->operation);
	snprintf(holder->job, sizeof(holder->job), "%s",
		 request->job ? request->job : "");
}

static void grant(struct directory *directory, struct lease_attempt *attempt,
		  const struct key_view *view, uint64_t fence, struct next *next,
		  int64_t beat_ns)
{
	struct lease_grant *granted = &attempt->grant;
	struct held *held = xcalloc(1, sizeof(*held));

	held->users = 1; /* the map */
	held->number = view->number + 1;
	held->beat_ns = beat_ns;
	held->fd = TAKE_FD(next->fd);
	key_name(attempt->request->key, held->name);
	random_hex(granted->nonce, (LEASE_NONCE_SIZE - 1) / 2);
	snprintf(granted->key, sizeof(granted->key), "%s", attempt->request->key);
	granted->fence = fence;
	granted->guard_fd = TAKE_FD(next->guard_fd);
	attempt->outcome = LEASE_GRANTED;
	attempt->predecessor = view->predecessor;
	AUTO_UNLOCK pthread_mutex_t *mutex = lock(&directory->mutex);
	map_put(&directory->held, granted->nonce, held);
}

/* The first heartbeat tells whether the number was ours without a break: nobody can have
 * seen it lapse before. 1: it was not, but there is time to take the next. */
static int first_beat(const struct directory *directory,
		      const struct lease_request *request, const struct key_view *view,
		      struct next *next, int64_t *stamp_ns, struct err *err)
{
	if (key_touch(next->fd, stamp_ns) != 0)
		return key_error("renew", request->key, err);
	if (*stamp_ns - view->at_ns < directory->base.ttl_ms * NS_PER_MS)
		return 0;
	if (request->wait_ms > 0)
		return 1;
	err_set(err, ERR_TIMEOUT, "lease %.300s: it lapsed while we took it",
		request->key);
	return err_remedy(err, "the directory's file server is too slow, or lease.ttl "
			       "too short");
}

/* 0: *next is the latest generation; 1: others were quicker. */
static int make_next(const char *key, int key_fd, const struct key_view *view,
		     const struct owner *owner, struct next *next, struct err *err)
{
	if (owner->holder.fence > INT64_MAX)
		return err_set(err, ERR_CORRUPT, "lease %.300s: its fences are used up",
			       key);
	if (view->number == 0 && symlinkat(key, key_fd, "key") != 0 && errno != EEXIST)
		return key_error("name", key, err);
	int result = next_prepare(next, key_fd, owner);
	if (result == 0)
		result = next_publish(next, key_fd, view);
	if (result < 0)
		key_error("take", key, err);
	return result;
}

/* 0: it is ours; 1: others were quicker, or we too slow. */
static int directory_grant_take_lease(struct directory *directory, int key_fd,
				      struct lease_attempt *attempt,
				      const struct key_view *view, struct err *err)
{
	const char *key = attempt->request->key;
	struct next next = NO_NEXT;
	struct owner owner;
	int64_t stamp_ns;

	directory_grant_describe_owner(directory, attempt, view, &owner);
	int result = make_next(key, key_fd, view, &owner, &next, err);
	if (result == 0)
		result = first_beat(directory, attempt->request, view, &next, &stamp_ns,
				    err);
	if (result == 0)
		grant(directory, attempt, view, owner.holder.fence, &next, stamp_ns);
	else
		next_drop(&next, key_fd);
	return result;
}

/* A little off the beat, so that those who wait do not ask all at once. */
static int64_t directory_grant_poll_ms(int64_t ms)
{
	return ms * (800 + (clock_boot_ms() + getpid()) * 7 % 400) / 1000;
}

static int64_t directory_grant_retry_after(const struct lease_attempt *attempt,
					   const struct key_view *view)
{
	const struct lease_holder *holder = &view->owner.holder;
	bool is_here = strcmp(holder->boot_id, clock_boot_id()) == 0;
	int64_t retry = directory_grant_poll_ms(
		attempt->hint_fd >= 0 && is_here ? POLL_MS : BLIND_POLL_MS);

	if (view->is_overtaken || view->is_free)
		return directory_grant_poll_ms(RACE_POLL_MS);
	if (view->orphans)
		return directory_grant_poll_ms(ORPHAN_POLL_MS);
	if (holder->ttl_left_ms < retry)
		retry = holder->ttl_left_ms > 0 ? holder->ttl_left_ms + 1 : 1;
	return retry;
}

static int look_and_take(struct directory *directory, int key_fd,
			 struct lease_attempt *attempt, struct err *err)
{
	struct key_view view;
	int late = 1;

	for (int i = 0; i < RACES && late > 0; i++) {
		if (key_look(key_fd, attempt->request->key, attempt->hint_fd, &view,
			     err) != 0)
			return -1;
		if (!view.is_free && !view.is_overtaken)
			break;
		if (view.is_free)
			late = directory_grant_take_lease(directory, key_fd, attempt,
							  &view, err);
	}
	attempt->holder = view.owner.holder;
	attempt->silent_ms = view.silent_ms;
	attempt->orphans = view.orphans;
	attempt->retry_ms = directory_grant_retry_after(attempt, &view);
	return late < 0 ? -1 : 0;
}

static void directory_grant_drain_hints(int hint_fd)
{
	char events[4096];

	while (hint_fd >= 0 && read(hint_fd, events, sizeof(events)) > 0)
		;
}

int directory_try_acquire(struct lease_backend *backend, struct lease_attempt *attempt,
			  struct err *err)
{
	struct directory *directory = (struct directory *)backend;
	AUTO_CLOSE int key_fd = -1;
	enum lease_released how;

	directory_grant_drain_hints(attempt->hint_fd);
	attempt->outcome = LEASE_HELD;
	attempt->grant = LEASE_NO_GRANT;
	if (attempt->handed.nonce[0] &&
	    directory_grant_give_up(directory, &attempt->handed, &how, err) != 0)
		return -1;
	key_fd = directory_open_key(directory, attempt->request->key, KEY_MAKE, err);
	if (key_fd < 0 || look_and_take(directory, key_fd, attempt, err) != 0)
		return -1;
	directory_grant_forget(directory, &attempt->handed);
	return 0;
}

int directory_take_away(const char *key, int key_fd, const struct key_view *view,
			struct err *err)
{
	struct owner owner = view->owner;
	struct next next = NO_NEXT;

	owner.forced = true;
	owner.holder.fence++;
	int result = make_next(key, key_fd, view, &owner, &next, err);
	next_drop(&next, key_fd);
	return result;
}
