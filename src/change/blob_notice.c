/*
 * Blobs as kinds of the primary: a look costs no reading of the file. Its content is read
 * later, by verify/, which hands its results in here.
 *
 * A file of which nothing is recorded and which cannot be read gets no row: the scan
 * tells of it. One that has a row keeps it, with its generation and checksum: secondaries
 * keep what they have, too.
 */
#include "change/blob_notice.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "base/retry.h"
#include "blob/incoming.h"
#include "blob/walk.h"
#include "change/notice_parts.h"
#include "change/origin_root.h"
#include "replicable/name.h"

#define UPLOAD_KEEP_MS ((int64_t)24 * 3600 * 1000)
#define BLOB_GROUP 500 /* looks a transaction */

/*
 * What reading a blob's content says of its row. The fingerprint tells three cases apart
 * in which it is not what was read before:
 *
 * Its fingerprint is another, be it only by ctime: somebody wrote to it and set the time
 * back; a change, as any other.
 *
 * The fingerprint is the same to the nanosecond, and was taken long enough after the last
 * write that another one would show: nobody wrote. Then the disk has damaged it, and what
 * a secondary has is right: it is told as corrupt, and not passed on.
 *
 * An immutable one is never right with another content than its name says.
 */

/* Until one that could not be judged is looked at again. */
#define DEFERRED_MS 30000

static void set_fingerprint(struct origin_row *row,
			    const struct blob_fingerprint *fingerprint)
{
	char text[BLOB_FINGERPRINT_SIZE];

	blob_fingerprint_format(fingerprint, text);
	text_replace(&row->fingerprint, text);
	row->size = fingerprint->size;
	row->is_settled = false;
}

static void set_unread(struct origin_row *row, const struct blob_fingerprint *fingerprint)
{
	set_fingerprint(row, fingerprint);
	row->verification_due_at = clock_wall_ms();
}

static void set_proved(struct origin_row *row, const struct blob_fingerprint *fingerprint,
		       const char *digest, int64_t reverify_ms)
{
	set_fingerprint(row, fingerprint);
	text_replace(&row->checksum, digest);
	origin_row_set_failure(row, NULL);
	row->verification = VERIFICATION_SUCCEEDED;
	row->verification_retry_count = 0;
	row->verified_at = clock_wall_ms();
	row->verification_due_at = notice_next_verification(reverify_ms);
}

static void set_failed(struct origin_row *row, const struct err *why)
{
	origin_row_set_failure(row, why);
	row->verification = VERIFICATION_FAILED;
	row->verification_retry_count++;
	row->verification_due_at =
		clock_wall_ms() +
		retry_random_delay_ms((uint64_t)row->verification_retry_count, RETRY_CAP);
}

bool blob_row_is_damaged(const struct origin_row *row)
{
	return row->verification == VERIFICATION_FAILED &&
	       (row->failure_reason == REASON_WRONG_NAME ||
		row->failure_reason == REASON_DAMAGED);
}

static bool is_of_class(const struct origin_row *row, enum err_class class)
{
	return row->failure_class &&
	       strcmp(row->failure_class, err_class_name(class)) == 0;
}

/* It failed as its file could not be opened, and is not tried again yet: when somebody
 * finds that it can be, that is news. */
static bool waits_unopened(const struct origin_row *row)
{
	return row->verification == VERIFICATION_FAILED &&
	       row->verification_due_at > clock_wall_ms() &&
	       (is_of_class(row, ERR_CONFIG) || is_of_class(row, ERR_CORRUPT)) &&
	       !blob_row_is_damaged(row);
}

static void say_wrong_name(struct err *why)
{
	err_set(why, ERR_CORRUPT, "its content is not the one that its name says");
	err_because(why, REASON_WRONG_NAME);
	err_remedy(
		why,
		"put the correct file there, for example from a secondary or a backup");
}

static void say_damaged(struct err *why)
{
	err_set(why, ERR_CORRUPT,
		"its content changed without a write: the disk damaged it");
	err_because(why, REASON_DAMAGED);
	err_remedy(why,
		   "restore it from a secondary or a backup; if it is correct, touch it");
}

