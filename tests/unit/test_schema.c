/*
 * schema_6.sql is what a program with schema 6 left behind: four rows of the registry,
 * one of origin, one event; and three blobs that fail, and the reason is in the text
 * only. schema_9.sql: two rows that a worker had when the node was killed, of which
 * nothing says whose they are; and an event log that is known by its file.
 */
#include "test.h"

#include <sqlite3.h>

#include "change/blob_notice.h"
#include "change/event_log.h"
#include "mirror/listed.h"
#include "replicable/name.h"
#include "replicable/origin_rows.h"
#include "replicable/registry.h"
#include "store/site_value.h"

#include "registry_write.h"

#define TIMELINE "0123456789abcdef"

static struct store *store;
static char url[96];

static void open_old_with(const char *name, const char *more_sql)
{
	AUTO_FREE char *path = xasprintf("%s/unit/%s", getenv("TESTS"), name);
	AUTO_STR struct str sql = STR_INIT;
	sqlite3 *db;

	snprintf(url, sizeof(url), "sqlite:%s/db", root);
	assert_ok(file_read(AT_FDCWD, path, 1 << 20, &sql, &err));
	assert_int_equal(sqlite3_open(url + strlen("sqlite:"), &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql.data, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, more_sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	assert_ok(store_open(url, &store, &err));
}

static void open_old(const char *name)
{
	open_old_with(name, "");
}

static void assert_row(const char *name, enum registry_state state)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	assert_ok(registry_get(store, KIND_REPOSITORY, name, &row, &err));
	assert_int_equal(row.id, replicable_id(KIND_REPOSITORY, name));
	assert_string_equal(row.kind, KIND_REPOSITORY);
	assert_int_equal(row.state, state);
	assert_int_equal(row.size, 0);
}

TEST(rows_outlive_the_step_from_schema_6)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 }, failed = { 0 }, held = { 0 };

	open_old("schema_6.sql");
	assert_row("synced", REGISTRY_SYNCED);
	assert_row("failed", REGISTRY_FAILED);
	assert_row("held", REGISTRY_PENDING);
	assert_row("new", REGISTRY_PENDING);
	assert_ok(registry_get(store, KIND_REPOSITORY, "synced", &row, &err));
	assert_string_equal(row.timeline, TIMELINE);
	assert_int_equal(row.generation, 3);
	assert_int_equal(row.generation_wanted, 3);
	assert_string_equal(row.checksum, "1-aa");
	assert_string_equal(row.primary_checksum, "1-aa");
	assert_int_equal(row.verification, VERIFICATION_SUCCEEDED);
	assert_int_equal(row.verification_due_at - row.verified_at, 5000);
	assert_ok(registry_get(store, KIND_REPOSITORY, "failed", &failed, &err));
	assert_int_equal(failed.retry_count, 1);
	assert_int_equal(failed.behind_since, 800);
	assert_string_equal(failed.failure_class, "network");
	assert_string_equal(failed.remedy, "mend it");
	assert_ok(registry_get(store, KIND_REPOSITORY, "held", &held, &err));
	assert_string_equal(held.held_reason, "too many");
	store_close(store);
}

static int count_here(struct store_tx *tx, void *arg, struct err *error)
{
	return registry_count_here(tx, KIND_REPOSITORY, arg, error);
}

/* The whole way of a row: claimed, brought, counted. */
TEST(an_old_database_goes_on_working)
{
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
	struct registry_counts counts;
	const char *names[] = { "synced", "later" };
	int64_t here = -1;

	open_old("schema_6.sql");
	store_close(store);
	assert_ok(store_open(url, &store, &err)); /* a second time there is no step */
	assert_ok(store_read(store, count_here, &here, &err));
	assert_int_equal(here, 1);
	assert_ok(registry_add(store, KIND_REPOSITORY, names, 2, &err));
	assert_ok(registry_claim(store, KIND_REPOSITORY, 9, 1000, &rows, &err));
	assert_true(rows.count >= 2); /* new and later; failed when its time has come */
	assert_ok(registry_counts(store, KIND_REPOSITORY, &counts, &err));
	assert_int_equal(counts.all, 5);
	assert_int_equal(counts.never_copied, 3); /* all but the held and the synced */
	assert_int_equal(counts.held, 1);
	assert_int_equal(counts.states[REGISTRY_SYNCED], 1);
	assert_int_equal(counts.states[REGISTRY_STARTED], rows.count);
	store_close(store);
}

static int read_origin(struct store_tx *tx, void *arg, struct err *error)
{
	const struct origin_filter all = { .kind = KIND_REPOSITORY, .limit = 9 };
	AUTO_ORIGIN_ROWS origin_rows rows = { 0 };
	struct registry_counts counts;

	(void)arg;
	if (origin_rows_find(tx, &all, &rows, error) != 0 ||
	    origin_count(tx, KIND_REPOSITORY, &counts, error) != 0)
		return -1;
	if (rows.count != 1 || strcmp(rows.items[0].name, "p") != 0 ||
	    strcmp(rows.items[0].kind, KIND_REPOSITORY) != 0 || counts.all != 1 ||
	    rows.items[0].size != 0 || rows.items[0].generation != 3)
		return err_set(error, ERR_INTERNAL, "not as expected");
	return 0;
}

TEST(what_the_primary_has_and_told_is_still_there)
{
	AUTO_EVENTS event_list events = { 0 };
	struct event_question question = { .limit = 9, .after = EVENTS_FROM_OLDEST };
	struct event_ends ends;
	enum event_read how;

	open_old("schema_6.sql");
	assert_ok(store_read(store, read_origin, NULL, &err));
	question.after = 0;
	assert_ok(event_log_read_once(store, &question, &how, &events, &ends, &err));
	assert_int_equal(ends.last, 1);
	assert_int_equal(events.count, 1);
	assert_string_equal(events.items[0].name, "p");
	assert_int_equal(events.items[0].size, 0);
	store_close(store);
}

