/*
 * Repositories as a kind of the primary: their refs are read at one moment, and told to
 * the sink before the event is committed. What seems to be gone is compared last, so that
 * a renamed one is never nowhere. One is read only where its fingerprint does not prove
 * that it is as recorded.
 */
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/str.h"
#include "change/moved.h"
#include "change/notice_parts.h"
#include "change/origin_root.h"
#include "change/owed.h"
#include "change/pushed.h"
#include "change/recorded_refs.h"
#include "change/repository_scan.h"
#include "git/checksum.h"
#include "git/objects.h"
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

static int repository_open_root(const struct origin_kind *kind, struct err *err)
{
	const struct notice_options *options = &kind->notice->options;

	if (options->check_copies &&
	    options->check_copies(options->store, KIND_REPOSITORY, options->root, err) !=
		    0)
		return -1;
	return notice_root_open_directory(options->root, err);
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

/* 1: there is a row; 0: there is none. */
static int repository_find_copy(const struct notice *notice, const char *name,
				enum registry_state *state, struct err *err)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	int result =
		registry_get(notice->options.store, KIND_REPOSITORY, name, &row, err);

	*state = row.state;
	if (result == 0)
		return 1;
	return err->class == ERR_MISSING ? 0 : -1;
}

static int repository_may_look(const struct origin_kind *kind, const char *name,
			       bool *may, struct err *err)
{
	enum registry_state state;

	if (!kind->notice->options.check_copies)
		return 0;
	int found = repository_find_copy(kind->notice, name, &state, err);
	*may = found == 0 || state == REGISTRY_SYNCED;
	return found < 0 ? -1 : 0;
}

/* Nothing stands there. At a secondary that is a deletion only where pull has dropped the
 * row. */
static int repository_check_dropped(const struct notice *notice, const char *name,
				    struct err *err)
{
	enum registry_state state;
	int found = notice->options.check_copies
			    ? repository_find_copy(notice, name, &state, err)
			    : 0;

	if (found <= 0)
		return found;
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

/* What was seen of one. */
struct repository_seen {
	char *path;               /* owned; below the root */
	char *identity;           /* of its directory; owned; NULL: not known */
	struct origin_row former; /* of a new name: the row of the name that this
				     repository had before; no name: none */
	struct ref_reading reading;
	char checksum[CHECKSUM_TEXT_SIZE];
	char *description; /* digest; owned; NULL: none */
	/* Refs that belong to the base, if they are at hand: kept, or read. */
	struct known_past *past; /* a reference, or NULL */
	struct ref_snapshot recorded;
	struct ref_diff diff; /* from them to those read, which both are borrowed; empty
				 if it was not looked for */
	bool has_diff;
	bool is_replaced; /* another repository stands in its place */
	bool is_owed;     /* the sink did not take it: why_owed */
	struct err why_owed;
};

static void repository_forget(struct comparison *one)
{
	struct repository_seen *seen = TAKE(one->seen);

	if (!seen)
		return;
	free(seen->path);
	free(seen->identity);
	origin_row_clear(&seen->former);
	ref_diff_clear(&seen->diff);
	known_past_leave(seen->past);
	ref_reading_clear(&seen->reading);
	free(seen->description);
	ref_snapshot_clear(&seen->recorded);
	free(seen);
}

/* It is compared by itself. */
static struct comparison *repository_of(const struct comparisons *all)
{
	return &all->items.items[0];
}

/* What other files say of it no fingerprint shows. */
static bool repository_is_settled(const struct repository_seen *seen)
{
	return !seen->reading.has_includes &&
	       fingerprint_is_settled(&seen->reading.fingerprint);
}

static bool looks_different(const struct comparison *one)
{
	const struct repository_seen *seen = one->seen;
	const struct origin_row *base = &one->base;

	return strcmp(base->path, seen->path) != 0 ||
	       !text_is_same(base->identity, seen->identity) ||
	       !text_is_same(base->fingerprint, one->fingerprint) ||
	       base->is_settled != repository_is_settled(seen);
}

static bool repository_has_changes(const struct repository_seen *seen)
{
	return seen->diff.changes.count > 0 || seen->diff.head_changed;
}

static enum origin_step repository_judge(const struct comparisons *all,
					 const struct comparison *one)
{
	const struct repository_seen *seen = one->seen;
	const struct origin_row *base = &one->base;

	(void)all;
	if (!base->name)
		return STEP_CREATED;
	if (one->observation == OBSERVATION_UNREADABLE)
		return base->checksum || !base->failure ||
				       strcmp(base->failure, one->noticed->why.text) != 0
			       ? STEP_UPDATED
			       : STEP_NOTHING;
	if (!text_is_same(base->checksum, seen->checksum) ||
	    repository_has_changes(seen) ||
	    !text_is_same(base->description, seen->description))
		return STEP_UPDATED;
	return looks_different(one) ? STEP_NOTED : STEP_NOTHING;
}

/* Reading refs vouches for no objects: only a repository that is new is taken for whole,
 * until its first verification. One that could not be read, or whose former name was in
 * doubt, may have lost some; where nothing is verified, nobody would find out. */
static void put_readable(const struct comparisons *all, const struct comparison *one,
			 struct origin_row *row)
{
	const struct repository_seen *seen = one->seen;
	const struct origin_row *former = &seen->former;
	const char *claim = all->cause->claim_token;
	bool is_whole =
		!all->kind->notice->options.verifies ||
		(!one->base.name &&
		 (!former->name || former->verification == VERIFICATION_SUCCEEDED));

