/*
 * What sites send each other, byte for byte: sites of other versions read it.
 */
#include "test.h"

#include "base/json.h"
#include "change/event_log.h"
#include "change/inventory.h"
#include "replicable/name.h"
#include "report/report.h"

#define SUM "1-00000000000000000000000000000000000000000000000000000000000000ff"
#define DIGEST "00000000000000000000000000000000000000000000000000000000000000ff"
#define AT INT64_C(1795252443120) /* 2026-11-21T09:14:03.120Z */

static struct str sent = STR_INIT;

static void assert_sent(const char *text)
{
	assert_string_equal(sent.data, text);
	str_clear(&sent);
}

static struct oid oid_of(char digit)
{
	char text[OID_MAX_TEXT];
	struct oid oid;

	memset(text, digit, 40);
	assert_true(oid_parse(text, 20, &oid));
	return oid;
}

static void add_ref(struct ref_snapshot *refs, const char *name, char digit)
{
	struct ref ref = { .name = name, .oid = oid_of(digit) };

	vec_add(&refs->refs, ref);
}

#define ONES "1111111111111111111111111111111111111111"
#define TWOS "2222222222222222222222222222222222222222"

TEST(changes_of_refs)
{
	char from[] = "refs/heads/a", to[] = "refs/heads/b";
	struct ref_snapshot before = { .head_target = from },
			    after = { .head_target = to };
	struct ref symbolic = { .name = "refs/heads/t", .target = "refs/heads/a" };
	AUTO_DIFF struct ref_diff diff = { 0 };

	add_ref(&before, "refs/heads/a", '1');
	add_ref(&before, "refs/heads/gone", '1');
	add_ref(&after, "refs/heads/a", '2');
	add_ref(&after, "refs/heads/\xfc", '1');
	vec_add(&before.refs, symbolic);
	ref_diff_compute(&before, &after, &diff);
	AUTO_FREE char *changes = wire_event_changes(&diff, &before, &after);
	assert_string_equal(changes,
			    "[{\"ref\":\"refs/heads/a\",\"old\":\"" ONES
			    "\",\"new\":\"" TWOS "\"},"
			    "{\"ref\":\"refs/heads/gone\",\"old\":\"" ONES "\"},"
			    "{\"ref\":\"refs/heads/t\",\"old_target\":\"refs/heads/a\"},"
			    "{\"ref_base64\":\"cmVmcy9oZWFkcy/8\",\"new\":\"" ONES "\"},"
			    "{\"ref\":\"HEAD\",\"old_target\":\"refs/heads/a\","
			    "\"new_target\":\"refs/heads/b\"}]");
	vec_clear(&before.refs);
	vec_clear(&after.refs);
}

static void send_event(const struct event *event)
{
	json_auto_t *object = wire_event_json(event);

	json_render(object, &sent);
}

TEST(events)
{
	char repository[] = "repository", lfs[] = "lfs", name[] = "group/a",
	     id[] = "aa/bb/c", sum[] = SUM, digest[] = DIGEST, changes[] = "[]";
	struct event event = { .id = 42,
			       .mark = "5f0c9a0b1d2e3f40",
			       .at = AT,
			       .kind = repository,
			       .name = name,
			       .what = EVENT_CREATED,
			       .timeline = "8a2f000000000001",
			       .generation = 1,
			       .checksum = sum,
			       .changes = changes };

	send_event(&event);
	assert_sent("{\"id\":42,\"mark\":\"5f0c9a0b1d2e3f40\",\"at\":\"2026-11-21T09:14:"
		    "03.120Z\",\"kind\":\"repository\",\"name\":\"group/"
		    "a\",\"event\":\"created\",\"timeline\":\"8a2f000000000001\","
		    "\"generation\":1,\"checksum\":\"" SUM "\",\"changes\":[]}");
	event.what = EVENT_DELETED;
	event.checksum = event.changes = NULL;
	send_event(&event);
	assert_sent("{\"id\":42,\"mark\":\"5f0c9a0b1d2e3f40\",\"at\":\"2026-11-21T09:14:"
		    "03.120Z\",\"kind\":\"repository\",\"name\":\"group/"
		    "a\",\"event\":\"deleted\",\"timeline\":\"8a2f000000000001\","
		    "\"generation\":1}");
	event.kind = lfs;
	event.name = id;
	event.what = EVENT_CHECKSUMMED;
	event.checksum = digest;
	event.size = 5000000000;
	send_event(&event);
	assert_sent("{\"id\":42,\"mark\":\"5f0c9a0b1d2e3f40\",\"at\":\"2026-11-21T09:14:"
		    "03.120Z\",\"kind\":\"lfs\",\"name\":\"aa/bb/"
		    "c\",\"event\":\"checksum_succeeded\",\"timeline\":"
		    "\"8a2f000000000001\",\"generation\":1,\"size\":5000000000,"
		    "\"checksum\":\"" DIGEST "\"}");
}

