#include "wire_test.h"

#include "wire/wire_delta.h"
#include "wire/wire_event.h"
#include "wire/wire_refs.h"

#define A "1111111111111111111111111111111111111111"
#define B "2222222222222222222222222222222222222222"
#define C "3333333333333333333333333333333333333333"

static struct oid oid_of(const char *text)
{
	struct oid oid;

	assert_true(oid_parse(text, 20, &oid));
	return oid;
}

/* "name value" each; a value of "@x" is symbolic. The last is NULL. */
static void fill(struct ref_snapshot *refs, const char *head, const char *const *pairs)
{
	*refs = (struct ref_snapshot){ .head_target = xstrdup(head) };
	for (; pairs[0]; pairs += 2) {
		struct ref ref = { .name = pairs[0] };
		if (pairs[1][0] == '@')
			ref.target = pairs[1] + 1;
		else
			ref.oid = oid_of(pairs[1]);
		vec_add(&refs->refs, ref);
	}
}

static const char *const before_pairs[] = { "refs/heads/a",
					    A,
					    "refs/heads/main",
					    A,
					    "refs/heads/s",
					    "@refs/heads/main",
					    "refs/tags/v",
					    B,
					    NULL };
static const char *const after_pairs[] = { "refs/heads/main",
					   B,
					   "refs/heads/new",
					   C,
					   "refs/heads/s",
					   "@refs/heads/new",
					   "refs/tags/v",
					   B,
					   NULL };

static void fill_answer(struct wire_refs *refs)
{
	struct checksum sum;

	*refs = (struct wire_refs){ .oid_len = 20,
				    .generation = 9,
				    .changed_at = INT64_C(1795252443120),
				    .pushed_settled = 3,
				    .pushed_announced = 4 };
	fill(&refs->refs, "refs/heads/new", after_pairs);
	checksum_of(&refs->refs, &sum);
	checksum_format(&sum, refs->checksum);
	snprintf(refs->timeline, sizeof(refs->timeline), "8a2f000000000001");
	refs->settings = xstrdup("");
	refs->description = xstrdup("text\n");
}

/* Those that differ, with the pack. */
static void render(const char *pack, size_t len, struct str *body)
{
	static char names[][16] = { "refs/heads/a", "refs/heads/main", "refs/heads/new",
				    "refs/heads/s" };
	AUTO_STR struct str bytes = STR_INIT;
	struct wire_refs refs;
	text_list list = { 0 };

	fill_answer(&refs);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		vec_add(&list, names[i]);
	str_add_bytes(&bytes, pack, len);
	wire_delta_render(&refs, &list, &bytes, body);
	vec_clear(&list);
	wire_refs_clear(&refs);
}

static int parse(const struct str *body, const char *const *pairs, struct wire_refs *refs,
		 struct str *pack)
{
	struct ref_snapshot base;
	struct checksum sum;
	const struct wire_delta_base from = { .refs = &base, .sum = &sum, .oid_len = 20 };

	fill(&base, "refs/heads/main", pairs);
	checksum_of(&base, &sum);
	return wire_delta_parse(body, &from, refs, pack, &err);
}

TEST(a_difference_makes_the_one_of_the_other)
{
	static const char bytes[] = "PACK\n\0\nrefs 1\n\n";
	AUTO_STR struct str body = STR_INIT, pack = STR_INIT;
	struct wire_refs refs, wanted;

	render(bytes, sizeof(bytes), &body);
	assert_ok(parse(&body, before_pairs, &refs, &pack));
	assert_int_equal(pack.len, sizeof(bytes));
	assert_memory_equal(pack.data, bytes, sizeof(bytes));
	fill_answer(&wanted);
	assert_int_equal(refs.refs.refs.count, wanted.refs.refs.count);
	for (size_t i = 0; i < refs.refs.refs.count; i++) {
		assert_string_equal(refs.refs.refs.items[i].name,
				    wanted.refs.refs.items[i].name);
		assert_true(ref_same_value(&refs.refs.refs.items[i],
					   &wanted.refs.refs.items[i]));
	}
	assert_string_equal(refs.refs.head_target, "refs/heads/new");
	assert_string_equal(refs.description, "text\n");
	assert_int_equal(refs.generation, 9);
	assert_int_equal(refs.pushed_announced, 4);
	wire_refs_clear(&refs);
	wire_refs_clear(&wanted);
}

/* Then the sum tells, and nothing is believed. */
TEST(a_difference_to_something_else_is_refused)
{
	static const char *const others[] = { "refs/heads/a",
					      A,
					      "refs/heads/main",
					      A,
					      "refs/heads/s",
					      "@refs/heads/main",
					      "refs/tags/v",
					      C,
					      NULL };
	AUTO_STR struct str body = STR_INIT, pack = STR_INIT;
	struct wire_refs refs;

	render("", 0, &body);
	assert_fails(parse(&body, others, &refs, &pack), ERR_CORRUPT);
	assert_fails(parse(&body, others + 8, &refs, &pack), ERR_CORRUPT);
}

