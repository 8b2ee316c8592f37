/*
 * Order: rows are read before the disk, so that what the disk said is never older than
 * the row; then the transaction, which leaves out those whose row is another by then, and
 * they are looked at anew. The row's fingerprint counts, too: a comparison that saw an
 * older disk can then never undo what one that saw a newer disk has recorded, even if
 * that one found nothing to report.
 */
#include "change/notice.h"

#include "base/clock.h"
#include "base/file.h"
#include "change/notice_parts.h"
#include "change/origin_root.h"
#include "change/repository_scan.h"
#include "replicable/name.h"
#include "replicable/registry.h"

#define TRIES 20
#define THREADS 3       /* of a scan, beside the caller's */
#define THREAD_SHARE 16 /* fewer comparisons are not worth one */

struct notice *notice_new(const struct notice_options *options)
{
	struct notice *notice = xcalloc(1, sizeof(*notice));

	mutex_init(&notice->mutex);
	notice->options = *options;
	notice->reverify_ms = options->reverify_ms;
	notice->known = known_refs_new();
	notice->moved = moved_new();
	notice->may_owe = true;
	if (options->hooks)
		repository_scan_show_hooks(&(struct hook_counts){ 0 });
	return notice;
}

void notice_free(struct notice *notice)
{
	if (!notice)
		return;
	map_clear_owned(&notice->deleting);
	map_clear_owned(&notice->told);
	known_refs_free(notice->known);
	moved_free(notice->moved);
	pthread_mutex_destroy(&notice->mutex);
	free(notice);
}

void notice_set_due(struct notice *notice, void (*due)(void *arg), void *arg)
{
	notice->due = due;
	notice->due_arg = arg;
}

void notice_set_reverify(struct notice *notice, int64_t reverify_ms)
{
	notice->reverify_ms = reverify_ms;
}

void notice_report(struct notice *notice, const struct event_mark *newest, bool is_due)
{
	if (newest->id > 0 && notice->options.log)
		event_log_wake(notice->options.log, newest);
	if (is_due && notice->due)
		notice->due(notice->due_arg);
}

int64_t notice_next_verification(int64_t reverify_ms)
{
	char digits[9];

	random_hex(digits, 4);
	uint64_t share = strtoul(digits, NULL, 16) & 0xffff;
	return clock_wall_ms() + reverify_ms / 2 +
	       (int64_t)((uint64_t)reverify_ms / 2 * share / 0xffff);
}

struct origin_root notice_root_of(const struct comparisons *all)
{
	const struct origin_kind *kind = all->kind;

	return (struct origin_root){ kind->store, kind->of.type, kind->of.path,
				     all->root };
}

/* Once a try, as the directory stays open. */
static void notice_judge_away(struct comparisons *all)
{
	const struct origin_root root = notice_root_of(all);

	if (all->is_judged)
		return;
	all->is_judged = true;
	if (origin_root_check(&root, &all->away) == 0 &&
	    origin_root_mounts(&root, &all->mounts, &all->away) == 0)
		all->away.class = ERR_NONE;
}

bool notice_is_away(struct comparisons *all, const char *path, struct err *why)
{
	notice_judge_away(all);
	const char *mount = mounts_find_away(all->mounts, all->root, path);

	if (all->away.class != ERR_NONE)
		*why = all->away;
	else if (mount)
		mounts_say_away(mount, why);
	return all->away.class != ERR_NONE || mount;
}

int notice_read_again(struct store_tx *tx, const char *kind, const char *name,
		      const struct origin_row *base, struct origin_row *row,
		      struct err *err)
{
	int found = origin_row_get(tx, kind, name, row, err);

	if (found < 0)
		return -1;
	if (found == (base->name != NULL) &&
	    (!found || (strcmp(row->timeline, base->timeline) == 0 &&
			row->generation == base->generation &&
			row->is_settled == base->is_settled &&
			text_is_same(row->checksum, base->checksum) &&
			text_is_same(row->fingerprint, base->fingerprint))))
		return found;
	return err_set(err, ERR_CONFLICT, "%.300s: its record changes all the time",
		       name);
}

