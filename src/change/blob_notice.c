/*
 * Order: rows are read before the disk, so that what the disk said is never older than
 * the row; then the transaction, which leaves out those whose row is another by then, and
 * they are looked at anew.
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
#include "change/blob_notice_parts.h"
#include "change/origin_root.h"
#include "replicable/name.h"

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
	origin_row_set_text(&row->fingerprint, text);
	row->size = fingerprint->size;
	row->is_settled = false;
}

void blob_row_set_unread(struct origin_row *row,
			 const struct blob_fingerprint *fingerprint)
{
	set_fingerprint(row, fingerprint);
	row->verification_due_at = clock_wall_ms();
}

/* Between half of the interval and all of it, so that a thousand that came at once are
 * not read again at once. */
static int64_t next_verification(int64_t reverify_ms)
{
	char digits[9];

	random_hex(digits, 4);
	uint64_t share = strtoul(digits, NULL, 16) & 0xffff;
	return clock_wall_ms() + reverify_ms / 2 +
	       (int64_t)((uint64_t)reverify_ms / 2 * share / 0xffff);
}

void blob_row_set_proved(struct origin_row *row,
			 const struct blob_fingerprint *fingerprint, const char *digest,
			 int64_t reverify_ms)
{
	set_fingerprint(row, fingerprint);
	origin_row_set_text(&row->checksum, digest);
	origin_row_set_failure(row, NULL);
	row->verification = VERIFICATION_SUCCEEDED;
	row->verification_retry_count = 0;
	row->verified_at = clock_wall_ms();
	row->verification_due_at = next_verification(reverify_ms);
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

static bool is_of_class(const struct origin_row *row, enum err_class class)
{
	return row->failure_class &&
	       strcmp(row->failure_class, err_class_name(class)) == 0;
}

bool blob_row_is_damaged(const struct origin_row *row)
{
	return row->verification == VERIFICATION_FAILED &&
	       (row->failure_reason == REASON_WRONG_NAME ||
		row->failure_reason == REASON_DAMAGED);
}

bool blob_row_waits_unopened(const struct origin_row *row)
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
	err_remedy(why, "put the right file there, as from a secondary or a backup");
}

static void say_damaged(struct err *why)
{
	err_set(why, ERR_CORRUPT,
		"its content is not what it was, although nobody has written to it: the "
		"disk has damaged it");
	err_because(why, REASON_DAMAGED);
	err_remedy(why, "put it back from a secondary or a backup; if it is right, touch "
			"it");
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
	struct blob_notice *notice;
	const struct blob_kind *kind;
	struct blob_result *results;
	size_t count, events;
};

/* It was read, and is right. */
static int blob_notice_result_record_proof(struct store_tx *tx,
					   struct recording *recording,
					   const struct blob_result *result,
					   struct origin_row *row, struct err *err)
{
	bool differs = row->checksum && strcmp(row->checksum, result->digest) != 0;
	bool is_news = !row->checksum || row->failure;
	uint64_t event_id;

	row->generation += differs;
	blob_row_set_proved(row, &result->fingerprint, result->digest,
			    recording->notice->options.reverify_ms);
	row->is_settled = result->is_settled;
	if (!differs && !is_news)
		return 0;
	recording->events++;
	return blob_event_append(tx, recording->kind,
				 differs ? EVENT_UPDATED : EVENT_CHECKSUMMED, row,
				 &event_id, err);
}

/* What it says is put into the row. */
static int blob_notice_result_apply(struct store_tx *tx, struct recording *recording,
				    struct blob_result *result, struct origin_row *row,
				    struct err *err)
{
	result->verdict = result->why;
	if (result->is_deferred) {
		row->verification_due_at = clock_wall_ms() + DEFERRED_MS;
		return 0;
	}
	if (result->why.class == ERR_NONE &&
	    !is_damaged(recording->kind, row, result, &result->verdict))
		return blob_notice_result_record_proof(tx, recording, result, row, err);
	set_failed(row, &result->verdict);
	return 0;
}

static int record_one(struct store_tx *tx, struct recording *recording,
		      struct blob_result *result, struct err *err)
{
	AUTO_ORIGIN_ROW struct origin_row row = { 0 };
	int found = blob_row_read_again(tx, recording->kind, result->row->name,
					result->row, &row, err);
	uint64_t generation = row.generation;

