/*
 * Another primary than before, as after a promotion: what only this secondary has stays.
 */
#include "pull_test.h"

#include "pull/followed.h"
#include "pull/pull_parts.h"
#include "replicable/name.h"

#include "registry_write.h"

static void begin(void)
{
	kinds_clear(&here);
	kinds_fill(&here, copies);
	pull_begin(50);
}

static void end(void)
{
	pull_stop(TAKE(pull), 5000);
}

static struct registry_row row_of(const char *name)
{
	struct registry_row row;

	if (registry_get(store, KIND_REPOSITORY, name, &row, &err) != 0)
		row = (struct registry_row){ .state = REGISTRY_STATES };
	return row;
}

static enum registry_state state_of(const char *name)
{
	AUTO_REGISTRY_ROW struct registry_row row = row_of(name);

	return row.state;
}

static bool is_held(const char *name, const char *why)
{
	AUTO_REGISTRY_ROW struct registry_row row = row_of(name);

	return row.held_reason && strstr(row.held_reason, why);
}

static bool is_here(const char *name)
{
	AUTO_REGISTRY_ROW struct registry_row row = row_of(name);
	AUTO_FREE char *theirs = sum_of(name);

	return row.state == REGISTRY_SYNCED && row.is_proved && theirs && row.checksum &&
	       row.generation == generation_of(name) && strcmp(row.checksum, theirs) == 0;
}

static bool is_at_last_event(void)
{
	struct pull_state state;

	pull_look(pull, &state);
	return state.has_cursor && state.cursor == last_event();
}

/* The inventory was asked for twice more: what the first of these said is done. */
static void await_comparison(void)
{
	int asked = fake.pages + fake.unchanged;

	eventually(fake.pages + fake.unchanged > asked + 1);
}

/* Another log, in which each repository is born anew. */
static void begin_log(void)
{
	event_list_clear(&fake.events);
	draw(fake.timeline);
	for (size_t i = 0; i < fake.places.count; i++) {
		draw(fake.places.items[i].timeline);
		fake.places.items[i].generation = 1;
	}
}

static void promote_another(void)
{
	must("ln -s primary paris");
	fake.address = "paris";
	begin_log();
}

TEST(commits_that_another_primary_never_had_are_held)
{
	appear("--all", REPORTED);
	appear("b", REPORTED);
	change("b", "refs/heads/old", REPORTED);
	must("cd primary/--all.git && git update-ref refs/heads/late "
	     "$(git commit-tree -m late v1^{tree})");
	begin();
	eventually(is_here("--all") && is_here("b") && is_at_last_event());
	end();
	must("git -C primary/--all.git update-ref -d refs/heads/late");
	promote_another();
	begin();
	eventually(is_held("--all", "commits that the source lacks"));
	AUTO_REGISTRY_ROW struct registry_row row = row_of("--all");
	assert_string_equal(
		row.remedy,
		"save what matters, then refrelay repository sync --force -- --all");
	eventually(is_here("b"));
	must("git -C copies/--all.git rev-parse -q --verify late >/dev/null");
	must("git -C primary/--all.git fetch -q ../../copies/--all.git late:late");
	change("--all", "refs/heads/new", REPORTED);
	eventually(is_here("--all"));
	/* from now on it is followed, whatever it drops */
	must("git -C primary/--all.git update-ref -d refs/heads/late");
	change("--all", "refs/heads/newer", REPORTED);
	eventually(is_here("--all"));
}

TEST(what_is_held_so_stays_when_the_former_address_is_the_primary_again)
{
	appear("a", REPORTED);
	must("cd primary/a.git && git update-ref refs/heads/late "
	     "$(git commit-tree -m late v1^{tree})");
	begin();
	eventually(is_here("a") && is_at_last_event());
	end();
	must("git -C primary/a.git update-ref -d refs/heads/late");
	promote_another();
	begin();
	eventually(is_held("a", "commits that the source lacks"));
	end();
	fake.address = "primary";
	begin_log();
	begin();
	await_comparison();
	eventually(is_held("a", "commits that the source lacks"));
	must("git -C copies/a.git rev-parse -q --verify late >/dev/null");
}

TEST(a_primary_that_moved_is_followed_when_it_drops_commits)
{
	appear("a", REPORTED);
	must("cd primary/a.git && git update-ref refs/heads/late "
	     "$(git commit-tree -m late v1^{tree})");
	begin();
	eventually(is_here("a") && is_at_last_event());
	end();
	must("ln -s primary moved && git -C primary/a.git update-ref -d refs/heads/late");
	fake.address = "moved";
	change("a", "refs/heads/new", REPORTED);
	begin();
	eventually(is_here("a") && is_at_last_event());
}

