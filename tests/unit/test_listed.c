/*
 * What lists of upstreams said, in the database: what appears is there, what two whole
 * lists in a row lack is gone, and nothing else is.
 */
#include "mirror/listed.h"

#include "base/clock.h"
#include "mirror/requests.h"
#include "replicable/name.h"
#include "replicable/registry.h"
#include "test.h"

#include "registry_write.h"

#define BOTH                                                                             \
	"[mirrors \"a\"]\nfrom = gitea\nurl = https://a.example/\n"                      \
	"[mirrors \"b\"]\nfrom = gitea\nurl = https://b.example/\n"

static struct store *store;
static struct mirrors mirrors;
static struct listed_change change;

static void configure(const char *text)
{
	AUTO_CONF struct conf *conf = NULL;

	mirrors_clear(&mirrors);
	assert_ok(conf_load_text("t.conf", text, strlen(text), &conf, &err));
	assert_ok(mirrors_read(conf, &mirrors, &err));
	assert_ok(listed_begin(store, &mirrors, &err));
	assert_ok(listed_load(store, &mirrors, &err));
}

static int set_up(void **state)
{
	(void)state;
	assert_ok(store_open("sqlite::memory:", &store, &err));
	configure(BOTH);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	mirrors_clear(&mirrors);
	store_close(store);
	return 0;
}

#define LISTED_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* A row for each that is there, as the poll makes them. */
static void add_rows(void)
{
	const char *names[64];
	size_t count = 0;

	for (const struct mirror *mirror = NULL;
	     (mirror = mirrors_next(&mirrors, mirror)) != NULL;)
		names[count++] = mirror->name;
	assert_ok(registry_add(store, KIND_MIRROR, names, count, &err));
}

/* The list says "NAME NAME ...", in byte order, each at HOST/NAME. */
static void say(size_t list, const char *names, const char *host)
{
	struct upstream_list said = { 0 };
	AUTO_FREE char *copy = xstrdup(names);
	text_list urls = { 0 };
	char *rest = copy, *name;

	while ((name = strsep(&rest, " ")) != NULL) {
		struct upstream_chosen one = {
			.name = name, .url = xasprintf("https://%s/%s", host, name)
		};
		char *url = (char *)(uintptr_t)one.url;
		if (!name[0]) {
			free(url);
			continue;
		}
		vec_add(&urls, url);
		vec_add(&said.chosen, one);
	}
	assert_ok(listed_take(store, &mirrors, mirrors.lists.items[list], &said, &change,
			      &err));
	vec_clear(&said.chosen);
	text_list_clear(&urls);
	assert_ok(listed_load(store, &mirrors, &err));
	add_rows();
}

static const char *all_there(void)
{
	static char names[256];

	names[0] = '\0';
	for (const struct mirror *mirror = NULL;
	     (mirror = mirrors_next(&mirrors, mirror)) != NULL;)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s@%s ",
			 mirror->name, mirror->list ? mirror->list->name : "");
	return names;
}

static bool is_gone(const char *name)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	assert_ok(registry_get(store, KIND_MIRROR, name, &row, &err));
	return row.is_gone;
}

static void assert_change(size_t added, size_t moved, size_t missing, size_t gone)
{
	assert_int_equal(change.added, added);
	assert_int_equal(change.moved, moved);
	assert_int_equal(change.missing, missing);
	assert_int_equal(change.gone, gone);
}

TEST(what_appears_is_there_and_stays_after_a_restart)
{
	say(0, "p q", "a.example");
	assert_change(2, 0, 0, 0);
	say(1, "r", "b.example");
	assert_string_equal(all_there(), "p@a q@a r@b ");
	say(0, "p q", "a.example");
	assert_change(0, 0, 0, 0);
	configure(BOTH);
	assert_string_equal(all_there(), "p@a q@a r@b ");
	assert_string_equal(mirrors_find(&mirrors, "q")->url, "https://a.example/q");
}

TEST(what_one_list_lacks_stays_and_what_two_lack_is_gone)
{
	say(0, "p q r", "a.example");
	say(0, "p r", "a.example");
	assert_change(0, 0, 1, 0);
	assert_string_equal(all_there(), "p@a q@a r@a ");
	assert_false(is_gone("q"));
	configure(BOTH); /* a restart in between is no matter */
	say(0, "p r", "a.example");
	assert_change(0, 0, 0, 1);
	assert_string_equal(all_there(), "p@a r@a ");
	assert_true(is_gone("q"));
	assert_false(is_gone("p"));
}

TEST(what_is_there_again_has_missed_nothing)
{
	say(0, "p q", "a.example");
	say(0, "p", "a.example");
	say(0, "p q", "a.example");
	assert_change(0, 0, 0, 0);
	say(0, "p", "a.example");
	assert_change(0, 0, 1, 0);
	assert_false(is_gone("q"));
}

TEST(what_was_gone_and_is_back_is_wanted)
{
	say(0, "p q", "a.example");
	say(0, "p", "a.example");
	say(0, "p", "a.example");
	assert_true(is_gone("q"));
	say(0, "p q", "a.example");
	assert_change(1, 0, 0, 0);
	assert_false(is_gone("q"));
	assert_string_equal(all_there(), "p@a q@a ");
}