	if (found < 0)
		return err->class == ERR_CONFLICT ? 0 : -1;
	if (!origin_row_end_claim(&row, result->row->claim_token))
		return 0; /* another reads it by now */
	if (blob_notice_result_apply(tx, recording, result, &row, err) != 0)
		return -1;
	return origin_row_update(tx, &row, generation, err);
}

static int record_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct recording *recording = arg;

	recording->events = 0;
	for (size_t i = 0; i < recording->count; i++)
		if (record_one(tx, recording, &recording->results[i], err) != 0)
			return -1;
	return 0;
}

int blob_notice_record(struct blob_notice *notice, const struct blob_kind *kind,
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
	blob_notice_report(notice, recording.events > 0, false);
	return 0;
}

/*
 * What becomes of a row is decided by the row that was read before the disk, and written
 * only if the row is still that one, its fingerprint included: a look at an older disk
 * can then never undo what a look at a newer disk has recorded.
 */

static bool blob_notice_commit_is_same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* What is to become of the row. */
enum step {
	STEP_NOTHING,
	STEP_NOTED, /* without an event */
	STEP_CREATED,
	STEP_UPDATED,
	STEP_CHECKSUMMED,
	STEP_DELETED,
};

/* Whether who asked knows the content of what is there. */
static const char *digest_known(const struct blob_comparison *comparison)
{
	const struct blob_known *known = comparison->look->known;
	char text[BLOB_FINGERPRINT_SIZE];

	if (!known || comparison->observation != BLOB_THERE)
		return NULL;
	blob_fingerprint_format(&known->fingerprint, text);
	return strcmp(text, comparison->text) == 0 ? known->digest : NULL;
}

static bool is_immutable(const struct blob_kind *kind)
{
	return kind->layout == BLOB_LFS;
}

/* The row is as the disk; what does the digest say that somebody knows? */
static enum step step_of_digest(const struct origin_row *base, const char *digest)
{
	if (base->checksum && strcmp(base->checksum, digest) != 0)
		return STEP_UPDATED;
	if (!base->checksum || base->failure)
		return STEP_CHECKSUMMED;
	return base->verification == VERIFICATION_SUCCEEDED ? STEP_NOTHING : STEP_NOTED;
}

static enum step step_of_file(const struct blob_kind *kind,
			      const struct blob_comparison *comparison)
{
	const struct origin_row *base = &comparison->base;
	const char *digest = digest_known(comparison);
	struct blob_fingerprint before;

	if (!base->name)
		return STEP_CREATED;
	bool is_known =
		base->fingerprint && blob_fingerprint_parse(base->fingerprint, &before);
	if (!is_known ||
	    (!blob_fingerprint_same(&before, &comparison->fingerprint) &&
	     !(is_immutable(kind) && before.size == comparison->fingerprint.size)))
		return STEP_UPDATED;
	bool is_same = strcmp(base->fingerprint, comparison->text) == 0;
	enum step step = digest ? step_of_digest(base, digest) : STEP_NOTHING;
	bool is_news = !is_same || blob_row_waits_unopened(base);
	return step == STEP_NOTHING && is_news ? STEP_NOTED : step;
}

static enum step step_of(const struct blob_kind *kind,
			 const struct blob_comparison *comparison)
{
	const struct origin_row *base = &comparison->base;

	switch (comparison->observation) {
	case BLOB_GONE:
		return base->name ? STEP_DELETED : STEP_NOTHING;
	case BLOB_UNREADABLE:
		return base->name && !blob_notice_commit_is_same_text(
					     base->failure, comparison->look->why.text)
			       ? STEP_NOTED
			       : STEP_NOTHING;
	case BLOB_THERE:
		return step_of_file(kind, comparison);
	case BLOB_UNKNOWN:
		break;
	}
	return STEP_NOTHING;
}

bool blob_comparison_differs(const struct blob_kind *kind,
			     const struct blob_comparison *comparison)
{
	return step_of(kind, comparison) != STEP_NOTHING;
}

