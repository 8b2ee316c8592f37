/*
 * Freshness with the real log cursor, its primary a fake one: real threads, registry,
 * leases and git.
 */
#include "fake_primary.h"

#include "pull/freshness.h"
#include "pull/pull_parts.h"
#include "replicable/name.h"

static struct store *store;
static struct lease_manager *leases;
static struct pull *pull;
static struct kinds_here here;
static struct freshness *freshness;

static int set_up(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	AUTO_FREE char *url = xasprintf("sqlite:%s/db", root);
	AUTO_FREE char *directory = xasprintf("%s/leases", root);
	const struct lease_options options = { .directory = directory };

	fake_init();
	fake.second_ms = 50; /* where only the answer counts, not when it comes */
	assert_ok(git_setup(root, &err));
	assert_ok(store_open(url, &store, &err));
	assert_ok(lease_manager_open_local(store, &options, &leases, &err));
	return 0;
}

static void begin(int64_t fresh_for_ms)
{
	static char copies[96];
	const struct pull_settings settings = { .repository_capacity = 4,
						.verification_capacity = 2,
						.consistency_interval_ms = 60000,
						.timeout_ms = 60000,
						.reverify_ms = 3600000,
						.delete_brake = 0.05 };

	snprintf(copies, sizeof(copies), "%s/copies", root);
	kinds_fill(&here, copies);
	assert_ok(pull_start(&(struct pull_options){ .store = store,
						     .leases = leases,
						     .primary = &fake,
						     .here = &here,
						     .settings = settings,
						     .fresh_for_ms = fresh_for_ms },
			     &pull, &err));
	freshness = freshness_new(store, pull, fresh_for_ms);
}

static void end(void)
{
	freshness_free(TAKE(freshness));
	pull_stop(TAKE(pull), 5000);
	kinds_clear(&here);
}

static atomic_bool page_waits;

static int tear_down(void **state)
{
	page_waits = false;
	if (pull)
		end();
	lease_manager_close(leases);
	store_close(store);
	fake_clear();
	return test_remove_root(state);
}

static enum fresh judge(const char *name)
{
	enum fresh fresh = FRESH_KINDS;

	if (!freshness_now(freshness, name, &fresh))
		assert_ok(freshness_look(freshness, name, &fresh, &err));
	return fresh;
}

static bool is_known_gone(const char *name)
{
	enum fresh fresh = judge(name);

	return fresh == FRESH_GONE || fresh == FRESH_NOT_COPIED;
}

static uint64_t copied(const char *name)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	assert_ok(registry_get(store, KIND_REPOSITORY, name, &row, &err));
	return row.generation;
}

TEST(events_are_waited_for_half_of_the_time_for_which_copies_are_fresh)
{
	appear("a", REPORTED);
	begin(10000);
	eventually(judge("a") == FRESH);
	eventually(fake.wait_s == 5);
	freshness_set(freshness, 60000);
	appear("b", REPORTED);         /* ends the present wait */
	eventually(fake.wait_s == 10); /* and no longer than its silence may last */
}

/* Its answers come long before the copy is no longer fresh: a pause of this program is
 * not taken for the primary's silence. */
TEST(copies_are_fresh_while_the_primary_answers_though_nothing_happens)
{
	fake.second_ms = 333;
	appear("a", REPORTED);
	begin(6000);
	eventually(judge("a") == FRESH && fake.wait_s == 3);
	for (int64_t until = clock_boot_ms() + 6200; clock_boot_ms() < until;
	     usleep(2000))
		assert_string_equal(fresh_name(judge("a")), "fresh");
}

TEST(a_silent_primary_is_noticed_and_so_is_its_return)
{
	appear("a", REPORTED);
	begin(60000);
	eventually(judge("a") == FRESH);
	fake.is_down = true;
	eventually(fake.refused > 0);
	assert_int_equal(judge("a"), FRESH);
	freshness_set(freshness, 1);
	usleep(5000);
	assert_int_equal(judge("a"), FRESH_NOT_HEARD);
	freshness_set(freshness, 60000);
	fake.is_down = false;
	eventually(judge("a") == FRESH);
}

/* What was known before may be of long ago: a restart asks first. */
TEST(after_a_restart_nothing_is_fresh_until_the_primary_answers)
{
	appear("a", REPORTED);
	begin(60000);
	eventually(judge("a") == FRESH);
	end();
	change("a", "refs/heads/new", REPORTED);
	fake.is_down = true;
	begin(60000);
	eventually(fake.refused > 1);
	assert_int_equal(judge("a"), FRESH_NOT_HEARD);
	fake.is_down = false;
	eventually(judge("a") == FRESH);
	assert_int_equal(copied("a"), generation_of("a"));
}

static void wait_with_page(void)
{
	while (page_waits)
		usleep(2000);
}

