/*
 * Two generations of nonces. New ones go into the recent generation; when that is old
 * enough it becomes the older one, and what was the older one is forgotten. So a nonce
 * is remembered for one period at least and two at most, and forgetting costs nothing
 * each time. A period is as long as a token can still be good after it was accepted: 60
 * s, and the 5 s that its clock may be ahead. Periods are measured in boot time, so that
 * setting the clock forward forgets nothing early.
 *
 * Each generation is also a file with a line a nonce, to which is appended, without
 * waiting for the disk: so a process that follows this one, however it ended, knows them.
 * A machine that crashes takes about as long to come back as a token is good. What is
 * found at the start counts as just come, whatever its age.
 */
#include "net/nonces.h"

#include <fcntl.h>
#include <pthread.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "base/thread.h"

enum { FILE_MAX = 256 << 20 };

#define RECENT "nonces"
#define OLDER "nonces.old"

int64_t nonces_keep_ms = (WIRE_TOKEN_VALID_S + 6) * 1000;
uint64_t nonces_each = 200000;

/* Of the recent generation. */
struct nonce_count {
	uint64_t count;
};

struct nonces {
	pthread_mutex_t mutex;
	struct map recent,
		older;     /* guarded by mutex, as all below; values mean nothing */
	struct map counts; /* by site */
	int64_t since;     /* boot ms of the recent one's start */
	char *path;        /* of the directory; NULL: they are not written down */
	int directory, fd; /* or -1 */
	bool is_failing;   /* told in the log */
};

struct nonces *nonces_new(void)
{
	struct nonces *nonces = xcalloc(1, sizeof(*nonces));

	mutex_init(&nonces->mutex);
	nonces->since = clock_boot_ms();
	nonces->directory = nonces->fd = -1;
	return nonces;
}

void nonces_free(struct nonces *nonces)
{
	if (!nonces)
		return;
	map_clear(&nonces->recent);
	map_clear(&nonces->older);
	map_clear_owned(&nonces->counts);
	if (nonces->fd >= 0)
		close(nonces->fd);
	if (nonces->directory >= 0)
		close(nonces->directory);
	free(nonces->path);
	pthread_mutex_destroy(&nonces->mutex);
	free(nonces);
}

/* Until the next generation's file is begun. */
static void stop_writing(struct nonces *nonces)
{
	if (!nonces->is_failing)
		log_warn("access.nonces_not_kept", LOG_NUMBER("errno", errno),
			 LOG_TEXT("message", strerror(errno)));
	nonces->is_failing = true;
	if (nonces->fd >= 0)
		close(nonces->fd);
	nonces->fd = -1;
}

/* A process or machine that died may have left its last line cut. */
static int end_cut_line(int fd)
{
	const off_t size = lseek(fd, 0, SEEK_END);
	char last = '\n';

	if (size < 0 || (size > 0 && pread(fd, &last, 1, size - 1) != 1))
		return -1;
	return last == '\n' || write(fd, "\n", 1) == 1 ? 0 : -1;
}