/* True: it is not what it was, but no change either. */
static bool is_damaged(const struct blob_kind *kind, const struct origin_row *row,
		       const struct blob_result *result, struct err *why)
{
	char claimed[BLOB_DIGEST_SIZE], text[BLOB_FINGERPRINT_SIZE];

	if (blob_id_digest(kind, row->name, claimed)) {
		if (strcmp(claimed, result->digest) != 0)
			say_wrong_name(why);
		return strcmp(claimed, result->digest) != 0;
	}
	blob_fingerprint_format(&result->fingerprint, text);
	if (!row->is_settled || !row->checksum || !row->fingerprint ||
	    strcmp(row->checksum, result->digest) == 0 ||
	    strcmp(row->fingerprint, text) != 0)
		return false;
	say_damaged(why);
	return true;
}

struct recording {
	struct notice *notice;
	const struct blob_kind *kind;
	struct blob_result *results;
	size_t count;
	struct event_mark last; /* event of these */
};

/* It was read, and is right. */
static int blob_notice_record_proof(struct store_tx *tx, struct recording *recording,
				    const struct blob_result *result,
				    struct origin_row *row, struct err *err)
{
	bool differs = row->checksum && strcmp(row->checksum, result->digest) != 0;
	bool is_news = !row->checksum || row->failure;

	row->generation += differs;
	set_proved(row, &result->fingerprint, result->digest,
		   recording->notice->reverify_ms);
	row->is_settled = result->is_settled;
	if (!differs && !is_news)
		return 0;
	return notice_append_event(tx, recording->kind->type,
				   differs ? EVENT_UPDATED : EVENT_CHECKSUMMED, row, NULL,
				   &recording->last, err);
}

/* What it says is put into the row. */
static int blob_notice_apply(struct store_tx *tx, struct recording *recording,
			     struct blob_result *result, struct origin_row *row,
			     struct err *err)
{
	result->verdict = result->why;
	if (result->is_deferred) {
		origin_row_defer(row, DEFERRED_MS, recording->notice->reverify_ms);
		return 0;
	}
	if (result->why.class == ERR_NONE &&
	    !is_damaged(recording->kind, row, result, &result->verdict))
		return blob_notice_record_proof(tx, recording, result, row, err);
	set_failed(row, &result->verdict);
	return 0;
}

static int record_one(struct store_tx *tx, struct recording *recording,
		      struct blob_result *result, struct err *err)
{
	AUTO_ORIGIN_ROW struct origin_row row = { 0 };
	int found = notice_read_again(tx, recording->kind->type, result->row->name,
				      result->row, &row, err);
	uint64_t generation = row.generation;

	if (found < 0)
		return err->class == ERR_CONFLICT ? 0 : -1;
	if (!origin_row_end_claim(&row, result->row->claim_token))
		return 0; /* another reads it by now */
	if (blob_notice_apply(tx, recording, result, &row, err) != 0)
		return -1;
	return origin_row_update(tx, &row, generation, err);
}

static int record_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct recording *recording = arg;

	recording->last = (struct event_mark){ 0 };
	for (size_t i = 0; i < recording->count; i++)
		if (record_one(tx, recording, &recording->results[i], err) != 0)
			return -1;
	return 0;
}

int blob_notice_record(struct notice *notice, const struct blob_kind *kind,
		       struct blob_result *results, size_t count, struct err *err)
{
	struct recording recording = {
		.notice = notice, .kind = kind, .results = results, .count = count
	};

	if (count == 0)
		return 0;
	failpoint("blobs.record");
	if (store_write(notice->options.store, record_work, &recording, err) != 0)
		return -1;
	failpoint("blobs.recorded");
	notice_report(notice, &recording.last, false);
	return 0;
}

/* Whether who asked knows the content of what is there. */
static const char *digest_known(const struct comparison *one)
{
	const struct blob_known *known = one->noticed->known;
	char text[BLOB_FINGERPRINT_SIZE];

	if (!known || one->observation != OBSERVATION_WHOLE)
		return NULL;
	blob_fingerprint_format(&known->fingerprint, text);
	return strcmp(text, one->fingerprint) == 0 ? known->digest : NULL;
}

/* The row is as the disk; what does the digest say that somebody knows? */
static enum origin_step step_of_digest(const struct origin_row *base, const char *digest)
{
	if (base->checksum && strcmp(base->checksum, digest) != 0)
		return STEP_UPDATED;
	if (!base->checksum || base->failure)
		return STEP_CHECKSUMMED;
	return base->verification == VERIFICATION_SUCCEEDED ? STEP_NOTHING : STEP_NOTED;
}

/* Another content; an immutable one of the same size has none. */
static bool is_another(const struct blob_kind *kind, const struct comparison *one)
{
	const char *known = one->base.fingerprint;
	const bool is_immutable = kind->layout == BLOB_LFS;
	struct blob_fingerprint before, now;

	if (!known || !blob_fingerprint_parse(known, &before) ||
	    !blob_fingerprint_parse(one->fingerprint, &now))
		return true;
	return !blob_fingerprint_same(&before, &now) &&
	       !(is_immutable && before.size == now.size);
}