static void send_row(const char *kind, const struct origin_row *row)
{
	const struct inventory_item item = inventory_item_of(row);
	json_auto_t *object = wire_inventory_item_json(kind, &item);

	json_render(object, &sent);
}

TEST(rows_of_inventories)
{
	char name[] = "group/a", sum[] = SUM, class[] = "corrupt",
	     failure[] = "a \xfc of https://x:secret@host/", remedy[] = "mend it";
	struct origin_row row = { .name = name,
				  .timeline = "8a2f000000000001",
				  .generation = 7,
				  .size = 12,
				  .checksum = sum,
				  .changed_at = AT,
				  .verification = VERIFICATION_SUCCEEDED,
				  .verified_at = AT + 1 };

	send_row(KIND_REPOSITORY, &row);
	assert_sent("{\"name\":\"group/a\",\"timeline\":\"8a2f000000000001\","
		    "\"generation\":7,\"checksum\":\"" SUM "\",\"changed_at\":"
		    "\"2026-11-21T09:14:03.120Z\",\"verification\":\"succeeded\","
		    "\"verified_at\":\"2026-11-21T09:14:03.121Z\"}");
	row.checksum = NULL;
	row.changed_at = row.verified_at = 0;
	row.verification = VERIFICATION_PENDING;
	send_row("lfs", &row);
	assert_sent("{\"name\":\"group/a\",\"timeline\":\"8a2f000000000001\","
		    "\"generation\":7,\"checksum\":null,\"size\":12,\"changed_at\":null,"
		    "\"verification\":\"pending\",\"verified_at\":null}");
	row.verification = VERIFICATION_FAILED;
	row.failure = failure;
	send_row(KIND_REPOSITORY, &row);
	assert_sent("{\"name\":\"group/a\",\"timeline\":\"8a2f000000000001\","
		    "\"generation\":7,\"checksum\":null,\"changed_at\":null,"
		    "\"verification\":\"failed\",\"verified_at\":null,"
		    "\"failure_class\":null,\"failure\":\"a \xef\xbf\xbd of "
		    "https://***@host/\",\"remedy\":\"\"}");
	row.failure_class = class;
	row.remedy = remedy;
	send_row(KIND_REPOSITORY, &row);
	assert_sent("{\"name\":\"group/a\",\"timeline\":\"8a2f000000000001\","
		    "\"generation\":7,\"checksum\":null,\"changed_at\":null,"
		    "\"verification\":\"failed\",\"verified_at\":null,"
		    "\"failure_class\":\"corrupt\",\"failure\":\"a \xef\xbf\xbd of "
		    "https://***@host/\",\"remedy\":\"mend it\"}");
}

static int add_rows(struct store_tx *tx, void *arg, struct err *error)
{
	const char *kind = arg;
	char names[][2] = { "a", "b" }, sum[] = SUM;
	struct event event = { .kind = names[0],
			       .name = names[0],
			       .timeline = "8a2f000000000001",
			       .generation = 1 };

	for (size_t i = 0; i < 2; i++) {
		struct origin_row row = { .id = replicable_id(kind, names[i]),
					  .name = names[i],
					  .path = names[i],
					  .timeline = "8a2f000000000001",
					  .generation = 1,
					  .checksum = sum };
		if (origin_row_add(tx, kind, &row, error) != 0)
			return -1;
	}
	return event_log_append(tx, &event, error);
}

#define PLACE(name, size)                                                                \
	"{\"name\":\"" name "\",\"timeline\":\"8a2f000000000001\",\"generation\":1,"     \
	"\"checksum\":\"" SUM "\"," size "\"changed_at\":null,"                          \
	"\"verification\":\"pending\",\"verified_at\":null}"

static void send_page(struct store *store, const char *kind, size_t limit, char *etag)
{
	struct inventory_page page;

	assert_ok(inventory_read(store, kind, &(struct page_question){ .limit = limit },
				 &page, &err));
	json_auto_t *object = wire_inventory_json(kind, &page);
	json_render(object, &sent);
	memcpy(etag, page.etag, INVENTORY_ETAG_SIZE);
	inventory_page_clear(&page);
}

