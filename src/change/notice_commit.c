/*
 * Everything is decided by the row that was read before the disk. It is committed only
 * if the row is still that one, its fingerprint included: a comparison that read an
 * older disk can then never undo what one that read a newer disk has recorded, even if
 * that one found nothing to report.
 */
#include "base/clock.h"
#include "base/file.h"
#include "change/identity.h"
#include "change/notice_parts.h"
#include "change/origin_root.h"
#include "change/owed.h"
#include "change/pushed.h"
#include "replicable/name.h"

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
	       fingerprint_is_settled(&comparison->reading.print);
}

static bool looks_different(const struct comparison *comparison)
{
	const struct origin_row *base = &comparison->base;
	int64_t now = clock_wall_ms();

	if (strcmp(base->path, comparison->path) != 0 ||
	    !notice_commit_is_same_text(base->identity, comparison->identity) ||
	    !notice_commit_is_same_text(base->print, comparison->print) ||
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

	if (comparison->sight == SIGHT_GONE)
		return comparison->is_event = base->name != NULL;
	if (!base->name)
		return comparison->is_event = true;
	if (comparison->sight == SIGHT_UNREADABLE)
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
			notice_commit_is_same_text(row->print, base->print))))
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
	notice_commit_set_text(&row->print, comparison->print);
	notice_commit_set_text(&row->identity, comparison->identity);
	row->is_settled = notice_commit_is_settled(comparison);
}

static void notice_commit_put_failure(const struct comparison *comparison,
				      struct origin_row *row)
{
	notice_commit_set_failure(row, &comparison->why);
	notice_commit_set_text(&row->checksum, NULL);
	notice_commit_set_text(&row->print, NULL);
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
	if (comparison->sight == SIGHT_GONE)
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
	if (comparison->sight == SIGHT_WHOLE)
		put_reading(comparison, row);
	else if (comparison->sight == SIGHT_UNREADABLE)
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
