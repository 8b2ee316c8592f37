#include "lease/lease_give.h"

#include <endian.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"

#define GUARDS_KEPT 16
#define LEFTOVERS_MOST 1000
#define LEFTOVER_MS 600000
#define PROOF_KEPT_S 86400 /* of a dead process: longer than any ttl */

void lease_server_init(struct lease_server *server, const struct lease_options *options)
{
	*server = (struct lease_server){ .files.alive_fd = -1 };
	random_hex(server->me, (LEASE_SERVER_ID_SIZE - 1) / 2);
	mutex_init(&server->mutex);
	cond_init(&server->freed);
	if (options->directory)
		server->directory = xasprintf("%s/server", options->directory);
	server->control_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	server->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
}

static void server_remove_guard(const struct lease_server *server,
				const struct server_guard *guard)
{
	AUTO_FREE char *path =
		xasprintf("%s/guard/%s", server->files.directory, guard->name);

	unlink(path);
	if (guard->fd >= 0)
		close(guard->fd);
}

static char *server_fifo_path(const struct lease_server *server, size_t number)
{
	return xasprintf("%s/told/%s.%zu", server->files.directory,
			 server->files.alive_name, number);
}

static void server_remove_fifos(struct lease_server *server)
{
	for (size_t i = 0; i < server->fifos.count; i++) {
		AUTO_FREE char *path = server_fifo_path(server, i + 1);
		unlink(path);
	}
	vec_clear(&server->fifos);
}

/* What we leave behind at a server is found dead by our alive file, without its lock. */
static void server_close_files(struct lease_server *server)
{
	for (size_t i = 0; i < server->guards.count; i++)
		server_remove_guard(server, &server->guards.items[i]);
	vec_clear(&server->guards);
	server_remove_fifos(server);
	if (server->leaves_proof && server->files.alive_fd >= 0)
		close(TAKE_FD(server->files.alive_fd));
	local_files_close(&server->files);
}

void lease_server_clear(struct lease_server *server)
{
	server_close_files(server);
	for (size_t i = 0; i < server->hints.count; i++)
		free(server->hints.items[i].key);
	for (size_t i = 0; i < server->leftovers.count; i++)
		free(server->leftovers.items[i].key);
	for (size_t i = 0; i < server->taken.count; i++) {
		close(server->taken.items[i].fd);
		free(server->taken.items[i].path);
	}
	vec_clear(&server->hints);
	vec_clear(&server->leftovers);
	vec_clear(&server->taken);
	map_clear_owned(&server->nexts);
	if (server->control_fd >= 0)
		close(server->control_fd);
	if (server->inotify_fd >= 0)
		close(server->inotify_fd);
	free(server->directory);
	pthread_cond_destroy(&server->freed);
	pthread_mutex_destroy(&server->mutex);
}

/* ------------------------------------------------------------------ channels */

static int server_free_channel_locked(const struct lease_server *server)
{
	for (int i = 0; i < LEASE_SERVER_CHANNELS; i++) {
		if (!server->is_used[i])
			return i;
	}
	return -1;
}

int lease_server_borrow(struct lease_server *server, int64_t until)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&server->mutex);
	int channel;

	while ((channel = server_free_channel_locked(server)) < 0 &&
	       clock_boot_ms() < until)
		cond_wait_until(&server->freed, &server->mutex, until);
	if (channel >= 0)
		server->is_used[channel] = true;
	return channel;
}

void lease_server_give_back(struct lease_server *server, int channel)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&server->mutex);

	server->is_used[channel] = false;
	pthread_cond_signal(&server->freed);
}

/* ------------------------------------------------------------------ proofs of death */

/* A restarted process must not remove what proves the death of the one before it. The
 * first look takes the right to write from a dead one's file, the time of which is then
 * that of this look; a later one removes it. */
static void server_sweep_alive(int dir, const char *name)
{
	AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) != 0 || fstat(fd, &st) != 0)
		return;
	if (st.st_mode & 0200) {
		if (fchmod(fd, 0400) == 0)
			futimens(fd, NULL);
	} else if (clock_wall_ms() / 1000 - st.st_mtim.tv_sec > PROOF_KEPT_S) {
		unlinkat(dir, name, 0);
	}
}