TEST(pages_of_inventories)
{
	char repository[] = KIND_REPOSITORY, lfs[] = "lfs", etag[INVENTORY_ETAG_SIZE];
	struct event_log *log;
	struct event_ends ends;
	struct store *store;

	assert_ok(store_open("sqlite::memory:", &store, &err));
	assert_ok(event_log_open(store, NULL, &log, &err));
	assert_ok(store_write(store, add_rows, repository, &err));
	assert_ok(store_write(store, add_rows, lfs, &err));
	assert_ok(event_log_look(store, &ends, &err));
	send_page(store, repository, 1, etag);
	AUTO_FREE char *part =
		xasprintf("{\"timeline\":\"%s\",\"last_event\":2,\"last_mark\":\"%s\","
			  "\"complete\":false,\"next\":\"a\",\"repositories\":[" PLACE(
				  "a", "") "]}",
			  ends.timeline, ends.mark);
	assert_sent(part);
	AUTO_FREE char *tag = xasprintf("\"%s-2-%s-part\"", ends.timeline, ends.mark);
	assert_string_equal(etag, tag);
	assert_ok(event_log_set_scanned(store, KIND_REPOSITORY, SCANNED_ALL, &err));
	send_page(store, repository, 2, etag);
	AUTO_FREE char *whole =
		xasprintf("{\"timeline\":\"%s\",\"last_event\":2,\"last_mark\":\"%s\","
			  "\"complete\":true,\"repositories\":[" PLACE("a", "") "," PLACE(
				  "b", "") "]}",
			  ends.timeline, ends.mark);
	assert_sent(whole);
	AUTO_FREE char *other = xasprintf("\"%s-2-%s\"", ends.timeline, ends.mark);
	assert_string_equal(etag, other);
	send_page(store, lfs, 1, etag);
	AUTO_FREE char *blobs =
		xasprintf("{\"timeline\":\"%s\",\"last_event\":2,\"last_mark\":\"%s\","
			  "\"complete\":false,\"next\":\"a\",\"blobs\":[" PLACE(
				  "a", "\"size\":0,") "]}",
			  ends.timeline, ends.mark);
	assert_sent(blobs);
	event_log_close(log);
	store_close(store);
}

TEST(reports_of_secondaries)
{
	struct report report = { .role = SITE_SECONDARY,
				 .repositories = { .all = 9, .held = 1 },
				 .lag_ms = 1500 };

	report.repositories.states[REGISTRY_PENDING] = 4;
	report.repositories.states[REGISTRY_SYNCED] = 5;
	report.repositories.states[REGISTRY_FAILED] = 2;
	report_for_primary(&report, "6f1c", &sent);
	assert_sent("{\"behind\":3,\"failing\":2,\"held\":1,\"lag\":1.5,\"synced\":5,"
		    "\"replicables\":9,\"in_sync\":false,\"reason\":\"no_node\","
		    "\"node\":\"6f1c\",\"blob_types\":[]}");
}

/* Whether a page says that it is all there is, and its ETag. */
static bool is_complete(struct store *store, char etag[INVENTORY_ETAG_SIZE])
{
	struct inventory_page page;

	assert_ok(inventory_read(store, KIND_REPOSITORY,
				 &(struct page_question){ .limit = 10 }, &page, &err));
	memcpy(etag, page.etag, INVENTORY_ETAG_SIZE);
	bool is_part = page.is_part;
	inventory_page_clear(&page);
	return !is_part;
}

/* Followers delete nothing for its absence before that. */
TEST(an_inventory_is_complete_once_everything_was_looked_at)
{
	char nothing[INVENTORY_ETAG_SIZE], part[INVENTORY_ETAG_SIZE],
		all[INVENTORY_ETAG_SIZE];
	struct event_log *log;
	struct store *store;

	assert_ok(store_open("sqlite::memory:", &store, &err));
	assert_ok(event_log_open(store, NULL, &log, &err));
	assert_false(is_complete(store, nothing));
	assert_ok(event_log_set_scanned(store, KIND_REPOSITORY, SCANNED_PART, &err));
	assert_false(is_complete(store, part));
	assert_ok(event_log_set_scanned(store, KIND_REPOSITORY, SCANNED_ALL, &err));
	assert_true(is_complete(store, all));
	assert_string_not_equal(part, all);
	event_log_close(log);
	store_close(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(changes_of_refs),
		cmocka_unit_test(events),
		cmocka_unit_test(rows_of_inventories),
		cmocka_unit_test(pages_of_inventories),
		cmocka_unit_test(an_inventory_is_complete_once_everything_was_looked_at),
		cmocka_unit_test(reports_of_secondaries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
