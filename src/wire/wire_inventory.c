#include "wire/wire_inventory.h"

/* Members of a page, and of a row. */
#define TIMELINE "timeline"
#define LAST_EVENT "last_event"
#define LAST_MARK "last_mark"
#define COMPLETE "complete"
#define NEXT "next"
#define REPOSITORIES "repositories"
#define BLOBS "blobs"
#define NAME "name"
#define GENERATION "generation"
#define CHECKSUM "checksum"
#define SIZE "size"
#define CHANGED_AT "changed_at"
#define VERIFICATION "verification"
#define VERIFIED_AT "verified_at"
#define FAILURE_CLASS "failure_class"
#define FAILURE "failure"
#define REMEDY "remedy"

/* Of the longest page that is asked for, with longer rows than there are. */
static const struct json_limits page_limits = { (size_t)64 << 20, 1000000 };

#define ROW_LIMIT ((size_t)64 << 10)

void inventory_item_clear(struct inventory_item *item)
{
	free(item->name);
	free(item->checksum);
	free(item->failure_class);
	free(item->failure);
	free(item->remedy);
}

void inventory_page_clear(struct inventory_page *page)
{
	vec_clear_each(&page->items, inventory_item_clear);
	free(page->next);
	free(page->last);
	free(page->skipped_example);
	*page = (struct inventory_page){ 0 };
}

const char *wire_inventory_member(const char *kind)
{
	return kind_is_repository(kind) ? REPOSITORIES : BLOBS;
}

void wire_inventory_etag(const struct event_ends *ends, bool is_part,
			 char etag[INVENTORY_ETAG_SIZE])
{
	snprintf(etag, INVENTORY_ETAG_SIZE, "\"%s-%" PRIu64 "-%s%s\"", ends->timeline,
		 ends->last, ends->mark, is_part ? "-part" : "");
}

json_t *wire_inventory_item_json(const char *kind, const struct inventory_item *item)
{
	json_t *object = json_object();

	json_put_text(object, NAME, item->name);
	json_put_text(object, TIMELINE, item->timeline);
	json_put_number(object, GENERATION, (int64_t)item->generation);
	json_put_text(object, CHECKSUM, item->checksum);
	if (!kind_is_repository(kind))
		json_put_number(object, SIZE, (int64_t)item->size);
	json_put_time(object, CHANGED_AT, item->changed_at);
	json_put_text(object, VERIFICATION,
		      registry_verification_name(item->verification));
	json_put_time(object, VERIFIED_AT, item->verified_at);
	if (!item->failure)
		return object;
	json_put_text(object, FAILURE_CLASS, item->failure_class);
	json_put_message(object, FAILURE, item->failure);
	json_put_message(object, REMEDY, item->remedy ? item->remedy : "");
	return object;
}

json_t *wire_inventory_json(const char *kind, const struct inventory_page *page)
{
	json_t *object = json_object(), *rows = json_array();

	json_put_text(object, TIMELINE, page->timeline);
	json_put_number(object, LAST_EVENT, (int64_t)page->last_event);
	json_put_text(object, LAST_MARK, page->last_mark);
	json_put_bool(object, COMPLETE, !page->is_part);
	if (page->next)
		json_put_text(object, NEXT, page->next);
	for (size_t i = 0; i < page->items.count; i++)
		json_array_append_new(
			rows, wire_inventory_item_json(kind, &page->items.items[i]));
	json_put(object, wire_inventory_member(kind), rows);
	return object;
}

/* What a later version says is pending here. */
static enum registry_verification wire_inventory_get_verification(const json_t *object)
{
	const char *text = json_string_value(json_object_get(object, VERIFICATION));

	for (int i = 0; text && i < VERIFICATION_STATES; i++)
		if (strcmp(text, registry_verification_name(
					 (enum registry_verification)i)) == 0)
			return (enum registry_verification)i;
	return VERIFICATION_PENDING;
}

/* For people's eyes: nothing of it is judged. */
static void wire_inventory_fill_words(const json_t *object, struct inventory_item *item)
{
	item->verification = wire_inventory_get_verification(object);
	if (!wire_get_time(object, VERIFIED_AT, &item->verified_at))
		item->verified_at = 0;
	item->failure_class = wire_get_text(object, FAILURE_CLASS);
	item->failure = wire_get_text(object, FAILURE);
	item->remedy = wire_get_text(object, REMEDY);
}

static bool wire_inventory_has_failure(const json_t *object)
{
	const json_t *failure = json_object_get(object, FAILURE);

	return failure && !json_is_null(failure);
}

/* A repository has no checksum only because it cannot be read; a blob also until it has
 * been. */
static const char *wire_inventory_fill_checksum(const json_t *object,
						const struct kind *kind,
						struct inventory_item *item)
{
	const bool is_repository = kind_is_repository(kind->type);

	if (!wire_get_checksum(object, CHECKSUM, !is_repository, &item->checksum))
		return CHECKSUM;
	item->is_unreadable =
		!item->checksum && (is_repository || wire_inventory_has_failure(object));
	return NULL;
}

