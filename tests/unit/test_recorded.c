/*
 * What a primary of an earlier version answered,
 * tests/data/VERSION/exchanges/NAME.answer, still means what it meant then: NAME.parsed.
 */
#include "test.h"

#include "wire/wire_event.h"
#include "wire/wire_frames.h"
#include "wire/wire_inventory.h"
#include "wire/wire_refs.h"

static struct str got = STR_INIT;

static void read_file(const char *name, const char *ending, struct str *text)
{
	AUTO_FREE char *path = xasprintf("%s/data/v0.1.0/exchanges/%s.%s",
					 getenv("TESTS"), name, ending);

	assert_ok(file_read(AT_FDCWD, path, 1 << 20, text, &err));
}

/* The body of an answer; its head stays in `whole`, as a text. */
static void read_answer(const char *name, struct str *whole, struct str *body)
{
	char *end;

	read_file(name, "answer", whole);
	end = strstr(whole->data, "\r\n\r\n");
	if (!end)
		fail_msg("%s has no head", name);
	else
		str_add_bytes(body, end + 4,
			      whole->len - (size_t)(end + 4 - whole->data));
	if (end)
		end[2] = '\0';
}

/* The caller frees. */
static char *header_of(const struct str *head, const char *name)
{
	AUTO_FREE char *start = xasprintf("\r\n%s: ", name);
	const char *at = strcasestr(head->data, start);

	if (!at)
		fail_msg("there is no %s", name);
	at += strlen(start);
	return strndup(at, strcspn(at, "\r"));
}

static const char *text_of(const char *text)
{
	return text ? text : "-";
}

static void assert_parsed(const char *name)
{
	AUTO_STR struct str wanted = STR_INIT;

	read_file(name, "parsed", &wanted);
	assert_string_equal(got.data, wanted.data);
	str_clear(&got);
}

static void print_events(const struct event_ends *ends, const event_list *events)
{
	str_addf(&got, "log %s, last %" PRIu64 " %s\n", ends->timeline, ends->last,
		 ends->mark);
	for (size_t i = 0; i < events->count; i++) {
		const struct event *event = &events->items[i];
		str_addf(&got,
			 "%" PRIu64 " %s %" PRId64 " %s %s %d %s %" PRIu64 " %" PRIu64
			 " %s %s\n",
			 event->id, event->mark, event->at, event->kind, event->name,
			 (int)event->what, event->timeline, event->generation,
			 event->size, text_of(event->checksum), text_of(event->changes));
	}
}

static void parse_events(const char *name, const struct wire_events_question *question)
{
	AUTO_STR struct str whole = STR_INIT;
	AUTO_STR struct str body = STR_INIT;
	struct event_ends ends;
	event_list events;

	read_answer(name, &whole, &body);
	AUTO_FREE char *timeline = header_of(&whole, "Refrelay-Timeline");
	AUTO_FREE char *last = header_of(&whole, "Refrelay-Last-Event");
	assert_ok(wire_ends_parse(timeline, last, &ends, &err));
	assert_ok(wire_events_parse(&body, question, &ends, &events, &err));
	print_events(&ends, &events);
	event_list_clear(&events);
	assert_parsed(name);
}

TEST(events_of_an_earlier_version_are_read)
{
	parse_events("events", &(struct wire_events_question){ .limit = 1000 });
	parse_events("events-last", &(struct wire_events_question){ .limit = 1000 });
	parse_events("events-wait", &(struct wire_events_question){ .limit = 1000 });
}

static void print_page(const struct inventory_page *page)
{
	str_addf(&got, "log %s, last %" PRIu64 " %s, %s, next %s\n", page->timeline,
		 page->last_event, page->last_mark, page->is_part ? "a part" : "complete",
		 text_of(page->next));
	for (size_t i = 0; i < page->items.count; i++) {
		const struct inventory_item *item = &page->items.items[i];
		str_addf(&got, "%s %s %" PRIu64 " %" PRIu64 " %" PRId64 " %s%s\n",
			 item->name, item->timeline, item->generation, item->size,
			 item->changed_at, text_of(item->checksum),
			 item->is_unreadable ? " unreadable" : "");
	}
}

