/*
 * Order: the row is read before the disk, so that what the disk said is never older than
 * the row. Then refs, then the transaction, which fails if somebody else's comparison
 * came first; then all of it anew.
 */
#include "change/notice.h"

#include <limits.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"
#include "change/notice_parts.h"
#include "change/origin_root.h"
#include "change/owed.h"
#include "change/pushed.h"
#include "change/recorded_refs.h"
#include "git/repo.h"
#include "replicable/locate.h"
#include "replicable/name.h"
#include "replicable/registry.h"

/*
 * Where repositories stand: the root, names below it, and what holds at a secondary.
 */

static int notice_root_open_directory(const char *root, struct err *err)
{
	int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)
		return fd;
	err_errno(err, "site.repositories (%s) cannot be read", root);
	err->class = ERR_DISK;
	return err_remedy(err, "is its file system mounted? Nothing is taken for deleted "
			       "meanwhile");
}

int notice_open_root(const struct notice *notice, struct err *err)
{
	const struct notice_options *options = &notice->options;

	if (options->check_copies &&
	    options->check_copies(options->store, options->root, err) != 0)
		return -1;
	return notice_root_open_directory(options->root, err);
}

static struct origin_root notice_root(const struct notice *notice, int root)
{
	const struct notice_options *options = &notice->options;

	return (struct origin_root){ options->store, KIND_REPOSITORY, options->root,
				     root };
}

int notice_check_root(struct notice *notice, int root, struct err *err)
{
	const struct origin_root known = notice_root(notice, root);

	return origin_root_check(&known, err);
}

int notice_check_mounts(struct notice *notice, int root, const char *path,
			struct err *err)
{
	const struct origin_root whole = notice_root(notice, root);
	json_auto_t *known = NULL;

	if (origin_root_mounts(&whole, &known, err) != 0)
		return -1;
	const char *away = mounts_find_away(known, root, path);
	return away ? mounts_say_away(away, err) : 0;
}

int notice_judge_root(struct store *store, const char *path, struct err *err)
{
	AUTO_CLOSE int fd = notice_root_open_directory(path, err);
	const struct origin_root root = { store, KIND_REPOSITORY, path, fd };
	int is_empty = fd < 0 ? -1 : discover_is_empty(path, err);

	return is_empty > 0 ? origin_root_check_known(&root, err) : is_empty;
}

/*
 * At a secondary the tree is what pull makes of it. Deletions are decided by its primary
 * and carried out under the deletion limit; what is missing otherwise (a rebuilt copy
 * between two renames, an older disk) is brought again. And a copy of which something is
 * still to be brought may be older than what was seen before: it is compared when it has
 * come.
 */
struct notice_asking {
	const char *name;
	int found; /* 0: there is no row */
	enum registry_state state;
};

static int notice_copies_ask_work(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	struct notice_asking *asking = arg;

	asking->found = registry_get_in(tx, KIND_REPOSITORY, asking->name, &row, err);
	asking->state = row.state;
	return asking->found < 0 ? -1 : 0;
}

static int notice_copies_ask(struct notice *notice, struct notice_asking *asking,
			     struct err *err)
{
	return store_read(notice->options.store, notice_copies_ask_work, asking, err);
}

int notice_may_look(struct notice *notice, const char *name, bool *may, struct err *err)
{
	struct notice_asking asking = { .name = name };

	*may = true;
	if (!notice->options.check_copies)
		return 0;
	if (notice_copies_ask(notice, &asking, err) != 0)
		return -1;
	*may = !asking.found || asking.state == REGISTRY_SYNCED;
	return 0;
}

int notice_check_dropped(struct notice *notice, const char *name, struct err *err)
{
	struct notice_asking asking = { .name = name };

	if (!notice->options.check_copies)
		return 0;
	if (notice_copies_ask(notice, &asking, err) != 0)
		return -1;
	if (!asking.found)
		return 0;
	err_set(err, ERR_CONFLICT, "the copy of %s is not there, but it is wanted", name);
	return err_remedy(err,
			  "brought again by itself; else: refrelay repository "
			  "resync %s",
			  name);
}

/* What follows root and a slash in path, or NULL. */
static const char *notice_strip_root(const char *root, const char *path)
{
	size_t len = strlen(root);

	while (len > 0 && root[len - 1] == '/')
		len--;
	if (strncmp(path, root, len) != 0 || path[len] != '/')
		return NULL;
	return path + len + strspn(path + len, "/");
}

