/*
 * A primary's word for its whole inventory, from memory while nothing was committed, by
 * this process or another: never one of before.
 */
#include "test.h"

#include "base/file.h"
#include "base/log.h"
#include "change/inventory.h"
#include "replicable/name.h"
#include "store/site_value.h"

static struct store *store;
static struct event_log *event_log;
static struct inventory_tags *tags;
static char *url;

static int make_tags(void **state)
{
	AUTO_FREE char *data = NULL;

	log_set_level(LOG_LEVEL_NONE);
	if (test_make_root(state) != 0)
		return -1;
	data = xasprintf("%s/data", root);
	url = xasprintf("sqlite:%s/db", data);
	assert_ok(dir_make(AT_FDCWD, data, &err));
	assert_ok(store_open(url, &store, &err));
	assert_ok(event_log_open(store, data, &event_log, &err));
	tags = inventory_tags_new(store);
	return 0;
}

static int remove_tags(void **state)
{
	inventory_tags_free(tags);
	event_log_close(event_log);
	store_close(store);
	free(url);
	return test_remove_root(state);
}

#define TAGS_CASE(name) cmocka_unit_test_setup_teardown(name, make_tags, remove_tags)

/* As it is read; then memory has the same. */
static struct inventory_tag look(const char *kind)
{
	struct inventory_tag read, now;

	assert_ok(inventory_tags_look(tags, kind, &read, &err));
	assert_true(inventory_tags_now(tags, kind, &now));
	assert_string_equal(read.etag, now.etag);
	assert_int_equal(read.scanned, now.scanned);
	return read;
}

static bool is_known(const char *kind)
{
	struct inventory_tag tag;

	return inventory_tags_now(tags, kind, &tag);
}

static void page_has(const char *etag)
{
	struct inventory_page page;

	assert_ok(inventory_read(store, KIND_REPOSITORY,
				 &(struct page_question){ .limit = 1 }, &page, &err));
	assert_string_equal(page.etag, etag);
	inventory_page_clear(&page);
}

static int append_event(struct store_tx *tx, void *arg, struct err *error)
{
	struct event event = {
		.kind = xstrdup(KIND_REPOSITORY),
		.name = xstrdup("a"),
		.what = EVENT_UPDATED,
		.timeline = "0123456789abcdef",
		.generation = 1,
		.checksum = xstrdup("1-aa"),
		.changes = xstrdup("[]"),
	};
	int result = event_log_append(tx, &event, error);

	(void)arg;
	event_clear(&event);
	return result;
}

static int write_value(struct store_tx *tx, void *arg, struct err *error)
{
	return site_value_set_number(tx, "test.value", *(int64_t *)arg, error);
}

TEST(it_is_known_once_it_was_read_of_each_kind_alone)
{
	assert_false(is_known(KIND_REPOSITORY));
	struct inventory_tag read = look(KIND_REPOSITORY);
	page_has(read.etag);
	assert_false(is_known("files"));
	look("files");
	assert_true(is_known(KIND_REPOSITORY));
}

TEST(what_was_scanned_since_is_seen)
{
	assert_int_equal(look(KIND_REPOSITORY).scanned, SCANNED_NOTHING);
	assert_ok(event_log_set_scanned(store, KIND_REPOSITORY, SCANNED_PART, &err));
	assert_false(is_known(KIND_REPOSITORY));
	struct inventory_tag part = look(KIND_REPOSITORY);
	assert_int_equal(part.scanned, SCANNED_PART);
	page_has(part.etag);
	assert_ok(event_log_set_scanned(store, KIND_REPOSITORY, SCANNED_ALL, &err));
	assert_false(is_known(KIND_REPOSITORY));
	struct inventory_tag all = look(KIND_REPOSITORY);
	assert_string_not_equal(part.etag, all.etag);
	page_has(all.etag);
}

TEST(an_event_and_another_timeline_are_seen)
{
	struct event_ends ends;

	struct inventory_tag before = look(KIND_REPOSITORY);
	assert_ok(store_write(store, append_event, NULL, &err));
	assert_false(is_known(KIND_REPOSITORY));
	struct inventory_tag after = look(KIND_REPOSITORY);
	assert_string_not_equal(before.etag, after.etag);
	page_has(after.etag);
	assert_ok(event_log_look(store, &ends, &err));
	assert_ok(event_log_renew(store, ends.timeline, &err));
	assert_false(is_known(KIND_REPOSITORY));
	struct inventory_tag renewed = look(KIND_REPOSITORY);
	assert_string_not_equal(after.etag, renewed.etag);
	page_has(renewed.etag);
}

/* As a command of the operator, or another node of the site, would. */
TEST(what_others_write_is_seen)
{
	struct store *other;
	int64_t value = 1;

	assert_ok(store_open(url, &other, &err));
	struct inventory_tag before = look(KIND_REPOSITORY);
	assert_ok(store_write(other, write_value, &value, &err));
	assert_false(is_known(KIND_REPOSITORY));
	struct inventory_tag same = look(KIND_REPOSITORY);
	assert_string_equal(same.etag, before.etag);
	assert_ok(store_write(other, append_event, NULL, &err));
	assert_false(is_known(KIND_REPOSITORY));
	struct inventory_tag after = look(KIND_REPOSITORY);
	assert_string_not_equal(after.etag, before.etag);
	store_close(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TAGS_CASE(it_is_known_once_it_was_read_of_each_kind_alone),
		TAGS_CASE(what_was_scanned_since_is_seen),
		TAGS_CASE(an_event_and_another_timeline_are_seen),
		TAGS_CASE(what_others_write_is_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
