#include "wire_test.h"

#include "wire/wire_refs.h"

#define A "1111111111111111111111111111111111111111"
#define B "2222222222222222222222222222222222222222"
#define HEADER                                                                           \
	"refrelay-refs 1\n"                                                              \
	"timeline 8a2f000000000001\n"                                                    \
	"generation 7\n"
#define MIDDLE                                                                           \
	"changed-at 2026-11-21T09:14:03.120Z\n"                                          \
	"object-format sha1\n"
#define HEAD "head ref: refs/heads/main\n"

static struct wire_refs refs;

static struct ref direct(const char *name, const char *oid)
{
	struct ref ref = { .name = name };

	assert_true(oid_parse(oid, 20, &ref.oid));
	return ref;
}

/* The checksum line of main = A, a tag = B, and a symbolic ref. */
static char *sum_line(void)
{
	struct ref_snapshot snapshot = { 0 };
	struct ref symbolic = { .name = "refs/heads/s", .target = "refs/heads/main" };
	char main_ref[] = "refs/heads/main", text[CHECKSUM_TEXT_SIZE];
	struct checksum sum;

	snapshot.head_target = main_ref;
	vec_add(&snapshot.refs, direct("refs/heads/main", A));
	vec_add(&snapshot.refs, symbolic);
	vec_add(&snapshot.refs, direct("refs/tags/v\xff", B));
	checksum_of(&snapshot, &sum);
	checksum_format(&sum, text);
	vec_clear(&snapshot.refs);
	return xasprintf("checksum %s\n", text);
}

#define REFS                                                                             \
	A " refs/heads/main\n"                                                           \
	  "ref: refs/heads/main refs/heads/s\n" B " refs/tags/v\xff " A "\n"

static int parse_bytes(const char *text, size_t len)
{
	AUTO_STR struct str body = STR_INIT;

	str_add_bytes(&body, text, len);
	return wire_refs_parse(&body, &refs, &err);
}

/* The answer with the checksum line in the place of %s. */
PRINTF_LIKE(1, 2) static int parse(const char *fmt, ...)
{
	va_list args;
	char *text = NULL;
	int result;

	va_start(args, fmt);
	assert_true(vasprintf(&text, fmt, args) >= 0);
	va_end(args);
	result = parse_bytes(text, strlen(text));
	free(text);
	return result;
}

TEST(a_good_answer_is_read)
{
	AUTO_FREE char *sum = sum_line();

	assert_ok(parse(HEADER "%s" MIDDLE HEAD
			       "description aGkK\nlater 1\nlog 64e9000000000002\n"
			       "refs 3\n\n" REFS,
			sum));
	assert_string_equal(refs.timeline, "8a2f000000000001");
	assert_string_equal(refs.log, "64e9000000000002");
	assert_int_equal(refs.generation, 7);
	assert_int_equal(refs.changed_at, INT64_C(1795252443120));
	assert_int_equal(refs.oid_len, 20);
	assert_string_equal(refs.description, "hi\n");
	assert_string_equal(refs.refs.head_target, "refs/heads/main");
	assert_int_equal(refs.refs.refs.count, 3);
	assert_int_equal(refs.refs.refs.items[0].peel, REF_PEEL_UNKNOWN);
	assert_string_equal(refs.refs.refs.items[1].target, "refs/heads/main");
	assert_string_equal(refs.refs.refs.items[2].name, "refs/tags/v\xff");
	assert_int_equal(refs.refs.refs.items[2].peel, REF_PEEL_TAG);
	wire_refs_clear(&refs);
}

/* "[transfer]\n\thideRefs = refs/a\n[core]\n\tx = y\n" */
#define SETTINGS "settings W3RyYW5zZmVyXQoJaGlkZVJlZnMgPSByZWZzL2EKW2NvcmVdCgl4ID0geQo=\n"