int blob_row_read_again(struct store_tx *tx, const struct blob_kind *kind, const char *id,
			const struct origin_row *base, struct origin_row *row,
			struct err *err)
{
	int found = origin_row_get(tx, kind->type, id, row, err);

	if (found < 0)
		return -1;
	if (found == (base->name != NULL) &&
	    (!found ||
	     (strcmp(row->timeline, base->timeline) == 0 &&
	      row->generation == base->generation &&
	      blob_notice_commit_is_same_text(row->checksum, base->checksum) &&
	      blob_notice_commit_is_same_text(row->fingerprint, base->fingerprint))))
		return found;
	return err_set(err, ERR_CONFLICT, "%.300s: its record changes all the time", id);
}

static void blob_notice_commit_put_birth(const struct blob_kind *kind, const char *id,
					 struct origin_row *row)
{
	row->id = replicable_id(kind->type, id);
	origin_row_set_text(&row->name, id);
	origin_row_set_text(&row->path, id);
	random_hex(row->timeline, (TIMELINE_SIZE - 1) / 2);
}

/* Another content, as far as is known. */
static void put_content(const struct blob_notice *notice, const struct blob_kind *kind,
			struct blob_comparison *comparison, struct origin_row *row)
{
	const char *digest = digest_known(comparison);
	char claimed[BLOB_DIGEST_SIZE];

	if (digest) {
		blob_row_set_proved(row, &comparison->fingerprint, digest,
				    notice->options.reverify_ms);
		return;
	}
	blob_row_set_unread(row, &comparison->fingerprint);
	origin_row_set_text(&row->checksum,
			    blob_id_digest(kind, row->name, claimed) ? claimed : NULL);
	origin_row_set_failure(row, NULL);
	row->verification = VERIFICATION_PENDING;
	row->verification_retry_count = 0;
	row->verified_at = 0;
}

/* The same generation, but its proof is void, or new. */
static void put_note(const struct blob_notice *notice, struct blob_comparison *comparison,
		     struct origin_row *row)
{
	const char *digest = digest_known(comparison);

	if (comparison->observation == BLOB_UNREADABLE) {
		origin_row_set_failure(row, &comparison->look->why);
		row->verification = VERIFICATION_FAILED;
		row->verification_due_at = clock_wall_ms();
	} else if (digest) {
		blob_row_set_proved(row, &comparison->fingerprint, digest,
				    notice->options.reverify_ms);
	} else {
		blob_row_set_unread(row, &comparison->fingerprint);
		if (row->verification != VERIFICATION_FAILED) /* until it is read */
			row->verification = VERIFICATION_PENDING;
	}
}

int blob_event_append(struct store_tx *tx, const struct blob_kind *kind,
		      enum event_what what, struct origin_row *row, uint64_t *event_id,
		      struct err *err)
{
	struct event event = {
		.kind = kind->type,
		.name = row->name,
		.what = what,
		.generation = row->generation,
		.size = what == EVENT_DELETED ? 0 : row->size,
		.checksum = what == EVENT_DELETED ? NULL : row->checksum,
	};

	memcpy(event.timeline, row->timeline, sizeof(event.timeline));
	if (event_log_append(tx, &event, err) != 0)
		return -1;
	if (what != EVENT_CHECKSUMMED)
		row->changed_at = event.at;
	*event_id = event.id;
	return 0;
}

struct committing {
	struct blob_notice *notice;
	const struct blob_kind *kind;
	const char *root; /* identity */
	blob_comparisons *all;
};

static int blob_notice_commit_write_row(struct store_tx *tx,
					const struct committing *committing,
					enum step step, uint64_t generation,
					struct blob_look *look, struct err *err)
{
	struct origin_row *row = &look->row;

	if (step == STEP_CREATED)
		return origin_row_add(tx, committing->kind->type, row, err);
	if (step != STEP_DELETED)
		return origin_row_update(tx, row, generation, err);
	row->generation = generation;
	if (origin_row_remove(tx, row, err) != 0)
		return -1;
	origin_row_clear(row);
	return 0;
}

static enum event_what blob_notice_commit_find_what(enum step step)
{
	switch (step) {
	case STEP_CREATED:
		return EVENT_CREATED;
	case STEP_DELETED:
		return EVENT_DELETED;
	case STEP_CHECKSUMMED:
		return EVENT_CHECKSUMMED;
	default:
		return EVENT_UPDATED;
	}
}