	origin_row_set_failure(row, NULL);
	row->verification = is_whole ? VERIFICATION_SUCCEEDED : VERIFICATION_PENDING;
	row->verification_retry_count = 0;
	if (is_whole)
		return;
	row->verification_due_at = clock_wall_ms();
	if (!claim || strcmp(row->claim_token, claim) != 0)
		row->claim_token[0] = '\0'; /* what is being verified is older */
}

static void put_reading(const struct comparisons *all, const struct comparison *one,
			struct origin_row *row)
{
	const struct repository_seen *seen = one->seen;

	if (!row->checksum)
		put_readable(all, one, row);
	text_replace(&row->checksum, seen->checksum);
	text_replace(&row->description, seen->description);
	text_replace(&row->fingerprint, one->fingerprint);
	text_replace(&row->identity, seen->identity);
	row->is_settled = repository_is_settled(seen);
}

static void put_failure(const struct comparison *one, struct origin_row *row)
{
	origin_row_set_failure(row, &one->noticed->why);
	row->verification = VERIFICATION_FAILED;
	row->verification_retry_count++;
	text_replace(&row->checksum, NULL);
	text_replace(&row->fingerprint, NULL);
	row->is_settled = false;
}

static void put_birth(const struct comparisons *all, const struct repository_seen *seen,
		      struct origin_row *row)
{
	int64_t reverify_ms = all->kind->notice->reverify_ms;

	if (seen->former.name) {
		memcpy(row->timeline, seen->former.timeline, sizeof(row->timeline));
		row->generation = seen->former.generation;
	}
	row->verified_at = clock_wall_ms();
	if (reverify_ms > 0)
		row->verification_due_at = notice_next_verification(reverify_ms);
}

static void repository_fill(struct comparisons *all, struct comparison *one,
			    struct origin_row *row)
{
	const struct repository_seen *seen = one->seen;

	if (one->step == STEP_CREATED)
		put_birth(all, seen, row);
	if (seen->is_replaced)
		random_hex(row->timeline, (TIMELINE_SIZE - 1) / 2);
	if (seen->path)
		text_replace(&row->path, seen->path);
	if (one->observation == OBSERVATION_WHOLE)
		put_reading(all, one, row);
	else
		put_failure(one, row);
}

static int repository_record(struct store_tx *tx, struct comparisons *all,
			     struct comparison *one, struct err *err)
{
	const struct repository_seen *seen = one->seen;

