#include "pull/copy_record.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/hook_wire.h"
#include "base/json.h"
#include "base/log.h"
#include "base/metrics.h"
#include "change/origin_root.h"
#include "git/fence.h"
#include "git/repo.h"
#include "git/sound_files.h"
#include "net/site_client.h"
#include "pull/copy_watch.h"
#include "pull/mend.h"
#include "pull/repository_maintenance.h"
#include "pull/sync_repository.h"
#include "replicable/name.h"
#include "verify/verify_objects.h"

/*
 * While a row is synced, pull writes nothing to its copy; whatever it writes before, it
 * records before the row is synced. So when a synced row's copy does not look as its
 * record says, and no attempt has begun since the row was read, it was somebody else.
 */

static bool is_at_rest(const struct registry_row *row)
{
	return row->state == REGISTRY_SYNCED && !row->is_gone;
}

/* What was only stamped anew is read once. As copy_content_is_sound(). */
static int has_objects(const struct pull *pull, const struct repo *copy,
		       const struct copy_record *record, const struct copy_files *files)
{
	enum copy_stamps stamps = copy_record_compare_objects(record, files);

	if (stamps == COPY_STAMPS_LATER)
		return copy_content_is_sound(copy, record->files_changed_ns, &pull->stop,
					     ERR_IGNORED);
	return stamps == COPY_STAMPS_SAME;
}

static enum copy_verdict changed_or_maintained(const struct repo *copy,
					       const struct copy_record *record)
{
	return repository_is_maintained(copy->fd, record) ? COPY_BUSY : COPY_CHANGED;
}

/* What keeps this machine from looking now says nothing of the copy. */
static enum copy_verdict judge_failure(const struct repo *copy,
				       const struct copy_record *record,
				       const struct err *err)
{
	return err_is_of_data(err) ? changed_or_maintained(copy, record) : COPY_BUSY;
}

/* COPY_OURS, COPY_YOUNG or COPY_CHANGED; COPY_BUSY after a stop, while it is maintained,
 * and when this machine cannot look. */
static enum copy_verdict look_at_disk(struct pull *pull, const struct registry_row *row)
{
	AUTO_FREE char *path = name_to_copy(pull->options.here->root, row->name);
	AUTO_RECORD struct copy_record record = { 0 };
	AUTO_REPO struct repo copy = REPO_INIT;
	struct copy_files files;
	struct stat st;
	struct err err;

	if (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode))
		return COPY_CHANGED;
	if (repo_open(AT_FDCWD, path, &copy, &err) != 0)
		return err_is_of_data(&err) ? COPY_CHANGED : COPY_BUSY;
	copy_record_read(copy.fd, &record); /* before its files are looked at */
	if (record.is_unread)
		return COPY_BUSY;
	if (copy_files_take(copy.fd, &files, &err) != 0)
		return judge_failure(&copy, &record, &err);
	if (!copy_record_is_of_row(&record, row))
		return COPY_CHANGED;
	if (copy_files_check(copy.fd, &files, &err) != 0 ||
	    !sync_is_as_recorded(&copy, &record, &files.refs, &err))
		return judge_failure(&copy, &record, &err);
	copy_record_clear(&record);
	copy_record_read(copy.fd, &record);
	if (record.is_unread)
		return COPY_BUSY;
	int is_sound = has_objects(pull, &copy, &record, &files);
	if (is_sound <= 0)
		return is_sound < 0 ? COPY_BUSY : changed_or_maintained(&copy, &record);
	failpoint("copy.looked");
	copy_record_restamp(copy.fd, &record, &files);
	return record.is_settled ? COPY_OURS : COPY_YOUNG;
}

static int copy_judge_read_row(struct pull *pull, const char *name,
			       struct registry_row *row, struct err *err)
{
	if (registry_get(pull->options.store, KIND_REPOSITORY, name, row, err) == 0 ||
	    err->class == ERR_MISSING)
		return 0;
	return -1;
}

int copy_judge(struct pull *pull, const char *name, enum copy_verdict *verdict,
	       struct err *err)
{
	AUTO_REGISTRY_ROW struct registry_row before = { 0 }, after = { 0 };