/* Restored from a backup; or a name leads to another primary by now. */
TEST(commits_that_the_same_address_lacks_with_another_log_are_held)
{
	appear("a", REPORTED);
	must("cd primary/a.git && git update-ref refs/heads/late "
	     "$(git commit-tree -m late v1^{tree})");
	begin();
	eventually(is_here("a") && is_at_last_event());
	end();
	must("git -C primary/a.git update-ref -d refs/heads/late");
	begin_log();
	begin();
	eventually(is_held("a", "commits that the source lacks"));
	must("git -C copies/a.git rev-parse -q --verify late >/dev/null");
	must("git -C primary/a.git fetch -q ../../copies/a.git late:late");
	change("a", "refs/heads/new", REPORTED);
	eventually(is_here("a"));
}

/* While nobody followed, and whether its events tell or not. */
TEST(one_that_was_created_anew_in_the_same_log_is_followed)
{
	appear("a", REPORTED);
	appear("b", REPORTED);
	must("for name in a b; do (cd primary/$name.git && git update-ref "
	     "refs/heads/late "
	     "$(git commit-tree -m late v1^{tree})); done");
	begin();
	eventually(is_here("a") && is_here("b") && is_at_last_event());
	end();
	vanish("a", REPORTED);
	appear("a", REPORTED);
	vanish("b", UNTOLD);
	appear("b", UNTOLD);
	begin();
	eventually(is_here("a") && is_here("b"));
}

/* A backup of before it was pushed to. */
TEST(a_repository_that_is_empty_after_a_restore_takes_no_copy_away)
{
	appear("a", REPORTED);
	begin();
	eventually(is_here("a") && is_at_last_event());
	end();
	must("rm -r primary/a.git && git init -q --bare primary/a.git");
	begin_log();
	begin();
	eventually(is_held("a", "commits that the source lacks"));
	must("git -C copies/a.git rev-parse -q --verify v1 >/dev/null");
}

TEST(what_another_primary_lacks_is_held)
{
	appear("a", REPORTED);
	appear("b", REPORTED);
	appear("c", REPORTED);
	appear("d", REPORTED);
	begin();
	eventually(is_here("a") && is_here("b") && is_here("c") && is_here("d") &&
		   is_at_last_event());
	end();
	vanish("a", UNTOLD);
	vanish("d", UNTOLD);
	must("rm -r copies/d.git"); /* deleted here, as a primary does */
	promote_another();
	begin();
	eventually(is_held("a", "another one than before"));
	eventually(state_of("d") == REGISTRY_STATES);
	eventually(is_here("b") && is_here("c") && is_at_last_event());
	await_comparison();
	must("test -e copies/a.git && ! ls copies/.refrelay/trash 2>/dev/null | grep -q "
	     ".");
	/* what is deleted from now on is deleted */
	vanish("b", REPORTED);
	vanish("c", UNTOLD);
	eventually(state_of("b") == REGISTRY_STATES && state_of("c") == REGISTRY_STATES);
	appear("a", REPORTED);
	eventually(is_here("a"));
	assert_false(is_held("a", ""));
}

TEST(a_primary_that_moved_is_followed_when_it_lacks_something)
{
	appear("a", REPORTED);
	appear("b", REPORTED);
	begin();
	eventually(is_here("a") && is_here("b") && is_at_last_event());
	end();
	must("ln -s primary moved");
	fake.address = "moved";
	vanish("a", UNTOLD);
	begin();
	eventually(state_of("a") == REGISTRY_STATES);
}

TEST(what_the_same_address_lacks_with_another_log_is_held)
{
	appear("a", REPORTED);
	appear("b", REPORTED);
	begin();
	eventually(is_here("a") && is_here("b") && is_at_last_event());
	end();
	begin_log();
	vanish("b", UNTOLD);
	begin();
	eventually(is_held("b", "was restored"));
	eventually(is_here("a") && is_at_last_event());
	await_comparison();
	vanish("a", REPORTED);
	eventually(state_of("a") == REGISTRY_STATES);
}

static bool is_gone(const char *name)
{
	AUTO_REGISTRY_ROW struct registry_row row = row_of(name);

	return row.state == REGISTRY_STATES || row.is_gone;
}

/* To a snapshot of before the last event, and used since: `then` is the event that took
 * its number. */
static void go_back(const char *then)
{
	event_list last = { 0 };

	vec_add(&last, fake.events.items[--fake.events.count]);
	event_list_clear(&last);
	if (then)
		log_event("repository", then, EVENT_UPDATED);
}

static void assert_nothing_goes_before_the_log_is_another(const char *then)
{
	appear("a", REPORTED);
	appear("b", REPORTED);
	begin();
	eventually(is_here("a") && is_here("b") && is_at_last_event());
	end();
	vanish("b", UNTOLD);
	go_back(then);
	fake.hides_events = true;
	begin();
	await_comparison();
	assert_false(is_gone("b"));
	lock(&fake.mutex);
	begin_log();
	unlock(&fake.mutex);
	fake.hides_events = false;
	eventually(is_held("b", "was restored"));
	eventually(is_here("a") && is_at_last_event());
	must("test -e copies/b.git");
}

/* The comparison may ask before the cursor does. */
TEST(what_is_younger_than_the_snapshot_that_a_primary_went_back_to_is_held)
{
	assert_nothing_goes_before_the_log_is_another(NULL);
}