enum event_what notice_what_of(enum origin_step step)
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

/* The event's own strings are borrowed. */
int notice_append_event(struct store_tx *tx, const char *kind, enum event_what what,
			struct origin_row *row, char *changes,
			struct event_mark *appended, struct err *err)
{
	AUTO_FREE char *type = xstrdup(kind);
	struct event event = {
		.kind = type,
		.name = row->name,
		.what = what,
		.generation = row->generation,
		.size = what == EVENT_DELETED ? 0 : row->size,
		.checksum = what == EVENT_DELETED ? NULL : row->checksum,
		.changes = changes,
	};

	memcpy(event.timeline, row->timeline, sizeof(event.timeline));
	if (event_log_append(tx, &event, err) != 0)
		return -1;
	if (what != EVENT_CHECKSUMMED)
		row->changed_at = event.at;
	appended->id = event.id;
	memcpy(appended->mark, event.mark, sizeof(appended->mark));
	return 0;
}

static int notice_read_bases_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct comparisons *all = arg;

	for (size_t i = 0; i < all->items.count; i++) {
		struct comparison *one = &all->items.items[i];
		if (one->is_done)
			continue;
		origin_row_clear(&one->base);
		if (origin_row_get(tx, all->kind->of.type, one->noticed->name, &one->base,
				   err) < 0)
			return -1;
	}
	return 0;
}

static enum origin_step notice_step_of(const struct comparisons *all,
				       const struct comparison *one)
{
	switch (one->observation) {
	case OBSERVATION_GONE:
		return one->base.name ? STEP_DELETED : STEP_NOTHING;
	case OBSERVATION_WHOLE:
	case OBSERVATION_UNREADABLE:
		return all->kind->of.origin->judge(all, one);
	case OBSERVATION_UNKNOWN:
	case OBSERVATION_MOVING:
		break;
	}
	return STEP_NOTHING;
}

/* Those that differ from nothing are done. True: something is left to write. */
static bool notice_observe_all(struct comparisons *all)
{
	bool is_work = false;

	for (size_t i = 0; i < all->items.count; i++) {
		struct comparison *one = &all->items.items[i];
		if (one->is_done)
			continue;
		one->noticed->why = (struct err){ 0 };
		free(TAKE(one->changes));
		all->kind->of.origin->observe(all, one);
		one->step = notice_step_of(all, one);
		if (one->step != STEP_NOTHING)
			is_work = true;
		if (one->step != STEP_NOTHING || one->observation == OBSERVATION_MOVING)
			continue;
		one->is_done = true;
		one->noticed->row = one->base;
		one->base = (struct origin_row){ 0 };
	}
	return is_work;
}

static void notice_put_birth(const struct comparisons *all, struct comparison *one)
{
	struct origin_row *row = &one->noticed->row;

	row->id = replicable_id(all->kind->of.type, one->noticed->name);
	text_replace(&row->name, one->noticed->name);
	random_hex(row->timeline, (TIMELINE_SIZE - 1) / 2);
}

static int notice_write_row(struct store_tx *tx, const struct comparisons *all,
			    const struct comparison *one, struct err *err)
{
	const struct origin_row *row = &one->noticed->row;
	struct origin_row old = *row;

	if (one->step == STEP_CREATED)
		return origin_row_add(tx, all->kind->of.type, row, err);
	if (one->step != STEP_DELETED)
		return origin_row_replace(tx, &one->base, row, err);
	old.generation = one->base.generation;
	return origin_row_remove(tx, &old, err);
}

/* Where this site was a secondary, it was a copy: what that was not proved to have,
 * reading refs does not prove. */
static int notice_doubt_former_copy(struct store_tx *tx, const struct comparisons *all,
				    struct noticed *noticed, struct err *err)
{
	AUTO_REGISTRY_ROW struct registry_row copy = { 0 };
	const char *type = all->kind->of.type;
	int found = 0;

