/*
 * Inventory against registry, in ranges of names, both ways: what is missing or not the
 * same is asked for, what the primary has no more is marked gone. It repairs whatever
 * events did not tell. Each kind has passes of its own, a page at a time in turn, so that
 * a million blobs do not keep repositories waiting.
 *
 * A page is a picture of one moment at the primary, and events may have been taken over
 * since. So from before a page is asked for, the names that events tell of are kept
 * (names_record), and nothing is done about these: the event is newer, or the same. The
 * log cursor notes a name before it commits, and a range is compared again inside the
 * transaction that changes its rows: either the change is seen and its name is known, or
 * it comes after ours and overrides it. A row that is ahead of a page, though neither an
 * event nor a sync came since that was asked for, is of a primary that went back on its
 * timeline, as to a snapshot, and is turned back. Where the cursor has read further than
 * the page's log goes, the page does not count at all (check_log).
 *
 * Only what a page proves is done: absence counts between the page's first and last name.
 * What another primary than before lacks, it may never have had: until a pass has
 * compared all of its inventory, what is absent there is held for a person's decision.
 *
 * When the inventory has not changed since a pass that found nothing to do, one request
 * tells (ETag); unless rows were removed or added here, as by an operator's remove, or
 * any are gone, or names were left out: an inventory may have been wrong, and then it is
 * the next that says so.
 *
 * The first pass of a kind goes from page to page without a pause, however often it was
 * put off before. A later one that finds nothing spreads its pages over an interval, so
 * that a million rows are compared as often as ten are, and rests at least four times as
 * long as its page took.
 */
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/retry.h"
#include "pull/copy_kind.h"
#include "pull/decisions.h"
#include "pull/followed.h"
#include "pull/leftovers.h"
#include "pull/primary.h"
#include "pull/pull_parts.h"
#include "replicable/name.h"
#include "store/site_value.h"
#include "upkeep/removal.h"

#define PAGE_LIMIT 10000
/* For the requests themselves. */
#define FRESH_SLACK_MS 30000
/* Rows may also have been changed here, by hand. */
#define TRUST_ETAG_MS ((int64_t)3600 * 1000)

/* Of one kind. */
struct pass {
	struct kind kind;
	/* The pass under way. */
	bool is_passing;
	bool is_whole;   /* asked for, or the first: without a pause between pages */
	uint64_t number; /* of the comparison that it answers */
	char *after;     /* owned; NULL: the first page */
	char etag[128];  /* of its first page */
	char timeline[TIMELINE_SIZE];
	bool is_part;       /* the inventory lacks what the primary could not read */
	bool is_of_another; /* what is here was compared with another primary: */
	int64_t held;       /* what was held for that, and not told yet */
	struct scan_record skipped; /* in this pass: left_out, example */
	size_t found;               /* differences in this pass */
	size_t left;                /* and those that are left to events */
	int64_t compared;           /* rows of the registry, in this pass */
	int64_t page_rows;          /* of these, in its last page */
	int64_t slowest_ms;    /* of its pages; 304 has none, and leaves that as it is */
	int64_t rows;          /* of the registry, when it began */
	int64_t gone, here;    /* of these: deleted, copied */
	int64_t ordered_begun; /* removals by order, ever, when it began */
	/* The last pass that found nothing. */
	char clean_etag[128]; /* "": none */
	int64_t clean_at;     /* boot ms */
	int64_t clean_rows;
	/* Of all passes. */
	uint64_t answered;     /* the newest comparison that a pass has answered */
	int64_t ordered;       /* removals by order when the last one began that ended */
	int64_t ended_at;      /* wall ms; 0: never */
	int64_t ended_boot;    /* the same by the boot clock */
	bool has_no_leftovers; /* they were looked for since the start */
	bool is_unknown;       /* the primary has no such kind: told in the log */
	unsigned waits;        /* times in a row that the primary had not scanned it */
	bool was_dirty;        /* the last pass found work */
	int64_t asked_at;      /* boot ms: of the last page */
	int64_t asked_wall;    /* the same by the clock of the rows */
	int64_t pause_ms;      /* from then; -1: the interval */
	unsigned failures;
	bool is_peers; /* ... which are the primary's, or the network's */
};