TEST(so_it_is_though_the_primary_has_as_many_events_again)
{
	assert_nothing_goes_before_the_log_is_another("a");
}

/* As long as it does not say what it has. */
TEST(what_another_primary_cannot_read_yet_is_held_when_it_can)
{
	appear("a", REPORTED);
	appear("b", REPORTED);
	begin();
	eventually(is_here("a") && is_here("b") && is_at_last_event());
	end();
	vanish("a", UNTOLD);
	promote_another();
	fake.is_part = true;
	begin();
	eventually(is_here("b") && is_at_last_event());
	await_comparison();
	assert_false(is_held("a", ""));
	fake.is_part = false;
	eventually(is_held("a", "another one than before"));
}

static bool was_compared(void)
{
	return followed_was_compared(store, KIND_REPOSITORY, &err) > 0;
}

/* As with a new database: its manifest waits for that. */
TEST(what_a_primary_cannot_read_all_of_is_followed_but_was_not_compared)
{
	appear("a", REPORTED);
	fake.is_part = true;
	begin();
	eventually(is_here("a") && is_at_last_event());
	await_comparison();
	assert_false(was_compared());
	assert_int_equal(
		followed_was_another(store, KIND_REPOSITORY, fake.timeline, &err), 0);
	assert_int_equal(followed_was_another(store, KIND_REPOSITORY, "another", &err),
			 1);
	fake.is_part = false;
	eventually(was_compared());
	fake.is_part = true;
	await_comparison();
	assert_true(was_compared());
}

static void await_worker(void)
{
	fake.between = NULL;
	eventually(state_of("a") == REGISTRY_STARTED);
}

static int doubt_a(struct store_tx *tx, void *arg, struct err *error)
{
	(void)arg;
	return store_exec(
		tx, "UPDATE registry SET state = 0, due_at = 1 WHERE name = 'a'", error);
}

TEST(what_is_being_asked_for_at_another_primary_is_held_when_that_has_ended)
{
	appear("a", REPORTED);
	appear("b", REPORTED);
	begin();
	eventually(is_here("a") && is_here("b") && is_at_last_event());
	end();
	vanish("a", UNTOLD);
	promote_another();
	assert_ok(store_write(store, doubt_a, NULL, &err));
	fake.refs_hang = true;
	fake.between = await_worker;
	begin();
	await_comparison();
	assert_false(is_held("a", ""));
	fake.refs_hang = false;
	eventually(is_held("a", "another one than before"));
	must("test -e copies/a.git");
}

/* Once for each log that is followed: see pull_parts.h. */
static bool waits_for_checksums(void)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	return pull->waits_since != 0;
}

static bool has_cursor_begun_to_wait(void)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	if (pull->state.has_cursor)
		pull->waits_since = 1;
	return pull->state.has_cursor;
}

TEST(another_log_has_as_long_for_its_checksums_as_the_first_had)
{
	appear("a", REPORTED);
	begin();
	eventually(has_cursor_begun_to_wait());
	appear("b", REPORTED);
	eventually(is_here("b"));
	assert_true(waits_for_checksums());
	lock(&fake.mutex);
	draw(fake.timeline);
	unlock(&fake.mutex);
	appear("c", REPORTED);
	eventually(is_here("c") && !waits_for_checksums());
}

#define PROMOTED_CASE(name)                                                              \
	cmocka_unit_test_setup_teardown(name, pull_set_up, pull_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROMOTED_CASE(commits_that_another_primary_never_had_are_held),
		PROMOTED_CASE(
			what_is_held_so_stays_when_the_former_address_is_the_primary_again),
		PROMOTED_CASE(a_primary_that_moved_is_followed_when_it_drops_commits),
		PROMOTED_CASE(
			commits_that_the_same_address_lacks_with_another_log_are_held),
		PROMOTED_CASE(one_that_was_created_anew_in_the_same_log_is_followed),
		PROMOTED_CASE(
			a_repository_that_is_empty_after_a_restore_takes_no_copy_away),
		PROMOTED_CASE(what_another_primary_lacks_is_held),
		PROMOTED_CASE(another_log_has_as_long_for_its_checksums_as_the_first_had),
		PROMOTED_CASE(a_primary_that_moved_is_followed_when_it_lacks_something),
		PROMOTED_CASE(what_the_same_address_lacks_with_another_log_is_held),
		PROMOTED_CASE(
			what_is_younger_than_the_snapshot_that_a_primary_went_back_to_is_held),
		PROMOTED_CASE(so_it_is_though_the_primary_has_as_many_events_again),
		PROMOTED_CASE(what_another_primary_cannot_read_yet_is_held_when_it_can),
		PROMOTED_CASE(
			what_a_primary_cannot_read_all_of_is_followed_but_was_not_compared),
		PROMOTED_CASE(
			what_is_being_asked_for_at_another_primary_is_held_when_that_has_ended),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