	if (copy_judge_read_row(pull, name, &before, err) != 0)
		return -1;
	if (!before.name)
		*verdict = COPY_UNKNOWN;
	else if (before.state == REGISTRY_STARTED)
		*verdict = COPY_BUSY;
	else if (!is_at_rest(&before))
		*verdict = COPY_AWAITED;
	else if ((*verdict = look_at_disk(pull, &before)) != COPY_CHANGED)
		return 0;
	else if (copy_judge_read_row(pull, name, &after, err) != 0)
		return -1;
	else
		*verdict = after.name && is_at_rest(&after) &&
					   after.last_attempt_at == before.last_attempt_at
				   ? COPY_CHANGED
				   : COPY_BUSY;
	return 0;
}

void copy_record_count_changes(size_t count)
{
	struct metric *changes = metric_counter(
		"refrelay_copy_changes_total",
		"Changes of copies by others than refrelay that were noticed.");

	metric_add(metric_at(changes), (double)count);
}

static bool was_cut_off(const struct pull *pull, const char *name)
{
	AUTO_FREE char *path = name_to_copy(pull->options.here->root, name);
	AUTO_CLOSE int dir = dir_open(AT_FDCWD, path, ERR_IGNORED);

	return dir >= 0 && repository_was_cut_off(dir);
}

int copy_doubt(struct pull *pull, const char *name, struct err *err)
{
	struct err why;

	if (pull_check_copy(pull, KIND_REPOSITORY, name, err) != 0)
		return -1;
	if (was_cut_off(pull, name)) {
		err_set(&why, ERR_CONFLICT, "maintenance of the copy was cut off");
	} else {
		err_set(&why, ERR_CONFLICT, "another program changed the copy on disk");
		copy_record_count_changes(1);
		log_warn("copy.changed", LOG_TEXT("repo", name));
	}
	pull_doubt(pull, KIND_REPOSITORY, name, &why);
	return 0;
}

struct sounding {
	const struct repo *copy;
	int64_t since_ns;
	const struct stop *stop;
};

/* What has vanished, or cannot be looked at, is for others to find. */
static bool was_stamped(int dir, const char *name, int64_t since_ns, struct stat *st)
{
	return fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st->st_mode) &&
	       clock_ns(&st->st_ctim) > since_ns;
}

static int is_file_sound(int dir, const char *name, const struct sounding *sounding,
			 struct err *err)
{
	struct stat st;

	if (!was_stamped(dir, name, sounding->since_ns, &st) || sound_file_is(&st))
		return 1;
	int sound = verify_ends_with_digest(dir, name, sounding->copy->oid_len,
					    sounding->stop, err);
	if (sound > 0)
		sound_file_note(&st);
	else if (sound == 0)
		sound_file_fail(&st);
	return sound;
}

/* Those that do not end in a digest, and that no object is in. Lists of names are text; a
 * wrong one costs Git no more than what it lists. */
static bool copy_content_is_other(const char *name)
{
	return text_starts_with(name, "tmp_") || text_starts_with(name, ".tmp-") ||
	       text_ends_with(name, ".keep") || strcmp(name, "packs") == 0 ||
	       strcmp(name, "commit-graph-chain") == 0 ||
	       strcmp(name, "multi-pack-index-chain") == 0;
}

/* As of a file that cannot be read. */
static int copy_content_fail(const char *folder, struct err *err)
{
	if (dir_is_absent(errno))
		return 1;
	err_errno(err, "cannot list %s", folder);
	return err_is_of_data(err) ? 0 : -1;
}

static int is_folder_sound(const struct sounding *sounding, const char *folder,
			   struct err *err)
{
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *list = dir_list(sounding->copy->fd, folder);
	int sound = 1;

	if (!list)
		return copy_content_fail(folder, err);
	while (sound > 0 && (errno = 0, (entry = readdir(list)) != NULL))
		if (!copy_content_is_other(entry->d_name))
			sound = is_file_sound(dirfd(list), entry->d_name, sounding, err);
	return sound > 0 && errno != 0 ? copy_content_fail(folder, err) : sound;
}

