/*
 * Why the order is right. The watch is there before anything is read, so a change after
 * that is either in what is read or makes the epoch old. Pending files are listed before
 * the key is read and the key before refs (git/state.h). The configuration is read after
 * the fingerprint: if it changed in between, the fingerprint is the old one's, and the
 * look that must follow whatever was derived from this one differs from it.
 *
 * The look is of the directory that was opened; what git then reads is what stands at
 * its path. Should that have been replaced meanwhile, the look that follows tells by
 * device and inode: they cannot be given again while this one's directory is watched,
 * and the fingerprint holds inodes and ctimes besides.
 *
 * look_still_stands asks for the path first, then for the epoch. If that is the look's,
 * nothing had changed up to that moment; so the answer was true when the path was asked,
 * which is after the call began.
 */
#include "serve/look.h"

#include <limits.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "git/lock_owner.h"
#include "git/repo.h"
#include "serve/find.h"

#define NS_PER_S INT64_C(1000000000)

enum {
	POLL_MS = 4,       /* between looks at a pending write */
	SETTLE_MS = 20,    /* as fingerprint_is_settled wants it on local disks */
	SETTLE_TRIES = 5,  /* of these waits */
	WATCHED_TRIES = 2, /* the first may make the state's directories and key */
	TELL_EVERY_MS = 60000,
};

static const char *const names[BYPASS_COUNT] = {
	[BYPASS_NONE] = "none",
	[BYPASS_PENDING] = "pending",
	[BYPASS_UNSETTLED] = "unsettled",
	[BYPASS_CONFIG] = "config",
	[BYPASS_UNWRITABLE] = "unwritable",
	[BYPASS_MOVING] = "moving",
	[BYPASS_UNREADABLE] = "unreadable",
};

const char *bypass_name(enum bypass bypass)
{
	return bypass < BYPASS_COUNT ? names[bypass] : "";
}

void observation_clear(struct look *look)
{
	free(look->path);
	*look = (struct look){ 0 };
}

/* Each request meets it again; a person need not. */
static void tell_unwritable(const char *path, const struct err *err)
{
	static atomic_int_fast64_t next;
	int64_t now = clock_boot_ms();
	int_fast64_t due = atomic_load(&next);

	if (now >= due &&
	    atomic_compare_exchange_strong(&next, &due, now + TELL_EVERY_MS))
		log_warn("refs.not_cached", LOG_ERR(err), LOG_TEXT("path", path));
}

static void bypass_unwritable(struct look *look, const struct err *why)
{
	tell_unwritable(look->path, why);
	look->bypass = BYPASS_UNWRITABLE;
}

static bool observation_is_there(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

/* Whether all that decides its refs is where the watch and the fingerprint look. */
static bool is_self_contained(int dir, const struct repo *repo,
			      const struct fingerprint *print)
{
	return !repo->has_includes && !print->has_links &&
	       !observation_is_there(dir, "commondir") &&
	       !observation_is_there(dir, "config.worktree");
}

static int observation_check_repository(int dir, struct look *look, struct err *err)
{
	AUTO_REPO struct repo repo = REPO_INIT;

	if (repo_open(dir, ".", &repo, err) != 0)
		return err_prefix(err, "%s", look->path);
	look->is_closed = repo.is_closed;
	if (!is_self_contained(dir, &repo, &look->print))
		look->bypass = BYPASS_CONFIG;
	return 0;
}

static void observation_arm_watch(const struct look_request *request, int dir,
				  struct look *look)
{
	look->is_watched =
		request->inotify && inotify_arm(request->inotify, dir, request->watch,
						&look->epoch, ERR_IGNORED) == 0;
}

/* The latest that was read from the clock of a shared file system. It does not go back:
 * what was old by it still is, and a repository at rest costs no more than its looks. */
static struct {
	pthread_mutex_t mutex;
	dev_t device;
	int64_t ns;
} shared_clock = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static int64_t shared_clock_last(dev_t device)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&shared_clock.mutex);

	return shared_clock.device == device ? shared_clock.ns : 0;
}

/* 0: it cannot be asked, and nothing is settled. */
static int64_t shared_clock_ask(int dir, dev_t device)
{
	int64_t now = lock_owner_clock(dir, STATE_FOLDER) * NS_PER_S;

	if (now < 0)
		return 0;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&shared_clock.mutex);
	if (shared_clock.device != device || shared_clock.ns < now) {
		shared_clock.device = device;
		shared_clock.ns = now;
	}
	return now;
}

/* Stamps on a shared file system are its server's: whether they are old is for that clock
 * to say, as it stood before they were read. */
static int take_print(int dir, struct look *look, struct err *err)
{
	struct fingerprint *print = &look->print;
	int64_t now = shared_clock_last(look->device);

	if (fingerprint_take(dir, FINGERPRINT_REFS, print, err) != 0)
		return -1;
	if (!print->is_shared)
		return 0;
	print->taken_ns = now;
	if (fingerprint_is_settled(print))
		return 0;
	now = shared_clock_ask(dir, look->device);
	if (fingerprint_take(dir, FINGERPRINT_REFS, print, err) != 0)
		return -1;
	print->taken_ns = now;
	return 0;
}