/* NULL, or the member that is wrong. */
static const char *wire_inventory_fill_item(const json_t *object, const struct kind *kind,
					    struct inventory_item *item)
{
	const json_t *changed_at = json_object_get(object, CHANGED_AT);

	if (!wire_get_id(object, TIMELINE, item->timeline))
		return TIMELINE;
	if (!wire_get_number(object, GENERATION, &item->generation) ||
	    item->generation == 0)
		return GENERATION;
	if (!kind_is_repository(kind->type) &&
	    !wire_get_number(object, SIZE, &item->size))
		return SIZE;
	if (changed_at && !json_is_null(changed_at) &&
	    !wire_get_time(object, CHANGED_AT, &item->changed_at))
		return CHANGED_AT;
	return wire_inventory_fill_checksum(object, kind, item);
}

/* One bad name keeps no other from being replicated. But who says such things proves by
 * silence nothing of what it does not name. */
static void wire_inventory_skip(struct inventory_page *page, const struct err *why)
{
	AUTO_STR struct str text = STR_INIT;

	page->is_part = true;
	if (page->skipped++ > 0)
		return;
	str_add_printable(&text, why->text);
	page->skipped_example = str_take(&text);
}

static int wire_inventory_add_item(const json_t *object, const struct kind *kind,
				   const char *before, struct inventory_page *page,
				   struct err *err)
{
	const char *name = json_string_value(json_object_get(object, NAME));
	struct inventory_item item = { 0 };
	const char *wrong;
	struct err why;

	if (!name)
		return wire_lied(err, "an item has no name");
	if (before && strcmp(name, before) <= 0)
		return wire_lied(err, "%s stands behind %s", name, before);
	free(page->last); /* which `before` may be */
	page->last = xstrdup(name);
	if (kind->check_name(kind, name, &why) != 0) {
		wire_inventory_skip(page, &why);
		return 0;
	}
	wrong = wire_inventory_fill_item(object, kind, &item);
	if (wrong) {
		inventory_item_clear(&item);
		return wire_lied(err, "%s has no right \"%s\"", name, wrong);
	}
	wire_inventory_fill_words(object, &item);
	item.name = xstrdup(name);
	vec_add(&page->items, item);
	return 0;
}

static int wire_inventory_read_items(const json_t *list, const struct kind *kind,
				     const struct page_question *question,
				     struct inventory_page *page, struct err *err)
{
	const char *member = wire_inventory_member(kind->type);

	if (!json_is_array(list))
		return wire_lied(err, "the inventory has no \"%s\"", member);
	if (question->limit > 0 && json_array_size(list) > question->limit)
		return wire_lied(err, "more %s than were asked for", member);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *before = page->last ? page->last : question->after;
		if (wire_inventory_add_item(json_array_get(list, i), kind, before, page,
					    err) != 0)
			return -1;
	}
	return 0;
}

/* Anything but the last name would leave out what stands between, or lead round in
 * circles. */
static int wire_inventory_read_next(const json_t *object, struct inventory_page *page,
				    struct err *err)
{
	const json_t *next = json_object_get(object, NEXT);

	if (!next || json_is_null(next))
		return 0;
	if (!json_is_string(next) || !page->last ||
	    strcmp(json_string_value(next), page->last) != 0)
		return wire_lied(err, "\"next\" is not the page's last name");
	page->next = xstrdup(json_string_value(next));
	return 0;
}

static int wire_inventory_read_log(const json_t *object, struct inventory_page *page,
				   struct err *err)
{
	if (!wire_get_id(object, TIMELINE, page->timeline))
		return wire_lied(err, "the inventory has no timeline");
	if (!wire_get_number(object, LAST_EVENT, &page->last_event))
		return wire_lied(err, "the inventory has no \"last_event\"");
	if (page->last_event > 0 && !wire_get_id(object, LAST_MARK, page->last_mark))
		return wire_lied(err, "the inventory has no \"last_mark\"");
	page->is_part = json_is_false(json_object_get(object, COMPLETE));
	return 0;
}

int wire_inventory_parse(const struct str *body, const struct kind *kind,
			 const struct page_question *question,
			 struct inventory_page *page, struct err *err)
{
	json_auto_t *object =
		json_parse_foreign(body->data, body->len, &page_limits, err);

	*page = (struct inventory_page){ 0 };
	if (!object)
		return wire_lied(err, "the inventory is not a JSON object");
	if (wire_inventory_read_log(object, page, err) == 0 &&
	    wire_inventory_read_items(
		    json_object_get(object, wire_inventory_member(kind->type)), kind,
		    question, page, err) == 0 &&
	    wire_inventory_read_next(object, page, err) == 0)
		return 0;
	inventory_page_clear(page);
	return -1;
}

bool wire_inventory_is_verified(const struct str *body)
{
	json_auto_t *row =
		json_parse_object(body->data, body->len, ROW_LIMIT, ERR_IGNORED);

	return wire_inventory_get_verification(row) == VERIFICATION_SUCCEEDED;
}