int copy_content_is_sound(const struct repo *copy, int64_t since_ns,
			  const struct stop *stop, struct err *err)
{
	static const char *const folders[] = { "objects/pack", "objects/info",
					       "objects/info/commit-graphs",
					       "objects/pack/multi-pack-index.d" };
	const struct sounding sounding = { copy, since_ns, stop };
	int sound = 1;

	for (size_t i = 0; i < ARRAY_SIZE(folders) && sound > 0; i++)
		sound = is_folder_sound(&sounding, folders[i], err);
	return sound;
}

#define PATH HOOK_COPY_RECORD
#define INTENT "refrelay/intent"
#define HELD "refrelay/held"
#define LIMIT 65536

static void copy_fingerprint(const json_t *object, const char *key,
			     char text[FINGERPRINT_TEXT_SIZE])
{
	const char *value = json_string_value(json_object_get(object, key));

	if (value && strlen(value) == FINGERPRINT_TEXT_SIZE - 1)
		memcpy(text, value, FINGERPRINT_TEXT_SIZE);
}

static void copy_record_number(const json_t *object, const char *key, uint64_t *number)
{
	json_int_t value = json_integer_value(json_object_get(object, key));

	*number = value > 0 ? (uint64_t)value : 0;
}

/* Both or none. */
static void copy_generation(const json_t *object, struct copy_record *record)
{
	const char *timeline = json_string_value(json_object_get(object, "timeline"));
	json_int_t generation = json_integer_value(json_object_get(object, "generation"));

	if (!timeline || strlen(timeline) != TIMELINE_SIZE - 1 || generation <= 0)
		return;
	memcpy(record->timeline, timeline, TIMELINE_SIZE);
	record->generation = (uint64_t)generation;
	const char *log = json_string_value(json_object_get(object, "log"));
	if (log && strlen(log) == TIMELINE_SIZE - 1)
		memcpy(record->log, log, TIMELINE_SIZE);
	record->is_foreign = json_is_true(json_object_get(object, "foreign"));
	copy_record_number(object, "pushed_deletions", &record->pushed);
}

static void copy_record_text_of(const json_t *object, const char *key, char **text)
{
	const char *value = json_string_value(json_object_get(object, key));

	*text = value ? xstrdup(value) : NULL;
}

/* The lengths of texts are multiples of this, so that one seldom has another length than
 * the one before, which it is written over. An earlier version's end in no digest, and
 * were renamed into place. */
#define STEP 64
#define DIGEST_LINE (2 * HASH_MAX_SIZE + 1)

_Static_assert(HASH_MAX_SIZE == 32, "digests of records are SHA-256");

static void copy_record_add_digest(struct str *text)
{
	AUTO_HASH struct hash hash;
	unsigned char digest[HASH_MAX_SIZE];

	while ((text->len + 1 + DIGEST_LINE) % STEP != 0)
		str_add_char(text, ' ');
	str_add_char(text, '\n');
	hash_init(&hash, HASH_SHA256);
	hash_add(&hash, text->data, text->len);
	hash_end(&hash, digest);
	str_add_hex(text, digest, sizeof(digest));
	str_add_char(text, '\n');
}

/* Takes the digest off. */
static bool copy_record_is_whole(struct str *text)
{
	AUTO_STR struct str right = STR_INIT;

	if (text_ends_with(text->data, "}\n") || text_ends_with(text->data, "}"))
		return true;
	if (text->len <= DIGEST_LINE)
		return false;
	str_add_bytes(&right, text->data, text->len - DIGEST_LINE - 1);
	copy_record_add_digest(&right);
	bool is_whole =
		right.len == text->len && memcmp(right.data, text->data, text->len) == 0;
	str_truncate(text, text->len - DIGEST_LINE);
	return is_whole;
}

/* Whoever writes it at this moment may have lost the processor in the middle of that. */
static int copy_record_read_text(int dir, struct str *text, struct copy_record *record,
				 struct err *err)
{
	for (useconds_t rest = 10; rest <= 10000; rest *= 10) {
		if (rest > 10)
			usleep(rest);
		str_truncate(text, 0);
		if (file_read(dir, PATH, LIMIT, text, err) != 0)
			return -1;
		if (text->len >= sizeof(record->end))
			memcpy(record->end, text->data + text->len - sizeof(record->end),
			       sizeof(record->end));
		if (copy_record_is_whole(text))
			return 0;
	}
	return err_set(err, ERR_CORRUPT, "%s is torn", PATH);
}