/* Only the path of *look is given. */
static int look_once(const struct look_request *request, int dir, struct look *look,
		     struct err *err)
{
	struct state_look state;
	struct err why;
	struct stat st;

	look->bypass = BYPASS_NONE;
	if (fstat(dir, &st) != 0)
		return err_errno(err, "cannot look at %s", look->path);
	look->device = st.st_dev;
	look->inode = st.st_ino;
	observation_arm_watch(request, dir, look);
	if (state_look(dir, &state, &why) != 0) {
		bypass_unwritable(look, &why);
		return 0;
	}
	look->recovered += state.recovered;
	if (state.is_pending) {
		look->bypass = BYPASS_PENDING;
		return 0;
	}
	memcpy(look->key, state.key, sizeof(look->key));
	if (take_print(dir, look, &why) != 0)
		bypass_unwritable(look, &why);
	return observation_check_repository(dir, look, err);
}

/* What is left to do until a look is of use. */
struct patience {
	int64_t pending_until; /* boot ms */
	int settle_tries, watched_tries;
};

/* How long to wait before another look: 0 for at once, -1: this one is it. */
static int64_t wait_after(struct look *look, struct patience *patience,
			  struct inotify_watch *watch)
{
	int64_t age_ms;

	if (look->bypass == BYPASS_PENDING)
		return clock_boot_ms() < patience->pending_until ? POLL_MS : -1;
	if (look->bypass != BYPASS_NONE)
		return -1;
	if (look->is_watched)
		return inotify_epoch(watch) != look->epoch &&
				       patience->watched_tries-- > 0
			       ? 0
			       : -1;
	if (fingerprint_is_settled(&look->print))
		return -1;
	age_ms = (look->print.taken_ns - look->print.newest_ns) / 1000000;
	if (!look->print.is_shared && !look->print.is_coarse && age_ms >= 0 &&
	    patience->settle_tries-- > 0)
		return SETTLE_MS - age_ms;
	look->bypass = BYPASS_UNSETTLED;
	return -1;
}

/* True: stopped. */
static bool observation_rest(const struct stop *stop, int64_t ms)
{
	if (stop)
		return ms > 0 ? stop_wait(stop, ms) : stop_is_requested(stop);
	if (ms > 0)
		usleep((useconds_t)ms * 1000);
	return false;
}

int look_take(const struct look_request *request, struct look *look, struct err *err)
{
	struct patience patience = {
		.pending_until = clock_boot_ms() + request->pending_wait_ms,
		.settle_tries = SETTLE_TRIES,
		.watched_tries = WATCHED_TRIES - 1,
	};
	int64_t wait_ms = 0;

	*look = (struct look){ 0 };
	AUTO_CLOSE int dir =
		find_repository(request->root, request->name, &look->path, err);
	if (dir < 0)
		return -1;
	do {
		if (observation_rest(request->stop, wait_ms))
			return err_set(err, ERR_CANCELED, "stopped while looking at %s",
				       look->path);
		if (look_once(request, dir, look, err) != 0)
			return -1;
		wait_ms = wait_after(look, &patience,
				     request->watch ? *request->watch : NULL);
	} while (wait_ms >= 0);
	return 0;
}

static bool is_same_place(const struct look *before, const struct look *after)
{
	return before->device == after->device && before->inode == after->inode &&
	       strcmp(before->path, after->path) == 0;
}

bool look_is_same(const struct look *before, const struct look *after)
{
	if (before->bypass != BYPASS_NONE || after->bypass != BYPASS_NONE)
		return false;
	if (!is_same_place(before, after) || strcmp(before->key, after->key) != 0 ||
	    !fingerprint_equal(&before->print, &after->print))
		return false;
	return (before->is_watched && after->is_watched &&
		before->epoch == after->epoch) ||
	       fingerprint_is_settled(&before->print);
}

/* Found as NAME: whether a NAME.git has come. True where it cannot be told. */
static bool is_hidden(const char *path)
{
	char usual[PATH_MAX];
	struct stat st;
	int len = snprintf(usual, sizeof(usual), "%s.git", path);

	if (len < 0 || (size_t)len >= sizeof(usual))
		return true;
	return lstat(usual, &st) == 0 || errno != ENOENT;
}

bool look_still_stands(const struct look *look, struct inotify_watch *watch)
{
	struct stat st;

	if (look->bypass != BYPASS_NONE || !look->is_watched || !watch)
		return false;
	if (lstat(look->path, &st) != 0 || st.st_dev != look->device ||
	    st.st_ino != look->inode)
		return false;
	if (find_is_plain(look->path) && is_hidden(look->path))
		return false;
	return inotify_epoch(watch) == look->epoch;
}