static int take_step(struct store_tx *tx, const struct committing *committing,
		     struct blob_comparison *one, enum step step, struct err *err)
{
	struct origin_row *row = &one->look->row;
	uint64_t generation = row->generation;

	if (step == STEP_CREATED) {
		if (origin_root_accept_first(tx, committing->kind->type, committing->root,
					     err) != 0)
			return -1;
		blob_notice_commit_put_birth(committing->kind, one->look->id, row);
	}
	row->generation += step != STEP_NOTED && step != STEP_CHECKSUMMED;
	if (step == STEP_CREATED || step == STEP_UPDATED)
		put_content(committing->notice, committing->kind, one, row);
	else if (step != STEP_DELETED)
		put_note(committing->notice, one, row);
	one->what = blob_notice_commit_find_what(step);
	one->look->is_changed = step != STEP_NOTED;
	one->is_due = step != STEP_DELETED && row->verification_due_at <= clock_wall_ms();
	if (step != STEP_NOTED && blob_event_append(tx, committing->kind, one->what, row,
						    &one->look->event_id, err) != 0)
		return -1;
	return blob_notice_commit_write_row(tx, committing, step, generation, one->look,
					    err);
}

/* The work may run again from the start. */
static void begin_again(struct blob_comparison *one)
{
	origin_row_clear(&one->look->row);
	one->look->is_changed = false;
	one->look->event_id = 0;
	one->is_committed = false;
	one->is_due = false;
}

static int blob_notice_commit_work(struct store_tx *tx, void *arg, struct err *err)
{
	const struct committing *committing = arg;

	for (size_t i = 0; i < committing->all->count; i++) {
		struct blob_comparison *one = &committing->all->items[i];
		if (one->is_done)
			continue;
		begin_again(one);
		int found = blob_row_read_again(tx, committing->kind, one->look->id,
						&one->base, &one->look->row, err);
		if (found < 0 && err->class == ERR_CONFLICT) {
			begin_again(one);
			continue;
		}
		if (found < 0 || take_step(tx, committing, one,
					   step_of(committing->kind, one), err) != 0)
			return -1;
		one->is_committed = true;
	}
	return 0;
}

static void log_one(const struct blob_kind *kind, const struct blob_comparison *one)
{
	log_debug("blob.noticed", LOG_TEXT("kind", kind->type),
		  LOG_TEXT("name", one->look->id),
		  LOG_TEXT("event", event_what_name(one->what)),
		  LOG_NUMBER("event_id", one->look->event_id));
}

static void log_all(const struct blob_kind *kind, const size_t counts[EVENT_WHATS],
		    uint64_t last)
{
	if (last > 0)
		log_info("blobs.noticed", LOG_TEXT("kind", kind->type),
			 LOG_NUMBER("created", counts[EVENT_CREATED]),
			 LOG_NUMBER("updated", counts[EVENT_UPDATED]),
			 LOG_NUMBER("deleted", counts[EVENT_DELETED]),
			 LOG_NUMBER("event_id", last));
}

static void end_commit(struct blob_notice *notice, const struct blob_kind *kind,
		       blob_comparisons *all)
{
	size_t counts[EVENT_WHATS] = { 0 };
	bool is_due = false;
	uint64_t last = 0;

	for (size_t i = 0; i < all->count; i++) {
		struct blob_comparison *one = &all->items[i];
		if (one->is_done || !one->is_committed)
			continue;
		one->is_done = true;
		is_due = is_due || one->is_due;
		if (!one->look->is_changed)
			continue;
		counts[one->what]++;
		last = one->look->event_id;
		log_one(kind, one);
	}
	log_all(kind, counts, last);
	blob_notice_report(notice, last > 0, is_due);
}

void blob_notice_report(struct blob_notice *notice, bool is_event, bool is_due)
{
	if (is_event && notice->options.log)
		event_log_wake(notice->options.log);
	if (is_due && notice->due)
		notice->due(notice->arg);
}

