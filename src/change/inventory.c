#include "change/inventory.h"

#include "base/map.h"
#include "base/thread.h"
#include "replicable/kind.h"

/* Ends and rows come from one read transaction, so that the tag never stands for rows of
 * another moment. */
struct picture {
	const char *kind;
	const struct page_question *question;
	struct inventory_page *page;
	struct event_ends ends;
	enum event_scanned scanned;
};

static int inventory_read_ends(struct store_tx *tx, void *arg, struct err *err)
{
	struct picture *picture = arg;

	if (event_log_ends(tx, &picture->ends, err) != 0)
		return -1;
	return event_log_scanned_in(tx, picture->kind, &picture->scanned, err);
}

struct inventory_tags {
	pthread_mutex_t mutex;
	struct map known; /* struct known_tag, owned, by kind; guarded by mutex */
	struct store *store;
};

/* Holds while the database has this stamp, which was taken before the tag was read. */
struct known_tag {
	struct store_stamp stamp;
	struct inventory_tag tag;
};

struct inventory_tags *inventory_tags_new(struct store *store)
{
	struct inventory_tags *tags = xcalloc(1, sizeof(*tags));

	tags->store = store;
	mutex_init(&tags->mutex);
	return tags;
}

void inventory_tags_free(struct inventory_tags *tags)
{
	if (!tags)
		return;
	map_clear_owned(&tags->known);
	pthread_mutex_destroy(&tags->mutex);
	free(tags);
}

bool inventory_tags_now(struct inventory_tags *tags, const char *kind,
			struct inventory_tag *tag)
{
	const struct known_tag *known;
	struct store_stamp stamp;

	AUTO_UNLOCK pthread_mutex_t *held = lock(&tags->mutex);
	known = map_get(&tags->known, kind);
	if (!known || !store_stamp(tags->store, &stamp) ||
	    !store_stamp_equal(&stamp, &known->stamp))
		return false;
	*tag = known->tag;
	return true;
}

static void inventory_keep_tag(struct inventory_tags *tags, const char *kind,
			       const struct known_tag *fresh)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&tags->mutex);
	struct known_tag *known = map_get(&tags->known, kind);

	if (!known) {
		known = xmalloc(sizeof(*known));
		map_put(&tags->known, kind, known);
	}
	*known = *fresh;
}

int inventory_tags_look(struct inventory_tags *tags, const char *kind,
			struct inventory_tag *tag, struct err *err)
{
	struct picture picture = { .kind = kind };
	struct known_tag fresh = { 0 };
	bool is_stamped = store_stamp(tags->store, &fresh.stamp);

	if (store_read(tags->store, inventory_read_ends, &picture, err) != 0)
		return -1;
	fresh.tag.scanned = picture.scanned;
	wire_inventory_etag(&picture.ends, picture.scanned != SCANNED_ALL,
			    fresh.tag.etag);
	if (is_stamped)
		inventory_keep_tag(tags, kind, &fresh);
	*tag = fresh.tag;
	return 0;
}

struct inventory_item inventory_item_of(const struct origin_row *row)
{
	struct inventory_item item = {
		.name = row->name,
		.checksum = row->checksum,
		.generation = row->generation,
		.size = row->size,
		.changed_at = row->changed_at,
		.verified_at = row->verified_at,
		.verification = row->verification,
		.failure_class = row->failure_class,
		.failure = row->failure,
		.remedy = row->remedy,
	};

	memcpy(item.timeline, row->timeline, sizeof(item.timeline));
	return item;
}

/* The item takes what it has in common with the row. */
static struct inventory_item inventory_take_item(struct origin_row *row)
{
	struct inventory_item item = inventory_item_of(row);

	row->name = row->checksum = NULL;
	row->failure_class = row->failure = row->remedy = NULL;
	return item;
}

static void inventory_fill_page(const struct picture *picture, origin_rows *rows)
{
	struct inventory_page *page = picture->page;
	size_t limit = picture->question->limit;

	if (rows->count > limit)
		page->next = xstrdup(rows->items[limit - 1].name);
	for (size_t i = 0; i < rows->count && i < limit; i++)
		vec_add(&page->items, inventory_take_item(&rows->items[i]));
	page->is_part = picture->scanned != SCANNED_ALL;
	page->last_event = picture->ends.last;
	memcpy(page->timeline, picture->ends.timeline, sizeof(page->timeline));
	memcpy(page->last_mark, picture->ends.mark, sizeof(page->last_mark));
	wire_inventory_etag(&picture->ends, page->is_part, page->etag);
}

/* One row more than is answered tells whether there is a next page. */
static int inventory_read_page(struct store_tx *tx, void *arg, struct err *err)
{
	struct picture *picture = arg;
	AUTO_ORIGIN_ROWS origin_rows rows = { 0 };

	inventory_page_clear(picture->page);
	if (inventory_read_ends(tx, picture, err) != 0 ||
	    origin_rows_find(
		    tx,
		    &(struct origin_filter){ .kind = picture->kind,
					     .after = picture->question->after,
					     .limit = picture->question->limit + 1,
					     .search = picture->question->search,
					     .is_failing_only =
						     picture->question->is_failing_only },
		    &rows, err) != 0)
		return -1;
	inventory_fill_page(picture, &rows);
	return 0;
}

int inventory_read(struct store *store, const char *kind,
		   const struct page_question *question, struct inventory_page *page,
		   struct err *err)
{
	struct picture picture = { .kind = kind, .question = question, .page = page };

	*page = (struct inventory_page){ 0 };
	if (store_read(store, inventory_read_page, &picture, err) == 0)
		return 0;
	inventory_page_clear(page);
	return -1;
}

json_t *inventory_row(struct store *store, const char *kind, const char *name,
		      struct err *err)
{
	AUTO_ORIGIN_ROW struct origin_row row = { 0 };
	int found = origin_row_read(store, kind, name, &row, err);

	if (found == 0)
		err_set(err, ERR_MISSING, "no such %s: \"%s\"", kind_noun(kind), name);
	if (found <= 0)
		return NULL;
	struct inventory_item item = inventory_take_item(&row);
	json_t *object = wire_inventory_item_json(kind, &item);
	inventory_item_clear(&item);
	return object;
}