/* With links followed, as git names a repository to its hooks; one that is gone is found
 * by its text alone. */
static char *notice_path_below(const char *root, const char *path)
{
	AUTO_FREE char *real_root = realpath(root, NULL);
	AUTO_FREE char *real_path = realpath(path, NULL);
	const char *found = NULL;

	if (real_root && real_path)
		found = notice_strip_root(real_root, real_path);
	if (!found && !real_path)
		found = notice_strip_root(root, path);
	if (!found && !real_path && real_root)
		found = notice_strip_root(real_root, path);
	return found ? xstrdup(found) : NULL;
}

char *notice_name_below(const char *root, const char *path_or_name, struct err *err)
{
	AUTO_FREE char *path = path_or_name[0] == '/'
				       ? notice_path_below(root, path_or_name)
				       : xstrdup(path_or_name);

	if (!path) {
		err_set(err, ERR_CONFIG, "%s is not below site.repositories (%s)",
			path_or_name, root);
		err_remedy(err, "name a repository that is");
		return NULL;
	}
	for (size_t len = strlen(path); len > 0 && path[len - 1] == '/'; len--)
		path[len - 1] = '\0';
	AUTO_FREE char *name = name_of_path(path);
	return name_check(name, err) == 0 ? TAKE(name) : NULL;
}

char *notice_name_of(struct notice *notice, const char *path_or_name, struct err *err)
{
	return notice_name_below(notice->options.root, path_or_name, err);
}

/*
 * Everything is decided by the row that was read before the disk. It is committed only
 * if the row is still that one, its fingerprint included: a comparison that read an
 * older disk can then never undo what one that read a newer disk has recorded, even if
 * that one found nothing to report.
 */

/* A row that says no more than that it was looked at again is written so often. */
#define SEEN_MS (60 * 1000)

static bool notice_commit_is_same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static void notice_commit_set_text(char **at, const char *text)
{
	free(*at);
	*at = text && *text ? xstrdup(text) : NULL;
}

/* Objects that are missing are found by a verification, and only one can say that they
 * are back. */
static bool lacks_objects(const struct origin_row *row)
{
	return row->checksum && row->verification == VERIFICATION_FAILED;
}

/* What other files say of it no fingerprint shows. */
static bool notice_commit_is_settled(const struct comparison *comparison)
{
	return !comparison->reading.has_includes &&
	       fingerprint_is_settled(&comparison->reading.fingerprint);
}

static bool looks_different(const struct comparison *comparison)
{
	const struct origin_row *base = &comparison->base;
	int64_t now = clock_wall_ms();

	if (strcmp(base->path, comparison->path) != 0 ||
	    !notice_commit_is_same_text(base->identity, comparison->identity) ||
	    !notice_commit_is_same_text(base->fingerprint, comparison->fingerprint) ||
	    base->is_settled != notice_commit_is_settled(comparison))
		return true;
	if (lacks_objects(base))
		return false;
	return base->verification != VERIFICATION_SUCCEEDED ||
	       now - base->verified_at >= SEEN_MS ||
	       base->verified_at > now; /* it was set back */
}

bool comparison_differs(struct comparison *comparison)
{
	const struct origin_row *base = &comparison->base;

	if (comparison->observation == OBSERVATION_GONE)
		return comparison->is_event = base->name != NULL;
	if (!base->name)
		return comparison->is_event = true;
	if (comparison->observation == OBSERVATION_UNREADABLE)
		return comparison->is_event =
			       base->checksum || !base->failure ||
			       strcmp(base->failure, comparison->why.text) != 0;
	comparison->is_event =
		!notice_commit_is_same_text(base->checksum, comparison->checksum) ||
		!notice_commit_is_same_text(base->description, comparison->description);
	return comparison->is_event || looks_different(comparison);
}

/* 1: there is a row, and it is the one compared with; 0: there is none, as before. */
static int notice_commit_read_again(struct store_tx *tx,
				    const struct comparison *comparison,
				    struct origin_row *row, struct err *err)
{
	const struct origin_row *base = &comparison->base;
	int found = origin_row_get(tx, KIND_REPOSITORY, comparison->name, row, err);

	if (found < 0)
		return -1;
	if (found == (base->name != NULL) &&
	    (!found || (strcmp(row->timeline, base->timeline) == 0 &&
			row->generation == base->generation &&
			row->is_settled == base->is_settled &&
			notice_commit_is_same_text(row->fingerprint, base->fingerprint))))
		return found;
	return err_set(err, ERR_CONFLICT, "%s: its record changes all the time",
		       comparison->name);
}