static void blob_notice_commit_forget_all(blob_comparisons *all)
{
	for (size_t i = 0; i < all->count; i++)
		if (!all->items[i].is_done)
			begin_again(&all->items[i]);
}

int blob_comparisons_commit(struct blob_notice *notice, const struct blob_kind *kind,
			    int root, blob_comparisons *all, struct err *err)
{
	AUTO_FREE char *identity = identity_of(root, "");
	struct committing committing = { notice, kind, identity, all };

	if (!identity)
		return err_errno(err, "cannot look at %s", kind->path);
	failpoint("blobs.commit");
	if (store_write(notice->options.store, blob_notice_commit_work, &committing,
			err) != 0) {
		blob_notice_commit_forget_all(all);
		return -1;
	}
	failpoint("blobs.committed");
	end_commit(notice, kind, all);
	return 0;
}

#define TRIES 8

struct blob_notice *blob_notice_new(const struct blob_notice_options *options)
{
	struct blob_notice *notice = xcalloc(1, sizeof(*notice));

	notice->options = *options;
	return notice;
}

void blob_notice_free(struct blob_notice *notice)
{
	free(notice);
}

void blob_notice_set_due(struct blob_notice *notice, void (*due)(void *arg), void *arg)
{
	notice->due = due;
	notice->arg = arg;
}

const struct blob_kind *blob_notice_kind(const struct blob_notice *notice,
					 const char *type)
{
	return blob_kinds_find(notice->options.kinds, type);
}

void blob_look_clear(struct blob_look *look)
{
	origin_row_clear(&look->row);
}

struct group {
	struct blob_notice *notice;
	const struct blob_kind *kind;
	int root;
	bool is_judged; /* the root was: away says how */
	struct err away;
	json_t *mounts; /* owned; known ones, once it is judged */
	blob_comparisons all;
};

static int read_bases(struct store_tx *tx, void *arg, struct err *err)
{
	struct group *group = arg;

	for (size_t i = 0; i < group->all.count; i++) {
		struct blob_comparison *one = &group->all.items[i];
		if (one->is_done)
			continue;
		origin_row_clear(&one->base);
		if (origin_row_get(tx, group->kind->type, one->look->id, &one->base,
				   err) < 0)
			return -1;
	}
	return 0;
}

/* Once a group; the directory stays open. */
static void blob_notice_check_root(struct group *group)
{
	const struct origin_root root = { group->notice->options.store, group->kind->type,
					  group->kind->path, group->root };

	if (!group->is_judged && origin_root_check(&root, &group->away) == 0 &&
	    origin_root_mounts(&root, &group->mounts, &group->away) == 0)
		group->away.class = ERR_NONE;
	group->is_judged = true;
}

/* Whether what is not there may be on a file system that is away; why. */
static bool blob_notice_is_away(struct group *group, const char *id, struct err *why)
{
	blob_notice_check_root(group);
	const char *mount = mounts_find_away(group->mounts, group->root, id);

	if (group->away.class != ERR_NONE)
		*why = group->away;
	else if (mount)
		mounts_say_away(mount, why);
	return group->away.class != ERR_NONE || mount;
}

/* What the error of opening it means for its row. */
static enum blob_observation blob_notice_classify_failure(struct group *group,
							  struct blob_comparison *one,
							  const struct stat *st)
{
	struct err *why = &one->look->why;

	/* A link may lead to the file; a directory has taken its place. */
	if (S_ISDIR(st->st_mode))
		err_set(why, ERR_MISSING, "%s is a directory", one->look->id);
	if (why->class == ERR_CORRUPT || why->class == ERR_CONFIG)
		return BLOB_UNREADABLE;
	if (why->class != ERR_MISSING)
		return BLOB_UNKNOWN;
	return one->base.name && blob_notice_is_away(group, one->look->id, why)
		       ? BLOB_UNKNOWN
		       : BLOB_GONE;
}

static void blob_notice_observe(struct group *group, struct blob_comparison *one)
{
	struct blob_look *look = one->look;
	struct stat st = { 0 };
	AUTO_CLOSE int fd = -1;

	look->why = (struct err){ 0 };
	if (blob_open(group->root, look->id, &fd, &st, &look->why) != 0) {
		one->observation = blob_notice_classify_failure(group, one, &st);
		return;
	}
	one->observation = BLOB_THERE;
	blob_fingerprint_of(&st, &one->fingerprint);
	blob_fingerprint_format(&one->fingerprint, one->text);
}

