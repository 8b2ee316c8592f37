#include "pull/decisions.h"

#include "base/clock.h"
#include "base/str.h"

void pull_cursor_set(struct pull_cursor *cursor, const struct event_ends *ends)
{
	cursor->id = ends->last;
	memcpy(cursor->mark, ends->mark, sizeof(cursor->mark));
	memcpy(cursor->timeline, ends->timeline, sizeof(cursor->timeline));
}

void pull_cursor_format(const struct pull_cursor *cursor, char text[PULL_CURSOR_SIZE])
{
	snprintf(text, PULL_CURSOR_SIZE, "%" PRIu64 " %s %s", cursor->id,
		 cursor->mark[0] ? cursor->mark : "-", cursor->timeline);
}

static bool is_identity(const char *text)
{
	unsigned char bytes[8];

	return text_from_hex(text, bytes, sizeof(bytes));
}

bool pull_cursor_parse(const char *text, struct pull_cursor *cursor)
{
	char id[21], mark[EVENT_MARK_SIZE], timeline[TIMELINE_SIZE], rest;

	*cursor = (struct pull_cursor){ 0 };
	if (sscanf(text, "%20s %16s %16s %c", id, mark, timeline, &rest) != 3 ||
	    !text_to_uint64(id, &cursor->id) || !is_identity(timeline))
		return false;
	if (cursor->id == 0 ? strcmp(mark, "-") != 0 : !is_identity(mark))
		return false;
	if (cursor->id > 0)
		memcpy(cursor->mark, mark, sizeof(mark));
	memcpy(cursor->timeline, timeline, sizeof(timeline));
	return true;
}

static int compare_events(const void *a, const void *b)
{
	const struct event *one = ((const struct folded_event *)a)->last;
	const struct event *other = ((const struct folded_event *)b)->last;
	int order = strcmp(one->name, other->name);

	if (order == 0)
		order = strcmp(one->kind, other->kind);
	return order != 0 ? order : (one->id > other->id) - (one->id < other->id);
}

static int compare_ids(const void *a, const void *b)
{
	uint64_t one = ((const struct folded_event *)a)->last->id;
	uint64_t other = ((const struct folded_event *)b)->last->id;

	return (one > other) - (one < other);
}

static bool is_of_same(const struct event *a, const struct event *b)
{
	return strcmp(a->name, b->name) == 0 && strcmp(a->kind, b->kind) == 0;
}

/* A checksum comes with the generation that it is of: with a change before it, it is what
 * that change would have told. */
static void add_event(struct folded_event *to, const struct folded_event *next)
{
	if (to->is_reported_only && !next->is_reported_only)
		to->since = next->since;
	to->last = next->last;
	to->is_reported_only = to->is_reported_only && next->is_reported_only;
}

void fold_events(const event_list *events, folded_events *folded)
{
	size_t kept = 0;

	for (size_t i = 0; i < events->count; i++) {
		const struct event *event = &events->items[i];
		vec_add(folded,
			((struct folded_event){ event, event, event->at,
						event->what == EVENT_CHECKSUMMED }));
	}
	vec_sort(folded, compare_events);
	for (size_t i = 0; i < folded->count; i++) {
		struct folded_event *item = &folded->items[i];
		struct folded_event *before = kept ? &folded->items[kept - 1] : NULL;
		if (before && is_of_same(before->last, item->last))
			add_event(before, item);
		else
			folded->items[kept++] = *item;
	}
	folded->count = kept;
	vec_sort(folded, compare_ids);
}

/* Of what the primary says now, or on its timeline before it went back. */
static bool is_of_another_history(const struct inventory_item *item,
				  const struct registry_row *row)
{
	return strcmp(item->timeline, row->timeline) != 0 ||
	       row->generation_wanted > item->generation;
}

/* Generations count only on their timeline. A row that is ahead may have read the primary
 * itself since the inventory was asked for; else the primary went back, unless an event
 * told it meanwhile, which the caller knows. */
static bool decisions_is_as_reported(const struct compare_range *range,
				     const struct inventory_item *item,
				     const struct registry_row *row)
{
	if (strcmp(item->timeline, row->timeline) != 0)
		return false;
	if (row->generation_wanted > item->generation)
		return row->last_success_at >= range->asked_at;
	return row->generation_wanted == item->generation &&
	       (!row->primary_checksum || !item->checksum ||
		strcmp(row->primary_checksum, item->checksum) == 0);
}

static bool is_first_reported(const struct inventory_item *item,
			      const struct registry_row *row)
{
	return item->checksum && !row->primary_checksum &&
	       row->generation_wanted == item->generation;
}

/* Of a blob after a restore of the primary. A repository is more than its checksum, which
 * is of its refs: readers' settings and the description may be others. */
static bool is_proved_same(const struct inventory_item *item,
			   const struct registry_row *row)
{
	return !kind_is_repository(row->kind) && is_of_another_history(item, row) &&
	       row->state == REGISTRY_SYNCED &&
	       row->verification == VERIFICATION_SUCCEEDED && row->checksum &&
	       item->checksum && strcmp(row->checksum, item->checksum) == 0;
}

