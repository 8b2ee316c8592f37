/*
 * Requests that one job of a mirror takes together, each run with its own lease: here the
 * runner of jobs only notes how it was called, and says what was to become of it.
 */
#include "pull/mirror_job.h"

#include "base/clock.h"
#include "base/log.h"
#include "mirror/mirrors.h"
#include "mirror/requests.h"
#include "pull/pull_parts.h"
#include "replicable/name.h"
#include "test.h"

#include "registry_write.h"

#define WAIT_MS 50

static const char conf_text[] = "[mirror \"a\"]\nurl = https://a.example/a\n"
				"[watcher \"app1\"]\nmirror = a\ntokenFile = /t\n"
				"[watcher \"app2\"]\nmirror = a\ntokenFile = /t\n";

static struct store *store;
static struct mirrors mirrors;
static struct kinds_here here;
static struct pull pull;
static struct pull_item *item_now;
static struct {
	enum err_class class; /* of the first ones; the others succeed */
	size_t failing;
	int64_t takes_ms;
	size_t count;
	size_t held; /* of the first ones; they succeed */
	int64_t waits[8];
	unsigned wishes[8];
	char ids[8][LEASE_JOB_SIZE];
} runs;

int job_run(const struct job_request *asked, struct err *error)
{
	size_t i = runs.count++;

	assert_true(i < ARRAY_SIZE(runs.waits));
	runs.waits[i] = asked->wait_ms;
	runs.wishes[i] = item_now->row->wishes;
	snprintf(runs.ids[i], sizeof(runs.ids[i]), "%s", asked->id);
	usleep((useconds_t)runs.takes_ms * 1000);
	return i < runs.failing ? err_set(error, runs.class, "as it was to") : 0;
}

/* Of what it did, when that is taken for an end. */
static void published(void *arg, const char *name)
{
	(void)arg;
	(void)name;
	if (runs.count > runs.held)
		return;
	item_now->end = PULL_HELD;
	item_now->held_reason = xstrdup("as it was to");
}

uint64_t job_fence_floor(const char *copies, const char *name)
{
	(void)copies;
	(void)name;
	return 0;
}

static int set_up(void **state)
{
	static const char *const names[] = { "a" };
	AUTO_CONF struct conf *conf = NULL;

	if (test_make_root(state) != 0)
		return -1;
	log_set_level(LOG_LEVEL_NONE);
	memset(&runs, 0, sizeof(runs));
	assert_ok(conf_load_text("t.conf", conf_text, strlen(conf_text), &conf, &err));
	assert_ok(mirrors_read(conf, &mirrors, &err));
	assert_ok(store_open("sqlite::memory:", &store, &err));
	assert_ok(registry_add(store, KIND_MIRROR, names, 1, &err));
	here = (struct kinds_here){ .root = root };
	pull = (struct pull){
		.options = { .store = store,
			     .mirrors = &mirrors,
			     .here = &here,
			     .published = published },
	};
	mutex_init(&pull.mutex);
	stop_init(&pull.kill);
	return 0;
}

static int tear_down(void **state)
{
	doubts_clear(&pull);
	stop_clear(&pull.kill);
	pthread_mutex_destroy(&pull.mutex);
	store_close(store);
	mirrors_clear(&mirrors);
	return test_remove_root(state);
}

#define JOB_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* Its id is good until the next call but three. */
static const char *ask_wishing(const char *watcher, int64_t wait_ms, bool is_once,
			       unsigned wishes)
{
	static char ids[4][LEASE_JOB_SIZE];
	static size_t next;
	AUTO_MIRROR_REQUEST struct mirror_request asked = {
		.mirror = xstrdup("a"),
		.watcher = watcher ? xstrdup(watcher) : NULL,
		.wait_ms = wait_ms,
		.is_once = is_once,
		.wishes = wishes,
	};
	char *id = ids[next++ % 4];

	usleep(2000); /* its time is its own */
	assert_ok(mirror_request_add(store, &asked, &err));
	memcpy(id, asked.id, sizeof(asked.id));
	return id;
}