static enum origin_step blob_judge(const struct comparisons *all,
				   const struct comparison *one)
{
	const struct origin_row *base = &one->base;
	const char *digest = digest_known(one);

	if (one->observation == OBSERVATION_UNREADABLE)
		return base->name && !text_is_same(base->failure, one->noticed->why.text)
			       ? STEP_NOTED
			       : STEP_NOTHING;
	if (!base->name)
		return STEP_CREATED;
	if (is_another(all->kind->of.blobs, one))
		return STEP_UPDATED;
	enum origin_step step = digest ? step_of_digest(base, digest) : STEP_NOTHING;
	bool is_news =
		strcmp(base->fingerprint, one->fingerprint) != 0 || waits_unopened(base);
	return step == STEP_NOTHING && is_news ? STEP_NOTED : step;
}

/* Another content, as far as is known; its proof is to come. */
static void put_content(const struct blob_kind *kind, struct origin_row *row)
{
	char claimed[BLOB_DIGEST_SIZE];

	text_replace(&row->checksum,
		     blob_id_digest(kind, row->name, claimed) ? claimed : NULL);
	origin_row_set_failure(row, NULL);
	row->verification = VERIFICATION_PENDING;
	row->verification_retry_count = 0;
	row->verified_at = 0;
}

static void blob_fill(struct comparisons *all, struct comparison *one,
		      struct origin_row *row)
{
	const char *digest = digest_known(one);
	struct blob_fingerprint fingerprint;

	if (one->observation == OBSERVATION_UNREADABLE) {
		origin_row_set_failure(row, &one->noticed->why);
		row->verification = VERIFICATION_FAILED;
		row->verification_due_at = clock_wall_ms();
		return;
	}
	blob_fingerprint_parse(one->fingerprint, &fingerprint);
	if (one->step == STEP_CREATED)
		text_replace(&row->path, row->name);
	if (digest) {
		set_proved(row, &fingerprint, digest, all->kind->notice->reverify_ms);
		/* What the disk damages before it is read would pass for a change. */
		if (all->kind->of.blobs->layout != BLOB_LFS)
			row->verification_due_at = clock_wall_ms();
		return;
	}
	/* No more than its links or rights changed: damaged it stays. */
	const bool stays_damaged =
		one->step == STEP_NOTED && row->is_settled && blob_row_is_damaged(row);
	set_unread(row, &fingerprint);
	row->is_settled = stays_damaged;
	if (one->step == STEP_CREATED || one->step == STEP_UPDATED)
		put_content(all->kind->of.blobs, row);
	else if (row->verification != VERIFICATION_FAILED) /* until it is read */
		row->verification = VERIFICATION_PENDING;
}

static void blob_announce(struct comparisons *all)
{
	(void)all;
	failpoint("blobs.commit");
}

static void blob_log_one(const struct origin_kind *kind, const struct comparison *one)
{
	log_debug("blob.noticed", LOG_TEXT("kind", kind->of.type),
		  LOG_TEXT("name", one->noticed->name),
		  LOG_TEXT("event", event_what_name(notice_what_of(one->step))),
		  LOG_NUMBER("event_id", one->noticed->event.id));
}

static void blob_committed(struct comparisons *all)
{
	size_t counts[EVENT_WHATS] = { 0 };
	bool is_due = false;
	struct event_mark last = { 0 };

	failpoint("blobs.committed");
	for (size_t i = 0; i < all->items.count; i++) {
		const struct comparison *one = &all->items.items[i];
		if (one->is_done || !one->is_committed)
			continue;
		is_due |= one->step != STEP_DELETED &&
			  one->noticed->row.verification_due_at <= clock_wall_ms();
		if (!one->noticed->is_changed)
			continue;
		counts[notice_what_of(one->step)]++;
		last = one->noticed->event;
		blob_log_one(all->kind, one);
	}
	if (last.id > 0)
		log_info("blobs.noticed", LOG_TEXT("kind", all->kind->of.type),
			 LOG_NUMBER("created", counts[EVENT_CREATED]),
			 LOG_NUMBER("updated", counts[EVENT_UPDATED]),
			 LOG_NUMBER("deleted", counts[EVENT_DELETED]),
			 LOG_NUMBER("event_id", last.id));
	notice_report(all->kind->notice, &last, is_due);
}