TEST(settings_for_readers_are_read_and_no_others)
{
	AUTO_FREE char *sum = sum_line();

	assert_ok(parse(HEADER "%s" MIDDLE HEAD SETTINGS "refs 3\n\n" REFS, sum));
	assert_string_equal(refs.settings, "[transfer]\n\thideRefs = \"refs/a\"\n");
	wire_refs_clear(&refs);
	assert_ok(parse(HEADER "%s" MIDDLE HEAD "settings \nrefs 3\n\n" REFS, sum));
	assert_string_equal(refs.settings, "");
	assert_int_equal(refs.pushed_announced, 0);
	wire_refs_clear(&refs);
	assert_ok(parse(HEADER "%s" MIDDLE HEAD "pushed-deletions 3 17\nrefs 3\n\n" REFS,
			sum));
	assert_int_equal(refs.pushed_settled, 3);
	assert_int_equal(refs.pushed_announced, 17);
	wire_refs_clear(&refs);
	assert_fails(
		parse(HEADER "%s" MIDDLE HEAD "pushed-deletions 3\nrefs 3\n\n" REFS, sum),
		ERR_CORRUPT);
	assert_ok(parse(HEADER "%s" MIDDLE HEAD "pack-bytes 512\nrefs 3\n\n" REFS, sum));
	assert_int_equal(refs.pack_bytes, 512);
	wire_refs_clear(&refs);
	assert_fails(parse(HEADER "%s" MIDDLE HEAD "pack-bytes -1\nrefs 3\n\n" REFS, sum),
		     ERR_CORRUPT);
	assert_ok(parse(HEADER "%s" MIDDLE HEAD
			       "lenders cG9vbApncm91cC9vbmUK\nrefs 3\n\n" REFS,
			sum));
	assert_int_equal(refs.lenders.count, 2);
	assert_string_equal(refs.lenders.items[0], "pool");
	assert_string_equal(refs.lenders.items[1], "group/one");
	wire_refs_clear(&refs);
	assert_fails(parse(HEADER "%s" MIDDLE HEAD
				  "lenders Li4vcG9vbAo=\nrefs 3\n\n" REFS,
			   sum),
		     ERR_CORRUPT);
	assert_ok(parse(HEADER "%s" MIDDLE HEAD "refs 3\n\n" REFS, sum));
	assert_null(refs.settings);
	assert_int_equal(refs.pack_bytes, 0);
	wire_refs_clear(&refs);
	assert_fails(
		parse(HEADER "%s" MIDDLE HEAD SETTINGS SETTINGS "refs 3\n\n" REFS, sum),
		ERR_CORRUPT);
	assert_fails(parse(HEADER "%s" MIDDLE HEAD "settings Ww==\nrefs 3\n\n" REFS, sum),
		     ERR_CORRUPT);
}

/* Of no refs, cut at A and B. */
static char *cut_sum_line(void)
{
	char head[] = "refs/heads/main", text[CHECKSUM_TEXT_SIZE];
	struct ref_snapshot snapshot = { .head_target = head };
	struct checksum sum;

	vec_add(&snapshot.cuts, direct("", A).oid);
	vec_add(&snapshot.cuts, direct("", B).oid);
	checksum_of(&snapshot, &sum);
	checksum_format(&sum, text);
	vec_clear(&snapshot.cuts);
	return xasprintf("checksum %s\n", text);
}

TEST(where_a_history_is_cut_is_told_and_read)
{
	AUTO_FREE char *sum = cut_sum_line();
	AUTO_STR struct str told = STR_INIT;
	struct wire_refs again;
	char none[] = "";

	assert_ok(parse(HEADER "%s" MIDDLE HEAD "shallow " A " " B "\nrefs 0\n\n", sum));
	assert_int_equal(refs.refs.cuts.count, 2);
	refs.settings = none;
	wire_refs_render(&refs, &told);
	refs.settings = NULL;
	assert_non_null(strstr(told.data, "\nshallow " A " " B "\n"));
	assert_ok(wire_refs_parse(&told, &again, &err));
	assert_int_equal(again.refs.cuts.count, 2);
	wire_refs_clear(&again);
	wire_refs_clear(&refs);
}

TEST(cuts_that_are_not_as_they_should_be_are_refused)
{
	static const char *const wrong[] = { "",
					     "shallow " A "\n",
					     "shallow " B " " A "\n",
					     "shallow " A " " A "\n",
					     "shallow \n",
					     "shallow " A " " B " \n",
					     "shallow " A "," B "\n",
					     "shallow " A " 22\n",
					     "shallow " A " " B "\nshallow " A " " B
					     "\n" };
	AUTO_FREE char *sum = cut_sum_line();

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_fails(parse(HEADER "%s" MIDDLE HEAD "%srefs 0\n\n", sum, wrong[i]),
			     ERR_CORRUPT);
	assert_fails(parse(HEADER "%sshallow " A "\n" MIDDLE HEAD "refs 0\n\n", sum),
		     ERR_CORRUPT);
}

