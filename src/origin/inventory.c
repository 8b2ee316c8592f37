#include "origin/inventory.h"

#include "replicable/name.h"

/* Ends and rows come from one read transaction, so that the tag never stands for rows of
 * another moment. */
struct picture {
	struct inventory_slice question;
	struct event_ends ends;
	enum event_scanned scanned;
	origin_rows rows;
};

static void format_etag(const struct picture *picture, char etag[INVENTORY_ETAG_SIZE])
{
	const struct event_ends *ends = &picture->ends;

	snprintf(etag, INVENTORY_ETAG_SIZE, "\"%s-%" PRIu64 "-%s%s\"", ends->timeline,
		 ends->last, ends->mark, picture->scanned == SCANNED_ALL ? "" : "-part");
}

static bool inventory_is_repository(const char *kind)
{
	return strcmp(kind, KIND_REPOSITORY) == 0;
}

const char *inventory_member(const char *kind)
{
	return inventory_is_repository(kind) ? "repositories" : "blobs";
}

static int inventory_read_scanned(struct store_tx *tx, void *arg, struct err *err)
{
	struct picture *picture = arg;

	return event_log_scanned_in(tx, picture->question.kind, &picture->scanned, err);
}

int inventory_scanned(struct store *store, const char *kind, enum event_scanned *scanned,
		      struct err *err)
{
	struct picture picture = { .question.kind = kind };
	int result = store_read(store, inventory_read_scanned, &picture, err);

	*scanned = picture.scanned;
	return result;
}

static int read_tag(struct store_tx *tx, void *arg, struct err *err)
{
	struct picture *picture = arg;

	if (event_log_ends(tx, &picture->ends, err) != 0)
		return -1;
	return inventory_read_scanned(tx, picture, err);
}

int inventory_etag(struct store *store, const char *kind, char etag[INVENTORY_ETAG_SIZE],
		   struct err *err)
{
	struct picture picture = { .question.kind = kind };

	if (store_read(store, read_tag, &picture, err) != 0)
		return -1;
	format_etag(&picture, etag);
	return 0;
}

json_t *inventory_row_json(const char *kind, const struct origin_row *row)
{
	json_t *object = json_object();

	json_put_text(object, "name", row->name);
	json_put_text(object, "timeline", row->timeline);
	json_put_number(object, "generation", (int64_t)row->generation);
	json_put_text(object, "checksum", row->checksum);
	if (!inventory_is_repository(kind))
		json_put_number(object, "size", (int64_t)row->size);
	json_put_time(object, "changed_at", row->changed_at);
	json_put_text(object, "verification",
		      registry_verification_name(row->verification));
	json_put_time(object, "verified_at", row->verified_at);
	if (!row->failure)
		return object;
	json_put_text(object, "failure_class", row->failure_class);
	json_put_message(object, "failure", row->failure);
	json_put_message(object, "remedy", row->remedy ? row->remedy : "");
	return object;
}

/* One row more than is answered tells whether there is a next page. */
static int inventory_read_page(struct store_tx *tx, void *arg, struct err *err)
{
	struct picture *picture = arg;

	origin_rows_clear(&picture->rows);
	if (read_tag(tx, picture, err) != 0)
		return -1;
	return origin_rows_list(tx, picture->question.kind, picture->question.after,
				picture->question.limit + 1, &picture->rows, err);
}

static json_t *page_to_json(const struct picture *picture)
{
	const struct event_ends *ends = &picture->ends;
	size_t count = picture->rows.count, limit = picture->question.limit;
	json_t *page = json_object(), *rows = json_array();

	if (count > limit)
		count = limit;
	json_put_text(page, "timeline", ends->timeline);
	json_put_number(page, "last_event", (int64_t)ends->last);
	json_put_text(page, "last_mark", ends->mark);
	json_put_bool(page, "complete", picture->scanned == SCANNED_ALL);
	if (picture->rows.count > count)
		json_put_text(page, "next", picture->rows.items[count - 1].name);
	for (size_t i = 0; i < count; i++)
		json_array_append_new(rows, inventory_row_json(picture->question.kind,
							       &picture->rows.items[i]));
	json_put(page, inventory_member(picture->question.kind), rows);
	return page;
}

json_t *inventory_page(struct store *store, const struct inventory_slice *question,
		       char etag[INVENTORY_ETAG_SIZE], struct err *err)
{
	struct picture picture = { .question = *question };
	json_t *page = NULL;

	if (question->limit == 0)
		picture.question.limit = 1;
	if (store_read(store, inventory_read_page, &picture, err) == 0) {
		format_etag(&picture, etag);
		page = page_to_json(&picture);
	}
	origin_rows_clear(&picture.rows);
	return page;
}

struct one_row {
	const char *kind, *name;
	struct origin_row row;
};

static int inventory_read_row(struct store_tx *tx, void *arg, struct err *err)
{
	struct one_row *one = arg;
	int found;

	origin_row_clear(&one->row);
	found = origin_row_get(tx, one->kind, one->name, &one->row, err);
	if (found != 0)
		return found < 0 ? -1 : 0;
	return err_set(err, ERR_MISSING, "there is no %s \"%s\"",
		       inventory_is_repository(one->kind) ? "repository" : "blob",
		       one->name);
}

json_t *inventory_row(struct store *store, const char *kind, const char *name,
		      struct err *err)
{
	struct one_row one = { .kind = kind, .name = name };
	json_t *object = NULL;

	if (store_read(store, inventory_read_row, &one, err) == 0)
		object = inventory_row_json(kind, &one.row);
	origin_row_clear(&one.row);
	return object;
}