static void copy_record_parse(const json_t *object, struct copy_record *record)
{
	AUTO_STR struct str source = STR_INIT;
	const char *sum = json_string_value(json_object_get(object, "checksum"));

	if (!sum || !checksum_parse(sum, &record->sum) ||
	    json_get_bytes(object, "source", &source, ERR_IGNORED) != 0)
		return;
	sum = json_string_value(json_object_get(object, "refs_checksum"));
	if (!sum || !checksum_parse(sum, &record->refs_sum))
		record->refs_sum = record->sum;
	record->source = str_take(&source);
	copy_fingerprint(object, "source_fingerprint", record->source_fingerprint);
	copy_fingerprint(object, "copy_fingerprint", record->copy_fingerprint);
	record->copy_newest_ns =
		json_integer_value(json_object_get(object, "copy_newest"));
	copy_fingerprint(object, "files_fingerprint", record->files_fingerprint);
	copy_fingerprint(object, "objects_fingerprint", record->objects_fingerprint);
	record->files_changed_ns =
		json_integer_value(json_object_get(object, "files_changed"));
	record->is_settled = json_is_true(json_object_get(object, "settled"));
	copy_generation(object, record);
	copy_record_number(object, "fence", &record->fence);
	copy_record_text_of(object, "directory", &record->directory);
	record->is_there = true;
}

void copy_record_read(int dir, struct copy_record *record)
{
	AUTO_STR struct str text = STR_INIT;
	struct err err;

	*record = (struct copy_record){ 0 };
	if (copy_record_read_text(dir, &text, record, &err) != 0) {
		record->is_unread = !err_is_of_data(&err);
		record->is_kept_back =
			err.class != ERR_MISSING && err.class != ERR_CORRUPT;
		return;
	}
	json_auto_t *object = json_parse_object(text.data, text.len, LIMIT, ERR_IGNORED);
	copy_record_parse(object, record);
}

static void put_fingerprint(json_t *object, const char *key, const char *fingerprint)
{
	if (fingerprint[0])
		json_put_text(object, key, fingerprint);
}

static int copy_record_put(int dir, const struct copy_record *record, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	json_auto_t *object = json_object();
	char sum_text[CHECKSUM_TEXT_SIZE];
	AUTO_FREE char *directory = identity_of(dir, "");

	checksum_format(&record->sum, sum_text);
	json_put_text(object, "source", record->source);
	json_put_text(object, "checksum", sum_text);
	if (!checksum_equal(&record->sum, &record->refs_sum)) {
		checksum_format(&record->refs_sum, sum_text);
		json_put_text(object, "refs_checksum", sum_text);
	}
	put_fingerprint(object, "source_fingerprint", record->source_fingerprint);
	put_fingerprint(object, "copy_fingerprint", record->copy_fingerprint);
	json_put_number(object, "copy_newest", record->copy_newest_ns);
	put_fingerprint(object, "files_fingerprint", record->files_fingerprint);
	put_fingerprint(object, "objects_fingerprint", record->objects_fingerprint);
	if (record->files_changed_ns > 0)
		json_put_number(object, "files_changed", record->files_changed_ns);
	json_put_bool(object, "settled", record->is_settled);
	if (record->timeline[0]) {
		json_put_text(object, "timeline", record->timeline);
		json_put_number(object, "generation", (int64_t)record->generation);
		if (record->log[0])
			json_put_text(object, "log", record->log);
		if (record->is_foreign)
			json_put_bool(object, "foreign", true);
		json_put_number(object, "pushed_deletions", (int64_t)record->pushed);
	}
	if (record->fence > 0)
		json_put_number(object, "fence", (int64_t)record->fence);
	if (directory)
		json_put_text(object, "directory", directory);
	json_render(object, &text);
	copy_record_add_digest(&text);
	return file_overwrite(dir, PATH, text.data, text.len, FILE_ORDERED, err);
}

int copy_files_take(int dir, struct copy_files *files, struct err *err)
{
	return fingerprint_take_files(dir, &files->all, &files->objects, &files->refs,
				      err);
}

