#include "mirror/marks.h"

#include <sys/stat.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/map.h"
#include "base/thread.h"

struct credential_marked {
	char stamp[CREDENTIAL_STAMP_SIZE]; /* of the files that were refused */
	struct err why;
};

/* Of one mirror's answer; with a longer one some of its host are asked all the same. */
#define REST_MOST_MS ((int64_t)3600 * 1000)

struct credential_resting {
	int64_t until; /* boot ms */
};

struct credential_marks {
	struct store *store;
	pthread_mutex_t mutex; /* the last */
	struct map marked;     /* of struct credential_marked, owned */
	/* Of struct credential_resting, owned: as many as there are hosts and watchers.
	 */
	struct map resting;
};

/* The caller frees. Neither name has a line's end. */
static char *credential_key(const struct mirror *mirror, const struct watcher *watcher)
{
	return xasprintf("%s\n%s", mirror->name, watcher->name);
}

static void credential_add_file(struct str *text, const char *file)
{
	struct stat st;

	if (!file || stat(file, &st) != 0)
		str_add(text, "none\n");
	else
		str_addf(text, "%ju:%ju:%jd:%jd.%09ld:%jd.%09ld\n", (uintmax_t)st.st_dev,
			 (uintmax_t)st.st_ino, (intmax_t)st.st_size,
			 (intmax_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
			 (intmax_t)st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
}

void credential_take_stamp(const struct mirror *mirror, const struct watcher *watcher,
			   char stamp[CREDENTIAL_STAMP_SIZE])
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_STR struct str hex = STR_INIT;

	str_addf(&text, "%s\n", mirror->url);
	if (watcher) {
		credential_add_file(&text, watcher->token_file);
		credential_add_file(&text, watcher->password_file);
		credential_add_file(&text, watcher->ssh_key_file);
		credential_add_file(&text, watcher->known_hosts_file);
	}
	hash_add_hex(HASH_SHA256, text.data, text.len, (CREDENTIAL_STAMP_SIZE - 1) / 2,
		     &hex);
	memcpy(stamp, hex.data, CREDENTIAL_STAMP_SIZE);
}

int credential_marks_open(struct store *store, struct credential_marks **marks,
			  struct err *err)
{
	if (store_run(store, err, "DELETE FROM mirror_watcher") != 0)
		return -1;
	*marks = xcalloc(1, sizeof(**marks));
	(*marks)->store = store;
	mutex_init(&(*marks)->mutex);
	return 0;
}

void credential_marks_close(struct credential_marks *marks)
{
	if (!marks)
		return;
	map_clear_owned(&marks->marked);
	map_clear_owned(&marks->resting);
	pthread_mutex_destroy(&marks->mutex);
	free(marks);
}

bool credential_is_refused(struct credential_marks *marks, const struct mirror *mirror,
			   const struct watcher *watcher, struct err *err)
{
	AUTO_FREE char *key = credential_key(mirror, watcher);
	char stamp[CREDENTIAL_STAMP_SIZE];

	credential_take_stamp(mirror, watcher, stamp);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&marks->mutex);
	const struct credential_marked *one = map_get(&marks->marked, key);
	if (!one || strcmp(one->stamp, stamp) != 0)
		return false;
	*err = one->why;
	return true;
}

struct credential_change {
	const struct mirror *mirror;
	const struct watcher *watcher;
	const struct credential_marked *now; /* NULL: it is marked no more */
};

static int credential_write(struct store_tx *tx, void *arg, struct err *err)
{
	const struct credential_change *change = arg;

	if (query_write(tx, err,
			"DELETE FROM mirror_watcher WHERE mirror = ?1 AND watcher = ?2",
			QUERY_TEXT(change->mirror->name),
			QUERY_TEXT(change->watcher->name)) != 0)
		return -1;
	return !change->now ? 0
			    : query_write(tx, err,
					  "INSERT INTO mirror_watcher (mirror, watcher,"
					  " stamp, refused_at, message)"
					  " VALUES (?1, ?2, ?3, ?4, ?5)",
					  QUERY_TEXT(change->mirror->name),
					  QUERY_TEXT(change->watcher->name),
					  QUERY_TEXT(change->now->stamp),
					  QUERY_INT(clock_wall_ms()),
					  QUERY_TEXT(change->now->why.text));
}

/* Whether it is another than before. Takes the mark. */
static bool credential_put(struct credential_marks *marks, const char *key,
			   struct credential_marked *now)
{
	struct credential_marked *before;
	bool is_other;

	lock(&marks->mutex);
	before =
		now ? map_put(&marks->marked, key, now) : map_remove(&marks->marked, key);
	unlock(&marks->mutex);
	is_other = !now != !before || (now && strcmp(now->stamp, before->stamp) != 0);
	free(before);
	return is_other;
}