static const char *ask(const char *watcher, int64_t wait_ms, bool is_once)
{
	return ask_wishing(watcher, wait_ms, is_once, 0);
}

static void bring(void)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	struct pull_item item = { .row = &row };
	struct pull_job job = { .pull = &pull,
				.kind = { .type = KIND_MIRROR },
				.rows = { .items = &row, .count = 1 },
				.items = &item };

	item_now = &item;
	assert_ok(registry_get(store, KIND_MIRROR, "a", &row, &err));
	mirror_copy_ops.bring(&job);
	free(item.held_reason);
	free(item.remedy);
	free(job.own);
}

static void assert_ended(const char *id, enum mirror_request_state state,
			 const char *class)
{
	AUTO_MIRROR_REQUEST struct mirror_request request = { 0 };

	assert_ok(mirror_request_get(store, id, &request, &err));
	assert_int_equal(request.state, state);
	assert_true(text_is_same(request.class, class));
}

static void check_vain(enum err_class class, const char *word, bool is_once)
{
	const enum mirror_request_state state =
		is_once ? MIRROR_REQUEST_FAILED : MIRROR_REQUEST_WAITING;
	const char *ids[] = { ask("app1", WAIT_MS, is_once),
			      ask("app2", WAIT_MS, is_once),
			      ask("app2", WAIT_MS, is_once),
			      ask(NULL, 10 * WAIT_MS, is_once) };

	runs.class = class;
	runs.failing = 5;
	runs.takes_ms = WAIT_MS;
	bring();
	assert_int_equal(runs.count, 5);
	assert_in_range(runs.waits[0], 1, WAIT_MS);
	assert_int_equal(runs.waits[1], 1);
	assert_int_equal(runs.waits[2], 1);
	assert_in_range(runs.waits[3], 1, 7 * WAIT_MS);
	assert_int_equal(runs.waits[4], 0); /* nobody's */
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		assert_ended(ids[i], state, word);
}

TEST(what_one_has_waited_in_vain_the_next_ones_have_waited_too)
{
	check_vain(ERR_LOCK_TIMEOUT, "lock_timeout", false);
}

TEST(also_if_somebody_waits_for_them)
{
	check_vain(ERR_LOCK_TIMEOUT, "lock_timeout", true);
}

TEST(also_if_nobody_can_be_asked_for_the_lease)
{
	check_vain(ERR_LOCK_UNAVAILABLE, "lock_unavailable", false);
}

/* Whatever the work of those before it took. */
TEST(who_waits_for_nothing_in_vain_has_the_whole_wait)
{
	ask("app1", WAIT_MS, false);
	ask("app2", WAIT_MS, false);
	runs.class = ERR_AUTH;
	runs.failing = 2;
	runs.takes_ms = WAIT_MS;
	bring();
	assert_int_equal(runs.waits[0], WAIT_MS);
	assert_int_equal(runs.waits[1], WAIT_MS);
}

TEST(one_fetch_serves_all_of_one_watcher)
{
	const char *first = ask("app1", WAIT_MS, false),
		   *other = ask(NULL, WAIT_MS, true),
		   *second = ask("app1", WAIT_MS, true);

	bring();
	assert_int_equal(runs.count, 2);
	assert_ended(first, MIRROR_REQUEST_DONE, NULL);
	assert_ended(second, MIRROR_REQUEST_DONE, NULL);
	assert_ended(other, MIRROR_REQUEST_DONE, NULL);
}