static void notice_commit_set_failure(struct origin_row *row, const struct err *why)
{
	origin_row_set_failure(row, why);
	row->verification = why ? VERIFICATION_FAILED : VERIFICATION_SUCCEEDED;
	row->verification_retry_count = why ? row->verification_retry_count + 1 : 0;
	row->verified_at = clock_wall_ms();
}

static void put_reading(const struct comparison *comparison, struct origin_row *row)
{
	if (!lacks_objects(row))
		notice_commit_set_failure(row, NULL);
	notice_commit_set_text(&row->checksum, comparison->checksum);
	notice_commit_set_text(&row->description, comparison->description);
	notice_commit_set_text(&row->fingerprint, comparison->fingerprint);
	notice_commit_set_text(&row->identity, comparison->identity);
	row->is_settled = notice_commit_is_settled(comparison);
}

static void notice_commit_put_failure(const struct comparison *comparison,
				      struct origin_row *row)
{
	notice_commit_set_failure(row, &comparison->why);
	notice_commit_set_text(&row->checksum, NULL);
	notice_commit_set_text(&row->fingerprint, NULL);
	row->is_settled = false;
}

/* Between half of the interval and all of it, so that a thousand that came at once are
 * not verified at once. */
static int64_t first_verification(int64_t reverify_ms)
{
	char digits[9];

	if (reverify_ms <= 0)
		return 0;
	random_hex(digits, 4);
	uint64_t share = strtoul(digits, NULL, 16) & 0xffff;
	return clock_wall_ms() + reverify_ms / 2 +
	       (int64_t)((uint64_t)reverify_ms / 2 * share / 0xffff);
}

static void notice_commit_put_birth(const struct comparison *comparison,
				    struct origin_row *row)
{
	row->id = replicable_id(KIND_REPOSITORY, comparison->name);
	notice_commit_set_text(&row->name, comparison->name);
	random_hex(row->timeline, (TIMELINE_SIZE - 1) / 2);
	if (comparison->former.name) {
		memcpy(row->timeline, comparison->former.timeline, sizeof(row->timeline));
		row->generation = comparison->former.generation;
	}
	row->verification_due_at =
		first_verification(comparison->notice->options.reverify_ms);
}

/* The event's own strings are borrowed from row and comparison. */
static int append_event(struct store_tx *tx, const struct comparison *comparison,
			enum event_what what, const struct origin_row *row,
			struct event *event, struct err *err)
{
	char kind[] = KIND_REPOSITORY;

	*event = (struct event){
		.kind = kind,
		.name = row->name,
		.what = what,
		.generation = row->generation,
		.checksum = what == EVENT_DELETED ? NULL : row->checksum,
		.changes = comparison->changes,
	};
	memcpy(event->timeline, row->timeline, sizeof(event->timeline));
	return event_log_append(tx, event, err);
}

struct committing {
	struct comparison *comparison;
	struct noticed *noticed;
	const char *root; /* identity */
};

enum event_what comparison_what(const struct comparison *comparison)
{
	if (comparison->observation == OBSERVATION_GONE)
		return EVENT_DELETED;
	return comparison->base.name ? EVENT_UPDATED : EVENT_CREATED;
}

static int notice_commit_write_row(struct store_tx *tx,
				   const struct committing *committing,
				   const struct origin_row *row, struct err *err)
{
	uint64_t generation = committing->comparison->base.generation;

	switch (comparison_what(committing->comparison)) {
	case EVENT_DELETED: {
		struct origin_row old = *row;
		old.generation = generation;
		if (pushed_forget(tx, row->name, err) != 0)
			return -1;
		return origin_row_remove(tx, &old, err);
	}
	case EVENT_CREATED:
		if (origin_root_accept_first(tx, KIND_REPOSITORY, committing->root,
					     err) != 0)
			return -1;
		return origin_row_add(tx, KIND_REPOSITORY, row, err);
	case EVENT_UPDATED:
	case EVENT_CHECKSUMMED: /* of blobs only */
		break;
	}
	return origin_row_update(tx, row, generation, err);
}