static void compare_pair(const struct compare_range *range,
			 const struct inventory_item *item,
			 const struct registry_row *row, compare_steps *steps)
{
	struct compare_step step = { .item = item, .row = row };

	if (row && !row->is_gone) {
		bool is_as_it_was = decisions_is_as_reported(range, item, row);
		/* What the primary cannot read, it cannot give. */
		if (item->is_unreadable ||
		    (is_as_it_was &&
		     !(range->reports_checksums && is_first_reported(item, row))))
			return;
		if (is_as_it_was)
			step.action = COMPARE_REPORT;
		else if (is_proved_same(item, row))
			step.action = COMPARE_ADOPT;
	}
	vec_add(steps, step);
}

/* Which of the next two names comes first. */
static int order_at(const struct compare_range *range, size_t item, size_t row)
{
	if (item == range->item_count)
		return 1;
	if (row == range->row_count)
		return -1;
	return strcmp(range->items[item].name, range->rows[row].name);
}

void compare_range(const struct compare_range *range, compare_steps *steps)
{
	size_t i = 0, r = 0;

	while (i < range->item_count || r < range->row_count) {
		const struct inventory_item *item = NULL;
		const struct registry_row *row = NULL;
		int order = order_at(range, i, r);
		if (order <= 0)
			item = &range->items[i++];
		if (order >= 0)
			row = &range->rows[r++];
		if (item)
			compare_pair(range, item, row, steps);
		else if (row && !row->is_gone)
			vec_add(steps, ((struct compare_step){ .action = COMPARE_GONE,
							       .row = row }));
	}
}

size_t count_items_until(const struct inventory_item *items, size_t count,
			 const char *end)
{
	size_t found = 0;

	while (found < count && (!end || strcmp(items[found].name, end) <= 0))
		found++;
	return found;
}

size_t count_rows_until(const struct registry_row *rows, size_t count, const char *end)
{
	size_t found = 0;

	while (found < count && (!end || strcmp(rows[found].name, end) <= 0))
		found++;
	return found;
}

int64_t page_pause_ms(const struct page_pace *pace)
{
	int64_t pause = pace->interval_ms, least = 4 * pace->took_ms;

	if (pace->rows > pace->page_rows)
		pause = (int64_t)((double)pause * (double)pace->page_rows /
				  (double)pace->rows);
	if (pause < least)
		pause = least;
	return pause < pace->interval_ms ? pause : pace->interval_ms;
}

int64_t pass_takes_ms(const struct page_pace *pace)
{
	int64_t pages = pace->page_rows > 0
				? (pace->rows + pace->page_rows - 1) / pace->page_rows
				: 1;

	return (pages > 0 ? pages : 1) * (pace->took_ms + page_pause_ms(pace));
}

#define BACKOFF_MOST_MS 30000
#define IDLE_MS 5000

int64_t backoff_ms(unsigned failures, unsigned roll)
{
	int64_t ms = BACKOFF_MOST_MS;

	if (failures == 0)
		return 0;
	if (failures <= 5)
		ms = (int64_t)1000 << (failures - 1);
	return ms - ms / 4 + (int64_t)roll % (ms / 2 + 1);
}

bool is_idle_loss(const struct err *err, int64_t waited_ms)
{
	return err->class == ERR_NETWORK && waited_ms >= IDLE_MS;
}

int64_t next_reverify_ms(int64_t reverify_ms, unsigned roll)
{
	int64_t half = reverify_ms / 2;

	if (reverify_ms <= 0)
		return 0;
	return reverify_ms -
	       (int64_t)((double)half * ((double)roll / (double)UINT32_MAX));
}

/* What was found damaged is not believed again on the word of records. */
struct sync_manner sync_manner_of(const struct registry_row *row)
{
	bool is_damaged = row->verification == VERIFICATION_FAILED ||
			  (row->failure_class &&
			   strcmp(row->failure_class, err_class_name(ERR_CORRUPT)) == 0);

	return (struct sync_manner){
		.is_forced = row->wishes & REGISTRY_WISH_FORCE,
		.is_suspect = is_damaged || (row->wishes & REGISTRY_WISH_RECHECK),
		.is_rebuild = row->wishes & REGISTRY_WISH_REBUILD,
	};
}

enum registry_event verification_end(const struct err *err, bool of_copy)
{
	if (err->class == ERR_NONE)
		return REGISTRY_PROVED;
	return of_copy && err_is_of_data(err) ? REGISTRY_DISPROVED : REGISTRY_SUPERSEDED;
}

int64_t verification_again_ms(enum err_class class)
{
	switch (class) {
	case ERR_BUSY:
	case ERR_LOCK_TIMEOUT:
	case ERR_LOCK_UNAVAILABLE:
		return 5000;
	case ERR_CANCELED:
	case ERR_LOST:
	case ERR_CONFLICT:
		return 0;
	case ERR_DISK: /* often full for moments only; until then nothing is in sync */
	case ERR_NETWORK:
		return 60000;
	default:
		return (int64_t)10 * 60 * 1000;
	}
}
