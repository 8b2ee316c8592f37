/*
 * What is asked of mirrors: a row before anybody is told, and an end for each.
 */
#include "mirror/requests.h"

#include "base/clock.h"
#include "replicable/name.h"
#include "replicable/registry.h"
#include "test.h"

#include "registry_write.h"

#define DAY_MS ((int64_t)86400 * 1000)

static struct store *store;
static mirror_requests taken;
static struct mirror_request request;

static int set_up(void **state)
{
	static const char *const names[] = { "a", "b" };

	(void)state;
	assert_ok(store_open("sqlite::memory:", &store, &err));
	assert_ok(registry_add(store, KIND_MIRROR, names, 2, &err));
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	mirror_requests_clear(&taken);
	mirror_request_clear(&request);
	store_close(store);
	return 0;
}

#define REQUESTS_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* Its id is good until the next call but three. */
static const char *add(const char *mirror, const char *watcher)
{
	static char ids[4][LEASE_JOB_SIZE];
	static size_t next;
	AUTO_MIRROR_REQUEST struct mirror_request asked = {
		.mirror = xstrdup(mirror),
		.watcher = watcher ? xstrdup(watcher) : NULL,
		.wait_ms = 1000,
	};
	char *id = ids[next++ % 4];

	assert_ok(mirror_request_add(store, &asked, &err));
	memcpy(id, asked.id, sizeof(asked.id));
	return id;
}

static enum mirror_request_state state_of(const char *id)
{
	mirror_request_clear(&request);
	assert_ok(mirror_request_get(store, id, &request, &err));
	return request.state;
}

static size_t take(const char *mirror)
{
	assert_ok(mirror_requests_take(store, mirror, &taken, &err));
	return taken.count;
}

static enum registry_state row_state(const char *mirror)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	assert_ok(registry_get(store, KIND_MIRROR, mirror, &row, &err));
	return row.state;
}

TEST(a_request_asks_for_its_row_and_waits)
{
	const char *id = add("a", "app1");

	assert_int_equal(state_of(id), MIRROR_REQUEST_WAITING);
	assert_string_equal(request.mirror, "a");
	assert_string_equal(request.watcher, "app1");
	assert_int_equal(request.wait_ms, 1000);
	assert_int_equal(row_state("a"), REGISTRY_PENDING);
}

TEST(a_job_takes_all_of_its_mirror_once)
{
	const char *first = add("a", NULL), *other = add("b", NULL),
		   *second = add("a", "app2");

	assert_int_equal(take("a"), 2);
	assert_int_equal(taken.items[0].attempts, 1);
	assert_int_equal(state_of(first), MIRROR_REQUEST_RUNNING);
	assert_int_equal(state_of(second), MIRROR_REQUEST_RUNNING);
	assert_int_equal(state_of(other), MIRROR_REQUEST_WAITING);
	assert_int_equal(take("a"), 0);
}

TEST(what_ran_when_the_node_died_waits_again)
{
	const char *id = add("a", NULL);

	assert_int_equal(take("a"), 1);
	assert_ok(mirror_requests_reset(store, &err));
	assert_int_equal(state_of(id), MIRROR_REQUEST_WAITING);
	assert_int_equal(take("a"), 1);
	assert_int_equal(taken.items[0].attempts, 2);
}

TEST(an_end_is_kept_and_told)
{
	static const struct err why = { .class = ERR_AUTH,
					.reason = REASON_RATE_LIMITED,
					.text = "it refuses",
					.remedy = "mend it" };
	const char *good = add("a", "app1"), *bad = add("b", NULL);

	take("a");
	taken.items[0].state = MIRROR_REQUEST_DONE;
	taken.items[0].has_changed = true;
	taken.items[0].ended_at = clock_wall_ms();
	taken.items[0].commit = xstrdup("c0ffee");
	taken.items[0].branch = xstrdup("main");
	assert_ok(mirror_request_save(store, &taken.items[0], &err));
	take("b");
	taken.items[0].state = MIRROR_REQUEST_FAILED;
	taken.items[0].ended_at = clock_wall_ms();
	mirror_request_set_failure(&taken.items[0], &why);
	assert_ok(mirror_request_save(store, &taken.items[0], &err));
	assert_int_equal(state_of(good), MIRROR_REQUEST_DONE);
	json_auto_t *done = mirror_request_json(&request, "/srv");
	assert_string_equal(json_string_value(json_object_get(done, "state")), "done");
	assert_string_equal(json_string_value(json_object_get(done, "path")),
			    "/srv/a.git");
	assert_string_equal(json_string_value(json_object_get(done, "branch")), "main");
	assert_string_equal(json_string_value(json_object_get(done, "commit")), "c0ffee");
	assert_null(json_object_get(done, "class"));
	assert_int_equal(state_of(bad), MIRROR_REQUEST_FAILED);
	json_auto_t *failed = mirror_request_json(&request, "/srv");
	assert_string_equal(json_string_value(json_object_get(failed, "state")),
			    "failed");
	assert_true(json_is_null(json_object_get(failed, "path")));
	assert_string_equal(json_string_value(json_object_get(failed, "class")), "auth");
	assert_string_equal(json_string_value(json_object_get(failed, "reason")),
			    "rate_limited");
	assert_string_equal(json_string_value(json_object_get(failed, "message")),
			    "it refuses");
	assert_string_equal(json_string_value(json_object_get(failed, "remedy")),
			    "mend it");
	assert_string_equal(json_string_value(json_object_get(failed, "code")), "AUTH");
}