static void open_recent(struct nonces *nonces)
{
	nonces->fd = openat(nonces->directory, RECENT,
			    O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (nonces->fd < 0 || end_cut_line(nonces->fd) != 0)
		stop_writing(nonces);
}

static bool nonces_open_directory(struct nonces *nonces)
{
	if (nonces->directory < 0)
		nonces->directory =
			open(nonces->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (nonces->directory < 0)
		stop_writing(nonces);
	return nonces->directory >= 0;
}

static void turn_files(struct nonces *nonces)
{
	if (!nonces->path || !nonces_open_directory(nonces))
		return;
	if (nonces->fd >= 0)
		close(nonces->fd);
	nonces->fd = -1;
	if (renameat(nonces->directory, RECENT, nonces->directory, OLDER) != 0 &&
	    errno != ENOENT)
		stop_writing(nonces);
	else
		open_recent(nonces);
}

static void turn_locked(struct nonces *nonces)
{
	int64_t now = clock_boot_ms();

	if (now - nonces->since < nonces_keep_ms)
		return;
	map_clear(&nonces->older);
	if (now - nonces->since < 2 * nonces_keep_ms)
		nonces->older = nonces->recent;
	else
		map_clear(&nonces->recent);
	nonces->recent = (struct map){ 0 };
	map_clear_owned(&nonces->counts);
	nonces->since = now;
	turn_files(nonces);
}

/* A line that was cut, as the disk was full, is nobody's. */
static void nonces_read_file(struct nonces *nonces, const char *name)
{
	AUTO_STR struct str text = STR_INIT;
	struct err err;
	char *line, *rest;

	if (file_read(nonces->directory, name, FILE_MAX, &text, &err) != 0) {
		if (err.class != ERR_MISSING)
			log_warn("access.nonces_not_kept", LOG_ERR(&err));
		return;
	}
	for (line = text.data; (rest = strchr(line, '\n')) != NULL; line = rest + 1) {
		*rest = '\0';
		map_put(&nonces->recent, line, nonces);
	}
}

void nonces_keep(struct nonces *nonces, const char *directory)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&nonces->mutex);

	nonces->path = xstrdup(directory);
	if (!nonces_open_directory(nonces))
		return;
	nonces_read_file(nonces, OLDER);
	nonces_read_file(nonces, RECENT);
	open_recent(nonces);
}

static void write_down(struct nonces *nonces, const char *key)
{
	AUTO_FREE char *line = NULL;
	ssize_t len;

	if (nonces->fd < 0)
		return;
	line = xasprintf("%s\n", key);
	len = (ssize_t)strlen(line);
	if (write(nonces->fd, line, (size_t)len) != len) {
		stop_writing(nonces);
	} else if (nonces->is_failing) {
		nonces->is_failing = false;
		log_info("access.nonces_kept_again");
	}
}

static bool has_too_many_locked(struct nonces *nonces, const char *site)
{
	struct nonce_count *count = map_get(&nonces->counts, site);

	if (!count) {
		count = xcalloc(1, sizeof(*count));
		map_put(&nonces->counts, site, count);
	}
	return count->count++ >= nonces_each;
}

enum nonce_verdict nonces_take(struct nonces *nonces, const char *site, const char *nonce)
{
	AUTO_FREE char *key = xasprintf("%s %s", nonce, site);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&nonces->mutex);

	turn_locked(nonces);
	if (map_get(&nonces->recent, key) || map_get(&nonces->older, key))
		return NONCE_USED;
	if (has_too_many_locked(nonces, site))
		return NONCE_TOO_MANY;
	map_put(&nonces->recent, key, nonces);
	write_down(nonces, key);
	return NONCE_NEW;
}

static enum token_verdict nonces_refuse_flood(const struct site_key *key, struct err *err)
{
	err_set(err, ERR_BUSY, "site \"%s\" has sent too many requests within a minute",
		key->site);
	err_remedy(err,
		   "look why it does; its next ones are taken when a minute is over");
	return TOKEN_TOO_MANY;
}

static enum token_verdict nonces_refuse_replay(const struct site_key *key,
					       struct err *err)
{
	err_set(err, ERR_AUTH, "the token of site \"%s\" was used before", key->site);
	err_remedy(err, "if it was not sent twice on purpose, a proxy repeats requests, "
			"or somebody who listens does: use https between the sites");
	return TOKEN_REPLAYED;
}

enum token_verdict nonces_check_request(struct nonces *nonces, const struct site_key *key,
					const char *token,
					const struct signed_request *request,
					struct err *err)
{
	char nonce[WIRE_NONCE_SIZE];
	enum token_verdict verdict =
		wire_token_check_request(key, token, request, nonce, err);

	if (verdict != TOKEN_GOOD)
		return verdict;
	switch (nonces_take(nonces, key->site, nonce)) {
	case NONCE_NEW:
		return TOKEN_GOOD;
	case NONCE_TOO_MANY:
		return nonces_refuse_flood(key, err);
	default:
		return nonces_refuse_replay(key, err);
	}
}

size_t nonces_count(struct nonces *nonces)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&nonces->mutex);

	turn_locked(nonces);
	return nonces->recent.count + nonces->older.count;
}