/* What the error of opening it means for its row. */
static enum observation blob_classify_failure(struct comparisons *all,
					      struct comparison *one,
					      const struct stat *st)
{
	struct noticed *noticed = one->noticed;
	struct err *why = &noticed->why;

	/* A link may lead to the file; a directory has taken its place. */
	if (S_ISDIR(st->st_mode))
		err_set(why, ERR_MISSING, "%s is a directory", noticed->name);
	if (why->class == ERR_CORRUPT || why->class == ERR_CONFIG)
		return OBSERVATION_UNREADABLE;
	if (why->class != ERR_MISSING)
		return OBSERVATION_UNKNOWN;
	return one->base.name && notice_is_away(all, noticed->name, why)
		       ? OBSERVATION_UNKNOWN
		       : OBSERVATION_GONE;
}

static void blob_observe(struct comparisons *all, struct comparison *one)
{
	struct blob_fingerprint fingerprint;
	struct stat st = { 0 };
	AUTO_CLOSE int fd = -1;
	struct err why;

	if (blob_open(all->root, one->noticed->name, &fd, &st, &why) != 0) {
		one->noticed->why = why;
		one->observation = blob_classify_failure(all, one, &st);
		return;
	}
	one->observation = OBSERVATION_WHOLE;
	blob_fingerprint_of(&st, &fingerprint);
	blob_fingerprint_format(&fingerprint, one->fingerprint);
}

static int blob_found_one(void *arg, const char *id,
			  const struct blob_fingerprint *fingerprint, struct err *err)
{
	(void)id;
	(void)fingerprint;
	*(bool *)arg = true;
	return err_set(err, ERR_CANCELED, "one is enough");
}

/* Whether there is any blob at all. */
static int blob_has_any(const struct blob_kind *kind, const struct stop *stop,
			bool *has_any, struct err *err)
{
	const struct blob_visitor visitor = { .file = blob_found_one, .arg = has_any };

	*has_any = false;
	return blob_walk(kind, &visitor, stop, err) == 0 || *has_any ? 0 : -1;
}

int blob_notice_judge_root(struct store *store, const struct blob_kind *kind,
			   struct err *err)
{
	AUTO_CLOSE int fd = blob_root_open(kind, err);
	const struct origin_root root = { store, kind->type, kind->path, fd };
	bool has_any;

	if (fd < 0 || blob_has_any(kind, NULL, &has_any, err) != 0)
		return -1;
	return has_any ? 0 : origin_root_check_known(&root, err);
}

static int blob_open_root(const struct origin_kind *kind, struct err *err)
{
	return blob_root_open(kind->of.blobs, err);
}

static int blob_scan_has_any(struct scan *scan, bool *has_any, struct err *err)
{
	return blob_has_any(scan->request->kind->of.blobs, scan->request->stop, has_any,
			    err);
}

static int blob_scan_meet(void *arg, const char *id,
			  const struct blob_fingerprint *fingerprint, struct err *err)
{
	const struct scan_item item = { .name = id, .fingerprint = fingerprint };

	return scan_meet(arg, &item, err);
}

static void blob_scan_find(void *arg, const struct blob_finding *finding)
{
	scan_find(arg, &(struct scan_finding){ .path = finding->path,
					       .why = finding->why,
					       .hides_names = finding->hides_names });
}

static void blob_scan_enter(void *arg, const char *path)
{
	scan_enter(arg, path);
}

static int blob_scan_walk(struct scan *scan, const char *below, struct err *err)
{
	const struct blob_visitor visitor = { blob_scan_meet, blob_scan_find,
					      blob_scan_enter, scan };
	const struct blob_kind *kind = scan->request->kind->of.blobs;
	const struct stop *stop = scan->request->stop;

	return *below ? blob_walk_below(kind, below, &visitor, stop, err)
		      : blob_walk(kind, &visitor, stop, err);
}

static bool blob_scan_is_as_recorded(struct scan *scan, const struct scan_item *item,
				     const struct origin_row *row)
{
	char text[BLOB_FINGERPRINT_SIZE];

	(void)scan;
	blob_fingerprint_format(item->fingerprint, text);
	return row->fingerprint && strcmp(row->fingerprint, text) == 0 &&
	       !waits_unopened(row);
}