struct consistency {
	struct pull *pull;
	struct primary_line *line; /* NULL: not open yet */
	struct lease *lease;
	VEC(struct pass) passes;
	uint64_t hurries; /* of pull, as last seen */
};

/*
 * A page of an inventory against the registry's rows of the same range of names, a chunk
 * at a time: read first, and written only where something differs.
 */

#define CHUNK 1000

typedef VEC(struct registry_ask) registry_asks;

struct chunk {
	struct pull *pull;
	const char *kind;
	bool reports_checksums; /* as in struct compare_range */
	int64_t asked_at;       /* likewise */
	const struct inventory_item *items;
	size_t item_count;
	const char *after; /* names above it; NULL: from the first */
	const char *end;   /* up to this one; NULL: to the last */
	bool is_part;      /* absence says nothing */
	bool holds;        /* absence needs a person's decision */
	int root;          /* then: the directory of the copies; -1: not there */
	/* Results. */
	bool writes;
	size_t done_items, done_rows;
	char *reached; /* owned; NULL: the end */
	size_t steps, left;
	int64_t held;
};

static struct registry_move compare_page_make_move(const struct compare_step *step)
{
	static const enum registry_event events[] = { [COMPARE_ASK] = REGISTRY_ASKED,
						      [COMPARE_ADOPT] = REGISTRY_ADOPTED,
						      [COMPARE_REPORT] =
							      REGISTRY_REPORTED,
						      [COMPARE_GONE] = REGISTRY_GONE };
	struct registry_move move = { .event = events[step->action] };

	if (step->row)
		move.id = step->row->id;
	if (step->item) {
		move.generation = step->item->generation;
		move.timeline = step->item->timeline;
		move.checksum = step->item->checksum;
		move.size = step->item->size;
		move.changed_at = step->item->changed_at;
		move.may_go_back = true;
	}
	return move;
}

static int hold_absent(struct store_tx *tx, struct chunk *chunk,
		       const struct compare_step *step, struct err *err)
{
	chunk->held++;
	return removal_hold_in(tx, step->row, FOLLOWED_LACKS, err);
}

/* A worker's end would release it again: the next pass meets it. */
static bool is_held_later(const struct chunk *chunk, const struct compare_step *step)
{
	return chunk->holds && step->action == COMPARE_GONE &&
	       step->row->state == REGISTRY_STARTED;
}

/* What is to be brought is only gathered, to be asked for in one go. */
static int do_step(struct store_tx *tx, struct chunk *chunk,
		   const struct compare_step *step, registry_asks *asks, struct err *err)
{
	const struct registry_move move = compare_page_make_move(step);
	int result;

	if (step->action == COMPARE_ASK) {
		vec_add(asks, ((struct registry_ask){ step->item->name, move }));
		return 0;
	}
	result = registry_move_in(tx, &move, err);
	if (result == 0 && chunk->holds && step->action == COMPARE_GONE &&
	    !removal_has_no_copy(chunk->root, step->row))
		result = hold_absent(tx, chunk, step, err);
	return result < 0 ? -1 : 0; /* a conflict: somebody else was first */
}

static const char *compare_page_step_name(const struct compare_step *step)
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

static int choose_steps(struct store_tx *tx, struct chunk *chunk,
			const compare_steps *steps, registry_asks *asks, struct err *err)
{
	chunk->steps = chunk->left = 0;
	chunk->held = 0;
	for (size_t i = 0; i < steps->count; i++) {
		const struct compare_step *step = &steps->items[i];
		if (chunk->is_part && step->action == COMPARE_GONE)
			continue;
		if (is_held_later(chunk, step) ||
		    names_has(chunk->pull, chunk->kind, compare_page_step_name(step))) {
			chunk->left++;
			continue;
		}
		chunk->steps++;
		if (chunk->writes && do_step(tx, chunk, step, asks, err) != 0)
			return err_prefix(err, "%s", compare_page_step_name(step));
	}
	return 0;
}

