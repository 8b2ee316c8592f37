/*
 * Inventory against registry, in ranges of names, both ways: what is missing or not the
 * same is asked for, what the primary has no more is marked gone. It repairs whatever
 * events did not tell.
 *
 * A page is a picture of one moment at the primary, and events may have been taken over
 * since. So from before a page is asked for, the names that events tell of are kept
 * (names_record), and nothing is done about these: the event is newer, or the same. The
 * log cursor notes a name before it commits, and a range is compared again inside the
 * transaction that changes its rows: either the change is seen and its name is known, or
 * it comes after ours and overrides it.
 *
 * Only what a page proves is done: absence counts between the page's first and last name.
 *
 * When the inventory has not changed since a pass that found nothing to do, one request
 * tells (ETag); unless rows were removed or added here, as by an operator's remove, or
 * any are gone: an inventory may have been wrong, and then it is the next that says so.
 * A pass that finds nothing takes one page an interval.
 */
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "pull/decisions.h"
#include "pull/pull_parts.h"
#include "replicable/name.h"
#include "store/site_value.h"

#define PAGE_LIMIT 10000
#define CHUNK 1000
/* Rows may also have been changed here, by hand. */
#define TRUST_ETAG_MS ((int64_t)3600 * 1000)

struct consistency {
	struct pull *pull;
	struct primary_line *line; /* NULL: not open yet */
	struct lease *lease;
	/* The pass under way. */
	bool is_passing;
	bool is_whole;   /* asked for: without a pause between pages */
	uint64_t number; /* of the comparison that it answers */
	char *after;     /* owned; NULL: the first page */
	char etag[128];  /* of its first page */
	char timeline[TIMELINE_SIZE];
	size_t found; /* differences in this pass */
	int64_t rows; /* of the registry, when it began */
	int64_t gone; /* of these */
	/* The last pass that found nothing. */
	char clean_etag[128]; /* "": none */
	int64_t clean_at;     /* boot ms */
	int64_t clean_rows;
	bool was_dirty;   /* the last pass found work */
	int64_t asked_at; /* boot ms: of the last page */
	int64_t pause_ms; /* from then; -1: the interval */
	unsigned failures;
	uint64_t hurries; /* of pull, as last seen */
};

struct chunk {
	struct pull *pull;
	const struct inventory_item *items;
	size_t item_count;
	const char *after; /* names above it; NULL: from the first */
	const char *end;   /* up to this one; NULL: to the last */
	bool is_part;      /* absence says nothing */
	/* Results. */
	bool writes;
	size_t done_items;
	char *reached; /* owned; NULL: the end */
	size_t steps;
};

static int do_step(struct store_tx *tx, const struct compare_step *step, struct err *err)
{
	struct registry_move move = { 0 };
	int result;

	if (step->row)
		move.id = step->row->id;
	if (step->item) {
		move.generation = step->item->generation;
		move.timeline = step->item->timeline;
		move.checksum = step->item->checksum;
		move.changed_at = step->item->changed_at;
	}
	switch (step->action) {
	case COMPARE_ASK:
		move.event = REGISTRY_ASKED;
		result = registry_ask_in(tx, KIND_REPOSITORY, step->item->name, &move,
					 err);
		break;
	case COMPARE_ADOPT:
		result = registry_adopt_in(tx, &move, err);
		break;
	default:
		move.event = REGISTRY_GONE;
		result = registry_move_in(tx, &move, err);
	}
	return result < 0 ? -1 : 0; /* a conflict: somebody else was first */
}

static const char *name_of(const struct compare_step *step)
{
	return step->item ? step->item->name : step->row->name;
}

/* The range ends where either side's share of it does. */
static void set_end(struct chunk *chunk, const registry_rows *rows)
{
	const char *end = chunk->end;

	if (chunk->item_count > CHUNK)
		end = chunk->items[CHUNK - 1].name;
	if (rows->count == CHUNK &&
	    (!end || strcmp(rows->items[rows->count - 1].name, end) < 0))
		end = rows->items[rows->count - 1].name;
	free(chunk->reached);
	chunk->reached = end ? xstrdup(end) : NULL;
}

static int do_steps(struct store_tx *tx, struct chunk *chunk, const compare_steps *steps,
		    struct err *err)
{
	chunk->steps = 0;
	for (size_t i = 0; i < steps->count; i++) {
		const struct compare_step *step = &steps->items[i];
		if (names_has(chunk->pull, name_of(step)) ||
		    (chunk->is_part && step->action == COMPARE_GONE))
			continue;
		chunk->steps++;
		if (chunk->writes && do_step(tx, step, err) != 0)
			return err_prefix(err, "%s", name_of(step));
	}
	return 0;
}