/* What is on a file system that is away, the scan's finding of that tells. */
static void blob_scan_note(struct scan *scan, const struct noticed *noticed)
{
	const struct err *why = &noticed->why;

	scan_count(scan, noticed->is_changed);
	if (why->class == ERR_NONE || why->class == ERR_MISSING)
		return;
	if (why->class == ERR_DISK)
		scan_set_incomplete(scan);
	if (why->class == ERR_DISK && why->sys_errno == 0) /* it is away */
		return;
	if (scan_fail(scan, noticed))
		log_at(err_is_transient(why->class) ? LOG_LEVEL_WARN : LOG_LEVEL_ERROR,
		       "blob_scan.finding", LOG_ERR(why),
		       LOG_TEXT("kind", scan->request->kind->of.type),
		       LOG_TEXT("path", noticed->name));
}

static void blob_scan_finish(const struct origin_kind *kind,
			     const struct scan_result *result, int64_t took_ms)
{
	log_debug("blob_watch.scanned", LOG_NUMBER("dur_ms", took_ms),
		  LOG_TEXT("kind", kind->of.type), LOG_NUMBER("files", result->found),
		  LOG_NUMBER("looked_into", result->looked_into),
		  LOG_NUMBER("changed", result->changed));
}

/* Uploads that a crash cut off: nobody resumes them. Those under way are locked. */
static void blob_scan_tend(const struct origin_kind *kind)
{
	blob_incoming_expire(kind->of.blobs, UPLOAD_KEEP_MS);
}

const struct origin_kind_ops blob_origin_ops = {
	.events = { "blob_scan.finding", "blob_watch.failed", "blob_watch.not_kept" },
	.is_watched = true,
	.is_file = true,
	.open_root = blob_open_root,
	.has_any = blob_scan_has_any,
	.walk = blob_scan_walk,
	.is_as_recorded = blob_scan_is_as_recorded,
	.finish = blob_scan_finish,
	.tend = blob_scan_tend,
	.group = BLOB_GROUP,
	.observe = blob_observe,
	.judge = blob_judge,
	.announce = blob_announce,
	.fill = blob_fill,
	.committed = blob_committed,
	.note = blob_scan_note,
};

typedef VEC(struct noticed) noticed_list;

size_t blob_changed_render(const char *type, char *const *ids, size_t count, size_t room,
			   struct str *out)
{
	size_t at = 0;

	str_addf(out, "%s/", type);
	for (; at < count; at++) {
		if (out->len + strlen(ids[at]) + 1 > room)
			break;
		str_addf(out, "%s%s", at > 0 ? "\n" : "", ids[at]);
	}
	return at;
}

/* Cuts the text into ids. */
static int read_ids(const struct kind *kind, char *text, noticed_list *all,
		    struct err *err)
{
	char *rest = text, *id;

	while ((id = strsep(&rest, "\n")) != NULL) {
		struct noticed one = { .name = id };
		if (kind->check_name(kind, id, err) != 0)
			return -1;
		vec_add(all, one);
	}
	return 0;
}

/* That it was deleted is a change like others, if this is the first to tell. */
static bool blob_changed_is_fault(const struct noticed *noticed)
{
	return noticed->why.class != ERR_NONE &&
	       !(noticed->why.class == ERR_MISSING && noticed->is_changed);
}

static int blob_changed_compare(struct notice *notice, const struct kind *kind,
				noticed_list *all, uint64_t *event_id, struct err *err)
{
	int result = notice_compare_these(notice, kind, all->items, all->count, err);
	bool is_first = result == 0;

	for (size_t i = 0; i < all->count; i++) {
		const struct noticed *noticed = &all->items[i];
		if (noticed->event.id > *event_id)
			*event_id = noticed->event.id;
		if (!is_first || !blob_changed_is_fault(noticed))
			continue;
		*err = noticed->why;
		is_first = false;
		result = -1;
	}
	return result;
}

int blob_changed(struct notice *notice, const char *words, uint64_t *event_id,
		 struct err *err)
{
	AUTO_FREE char *text = xstrdup(words);
	char *ids = text;
	const char *type = strsep(&ids, "/");
	const struct kind *kind = kinds_find(notice->options.kinds, type);
	noticed_list all = { 0 };

	*event_id = 0;
	if (!kind || !kind->origin || kind_is_repository(type) || !ids) {
		err_set(err, ERR_CONFIG, "no blob type \"%.40s\" at this site", type);
		return err_remedy(err, "use the TYPE of a [blob \"TYPE\"] section");
	}
	int result = read_ids(kind, ids, &all, err);
	if (result == 0)
		result = blob_changed_compare(notice, kind, &all, event_id, err);
	vec_clear_each(&all, noticed_clear);
	return result;
}
