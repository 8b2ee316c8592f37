/*
 * Order: the row is read before the disk, so that what the disk said is never older than
 * the row. Then refs, then the transaction, which fails if somebody else's comparison
 * came first; then all of it anew.
 */
#include "change/notice.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "change/event_json.h"
#include "change/identity.h"
#include "change/notice_parts.h"
#include "change/origin_root.h"
#include "change/recorded_refs.h"
#include "git/repo.h"
#include "replicable/locate.h"
#include "replicable/name.h"

#define TRIES 20
#define LASTING_TRIES 2
#define LASTING_MS 20
#define YOUNG_MS 2000

static int notice_compare_repeatedly(struct comparison *how, struct noticed *noticed,
				     struct err *err);

#define AUTO_COMPARISON __attribute__((cleanup(comparison_clear)))

static void comparison_clear(struct comparison *comparison)
{
	origin_row_clear(&comparison->base);
	ref_reading_clear(&comparison->reading);
	free(comparison->path);
	free(comparison->identity);
	origin_row_clear(&comparison->former);
	ref_snapshot_clear(&comparison->recorded);
	free(comparison->description);
	free(comparison->changes);
}

struct notice *notice_new(const struct notice_options *options)
{
	struct notice *notice = xcalloc(1, sizeof(*notice));

	mutex_init(&notice->mutex);
	notice->options = *options;
	notice->may_owe = true;
	return notice;
}

static void free_all(struct map *map)
{
	const struct map_entry *entry;
	size_t at = 0;

	while ((entry = map_next(map, &at)) != NULL)
		free(entry->value);
	map_clear(map);
}

void notice_free(struct notice *notice)
{
	if (!notice)
		return;
	free_all(&notice->deleting);
	pthread_mutex_destroy(&notice->mutex);
	free(notice);
}

void noticed_clear(struct noticed *noticed)
{
	origin_row_clear(&noticed->row);
	ref_snapshot_clear(&noticed->refs);
	free(noticed->description);
	free(noticed->settings);
	*noticed = (struct noticed){ 0 };
}

static int read_row_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct comparison *comparison = arg;

	origin_row_clear(&comparison->base);
	return origin_row_get(tx, KIND_REPOSITORY, comparison->name, &comparison->base,
			      err) < 0
		       ? -1
		       : 0;
}

/* No repository was found where the row's stood. What is left of it, or stands in its
 * place, is no deletion; a folder for other repositories is. */