TEST(each_byte_of_it_counts)
{
	AUTO_STR struct str body = STR_INIT, good = STR_INIT;
	size_t refused = 0;

	render("12", 2, &good);
	for (size_t i = 0; i < good.len; i++) {
		AUTO_STR struct str pack = STR_INIT;
		struct wire_refs refs;
		str_reset(&body);
		str_add_bytes(&body, good.data, i);
		assert_fails(parse(&body, before_pairs, &refs, &pack), ERR_CORRUPT);
		str_reset(&body);
		str_add_bytes(&body, good.data, good.len);
		body.data[i] ^= 1;
		if (parse(&body, before_pairs, &refs, &pack) == 0)
			wire_refs_clear(&refs);
		else
			refused++;
	}
	str_add_char(&good, 'x');
	AUTO_STR struct str pack = STR_INIT;
	struct wire_refs refs;
	assert_fails(parse(&good, before_pairs, &refs, &pack), ERR_CORRUPT);
	assert_true(refused > good.len / 2);
}

TEST(a_question_comes_back)
{
	const struct wire_delta_question asked = {
		.timeline = "8a2f000000000001",
		.generation = 6,
		.checksum =
			"1-00000000000000000000000000000000000000000000000000000000000000"
			"07",
		.limit = 1 << 20,
	};
	struct wire_delta_question read;
	AUTO_STR struct str body = STR_INIT, wrong = STR_INIT;

	wire_delta_ask(&asked, &body);
	assert_ok(wire_delta_read_question(&body, &read, &err));
	assert_string_equal(read.timeline, asked.timeline);
	assert_string_equal(read.checksum, asked.checksum);
	assert_int_equal(read.generation, 6);
	assert_int_equal(read.limit, 1 << 20);
	str_add(&wrong, "{\"timeline\":\"8a2f000000000001\",\"generation\":-1,"
			"\"limit\":1,\"checksum\":\"x\"}");
	assert_fails(wire_delta_read_question(&wrong, &read, &err), ERR_CONFIG);
	str_reset(&wrong);
	assert_fails(wire_delta_read_question(&wrong, &read, &err), ERR_CONFIG);
}

/* As events tell it, over several of them. */
TEST(changes_of_events_come_to_one_for_each_ref)
{
	static const char *const between_pairs[] = { "refs/heads/main",
						     C,
						     "refs/heads/s",
						     "@refs/heads/main",
						     "refs/tags/v",
						     B,
						     NULL };
	static const char *const heads[] = { "refs/heads/main", "refs/heads/main",
					     "refs/heads/new" };
	const char *const *const all[] = { before_pairs, between_pairs, after_pairs };
	AUTO_REF_CHANGES wire_ref_changes changes = { 0 };
	struct ref_snapshot refs[3];
	struct checksum sum, wanted;

	for (size_t i = 0; i < 3; i++)
		fill(&refs[i], heads[i], all[i]);
	for (size_t i = 0; i < 2; i++) {
		AUTO_DIFF struct ref_diff diff;
		ref_diff_compute(&refs[i], &refs[i + 1], &diff);
		AUTO_FREE char *text = wire_event_changes(&diff, &refs[i], &refs[i + 1]);
		assert_ok(wire_ref_changes_add(&changes, text, 20, &err));
	}
	wire_ref_changes_fold(&changes);
	assert_int_equal(changes.count, 5);
	assert_string_equal(changes.items[0].name, "HEAD");
	assert_string_equal(changes.items[0].after.target, "refs/heads/new");
	assert_string_equal(changes.items[1].name, "refs/heads/a");
	assert_int_equal(changes.items[1].after.oid.len, 0);
	assert_string_equal(changes.items[2].name, "refs/heads/main");
	assert_true(oid_equal(&changes.items[2].before.oid, &refs[0].refs.items[0].oid));
	assert_true(oid_equal(&changes.items[2].after.oid, &refs[2].refs.items[0].oid));
	checksum_of(&refs[0], &sum);
	checksum_of(&refs[2], &wanted);
	assert_false(checksum_equal(&sum, &wanted));
	wire_ref_changes_apply(&changes, &sum);
	assert_true(checksum_equal(&sum, &wanted));
	for (size_t i = 0; i < 3; i++)
		ref_snapshot_clear(&refs[i]);
}

TEST(changes_that_are_none_are_refused)
{
	static const char *const texts[] = {
		"",
		"{}",
		"[1]",
		"[{}]",
		"[{\"ref\":1}]",
		"[{\"ref\":\"x\",\"new\":\"12\"}]",
		"[],\"x\":[{}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		AUTO_REF_CHANGES wire_ref_changes changes = { 0 };
		assert_fails(wire_ref_changes_add(&changes, texts[i], 20, &err),
			     ERR_CORRUPT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_difference_makes_the_one_of_the_other),
		cmocka_unit_test(a_difference_to_something_else_is_refused),
		cmocka_unit_test(each_byte_of_it_counts),
		cmocka_unit_test(a_question_comes_back),
		cmocka_unit_test(changes_of_events_come_to_one_for_each_ref),
		cmocka_unit_test(changes_that_are_none_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