TEST(a_repository_without_refs_and_description_is_read)
{
	char target[] = "refs/heads/x", text[CHECKSUM_TEXT_SIZE];
	struct ref_snapshot empty = { .head_target = target };
	struct checksum sum;

	checksum_of(&empty, &sum);
	checksum_format(&sum, text);
	assert_ok(parse(HEADER
			"checksum %s\nobject-format sha256\nhead ref: refs/heads/x\n"
			"refs 0\n\n",
			text));
	assert_null(refs.description);
	assert_int_equal(refs.oid_len, 32);
	wire_refs_clear(&refs);
}

/* Each is the good answer with one thing wrong; the text says which. */
TEST(a_lying_answer_is_refused_as_a_whole)
{
	static const struct {
		const char *fmt; /* %s: the checksum's line */
		const char *says;
	} table[] = {
		{ "refrelay-refs 2\n%s", "no refs in a form" },
		{ "<html>%s", "no refs in a form" },
		{ HEADER "%s" MIDDLE HEAD "refs 3\n", "cut off" },
		{ HEADER "%s" MIDDLE HEAD "refs 4\n\n" REFS, "cut off" },
		{ HEADER "%s" MIDDLE HEAD "refs 99999999999999999999\n\n" REFS,
		  "refs 99" },
		{ HEADER "%s" MIDDLE HEAD "refs 2\n\n" REFS, "more refs" },
		{ HEADER "%s" MIDDLE HEAD "refs 3\n\n" REFS "x", "more refs" },
		{ HEADER "%s" MIDDLE "head ref: refs/heads/other\nrefs 3\n\n" REFS,
		  "checksum is" },
		{ HEADER "%s" MIDDLE "head ref: ../main\nrefs 3\n\n" REFS, "head" },
		{ HEADER "%s" MIDDLE HEAD HEAD "refs 3\n\n" REFS, "head" },
		{ HEADER "%s" HEAD "refs 3\n\n" REFS, "head" },
		{ HEADER "%s" MIDDLE "refs 3\n\n" REFS, "lack" },
		{ HEADER "%s" MIDDLE HEAD "description !\nrefs 3\n\n" REFS,
		  "description" },
		{ HEADER "generation 8\n%s" MIDDLE HEAD "refs 3\n\n" REFS, "generation" },
		{ HEADER "%s" MIDDLE HEAD "refs 3\n\n" A " refs/heads/main\n" B
			 " refs/heads/main\n" B " refs/heads/z\n",
		  "order" },
		{ HEADER "%s" MIDDLE HEAD "refs 3\n\n" B " refs/tags/v\n" A
			 " refs/heads/main\n" B " refs/tags/z\n",
		  "order" },
		{ HEADER "%s" MIDDLE HEAD "refs 1\n\n" A " refs/heads/../../x\n",
		  "line 1" },
		{ HEADER "%s" MIDDLE HEAD "refs 1\n\n" A " config\n", "line 1" },
		{ HEADER "%s" MIDDLE HEAD "refs 1\n\n" A "11 refs/heads/main\n",
		  "line 1" },
		{ HEADER "%s" MIDDLE HEAD
			 "refs 1\n\n0000000000000000000000000000000000000000 "
			 "refs/heads/main\n",
		  "line 1" },
		{ HEADER "%s" MIDDLE HEAD "refs 1\n\n" A " refs/tags/v 1234\n",
		  "line 1" },
		{ HEADER "%s" MIDDLE HEAD "refs 1\n\nref: refs/x\x01y refs/heads/s\n",
		  "line 1" },
	};
	AUTO_FREE char *sum = sum_line();

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		AUTO_STR struct str text = STR_INIT;
		const char *at = strstr(table[i].fmt, "%s");
		str_add_bytes(&text, table[i].fmt, (size_t)(at - table[i].fmt));
		str_add(&text, sum);
		str_add(&text, at + 2);
		assert_fails(wire_refs_parse(&text, &refs, &err), ERR_CORRUPT);
		if (!strstr(err.text, table[i].says))
			fail_msg("answer %zu: %s", i, err.text);
		assert_int_equal(refs.refs.refs.count, 0);
	}
}