/* A program that rewords its sentences must not serve what an older one found damaged. */
TEST(what_was_found_damaged_is_known_by_a_reason_from_schema_7_on)
{
	AUTO_ORIGIN_ROWS origin_rows rows = { 0 };

	open_old("schema_6.sql");
	assert_ok(origin_rows_read_page(store, "lfs", NULL, 9, &rows, &err));
	assert_int_equal(rows.count, 3);
	assert_int_equal(rows.items[0].failure_reason, REASON_DAMAGED);
	assert_true(blob_row_is_damaged(&rows.items[0]));
	assert_int_equal(rows.items[1].failure_reason, REASON_NONE);
	assert_false(blob_row_is_damaged(&rows.items[1]));
	assert_int_equal(rows.items[2].failure_reason, REASON_WRONG_NAME);
	assert_true(blob_row_is_damaged(&rows.items[2]));
	store_close(store);
}

TEST(what_a_node_had_before_schema_10_is_given_back_at_the_start)
{
	AUTO_REGISTRY_ROW struct registry_row sync = { 0 }, check = { 0 };

	open_old("schema_9.sql");
	store_set_node(store, "some node");
	assert_ok(registry_reset_started(store, 0, &err));
	assert_row("held", REGISTRY_PENDING);
	assert_row("synced", REGISTRY_SYNCED);
	assert_ok(registry_get(store, KIND_REPOSITORY, "held", &sync, &err));
	assert_true(sync.due_at < 99999999999999);
	assert_ok(registry_get(store, KIND_REPOSITORY, "synced", &check, &err));
	assert_int_equal(check.verification, VERIFICATION_SUCCEEDED);
	assert_true(check.is_proved);
	assert_true(check.verification_due_at <= clock_wall_ms());
	store_close(store);
}

TEST(lists_of_upstreams_are_kept_from_schema_12_on)
{
	static const char text[] =
		"[mirrors \"a\"]\nfrom = gitea\nurl = https://e.com/\n";
	struct upstream_chosen one = { .name = (char[]){ "p" },
				       .url = "https://e.com/p" };
	struct upstream_list said = { .chosen = { &one, 1, 1 } };
	AUTO_LISTED_STATE struct listed_state kept = { 0 };
	AUTO_MIRRORS struct mirrors mirrors = { 0 };
	AUTO_CONF struct conf *conf = NULL;
	struct listed_change change;

	assert_ok(conf_load_text("t.conf", text, strlen(text), &conf, &err));
	assert_ok(mirrors_read(conf, &mirrors, &err));
	open_old("schema_9.sql");
	assert_ok(listed_begin(store, &mirrors, &err));
	assert_ok(listed_take(store, &mirrors, mirrors.lists.items[0], &said, &change,
			      &err));
	store_close(store);
	assert_ok(store_open(url, &store, &err));
	assert_ok(listed_read_state(store, mirrors.lists.items[0], &kept, &err));
	assert_int_equal(kept.count, 1);
	assert_true(kept.read_at > 0);
	store_close(store);
}

static int read_timelines(struct store_tx *tx, void *arg, struct err *error)
{
	text_list_clear(arg);
	return query_each(tx, query_add_text, arg, error,
			  "SELECT timeline FROM origin ORDER BY name");
}

#define RESTORED(id, kind, name, timeline)                                               \
	"INSERT INTO origin (id, kind, name, path, timeline, generation, changed_at,"    \
	" verification_state) VALUES (" #id ", '" kind "', '" name "', 'x', '" timeline  \
	"', 1, 0, 0);"

TEST(repositories_with_one_timeline_get_their_own_from_schema_18_on)
{
	AUTO_STR struct str log_timeline = STR_INIT;
	text_list timelines = { 0 };

	open_old_with(
		"schema_9.sql",
		"INSERT OR REPLACE INTO site_value VALUES ('log.timeline', '" TIMELINE
		"');"
		"DELETE FROM origin;" RESTORED(1, "repository", "a", TIMELINE)
			RESTORED(2, "repository", "b", TIMELINE)
				RESTORED(3, "lfs", "c", TIMELINE)
					RESTORED(4, "repository", "d", "ff"));
	assert_ok(store_read(store, read_timelines, &timelines, &err));
	assert_int_equal(timelines.count, 4);
	assert_int_equal(strspn(timelines.items[0], "0123456789abcdef"), 16);
	assert_string_not_equal(timelines.items[0], TIMELINE);
	assert_string_not_equal(timelines.items[0], timelines.items[1]);
	assert_string_not_equal(timelines.items[1], TIMELINE);
	assert_string_equal(timelines.items[2], TIMELINE);
	assert_string_equal(timelines.items[3], "ff");
	assert_int_equal(site_value_read(store, "log.timeline", &log_timeline, &err), 1);
	assert_string_not_equal(log_timeline.data, TIMELINE); /* all is compared */
	text_list_clear(&timelines);
	store_close(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(rows_outlive_the_step_from_schema_6),
		CASE(an_old_database_goes_on_working),
		CASE(what_the_primary_has_and_told_is_still_there),
		CASE(what_a_node_had_before_schema_10_is_given_back_at_the_start),
		CASE(what_was_found_damaged_is_known_by_a_reason_from_schema_7_on),
		CASE(lists_of_upstreams_are_kept_from_schema_12_on),
		CASE(repositories_with_one_timeline_get_their_own_from_schema_18_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