TEST(a_list_that_failed_changes_nothing)
{
	AUTO_LISTED_STATE struct listed_state seen = { 0 };
	struct err why;

	say(0, "p q", "a.example");
	say(0, "p", "a.example");
	err_set(&why, ERR_NETWORK, "away");
	err_remedy(&why, "wait");
	assert_ok(listed_fail(store, mirrors.lists.items[0], &why, &err));
	assert_ok(listed_read_state(store, mirrors.lists.items[0], &seen, &err));
	assert_string_equal(seen.message, "away");
	assert_string_equal(seen.class, err_class_name(ERR_NETWORK));
	assert_string_equal(seen.remedy, "wait");
	assert_true(seen.failed_at > 0 && seen.read_at > 0);
	assert_int_equal(seen.count, 2);
	configure(BOTH);
	assert_string_equal(all_there(), "p@a q@a ");
	say(0, "p q", "a.example");
	listed_state_clear(&seen);
	assert_ok(listed_read_state(store, mirrors.lists.items[0], &seen, &err));
	assert_int_equal(seen.failed_at, 0);
	assert_null(seen.message);
}

/* Other patterns take for missing what the first list by them lacks. */
TEST(lists_that_were_read_by_other_settings_are_not_compared)
{
	say(0, "p q", "a.example");
	say(0, "p", "a.example");
	configure("[mirrors \"a\"]\nfrom = gitea\nurl = https://a.example/\n"
		  "exclude = q\n");
	say(0, "p", "a.example");
	assert_change(0, 0, 1, 0);
	assert_false(is_gone("q"));
	say(0, "p", "a.example");
	assert_change(0, 0, 0, 1);
	assert_true(is_gone("q"));
}

TEST(a_section_that_was_taken_out_makes_nothing_gone)
{
	say(0, "p", "a.example");
	say(1, "q", "b.example");
	configure("[mirrors \"b\"]\nfrom = gitea\nurl = https://b.example/\n");
	assert_string_equal(all_there(), "q@b ");
	assert_false(is_gone("p"));
	configure(BOTH);
	assert_string_equal(all_there(), "p@a q@b ");
}

TEST(who_else_has_it_keeps_it)
{
	say(0, "p s", "a.example");
	say(1, "p", "b.example");
	assert_string_equal(mirrors_find(&mirrors, "p")->url, "https://a.example/p");
	configure(BOTH "[mirror \"s\"]\nurl = https://s.example/s\n");
	say(0, "", "a.example");
	say(0, "", "a.example");
	assert_change(0, 0, 0, 2);
	assert_string_equal(all_there(), "p@b s@ ");
	assert_false(is_gone("p"));
	assert_false(is_gone("s"));
	/* A list that is not configured keeps nothing. */
	say(0, "p", "a.example");
	configure("[mirrors \"b\"]\nfrom = gitea\nurl = https://b.example/\n");
	say(0, "", "b.example");
	say(0, "", "b.example");
	assert_true(is_gone("p"));
}

TEST(another_url_is_followed)
{
	say(0, "p", "a.example");
	const struct mirror *before = mirrors_find(&mirrors, "p");
	say(0, "p", "new.example");
	assert_change(0, 1, 0, 0);
	assert_string_equal(mirrors_find(&mirrors, "p")->url, "https://new.example/p");
	assert_string_equal(before->url, "https://a.example/p");
}

/* Else the request would bring it again. */
static void check_end(bool is_running)
{
	AUTO_MIRROR_REQUEST struct mirror_request asked = { .mirror = xstrdup("p"),
							    .wait_ms = 1000 };
	AUTO_MIRROR_REQUEST struct mirror_request found = { 0 };
	AUTO_MIRROR_REQUEST struct mirror_request late = { .mirror = xstrdup("p"),
							   .wait_ms = 1000 };
	AUTO_MIRROR_REQUESTS mirror_requests taken = { 0 };
	bool any;

	say(0, "p q", "a.example");
	assert_ok(mirror_request_add(store, &asked, &err));
	if (is_running)
		assert_ok(mirror_requests_take(store, "p", &taken, &err));
	say(0, "q", "a.example");
	say(0, "q", "a.example");
	assert_true(is_gone("p"));
	assert_ok(mirror_request_get(store, asked.id, &found, &err));
	assert_int_equal(found.state, MIRROR_REQUEST_FAILED);
	assert_non_null(strstr(found.message, "no more"));
	assert_ok(mirror_requests_hurry(store, &any, &err));
	assert_fails(mirror_request_add(store, &late, &err), ERR_MISSING);
	assert_true(is_gone("p"));
}

TEST(a_request_does_not_outlive_its_mirror)
{
	check_end(false);
}

/* Its job may not be able to write its end. */
TEST(nor_does_one_that_runs)
{
	check_end(true);
}

TEST(what_a_person_removed_is_told_of_no_more)
{
	say(0, "p q", "a.example");
	assert_ok(listed_forget(store, "p", &err));
	assert_ok(listed_load(store, &mirrors, &err));
	assert_string_equal(all_there(), "q@a ");
	say(0, "p q", "a.example");
	assert_string_equal(all_there(), "p@a q@a ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		LISTED_CASE(what_appears_is_there_and_stays_after_a_restart),
		LISTED_CASE(what_one_list_lacks_stays_and_what_two_lack_is_gone),
		LISTED_CASE(what_is_there_again_has_missed_nothing),
		LISTED_CASE(what_was_gone_and_is_back_is_wanted),
		LISTED_CASE(a_list_that_failed_changes_nothing),
		LISTED_CASE(lists_that_were_read_by_other_settings_are_not_compared),
		LISTED_CASE(a_section_that_was_taken_out_makes_nothing_gone),
		LISTED_CASE(who_else_has_it_keeps_it),
		LISTED_CASE(another_url_is_followed),
		LISTED_CASE(a_request_does_not_outlive_its_mirror),
		LISTED_CASE(nor_does_one_that_runs),
		LISTED_CASE(what_a_person_removed_is_told_of_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
