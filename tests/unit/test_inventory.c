#include "test.h"

#include "change/event_log.h"
#include "origin/inventory.h"
#include "replicable/name.h"

#define SUM "1-00000000000000000000000000000000000000000000000000000000000000ff"

static struct oid oid_of(char digit, size_t len)
{
	char text[OID_MAX_TEXT];
	struct oid oid;

	memset(text, digit, 2 * len);
	assert_true(oid_parse(text, len, &oid));
	return oid;
}

static char checksum[] = SUM;

/* A repository as a comparison finds it: 2026-11-21T09:14:03.120Z, generation 7. */
static char settings[] = "[a]\n";
static const struct pushed pushed = { .announced = 9, .settled = 7 };

static struct noticed make_noticed(size_t oid_len)
{
	return (struct noticed){
		.row = { .timeline = "8a2f000000000001",
			 .generation = 7,
			 .checksum = checksum,
			 .changed_at = 1795252443120 },
		.oid_len = oid_len,
		.settings = settings,
	};
}

static void assert_answer(const struct noticed *noticed, const char *format,
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

	refs_answer(noticed, &pushed, &out);
	assert_string_equal(out.data, expected);
	assert_int_equal(out.len, strlen(out.data));
}

TEST(refs_are_answered_in_the_form_of_the_protocol)
{
	struct noticed noticed = make_noticed(20);
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

	noticed.refs.head_target = head;
	noticed.description = description;
	vec_add(&noticed.refs.refs, symbolic);
	vec_add(&noticed.refs.refs, branch);
	vec_add(&noticed.refs.refs, unknown);
	vec_add(&noticed.refs.refs, tag);
	assert_answer(&noticed, "sha1",
		      "head ref: refs/heads/main\n"
		      "description R3L832UK\n"
		      "pushed-deletions 7 9\nsettings W2FdCg==\n"
		      "refs 4\n"
		      "\n"
		      "ref: refs/heads/main refs/heads/default\n"
		      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa refs/heads/\xfc\n"
		      "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb refs/tags/t\n"
		      "cccccccccccccccccccccccccccccccccccccccc refs/tags/v1 "
		      "dddddddddddddddddddddddddddddddddddddddd\n");
	vec_clear(&noticed.refs.refs);
}

TEST(a_detached_head_and_sha256_are_answered)
{
	struct noticed noticed = make_noticed(32);
	struct ref branch = { .name = "refs/heads/a", .oid = oid_of('1', 32) };

	noticed.refs.head_oid = oid_of('2', 32);
	vec_add(&noticed.refs.refs, branch);
	assert_answer(
		&noticed, "sha256",
		"head 2222222222222222222222222222222222222222222222222222222222222222\n"
		"pushed-deletions 7 9\nsettings W2FdCg==\n"
		"refs 1\n"
		"\n"
		"1111111111111111111111111111111111111111111111111111111111111111 "
		"refs/heads/a\n");
	vec_clear(&noticed.refs.refs);
}

/* A file that is there and empty is not the same as none. */
TEST(an_empty_repository_and_an_empty_description_are_answered)
{
	struct noticed noticed = make_noticed(20);
	char head[] = "refs/heads/main", empty[] = "";

	noticed.refs.head_target = head;
	assert_answer(&noticed, "sha1",
		      "head ref: refs/heads/main\npushed-deletions 7 9\nsettings "
		      "W2FdCg==\nrefs 0\n\n");
	noticed.description = empty;
	assert_answer(&noticed, "sha1",
		      "head ref: refs/heads/main\ndescription \npushed-deletions 7 "
		      "9\nsettings W2FdCg==\nrefs 0\n\n");
}

TEST(a_long_description_is_one_line)
{
	struct noticed noticed = make_noticed(20);
	AUTO_STR struct str out = STR_INIT;
	char head[] = "refs/heads/main", text[301];

	memset(text, '\n', 300);
	text[300] = '\0';
	noticed.refs.head_target = head;
	noticed.description = text;
	refs_answer(&noticed, &pushed, &out);
	const char *line = strstr(out.data, "description ");
	assert_non_null(line);
	assert_int_equal(strcspn(line, "\n"), strlen("description ") + 400);
}

/* Whether a page says that it is all there is, and its ETag, which a question for no more
 * than that gives, too. */
static bool is_complete(struct store *store, char etag[INVENTORY_ETAG_SIZE])
{
	char alone[INVENTORY_ETAG_SIZE];
	json_auto_t *page = inventory_page(
		store, &(struct inventory_slice){ KIND_REPOSITORY, NULL, 10 }, etag,
		&err);

	assert_non_null(page);
	assert_ok(inventory_etag(store, KIND_REPOSITORY, alone, &err));
	assert_string_equal(alone, etag);
	return json_is_true(json_object_get(page, "complete"));
}

/* Followers delete nothing for its absence before that. */
TEST(an_inventory_is_complete_once_everything_was_looked_at)
{
	char nothing[INVENTORY_ETAG_SIZE], part[INVENTORY_ETAG_SIZE],
		all[INVENTORY_ETAG_SIZE];
	struct event_log *log;
	struct store *store;

	assert_ok(store_open("sqlite::memory:", &store, &err));
	assert_ok(event_log_open(store, ":memory:", &log, &err));
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
		cmocka_unit_test(refs_are_answered_in_the_form_of_the_protocol),
		cmocka_unit_test(a_detached_head_and_sha256_are_answered),
		cmocka_unit_test(
			an_empty_repository_and_an_empty_description_are_answered),
		cmocka_unit_test(a_long_description_is_one_line),
		cmocka_unit_test(an_inventory_is_complete_once_everything_was_looked_at),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
