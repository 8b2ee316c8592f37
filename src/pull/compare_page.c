/*
 * A page of an inventory against the registry's rows of the same range of names, a chunk
 * at a time: read first, and written only where something differs.
 */
#include "pull/compare_page.h"

#include "pull/decisions.h"
#include "replicable/name.h"

#define CHUNK 1000

typedef VEC(struct registry_ask) registry_asks;

struct chunk {
	struct pull *pull;
	const char *kind;
	bool tells; /* as in struct compare_range */
	const struct inventory_item *items;
	size_t item_count;
	const char *after; /* names above it; NULL: from the first */
	const char *end;   /* up to this one; NULL: to the last */
	bool is_part;      /* absence says nothing */
	/* Results. */
	bool writes;
	size_t done_items, done_rows;
	char *reached; /* owned; NULL: the end */
	size_t steps, left;
};

static struct registry_move compare_page_make_move(const struct compare_step *step)
{
	static const enum registry_event events[] = { [COMPARE_ASK] = REGISTRY_ASKED,
						      [COMPARE_TELL] = REGISTRY_TOLD,
						      [COMPARE_GONE] = REGISTRY_GONE };
	struct registry_move move = { 0 };

	if (step->action != COMPARE_ADOPT)
		move.event = events[step->action];
	if (step->row)
		move.id = step->row->id;
	if (step->item) {
		move.generation = step->item->generation;
		move.timeline = step->item->timeline;
		move.checksum = step->item->checksum;
		move.size = step->item->size;
		move.changed_at = step->item->changed_at;
	}
	return move;
}

/* What is to be brought is only gathered, to be asked for in one go. */
static int do_step(struct store_tx *tx, const struct compare_step *step,
		   registry_asks *asks, struct err *err)
{
	const struct registry_move move = compare_page_make_move(step);
	int result;

	if (step->action == COMPARE_ASK) {
		vec_add(asks, ((struct registry_ask){ step->item->name, move }));
		return 0;
	}
	result = step->action == COMPARE_ADOPT ? registry_adopt_in(tx, &move, err)
					       : registry_move_in(tx, &move, err);
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
	for (size_t i = 0; i < steps->count; i++) {
		const struct compare_step *step = &steps->items[i];
		if (chunk->is_part && step->action == COMPARE_GONE)
			continue;
		if (names_has(chunk->pull, chunk->kind, compare_page_step_name(step))) {
			chunk->left++;
			continue;
		}
		chunk->steps++;
		if (chunk->writes && do_step(tx, step, asks, err) != 0)
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
	struct compare_range range = { .items = chunk->items, .tells = chunk->tells };
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

int compare_page(struct lease *lease, struct page_comparison *comparison, struct err *err)
{
	const struct inventory_page *page = comparison->page;
	struct pull *pull = comparison->pull;
	AUTO_FREE char *after = comparison->after ? xstrdup(comparison->after) : NULL;
	struct chunk chunk = { .pull = pull,
			       .kind = comparison->kind,
			       .tells = strcmp(comparison->kind, KIND_REPOSITORY) != 0,
			       .items = page->items.items,
			       .item_count = page->items.count,
			       .after = after,
			       .end = page->next,
			       .is_part = page->is_part };
	int result;

	do {
		result = lease_check(lease, err);
		if (result == 0)
			result = settle_chunk(&chunk, err);
		if (result != 0)
			break;
		comparison->found += chunk.steps;
		comparison->left += chunk.left;
		comparison->rows += (int64_t)chunk.done_rows;
		if (chunk.done_items > 0) /* none of an empty page, whose list is NULL */
			chunk.items += chunk.done_items;
		chunk.item_count -= chunk.done_items;
		free(after);
		after = chunk.reached ? xstrdup(chunk.reached) : NULL;
		chunk.after = after;
	} while (!compare_page_is_chunk_done(&chunk) && !stop_is_requested(&pull->stop));
	if (result == 0 && !compare_page_is_chunk_done(&chunk))
		result = err_set(err, ERR_CANCELED, "the comparison was left");
	free(chunk.reached);
	return result;
}