static int notice_commit_work(struct store_tx *tx, void *arg, struct err *err)
{
	const struct committing *committing = arg;
	const struct comparison *comparison = committing->comparison;
	struct noticed *noticed = committing->noticed;
	struct origin_row *row = &noticed->row;
	struct event event = { 0 };
	int found;

	origin_row_clear(row);
	noticed->event_id = 0;
	found = notice_commit_read_again(tx, comparison, row, err);
	if (found < 0)
		return -1;
	if (!found)
		notice_commit_put_birth(comparison, row);
	row->generation += comparison->is_event;
	if (comparison->path)
		notice_commit_set_text(&row->path, comparison->path);
	if (comparison->observation == OBSERVATION_WHOLE)
		put_reading(comparison, row);
	else if (comparison->observation == OBSERVATION_UNREADABLE)
		notice_commit_put_failure(comparison, row);
	if (comparison->is_event) {
		if (append_event(tx, comparison, comparison_what(comparison), row, &event,
				 err) != 0)
			return -1;
		row->changed_at = event.at;
		noticed->event_id = event.id;
	}
	if (comparison->is_owed &&
	    owed_add(tx, comparison->name, &comparison->why_owed, err) != 0)
		return -1;
	return notice_commit_write_row(tx, committing, row, err);
}

int comparison_commit(struct comparison *comparison, struct noticed *noticed,
		      struct err *err)
{
	AUTO_FREE char *root = identity_of(AT_FDCWD, comparison->notice->options.root);
	struct committing committing = { comparison, noticed, root };

	if (!root)
		return err_errno(err, "cannot look at site.repositories");
	if (store_write(comparison->notice->options.store, notice_commit_work,
			&committing, err) != 0) {
		origin_row_clear(&noticed->row);
		noticed->event_id = 0;
		return -1;
	}
	noticed->is_changed = comparison->is_event;
	return 0;
}

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

	comparison->observation = OBSERVATION_GONE;
	if (!path)
		return 0;
	if (notice_check_mounts(comparison->notice, root, path, err) != 0 ||
	    notice_check_dropped(comparison->notice, comparison->name, err) != 0)
		return -1;
	if (notice_is_gone(root, path))
		return notice_check_root(comparison->notice, root, err) != 0
			       ? -1
			       : seek(comparison);
	comparison->observation = OBSERVATION_UNREADABLE;
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
	comparison->observation = OBSERVATION_UNREADABLE;
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
	fingerprint_format(&reading->fingerprint, comparison->fingerprint);
	if (reading->description || reading->settings[0])
		comparison->description = notice_digest_reading(reading);
	comparison->observation = OBSERVATION_WHOLE;
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

	if (comparison->observation != OBSERVATION_WHOLE || !comparison->is_event ||
	    !base->checksum)
		return;
	if (strcmp(base->checksum, comparison->checksum) == 0) /* the description */
		comparison->before = now;
	else if (recorded_refs_read(comparison->notice->options.data, base->id,
				    base->checksum, comparison->reading.oid_len,
				    &comparison->recorded))
		comparison->before = &comparison->recorded;
	if (comparison->before)
		comparison->changes = wire_event_changes(comparison->before, now);
}

/* Of what cannot be read nothing can be told; when it can be read again, that is an
 * event, too. */
static void report_sink(struct comparison *comparison)
{
	const struct change_sink *sink = &comparison->notice->options.sink;
	bool is_whole = comparison->observation == OBSERVATION_WHOLE;
	enum event_what what = comparison_what(comparison);

	if (!sink->take || !comparison->is_event ||
	    comparison->observation == OBSERVATION_UNREADABLE)
		return;
	comparison->is_owed =
		sink->take(sink->arg,
			   &(struct change){
				   .name = comparison->name,
				   .what = what,
				   .is_scanned = comparison->is_scanned,
				   .is_first_observation = comparison->is_first_scan &&
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

	if (comparison->observation == OBSERVATION_GONE)
		recorded_refs_remove(data, noticed->row.id);
	else if (comparison->observation == OBSERVATION_WHOLE)
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
	report_sink(comparison);
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
	    (comparison.observation != OBSERVATION_GONE || how->absence != ABSENCE_LATER))
		result = notice_record_comparison(&comparison, noticed, err);
	if (result != 0)
		return result;
	if (comparison.observation == OBSERVATION_GONE) {
		err_set(err, ERR_MISSING, "there is no repository %s", how->name);
		return err_remedy(err, "look for its name with refrelay repository list");
	}
	if (comparison.observation == OBSERVATION_UNREADABLE) {
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