	(void)all;
	if (seen->is_owed && owed_add(tx, one->noticed->name, &seen->why_owed, err) != 0)
		return -1;
	return one->step == STEP_DELETED ? pushed_forget(tx, one->noticed->name, err) : 0;
}

#define LASTING_TRIES 2
#define LASTING_MS 20
#define YOUNG_MS 2000

void noticed_clear(struct noticed *noticed)
{
	origin_row_clear(&noticed->row);
	ref_snapshot_clear(&noticed->refs);
	free(noticed->description);
	free(noticed->settings);
	*noticed = (struct noticed){ 0 };
}

/* No repository was found where the row's stood. What is left of it, or stands in its
 * place, is no deletion; a folder for other repositories is. */
static bool repository_is_gone(int root, const char *path)
{
	static const char *const parts[] = { "HEAD", "refs", "objects" };
	struct stat st;

	if (fstatat(root, path, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT || errno == ENOTDIR;
	if (!S_ISDIR(st.st_mode) || dir_is_empty(root, path))
		return false;
	AUTO_CLOSE int fd = openat(root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; fd >= 0 && i < ARRAY_SIZE(parts); i++)
		if (fstatat(fd, parts[i], &st, AT_SYMLINK_NOFOLLOW) == 0 ||
		    errno != ENOENT)
			return false;
	return fd >= 0;
}

/* Notices the new name first, if there is one: what cannot be recorded under it must not
 * be told as deleted under the old. 1: it is back under its own name, look anew; -1: not
 * known. */
static int repository_seek(const struct comparisons *all, const struct comparison *one,
			   struct err *err)
{
	static const struct notice_cause sought = { .is_sought = true };
	const struct origin_root root = notice_root_of(all);
	AUTO_NOTICED struct noticed noticed = { 0 };
	AUTO_FREE char *name = NULL;
	int found;

	if (!one->base.identity)
		return 0;
	if (all->cause->unrecorded &&
	    text_list_has(all->cause->unrecorded, one->base.identity))
		return err_set(err, ERR_CONFLICT,
			       "it has another name, under which it cannot be recorded "
			       "yet");
	if (all->cause->absence != ABSENCE_SOUGHT)
		return 0;
	found = moved_find(all->kind->notice->moved, &root, &one->base, &name, err);
	if (found <= 0)
		return found;
	if (strcmp(name, one->noticed->name) == 0)
		return 1;
	noticed.name = name;
	return notice_compare_one(all->kind, &sought, &noticed, err) != 0 &&
			       !noticed.row.name
		       ? -1
		       : 0;
}

static enum observation repository_observe_absence(struct comparisons *all,
						   struct comparison *one,
						   struct err *err)
{
	struct repository_seen *seen = one->seen;
	const char *name = one->noticed->name, *path = one->base.path;
	int sought;

	if (path && (notice_is_away(all, path, err) ||
		     repository_check_dropped(all->kind->notice, name, err) != 0))
		return OBSERVATION_UNKNOWN;
	if (path && !repository_is_gone(all->root, path)) {
		seen->path = xstrdup(path);
		err_set(err, ERR_CORRUPT,
			"what stands there is no repository any more, or is not looked "
			"for there");
		err_remedy(err, "put the repository back, or remove what is left of it");
		return OBSERVATION_UNREADABLE;
	}
	sought = path ? repository_seek(all, one, err) : 0;
	if (sought != 0)
		return sought > 0 ? OBSERVATION_MOVING : OBSERVATION_UNKNOWN;
	err_set(err, ERR_MISSING, "no such repository: %s", name);
	err_remedy(err, "a repository's name is its path below site.repositories, "
			"without .git");
	return all->cause->absence == ABSENCE_LATER ? OBSERVATION_UNKNOWN
						    : OBSERVATION_GONE;
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
static bool is_to_be_confirmed(const struct comparisons *all,
			       const struct comparison *one, const struct err *why)
{
	const char *known = one->base.failure;

	return all->tries < LASTING_TRIES && (!known || strcmp(known, why->text) != 0);
}

/* The reading failed. */
static enum observation repository_classify_failure(const struct comparisons *all,
						    const struct comparison *one,
						    struct err *err)
{
	const struct repository_seen *seen = one->seen;
	bool is_lasting = err->class == ERR_MISSING || err->class == ERR_CORRUPT ||
			  err->class == ERR_CONFIG;

	if (!is_lasting)
		return OBSERVATION_UNKNOWN;
	if (is_to_be_confirmed(all, one, err)) {
		usleep(LASTING_MS * 1000);
		return OBSERVATION_MOVING;
	}
	if (err->class == ERR_MISSING) /* a part of it */
		err->class = ERR_CORRUPT;
	if (err->class != ERR_CORRUPT || one->base.name ||
	    !is_being_made(all->root, seen->path))
		return OBSERVATION_UNREADABLE;
	err_set(err, ERR_CONFLICT, "%s is not two seconds old and not whole yet: %.300s",
		seen->path, err->text);
	err_remedy(err, "wait until it is made; if it stays so, it is told as damaged, "
			"with what to do");
	return OBSERVATION_UNKNOWN;
}

/* Of what is replicated besides refs: the description, and the settings for readers if
 * there are any. */
static char *notice_digest_reading(const struct ref_reading *reading)
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_STR struct str hex = STR_INIT;

	str_add(&text, reading->description ? reading->description : "");
	if (reading->settings[0] != '\0')
		str_addf(&text, "%c%s", 0, reading->settings);
	hash_add_hex(HASH_SHA256, text.data, text.len, hash_size(HASH_SHA256), &hex);
	return str_take(&hex);
}

/* Where packed-refs is still the same, what has changed is a matter of the loose refs,
 * and of two digests for each change. */
static bool repository_sum_changes(const struct comparisons *all, struct comparison *one,
				   struct checksum *sum)
{
	struct repository_seen *seen = one->seen;
	const struct ref_snapshot *now = &seen->reading.refs;
	const struct origin_row *base = &one->base;

	if (!base->checksum || !checksum_parse(base->checksum, sum))
		return false;
	seen->past = known_refs_get(all->kind->notice->known, base->id, base->checksum);
	if (!seen->past)
		return false;
	const struct ref_past *past = known_past_of(seen->past);
	seen->has_diff =
		ref_diff_since(past, now, &seen->diff) && !seen->diff.cuts_changed;
	if (!seen->has_diff)
		ref_diff_clear(&seen->diff);
	else
		checksum_apply(sum, &past->loose, now, &seen->diff);
	return seen->has_diff;
}

/* What was found of the changes pointed into it. */
static void repository_complete(struct repository_seen *seen)
{
	struct ref_snapshot *refs = &seen->reading.refs;

	ref_snapshot_complete(refs);
	for (size_t i = 0; i < seen->diff.changes.count; i++) {
		struct ref_change *change = &seen->diff.changes.items[i];
		if (change->after)
			change->after = ref_snapshot_find(refs, change->name);
	}
}

/* Refs can be chosen so that they have the sum of those before. Where files were touched,
 * and that cannot be told from what is at hand, the recorded refs are looked at. */
static void repository_doubt_sum(const struct comparisons *all,
				 const struct comparison *one)
{
	struct repository_seen *seen = one->seen;
	const struct ref_reading *reading = &seen->reading;
	const struct origin_row *base = &one->base;

	if (base->checksum && strcmp(base->checksum, seen->checksum) == 0 &&
	    !text_is_same(base->fingerprint, one->fingerprint) &&
	    recorded_refs_read(all->kind->notice->options.data, base->id, base->checksum,
			       reading->oid_len, &seen->recorded))
		ref_diff_compute(&seen->recorded, &reading->refs, &seen->diff);
}

static void take_sums(const struct comparisons *all, struct comparison *one)
{
	struct repository_seen *seen = one->seen;
	const struct ref_reading *reading = &seen->reading;
	struct checksum sum;

	bool is_known = repository_sum_changes(all, one, &sum);
	if (!is_known || !all->cause->is_hint)
		repository_complete(seen);
	if (!is_known)
		checksum_of(&reading->refs, &sum);
	checksum_format(&sum, seen->checksum);
	fingerprint_format(&reading->fingerprint, one->fingerprint);
	if (!is_known)
		repository_doubt_sum(all, one);
	if (reading->description || reading->settings[0])
		seen->description = notice_digest_reading(reading);
}

/* Without a time of birth a new directory may have the inode of one that was deleted. */
static bool is_former_proved(const struct repository_seen *seen)
{
	return identity_has_birth(seen->identity) ||
	       text_is_same(seen->former.checksum, seen->checksum);
}

/* A directory that stood under another name, where nothing stands any more, was renamed.
 * So it is the repository that it was: secondaries move their copies, too. */
static int find_former(const struct comparisons *all, const struct comparison *one,
		       struct err *err)
{
	struct repository_seen *seen = one->seen;
	struct stat st;

	if (one->base.name || !seen->identity)
		return 0;
	origin_row_clear(&seen->former);
	if (origin_row_of_identity(all->kind->store, seen->identity, &seen->former, err) <
	    0)
		return -1;
	if (seen->former.name &&
	    (strcmp(seen->former.name, one->noticed->name) == 0 ||
	     !is_former_proved(seen) ||
	     fstatat(all->root, seen->former.path, &st, AT_SYMLINK_NOFOLLOW) == 0))
		origin_row_clear(&seen->former);
	return 0;
}

/* What was read may have been moved away meanwhile, and another be there: then its
 * refs would be recorded with the other's identity, or with none. */
static bool is_another_now(const struct repository_seen *seen, int root)
{
	AUTO_FREE char *now = identity_of(root, seen->path);

	return !now || !seen->identity || strcmp(now, seen->identity) != 0;
}

static enum observation repository_look(struct comparisons *all, struct comparison *one,
					struct err *err)
{
	struct repository_seen *seen = one->seen;
	int found = locate_repository(all->root, one->noticed->name, &seen->path, err);

	if (found == 0)
		return repository_observe_absence(all, one, err);
	if (found < 0 && !one->base.name)
		return OBSERVATION_UNKNOWN;
	if (found < 0)
		seen->path = xstrdup(one->base.path);
	seen->identity = identity_of(all->root, seen->path);
	if (found < 0 ||
	    ref_reading_take_short(all->root, seen->path, &seen->reading, err) != 0)
		return repository_classify_failure(all, one, err);
	failpoint("notice.read");
	if (is_another_now(seen, all->root))
		return OBSERVATION_MOVING;
	take_sums(all, one);
	return find_former(all, one, err) == 0 ? OBSERVATION_WHOLE : OBSERVATION_UNKNOWN;
}

static void repository_observe(struct comparisons *all, struct comparison *one)
{
	struct err why = { 0 };

	repository_forget(one);
	one->seen = xcalloc(1, sizeof(struct repository_seen));
	one->observation = repository_look(all, one, &why);
	if (one->observation != OBSERVATION_WHOLE &&
	    one->observation != OBSERVATION_MOVING)
		one->noticed->why = why;
	failpoint("notice.seen");
}

/* Recorded refs do not say where a history was cut: that shows in the checksum before. */
static bool repository_was_cut(const struct repository_seen *seen,
			       const struct origin_row *base)
{
	char text[CHECKSUM_TEXT_SIZE];
	struct checksum sum;

	if (!checksum_parse(base->checksum, &sum))
		return false;
	checksum_apply(&sum, &seen->recorded, &seen->reading.refs, &seen->diff);
	checksum_format(&sum, text);
	return strcmp(text, seen->checksum) != 0;
}

/* The changes since the refs that were recorded last, if they are at hand. Where a
 * history is whole that was cut, each ref has changed, whatever its value: none was
 * pushed until now. */
static void find_changes(const struct comparisons *all, struct comparison *one)
{
	struct repository_seen *seen = one->seen;
	const struct ref_snapshot *now = &seen->reading.refs;
	const struct origin_row *base = &one->base;

	if (one->observation != OBSERVATION_WHOLE || one->step == STEP_NOTED ||
	    !base->checksum)
		return;
	const struct ref_snapshot *before = now; /* only the description has changed */
	if (seen->has_diff) {
		before = &known_past_of(seen->past)->loose;
	} else if (repository_has_changes(seen)) {
		before = &seen->recorded;
	} else if (strcmp(base->checksum, seen->checksum) != 0) {
		before = &seen->recorded;
		if (!recorded_refs_read(all->kind->notice->options.data, base->id,
					base->checksum, seen->reading.oid_len,
					&seen->recorded))
			return;
		ref_diff_compute(before, now, &seen->diff);
		if (now->cuts.count == 0 && repository_was_cut(seen, base))
			return;
	}
	seen->has_diff = true;
	one->changes = wire_event_changes(&seen->diff, before, now);
}

/* With refs that were kept, packed-refs is still the same file. */
static bool repository_shares_objects(const struct comparisons *all,
				      const struct comparison *one)
{
	const struct repository_seen *seen = one->seen;
	AUTO_SNAPSHOT struct ref_snapshot recorded = REF_SNAPSHOT_INIT;
	oid_list before = { 0 }, now = { 0 };

	if (seen->has_diff)
		return true;
	if (!one->base.checksum ||
	    !recorded_refs_read(all->kind->notice->options.data, one->base.id,
				one->base.checksum, seen->reading.oid_len, &recorded))
		return false;
	oid_list_add_tips(&before, &recorded);
	oid_list_add_tips(&now, &seen->reading.refs);
	bool is_shared = oid_list_has_any(&before, &now);
	vec_clear(&before);
	vec_clear(&now);
	return is_shared;
}

/* Another directory is mostly the same repository, restored or moved to another disk.
 * Where its refs name nothing that they named before, or nobody knows what that was, it
 * gets another timeline: secondaries then compare its history with that of their copy.
 * Without a time of birth a directory that was not replaced may look like another one. */
static bool repository_is_replaced(const struct comparisons *all,
				   const struct comparison *one)
{
	const struct repository_seen *seen = one->seen;
	const struct origin_row *base = &one->base;

	return one->step == STEP_UPDATED && one->observation == OBSERVATION_WHOLE &&
	       base->identity && strcmp(base->identity, seen->identity) != 0 &&
	       identity_has_birth(base->identity) && identity_has_birth(seen->identity) &&
	       !text_is_same(base->checksum, seen->checksum) &&
	       !repository_shares_objects(all, one);
}

/* Of what cannot be read nothing can be told; when it can be read again, that is an
 * event, too. */
static void report_sink(const struct comparisons *all, struct comparison *one)
{
	const struct change_sink *sink = &all->kind->notice->options.sink;
	struct repository_seen *seen = one->seen;
	bool is_whole = one->observation == OBSERVATION_WHOLE;

	if (!sink->take || one->step == STEP_NOTED ||
	    one->observation == OBSERVATION_UNREADABLE)
		return;
	seen->is_owed =
		sink->take(sink->arg,
			   &(struct change){
				   .name = one->noticed->name,
				   .what = notice_what_of(one->step),
				   .is_scanned = owed_is_only_scanned(all, one),
				   .is_first_observation = all->cause->is_first_scan &&
							   one->step == STEP_CREATED,
				   .before = one->base.checksum,
				   .checksum = is_whole ? seen->checksum : NULL,
				   .diff = seen->has_diff ? &seen->diff : NULL,
				   .after = is_whole ? &seen->reading.refs : NULL,
			   },
			   &seen->why_owed) != 0;
	if (!all->cause->is_first_scan || one->step != STEP_CREATED)
		owed_note_told(one, is_whole ? seen->checksum : "");
	failpoint("sink.taken");
}

static void repository_announce(struct comparisons *all)
{
	struct comparison *one = repository_of(all);
	struct repository_seen *seen = one->seen;

	seen->is_replaced = repository_is_replaced(all, one);
	find_changes(all, one);
	report_sink(all, one);
	if (one->step != STEP_NOTED)
		failpoint("notice.commits");
}

/* Without the record the next event has no list of changes; that is all. */
static void record_refs(const struct comparisons *all, const struct comparison *one)
{
	struct repository_seen *seen = one->seen;
	const char *data = all->kind->notice->options.data;

	const struct ref_snapshot *refs = &seen->reading.refs;
	const struct recorded_change change = { .before_sum = one->base.checksum,
						.after_sum = seen->checksum,
						.diff = &seen->diff,
						.after = refs };
	uint64_t id = one->noticed->row.id;

	if (one->observation == OBSERVATION_GONE)
		recorded_refs_remove(data, id);
	if (one->observation != OBSERVATION_WHOLE)
		return;
	known_refs_put(all->kind->notice->known, id, seen->checksum, refs);
	if (seen->has_diff && recorded_refs_append(data, id, &change))
		return;
	repository_complete(seen);
	recorded_refs_write(data, id, seen->checksum, refs, ERR_IGNORED);
}

/* The deletion of the former name; if it cannot be told now, the next scan does. */
static void notice_renamed(const struct comparisons *all, const struct comparison *one)
{
	static const struct notice_cause deleted = { .absence = ABSENCE_DELETED };
	const struct repository_seen *seen = one->seen;
	AUTO_NOTICED struct noticed noticed = { .name = seen->former.name };

	log_info("change.renamed", LOG_TEXT("repo", one->noticed->name),
		 LOG_TEXT("from", seen->former.name));
	notice_compare_one(all->kind, &deleted, &noticed, ERR_IGNORED);
}

static void repository_committed(struct comparisons *all)
{
	const struct comparison *one = repository_of(all);
	const struct repository_seen *seen = one->seen;
	const struct noticed *noticed = one->noticed;

	if (!one->is_committed)
		return;
	if (seen->is_owed)
		owed_note(all->kind->notice, noticed->name, &seen->why_owed);
	if (noticed->is_changed) {
		failpoint("notice.committed");
		record_refs(all, one);
		log_info("change.noticed", LOG_TEXT("repo", noticed->name),
			 LOG_TEXT("event", event_what_name(notice_what_of(one->step))),
			 LOG_NUMBER("event_id", noticed->event.id),
			 LOG_NUMBER("generation", noticed->row.generation));
		notice_report(all->kind->notice, &noticed->event,
			      noticed->row.verification == VERIFICATION_PENDING);
	}
	if (seen->is_replaced)
		log_info("change.replaced", LOG_TEXT("repo", noticed->name));
	if (seen->former.name && !all->cause->is_sought)
		notice_renamed(all, one);
}

static void repository_settle(const struct comparisons *all, struct comparison *one)
{
	struct repository_seen *seen = one->seen;
	struct noticed *noticed = one->noticed;

	owed_end_comparison(all->kind->notice, one);
	if (one->is_done && one->observation == OBSERVATION_WHOLE) {
		if (!seen->reading.refs.is_short) {
			noticed->refs = seen->reading.refs;
			seen->reading.refs = (struct ref_snapshot)REF_SNAPSHOT_INIT;
		}
		noticed->oid_len = seen->reading.oid_len;
		noticed->description = TAKE(seen->reading.description);
		noticed->settings = TAKE(seen->reading.settings);
	}
	repository_forget(one);
}

int notice_compare(struct notice *notice, const char *name, struct noticed *noticed,
		   struct err *err)
{
	static const struct notice_cause told = { .absence = ABSENCE_SOUGHT };
	const struct origin_kind kind = notice_origin_kind(notice);

	*noticed = (struct noticed){ .name = name };
	return notice_compare_one(&kind, &told, noticed, err);
}

int notice_compare_hint(struct notice *notice, const char *name, struct noticed *noticed,
			struct err *err)
{
	static const struct notice_cause told = { .absence = ABSENCE_SOUGHT,
						  .is_hint = true };
	const struct origin_kind kind = notice_origin_kind(notice);

	*noticed = (struct noticed){ .name = name };
	return notice_compare_one(&kind, &told, noticed, err);
}

int notice_compare_claimed(struct notice *notice, const char *name,
			   const char *claim_token, struct noticed *noticed,
			   struct err *err)
{
	const struct notice_cause claimed = { .absence = ABSENCE_SOUGHT,
					      .claim_token = claim_token };
	const struct origin_kind kind = notice_origin_kind(notice);

	*noticed = (struct noticed){ .name = name };
	return notice_compare_one(&kind, &claimed, noticed, err);
}

const struct origin_kind_ops repository_origin_ops = {
	.events = { "scan.finding", "watch.failed", "watch.not_kept" },
	.is_gone_last = true,
	.open_root = repository_open_root,
	.open = repository_scan_open,
	.close = repository_scan_close,
	.has_any = repository_scan_has_any,
	.walk = repository_scan_walk,
	.is_as_recorded = repository_scan_is_as_recorded,
	.finish = repository_scan_finish,
	.group = 1,
	.may_look = repository_may_look,
	.observe = repository_observe,
	.judge = repository_judge,
	.announce = repository_announce,
	.fill = repository_fill,
	.record = repository_record,
	.committed = repository_committed,
	.settle = repository_settle,
	.note = repository_scan_note,
};

struct origin_kind notice_origin_kind(struct notice *notice)
{
	struct kind kind = kind_of_repositories(notice->options.root);

	kind.origin = &repository_origin_ops;
	return notice_kind(notice, &kind);
}