static void server_sweep_guard(int dir, int alive_dir, const char *name)
{
	AUTO_FREE char *alive = xstrdup(name);
	char *dot = strrchr(alive, '.');
	struct stat st;

	if (dot)
		*dot = '\0';
	if (fstatat(alive_dir, alive, &st, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT)
		unlinkat(dir, name, 0);
}

static void server_sweep(const struct lease_server *server)
{
	AUTO_FREE char *alive = xasprintf("%s/alive", server->files.directory);
	AUTO_FREE char *guard = xasprintf("%s/guard", server->files.directory);
	AUTO_CLOSEDIR DIR *alive_dir = opendir(alive);
	AUTO_CLOSEDIR DIR *guard_dir = opendir(guard);
	AUTO_FREE char *told = xasprintf("%s/told", server->files.directory);
	AUTO_CLOSEDIR DIR *told_dir = opendir(told);
	struct dirent *entry;

	while (alive_dir && (entry = readdir(alive_dir)) != NULL) {
		if (entry->d_name[0] != '.')
			server_sweep_alive(dirfd(alive_dir), entry->d_name);
	}
	while (alive_dir && guard_dir && (entry = readdir(guard_dir)) != NULL) {
		if (entry->d_name[0] != '.')
			server_sweep_guard(dirfd(guard_dir), dirfd(alive_dir),
					   entry->d_name);
	}
	while (alive_dir && told_dir && (entry = readdir(told_dir)) != NULL) {
		if (entry->d_name[0] != '.')
			server_sweep_guard(dirfd(told_dir), dirfd(alive_dir),
					   entry->d_name);
	}
}

/* At the first grant: who only looks at leases writes nothing. Without such files leases
 * work as well, but a death is known by the ttl alone. */
static bool server_prepare_locked(struct lease_server *server)
{
	struct err err;

	if (server->is_prepared || !server->directory)
		return server->files.alive_fd >= 0;
	server->is_prepared = true;
	if (local_files_open(&server->files, server->directory, &err) == 0 &&
	    alive_start(&server->files, &err) == 0) {
		server_sweep(server);
		return true;
	}
	log_warn("lease.no_locks", LOG_TEXT("path", server->directory), LOG_ERR(&err));
	return false;
}

static struct server_guard *server_spare_guard_locked(struct lease_server *server)
{
	for (size_t i = 0; i < server->guards.count; i++) {
		if (!server->guards.items[i].is_used)
			return &server->guards.items[i];
	}
	return NULL;
}

static int server_open_guard(const struct lease_server *server, const char *name,
			     int flags)
{
	AUTO_FREE char *path = xasprintf("%s/guard/%s", server->files.directory, name);
	AUTO_CLOSE int fd = open(path, O_RDWR | O_CLOEXEC | flags, 0600);

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0)
		return -1;
	return TAKE_FD(fd);
}

static bool server_name_guard_locked(const struct lease_server *server, int fd,
				     char name[OWNER_GUARD_SIZE])
{
	for (size_t i = 0; i < server->guards.count; i++) {
		const struct server_guard *guard = &server->guards.items[i];
		if (!guard->is_used || guard->fd != fd)
			continue;
		snprintf(name, OWNER_GUARD_SIZE, "%s", guard->name);
		return true;
	}
	return false;
}

char *lease_server_guard_path_locked(const struct lease_server *server, int guard_fd)
{
	char name[OWNER_GUARD_SIZE];

	if (!server_name_guard_locked(server, guard_fd, name))
		return NULL;
	return xasprintf("%s/guard/%s", server->files.directory, name);
}

static int server_take_guard_locked(struct lease_server *server,
				    char name[OWNER_GUARD_SIZE])
{
	struct server_guard *spare = server_spare_guard_locked(server);
	struct server_guard made = { .is_used = true };

	if (!spare) {
		snprintf(made.name, sizeof(made.name), "%s.%u", server->files.alive_name,
			 server->guard_count++);
		made.fd = server_open_guard(server, made.name, O_CREAT | O_EXCL);
		if (made.fd < 0)
			return -1;
		vec_add(&server->guards, made);
		spare = &server->guards.items[server->guards.count - 1];
	}
	spare->is_used = true;
	snprintf(name, OWNER_GUARD_SIZE, "%s", spare->name);
	return spare->fd;
}