static int do_steps(struct store_tx *tx, struct chunk *chunk, const compare_steps *steps,
		    struct err *err)
{
	registry_asks asks = { 0 };
	int result = choose_steps(tx, chunk, steps, &asks, err);

	if (result == 0)
		result = registry_ask_many_in(tx, chunk->kind, asks.items, asks.count,
					      err);
	vec_clear(&asks);
	return result;
}

static int compare_chunk(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
	struct chunk *chunk = arg;
	compare_steps steps = { 0 };
	struct compare_range range = { .items = chunk->items,
				       .reports_checksums = chunk->reports_checksums,
				       .asked_at = chunk->asked_at };
	int result;

	if (registry_list_in(tx,
			     &(struct registry_filter){ .kind = chunk->kind,
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
	chunk->done_rows = range.row_count;
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

static bool compare_page_is_chunk_done(const struct chunk *chunk)
{
	if (!chunk->reached || !chunk->end)
		return chunk->reached == chunk->end;
	return strcmp(chunk->reached, chunk->end) == 0;
}

/* ERR_LOST: the lease of the comparing part; ERR_CANCELED: stop. */
static int compare_page(const struct consistency *work, struct pass *pass,
			const struct inventory_page *page, struct err *err)
{
	AUTO_FREE char *after = pass->after ? xstrdup(pass->after) : NULL;
	AUTO_CLOSE int root =
		pass->is_of_another ? pull_open_copies(work->pull, pass->kind.type) : -1;
	struct chunk chunk = { .pull = work->pull,
			       .kind = pass->kind.type,
			       .reports_checksums = pass->kind.copies->has_late_checksums,
			       .asked_at = pass->asked_wall,
			       .items = page->items.items,
			       .item_count = page->items.count,
			       .after = after,
			       .end = page->next,
			       .is_part = page->is_part,
			       .holds = pass->is_of_another,
			       .root = root };
	int result;

	pass->page_rows = 0;
	do {
		result = lease_check(work->lease, err);
		if (result == 0)
			result = settle_chunk(&chunk, err);
		if (result != 0)
			break;
		pass->found += chunk.steps;
		pass->left += chunk.left;
		pass->held += chunk.held;
		pass->page_rows += (int64_t)chunk.done_rows;
		if (chunk.done_items > 0) /* none of an empty page, whose list is NULL */
			chunk.items += chunk.done_items;
		chunk.item_count -= chunk.done_items;
		free(after);
		after = chunk.reached ? xstrdup(chunk.reached) : NULL;
		chunk.after = after;
	} while (!compare_page_is_chunk_done(&chunk) &&
		 !stop_is_requested(&work->pull->stop));
	if (result == 0 && !compare_page_is_chunk_done(&chunk))
		result = err_set(err, ERR_CANCELED, "the comparison was left");
	pass->compared += pass->page_rows;
	free(chunk.reached);
	return result;
}

static void begin_pass(struct pull *pull, struct pass *pass)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	pass->number = pull->asked;
	pass->is_whole = pass->number > pass->answered || pass->ended_at == 0;
	pass->is_passing = true;
	pass->found = pass->left = 0;
	pass->compared = 0;
	pass->is_part = false;
	pass->timeline[0] = '\0';
	free(TAKE(pass->after));
}

/* What a comparison of all kinds proves. */
struct compared {
	int64_t at;      /* wall ms; 0: nothing */
	int64_t ordered; /* removals by order of which it knows */
};

static int write_compared(struct store_tx *tx, void *arg, struct err *err)
{
	const struct compared *compared = arg;

	if (site_value_set_number(tx, PULL_COMPARED, compared->at, err) != 0)
		return -1;
	return site_value_set_number(tx, PULL_COMPARED_ORDERED, compared->ordered, err);
}

/* What holds for all kinds: since when each was compared, and for whom. */
static int64_t all_ended_at(const struct consistency *work)
{
	int64_t at = INT64_MAX;

	for (size_t i = 0; i < work->passes.count; i++)
		if (work->passes.items[i].ended_at < at)
			at = work->passes.items[i].ended_at;
	return at;
}

static int64_t all_ordered(const struct consistency *work)
{
	int64_t sum = 0;

	for (size_t i = 0; i < work->passes.count; i++)
		sum += work->passes.items[i].ordered;
	return sum;
}

static uint64_t all_answered(const struct consistency *work)
{
	uint64_t number = UINT64_MAX;

	for (size_t i = 0; i < work->passes.count; i++)
		if (work->passes.items[i].answered < number)
			number = work->passes.items[i].answered;
	return number;
}

/* After an interval the next pass begins; it may take twice as long as pages like those
 * of the last one make it. */
static int64_t fresh_until(const struct pass *pass, int64_t interval_ms)
{
	const struct page_pace pace = {
		.interval_ms = interval_ms,
		.rows = pass->rows,
		.page_rows = pass->rows < PAGE_LIMIT ? pass->rows : PAGE_LIMIT,
		.took_ms = pass->slowest_ms,
	};

	if (pass->ended_boot == 0)
		return 0;
	return pass->ended_boot + interval_ms + 2 * pass_takes_ms(&pace) + FRESH_SLACK_MS;
}

static void keep_freshness_locked(const struct consistency *work)
{
	struct pull *pull = work->pull;
	const int64_t interval_ms = pull->settings.consistency_interval_ms;

	pull->state.compared_boot = pull->state.compared_until = INT64_MAX;
	for (size_t i = 0; i < work->passes.count; i++) {
		const struct pass *pass = &work->passes.items[i];
		int64_t until = fresh_until(pass, interval_ms);
		if (until < pull->state.compared_until)
			pull->state.compared_until = until;
		if (pass->ended_boot < pull->state.compared_boot)
			pull->state.compared_boot = pass->ended_boot;
	}
}

static int report_ended(const struct consistency *work, struct err *err)
{
	struct pull *pull = work->pull;
	int64_t at = all_ended_at(work);
	struct compared compared = { .at = at, .ordered = all_ordered(work) };

	/* A power cut may take it back: then less is said than was compared. */
	if (at > 0 && store_write_unsynced(pull->options.store, write_compared, &compared,
					   err) != 0)
		return -1;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	pull->compared = all_answered(work);
	if (at > 0)
		pull->state.compared_at = at;
	keep_freshness_locked(work);
	pthread_cond_broadcast(&pull->changed);
	return 0;
}

/* The inventory was gone through, or is known to be as it was when it last was. */
static int end_pass(struct consistency *work, struct pass *pass, struct err *err)
{
	const uint64_t answered = pass->answered;
	const int64_t ended_at = pass->ended_at, ended_boot = pass->ended_boot;
	const int64_t ordered = pass->ordered;

	if (pass->is_passing && pass->answered < pass->number)
		pass->answered = pass->number;
	pass->ended_at = clock_wall_ms();
	pass->ended_boot = clock_boot_ms();
	pass->ordered = pass->ordered_begun;
	if (report_ended(work, err) != 0) {
		pass->answered = answered;
		pass->ordered = ordered;
		pass->ended_at = ended_at;
		pass->ended_boot = ended_boot;
		return -1;
	}
	if (pass->is_passing && pass->found > 0)
		log_info("consistency.repaired", LOG_TEXT("kind", pass->kind.type),
			 LOG_NUMBER("rows", pass->found));
	pass->is_passing = false;
	free(TAKE(pass->after));
	return 0;
}

static int write_skipped(struct store_tx *tx, void *arg, struct err *err)
{
	const struct pass *pass = arg;

	return pull_skipped_write(tx, pass->kind.type, &pass->skipped, err);
}

/* Whether another comparison was asked for since it began, as of an event that it may not
 * know of. */
static bool is_overtaken(struct pull *pull, const struct pass *pass)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	return pull->asked > pass->number;
}

/* Before the pass counts: a site that leaves out what its primary has is not in sync. */
static int keep_skipped(const struct consistency *work, struct pass *pass,
			struct err *err)
{
	struct store *store = work->pull->options.store;
	struct scan_record before;

	if (pull_skipped_read(store, pass->kind.type, &before, err) != 0)
		return -1;
	if ((before.left_out == pass->skipped.left_out &&
	     strcmp(before.example, pass->skipped.example) == 0) ||
	    (pass->skipped.left_out == 0 && is_overtaken(work->pull, pass)))
		return 0;
	if (store_write(store, write_skipped, pass, err) != 0)
		return -1;
	if (pass->skipped.left_out > 0)
		log_error("consistency.skipped", LOG_TEXT("kind", pass->kind.type),
			  LOG_NUMBER("count", pass->skipped.left_out),
			  LOG_TEXT("example", pass->skipped.example));
	return 0;
}

static void add_skipped(struct pass *pass, const struct inventory_page *page)
{
	struct scan_record *skipped = &pass->skipped;

	if (!pass->after)
		*skipped = (struct scan_record){ 0 };
	if (page->skipped > 0 && skipped->left_out == 0)
		snprintf(skipped->example, sizeof(skipped->example), "%s",
			 page->skipped_example);
	skipped->left_out += (int64_t)page->skipped;
}

/* Once a start, when it is known what the primary has; after a failure, with the next
 * comparison, which is as this one. */
static int look_for_leftovers(const struct consistency *work, struct pass *pass)
{
	const struct leftovers_call call = { .kind = &pass->kind,
					     .rows = pass->rows,
					     .is_of_another = pass->is_of_another };
	struct err err;

	if (pass->has_no_leftovers || pass->is_part || !pass->kind.copies->take_leftovers)
		return 0;
	pass->has_no_leftovers =
		pass->kind.copies->take_leftovers(work->pull, &call, &err) == 0;
	if (pass->has_no_leftovers)
		return 0;
	log_warn("leftovers.failed", LOG_ERR(&err));
	pass->clean_etag[0] = '\0'; /* the next one reads the inventory again */
	return -1;
}

static int look_at_followed(const struct consistency *work, struct pass *pass,
			    struct err *err)
{
	int result = followed_was_another(work->pull->options.store, pass->kind.type,
					  pass->timeline, err);

	pass->is_of_another = result > 0;
	return result < 0 ? -1 : 0;
}

/* From now on what the primary lacks was deleted there; unless something of it was not
 * compared yet, or what has no row was not looked for. */
static int keep_followed(const struct consistency *work, struct pass *pass,
			 struct err *err)
{
	const bool has_rows_for_all = look_for_leftovers(work, pass) == 0;

	if (pass->held > 0)
		removal_report_held(pass->kind.type, pass->held);
	pass->held = 0;
	if (pass->is_of_another && (pass->is_part || pass->left > 0 || !has_rows_for_all))
		return 0;
	return followed_keep(work->pull->options.store, pass->kind.type, pass->timeline,
			     pass->is_part, err);
}

static int take_page(struct consistency *work, struct pass *pass,
		     struct inventory_page *page, struct err *err)
{
	int64_t took;

	if (pass->timeline[0] && strcmp(pass->timeline, page->timeline) != 0) {
		begin_pass(work->pull, pass); /* another log: what was compared says
						 nothing */
		return 0;
	}
	if (!pass->after) {
		pass->slowest_ms = 0;
		memcpy(pass->timeline, page->timeline, sizeof(pass->timeline));
		snprintf(pass->etag, sizeof(pass->etag), "%s", page->etag);
		if (look_at_followed(work, pass, err) != 0)
			return -1;
	}
	pass->is_part = pass->is_part || page->is_part;
	if (compare_page(work, pass, page, err) != 0)
		return -1;
	add_skipped(pass, page);
	took = clock_boot_ms() - pass->asked_at;
	if (took > pass->slowest_ms)
		pass->slowest_ms = took;
	free(pass->after);
	pass->after = TAKE(page->next);
	failpoint("consistency.compared");
	if (pass->after)
		return 0;
	if (keep_skipped(work, pass, err) != 0)
		return -1;
	pass->clean_etag[0] = '\0';
	if (pass->found == 0 && pass->left == 0 && pass->skipped.left_out == 0) {
		memcpy(pass->clean_etag, pass->etag, sizeof(pass->clean_etag));
		pass->clean_at = clock_boot_ms();
		/* Not how many there are now: since they were compared one may have
		 * come, and another may go. */
		pass->clean_rows = pass->compared;
	}
	if (end_pass(work, pass, err) != 0)
		return -1;
	return keep_followed(work, pass, err);
}

/* A pass that was asked for looks at everything, a usual one begins with the question
 * whether there is anything to look at. */
static const char *etag_to_send(const struct pass *pass)
{
	if (pass->is_whole || pass->after || !pass->clean_etag[0] || pass->gone > 0 ||
	    pass->rows != pass->clean_rows ||
	    clock_boot_ms() - pass->clean_at >= TRUST_ETAG_MS)
		return NULL;
	return pass->clean_etag;
}

static int consistency_read_counts(struct store_tx *tx, void *arg, struct err *err)
{
	struct pass *pass = arg;

	if (registry_ordered_in(tx, pass->kind.type, &pass->ordered_begun, err) != 0)
		return -1;
	if (registry_count_here(tx, pass->kind.type, &pass->here, err) != 0)
		return -1;
	return registry_count_all_in(tx, pass->kind.type, &pass->rows, &pass->gone, err);
}

/* A log that lacks what this site has read went back, as to a snapshot. The cursor's
 * question makes the primary find that out, and begin another log; a comparison before
 * that would take what it lacks for deleted there. */
static int check_log(const struct pull_cursor *read, const struct inventory_page *page,
		     struct err *err)
{
	if (strcmp(page->timeline, read->timeline) != 0 || page->last_event > read->id ||
	    (page->last_event == read->id && strcmp(page->last_mark, read->mark) == 0))
		return 0;
	return err_set(err, ERR_CONFLICT,
		       "the primary's log ends with event %" PRIu64 ", and this site "
		       "has read event %" PRIu64 " of it: it went back",
		       page->last_event, read->id);
}

/* Where the cursor was before the page is asked for; zeroes: nowhere. */
static int read_position(struct store *store, struct pull_cursor *read, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	int found = site_value_read(store, PULL_CURSOR, &text, err);

	*read = (struct pull_cursor){ 0 };
	if (found > 0 && !pull_cursor_parse(text.data, read))
		*read = (struct pull_cursor){ 0 };
	return found < 0 ? -1 : 0;
}

static int consistency_ask_page(struct consistency *work, const struct pass *pass,
				const struct pull_cursor *read,
				struct inventory_page *page, struct err *err)
{
	const struct page_question question = { .after = pass->after,
						.limit = PAGE_LIMIT,
						.etag = etag_to_send(pass) };

	if (!work->line && primary_line_open(work->pull->options.primary,
					     &work->pull->stop, &work->line, err) != 0)
		return -1;
	int answer = primary_inventory(work->line, &pass->kind, &question, page, err);
	if (answer != INVENTORY_PAGE || check_log(read, page, err) == 0)
		return answer;
	inventory_page_clear(page);
	return -1;
}

/* Nobody knows whether they are still what the primary has. */
static struct scan_record leave_out_all(const struct pass *pass)
{
	struct scan_record all = { .left_out = pass->here };

	if (all.left_out <= 0)
		return (struct scan_record){ 0 };
	snprintf(all.example, sizeof(all.example),
		 "all of kind %s: the primary has no such kind", pass->kind.type);
	return all;
}

/* There is nothing to compare with. What is here stays, but the site is not in sync; and
 * what the primary finds later comes with an event, or with a later pass. Nothing else
 * waits for that. */
static int skip_pass(struct consistency *work, struct pass *pass, struct err *err)
{
	if (!pass->is_unknown)
		log_warn("consistency.no_kind", LOG_TEXT("kind", pass->kind.type));
	pass->is_unknown = true;
	pass->skipped = leave_out_all(pass);
	pass->clean_etag[0] = '\0'; /* what comes back is read, or it stays left out */
	return keep_skipped(work, pass, err) == 0 ? end_pass(work, pass, err) : -1;
}

/* The primary does not know yet what it has. Until then this kind counts as never
 * compared; but the cursor does not wait for it, so that one large or broken directory
 * holds up no repository: events from its position on are taken over, and what came
 * before is found by this pass, once it can begin. */
static int put_off_pass(struct consistency *work, struct pass *pass, struct err *err)
{
	struct compared never = { 0 };
	struct pull *pull = work->pull;

	if (pass->waits == 0) {
		if (store_write(pull->options.store, write_compared, &never, err) != 0)
			return -1;
		log_info("consistency.waits", LOG_TEXT("kind", pass->kind.type));
	}
	pass->waits++;
	pass->ended_at = pass->ended_boot = 0;
	pass->answered = pass->number;
	pass->is_passing = false;
	free(TAKE(pass->after));
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	pull->compared = all_answered(work);
	keep_freshness_locked(work);
	pthread_cond_broadcast(&pull->changed);
	return 0;
}

static int judge_answer(struct consistency *work, struct pass *pass, int answer,
			struct inventory_page *page, struct err *err)
{
	if (answer == INVENTORY_NOT_SCANNED)
		return put_off_pass(work, pass, err);
	pass->waits = 0;
	if (answer == INVENTORY_NO_KIND)
		return skip_pass(work, pass, err);
	pass->is_unknown = false;
	return answer == INVENTORY_PAGE ? take_page(work, pass, page, err)
					: end_pass(work, pass, err);
}

/* It counts as heard of when no kind's question fails; those that did are asked again. */
static void peer_answered(struct consistency *work, struct pass *pass)
{
	bool is_failing = false;

	pass->is_peers = false;
	for (size_t i = 0; i < work->passes.count; i++) {
		struct pass *other = &work->passes.items[i];
		if (!other->is_peers)
			continue;
		is_failing = true;
		if (other->failures == 1)
			other->pause_ms = 0;
	}
	if (!is_failing)
		peer_good(work->pull, PULL_PART_CONSISTENCY);
}

static int consistency_read_page(struct consistency *work, struct pass *pass,
				 struct err *err)
{
	struct store *store = work->pull->options.store;
	struct inventory_page page = { 0 };
	struct pull_cursor read;
	int answer, result;

	pass->is_peers = false;
	if (read_position(store, &read, err) != 0 ||
	    (!pass->after && store_read(store, consistency_read_counts, pass, err) != 0))
		return -1;
	names_record(work->pull);
	result = answer = consistency_ask_page(work, pass, &read, &page, err);
	if (answer < 0) {
		pass->is_peers = true;
	} else {
		peer_answered(work, pass);
		result = judge_answer(work, pass, answer, &page, err);
		inventory_page_clear(&page);
	}
	names_forget(work->pull);
	return result;
}

/* In the middle of something, or after a pass that found work, the next page is due at
 * once: while there is much to do, an interval would be long. But what two passes in a
 * row found is not repaired by haste. */
static bool consistency_is_due_at_once(const struct pass *pass, size_t found_before)
{
	if (pass->is_passing)
		return pass->is_whole || pass->found > found_before;
	return pass->found > 0 && !pass->was_dirty;
}

static int64_t consistency_pause_ms(const struct consistency *work,
				    const struct pass *pass)
{
	const struct page_pace pace = {
		.interval_ms = pull_settings_now(work->pull).consistency_interval_ms,
		.rows = pass->rows,
		.page_rows = pass->page_rows,
		.took_ms = clock_boot_ms() - pass->asked_at,
	};

	return page_pause_ms(&pace);
}

static void consistency_note_failure(struct consistency *work, struct pass *pass,
				     const struct err *err)
{
	if (err->class == ERR_CANCELED || err->class == ERR_LOST) {
		pass->is_peers = false;
		return;
	}
	pass->failures++;
	if (pass->is_peers)
		peer_bad(work->pull, PULL_PART_CONSISTENCY, err);
	else if (pass->failures == 1)
		log_error("consistency.failed", LOG_TEXT("kind", pass->kind.type),
			  LOG_ERR(err));
	pass->pause_ms = backoff_ms(pass->failures, random_roll());
}

/* Where nothing has changed, the one answer is all of a comparison. */
static void consistency_measure(const struct pass *pass, int64_t took_ns)
{
	struct metric *took =
		metric_histogram("refrelay_comparison_page_seconds",
				 "How long a page of the primary's inventory took, or "
				 "the answer that nothing has changed.",
				 metric_buckets_seconds, "kind");

	if (took_ns >= 0) /* the clock may be set */
		metric_observe(metric_at(took, pass->kind.type), (double)took_ns / 1e9);
}

static void consistency_run_step(struct consistency *work, struct pass *pass)
{
	bool was_dirty = pass->found > 0;
	const int64_t begun_ns = clock_wall_ns();
	struct err err;

	if (!pass->is_passing) {
		begin_pass(work->pull, pass);
		pass->was_dirty = was_dirty;
	}
	size_t found = pass->found;
	pass->asked_at = clock_boot_ms();
	pass->asked_wall = clock_wall_ms();
	if (consistency_read_page(work, pass, &err) != 0) {
		consistency_note_failure(work, pass, &err);
		return;
	}
	pass->failures = 0;
	consistency_measure(pass, clock_wall_ns() - begun_ns);
	if (pass->waits > 0)
		pass->pause_ms = backoff_ms(pass->waits, random_roll());
	else if (consistency_is_due_at_once(pass, found))
		pass->pause_ms = 0;
	else
		pass->pause_ms = pass->is_passing ? consistency_pause_ms(work, pass) : -1;
}

/* The comparison that is asked for is not the one under way. */
static bool is_asked_anew_locked(const struct pull *pull, const struct pass *pass)
{
	return pull->asked > pass->answered &&
	       !(pass->is_passing && pass->number == pull->asked);
}

/* There may be another key, or the primary was heard of by others. */
static void hurry_locked(struct consistency *work)
{
	if (work->hurries == work->pull->hurries)
		return;
	work->hurries = work->pull->hurries;
	for (size_t i = 0; i < work->passes.count; i++)
		if (work->passes.items[i].failures + work->passes.items[i].waits > 0)
			work->passes.items[i].pause_ms = 0;
}

/* When its next page is due, boot ms. */
static int64_t due_at_locked(const struct pull *pull, struct pass *pass)
{
	int64_t pause = pass->pause_ms;

	if (is_asked_anew_locked(pull, pass) && pass->failures == 0) {
		pass->is_passing = false;
		return 0;
	}
	if (pause < 0)
		pause = pull->settings.consistency_interval_ms;
	return pass->asked_at + pause;
}

static struct pass *next_pass_locked(struct consistency *work, int64_t *due_at)
{
	struct pass *next = NULL;

	for (size_t i = 0; i < work->passes.count; i++) {
		struct pass *pass = &work->passes.items[i];
		int64_t at = due_at_locked(work->pull, pass);
		if (!next || at < *due_at ||
		    (at == *due_at && pass->asked_at < next->asked_at)) {
			next = pass;
			*due_at = at;
		}
	}
	return next;
}

/* The one whose next page is due, which may be because a comparison is asked for. NULL:
 * stop. */
static struct pass *wait_until_due(struct consistency *work)
{
	struct pull *pull = work->pull;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	while (!pull->stopping) {
		int64_t due_at = 0;
		hurry_locked(work);
		struct pass *pass = next_pass_locked(work, &due_at);
		if (due_at <= clock_boot_ms())
			return pass;
		cond_wait_until(&pull->changed, &pull->mutex, due_at);
	}
	return NULL;
}

static void add_passes(struct consistency *work)
{
	const struct kind *kind = NULL;

	while ((kind = kinds_next_copied(work->pull->options.here, kind)) != NULL)
		vec_add(&work->passes, ((struct pass){ .kind = *kind }));
}

void *consistency_run(void *arg)
{
	struct consistency work = { .pull = arg };

	add_passes(&work);
	while (site_lease_hold(work.pull, "consistency", &work.lease)) {
		struct pass *pass = wait_until_due(&work);
		if (pass)
			consistency_run_step(&work, pass);
	}
	primary_line_close(work.line);
	lease_release(work.lease);
	vec_clear_members(&work.passes, after);
	return NULL;
}