static bool notice_is_gone(int root, const char *path)
{
	static const char *const parts[] = { "HEAD", "refs", "objects" };
	struct stat st;

	if (fstatat(root, path, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT || errno == ENOTDIR;
	if (!S_ISDIR(st.st_mode) || mounts_is_empty(root, path))
		return false;
	AUTO_CLOSE int fd = openat(root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; fd >= 0 && i < ARRAY_SIZE(parts); i++)
		if (fstatat(fd, parts[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			return false;
	return fd >= 0;
}

/* Notices the new name first, if there is one. A walk for each is bearable: a row is
 * deleted once. 0; 1: it is back under its own name, look anew. */
static int seek(const struct comparison *comparison)
{
	struct notice *notice = comparison->notice;
	AUTO_NOTICED struct noticed noticed = { 0 };
	AUTO_FREE char *name = NULL;
	struct comparison how = { .notice = notice, .is_sought = true };

	if (comparison->absence != ABSENCE_SOUGHT || !comparison->base.identity ||
	    identity_find(notice->options.root, comparison->base.identity, &name,
			  ERR_IGNORED) <= 0)
		return 0;
	if (strcmp(name, comparison->name) == 0)
		return 1;
	how.name = name;
	notice_compare_repeatedly(&how, &noticed, ERR_IGNORED);
	return 0;
}

static int notice_observe_absence(struct comparison *comparison, int root,
				  struct err *err)
{
	const char *path = comparison->base.path;

	comparison->sight = SIGHT_GONE;
	if (!path)
		return 0;
	if (notice_check_mounts(comparison->notice, root, path, err) != 0 ||
	    notice_check_dropped(comparison->notice, comparison->name, err) != 0)
		return -1;
	if (notice_is_gone(root, path))
		return notice_check_root(comparison->notice, root, err) != 0
			       ? -1
			       : seek(comparison);
	comparison->sight = SIGHT_UNREADABLE;
	comparison->path = xstrdup(path);
	err_set(&comparison->why, ERR_CORRUPT,
		"what stands there is no repository any more, or is not looked for "
		"there");
	err_remedy(&comparison->why,
		   "put the repository back, or remove what is left of it");
	return 0;
}

/* One that is just being made or copied here is no damaged one. */
static bool is_being_made(int root, const char *path)
{
	struct stat st;
	int64_t changed;

	if (fstatat(root, path, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return false;
	changed = (int64_t)st.st_ctim.tv_sec * 1000 + st.st_ctim.tv_nsec / 1000000;
	return clock_wall_ms() - changed < YOUNG_MS;
}

/* A file that is just being written by hand can look damaged, and a repository that is
 * just being removed, too: what is not known yet must last. */
static bool is_to_be_confirmed(const struct comparison *comparison, const struct err *why)
{
	const char *known = comparison->base.failure;

	return comparison->tries < LASTING_TRIES &&
	       (!known || strcmp(known, why->text) != 0);
}

/* The reading failed: 0 if that is what is to be recorded; 1: look anew; -1: *err. */
static int see_failure(struct comparison *comparison, int root, struct err *err)
{
	bool is_lasting = err->class == ERR_MISSING || err->class == ERR_CORRUPT ||
			  err->class == ERR_CONFIG;

	if (!is_lasting)
		return -1;
	if (is_to_be_confirmed(comparison, err)) {
		usleep(LASTING_MS * 1000);
		return 1;
	}
	if (err->class == ERR_MISSING) /* a part of it */
		err->class = ERR_CORRUPT;
	if (err->class == ERR_CORRUPT && !comparison->base.name &&
	    is_being_made(root, comparison->path)) {
		err_set(err, ERR_CONFLICT,
			"%s is not two seconds old and not whole yet: %.300s",
			comparison->path, err->text);
		return err_remedy(err, "wait until it is made; if it stays so, it is "
				       "told as damaged, with what to do");
	}
	comparison->sight = SIGHT_UNREADABLE;
	comparison->why = *err;
	return 0;
}

/* Of what is replicated besides refs: the description, and the settings for readers if
 * there are any. */
static char *notice_digest_reading(const struct ref_reading *reading)
{
	AUTO_HASH struct hash hash;
	AUTO_STR struct str hex = STR_INIT;
	unsigned char digest[HASH_MAX_SIZE];
	const char *text = reading->description ? reading->description : "";
	bool has_settings = reading->settings[0] != '\0';

	hash_init(&hash, HASH_SHA256);
	hash_add(&hash, text, strlen(text) + has_settings);
	hash_add(&hash, reading->settings, strlen(reading->settings));
	hash_end(&hash, digest);
	str_add_hex(&hex, digest, sizeof(digest));
	return str_take(&hex);
}

static void take_sums(struct comparison *comparison)
{
	const struct ref_reading *reading = &comparison->reading;
	struct checksum sum;

	checksum_of(&reading->refs, &sum);
	checksum_format(&sum, comparison->checksum);
	fingerprint_format(&reading->print, comparison->print);
	if (reading->description || reading->settings[0])
		comparison->description = notice_digest_reading(reading);
	comparison->sight = SIGHT_WHOLE;
}

static int notice_read_former_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct comparison *comparison = arg;

	origin_row_clear(&comparison->former);
	return origin_row_of_identity(tx, comparison->identity, &comparison->former,
				      err) < 0
		       ? -1
		       : 0;
}

/* A directory that stood under another name, where nothing stands any more, was renamed.
 * So it is the repository that it was: secondaries move their copies, too. */
static int find_former(struct comparison *comparison, struct err *err)
{
	AUTO_CLOSE int root = notice_open_root(comparison->notice, err);
	struct stat st;

	if (root < 0)
		return -1;
	if (comparison->base.name || !comparison->identity)
		return 0;
	if (store_read(comparison->notice->options.store, notice_read_former_work,
		       comparison, err) != 0)
		return -1;
	if (comparison->former.name &&
	    (strcmp(comparison->former.name, comparison->name) == 0 ||
	     fstatat(root, comparison->former.path, &st, AT_SYMLINK_NOFOLLOW) == 0))
		origin_row_clear(&comparison->former);
	return 0;
}

/* What was read may have been moved away meanwhile, and another be there: then its
 * refs would be recorded with the other's identity, or with none. */
static bool is_another_now(const struct comparison *comparison, int root)
{
	AUTO_FREE char *now = identity_of(root, comparison->path);

	return !now || !comparison->identity || strcmp(now, comparison->identity) != 0;
}

/* 0: sight says what is to be recorded; 1: look anew; -1: *err, nothing is to be. */
static int notice_observe(struct comparison *comparison, struct err *err)
{
	AUTO_CLOSE int root = notice_open_root(comparison->notice, err);
	int found = root < 0 ? -1
			     : locate_repository(root, comparison->name,
						 &comparison->path, err);

	if (found == 0)
		return notice_observe_absence(comparison, root, err);
	if (found < 0 && (root < 0 || !comparison->base.name))
		return -1;
	if (found < 0)
		comparison->path = xstrdup(comparison->base.path);
	comparison->identity = identity_of(root, comparison->path);
	if (found < 0 ||
	    ref_reading_take(root, comparison->path, &comparison->reading, err) != 0)
		return see_failure(comparison, root, err);
	failpoint("notice.read");
	if (is_another_now(comparison, root))
		return 1;
	take_sums(comparison);
	return find_former(comparison, err);
}

/* The changes since the refs that were recorded last, if they are at hand. */
static void find_changes(struct comparison *comparison)
{
	const struct ref_snapshot *now = &comparison->reading.refs;
	const struct origin_row *base = &comparison->base;

	if (comparison->sight != SIGHT_WHOLE || !comparison->is_event || !base->checksum)
		return;
	if (strcmp(base->checksum, comparison->checksum) == 0) /* the description */
		comparison->before = now;
	else if (recorded_refs_read(comparison->notice->options.data, base->id,
				    base->checksum, comparison->reading.oid_len,
				    &comparison->recorded))
		comparison->before = &comparison->recorded;
	if (comparison->before)
		comparison->changes = event_changes_of(comparison->before, now);
}

/* Of what cannot be read nothing can be told; when it can be read again, that is an
 * event, too. */
static void tell_sink(struct comparison *comparison)
{
	const struct change_sink *sink = &comparison->notice->options.sink;
	bool is_whole = comparison->sight == SIGHT_WHOLE;
	enum event_what what = comparison_what(comparison);

	if (!sink->take || !comparison->is_event || comparison->sight == SIGHT_UNREADABLE)
		return;
	comparison->is_owed =
		sink->take(sink->arg,
			   &(struct change){
				   .name = comparison->name,
				   .what = what,
				   .is_scanned = comparison->is_scanned,
				   .is_first_sight = comparison->is_first_scan &&
						     what == EVENT_CREATED,
				   .checksum = is_whole ? comparison->checksum : NULL,
				   .before = comparison->before,
				   .after = is_whole ? &comparison->reading.refs : NULL,
			   },
			   &comparison->why_owed) != 0;
	failpoint("sink.taken");
}

/* Without the record the next event has no list of changes; that is all. */
static void record_refs(const struct comparison *comparison,
			const struct noticed *noticed)
{
	const char *data = comparison->notice->options.data;

	if (comparison->sight == SIGHT_GONE)
		recorded_refs_remove(data, noticed->row.id);
	else if (comparison->sight == SIGHT_WHOLE)
		recorded_refs_write(data, noticed->row.id, comparison->checksum,
				    &comparison->reading.refs, ERR_IGNORED);
}

static void notice_report_change(const struct comparison *comparison,
				 const struct noticed *noticed)
{
	const struct notice_options *options = &comparison->notice->options;

	log_info("change.noticed", LOG_TEXT("repo", comparison->name),
		 LOG_TEXT("event", event_what_name(comparison_what(comparison))),
		 LOG_NUMBER("event_id", noticed->event_id),
		 LOG_NUMBER("generation", noticed->row.generation));
	if (options->log)
		event_log_wake(options->log);
}

/* The deletion of the former name; if it cannot be told now, the next scan does. */
static void notice_renamed(const struct comparison *comparison)
{
	AUTO_NOTICED struct noticed noticed = { 0 };
	struct comparison how = { .notice = comparison->notice,
				  .name = comparison->former.name,
				  .absence = ABSENCE_DELETED };

	log_info("change.renamed", LOG_TEXT("repo", comparison->name),
		 LOG_TEXT("from", comparison->former.name));
	notice_compare_repeatedly(&how, &noticed, ERR_IGNORED);
}

/* 0: noticed->row is what is recorded now; 1: somebody else came first. */
static int notice_record_comparison(struct comparison *comparison,
				    struct noticed *noticed, struct err *err)
{
	if (!comparison_differs(comparison)) {
		noticed->row = comparison->base;
		comparison->base = (struct origin_row){ 0 };
		return 0;
	}
	find_changes(comparison);
	tell_sink(comparison);
	if (comparison->is_event)
		failpoint("notice.commits");
	if (comparison_commit(comparison, noticed, err) != 0)
		return err->class == ERR_CONFLICT ? 1 : -1;
	if (comparison->is_owed)
		owed_note(comparison);
	if (noticed->is_changed) {
		failpoint("notice.committed");
		record_refs(comparison, noticed);
		notice_report_change(comparison, noticed);
	}
	if (comparison->former.name && !comparison->is_sought)
		notice_renamed(comparison);
	return 0;
}

/* As notice_compare; 1: look anew. */
static int compare_once(const struct comparison *how, struct noticed *noticed,
			struct err *err)
{
	AUTO_COMPARISON struct comparison comparison = *how;
	int result;

	if (store_read(how->notice->options.store, read_row_work, &comparison, err) != 0)
		return -1;
	result = notice_observe(&comparison, err);
	failpoint("notice.seen");
	if (result == 0 &&
	    (comparison.sight != SIGHT_GONE || how->absence != ABSENCE_LATER))
		result = notice_record_comparison(&comparison, noticed, err);
	if (result != 0)
		return result;
	if (comparison.sight == SIGHT_GONE) {
		err_set(err, ERR_MISSING, "there is no repository %s", how->name);
		return err_remedy(err, "look for its name with refrelay repository list");
	}
	if (comparison.sight == SIGHT_UNREADABLE) {
		*err = comparison.why;
		return -1;
	}
	noticed->refs = comparison.reading.refs;
	comparison.reading.refs = (struct ref_snapshot)REF_SNAPSHOT_INIT;
	noticed->oid_len = comparison.reading.oid_len;
	noticed->description = TAKE(comparison.reading.description);
	noticed->settings = TAKE(comparison.reading.settings);
	return 0;
}

static int notice_compare_repeatedly(struct comparison *how, struct noticed *noticed,
				     struct err *err)
{
	int result = 1;

	*noticed = (struct noticed){ 0 };
	if (name_check(how->name, err) != 0)
		return -1;
	for (; how->tries < TRIES && result > 0; how->tries++)
		result = compare_once(how, noticed, err);
	if (result > 0) {
		err_set(err, ERR_CONFLICT, "it changes faster than it can be recorded");
		return err_remedy(err, "tried again by itself");
	}
	return result;
}

int notice_compare(struct notice *notice, const char *name, struct noticed *noticed,
		   struct err *err)
{
	struct comparison how = { .notice = notice, .name = name };

	return notice_compare_repeatedly(&how, noticed, err);
}

int notice_compare_scanned(struct notice *notice, const char *name, bool is_first,
			   enum absence absence, struct noticed *noticed, struct err *err)
{
	struct comparison how = { .notice = notice,
				  .name = name,
				  .is_scanned = true,
				  .is_first_scan = is_first,
				  .absence = absence };

	return notice_compare_repeatedly(&how, noticed, err);
}