TEST(without_a_position_nothing_is_fresh_until_all_was_compared)
{
	appear("a", REPORTED);
	begin(60000);
	eventually(judge("a") == FRESH);
	page_waits = true;
	fake.between = wait_with_page;
	change("a", "refs/heads/new", UNTOLD);
	lock(&fake.mutex); /* the log is another one */
	event_list_clear(&fake.events);
	draw(fake.timeline);
	unlock(&fake.mutex);
	eventually(judge("a") == FRESH_NOT_HEARD);
	usleep(50000);
	assert_int_equal(judge("a"), FRESH_NOT_HEARD);
	page_waits = false;
	eventually(judge("a") == FRESH);
	assert_int_equal(copied("a"), generation_of("a"));
}

static void push(uint64_t generation)
{
	AUTO_FREE char *ref = xasprintf("refs/heads/push-%" PRIu64, generation);
	struct primary_line *line;
	struct stop stop;
	struct event_ends ends;

	stop_init(&stop);
	assert_ok(primary_line_open(&fake, &stop, &line, &err));
	assert_ok(freshness_push_began(freshness, "a", &err));
	change("a", ref, REPORTED);
	assert_ok(primary_last_event(line, &ends, &err));
	freshness_mark_ended(freshness, "a", generation % 2 ? &ends : NULL);
	primary_line_close(line);
	stop_clear(&stop);
}

TEST(who_pushed_through_this_site_never_reads_what_was_before)
{
	appear("a", REPORTED);
	begin(2000);
	eventually(judge("a") == FRESH);
	for (uint64_t generation = 2; generation < 5; generation++) {
		push(generation);
		while (judge("a") != FRESH)
			usleep(200);
		assert_int_equal(copied("a"), generation);
	}
}

TEST(what_was_deleted_at_the_primary_is_gone_and_then_nothing)
{
	appear("a", REPORTED);
	appear("b", REPORTED);
	begin(60000);
	eventually(judge("a") == FRESH && judge("b") == FRESH);
	vanish("a", REPORTED);
	eventually(is_known_gone("a"));
	eventually(judge("a") == FRESH_NOT_COPIED);
	assert_int_equal(judge("b"), FRESH);
}

/* What is deleted last has another timeline than the copy; in one answer. */
static void replace_and_delete(enum reporting reporting)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&fake.mutex);
	struct place *place = find_place("a");

	if (!place)
		abort();
	if (reporting == REPORTED)
		log_event("repository", "a", EVENT_DELETED);
	draw(place->timeline);
	if (reporting == REPORTED)
		log_event("repository", "a", EVENT_CREATED);
	log_event("repository", "a", EVENT_DELETED);
	must("rm -rf primary/a.git");
	free(place->name);
	fake.places.count--;
}

TEST(what_was_deleted_created_and_deleted_again_is_gone)
{
	appear("a", REPORTED);
	begin(60000);
	eventually(judge("a") == FRESH);
	fake.is_part = true; /* so that no comparison finds it */
	replace_and_delete(REPORTED);
	eventually(is_known_gone("a"));
}

TEST(a_deletion_of_what_was_never_known_here_makes_the_site_compare)
{
	appear("a", REPORTED);
	begin(60000);
	eventually(judge("a") == FRESH);
	replace_and_delete(UNTOLD);
	eventually(is_known_gone("a"));
}

static uint64_t comparisons_asked(void)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	return pull->asked;
}

static void tell_of_others(size_t count)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&fake.mutex);
	struct place *place = find_place("a");

	if (!place)
		abort();
	for (size_t i = 0; i < count; i++) {
		draw(place->timeline);
		log_event("repository", "a", EVENT_DELETED);
	}
	must("rm -rf primary/a.git");
	free(place->name);
	fake.places.count--;
}

/* Each one begins the comparison of all kinds anew. */
TEST(many_deletions_of_what_was_never_known_here_make_the_site_compare_once)
{
	appear("a", REPORTED);
	begin(60000);
	eventually(judge("a") == FRESH);
	uint64_t before = comparisons_asked();
	fake.events_most = 1;
	tell_of_others(50);
	eventually(is_known_gone("a"));
	assert_int_equal(comparisons_asked(), before + 1);
}

#define CURSOR_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CURSOR_CASE(
			events_are_waited_for_half_of_the_time_for_which_copies_are_fresh),
		CURSOR_CASE(
			copies_are_fresh_while_the_primary_answers_though_nothing_happens),
		CURSOR_CASE(a_silent_primary_is_noticed_and_so_is_its_return),
		CURSOR_CASE(after_a_restart_nothing_is_fresh_until_the_primary_answers),
		CURSOR_CASE(without_a_position_nothing_is_fresh_until_all_was_compared),
		CURSOR_CASE(who_pushed_through_this_site_never_reads_what_was_before),
		CURSOR_CASE(what_was_deleted_at_the_primary_is_gone_and_then_nothing),
		CURSOR_CASE(what_was_deleted_created_and_deleted_again_is_gone),
		CURSOR_CASE(
			a_deletion_of_what_was_never_known_here_makes_the_site_compare),
		CURSOR_CASE(
			many_deletions_of_what_was_never_known_here_make_the_site_compare_once),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