TEST(a_nul_ends_no_line)
{
	AUTO_FREE char *sum = sum_line();
	AUTO_STR struct str text = STR_INIT;

	str_addf(&text, HEADER "%s" MIDDLE HEAD "refs 3\n\n" REFS, sum);
	char *name = strstr(text.data, "refs/heads/s\n");
	name[11] = '\0';
	assert_fails(wire_refs_parse(&text, &refs, &err), ERR_CORRUPT);
}

#define SUM "1-00000000000000000000000000000000000000000000000000000000000000ff"

static struct oid oid_of(char digit, size_t len)
{
	char text[OID_MAX_TEXT];
	struct oid oid;

	memset(text, digit, 2 * len);
	assert_true(oid_parse(text, len, &oid));
	return oid;
}

/* A repository as a comparison finds it: 2026-11-21T09:14:03.120Z, generation 7. */
static char settings[] = "[a]\n";
static struct wire_refs make_refs(size_t oid_len)
{
	return (struct wire_refs){ .timeline = "8a2f000000000001",
				   .generation = 7,
				   .checksum = SUM,
				   .changed_at = 1795252443120,
				   .oid_len = oid_len,
				   .settings = settings,
				   .pushed_announced = 9,
				   .pushed_settled = 7 };
}

static void assert_answer(const struct wire_refs *reported, const char *format,
			  const char *rest)
{
	AUTO_STR struct str out = STR_INIT;
	AUTO_FREE char *expected = xasprintf("refrelay-refs 1\n"
					     "timeline 8a2f000000000001\n"
					     "generation 7\n"
					     "checksum " SUM "\n"
					     "changed-at 2026-11-21T09:14:03.120Z\n"
					     "object-format %s\n%s",
					     format, rest);

	wire_refs_render(reported, &out);
	assert_string_equal(out.data, expected);
	assert_int_equal(out.len, strlen(out.data));
}

TEST(refs_are_answered_in_the_form_of_the_protocol)
{
	struct wire_refs reported = make_refs(20);
	char head[] = "refs/heads/main", description[] = "Gr\xfc\xdf"
							 "e\n";
	struct ref symbolic = { .name = "refs/heads/default",
				.target = "refs/heads/main" };
	struct ref branch = { .name = "refs/heads/\xfc",
			      .oid = oid_of('a', 20),
			      .peel = REF_PEEL_SELF };
	struct ref unknown = { .name = "refs/tags/t", .oid = oid_of('b', 20) };
	struct ref tag = { .name = "refs/tags/v1",
			   .oid = oid_of('c', 20),
			   .peeled = oid_of('d', 20),
			   .peel = REF_PEEL_TAG };

	reported.refs.head_target = head;
	reported.description = description;
	memcpy(reported.log, "64e9000000000002", sizeof(reported.log));
	reported.pack_bytes = 512;
	vec_add(&reported.lenders, xstrdup("group/one"));
	vec_add(&reported.refs.refs, symbolic);
	vec_add(&reported.refs.refs, branch);
	vec_add(&reported.refs.refs, unknown);
	vec_add(&reported.refs.refs, tag);
	assert_answer(&reported, "sha1",
		      "log 64e9000000000002\n"
		      "head ref: refs/heads/main\n"
		      "description R3L832UK\n"
		      "pushed-deletions 7 9\npack-bytes 512\nlenders Z3JvdXAvb25lCg==\n"
		      "settings W2FdCg==\n"
		      "refs 4\n"
		      "\n"
		      "ref: refs/heads/main refs/heads/default\n"
		      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa refs/heads/\xfc\n"
		      "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb refs/tags/t\n"
		      "cccccccccccccccccccccccccccccccccccccccc refs/tags/v1 "
		      "dddddddddddddddddddddddddddddddddddddddd\n");
	vec_clear(&reported.refs.refs);
	text_list_clear(&reported.lenders);
}

