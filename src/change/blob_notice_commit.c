/*
 * What becomes of a row is decided by the row that was read before the disk, and written
 * only if the row is still that one, its print included: a look at an older disk can then
 * never undo what a look at a newer disk has recorded.
 */
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "change/blob_notice_parts.h"
#include "change/origin_root.h"
#include "change/identity.h"
#include "replicable/name.h"

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
	char text[BLOB_PRINT_SIZE];

	if (!known || comparison->sight != BLOB_THERE)
		return NULL;
	blob_print_format(&known->print, text);
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
	struct blob_print before;

	if (!base->name)
		return STEP_CREATED;
	bool is_known = base->print && blob_print_parse(base->print, &before);
	if (!is_known || (!blob_print_same(&before, &comparison->print) &&
			  !(is_immutable(kind) && before.size == comparison->print.size)))
		return STEP_UPDATED;
	bool is_same = strcmp(base->print, comparison->text) == 0;
	enum step step = digest ? step_of_digest(base, digest) : STEP_NOTHING;
	bool is_news = !is_same || blob_row_waits_unopened(base);
	return step == STEP_NOTHING && is_news ? STEP_NOTED : step;
}

static enum step step_of(const struct blob_kind *kind,
			 const struct blob_comparison *comparison)
{
	const struct origin_row *base = &comparison->base;

	switch (comparison->sight) {
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
	    (!found || (strcmp(row->timeline, base->timeline) == 0 &&
			row->generation == base->generation &&
			blob_notice_commit_is_same_text(row->checksum, base->checksum) &&
			blob_notice_commit_is_same_text(row->print, base->print))))
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
		blob_row_set_proved(row, &comparison->print, digest,
				    notice->options.reverify_ms);
		return;
	}
	blob_row_set_unread(row, &comparison->print);
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

	if (comparison->sight == BLOB_UNREADABLE) {
		origin_row_set_failure(row, &comparison->look->why);
		row->verification = VERIFICATION_FAILED;
		row->verification_due_at = clock_wall_ms();
	} else if (digest) {
		blob_row_set_proved(row, &comparison->print, digest,
				    notice->options.reverify_ms);
	} else {
		blob_row_set_unread(row, &comparison->print);
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
	blob_notice_tell(notice, last > 0, is_due);
}

void blob_notice_tell(struct blob_notice *notice, bool is_event, bool is_due)
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