/* Whoever can lock it anew after our close knows that no child has it. */
void lease_server_drop_guard(struct lease_server *server, int guard_fd)
{
	if (guard_fd < 0)
		return;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&server->mutex);
	for (size_t i = 0; i < server->guards.count; i++) {
		struct server_guard *guard = &server->guards.items[i];
		if (!guard->is_used || guard->fd != guard_fd)
			continue;
		close(guard->fd);
		guard->is_used = false;
		guard->fd =
			i < GUARDS_KEPT ? server_open_guard(server, guard->name, 0) : -1;
		if (guard->fd >= 0)
			return;
		server_remove_guard(server, guard);
		*guard = server->guards.items[--server->guards.count];
		return;
	}
}

static void server_describe_locked(struct lease_server *server,
				   const struct lease_backend *backend,
				   const struct lease_request *request,
				   struct owner *owner)
{
	*owner = (struct owner){ .ttl_ms = backend->ttl_ms };
	lease_backend_describe(backend, request, &owner->holder);
	if (!server_prepare_locked(server))
		return;
	int len = snprintf(owner->alive, sizeof(owner->alive), "%s/alive/%s",
			   server->files.directory, server->files.alive_name);
	if (len >= (int)sizeof(owner->alive)) /* what is not told whole proves nothing */
		owner->alive[0] = '\0';
}

/* 0: it is no FIFO. */
static int64_t server_fifo_number_locked(const struct lease_server *server, int hint_fd)
{
	for (size_t i = 0; i < server->fifos.count; i++) {
		if (server->fifos.items[i] == hint_fd)
			return (int64_t)i + 1;
	}
	return 0;
}

void lease_server_describe(struct lease_server *server,
			   const struct lease_backend *backend,
			   struct lease_attempt *attempt, struct owner *owner)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&server->mutex);

	server_describe_locked(server, backend, attempt->request, owner);
	if (server->files.alive_fd < 0)
		return;
	if (!server_name_guard_locked(server, attempt->guard_fd, owner->guard))
		attempt->guard_fd = server_take_guard_locked(server, owner->guard);
	if (attempt->guard_fd < 0)
		owner->alive[0] = '\0';
	owner->told = server_fifo_number_locked(server, attempt->hint_fd);
}

bool lease_server_describe_passed(struct lease_server *server,
				  const struct lease_backend *backend,
				  const struct lease_grant *grant,
				  const struct lease_holder *holder,
				  char text[OWNER_TEXT_SIZE])
{
	const struct lease_request request = { .operation = holder->operation,
					       .job = holder->job };
	bool has_guard = grant->guard_fd < 0;
	struct owner owner;

	lock(&server->mutex);
	server_describe_locked(server, backend, &request, &owner);
	has_guard |= server_name_guard_locked(server, grant->guard_fd, owner.guard);
	unlock(&server->mutex);
	if (grant->guard_fd < 0)
		owner.alive[0] = '\0';
	owner_format(&owner, text);
	return has_guard;
}

char *lease_server_beside(const char *path, const char *folder, const char *other,
			  const char *name)
{
	const char *end = strrchr(path, '/');
	const size_t len = strlen(folder);

	if (!end || (size_t)(end - path) <= len || strncmp(end - len, folder, len) != 0 ||
	    end[-(ssize_t)len - 1] != '/')
		return NULL;
	return xasprintf("%.*s%s/%s", (int)((size_t)(end - path) - len), path, other,
			 name);
}

static char *server_guard_of(const struct owner *owner)
{
	if (!owner->guard[0] || strchr(owner->guard, '/'))
		return NULL;
	return lease_server_beside(owner->alive, "alive", "guard", owner->guard);
}

static void server_watch(struct lease_server *server, const char *path, int hint_fd)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&server->mutex);

	for (size_t i = 0; hint_fd >= 0 && i < server->hints.count; i++) {
		if (server->hints.items[i].fd == hint_fd)
			server->hints.items[i].watch = inotify_add_watch(
				server->inotify_fd, path, IN_CLOSE_WRITE);
	}
}