	if (all->kind->notice->options.verifies && kind_is_repository(type))
		found = registry_get_in(tx, type, noticed->name, &copy, err);
	if (found > 0 && noticed->row.verification == VERIFICATION_SUCCEEDED &&
	    !(copy.state == REGISTRY_SYNCED && copy.is_proved)) {
		noticed->row.verification = VERIFICATION_PENDING;
		noticed->row.verification_due_at = clock_wall_ms();
	}
	return found < 0 ? -1 : 0;
}

static int notice_take_step(struct store_tx *tx, struct comparisons *all,
			    struct comparison *one, struct err *err)
{
	const struct origin_kind_ops *ops = all->kind->of.origin;
	struct noticed *noticed = one->noticed;

	if (one->step == STEP_CREATED)
		notice_put_birth(all, one);
	if (one->step != STEP_DELETED)
		ops->fill(all, one, &noticed->row);
	if (one->step == STEP_CREATED &&
	    notice_doubt_former_copy(tx, all, noticed, err) != 0)
		return -1;
	noticed->is_changed = one->step >= STEP_CREATED;
	noticed->row.generation += noticed->is_changed && one->step != STEP_CHECKSUMMED;
	if (noticed->is_changed &&
	    notice_append_event(tx, all->kind->of.type, notice_what_of(one->step),
				&noticed->row, one->changes, &noticed->event, err) != 0)
		return -1;
	if (ops->record && ops->record(tx, all, one, err) != 0)
		return -1;
	return notice_write_row(tx, all, one, err);
}

/* The work may run again from the start. */
static void notice_begin_again(struct comparison *one)
{
	origin_row_clear(&one->noticed->row);
	one->noticed->is_changed = false;
	one->noticed->event = (struct event_mark){ 0 };
	one->is_committed = false;
}

struct notice_committing {
	struct comparisons *all;
	const char *root; /* identity */
};

/* 1: its row is another by now. */
static int notice_commit_one(struct store_tx *tx,
			     const struct notice_committing *committing,
			     struct comparison *one, struct err *err)
{
	struct comparisons *all = committing->all;

	notice_begin_again(one);
	if (notice_read_again(tx, all->kind->of.type, one->noticed->name, &one->base,
			      &one->noticed->row, err) < 0) {
		notice_begin_again(one);
		return err->class == ERR_CONFLICT ? 0 : -1;
	}
	if ((one->step == STEP_CREATED &&
	     origin_root_accept_first(tx, all->kind->of.type, committing->root, err) !=
		     0) ||
	    notice_take_step(tx, all, one, err) != 0)
		return -1;
	one->is_committed = true;
	return 0;
}

static bool notice_is_to_commit(const struct comparison *one)
{
	return !one->is_done && one->step != STEP_NOTHING;
}

static int notice_commit_work(struct store_tx *tx, void *arg, struct err *err)
{
	const struct notice_committing *committing = arg;

	for (size_t i = 0; i < committing->all->items.count; i++) {
		struct comparison *one = &committing->all->items.items[i];
		if (notice_is_to_commit(one) &&
		    notice_commit_one(tx, committing, one, err) != 0)
			return -1;
	}
	return 0;
}

static void notice_end_commit(struct comparisons *all)
{
	all->kind->of.origin->committed(all);
	for (size_t i = 0; i < all->items.count; i++) {
		struct comparison *one = &all->items.items[i];
		if (one->is_committed && !one->is_done && one->step == STEP_DELETED)
			origin_row_clear(&one->noticed->row);
		one->is_done |= one->is_committed;
	}
}

/* What the next look would find as well need not survive a power cut. */
static bool notice_is_only_noted(const struct comparisons *all)
{
	for (size_t i = 0; i < all->items.count; i++)
		if (notice_is_to_commit(&all->items.items[i]) &&
		    all->items.items[i].step != STEP_NOTED)
			return false;
	return true;
}