static int compare_chunk(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
	struct chunk *chunk = arg;
	compare_steps steps = { 0 };
	struct compare_range range = { .items = chunk->items };
	int result;

	if (registry_list_in(tx,
			     &(struct registry_filter){ .kind = KIND_REPOSITORY,
							.after = chunk->after,
							.limit = CHUNK,
							.state = REGISTRY_ANY },
			     &rows, err) != 0)
		return -1;
	set_end(chunk, &rows);
	range.item_count =
		count_items_until(chunk->items, chunk->item_count, chunk->reached);
	range.rows = rows.items;
	range.row_count = count_rows_until(rows.items, rows.count, chunk->reached);
	compare_range(&range, &steps);
	chunk->done_items = range.item_count;
	result = do_steps(tx, chunk, &steps, err);
	vec_clear(&steps);
	return result;
}

/* Reads first: mostly there is nothing to write. */
static int settle_chunk(struct chunk *chunk, struct err *err)
{
	struct store *store = chunk->pull->options.store;

	chunk->writes = false;
	if (store_read(store, compare_chunk, chunk, err) != 0)
		return -1;
	if (chunk->steps == 0)
		return 0;
	chunk->writes = true;
	if (store_write(store, compare_chunk, chunk, err) != 0)
		return -1;
	pull_signal(chunk->pull);
	return 0;
}

static bool is_done(const struct chunk *chunk)
{
	if (!chunk->reached || !chunk->end)
		return chunk->reached == chunk->end;
	return strcmp(chunk->reached, chunk->end) == 0;
}

static int compare_page(struct consistency *work, const struct inventory_page *page,
			struct err *err)
{
	AUTO_FREE char *after = work->after ? xstrdup(work->after) : NULL;
	struct chunk chunk = { .pull = work->pull,
			       .items = page->items.items,
			       .item_count = page->items.count,
			       .after = after,
			       .end = page->next,
			       .is_part = page->is_part };
	int result;

	do {
		result = lease_check(work->lease, err);
		if (result == 0)
			result = settle_chunk(&chunk, err);
		if (result != 0)
			break;
		work->found += chunk.steps;
		if (chunk.done_items > 0) /* none of an empty page, whose list is NULL */
			chunk.items += chunk.done_items;
		chunk.item_count -= chunk.done_items;
		free(after);
		after = chunk.reached ? xstrdup(chunk.reached) : NULL;
		chunk.after = after;
	} while (!is_done(&chunk) && !stop_is_requested(&work->pull->stop));
	if (result == 0 && !is_done(&chunk))
		result = err_set(err, ERR_CANCELED, "the comparison was left");
	free(chunk.reached);
	return result;
}

static void begin_pass(struct consistency *work)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&work->pull->mutex);

	work->number = work->pull->asked;
	work->is_whole = work->number > work->pull->compared;
	work->is_passing = true;
	work->found = 0;
	work->timeline[0] = '\0';
	free(TAKE(work->after));
}

static int write_compared(struct store_tx *tx, void *arg, struct err *err)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, *(const int64_t *)arg);
	return site_value_set(tx, PULL_COMPARED, text, err);
}

/* The inventory was gone through, or is known to be as it was when it last was. */
static int end_pass(struct consistency *work, struct err *err)
{
	struct pull *pull = work->pull;
	int64_t now = clock_wall_ms();

	if (store_write(pull->options.store, write_compared, &now, err) != 0)
		return -1;
	lock(&pull->mutex);
	if (work->is_passing && pull->compared < work->number)
		pull->compared = work->number;
	pull->state.compared_at = now;
	pthread_cond_broadcast(&pull->changed);
	unlock(&pull->mutex);
	if (work->is_passing && work->found > 0)
		log_info("consistency.repaired", LOG_NUMBER("rows", work->found));
	work->is_passing = false;
	free(TAKE(work->after));
	return 0;
}

static int take_page(struct consistency *work, struct inventory_page *page,
		     struct err *err)
{
	if (work->timeline[0] && strcmp(work->timeline, page->timeline) != 0) {
		begin_pass(work); /* another log: what was compared says nothing */
		return 0;
	}
	if (!work->after) {
		memcpy(work->timeline, page->timeline, sizeof(work->timeline));
		snprintf(work->etag, sizeof(work->etag), "%s", page->etag);
	}
	if (compare_page(work, page, err) != 0)
		return -1;
	free(work->after);
	work->after = TAKE(page->next);
	failpoint("consistency.compared");
	if (work->after)
		return 0;
	work->clean_etag[0] = '\0';
	if (work->found == 0) {
		memcpy(work->clean_etag, work->etag, sizeof(work->clean_etag));
		work->clean_at = clock_boot_ms();
		work->clean_rows = work->rows;
	}
	return end_pass(work, err);
}