/* It is watched before it is looked at: a death in between is told. */
void lease_server_judge(struct lease_server *server, struct owner *owner, int hint_fd,
			bool *orphans)
{
	struct lease_holder *holder = &owner->holder;
	enum alive_state state = ALIVE_UNKNOWN;

	*orphans = false;
	if (owner->alive[0] == '/' && strcmp(holder->boot_id, clock_boot_id()) == 0) {
		server_watch(server, owner->alive, hint_fd);
		state = alive_probe_path(owner->alive);
	}
	AUTO_FREE char *guard = state == ALIVE_UNKNOWN ? NULL : server_guard_of(owner);
	if (state == ALIVE_YES && guard && lease_give_is_taker_dead(guard))
		state = ALIVE_NO;
	holder->is_dead = state == ALIVE_NO;
	*orphans = holder->is_dead && guard && lease_give_is_guard_busy(guard);
	snprintf(holder->proof, sizeof(holder->proof), "%s",
		 state == ALIVE_YES  ? "alive"
		 : state == ALIVE_NO ? "dead: process is gone"
				     : "unknown");
}

/* ------------------------------------------------------------------ hints */

static void server_drop_hint_locked(struct lease_server *server, int hint_fd)
{
	for (size_t i = 0; i < server->hints.count; i++) {
		if (server->hints.items[i].fd != hint_fd)
			continue;
		free(server->hints.items[i].key);
		server->hints.items[i] = server->hints.items[--server->hints.count];
		return;
	}
}

void lease_server_drop_hint(struct lease_server *server, int hint_fd)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&server->mutex);

	server_drop_hint_locked(server, hint_fd);
}

bool lease_server_has_hint(struct lease_server *server, const char *key)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&server->mutex);

	for (size_t i = 0; i < server->hints.count; i++) {
		if (strcmp(server->hints.items[i].key, key) == 0)
			return true;
	}
	return false;
}

static int server_fifo_open(const char *path)
{
	int fd = mkfifo(path, 0600) == 0 ? open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC)
					 : -1;

	if (fd < 0)
		unlink(path);
	else
		fcntl(fd, F_SETPIPE_SZ, PIPE_BUF); /* else a user may have but few */
	return fd;
}

int lease_server_hint_open(struct lease_server *server)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&server->mutex);

	if (server_prepare_locked(server)) {
		AUTO_FREE char *folder = xasprintf("%s/told", server->files.directory);
		AUTO_FREE char *path = server_fifo_path(server, server->fifos.count + 1);
		int fd = dir_make(AT_FDCWD, folder, ERR_IGNORED) == 0
				 ? server_fifo_open(path)
				 : -1;
		if (fd >= 0) {
			vec_add(&server->fifos, fd);
			return fd;
		}
	}
	/* Then the server tells us, as it does those of other hosts. */
	return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

/* The next string, if it is whole and begins so: what follows that, else NULL. */
static const char *server_take_part(const char **at, const char *end, char begin)
{
	const char *text = *at;
	size_t len = strnlen(text, (size_t)(end - text));

	if (text + len == end || text[0] != begin)
		return NULL;
	*at = text + len + 1;
	return text + 1;
}

static void server_take_message(const char **at, const char *end,
				struct lease_offer *offer)
{
	const char *nonce = server_take_part(at, end, LEASE_TOLD_OFFER);
	const char *guard = nonce ? server_take_part(at, end, LEASE_TOLD_GUARD) : NULL;

	if (!nonce || !nonce[0])
		return;
	snprintf(offer->nonce, sizeof(offer->nonce), "%s", nonce);
	snprintf(offer->guard, sizeof(offer->guard), "%s", guard ? guard : "");
}

/* Messages, and what server_wake() wrote between them; those of keys that it was for
 * before are of no use. */
static void server_drain_hint(int hint_fd, const char *key, struct lease_offer *offer)
{
	char messages[4 * PIPE_BUF];
	ssize_t len = read(hint_fd, messages, sizeof(messages));
	const char *end = messages + (len > 0 ? len : 0);

	for (const char *at = messages; at < end;) {
		struct lease_offer other, *to = &other;
		size_t size = strnlen(at, (size_t)(end - at)) + 1;
		if (size == strlen(key) + 1 && memcmp(at, key, size - 1) == 0)
			to = offer;
		at += size;
		if (at < end)
			server_take_message(&at, end, to);
	}
	while (len ==
	       (ssize_t)sizeof(messages)) /* what may begin within a message is none */
		len = read(hint_fd, messages, sizeof(messages));
}

void lease_server_hint(struct lease_server *server, const char *key, int hint_fd,
		       struct lease_offer *offer)
{
	struct server_hint hint = { .fd = hint_fd, .watch = -1 };

