#include "wire_test.h"

#include "replicable/name.h"
#include "wire/wire_event.h"

#define SUM "1-0000000000000000000000000000000000000000000000000000000000000001"
#define EVENT(id, rest)                                                                  \
	"{\"id\":" id ",\"mark\":\"5f0c00000000000" id "\",\"at\":"                      \
	"\"2026-11-21T09:14:03.120Z\",\"kind\":\"repository\",\"timeline\":"             \
	"\"8a2f000000000002\",\"generation\":7," rest "}\n"
#define UPDATED "\"name\":\"a\",\"event\":\"updated\",\"checksum\":\"" SUM "\""

static event_list events;
static struct event_ends ends;

static int parse(const char *text, bool has_cursor, uint64_t after)
{
	const struct wire_events_question question = { .has_cursor = has_cursor,
						       .after = after,
						       .limit = 3 };
	AUTO_STR struct str body = STR_INIT;

	str_add(&body, text);
	assert_ok(wire_ends_parse("8a2f000000000001", "5 5f0c000000000005", &ends, &err));
	return wire_events_parse(&body, &question, &ends, &events, &err);
}

TEST(events_are_read)
{
	assert_ok(parse(EVENT("4", UPDATED ",\"changes\":[{\"ref\":\"refs/heads/x\"}]")
				EVENT("5", "\"name\":\"b\",\"event\":\"deleted\""),
			true, 3));
	assert_int_equal(events.count, 2);
	assert_int_equal(events.items[0].what, EVENT_UPDATED);
	assert_string_equal(events.items[0].checksum, SUM);
	assert_string_equal(events.items[0].changes, "[{\"ref\":\"refs/heads/x\"}]");
	assert_int_equal(events.items[1].what, EVENT_DELETED);
	assert_null(events.items[1].checksum);
	assert_null(events.items[1].changes);
	event_list_clear(&events);
}

#define DIGEST "0000000000000000000000000000000000000000000000000000000000000001"
#define BLOB(rest)                                                                       \
	"{\"id\":4,\"mark\":\"5f0c000000000004\",\"at\":\"2026-11-21T09:14:03.120Z\","   \
	"\"kind\":\"lfs\",\"timeline\":\"8a2f000000000002\",\"generation\":7,"           \
	"\"name\":\"aa/bb/c\"," rest "}\n"

TEST(events_of_blobs_are_read)
{
	assert_ok(parse(BLOB("\"event\":\"checksum_succeeded\",\"size\":5000000000,"
			     "\"checksum\":\"" DIGEST "\""),
			false, 0));
	assert_int_equal(events.items[0].what, EVENT_CHECKSUMMED);
	assert_string_equal(events.items[0].checksum, DIGEST);
	assert_int_equal(events.items[0].size, 5000000000);
	event_list_clear(&events);
	assert_ok(parse(BLOB("\"event\":\"created\",\"size\":0"), false, 0));
	assert_null(events.items[0].checksum);
	event_list_clear(&events);
}

