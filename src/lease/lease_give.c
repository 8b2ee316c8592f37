#include "lease/lease_give.h"

#include <sys/file.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/thread.h"

#define MARK_SIZE 600
#define STEP_US 200
#define LONG_STEP_US 50000
#define TRIES 100
#define TAKEN "taken "

/* What a guard says that is given. */
struct given {
	char former[LEASE_NONCE_SIZE], nonce[LEASE_NONCE_SIZE];
	uint64_t fence;
	int64_t valid_until;
	unsigned passes;
	uint64_t clock;
};

/* Processes of one kernel have the same boot clock, unless they are of other time
 * namespaces. */
static uint64_t give_clock_id(void)
{
	static _Atomic uint64_t id; /* each hand-over asks, twice */
	struct stat st;

	if (id == 0 && stat("/proc/self/ns/time", &st) == 0)
		id = (uint64_t)st.st_ino;
	return id;
}

static bool give_write_mark(int guard_fd, const char *text)
{
	char mark[MARK_SIZE] = "";

	snprintf(mark, sizeof(mark), "%s", text);
	return pwrite(guard_fd, mark, sizeof(mark), 0) == (ssize_t)sizeof(mark);
}

/* "": nothing was ever given. */
static void give_read_mark(int guard_fd, char mark[MARK_SIZE])
{
	if (pread(guard_fd, mark, MARK_SIZE, 0) != MARK_SIZE)
		mark[0] = '\0';
	mark[MARK_SIZE - 1] = '\0';
}

static bool give_read_given(int guard_fd, struct given *given)
{
	char mark[MARK_SIZE];

	give_read_mark(guard_fd, mark);
	return sscanf(mark, "given %32s %32s %" SCNu64 " %" SCNd64 " %u %" SCNu64,
		      given->former, given->nonce, &given->fence, &given->valid_until,
		      &given->passes, &given->clock) == 6;
}

static bool give_lock(int guard_fd, int how)
{
	return flock(guard_fd, how | LOCK_NB) == 0;
}

static int give_open(const char *path, int flags)
{
	struct stat st;
	AUTO_CLOSE int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return TAKE_FD(fd);
	return -1;
}

/* ------------------------------------------------------------------ giving */

/* The grant's guard for the caller alone, after the descriptor that children may share
 * was closed. Without its lock they still have it. -1: there is no such guard. */
static int give_take_guard(struct lease_server *server, struct lease_grant *grant,
			   char path[LEASE_GUARD_PATH_SIZE])
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&server->mutex);

	for (size_t i = 0; i < server->guards.count; i++) {
		struct server_guard *guard = &server->guards.items[i];
		if (!guard->is_used || guard->fd != grant->guard_fd)
			continue;
		int len = snprintf(path, LEASE_GUARD_PATH_SIZE, "%s/guard/%s",
				   server->files.directory, guard->name);
		int fd = len < LEASE_GUARD_PATH_SIZE ? give_open(path, O_RDWR) : -1;
		if (fd < 0)
			return -1;
		close(TAKE_FD(grant->guard_fd));
		*guard = server->guards.items[--server->guards.count];
		return fd;
	}
	return -1;
}

static bool give_mark_given(const struct lease_grant *grant, struct lease_giving *giving)
{
	char mark[MARK_SIZE], nonce[LEASE_NONCE_SIZE];

	random_hex(nonce, (LEASE_NONCE_SIZE - 1) / 2);
	snprintf(mark, sizeof(mark),
		 "given %s %s %" PRIu64 " %" PRId64 " %u %" PRIu64 " ", grant->nonce,
		 nonce, grant->fence + 1, grant->valid_until, grant->passes,
		 give_clock_id());
	return give_lock(giving->fd, LOCK_EX) && give_write_mark(giving->fd, mark) &&
	       flock(giving->fd, LOCK_UN) == 0;
}

/* key, 0, LEASE_TOLD_OFFER, nonce, 0; and LEASE_TOLD_GUARD, path, 0, if it is given. */
static bool give_tell(const struct owner *next, const char *key,
		      const struct lease_giving *giving, bool is_given)
{
	AUTO_STR struct str message = STR_INIT;

	str_addf(&message, "%s%c%c%s%c", key, 0, LEASE_TOLD_OFFER, giving->nonce, 0);
	if (is_given)
		str_addf(&message, "%c%s%c", LEASE_TOLD_GUARD, giving->path, 0);
	return lease_server_write_told(next, message.data, message.len);
}