int copy_files_check(int dir, const struct copy_files *files, struct err *err)
{
	const struct fingerprint *refs = &files->refs;

	if (refs->is_diverted && repo_check_diversions(dir, err) != 0)
		return -1;
	return refs->has_links || refs->has_others ? mend_check_refs(dir, err) : 0;
}

static void take_over_files(struct copy_record *record, const struct copy_files *files)
{
	fingerprint_format(&files->all, record->files_fingerprint);
	fingerprint_format(&files->objects, record->objects_fingerprint);
	record->files_changed_ns =
		int64_max(files->all.changed_ns, files->objects.changed_ns);
}

int copy_record_write(int dir, const struct copy_proof *proof, struct err *err)
{
	const struct fingerprint *refs =
		proof->copy_fingerprint ? proof->copy_fingerprint : &proof->files->refs;
	AUTO_RECORD struct copy_record record = {
		.source = xstrdup(proof->source),
		.sum = *proof->sum,
		.refs_sum = proof->refs_sum ? *proof->refs_sum : *proof->sum,
		.copy_newest_ns = refs->newest_ns,
		.is_settled = (!proof->source_fingerprint ||
			       fingerprint_is_settled(proof->source_fingerprint)) &&
			      fingerprint_is_settled(refs),
		.generation = proof->generation,
		.is_foreign = proof->is_foreign,
		.pushed = proof->pushed,
		.fence = proof->fence,
	};

	fingerprint_format(refs, record.copy_fingerprint);
	if (proof->source_fingerprint)
		fingerprint_format(proof->source_fingerprint, record.source_fingerprint);
	if (proof->files)
		take_over_files(&record, proof->files);
	if (proof->timeline)
		snprintf(record.timeline, sizeof(record.timeline), "%s", proof->timeline);
	if (proof->log)
		snprintf(record.log, sizeof(record.log), "%s", proof->log);
	return copy_record_put(dir, &record, err);
}

int copy_record_settle(int dir, const struct copy_record *record,
		       const struct fingerprint *copy_fingerprint, struct err *err)
{
	struct copy_record now = *record;

	now.source_fingerprint[0] = '\0';
	fingerprint_format(copy_fingerprint, now.copy_fingerprint);
	now.copy_newest_ns = copy_fingerprint->newest_ns;
	now.is_settled = fingerprint_is_settled(copy_fingerprint);
	return copy_record_put(dir, &now, err);
}

/* Always of the same length, as it is written over what is there. */
int copy_intent_write(int dir, const struct checksum *sums, size_t count, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	char line[CHECKSUM_TEXT_SIZE];

	for (size_t i = 0; i < COPY_INTENTS_MOST; i++) {
		checksum_format(&sums[i < count ? i : count - 1], line);
		str_addf(&text, "%s\n", line);
	}
	return file_overwrite(dir, INTENT, text.data, text.len, FILE_ORDERED, err);
}

bool copy_intent_is(int dir, const struct copy_record *record, const struct checksum *sum)
{
	AUTO_STR struct str text = STR_INIT;
	struct checksum intent;
	char *rest, *line;

	if (file_read(dir, INTENT, LIMIT, &text, ERR_IGNORED) != 0)
		return false;
	rest = text.data;
	while ((line = strsep(&rest, "\n")) != NULL && checksum_parse(line, &intent)) {
		if (checksum_equal(&intent, sum))
			return true;
		if (record->is_there && line == text.data &&
		    checksum_equal(&intent, &record->refs_sum))
			return false;
	}
	return false;
}

int copy_held_write(int dir, const struct copy_held *held, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	char sum[CHECKSUM_TEXT_SIZE];

	checksum_format(&held->refs_sum, sum);
	str_addf(&text, "%s\n%" PRIu64 "\n%s", sum, held->deletions,
		 held->has_commits ? "commits\n" : "");
	return file_replace(dir, HELD, text.data, text.len, FILE_SYNC, err);
}