void credential_mark(struct credential_marks *marks, const struct mirror *mirror,
		     const struct watcher *watcher, const char *stamp,
		     const struct err *why)
{
	AUTO_FREE char *key = credential_key(mirror, watcher);
	struct credential_marked now = { 0 }, *kept = NULL;
	struct credential_change change = { .mirror = mirror, .watcher = watcher };
	struct err err;

	if (why && why->class != ERR_AUTH && why->class != ERR_CONFIG &&
	    why->class != ERR_MISSING)
		return;
	if (why) {
		snprintf(now.stamp, sizeof(now.stamp), "%s", stamp);
		now.why = *why;
		kept = xcalloc(1, sizeof(*kept));
		*kept = now;
		change.now = &now;
	}
	if (!credential_put(marks, key, kept))
		return;
	if (why)
		log_warn("mirror.refused", LOG_TEXT("name", mirror->name),
			 LOG_TEXT("watcher", watcher->name), LOG_ERR(why),
			 LOG_TEXT("remedy", why->remedy));
	else
		log_info("mirror.accepted", LOG_TEXT("name", mirror->name),
			 LOG_TEXT("watcher", watcher->name));
	if (store_write(marks->store, credential_write, &change, &err) != 0)
		log_error("registry.failed", LOG_ERR(&err));
}

static bool credential_is_other(struct credential_marks *marks,
				const struct mirror *mirror,
				const struct watcher *watcher)
{
	AUTO_FREE char *key = credential_key(mirror, watcher);
	char stamp[CREDENTIAL_STAMP_SIZE];

	credential_take_stamp(mirror, watcher, stamp);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&marks->mutex);
	const struct credential_marked *one = map_get(&marks->marked, key);
	return one && strcmp(one->stamp, stamp) != 0;
}

bool credential_was_replaced(struct credential_marks *marks,
			     const struct mirrors *mirrors, const struct mirror *mirror)
{
	const struct watcher *watcher;

	for (size_t at = 0;
	     (watcher = mirrors_next_watcher(mirrors, mirror, &at)) != NULL;)
		if (credential_is_other(marks, mirror, watcher))
			return true;
	return false;
}

char *credentials_stamp(const struct mirrors *mirrors, const struct mirror *mirror)
{
	struct str all = STR_INIT;
	const struct watcher *watcher;
	char stamp[CREDENTIAL_STAMP_SIZE];

	for (size_t at = 0;
	     (watcher = mirrors_next_watcher(mirrors, mirror, &at)) != NULL;) {
		credential_take_stamp(mirror, watcher, stamp);
		str_addf(&all, "%s\n", stamp);
	}
	return str_take(&all);
}

/* The caller frees. NULL: it has no host. */
static char *credential_host_key(const struct mirror *mirror,
				 const struct watcher *watcher)
{
	return mirror->uri.host
		       ? xasprintf("%s:%u\n%s", mirror->uri.host, mirror->uri.port,
				   watcher ? watcher->name : "")
		       : NULL;
}

void credential_rest(struct credential_marks *marks, const struct mirror *mirror,
		     const struct watcher *watcher, int64_t rest_ms)
{
	AUTO_FREE char *key = credential_host_key(mirror, watcher);
	struct credential_resting *one;
	const struct credential_resting *before;

	if (!key)
		return;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&marks->mutex);
	if (rest_ms <= 0) {
		free(map_remove(&marks->resting, key));
		return;
	}
	one = xcalloc(1, sizeof(*one));
	one->until = clock_boot_ms() + int64_min(rest_ms, REST_MOST_MS);
	if ((before = map_get(&marks->resting, key)) != NULL)
		one->until = int64_max(one->until, before->until);
	free(map_put(&marks->resting, key, one));
}

int64_t credential_rest_ms(struct credential_marks *marks, const struct mirror *mirror,
			   const struct watcher *watcher)
{
	AUTO_FREE char *key = credential_host_key(mirror, watcher);

	if (!key)
		return 0;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&marks->mutex);
	const struct credential_resting *one = map_get(&marks->resting, key);
	return one ? int64_max(one->until - clock_boot_ms(), 0) : 0;
}

struct credential_reading {
	int64_t refused_at;
	char *message;
};

static void credential_take(struct query *query, void *arg)
{
	struct credential_reading *reading = arg;

	reading->refused_at = query_int(query, 0);
	reading->message = query_copy_text(query, 1);
}

int credential_mark_read(struct store *store, const char *mirror, const char *watcher,
			 int64_t *refused_at, char **message, struct err *err)
{
	struct credential_reading reading = { 0 };
	int found = store_one(store, credential_take, &reading, err,
			      "SELECT refused_at, message FROM mirror_watcher"
			      " WHERE mirror = ?1 AND watcher = ?2",
			      QUERY_TEXT(mirror), QUERY_TEXT(watcher));

	*refused_at = reading.refused_at;
	*message = reading.message;
	return found < 0 ? -1 : 0;
}