/* Whether it is no more as we left it. */
static bool give_is_taken(const struct lease_giving *giving)
{
	struct given given;

	return !give_read_given(giving->fd, &given);
}

/* False: nobody has taken it, or will. */
static bool give_was_taken(const struct lease_giving *giving)
{
	for (int i = 0; i < LEASE_GIVE_US / STEP_US; i++) {
		usleep(STEP_US); /* first: it may need our processor */
		if (give_is_taken(giving))
			return true;
	}
	/* Whoever looks for the dead may have the lock this moment. */
	for (int i = 0; i < TRIES; i++) {
		if (give_lock(giving->fd, LOCK_EX))
			return give_is_taken(giving) ||
			       !give_write_mark(giving->fd, "void");
		if (give_is_taken(giving))
			return true;
		usleep(i < TRIES / 2 ? STEP_US : LONG_STEP_US);
	}
	return true; /* it lapses, should that not be so */
}

bool lease_give(struct lease_server *server, const char *key, struct lease_grant *grant,
		struct lease_giving *giving)
{
	struct owner next;
	bool is_given;

	lock(&server->mutex);
	AUTO_FREE char *text = map_remove(&server->nexts, key);
	unlock(&server->mutex);
	*giving = (struct lease_giving){ .fd = -1 };
	if (!text)
		return false;
	lease_server_read_waiter(text, &next);
	memcpy(giving->nonce, grant->nonce, sizeof(giving->nonce));
	if (grant->valid_until > 0)
		giving->fd = give_take_guard(server, grant, giving->path);
	is_given = giving->fd >= 0 && give_mark_given(grant, giving);
	giving->was_told = give_tell(&next, key, giving, is_given);
	failpoint("lease.given");
	if (giving->was_told && is_given)
		giving->was_taken = give_was_taken(giving);
	else if (giving->was_told)
		usleep(LEASE_HEAD_START_US);
	return giving->was_taken;
}

void lease_give_end(struct lease_giving *giving)
{
	if (giving->fd < 0)
		return;
	if (!giving->was_taken) /* else it is the taker's */
		unlink(giving->path);
	close(TAKE_FD(giving->fd));
}

/* ------------------------------------------------------------------ taking */

/* Its alive file has the guard's name without the number. */
static bool give_is_giver_alive(const char *guard)
{
	const char *file = strrchr(guard, '/');
	AUTO_FREE char *name = xstrdup(file ? file + 1 : "");
	char *dot = strrchr(name, '.');

	if (dot)
		*dot = '\0';
	AUTO_FREE char *alive = lease_server_beside(guard, "guard", "alive", name);
	return dot && alive && alive_probe_path(alive) == ALIVE_YES;
}

static bool give_is_of_use(const struct given *given, const struct lease_offer *offer,
			   int64_t ttl_ms, const struct lease_attempt *attempt)
{
	const int64_t left = given->valid_until - clock_boot_ms();

	return strcmp(given->former, offer->nonce) == 0 && given->clock != 0 &&
	       given->clock == give_clock_id() && given->passes < LEASE_FENCES &&
	       given->fence > attempt->request->fence_floor && left >= ttl_ms * 6 / 10 &&
	       left <= ttl_ms;
}

/* From here on children of ours keep others from it, too. */
static bool give_mark_taken(struct lease_server *server, int fd, int own_guard_fd)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&server->mutex);
	AUTO_FREE char *own = lease_server_guard_path_locked(server, own_guard_fd);
	AUTO_FREE char *mark = own ? xasprintf(TAKEN "%s ", own) : NULL;

	return mark && strlen(mark) < MARK_SIZE && give_write_mark(fd, mark);
}

static void give_note_taken(struct lease_server *server, const struct given *given,
			    const char *path, int fd)
{
	struct server_taken taken = { .fd = fd, .path = xstrdup(path) };
	AUTO_UNLOCK pthread_mutex_t *held = lock(&server->mutex);

	memcpy(taken.former, given->former, sizeof(taken.former));
	memcpy(taken.nonce, given->nonce, sizeof(taken.nonce));
	vec_add(&server->taken, taken);
}