TEST(events_of_blobs_that_make_no_sense_are_refused)
{
	static const char *const table[][2] = {
		{ BLOB("\"event\":\"checksum_succeeded\",\"size\":1"), "\"checksum\"" },
		{ BLOB("\"event\":\"updated\",\"size\":1,\"checksum\":\"" SUM "\""),
		  "\"checksum\"" },
		{ BLOB("\"event\":\"updated\",\"size\":-1"), "\"size\"" },
		{ BLOB("\"event\":\"updated\",\"size\":\"1\""), "\"size\"" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		assert_fails(parse(table[i][0], false, 0), ERR_CORRUPT);
		assert_non_null(strstr(err.text, table[i][1]));
	}
}

TEST(without_a_position_events_begin_anywhere)
{
	assert_ok(parse(EVENT("3", UPDATED) EVENT("4", UPDATED), false, 0));
	assert_int_equal(events.count, 2);
	event_list_clear(&events);
}

TEST(no_event_is_an_answer_only_at_the_newest)
{
	assert_ok(parse("", true, 5));
	assert_ok(parse("", false, 0));
	assert_fails(parse("", true, 4), ERR_CORRUPT);
	assert_fails(parse("", true, 6), ERR_CORRUPT);
}

TEST(a_lying_answer_is_refused_as_a_whole)
{
	static const struct {
		const char *text, *says;
	} table[] = {
		{ EVENT("5", UPDATED), "event 5 stands where 4" },
		{ EVENT("3", UPDATED), "event 3 stands where 4" },
		{ EVENT("4", UPDATED) EVENT("4", UPDATED), "where 5" },
		{ EVENT("4", UPDATED) EVENT("5", UPDATED) EVENT("6", UPDATED),
		  "disagree" },
		{ EVENT("4", UPDATED) "{\"id\":5", "cut off" },
		{ EVENT("4", UPDATED) "garbage\n", "not a JSON object" },
		{ "\n", "not a JSON object" },
		{ EVENT("4", "\"name\":\"a\",\"event\":\"moved\""), "\"event\"" },
		{ EVENT("4", "\"name_base64\":\"/w==\",\"event\":\"updated\""),
		  "\"name\"" },
		{ EVENT("4",
			"\"name\":\"a\",\"event\":\"deleted\",\"checksum\":\"" SUM "\""),
		  "\"checksum\"" },
		{ EVENT("4", "\"name\":\"a\",\"event\":\"updated\",\"checksum\":7"),
		  "\"checksum\"" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		assert_fails(parse(table[i].text, true, 3), ERR_CORRUPT);
		if (!strstr(err.text, table[i].says))
			fail_msg("answer %zu: %s", i, err.text);
		assert_int_equal(events.count, 0);
	}
}

/* Names that whoever may push chooses: within the limits of git, each byte of them two
 * of JSON. */
TEST(names_of_refs_make_no_line_that_nobody_takes)
{
	enum { REFS = 150, LEN = 4000 };
	AUTO_DIFF struct ref_diff diff = { 0 };
	struct ref_snapshot before = { 0 }, after = { 0 };
	char *names[REFS];
	AUTO_STR struct str text = STR_INIT;

	for (int i = 0; i < REFS; i++) {
		struct ref ref = { .oid = { .len = 20 } };
		names[i] = xasprintf("refs/heads/%03d%*s", i, LEN, "");
		memset(strchr(names[i], ' '), '"', LEN);
		ref.name = names[i];
		vec_add(&after.refs, ref);
	}
	ref_diff_compute(&before, &after, &diff);
	assert_null(wire_event_changes(&diff, &before, &after));
	after.refs.count = 20;
	diff.changes.count = 20;
	AUTO_FREE char *changes = wire_event_changes(&diff, &before, &after);
	assert_non_null(changes);

	/* An earlier version recorded them all the same. */
	str_addf(&text, "[\"%0*d\"]", 1 << 20, 0);
	struct event event = { .kind = xstrdup(KIND_REPOSITORY),
			       .name = xstrdup("a"),
			       .what = EVENT_UPDATED,
			       .changes = str_take(&text) };
	json_auto_t *object = wire_event_json(&event);
	assert_null(json_object_get(object, "changes"));
	event_clear(&event);
	vec_clear(&before.refs);
	vec_clear(&after.refs);
	for (int i = 0; i < REFS; i++)
		free(names[i]);
}

TEST(more_events_than_asked_for_are_refused)
{
	const struct wire_events_question question = { .limit = 1 };
	AUTO_STR struct str body = STR_INIT;

	str_add(&body, EVENT("4", UPDATED) EVENT("5", UPDATED));
	assert_fails(wire_events_parse(&body, &question, &ends, &events, &err),
		     ERR_CORRUPT);
}

TEST(headers_that_name_no_log_are_refused)
{
	static const char *const table[][2] = {
		{ "", "0" },
		{ "8a2f", "0" },
		{ "8A2F000000000001", "0" },
		{ "8a2f000000000001", "" },
		{ "8a2f000000000001", "5" },
		{ "8a2f000000000001", "0 5f0c000000000005" },
		{ "8a2f000000000001", "5 5f0c" },
		{ "8a2f000000000001", "-1 5f0c000000000005" },
		{ "8a2f000000000001", "18446744073709551615 5f0c000000000005" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		assert_fails(wire_ends_parse(table[i][0], table[i][1], &ends, &err),
			     ERR_CORRUPT);
	assert_ok(wire_ends_parse("8a2f000000000001", "0", &ends, &err));
	assert_int_equal(ends.last, 0);
}

static const struct event_ends sent_ends = { .timeline = "8a2f000000000001",
					     .last = 6,
					     .mark = "5f0c000000000006" };

static bool events_again(const struct str *text, struct str *out)
{
	const struct wire_events_question question = { .has_cursor = true,
						       .after = 3,
						       .limit = 3 };

	if (wire_events_parse(text, &question, &sent_ends, &events, &err) != 0)
		return false;
	wire_events_render(&events, out);
	event_list_clear(&events);
	return true;
}

TEST(events_travel_and_each_byte_of_them_counts)
{
	char repository[] = "repository", lfs[] = "lfs", name[] = "group/a",
	     id[] = "aa/bb/c", sum[] = SUM, digest[] = DIGEST,
	     changes[] = "[{\"ref\":\"refs/heads/x\",\"new\":\"aa\"}]";
	struct event sent[] = {
		{ .id = 4,
		  .mark = "5f0c000000000004",
		  .at = 1795252443120,
		  .kind = repository,
		  .name = name,
		  .what = EVENT_CREATED,
		  .timeline = "8a2f000000000002",
		  .generation = 1,
		  .checksum = sum,
		  .changes = changes },
		{ .id = 5,
		  .mark = "5f0c000000000005",
		  .at = 1795252443121,
		  .kind = repository,
		  .name = name,
		  .what = EVENT_DELETED,
		  .timeline = "8a2f000000000002",
		  .generation = 2 },
		{ .id = 6,
		  .mark = "5f0c000000000006",
		  .at = 1795252443122,
		  .kind = lfs,
		  .name = id,
		  .what = EVENT_CHECKSUMMED,
		  .timeline = "8a2f000000000003",
		  .generation = 7,
		  .size = 5000000000,
		  .checksum = digest },
	};
	event_list list = { 0 };
	AUTO_STR struct str text = STR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(sent); i++)
		vec_add(&list, sent[i]);
	wire_events_render(&list, &text);
	vec_clear(&list);
	assert_travels(&text, events_again);
}

/* The two headers, as lines. */
static bool ends_again(const struct str *text, struct str *out)
{
	AUTO_FREE char *timeline = xstrndup(text->data, 16);
	struct event_ends read;
	char last[WIRE_LAST_EVENT_SIZE];

	if (text->data[16] != '\n' ||
	    wire_ends_parse(timeline, text->data + 17, &read, &err) != 0)
		return false;
	wire_ends_render(&read, last);
	str_addf(out, "%s\n%s", read.timeline, last);
	return true;
}

TEST(the_ends_of_a_log_travel)
{
	struct event_ends none = { .timeline = "8a2f000000000001" };
	AUTO_STR struct str text = STR_INIT;
	char last[WIRE_LAST_EVENT_SIZE];

	wire_ends_render(&sent_ends, last);
	assert_string_equal(last, "6 5f0c000000000006");
	str_addf(&text, "%s\n%s", sent_ends.timeline, last);
	assert_travels(&text, ends_again);
	wire_ends_render(&none, last);
	assert_string_equal(last, "0");
	str_reset(&text);
	str_addf(&text, "%s\n%s", none.timeline, last);
	assert_travels(&text, ends_again);
}

TEST(a_question_for_events_names_what_is_known)
{
	struct wire_events_question question = { .limit = 10, .wait_s = 3 };
	AUTO_STR struct str target = STR_INIT;

	wire_events_target(&question, &target);
	assert_string_equal(target.data, "events?limit=10&wait=3");
	question.has_cursor = true;
	question.after = 7;
	question.mark = "";
	str_reset(&target);
	wire_events_target(&question, &target);
	assert_string_equal(target.data, "events?limit=10&wait=3&after=7");
	question.mark = "5f0c000000000007";
	question.timeline = "8a2f000000000001";
	str_reset(&target);
	wire_events_target(&question, &target);
	assert_string_equal(target.data, "events?limit=10&wait=3&after=7&mark="
					 "5f0c000000000007&timeline=8a2f000000000001");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_travel_and_each_byte_of_them_counts),
		cmocka_unit_test(the_ends_of_a_log_travel),
		cmocka_unit_test(a_question_for_events_names_what_is_known),
		cmocka_unit_test(events_are_read),
		cmocka_unit_test(events_of_blobs_are_read),
		cmocka_unit_test(events_of_blobs_that_make_no_sense_are_refused),
		cmocka_unit_test(without_a_position_events_begin_anywhere),
		cmocka_unit_test(no_event_is_an_answer_only_at_the_newest),
		cmocka_unit_test(a_lying_answer_is_refused_as_a_whole),
		cmocka_unit_test(names_of_refs_make_no_line_that_nobody_takes),
		cmocka_unit_test(more_events_than_asked_for_are_refused),
		cmocka_unit_test(headers_that_name_no_log_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