TEST(a_failure_is_that_of_all_of_one_watcher)
{
	const char *first = ask("app1", WAIT_MS, false),
		   *second = ask("app1", WAIT_MS, false);

	runs.class = ERR_AUTH;
	runs.failing = 1;
	bring();
	assert_int_equal(runs.count, 2);
	assert_string_not_equal(runs.ids[1], second); /* nobody's */
	assert_ended(first, MIRROR_REQUEST_FAILED, "auth");
	assert_ended(second, MIRROR_REQUEST_FAILED, "auth");
}

TEST(what_passes_by_itself_is_tried_again_for_the_next_one)
{
	static const struct {
		enum err_class class;
		enum mirror_request_state first;
		const char *word;
	} table[] = {
		{ ERR_LOCK_TIMEOUT, MIRROR_REQUEST_WAITING, "lock_timeout" },
		{ ERR_LOST, MIRROR_REQUEST_WAITING, "lost" },
		{ ERR_CONFLICT, MIRROR_REQUEST_FAILED, "conflict" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		const char *ids[] = { ask("app1", WAIT_MS, false),
				      ask("app1", WAIT_MS, false) };
		memset(&runs, 0, sizeof(runs));
		runs.class = table[i].class;
		runs.failing = 1;
		bring();
		assert_int_equal(runs.count, 2);
		assert_ended(ids[0], table[i].first, table[i].word);
		assert_ended(ids[1], MIRROR_REQUEST_DONE, NULL);
	}
}

TEST(only_the_work_of_a_forced_request_is_forced)
{
	const char *ids[] = {
		ask("app1", WAIT_MS, true),
		ask_wishing("app1", WAIT_MS, true, REGISTRY_WISH_FORCE),
		ask("app2", WAIT_MS, true),
	};

	bring();
	assert_int_equal(runs.count, 3);
	assert_int_equal(runs.wishes[0], 0);
	assert_int_equal(runs.wishes[1], REGISTRY_WISH_FORCE);
	assert_int_equal(runs.wishes[2], 0);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		assert_ended(ids[i], MIRROR_REQUEST_DONE, NULL);
}

TEST(a_forced_request_that_failed_is_over)
{
	const char *id = ask_wishing("app1", WAIT_MS, true, REGISTRY_WISH_FORCE);

	runs.class = ERR_NETWORK;
	runs.failing = 1;
	bring();
	assert_int_equal(runs.count, 2);
	assert_int_equal(runs.wishes[0], REGISTRY_WISH_FORCE);
	assert_int_equal(runs.wishes[1], 0);
	assert_ended(id, MIRROR_REQUEST_FAILED, "network");
}

/* What else it was held for than was permitted, is found out at once. */
TEST(a_forced_request_that_was_held_is_followed_by_another_try)
{
	const char *id = ask_wishing("app1", WAIT_MS, true, REGISTRY_WISH_FORCE);

	runs.held = 1;
	bring();
	assert_int_equal(runs.count, 2);
	assert_int_equal(runs.wishes[1], 0);
	assert_ended(id, MIRROR_REQUEST_FAILED, "conflict");
}

TEST(what_is_held_without_force_is_held)
{
	ask("app1", WAIT_MS, true);
	runs.held = 1;
	bring();
	assert_int_equal(runs.count, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		JOB_CASE(what_one_has_waited_in_vain_the_next_ones_have_waited_too),
		JOB_CASE(also_if_somebody_waits_for_them),
		JOB_CASE(also_if_nobody_can_be_asked_for_the_lease),
		JOB_CASE(who_waits_for_nothing_in_vain_has_the_whole_wait),
		JOB_CASE(one_fetch_serves_all_of_one_watcher),
		JOB_CASE(a_failure_is_that_of_all_of_one_watcher),
		JOB_CASE(what_passes_by_itself_is_tried_again_for_the_next_one),
		JOB_CASE(only_the_work_of_a_forced_request_is_forced),
		JOB_CASE(a_forced_request_that_failed_is_over),
		JOB_CASE(a_forced_request_that_was_held_is_followed_by_another_try),
		JOB_CASE(what_is_held_without_force_is_held),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
