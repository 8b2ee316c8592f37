/*
 * The inventory: GET /api/v1/repositories, a page at a time.
 */
#include "pull/primary_parse.h"

#include "base/json.h"
#include "replicable/name.h"

#define PAGE_LIMIT ((size_t)64 << 20)

/* NULL, or the member that is wrong. */
static const char *fill_item(const json_t *object, struct inventory_item *item)
{
	const json_t *changed_at = json_object_get(object, "changed_at");

	if (!primary_get_id(object, "timeline", item->timeline))
		return "timeline";
	if (!primary_get_number(object, "generation", &item->generation) ||
	    item->generation == 0)
		return "generation";
	if (!primary_get_checksum(object, &item->checksum))
		return "checksum";
	if (changed_at && !json_is_null(changed_at) &&
	    !primary_get_time(object, "changed_at", &item->changed_at))
		return "changed_at";
	return NULL;
}

static int check_name(const char *name, const char *before, struct err *err)
{
	struct err why;

	if (!name)
		return primary_lied(err, "a repository has no name");
	if (name_check(name, &why) != 0)
		return primary_lied(err, "%s", why.text);
	if (before && strcmp(name, before) <= 0)
		return primary_lied(err, "%s stands behind %s", name, before);
	return 0;
}

static int add_item(const json_t *object, const char *before, struct inventory_page *page,
		    struct err *err)
{
	const char *name = json_string_value(json_object_get(object, "name"));
	struct inventory_item item = { 0 };
	const char *wrong;

	if (check_name(name, before, err) != 0)
		return -1;
	wrong = fill_item(object, &item);
	if (wrong) {
		free(item.checksum);
		return primary_lied(err, "%s has no right \"%s\"", name, wrong);
	}
	item.name = xstrdup(name);
	vec_add(&page->items, item);
	return 0;
}

static int read_items(const json_t *list, const char *after, size_t limit,
		      struct inventory_page *page, struct err *err)
{
	if (!json_is_array(list))
		return primary_lied(err, "the inventory has no \"repositories\"");
	if (limit > 0 && json_array_size(list) > limit)
		return primary_lied(err, "more repositories than were asked for");
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *before =
			page->items.count == 0
				? after
				: page->items.items[page->items.count - 1].name;
		if (add_item(json_array_get(list, i), before, page, err) != 0)
			return -1;
	}
	return 0;
}

/* Anything but the last name would leave out what stands between, or lead round in
 * circles. */
static int read_next(const json_t *object, struct inventory_page *page, struct err *err)
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

int primary_parse_inventory(const struct str *body, const char *after, size_t limit,
			    struct inventory_page *page, struct err *err)
{
	json_auto_t *object = json_parse_object(body->data, body->len, PAGE_LIMIT, err);

	*page = (struct inventory_page){ 0 };
	if (!object)
		return primary_lied(err, "the inventory is not a JSON object");
	if (read_log(object, page, err) == 0 &&
	    read_items(json_object_get(object, "repositories"), after, limit, page,
		       err) == 0 &&
	    read_next(object, page, err) == 0)
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
