/*
 * The inventory: GET /api/v1/repositories or /api/v1/blobs/TYPE, a page at a time.
 */
#include "pull/primary_parse.h"

#include "base/json.h"
#include "replicable/name.h"

/* Of the longest page that is asked for, with longer rows than there are. */
static const struct json_limits page_limits = { (size_t)64 << 20, 1000000 };

static bool has_failure(const json_t *object)
{
	const json_t *failure = json_object_get(object, "failure");

	return failure && !json_is_null(failure);
}

/* A repository has no checksum only because it cannot be read; a blob also until it has
 * been. */
static const char *primary_inventory_fill_checksum(const json_t *object,
						   const struct blob_kind *kind,
						   struct inventory_item *item)
{
	if (!(kind ? primary_get_digest(object, &item->checksum)
		   : primary_get_checksum(object, &item->checksum)))
		return "checksum";
	item->is_unreadable = !item->checksum && (!kind || has_failure(object));
	return NULL;
}

/* NULL, or the member that is wrong. */
static const char *fill_item(const json_t *object, const struct blob_kind *kind,
			     struct inventory_item *item)
{
	const json_t *changed_at = json_object_get(object, "changed_at");

	if (!primary_get_id(object, "timeline", item->timeline))
		return "timeline";
	if (!primary_get_number(object, "generation", &item->generation) ||
	    item->generation == 0)
		return "generation";
	if (kind && !primary_get_number(object, "size", &item->size))
		return "size";
	if (changed_at && !json_is_null(changed_at) &&
	    !primary_get_time(object, "changed_at", &item->changed_at))
		return "changed_at";
	return primary_inventory_fill_checksum(object, kind, item);
}

static int primary_inventory_check_name(const char *name, const struct blob_kind *kind,
					const char *before, struct err *err)
{
	struct err why;

	if (!name)
		return primary_lied(err, "an item has no name");
	if ((kind ? blob_id_check(kind, name, &why) : name_check(name, &why)) != 0)
		return primary_lied(err, "%s", why.text);
	if (before && strcmp(name, before) <= 0)
		return primary_lied(err, "%s stands behind %s", name, before);
	return 0;
}

static int primary_inventory_add_item(const json_t *object, const struct blob_kind *kind,
				      const char *before, struct inventory_page *page,
				      struct err *err)
{
	const char *name = json_string_value(json_object_get(object, "name"));
	struct inventory_item item = { 0 };
	const char *wrong;

	if (primary_inventory_check_name(name, kind, before, err) != 0)
		return -1;
	wrong = fill_item(object, kind, &item);
	if (wrong) {
		free(item.checksum);
		return primary_lied(err, "%s has no right \"%s\"", name, wrong);
	}
	item.name = xstrdup(name);
	vec_add(&page->items, item);
	return 0;
}

static int read_items(const json_t *list, const struct blob_kind *kind,
		      const struct page_question *question, struct inventory_page *page,
		      struct err *err)
{
	if (!json_is_array(list))
		return primary_lied(err, "the inventory has no \"%s\"",
				    kind ? "blobs" : "repositories");
	if (question->limit > 0 && json_array_size(list) > question->limit)
		return primary_lied(err, "more %s than were asked for",
				    kind ? "blobs" : "repositories");
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *before =
			page->items.count == 0
				? question->after
				: page->items.items[page->items.count - 1].name;
		if (primary_inventory_add_item(json_array_get(list, i), kind, before,
					       page, err) != 0)
			return -1;
	}
	return 0;
}

/* Anything but the last name would leave out what stands between, or lead round in
 * circles. */
static int primary_inventory_read_next(const json_t *object, struct inventory_page *page,
				       struct err *err)
{
	const json_t *next = json_object_get(object, "next");

	if (!next || json_is_null(next))
		return 0;
	if (!json_is_string(next) || page->items.count == 0 ||
	    strcmp(json_string_value(next),
		   page->items.items[page->items.count - 1].name) != 0)
		return primary_lied(err, "\"next\" is not the page's last name");
	page->next = xstrdup(json_string_value(next));
	return 0;
}

static int read_log(const json_t *object, struct inventory_page *page, struct err *err)
{
	if (!primary_get_id(object, "timeline", page->timeline))
		return primary_lied(err, "the inventory has no timeline");
	if (!primary_get_number(object, "last_event", &page->last_event))
		return primary_lied(err, "the inventory has no \"last_event\"");
	if (page->last_event > 0 && !primary_get_id(object, "last_mark", page->last_mark))
		return primary_lied(err, "the inventory has no \"last_mark\"");
	page->is_part = json_is_false(json_object_get(object, "complete"));
	return 0;
}

int primary_parse_inventory(const struct str *body, const struct blob_kind *kind,
			    const struct page_question *question,
			    struct inventory_page *page, struct err *err)
{
	json_auto_t *object =
		json_parse_foreign(body->data, body->len, &page_limits, err);

	*page = (struct inventory_page){ 0 };
	if (!object)
		return primary_lied(err, "the inventory is not a JSON object");
	if (read_log(object, page, err) == 0 &&
	    read_items(json_object_get(object, kind ? "blobs" : "repositories"), kind,
		       question, page, err) == 0 &&
	    primary_inventory_read_next(object, page, err) == 0)
		return 0;
	inventory_page_clear(page);
	return -1;
}

void inventory_page_clear(struct inventory_page *page)
{
	for (size_t i = 0; i < page->items.count; i++) {
		free(page->items.items[i].name);
		free(page->items.items[i].checksum);
	}
	vec_clear(&page->items);
	free(page->next);
	*page = (struct inventory_page){ 0 };
}