static int notice_commit(struct comparisons *all, struct err *err)
{
	AUTO_FREE char *identity = identity_of(all->root, "");
	struct notice_committing committing = { all, identity };
	const bool is_noted = notice_is_only_noted(all);
	struct store *store = all->kind->store;

	if (!identity)
		return err_errno(err, "cannot look at %s", all->kind->of.path);
	all->kind->of.origin->announce(all);
	if ((is_noted ? store_write_unsynced(store, notice_commit_work, &committing, err)
		      : store_write(store, notice_commit_work, &committing, err)) != 0) {
		for (size_t i = 0; i < all->items.count; i++)
			if (!all->items.items[i].is_done)
				notice_begin_again(&all->items.items[i]);
		return -1;
	}
	notice_end_commit(all);
	return 0;
}

static int notice_try(struct comparisons *all, struct err *err)
{
	if (store_read(all->kind->store, notice_read_bases_work, all, err) != 0)
		return -1;
	AUTO_CLOSE int root = all->kind->of.origin->open_root(all->kind, err);
	if (root < 0)
		return -1;
	all->root = root;
	all->is_judged = false;
	int result = notice_observe_all(all) ? notice_commit(all, err) : 0;
	json_decref(TAKE(all->mounts));
	return result;
}

static bool notice_is_all_done(const struct comparisons *all)
{
	for (size_t i = 0; i < all->items.count; i++)
		if (!all->items.items[i].is_done)
			return false;
	return true;
}

static void notice_give_up(struct comparisons *all, int result)
{
	for (size_t i = 0; i < all->items.count; i++) {
		struct noticed *noticed = all->items.items[i].noticed;
		if (all->items.items[i].is_done)
			continue;
		noticed->why = (struct err){ 0 };
		if (result != 0)
			continue;
		err_set(&noticed->why, ERR_CONFLICT,
			"%.300s: it changes faster than it can be recorded",
			noticed->name);
		err_remedy(&noticed->why, "tried again by itself");
	}
}

/* What cannot be a name is nothing to look for. */
static int notice_compare_group(struct comparisons *all, struct noticed *noticed,
				size_t count, struct err *err)
{
	const struct origin_kind *kind = all->kind;
	int result = 0;

	for (size_t i = 0; i < count; i++)
		if (kind->of.check_name(&kind->of, noticed[i].name, &noticed[i].why) == 0)
			vec_add(&all->items,
				((struct comparison){ .noticed = &noticed[i] }));
	for (; all->tries < TRIES && result == 0 && !notice_is_all_done(all);
	     all->tries++)
		result = notice_try(all, err);
	notice_give_up(all, result);
	for (size_t i = 0; i < all->items.count; i++) {
		struct comparison *one = &all->items.items[i];
		if (kind->of.origin->settle)
			kind->of.origin->settle(all, one);
		origin_row_clear(&one->base);
		free(one->changes);
		free(one->told);
	}
	vec_clear(&all->items);
	return result;
}

int notice_compare_all(const struct origin_kind *kind, const struct notice_cause *cause,
		       struct noticed *noticed, size_t count, struct err *err)
{
	for (size_t i = 0; i < count; i++)
		noticed[i] = (struct noticed){ .name = noticed[i].name,
					       .known = noticed[i].known };
	for (size_t at = 0, some; at < count; at += some) {
		struct comparisons all = { .kind = kind, .cause = cause };
		some = count - at < kind->of.origin->group ? count - at
							   : kind->of.origin->group;
		if (notice_compare_group(&all, noticed + at, some, err) != 0)
			return -1;
	}
	return 0;
}

int notice_compare_one(const struct origin_kind *kind, const struct notice_cause *cause,
		       struct noticed *noticed, struct err *err)
{
	if (notice_compare_all(kind, cause, noticed, 1, err) != 0)
		return -1;
	if (noticed->why.class == ERR_NONE)
		return 0;
	*err = noticed->why;
	return -1;
}

static const struct notice_cause notice_told = { .is_scanned = false };