/* A pass that was asked for looks at everything, a usual one begins with the question
 * whether there is anything to look at. */
static const char *etag_to_send(const struct consistency *work)
{
	if (work->is_whole || work->after || !work->clean_etag[0] || work->gone > 0 ||
	    work->rows != work->clean_rows ||
	    clock_boot_ms() - work->clean_at >= TRUST_ETAG_MS)
		return NULL;
	return work->clean_etag;
}

static int count_rows(struct consistency *work, struct err *err)
{
	struct registry_counts counts;

	if (registry_counts(work->pull->options.store, KIND_REPOSITORY, &counts, err) !=
	    0)
		return -1;
	work->rows = counts.all;
	work->gone = counts.gone;
	return 0;
}

static int ask(struct consistency *work, struct inventory_page *page, struct err *err)
{
	if (!work->line && primary_line_open(work->pull->options.primary,
					     &work->pull->stop, &work->line, err) != 0)
		return -1;
	return primary_inventory(work->line, work->after, PAGE_LIMIT, etag_to_send(work),
				 page, err);
}

static int read_one(struct consistency *work, bool *is_peers, struct err *err)
{
	struct inventory_page page = { 0 };
	int result;

	*is_peers = false;
	if (!work->after && count_rows(work, err) != 0)
		return -1;
	names_record(work->pull);
	result = ask(work, &page, err);
	*is_peers = result < 0;
	if (result >= 0)
		peer_good(work->pull, PULL_PART_CONSISTENCY);
	if (result == 0) { /* as it was */
		result = end_pass(work, err);
	} else if (result > 0) {
		result = take_page(work, &page, err);
		inventory_page_clear(&page);
	}
	names_forget(work->pull);
	return result;
}

/* In the middle of something, or after a pass that found work, the next page is due at
 * once: while there is much to do, an interval would be long. But what two passes in a
 * row found is not repaired by haste. */
static bool goes_on(const struct consistency *work, size_t found_before)
{
	if (work->is_passing)
		return work->is_whole || work->found > found_before;
	return work->found > 0 && !work->was_dirty;
}

static void failed(struct consistency *work, bool is_peers, const struct err *err)
{
	if (err->class == ERR_CANCELED || err->class == ERR_LOST)
		return;
	work->failures++;
	if (is_peers)
		peer_bad(work->pull, PULL_PART_CONSISTENCY, err);
	else if (work->failures == 1)
		log_error("consistency.failed", LOG_ERR(err));
	work->pause_ms = backoff_ms(work->failures, random_roll());
}

static void step(struct consistency *work)
{
	bool is_peers = false, was_dirty = work->found > 0;
	struct err err;

	if (!work->is_passing) {
		begin_pass(work);
		work->was_dirty = was_dirty;
	}
	size_t found = work->found;
	work->asked_at = clock_boot_ms();
	if (read_one(work, &is_peers, &err) != 0) {
		failed(work, is_peers, &err);
		return;
	}
	work->failures = 0;
	work->pause_ms = goes_on(work, found) ? 0 : -1;
}

/* The comparison that is asked for is not the one under way. */
static bool is_asked_anew_locked(const struct consistency *work)
{
	const struct pull *pull = work->pull;

	return pull->asked > pull->compared &&
	       !(work->is_passing && work->number == pull->asked);
}

/* There may be another key, or the primary was heard of by others. */
static bool is_hurry_locked(struct consistency *work)
{
	bool is_hurry = work->hurries != work->pull->hurries;

	work->hurries = work->pull->hurries;
	return is_hurry;
}

/* Until the next page is due, or a comparison is asked for. False: stop. */
static bool wait_until_due(struct consistency *work)
{
	struct pull *pull = work->pull;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	while (!pull->stopping) {
		int64_t pause = work->pause_ms;
		if (is_asked_anew_locked(work) && work->failures == 0) {
			work->is_passing = false;
			return true;
		}
		if (is_hurry_locked(work) && work->failures > 0)
			return true;
		if (pause < 0)
			pause = pull->settings.consistency_interval_ms;
		if (!cond_wait_until(&pull->changed, &pull->mutex,
				     work->asked_at + pause))
			return true;
	}
	return false;
}

void *consistency_run(void *arg)
{
	struct consistency work = { .pull = arg };

	while (site_lease_hold(work.pull, "consistency", &work.lease))
		if (wait_until_due(&work))
			step(&work);
	primary_line_close(work.line);
	lease_release(work.lease);
	free(work.after);
	return NULL;
}