int copy_held_read(int dir, struct copy_held *held, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	char *rest, *sum, *deletions;

	*held = (struct copy_held){ 0 };
	if (file_read(dir, HELD, LIMIT, &text, err) != 0)
		return err->class == ERR_MISSING ? 0 : -1;
	rest = text.data;
	sum = strsep(&rest, "\n");
	deletions = strsep(&rest, "\n");
	if (!deletions || !checksum_parse(sum, &held->refs_sum) ||
	    !text_to_uint64(deletions, &held->deletions))
		*held = (struct copy_held){ 0 };
	else
		held->has_commits = rest && strcmp(rest, "commits\n") == 0;
	return 1;
}

void copy_held_remove(int dir)
{
	unlinkat(dir, HELD, 0);
}

void copy_record_clear(struct copy_record *record)
{
	free(record->source);
	free(record->directory);
	*record = (struct copy_record){ 0 };
}

static bool same_fingerprint(const char *recorded, const struct fingerprint *fingerprint)
{
	char text[FINGERPRINT_TEXT_SIZE];

	fingerprint_format(fingerprint, text);
	return strcmp(recorded, text) == 0;
}

bool copy_record_has_refs(const struct copy_record *record, const struct repo *copy,
			  struct err *err)
{
	AUTO_SNAPSHOT struct ref_snapshot found = REF_SNAPSHOT_INIT;
	struct checksum sum;

	if (record->is_there &&
	    ref_snapshot_read(copy->fd, copy->oid_len, &found, err) != 0)
		return false;
	checksum_of(&found, &sum);
	if (record->is_there && checksum_equal(&sum, &record->sum))
		return true;
	err_set(err, ERR_CORRUPT, "the refs are not those of the record");
	return false;
}

bool copy_record_is_latest(const struct copy_record *record, int dir)
{
	uint64_t fence;

	return record->is_there && record->fence > 0 &&
	       fence_read(dir, &fence, ERR_IGNORED) == 0 && fence == record->fence;
}

/* A job raises the fence before it changes anything, and records what came of it at its
 * end: between a look at both here and a write no job finds the time for all of it. */
bool copy_record_stands(const struct copy_record *record, int dir)
{
	AUTO_RECORD struct copy_record now = { 0 };

	copy_record_read(dir, &now);
	return now.is_there && memcmp(now.end, record->end, sizeof(now.end)) == 0 &&
	       (now.fence == 0 || copy_record_is_latest(&now, dir));
}

bool copy_record_is_of(const struct copy_record *record, int dir, const char *source)
{
	AUTO_REPO struct repo copy = REPO_INIT;
	AUTO_FREE char *directory = identity_of(dir, "");

	return record->is_there && record->directory && directory &&
	       strcmp(record->directory, directory) == 0 &&
	       strcmp(record->source, source) == 0 &&
	       repo_open(dir, ".", &copy, ERR_IGNORED) == 0 &&
	       copy_record_has_refs(record, &copy, ERR_IGNORED);
}

bool copy_record_has_copy(const struct copy_record *record,
			  const struct fingerprint *copy_fingerprint_now)
{
	return record->is_there &&
	       same_fingerprint(record->copy_fingerprint, copy_fingerprint_now);
}

/* ctime cannot be set back. What must be there and is not has changed. */
static bool has_file(const struct copy_record *record, int dir, const char *name,
		     bool may_be_absent)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return may_be_absent && errno == ENOENT;
	return clock_ns(&st.st_ctim) <= record->copy_newest_ns &&
	       clock_ns(&st.st_mtim) <= record->copy_newest_ns;
}

