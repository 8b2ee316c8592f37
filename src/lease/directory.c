/*
 * Leases in a shared directory: who takes the place of lease/local.c where several
 * hosts work on the same data.
 *
 * Why at most one living, unlapsed holder:
 *
 * - The next number is made by one rename (directory.c), and only by who saw the
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

#include <pthread.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/inotify.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "base/str.h"
#include "base/thread.h"
#include "lease/directory_line.h"
#include "lease/lease_backend.h"

struct directory {
	struct lease_backend base;
	char *path;   /* owned; for people */
	int fd;       /* owned; its file system cannot be changed for another under us */
	dev_t device; /* that one */
	pthread_mutex_t mutex;
	struct map held; /* guarded by mutex; struct held by nonce */
};

/* A grant of ours, until its release. */
struct held {
	char name[KEY_NAME_SIZE];
	uint64_t number;
	int fd;          /* owned; the generation, flock'ed: its holder lives */
	int64_t beat_ns; /* its latest heartbeat; the keeper only, once it is granted */
	atomic_bool is_released;
	int users; /* guarded by the directory's mutex */
};

enum key_mode { KEY_FIND, KEY_MAKE };

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

/* Opens the key's directory; -1 with *err filled (ENOENT in it: there is none). */
static int directory_open_key(const struct directory *directory, const char *key,
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

/* It is the first's in the line from now on; without any, whoever comes finds it
 * released. 1: others were quicker. */
static int held_pass_on(int key_fd, struct held *held, uint64_t fence)
{
	int passed = directory_line_pass(key_fd, held->number, fence);

	if (passed <= 0)
		return stamp_released(held);
	atomic_store(&held->is_released, true);
	return 0;
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
	AUTO_CLOSE int key_fd =
		openat(directory->fd, held->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int overtaken =
		key_fd < 0 ? -1 : key_is_overtaken(key_fd, held->number, held->fd);
	if (overtaken == 0 && held_pass_on(key_fd, held, grant->fence) != 0)
		overtaken = -1;
	if (overtaken < 0 && directory_grant_is_gone(errno))
		overtaken = 1;
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

static int directory_release(struct lease_backend *backend, struct lease_grant *grant,
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

static int directory_extend_all(struct lease_backend *backend,
				struct lease_extension *all, size_t count,
				int64_t sent_at, struct err *err)
{
	struct directory *directory = (struct directory *)backend;
	size_t unknown = 0;

	(void)sent_at;
	for (size_t i = 0; i < count; i++) {
		struct held *held = held_get(directory, all[i].grant.nonce);
		int in_time = held ? directory_grant_beat(directory, held) : 0;
		all[i].lost = in_time == 0;
		all[i].unknown = in_time < 0;
		if (in_time < 0)
			key_error("renew", all[i].grant.key, err);
		unknown += in_time < 0;
		if (held)
			held_put(directory, held);
	}
	return unknown == count ? -1 : 0;
}

/* ------------------------------------------------------------------ taking */

static uint64_t directory_grant_next_fence(const struct lease_attempt *attempt,
					   const struct key_view *view)
{
	uint64_t fence = (uint64_t)clock_wall_ns() / 1000;

	if (fence < view->number)
		fence = view->number;
	if (view->number > 0 && fence < view->owner.holder.fence + LEASE_FENCES - 1)
		fence = view->owner.holder.fence + LEASE_FENCES - 1;
	if (fence < lease_attempt_floor(attempt))
		fence = lease_attempt_floor(attempt);
	return fence + 1;
}

static void directory_grant_describe_owner(const struct directory *directory,
					   const struct lease_attempt *attempt,
					   const struct key_view *view,
					   struct owner *owner)
{
	*owner = (struct owner){ .ttl_ms = directory->base.ttl_ms };
	lease_backend_describe(&directory->base, attempt->request, &owner->holder);
	owner->holder.fence = directory_grant_next_fence(attempt, view);
}

static void grant(struct directory *directory, struct lease_attempt *attempt,
		  const struct line_grant *line_grant, enum lease_predecessor predecessor,
		  struct next *next)
{
	struct lease_grant *granted = &attempt->grant;
	struct held *held = xcalloc(1, sizeof(*held));

	held->users = 1; /* the map */
	held->number = line_grant->number;
	held->beat_ns = line_grant->stamp_ns;
	held->fd = TAKE_FD(next->fd);
	key_name(attempt->request->key, held->name);
	random_hex(granted->nonce, (LEASE_NONCE_SIZE - 1) / 2);
	snprintf(granted->key, sizeof(granted->key), "%s", attempt->request->key);
	granted->fence = line_grant->fence;
	granted->guard_fd = TAKE_FD(next->guard_fd);
	attempt->outcome = LEASE_GRANTED;
	attempt->predecessor = predecessor;
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

/* 0: *next is the latest generation; 1: others were quicker, or we too slow. */
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
	/* We slept, and others took us for dead and tidied up. */
	if (result < 0 && errno == ENOENT && !is_removed(key_fd))
		return 1;
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
	struct line_grant taken = { .number = view->number + 1 };
	struct next next = NO_NEXT;
	struct owner owner;

	directory_grant_describe_owner(directory, attempt, view, &owner);
	taken.fence = owner.holder.fence;
	int result = make_next(key, key_fd, view, &owner, &next, err);
	if (result == 0)
		result = first_beat(directory, attempt->request, view, &next,
				    &taken.stamp_ns, err);
	attempt->has_others = view->has_tickets;
	if (result == 0)
		grant(directory, attempt, &taken, view->predecessor, &next);
	else
		next_drop(&next, key_fd);
	return result;
}

/* A little off the beat, so that those who wait do not ask all at once. */
static int64_t directory_grant_poll_ms(int64_t ms)
{
	return ms * (800 + (clock_boot_ms() + getpid()) * 7 % 400) / 1000;
}

/* Who is told is told by whom it watches, on this kernel: the holder, or who waits before
 * it. */
static int64_t directory_grant_retry_after(const struct lease_attempt *attempt,
					   const struct key_view *view,
					   const struct lease_holder *before)
{
	const struct lease_holder *holder = &view->owner.holder;
	const struct lease_holder *watched = before ? before : holder;
	bool is_here = strcmp(watched->boot_id, clock_boot_id()) == 0;
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

/* ------------------------------------------------------------------ waiting */

static struct next *directory_ticket_of(const struct lease_attempt *attempt)
{
	return (struct next *)(intptr_t)attempt->place;
}

static void directory_ticket_close(struct lease_attempt *attempt)
{
	struct next *ticket = directory_ticket_of(attempt);

	if (ticket->fd >= 0)
		close(ticket->fd);
	if (ticket->guard_fd >= 0)
		close(ticket->guard_fd);
	free(ticket);
	attempt->place = 0;
}

/* Leaves the line. What was passed to it just now goes on to the next. */
static void directory_ticket_drop(const struct directory *directory, int key_fd,
				  struct lease_attempt *attempt)
{
	const struct next *ticket = directory_ticket_of(attempt);
	struct line_grant passed;

	if (directory_line_leave(key_fd, ticket) > 0 &&
	    directory_line_claim(key_fd, ticket, directory->base.ttl_ms, &passed) > 0 &&
	    directory_line_pass(key_fd, passed.number, passed.fence) <= 0)
		key_stamp_released(ticket->fd);
	directory_ticket_close(attempt);
}

static int directory_ticket_make(const struct directory *directory, int key_fd,
				 struct lease_attempt *attempt,
				 const struct key_view *view, struct err *err)
{
	struct next *ticket = xcalloc(1, sizeof(*ticket));
	struct owner owner;

	directory_grant_describe_owner(directory, attempt, view, &owner);
	if (directory_line_stand(key_fd, &owner, ticket) == 0) {
		attempt->place = (int64_t)(intptr_t)ticket;
		attempt->retry_ms = 1; /* what happened meanwhile, nobody told us */
		return 0;
	}
	int code = errno;
	next_drop(ticket, key_fd);
	free(ticket);
	errno = code;
	/* We slept, and others took us for dead and tidied up. */
	if (directory_grant_is_gone(code) && !is_removed(key_fd))
		return 0;
	return key_error("wait for", attempt->request->key, err);
}

/* 1: the ticket stands in the line; 0: granted, or it is gone; -1. */
static int directory_ticket_ask(struct directory *directory, int key_fd,
				struct lease_attempt *attempt, int64_t *at_ns,
				struct err *err)
{
	struct next *ticket = directory_ticket_of(attempt);
	struct line_grant passed = { 0 };
	int stands = directory_line_ask(key_fd, ticket, attempt->hint_fd, at_ns);
	int claimed = 0;

	if (stands == 0)
		claimed = directory_line_claim(key_fd, ticket, directory->base.ttl_ms,
					       &passed);
	if (stands < 0 || claimed < 0)
		return key_error("wait for", attempt->request->key, err);
	if (stands > 0)
		return 1;
	if (claimed > 0) {
		attempt->has_others = passed.has_others;
		grant(directory, attempt, &passed, LEASE_AFTER_RELEASE, ticket);
	}
	directory_ticket_close(attempt);
	return 0;
}

/* What one look finds. */
struct directory_look {
	struct key_view view;
	int has_before; /* somebody waits before us */
	struct owner before;
};

/* Only the first in the line watches the holder. Who has no ticket looks again with one.
 */
static int directory_look(int key_fd, const struct lease_attempt *attempt, int64_t at_ns,
			  struct directory_look *look, struct err *err)
{
	const struct next *ticket = directory_ticket_of(attempt);
	const char *key = attempt->request->key;
	int hint_fd = ticket ? attempt->hint_fd : -1;

	*look = (struct directory_look){ 0 };
	if (ticket)
		look->has_before = directory_line_before(key_fd, ticket, at_ns, hint_fd,
							 &look->before);
	if (key_look(key_fd, key, look->has_before ? -1 : hint_fd, &look->view, err) != 0)
		return -1;
	if (!ticket && look->view.has_tickets)
		look->has_before = directory_line_before(key_fd, NULL, look->view.at_ns,
							 -1, &look->before);
	return look->has_before < 0 ? key_error("look at", key, err) : 0;
}

/* 0: granted, or not to be had; 1: it is worth another look; -1. */
static int directory_look_and_take_once(struct directory *directory, int key_fd,
					struct lease_attempt *attempt,
					struct directory_look *look, struct err *err)
{
	const struct key_view *view = &look->view;
	int64_t at_ns = 0;

	if (attempt->place &&
	    directory_ticket_ask(directory, key_fd, attempt, &at_ns, err) < 0)
		return -1;
	if (attempt->outcome == LEASE_GRANTED)
		return 0;
	if (directory_look(key_fd, attempt, at_ns, look, err) != 0)
		return -1;
	if (view->is_overtaken)
		return 1;
	if (look->has_before)
		return 0;
	if (view->is_unclaimed && !view->is_free)
		return key_take_back(key_fd, view->number) == 0 ? 1 : 0;
	return view->is_free
		       ? directory_grant_take_lease(directory, key_fd, attempt, view, err)
		       : 0;
}

static void directory_tell_who_is_before(struct lease_attempt *attempt,
					 const struct directory_look *look)
{
	const struct key_view *view = &look->view;
	bool is_turn_of_other = view->is_free && look->has_before;

	attempt->holder = is_turn_of_other ? look->before.holder : view->owner.holder;
	if (is_turn_of_other)
		snprintf(attempt->holder.operation, sizeof(attempt->holder.operation),
			 "waiting");
	snprintf(attempt->holder.key, sizeof(attempt->holder.key), "%s",
		 attempt->request->key);
	attempt->silent_ms = view->silent_ms;
	attempt->orphans = view->orphans;
	attempt->retry_ms = directory_grant_retry_after(
		attempt, view, look->has_before ? &look->before.holder : NULL);
}

static int look_and_take(struct directory *directory, int key_fd,
			 struct lease_attempt *attempt, struct err *err)
{
	struct directory_look look = { 0 };
	int again = 1;

	for (int i = 0; i < RACES && again > 0; i++)
		again = directory_look_and_take_once(directory, key_fd, attempt, &look,
						     err);
	directory_tell_who_is_before(attempt, &look);
	if (again < 0)
		return -1;
	if (attempt->outcome == LEASE_GRANTED && attempt->place)
		directory_ticket_drop(directory, key_fd, attempt);
	else if (attempt->outcome != LEASE_GRANTED && attempt->request->wait_ms > 0 &&
		 !attempt->place)
		return directory_ticket_make(directory, key_fd, attempt, &look.view, err);
	return 0;
}

static void directory_grant_drain_hints(int hint_fd)
{
	char events[4096];

	while (hint_fd >= 0 && read(hint_fd, events, sizeof(events)) > 0)
		;
}

static int directory_is_wanted(struct lease_backend *backend, const char *key,
			       struct err *err)
{
	const struct directory *directory = (struct directory *)backend;
	AUTO_CLOSE int key_fd = directory_open_key(directory, key, KEY_FIND, err);
	struct owner first;
	int64_t at_ns;
	int found = -1;

	if (key_fd < 0)
		return -1;
	if (key_touch(key_fd, &at_ns) == 0)
		found = directory_line_before(key_fd, NULL, at_ns, -1, &first);
	return found < 0 ? key_error("look at", key, err) : found;
}

/* As the functions of struct lease_backend_ops. */
static int directory_try_acquire(struct lease_backend *backend,
				 struct lease_attempt *attempt, struct err *err)
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

/* The next generation, by an operator: made, and released. 0: done; 1: others were
 * quicker. */
static int directory_take_away(const char *key, int key_fd, const struct key_view *view,
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

static void directory_leave(struct lease_backend *backend, struct lease_attempt *attempt)
{
	const struct directory *directory = directory_from_backend(backend);
	AUTO_CLOSE int key_fd = directory_open_key(directory, attempt->request->key,
						   KEY_FIND, ERR_IGNORED);

	directory_ticket_drop(directory, key_fd, attempt);
}

/* What is told after the release must not make it look alive again. */
static int directory_pass(struct lease_backend *backend, const struct lease_grant *grant,
			  const struct lease_holder *holder, bool *has_others,
			  struct err *err)
{
	struct directory *directory = directory_from_backend(backend);
	struct held *held = held_get(directory, grant->nonce);
	struct owner owner = { .ttl_ms = directory->base.ttl_ms, .holder = *holder };
	uint64_t latest;

	if (!held)
		return 0;
	AUTO_CLOSE int key_fd =
		directory_open_key(directory, grant->key, KEY_FIND, ERR_IGNORED);
	owner.holder.fence = grant->fence;
	int result = owner_replace(held->fd, &owner);
	if (atomic_load(&held->is_released))
		key_stamp_released(held->fd);
	if (result != 0 && !directory_grant_is_gone(errno))
		result = key_error("pass on", grant->key, err);
	else
		result = 0;
	if (key_fd >= 0)
		key_find_latest(key_fd, &latest, has_others);
	held_put(directory, held);
	return result;
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

/* One that another user has made private is passed over: the others can be told of. */
static int directory_list_key(const struct directory *directory, const char *name,
			      lease_holders *holders, struct err *err)
{
	AUTO_CLOSE int key_fd =
		openat(directory->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char key[LEASE_KEY_SIZE];
	struct lease_holder holder;

	ssize_t len = key_fd < 0 ? -1 : readlinkat(key_fd, "key", key, sizeof(key) - 1);
	if (len < 0)
		return errno == ENOENT || errno == EACCES
			       ? 0
			       : key_error("look at", name, err);
	key[len] = '\0';
	int found = directory_observe_holder(key_fd, key, &holder, err);
	if (found > 0)
		vec_add(holders, holder);
	return found < 0 && err->sys_errno != EACCES ? -1 : 0;
}

static bool is_key_name(const char *name)
{
	return strlen(name) == KEY_NAME_SIZE - 1 &&
	       strspn(name, "0123456789abcdef") == KEY_NAME_SIZE - 1;
}

ORDER_BY_TEXT(compare_keys, struct lease_holder, key);

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

/* The descriptor of a key that was granted; ERR_MISSING: it never was. */
static int open_granted(const struct directory *directory, const char *key,
			struct err *err)
{
	int key_fd = directory_open_key(directory, key, KEY_FIND, err);

	/* Below a directory that was removed there is nothing, whatever was granted. */
	return key_fd < 0 && err->sys_errno == ENOENT &&
			       (!is_removed(directory->fd) || restore(directory))
		       ? lease_report_never_granted(key, err)
		       : key_fd;
}

static int directory_inspect(struct lease_backend *backend, const char *key,
			     struct lease_holder *holder, struct err *err)
{
	AUTO_CLOSE int key_fd = open_granted(directory_from_backend(backend), key, err);

	if (key_fd < 0)
		return -1;
	int found = directory_observe_holder(key_fd, key, holder, err);
	return found == 0 ? lease_report_never_granted(key, err) : found < 0 ? -1 : 0;
}

static int directory_force_release(struct lease_backend *backend, const char *key,
				   uint64_t fence, struct err *err)
{
	AUTO_CLOSE int key_fd = open_granted(directory_from_backend(backend), key, err);
	struct key_view view;

	if (key_fd < 0 || key_look(key_fd, key, -1, &view, err) != 0)
		return -1;
	if (view.number == 0)
		return lease_report_never_granted(key, err);
	bool is_it = !view.is_overtaken && !view.is_released &&
		     view.owner.holder.fence == fence;
	int late = is_it ? directory_take_away(key, key_fd, &view, err) : 1;
	if (late <= 0)
		return late;
	return lease_report_other_fence(key, !view.is_released, view.owner.holder.fence,
					fence, err);
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
	.name = "directory",
	.hint_open = directory_hint_open,
	.try_acquire = directory_try_acquire,
	.leave = directory_leave,
	.extend_all = directory_extend_all,
	.pass = directory_pass,
	.release = directory_release,
	.is_wanted = directory_is_wanted,
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

static int directory_try_place(const char *path, int fd, struct err *err)
{
	static const struct owner nobody = { .holder.fence = 1, .ttl_ms = 1 };
	struct next one = NO_NEXT, two = NO_NEXT;
	int result;

	if (next_prepare(&one, fd, &nobody) != 0 || next_prepare(&two, fd, &nobody) != 0)
		result = cannot_be_used(path, "cannot make a generation", err);
	else
		result = try_two(path, &one, &two, fd, err);
	next_drop(&one, fd);
	next_drop(&two, fd);
	return result;
}

/* Another process that begins just now may sweep away what we try with. */
static int directory_check_place(const char *path, int fd, struct err *err)
{
	int result = -1;

	sweep_place(fd);
	for (int i = 0; i < RACES && result != 0; i++)
		result = directory_try_place(path, fd, err);
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