/* Those that differ from nothing are done. True: something is left to write. */
static bool see_all(struct group *group)
{
	bool is_work = false;

	for (size_t i = 0; i < group->all.count; i++) {
		struct blob_comparison *one = &group->all.items[i];
		if (one->is_done)
			continue;
		blob_notice_observe(group, one);
		if (one->observation != BLOB_UNKNOWN &&
		    blob_comparison_differs(group->kind, one)) {
			is_work = true;
			continue;
		}
		one->is_done = true;
		one->look->row = one->base;
		one->base = (struct origin_row){ 0 };
	}
	return is_work;
}

static size_t blob_notice_count_left(const struct group *group)
{
	size_t left = 0;

	for (size_t i = 0; i < group->all.count; i++)
		left += !group->all.items[i].is_done;
	return left;
}

static void blob_notice_give_up(struct group *group)
{
	for (size_t i = 0; i < group->all.count; i++) {
		struct blob_look *look = group->all.items[i].look;
		if (group->all.items[i].is_done)
			continue;
		err_set(&look->why, ERR_CONFLICT,
			"%.300s: it changes faster than it can be recorded", look->id);
		err_remedy(&look->why, "tried again by itself");
	}
}

static int blob_notice_compare_all(struct group *group, struct err *err)
{
	for (int tries = 0; tries < TRIES && blob_notice_count_left(group) > 0; tries++) {
		if (store_read(group->notice->options.store, read_bases, group, err) != 0)
			return -1;
		if (see_all(group) &&
		    blob_comparisons_commit(group->notice, group->kind, group->root,
					    &group->all, err) != 0)
			return -1;
	}
	blob_notice_give_up(group);
	return 0;
}

/* What cannot be an id is nothing to look for. */
static void add_looks(struct group *group, struct blob_look *looks, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct blob_comparison one = { .look = &looks[i] };
		looks[i].is_changed = false;
		looks[i].event_id = 0;
		looks[i].row = (struct origin_row){ 0 };
		looks[i].why = (struct err){ 0 };
		if (blob_id_check(group->kind, looks[i].id, &looks[i].why) == 0)
			vec_add(&group->all, one);
	}
}

static int compare_group(struct blob_notice *notice, const struct blob_kind *kind,
			 struct blob_look *looks, size_t count, struct err *err)
{
	AUTO_CLOSE int root = blob_root_open(kind, err);
	struct group group = { .notice = notice, .kind = kind, .root = root };

	if (root < 0)
		return -1;
	add_looks(&group, looks, count);
	int result = blob_notice_compare_all(&group, err);
	for (size_t i = 0; i < group.all.count; i++)
		origin_row_clear(&group.all.items[i].base);
	vec_clear(&group.all);
	json_decref(group.mounts);
	return result;
}

int blob_notice_compare(struct blob_notice *notice, const struct blob_kind *kind,
			struct blob_look *looks, size_t count, struct err *err)
{
	for (size_t i = 0; i < count; i++)
		looks[i].row = (struct origin_row){ 0 };
	for (size_t at = 0; at < count; at += BLOB_GROUP) {
		size_t some = count - at < BLOB_GROUP ? count - at : BLOB_GROUP;
		if (compare_group(notice, kind, looks + at, some, err) != 0)
			return -1;
	}
	return 0;
}

int blob_notice_compare_one(struct blob_notice *notice, const struct blob_kind *kind,
			    struct blob_look *look, struct err *err)
{
	if (blob_notice_compare(notice, kind, look, 1, err) != 0)
		return -1;
	if (look->why.class == ERR_NONE)
		return 0;
	*err = look->why;
	return -1;
}

static int blob_found_one(void *arg, const char *id,
			  const struct blob_fingerprint *fingerprint, struct err *err)
{
	(void)id;
	(void)fingerprint;
	*(bool *)arg = true;
	return err_set(err, ERR_CANCELED, "one is enough");
}

int blob_has_any(const struct blob_kind *kind, const struct stop *stop, bool *has_any,
		 struct err *err)
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