/* As an answer over HTTP that waited for it would say. */
TEST(a_lease_that_was_waited_for_in_vain_has_its_class_reason_and_code)
{
	static const struct err why = { .class = ERR_LOCK_TIMEOUT,
					.reason = REASON_LOCK_TIMEOUT,
					.text = "Lock timeout waiting for repo: a" };
	const char *id = add("a", NULL);

	take("a");
	taken.items[0].state = MIRROR_REQUEST_WAITING;
	taken.items[0].next_at = clock_wall_ms() + 60000;
	mirror_request_set_failure(&taken.items[0], &why);
	assert_ok(mirror_request_save(store, &taken.items[0], &err));
	assert_int_equal(state_of(id), MIRROR_REQUEST_WAITING);
	json_auto_t *late = mirror_request_json(&request, "/srv");
	assert_string_equal(json_string_value(json_object_get(late, "class")),
			    "lock_timeout");
	assert_string_equal(json_string_value(json_object_get(late, "reason")),
			    "lock_timeout");
	assert_string_equal(json_string_value(json_object_get(late, "code")),
			    "LOCK_TIMEOUT");
}

TEST(who_waits_no_longer_ends_what_nobody_has_begun)
{
	static const struct err why = { .class = ERR_LOCK_TIMEOUT, .text = "too long" };
	const char *id = add("a", NULL), *running = add("b", NULL);

	assert_int_equal(mirror_request_give_up(store, id, &why, &err), 1);
	assert_int_equal(state_of(id), MIRROR_REQUEST_FAILED);
	assert_string_equal(request.class, "lock_timeout");
	assert_int_equal(take("a"), 0);
	assert_int_equal(mirror_request_give_up(store, id, &why, &err), 0);
	take("b");
	assert_int_equal(mirror_request_give_up(store, running, &why, &err), 0);
	assert_int_equal(state_of(running), MIRROR_REQUEST_RUNNING);
	assert_fails(mirror_request_give_up(store, "none", &why, &err), ERR_MISSING);
}

/* Withdrawn, it leaves nothing to be carried out. */
TEST(a_wish_is_the_requests_and_not_its_rows)
{
	AUTO_MIRROR_REQUEST struct mirror_request asked = {
		.mirror = xstrdup("a"),
		.is_once = true,
		.wishes = REGISTRY_WISH_FORCE,
	};
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	assert_ok(mirror_request_add(store, &asked, &err));
	assert_ok(registry_get(store, KIND_MIRROR, "a", &row, &err));
	assert_int_equal(row.wishes, 0);
	add("a", NULL);
	assert_int_equal(take("a"), 2);
	for (size_t i = 0; i < 2; i++) {
		bool is_asked = strcmp(taken.items[i].id, asked.id) == 0;
		assert_int_equal(taken.items[i].wishes,
				 is_asked ? REGISTRY_WISH_FORCE : 0);
		assert_int_equal(taken.items[i].is_once, is_asked);
	}
}

static int run_sql(struct store_tx *tx, void *arg, struct err *error)
{
	return store_exec(tx, arg, error);
}

static void put_off(int64_t in_ms)
{
	taken.items[0].state = MIRROR_REQUEST_WAITING;
	taken.items[0].next_at = clock_wall_ms() + in_ms;
	assert_ok(mirror_request_save(store, &taken.items[0], &err));
}