struct origin_kind notice_kind(struct notice *notice, const struct kind *kind)
{
	return (struct origin_kind){ .of = *kind,
				     .store = notice->options.store,
				     .notice = notice };
}

int notice_compare_these(struct notice *notice, const struct kind *kind,
			 struct noticed *noticed, size_t count, struct err *err)
{
	const struct origin_kind origin = notice_kind(notice, kind);

	return notice_compare_all(&origin, &notice_told, noticed, count, err);
}

int notice_compare_this(struct notice *notice, const struct kind *kind,
			struct noticed *noticed, struct err *err)
{
	const struct origin_kind origin = notice_kind(notice, kind);

	return notice_compare_one(&origin, &notice_told, noticed, err);
}

struct notice_scan {
	struct scan *scan; /* NULL: nobody wants to know what came of it */
	const struct origin_kind *kind;
	struct notice_cause cause;
	char *const *names;
	size_t count;
	atomic_size_t next;
};

/* Whether the scan is to compare it. */
static bool notice_scan_may_look(const struct notice_scan *work, struct noticed *noticed)
{
	const struct origin_kind *kind = work->kind;
	bool may = true;

	if (!work->scan || !kind->of.origin->may_look)
		return true;
	if (kind->of.origin->may_look(kind, noticed->name, &may, &noticed->why) == 0)
		return may;
	kind->of.origin->note(work->scan, noticed);
	return false;
}

static int notice_scan_group(const struct notice_scan *work, size_t at, size_t count,
			     struct err *err)
{
	const struct origin_kind *kind = work->kind;
	AUTO_FREE struct noticed *noticed = xcalloc(count, sizeof(*noticed));
	size_t chosen = 0;

	for (size_t i = 0; i < count; i++) {
		noticed[chosen].name = work->names[at + i];
		chosen += notice_scan_may_look(work, &noticed[chosen]);
	}
	int result = notice_compare_all(kind, &work->cause, noticed, chosen, err);
	if (result != 0 && kind->of.origin->group == 1) {
		noticed->why = *err;
		result = 0;
	}
	for (size_t i = 0; i < chosen; i++) {
		if (result == 0 && work->scan)
			kind->of.origin->note(work->scan, &noticed[i]);
		noticed_clear(&noticed[i]);
	}
	return result;
}

static void *notice_scan_next(void *arg)
{
	struct notice_scan *work = arg;
	size_t at;

	while (scan_check_stop(work->scan, ERR_IGNORED) == 0 &&
	       (at = atomic_fetch_add(&work->next, 1)) < work->count)
		notice_scan_group(work, at, 1, ERR_IGNORED);
	return NULL;
}

/* Several at once share the commits that they wait for. */
static void notice_scan_by_threads(struct notice_scan *work)
{
	pthread_t threads[THREADS];
	size_t share = work->count / THREAD_SHARE;

	if (share > THREADS)
		share = THREADS;
	for (size_t i = 0; i < share; i++)
		thread_start(&threads[i], "scan", notice_scan_next, work);
	notice_scan_next(work);
	for (size_t i = 0; i < share; i++)
		thread_join(threads[i]);
}

int notice_scanned(struct scan *scan, char *const *names, size_t count, bool are_gone,
		   struct err *err)
{
	struct notice_scan work = {
		.scan = scan,
		.kind = scan->request->kind,
		.cause = { .is_scanned = true,
			   .is_first_scan = scan->is_first,
			   .absence = are_gone ? ABSENCE_DELETED : ABSENCE_LATER,
			   .unrecorded = are_gone ? &scan->unrecorded : NULL },
		.names = names,
		.count = count,
	};

	if (work.kind->of.origin->group > 1)
		return notice_scan_group(&work, 0, count, err);
	notice_scan_by_threads(&work);
	return 0;
}

int notice_hinted(const struct origin_kind *kind, char *const *names, size_t count,
		  struct err *err)
{
	const struct notice_scan work = { .kind = kind, .names = names, .count = count };

	return notice_scan_group(&work, 0, count, err);
}
