#include "mirror/marks.h"

#include <sys/stat.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/thread.h"

struct credential_marked {
	char stamp[CREDENTIAL_STAMP_SIZE]; /* of the file that was refused */
	struct err why;
};

struct credential_marks {
	struct store *store;
	pthread_mutex_t mutex; /* the last */
	struct map marked;     /* of struct credential_marked, owned */
};

/* The caller frees. Neither name has a line's end. */
static char *credential_key(const struct mirror *mirror, const struct watcher *watcher)
{
	return xasprintf("%s\n%s", mirror->name, watcher->name);
}

static const char *credential_file(const struct watcher *watcher)
{
	if (watcher->token_file)
		return watcher->token_file;
	return watcher->password_file ? watcher->password_file : watcher->ssh_key_file;
}

void credential_take_stamp(const struct watcher *watcher,
			   char stamp[CREDENTIAL_STAMP_SIZE])
{
	const char *file = watcher ? credential_file(watcher) : NULL;
	struct stat st;

	if (!file || stat(file, &st) != 0)
		snprintf(stamp, CREDENTIAL_STAMP_SIZE, "none");
	else
		snprintf(stamp, CREDENTIAL_STAMP_SIZE, "%ju:%ju:%jd:%jd.%09ld:%jd.%09ld",
			 (uintmax_t)st.st_dev, (uintmax_t)st.st_ino, (intmax_t)st.st_size,
			 (intmax_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
			 (intmax_t)st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
}

static int credential_marks_empty(struct store_tx *tx, void *arg, struct err *err)
{
	(void)arg;
	return store_exec(tx, "DELETE FROM mirror_watcher", err);
}

int credential_marks_open(struct store *store, struct credential_marks **marks,
			  struct err *err)
{
	if (store_write(store, credential_marks_empty, NULL, err) != 0)
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
	pthread_mutex_destroy(&marks->mutex);
	free(marks);
}

bool credential_is_refused(struct credential_marks *marks, const struct mirror *mirror,
			   const struct watcher *watcher, struct err *err)
{
	AUTO_FREE char *key = credential_key(mirror, watcher);
	char stamp[CREDENTIAL_STAMP_SIZE];

	credential_take_stamp(watcher, stamp);
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
		     const struct watcher *watcher, const struct err *why)
{
	AUTO_FREE char *key = credential_key(mirror, watcher);
	struct credential_marked now = { 0 }, *kept = NULL;
	struct credential_change change = { .mirror = mirror, .watcher = watcher };
	struct err err;

	if (why && why->class != ERR_AUTH && why->class != ERR_CONFIG &&
	    why->class != ERR_MISSING)
		return;
	if (why) {
		credential_take_stamp(watcher, now.stamp);
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

	credential_take_stamp(watcher, stamp);
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
		credential_take_stamp(watcher, stamp);
		str_addf(&all, "%s\n", stamp);
	}
	return str_take(&all);
}

struct credential_reading {
	const char *mirror, *watcher;
	int64_t refused_at;
	char *message;
};

static int credential_find(struct store_tx *tx, void *arg, struct err *err)
{
	struct credential_reading *reading = arg;
	AUTO_QUERY struct query *query = NULL;
	int found;

	free(TAKE(reading->message));
	reading->refused_at = 0;
	if (query_ask(tx, &query, err,
		      "SELECT refused_at, message FROM mirror_watcher"
		      " WHERE mirror = ?1 AND watcher = ?2",
		      QUERY_TEXT(reading->mirror), QUERY_TEXT(reading->watcher)) != 0)
		return -1;
	found = query_step(query, err);
	if (found <= 0)
		return found;
	reading->refused_at = query_int(query, 0);
	reading->message = query_copy_text(query, 1);
	return 0;
}

int credential_mark_read(struct store *store, const char *mirror, const char *watcher,
			 int64_t *refused_at, char **message, struct err *err)
{
	struct credential_reading reading = { .mirror = mirror, .watcher = watcher };
	int result = store_read(store, credential_find, &reading, err);

	*refused_at = reading.refused_at;
	*message = reading.message;
	return result;
}