	*offer = (struct lease_offer){ 0 };
	if (hint_fd < 0)
		return;
	server_drain_hint(hint_fd, key, offer);
	lock(&server->mutex);
	const bool is_first = server->hints.count == 0; /* else it listens already */
	server_drop_hint_locked(server, hint_fd);
	hint.key = xstrdup(key);
	vec_add(&server->hints, hint);
	unlock(&server->mutex);
	if (is_first)
		lease_server_poke(server);
}

/* In a FIFO these eight bytes are no message. Should it be full, it is readable. */
static void server_wake(const struct server_hint *hint)
{
	eventfd_write(hint->fd, htole64(1));
}

void lease_server_signal(struct lease_server *server, const char *key)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&server->mutex);

	for (size_t i = 0; i < server->hints.count; i++) {
		const struct server_hint *hint = &server->hints.items[i];
		if (!key || strcmp(hint->key, key) == 0)
			server_wake(hint);
	}
}

bool lease_server_write_told(const struct owner *reader, const char *message, size_t len)
{
	const char *alive = strrchr(reader->alive, '/');
	struct stat st;

	if (!alive || reader->told <= 0)
		return false;
	AUTO_FREE char *name = xasprintf("%s.%" PRId64, alive + 1, reader->told);
	AUTO_FREE char *path = lease_server_beside(reader->alive, "alive", "told", name);
	if (!path)
		return false;
	AUTO_CLOSE int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);

	/* So little is written whole or not. */
	return fd >= 0 && fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) &&
	       len <= PIPE_BUF && write(fd, message, len) == (ssize_t)len;
}

bool lease_server_tell(const struct owner *waiter, const char *key)
{
	return lease_server_write_told(waiter, key, strlen(key) + 1);
}

void lease_server_read_waiter(const char *text, struct owner *owner)
{
	AUTO_FREE char *line = xasprintf("fence=1 %s", text);

	if (!owner_parse(line, owner))
		*owner = (struct owner){ 0 };
	owner->holder.fence = 0;
	snprintf(owner->holder.proof, sizeof(owner->holder.proof), "unknown");
}

void lease_server_keep_next(struct lease_server *server, const char *key,
			    const char *text)
{
	struct owner owner = { 0 };

	if (text && text[0])
		lease_server_read_waiter(text, &owner);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&server->mutex);
	free(map_remove(&server->nexts, key));
	if (text && strcmp(owner.holder.boot_id, clock_boot_id()) == 0)
		map_put(&server->nexts, key, xstrdup(text));
}

void lease_server_take_deaths(struct lease_server *server)
{
	char bytes[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t len = read(server->inotify_fd, bytes, sizeof(bytes));
	AUTO_UNLOCK pthread_mutex_t *held = lock(&server->mutex);

	for (ssize_t at = 0; at + (ssize_t)sizeof(struct inotify_event) <= len;) {
		const struct inotify_event *event = (const void *)(bytes + at);
		for (size_t i = 0; i < server->hints.count; i++) {
			const struct server_hint *hint = &server->hints.items[i];
			if (hint->watch == event->wd || (event->mask & IN_Q_OVERFLOW))
				server_wake(hint);
		}
		at += (ssize_t)(sizeof(*event) + event->len);
	}
}

void lease_server_poke(struct lease_server *server)
{
	eventfd_write(server->control_fd, 1);
}

/* ------------------------------------------------------------------ leftovers */

static bool server_has_leftover_locked(const struct lease_server *server,
				       const char *nonce, size_t place)
{
	for (size_t i = 0; i < server->leftovers.count; i++) {
		const struct server_leftover *leftover = &server->leftovers.items[i];
		if (leftover->place == place && strcmp(leftover->nonce, nonce) == 0)
			return true;
	}
	return false;
}

void lease_server_add_leftover(struct lease_server *server, const char *key,
			       const char *nonce, size_t place)
{
	int64_t now = clock_boot_ms();
	struct server_leftover leftover = { .place = place,
					    .next_at = now,
					    .until = now + LEFTOVER_MS };

	snprintf(leftover.nonce, sizeof(leftover.nonce), "%s", nonce);
	lock(&server->mutex);
	server->leaves_proof = true;
	if (server->leftovers.count < LEFTOVERS_MOST &&
	    !server_has_leftover_locked(server, nonce, place)) {
		leftover.key = xstrdup(key);
		vec_add(&server->leftovers, leftover);
	}
	unlock(&server->mutex);
	lease_server_poke(server);
}