TEST(one_that_was_put_off_is_taken_when_it_is_due)
{
	bool any;

	add("a", NULL);
	take("a");
	put_off(DAY_MS);
	assert_int_equal(take("a"), 0);
	assert_ok(mirror_requests_hurry(store, &any, &err));
	assert_false(any);
	add("a", NULL);
	take("a");
	put_off(-1);
	assert_ok(mirror_requests_hurry(store, &any, &err));
	assert_true(any);
	assert_int_equal(row_state("a"), REGISTRY_PENDING);
	assert_int_equal(take("a"), 1);
	assert_ok(mirror_requests_hurry(store, &any, &err));
	assert_false(any);
}

static void run(const char *sql)
{
	AUTO_FREE char *copy = xstrdup(sql);

	assert_ok(store_write(store, run_sql, copy, &err));
}

TEST(one_whose_end_could_not_be_written_waits_again_when_its_job_has_ended)
{
	const char *id = add("a", NULL);
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
	bool any;

	assert_ok(registry_claim(store, KIND_MIRROR, 10, 60000, &rows, &err));
	assert_int_equal(take("a"), 1);
	taken.items[0].state = MIRROR_REQUEST_DONE;
	run("ALTER TABLE mirror_request RENAME TO away");
	assert_int_equal(mirror_request_save(store, &taken.items[0], &err), -1);
	assert_int_equal(mirror_requests_hurry(store, &any, &err), -1);
	run("ALTER TABLE away RENAME TO mirror_request");
	assert_ok(mirror_requests_hurry(store, &any, &err));
	assert_false(any);
	assert_int_equal(state_of(id), MIRROR_REQUEST_RUNNING);
	run("UPDATE registry SET state = 2"); /* synced */
	assert_ok(mirror_requests_hurry(store, &any, &err));
	assert_true(any);
	assert_int_equal(state_of(id), MIRROR_REQUEST_WAITING);
	assert_int_equal(row_state("a"), REGISTRY_PENDING);
	assert_int_equal(take("a"), 1);
	assert_int_equal(taken.items[0].attempts, 2);
}

/* Also of a mirror that has no row any more: it gets its end from the job. */
TEST(a_request_for_a_mirror_without_a_row_makes_one)
{
	bool any;

	add("new", NULL);
	assert_ok(mirror_requests_hurry(store, &any, &err));
	assert_true(any);
	assert_int_equal(row_state("new"), REGISTRY_PENDING);
}

static void end(const char *mirror, int64_t ended_ago_ms)
{
	take(mirror);
	taken.items[0].state = MIRROR_REQUEST_DONE;
	taken.items[0].ended_at = clock_wall_ms() - ended_ago_ms;
	assert_ok(mirror_request_save(store, &taken.items[0], &err));
}

TEST(an_end_is_forgotten_after_a_week)
{
	const char *old = add("a", NULL);
	end("a", 8 * DAY_MS);
	const char *young = add("a", NULL);
	end("a", 6 * DAY_MS);
	const char *waiting = add("a", NULL);

	assert_ok(mirror_requests_expire(store, &err));
	assert_fails(mirror_request_get(store, old, &request, &err), ERR_MISSING);
	assert_int_equal(state_of(young), MIRROR_REQUEST_DONE);
	assert_int_equal(state_of(waiting), MIRROR_REQUEST_WAITING);
}

TEST(each_job_has_an_id_of_its_own)
{
	const char *first = add("a", NULL), *second = add("a", NULL);

	assert_string_not_equal(first, second);
	assert_fails(mirror_request_get(store, "", &request, &err), ERR_MISSING);
	assert_fails(mirror_request_get(store, "' OR 1 --", &request, &err), ERR_MISSING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		REQUESTS_CASE(a_request_asks_for_its_row_and_waits),
		REQUESTS_CASE(a_job_takes_all_of_its_mirror_once),
		REQUESTS_CASE(what_ran_when_the_node_died_waits_again),
		REQUESTS_CASE(an_end_is_kept_and_told),
		REQUESTS_CASE(
			a_lease_that_was_waited_for_in_vain_has_its_class_reason_and_code),
		REQUESTS_CASE(who_waits_no_longer_ends_what_nobody_has_begun),
		REQUESTS_CASE(a_wish_is_the_requests_and_not_its_rows),
		REQUESTS_CASE(one_that_was_put_off_is_taken_when_it_is_due),
		REQUESTS_CASE(
			one_whose_end_could_not_be_written_waits_again_when_its_job_has_ended),
		REQUESTS_CASE(a_request_for_a_mirror_without_a_row_makes_one),
		REQUESTS_CASE(an_end_is_forgotten_after_a_week),
		REQUESTS_CASE(each_job_has_an_id_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