static void give_grant(struct lease_attempt *attempt, const struct given *given,
		       int64_t ttl_ms)
{
	struct lease_grant *grant = &attempt->grant;

	attempt->outcome = LEASE_GRANTED;
	attempt->predecessor = LEASE_AFTER_RELEASE;
	attempt->holder.held = false;
	attempt->silent_ms = -1;
	attempt->orphans = false;
	attempt->is_untold = true;
	attempt->place = 0;
	attempt->valid_ms = given->valid_until - attempt->sent_at + ttl_ms / 100 + 2;
	*grant = (struct lease_grant){ .fence = given->fence,
				       .passes = given->passes,
				       .guard_fd = TAKE_FD(attempt->guard_fd) };
	snprintf(grant->key, sizeof(grant->key), "%s", attempt->request->key);
	memcpy(grant->nonce, given->nonce, sizeof(grant->nonce));
}

bool lease_give_take(struct lease_server *server, const char *key,
		     const struct lease_offer *offer, int64_t ttl_ms,
		     struct lease_attempt *attempt)
{
	struct given given;

	if (!offer->guard[0] || attempt->guard_fd < 0)
		return false;
	AUTO_CLOSE int fd = give_open(offer->guard, O_RDWR);
	if (fd < 0 || !give_lock(fd, LOCK_EX) || !give_read_given(fd, &given) ||
	    !give_is_of_use(&given, offer, ttl_ms, attempt) ||
	    !give_is_giver_alive(offer->guard) ||
	    !give_mark_taken(server, fd, attempt->guard_fd))
		return false;
	give_note_taken(server, &given, offer->guard, TAKE_FD(fd));
	lease_server_keep_next(server, key, NULL); /* the server tells */
	failpoint("lease.taken");
	give_grant(attempt, &given, ttl_ms);
	return true;
}

bool lease_give_is_untold(struct lease_server *server, const char *nonce,
			  char former[LEASE_NONCE_SIZE])
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&server->mutex);

	for (size_t i = 0; i < server->taken.count; i++) {
		const struct server_taken *taken = &server->taken.items[i];
		if (strcmp(taken->nonce, nonce) != 0)
			continue;
		memcpy(former, taken->former, sizeof(taken->former));
		return true;
	}
	return false;
}

void lease_give_settle(struct lease_server *server, const char *nonce, bool is_known)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&server->mutex);

	for (size_t i = 0; i < server->taken.count; i++) {
		struct server_taken *taken = &server->taken.items[i];
		if (strcmp(taken->nonce, nonce) != 0)
			continue;
		if (is_known)
			unlink(taken->path);
		close(taken->fd);
		free(taken->path);
		*taken = server->taken.items[--server->taken.count];
		return;
	}
}

/* ------------------------------------------------------------------ who is in the way */

/* 1: somebody has the lock, or that cannot be found out; 0: nobody, and *mark; -1: there
 * is no such guard. */
static int give_probe(const char *guard, char mark[MARK_SIZE])
{
	AUTO_CLOSE int fd = give_open(guard, O_RDONLY);

	mark[0] = '\0';
	if (fd < 0)
		return errno == ENOENT ? -1 : 1;
	if (!give_lock(fd, LOCK_SH))
		return 1;
	give_read_mark(fd, mark);
	return 0;
}

/* The taker's own guard, of a mark that says so. */
static bool give_is_taker_busy(char mark[MARK_SIZE])
{
	char own[MARK_SIZE];
	char *end = strchr(mark + strlen(TAKEN), ' ');

	if (!end)
		return true;
	*end = '\0';
	return give_probe(mark + strlen(TAKEN), own) > 0;
}

bool lease_give_is_guard_busy(const char *guard)
{
	char mark[MARK_SIZE];
	int state = give_probe(guard, mark);

	return state > 0 ||
	       (state == 0 && text_starts_with(mark, TAKEN) && give_is_taker_busy(mark));
}

bool lease_give_is_taker_dead(const char *guard)
{
	char mark[MARK_SIZE];
	AUTO_CLOSE int fd = give_open(guard, O_RDONLY);

	if (fd < 0)
		return false;
	/* Not with the lock first, which would keep the next one from what is given. */
	give_read_mark(fd, mark);
	return text_starts_with(mark, TAKEN) && give_lock(fd, LOCK_SH);
}