bool copy_record_has_settings(const struct copy_record *record, int dir)
{
	static const char *const files[] = { "HEAD", "config", "description" };
	static const char *const more[] = { "packed-refs", "shallow", "config.worktree" };

	if (!record->is_settled || record->copy_newest_ns == 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (!has_file(record, dir, files[i], false))
			return false;
	for (size_t i = 0; i < ARRAY_SIZE(more); i++)
		if (!has_file(record, dir, more[i], true))
			return false;
	return true;
}

bool copy_record_has_files(const struct copy_record *record, int dir)
{
	return copy_record_has_settings(record, dir) &&
	       has_file(record, dir, "objects/pack", false);
}

/* An older version recorded less. */
static enum copy_stamps copy_record_compare(const struct copy_record *record,
					    const char *recorded,
					    const struct fingerprint *now)
{
	if (!recorded[0])
		return COPY_STAMPS_SAME;
	if (!same_fingerprint(recorded, now))
		return COPY_STAMPS_OTHER;
	return record->files_changed_ns > 0 && now->changed_ns > record->files_changed_ns
		       ? COPY_STAMPS_LATER
		       : COPY_STAMPS_SAME;
}

enum copy_stamps copy_record_compare_objects(const struct copy_record *record,
					     const struct copy_files *now)
{
	return copy_record_compare(record, record->objects_fingerprint, &now->objects);
}

static enum copy_stamps copy_record_look_at_files(const struct copy_record *record,
						  int dir)
{
	struct copy_files files;
	struct err err;

	if (copy_files_take(dir, &files, &err) != 0)
		return err_is_of_data(&err) ? COPY_STAMPS_OTHER : COPY_STAMPS_UNKNOWN;
	enum copy_stamps all =
		copy_record_compare(record, record->files_fingerprint, &files.all);
	enum copy_stamps objects =
		copy_record_compare(record, record->objects_fingerprint, &files.objects);
	return all > objects ? all : objects;
}

enum copy_stamps copy_record_look(const struct copy_record *record, int dir)
{
	struct fingerprint fingerprint;
	struct err err;

	if (!record->is_there)
		return record->is_unread ? COPY_STAMPS_UNKNOWN : COPY_STAMPS_SAME;
	if (record->files_fingerprint[0])
		return copy_record_look_at_files(record, dir);
	if (fingerprint_take(dir, FINGERPRINT_COPY, &fingerprint, &err) != 0)
		return err_is_of_data(&err) ? COPY_STAMPS_OTHER : COPY_STAMPS_UNKNOWN;
	return same_fingerprint(record->copy_fingerprint, &fingerprint)
		       ? COPY_STAMPS_SAME
		       : COPY_STAMPS_OTHER;
}

void copy_record_restamp(int dir, const struct copy_record *record,
			 const struct copy_files *files)
{
	struct copy_record now = *record;

	take_over_files(&now, files);
	bool is_same = strcmp(now.files_fingerprint, record->files_fingerprint) == 0;
	bool is_due = is_same ? strcmp(now.objects_fingerprint,
				       record->objects_fingerprint) != 0 ||
					now.files_changed_ns != record->files_changed_ns
			      : record->objects_fingerprint[0];
	if (is_due && copy_record_stands(record, dir))
		copy_record_put(dir, &now, ERR_IGNORED);
}

void copy_record_renew(int dir, struct copy_record *record)
{
	struct copy_files files;

	if (!record->is_there || record->source_fingerprint[0] ||
	    copy_files_take(dir, &files, ERR_IGNORED) != 0 ||
	    copy_files_check(dir, &files, ERR_IGNORED) != 0)
		return;
	take_over_files(record, &files);
	copy_record_settle(dir, record, &files.refs, ERR_IGNORED);
}

bool copy_record_proves(const struct copy_record *record, const char *source,
			const struct fingerprint *source_fingerprint,
			const struct fingerprint *copy_fingerprint_now)
{
	return record->is_settled && copy_record_has_copy(record, copy_fingerprint_now) &&
	       strcmp(record->source, source) == 0 &&
	       same_fingerprint(record->source_fingerprint, source_fingerprint);
}

/* The record of another timeline is of a primary that was restored since: what it says is
 * found by the sync that this asked for. */
static bool is_of_generation(const struct copy_record *record,
			     const struct registry_row *row)
{
	return strcmp(record->timeline, row->timeline) != 0 ||
	       record->generation == row->generation;
}

bool copy_record_is_of_name(const struct copy_record *record, const char *name)
{
	AUTO_STR struct str end = STR_INIT;

	url_add_path(&end, name);
	str_add(&end, ".git");
	return text_ends_with(record->source, end.data);
}

bool copy_record_is_of_row(const struct copy_record *record,
			   const struct registry_row *row)
{
	char sum[CHECKSUM_TEXT_SIZE];

	if (!record->is_there || !copy_record_is_of_name(record, row->name))
		return false;
	checksum_format(&record->sum, sum);
	return (!row->checksum || strcmp(row->checksum, sum) == 0) &&
	       is_of_generation(record, row);
}