TEST(a_detached_head_and_sha256_are_answered)
{
	struct wire_refs reported = make_refs(32);
	struct ref branch = { .name = "refs/heads/a", .oid = oid_of('1', 32) };

	reported.refs.head_oid = oid_of('2', 32);
	vec_add(&reported.refs.refs, branch);
	assert_answer(
		&reported, "sha256",
		"head 2222222222222222222222222222222222222222222222222222222222222222\n"
		"pushed-deletions 7 9\nsettings W2FdCg==\n"
		"refs 1\n"
		"\n"
		"1111111111111111111111111111111111111111111111111111111111111111 "
		"refs/heads/a\n");
	vec_clear(&reported.refs.refs);
}

/* A file that is there and empty is not the same as none. */
TEST(an_empty_repository_and_an_empty_description_are_answered)
{
	struct wire_refs reported = make_refs(20);
	char head[] = "refs/heads/main", empty[] = "";

	reported.refs.head_target = head;
	assert_answer(&reported, "sha1",
		      "head ref: refs/heads/main\npushed-deletions 7 9\nsettings "
		      "W2FdCg==\nrefs 0\n\n");
	reported.description = empty;
	assert_answer(&reported, "sha1",
		      "head ref: refs/heads/main\ndescription \npushed-deletions 7 "
		      "9\nsettings W2FdCg==\nrefs 0\n\n");
}

TEST(a_long_description_is_one_line)
{
	struct wire_refs reported = make_refs(20);
	AUTO_STR struct str out = STR_INIT;
	char head[] = "refs/heads/main", text[301];

	memset(text, '\n', 300);
	text[300] = '\0';
	reported.refs.head_target = head;
	reported.description = text;
	wire_refs_render(&reported, &out);
	const char *line = strstr(out.data, "description ");
	assert_non_null(line);
	assert_int_equal(strcspn(line, "\n"), strlen("description ") + 400);
}

static bool refs_again(const struct str *text, struct str *out)
{
	if (wire_refs_parse(text, &refs, &err) != 0)
		return false;
	if (refs.settings)
		wire_refs_render(&refs, out);
	wire_refs_clear(&refs);
	return true;
}

TEST(refs_travel_and_each_byte_of_them_counts)
{
	AUTO_FREE char *line = sum_line();
	char head[] = "refs/heads/main", description[] = "hi\n", none[] = "",
	     readers[] = "[transfer]\n\thideRefs = \"refs/a\"\n";
	struct wire_refs reported = make_refs(20);
	struct ref symbolic = { .name = "refs/heads/s", .target = "refs/heads/main" };
	struct ref tag = direct("refs/tags/v\xff", B);
	AUTO_STR struct str text = STR_INIT;

	snprintf(reported.checksum, sizeof(reported.checksum), "%.66s",
		 line + strlen("checksum "));
	reported.refs.head_target = head;
	reported.description = description;
	reported.settings = none;
	tag.peel = REF_PEEL_TAG;
	assert_true(oid_parse(A, 20, &tag.peeled));
	vec_add(&reported.refs.refs, direct("refs/heads/main", A));
	vec_add(&reported.refs.refs, symbolic);
	vec_add(&reported.refs.refs, tag);
	wire_refs_render(&reported, &text);
	assert_travels(&text, refs_again);
	reported.settings = readers; /* white space of a configuration says nothing */
	str_reset(&text);
	wire_refs_render(&reported, &text);
	vec_clear(&reported.refs.refs);
	assert_comes_back(&text, refs_again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refs_travel_and_each_byte_of_them_counts),
		cmocka_unit_test(a_good_answer_is_read),
		cmocka_unit_test(settings_for_readers_are_read_and_no_others),
		cmocka_unit_test(a_repository_without_refs_and_description_is_read),
		cmocka_unit_test(where_a_history_is_cut_is_told_and_read),
		cmocka_unit_test(cuts_that_are_not_as_they_should_be_are_refused),
		cmocka_unit_test(a_lying_answer_is_refused_as_a_whole),
		cmocka_unit_test(a_nul_ends_no_line),
		cmocka_unit_test(refs_are_answered_in_the_form_of_the_protocol),
		cmocka_unit_test(a_detached_head_and_sha256_are_answered),
		cmocka_unit_test(
			an_empty_repository_and_an_empty_description_are_answered),
		cmocka_unit_test(a_long_description_is_one_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