static void parse_page(const char *name, const struct blob_kind *blobs,
		       const struct page_question *question)
{
	const struct kind kind =
		blobs ? kind_of_blobs(blobs) : kind_of_repositories(NULL);
	AUTO_STR struct str whole = STR_INIT;
	AUTO_STR struct str body = STR_INIT;
	struct inventory_page page = { 0 };

	read_answer(name, &whole, &body);
	assert_ok(wire_inventory_parse(&body, &kind, question, &page, &err));
	print_page(&page);
	inventory_page_clear(&page);
	assert_parsed(name);
}

TEST(inventories_of_an_earlier_version_are_read)
{
	static char of_files[] = "uploads", of_objects[] = "lfs";
	const struct blob_kind uploads = { .type = of_files };
	const struct blob_kind lfs = { .type = of_objects, .layout = BLOB_LFS };

	parse_page("inventory-first", NULL, &(struct page_question){ .limit = 3 });
	parse_page("inventory-rest", NULL,
		   &(struct page_question){ .after = "held", .limit = 1000 });
	parse_page("inventory-last", NULL, &(struct page_question){ .limit = 1000 });
	parse_page("inventory-uploads", &uploads,
		   &(struct page_question){ .limit = 1000 });
	parse_page("inventory-lfs", &lfs, &(struct page_question){ .limit = 1000 });
}

static void print_refs(const struct wire_refs *refs)
{
	str_addf(&got, "%s %" PRIu64 " %s %" PRId64 " %zu\nHEAD %s\ndescription %s\n",
		 refs->timeline, refs->generation, refs->checksum, refs->changed_at,
		 refs->oid_len, text_of(refs->refs.head_target),
		 text_of(refs->description));
	for (size_t i = 0; i < refs->refs.refs.count; i++) {
		const struct ref *ref = &refs->refs.refs.items[i];
		char oid[OID_MAX_TEXT];
		str_addf(&got, "%s %s\n", ref->name,
			 ref->target ? ref->target : oid_text(&ref->oid, oid));
	}
}

TEST(refs_of_an_earlier_version_are_read)
{
	static const char *const names[] = { "refs-plain", "refs-tool" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		AUTO_STR struct str whole = STR_INIT;
		AUTO_STR struct str body = STR_INIT;
		struct wire_refs refs = { 0 };
		read_answer(names[i], &whole, &body);
		assert_ok(wire_refs_parse(&body, &refs, &err));
		print_refs(&refs);
		wire_refs_clear(&refs);
		assert_parsed(names[i]);
	}
}

static int begin_frame(void *arg, const struct wire_frame *frame, struct err *error)
{
	(void)arg;
	(void)error;
	str_addf(&got, "%s %s %" PRIu64 " %s %" PRIu64 " %s:", frame->name,
		 text_of(frame->code), frame->size, frame->timeline, frame->generation,
		 frame->checksum);
	if (frame->code)
		str_add(&got, "\n");
	return 0;
}

static int take_bytes(void *arg, const void *bytes, size_t len, struct err *error)
{
	(void)arg;
	(void)error;
	for (size_t i = 0; i < len; i++)
		str_addf(&got, "%02x", ((const unsigned char *)bytes)[i]);
	return 0;
}

static int end_frame(void *arg, struct err *error)
{
	(void)arg;
	(void)error;
	str_add(&got, "\n");
	return 0;
}

TEST(many_blobs_of_an_earlier_version_are_read)
{
	static const struct wire_frame_sink sink = { begin_frame, take_bytes, end_frame,
						     NULL };
	AUTO_STR struct str whole = STR_INIT;
	AUTO_STR struct str body = STR_INIT;
	struct wire_frames frames;

	read_answer("retrieve-many", &whole, &body);
	wire_frames_init(&frames, &sink);
	assert_ok(wire_frames_take(&frames, body.data, body.len, &err));
	assert_ok(wire_frames_finish(&frames, &err));
	wire_frames_clear(&frames);
	assert_parsed("retrieve-many");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_of_an_earlier_version_are_read),
		cmocka_unit_test(inventories_of_an_earlier_version_are_read),
		cmocka_unit_test(refs_of_an_earlier_version_are_read),
		cmocka_unit_test(many_blobs_of_an_earlier_version_are_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
