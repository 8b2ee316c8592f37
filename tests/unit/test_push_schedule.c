#include "test.h"

#include "push/schedule.h"
#include "push/uri_state.h"

#define NOW 1000000 /* boot time */
#define HOUR ((int64_t)3600 * 1000)

static struct schedule schedule;
static struct schedule_lane *lane;
static int64_t server_lead;

static int64_t most(int64_t below)
{
	return below - 1;
}

static int prepare(void **state)
{
	(void)state;
	schedule_init(&schedule);
	schedule.random = most;
	schedule.limits.repository_transfers = 10;
	server_lead = 5 * HOUR;
	schedule_set_clock(&schedule, NOW + server_lead, NOW);
	lane = schedule_lane(&schedule, "a");
	lane->threads = 10;
	lane->reschedule_ms = 3000;
	lane->retry_ms = 60000;
	return 0;
}

static int clean(void **state)
{
	(void)state;
	schedule_clear(&schedule);
	return 0;
}

/* A task of that age; the URI's name is its repository's, too, up to a "/". */
static struct schedule_entry *put_at(struct schedule_lane *in, const char *uri,
				     int64_t since, const char *host)
{
	struct schedule_entry *entry = schedule_find(&schedule, uri);

	if (!entry) {
		entry = schedule_add(&schedule, uri);
		entry->uri = xstrdup(uri);
		entry->remote = xstrdup(in->name);
		entry->project = xstrndup(uri, strcspn(uri, "/"));
		entry->lane = in;
		entry->host = schedule_host(&schedule, host);
	}
	if (entry->tasks++ == 0 || since + server_lead < entry->since)
		entry->since = since + server_lead;
	schedule_place(&schedule, entry, NOW);
	return entry;
}

static struct schedule_entry *put(const char *uri, int64_t since)
{
	return put_at(lane, uri, since, "");
}

static void assert_next(int64_t now, const struct schedule_entry *expected)
{
	struct schedule_entry *entry = schedule_next(&schedule, now, NULL, NULL);

	if (entry != expected)
		fail_msg("at %+" PRId64 ": %s, not %s", now - NOW,
			 entry ? entry->uri : "none", expected ? expected->uri : "none");
}

static void end(struct schedule_entry *entry, enum run_end how, enum host_end host,
		int64_t now)
{
	struct schedule_result result = { .end = how, .host = host };

	if (how == RUN_DONE)
		entry->tasks = 0;
	if (host == HOST_FAILED) {
		result.retry_at = now + HOUR + server_lead;
		result.is_host_failure = true;
	}
	schedule_end(&schedule, entry, &result, now);
}

TEST(the_delay_counts_from_the_oldest_task_by_the_servers_clock)
{
	lane->delay_ms = 15000;
	struct schedule_entry *entry = put("p", NOW - 5000);

	assert_int_equal(schedule_next_at(&schedule, NOW), NOW + 10000);
	assert_next(NOW + 9999, NULL);
	assert_next(NOW + 10000, entry);
}

TEST(a_task_that_joins_does_not_postpone)
{
	lane->delay_ms = 15000;
	schedule.limits.random_ms = 1000;
	struct schedule_entry *entry = put("p", NOW);

	for (int i = 1; i < 15; i++)
		put("p", NOW + i * 1000);
	assert_int_equal(schedule_next_at(&schedule, NOW), NOW + 16000);
	assert_next(NOW + 16000, entry);
}

TEST(an_older_task_than_those_known_makes_it_due_earlier)
{
	lane->delay_ms = 15000;
	put("p", NOW);
	put("p", NOW - 10000);
	assert_int_equal(schedule_next_at(&schedule, NOW), NOW + 5000);
}

TEST(the_random_delay_is_drawn_once_and_stays_below_its_bound)
{
	schedule_clear(&schedule);
	schedule_init(&schedule);
	schedule.limits = (struct schedule_limits){ .random_ms = 500 };
	schedule_set_clock(&schedule, NOW + server_lead, NOW);
	lane = schedule_lane(&schedule, "a");
	int64_t lowest = INT64_MAX, highest = 0;
	for (int i = 0; i < 300; i++) {
		char name[20];
		snprintf(name, sizeof(name), "p%d", i);
		struct schedule_entry *entry = put(name, NOW);
		int64_t drawn = entry->due_at;
		put(name, NOW + 10);
		assert_int_equal(entry->due_at, drawn);
		lowest = drawn < lowest ? drawn : lowest;
		highest = drawn > highest ? drawn : highest;
	}
	assert_in_range(lowest, NOW, NOW + 50);
	assert_in_range(highest, NOW + 450, NOW + 500);
}

TEST(a_retry_time_holds_and_is_not_shortened_by_new_tasks)
{
	struct schedule_entry *entry = put("p", NOW - HOUR);

	entry->retry_at = NOW + 60000 + server_lead;
	schedule_place(&schedule, entry, NOW);
	put("p", NOW);
	assert_next(NOW + 59999, NULL);
	assert_next(NOW + 60000, entry);
}

TEST(a_deletion_waits_for_no_delay_but_for_its_next_try)
{
	lane->delay_ms = 15000;
	struct schedule_entry *entry = put("p", NOW);

	entry->is_urgent = true;
	schedule_place(&schedule, entry, NOW);
	assert_next(NOW, entry);
	schedule_end(&schedule, entry,
		     &(struct schedule_result){ .end = RUN_LATER,
						.retry_at = NOW + 60000 + server_lead },
		     NOW);
	assert_int_equal(schedule_next_at(&schedule, NOW), NOW + 60000);
	assert_next(NOW + 59999, NULL);
	assert_next(NOW + 60000, entry);
}

/* What an operator forces is tasks. */
TEST(a_head_that_fails_waits_for_its_next_try_also_beside_what_is_forced)
{
	struct schedule_entry *entry = put("p", NOW - HOUR);

	entry->tasks = 0;
	entry->requests = 1U << REQUEST_HEAD | 1U << REQUEST_FORCE;
	entry->is_urgent = entry->is_head_failure = true;
	schedule_place(&schedule, entry, NOW);
	assert_next(NOW, entry);
	schedule_end(&schedule, entry,
		     &(struct schedule_result){ .end = RUN_LATER,
						.retry_at = NOW + 60000 + server_lead },
		     NOW);
	assert_next(NOW + 59999, NULL);
	assert_next(NOW + 60000, entry);
}

/* The files' times are as they were. */
TEST(a_servers_clock_that_is_set_ahead_makes_tasks_older)
{
	lane->delay_ms = 15000;
	put("p", NOW);
	schedule_set_clock(&schedule, NOW + server_lead + 5000, NOW);
	assert_int_equal(schedule_next_at(&schedule, NOW), NOW + 10000);
}

/* Times that are ahead of it count from now, as when they are read. */
TEST(a_servers_clock_that_is_set_back_makes_nobody_wait_for_the_difference)
{
	lane->delay_ms = 15000;
	struct schedule_entry *task = put("p", NOW), *retry = put("q", NOW - 2 * HOUR);

	task->tasks_since = task->requests_since = task->since;
	retry->retry_at = NOW + 60000 + server_lead;
	schedule_place(&schedule, retry, NOW);
	server_lead -= HOUR;
	assert_true(schedule_set_clock(&schedule, NOW + 100 + server_lead, NOW + 100));
	assert_int_equal(schedule_next_at(&schedule, NOW + 100), NOW + 100 + 15000);
	assert_int_equal(task->tasks_since, NOW + 100 + server_lead);
	assert_int_equal(task->requests_since, NOW + 100 + server_lead);
	/* Its owner is told, who knows better. */
	assert_int_equal(retry->due_at, NOW + 60000 + HOUR);
	retry->retry_at = 0;
	schedule_place(&schedule, retry, NOW + 100);
	assert_next(NOW + 100, retry);
}

TEST(a_servers_answer_that_comes_late_ends_no_wait)
{
	struct schedule_entry *retry = put("q", NOW - HOUR);

	retry->retry_at = NOW + 60000 + server_lead;
	schedule_place(&schedule, retry, NOW);
	assert_false(schedule_set_clock(&schedule, NOW + server_lead - 500, NOW));
	assert_int_equal(schedule_next_at(&schedule, NOW), NOW + 60500);
	assert_false(schedule_set_clock(&schedule, NOW + server_lead, NOW));
	assert_int_equal(schedule_next_at(&schedule, NOW), NOW + 60000);
}

/* Whoever is too early would take the turn to try the host, and not try it. */
TEST(a_servers_answer_that_comes_late_wastes_no_turn_at_a_failed_host)
{
	struct schedule_entry *failed[2];

	lane->threads = 1;
	for (int i = 0; i < 2; i++) {
		char name[3] = { 'p', (char)('0' + i), 0 };
		failed[i] = put_at(lane, name, NOW - 9 + i, "ssh://h:22");
		assert_next(NOW, failed[i]);
		end(failed[i], RUN_LATER, HOST_FAILED, NOW);
	}
	schedule_set_clock(&schedule, NOW + server_lead - 500, NOW);
	assert_next(NOW, NULL);
	assert_int_equal(failed[0]->state, ENTRY_WAITING);
	assert_int_equal(failed[1]->state, ENTRY_WAITING);
	assert_next(NOW + 60000, NULL);
	assert_next(NOW + 60000, put_at(lane, "p2", NOW, "ssh://h:22"));
}

static struct schedule_entry *put_for(const char *share, const char *uri)
{
	struct schedule_entry *entry = put(uri, NOW - 5000 + uri[0]);

	entry->share = schedule_share(lane, share);
	entry->share->is_configured = true;
	schedule_share_threads(lane);
	return entry;
}

TEST(a_place_that_is_silent_keeps_no_thread_from_the_others_of_its_remote)
{
	lane->threads = 3;
	struct schedule_entry *silent = put_for("silent", "a");
	struct schedule_entry *second = put_for("silent", "b");
	struct schedule_entry *third = put_for("silent", "c");
	struct schedule_entry *good = put_for("good", "d");
	assert_int_equal(lane->share_limit, 2);
	assert_next(NOW, silent);
	assert_next(NOW, second);
	assert_next(NOW, good);
	assert_next(NOW, NULL);
	end(good, RUN_DONE, HOST_ANSWERED, NOW);
	assert_next(NOW, NULL);
	struct schedule_entry *better = put_for("good", "e");
	assert_next(NOW, better);
	end(silent, RUN_DONE, HOST_ANSWERED, NOW);
	assert_next(NOW, third);
	/* With fewer threads than places, each may still have one. */
	lane->threads = 1;
	schedule_share_threads(lane);
	assert_int_equal(lane->share_limit, 1);
	/* One that is not configured any more takes nothing from the others. */
	lane->threads = 3;
	schedule_share(lane, "silent")->is_configured = false;
	schedule_share_threads(lane);
	assert_int_equal(lane->share_limit, 3);
}

TEST(threads_of_a_remote_are_not_exceeded_and_block_no_other_remote)
{
	struct schedule_lane *other = schedule_lane(&schedule, "b");

	lane->threads = 2;
	other->threads = 1;
	struct schedule_entry *p1 = put("p1", NOW - 5), *p2 = put("p2", NOW - 4);
	struct schedule_entry *p3 = put("p3", NOW - 3);
	struct schedule_entry *q = put_at(other, "q", NOW, "");
	struct schedule_entry *all[3];
	for (int i = 0; i < 3; i++)
		all[i] = schedule_next(&schedule, NOW, NULL, NULL);
	assert_true(all[0] == q || all[1] == q || all[2] == q);
	assert_next(NOW, NULL);
	assert_int_equal(schedule_next_at(&schedule, NOW), INT64_MAX);
	end(p2, RUN_DONE, HOST_UNKNOWN, NOW);
	assert_next(NOW, p3);
	end(p1, RUN_DONE, HOST_UNKNOWN, NOW);
	assert_null(schedule_find(&schedule, "p1"));
}

TEST(transfers_of_one_repository_are_limited_and_others_pass)
{
	schedule.limits.repository_transfers = 1;
	struct schedule_entry *one = put("p/1", NOW - 3), *two = put("p/2", NOW - 2);
	struct schedule_entry *other = put("q", NOW);

	assert_next(NOW, one);
	assert_next(NOW, other);
	assert_next(NOW, NULL);
	end(one, RUN_DONE, HOST_UNKNOWN, NOW);
	assert_next(NOW, two);
}

/* As when two repositories have their copies at one URI. */
TEST(a_uri_that_another_repository_gets_while_it_runs_ends_as_it_began)
{
	struct schedule_entry *one = put("p/1", NOW - 3);

	assert_next(NOW, one);
	free(one->project);
	one->project = xstrdup("q");
	end(one, RUN_DONE, HOST_UNKNOWN, NOW);
	assert_next(NOW, put("q", NOW));
	schedule.limits.repository_transfers = 1;
	assert_next(NOW, put("p/2", NOW));
}

static uint64_t bytes_by_name(void *arg, const char *project)
{
	(void)arg;
	return project[0] == 'h' ? 1000 : 40; /* "huge" */
}

TEST(bytes_in_flight_are_limited_but_one_alone_always_runs)
{
	schedule.limits.bytes = 100;
	schedule.bytes_of = bytes_by_name;
	struct schedule_entry *s1 = put("s1", NOW - 9), *huge = put("huge", NOW - 8);
	struct schedule_entry *s2 = put("s2", NOW - 7), *s3 = put("s3", NOW - 6);

	assert_next(NOW, s1);
	assert_next(NOW, s2); /* passes the huge one */
	assert_next(NOW, NULL);
	end(s1, RUN_DONE, HOST_UNKNOWN, NOW);
	assert_next(NOW, s3);
	end(s2, RUN_DONE, HOST_UNKNOWN, NOW);
	end(s3, RUN_DONE, HOST_UNKNOWN, NOW);
	assert_next(NOW, huge);
	put("s4", NOW);
	assert_next(NOW, NULL);
}

TEST(small_repositories_do_not_starve_a_huge_one)
{
	schedule.limits.bytes = 100;
	schedule.bytes_of = bytes_by_name;
	struct schedule_entry *s1 = put("s1", NOW - 9), *huge = put("huge", NOW - 8);

	assert_next(NOW, s1);
	assert_next(NOW, NULL);
	assert_next(NOW + 60000, NULL);
	put("s2", NOW);
	assert_next(NOW + 60001, NULL);
	end(s1, RUN_DONE, HOST_UNKNOWN, NOW + 60002);
	assert_next(NOW + 60002, huge);
}

TEST(a_uri_that_runs_elsewhere_comes_again_after_the_reschedule_delay)
{
	struct schedule_entry *entry = put("p", NOW);

	assert_next(NOW, entry);
	end(entry, RUN_BUSY, HOST_UNKNOWN, NOW + 10);
	assert_next(NOW + 3009, NULL);
	assert_next(NOW + 3010, entry);
}

TEST(what_became_due_while_it_ran_waits_for_the_reschedule_delay_from_then)
{
	struct schedule_entry *entry = put("p", NOW);

	assert_next(NOW, entry);
	entry->tasks = 0; /* claimed */
	put("p", NOW + 1000);
	assert_next(NOW + 1500, NULL); /* never twice at once */
	struct schedule_result done = { .end = RUN_DONE };
	schedule_end(&schedule, entry, &done, NOW + 2000);
	assert_next(NOW + 3999, NULL);
	assert_next(NOW + 4000, entry);
	entry->tasks = 0;
	put("p", NOW + 4100);
	schedule_end(&schedule, entry, &done, NOW + 9000);
	assert_next(NOW + 9000, entry); /* that was over long ago */
}

TEST(a_host_that_fails_is_probed_by_one_and_a_success_releases_all)
{
	struct schedule_entry *p[5];

	for (int i = 0; i < 5; i++) {
		char name[3] = { 'p', (char)('0' + i), 0 };
		p[i] = put_at(lane, name, NOW - 10 + i, "ssh://h:22");
	}
	lane->threads = 1;
	assert_next(NOW, p[0]);
	end(p[0], RUN_LATER, HOST_FAILED, NOW + 100);
	lane->threads = 10;
	assert_next(NOW + 100, p[1]); /* it may be the first one's own fault */
	assert_next(NOW + 100, NULL);
	end(p[1], RUN_LATER, HOST_FAILED, NOW + 200);
	assert_next(NOW + 300, NULL);
	assert_int_equal(schedule_next_at(&schedule, NOW + 300), NOW + 60200);
	assert_next(NOW + 60200, p[2]);
	assert_next(NOW + 60300, NULL);
	end(p[2], RUN_DONE, HOST_ANSWERED, NOW + 61000);
	int count = 0;
	while (schedule_next(&schedule, NOW + 61000, NULL, NULL))
		count++;
	assert_int_equal(count, 4); /* those that had failed, too */
}

TEST(whoever_fails_at_a_host_that_answers_others_waits_for_its_next_try)
{
	struct schedule_entry *p[4];

	for (int i = 0; i < 4; i++) {
		char name[3] = { 'p', (char)('0' + i), 0 };
		p[i] = put_at(lane, name, NOW - 10 + i, "ssh://h:22");
	}
	lane->threads = 1;
	assert_next(NOW, p[0]);
	end(p[0], RUN_LATER, HOST_FAILED, NOW);
	assert_next(NOW, p[1]);
	end(p[1], RUN_DONE, HOST_ANSWERED, NOW + 1000);
	assert_next(NOW + 1000, p[2]);
	end(p[2], RUN_DONE, HOST_ANSWERED, NOW + 2000);
	assert_next(NOW + 2000, p[3]);
	end(p[3], RUN_DONE, HOST_ANSWERED, NOW + 3000);
	assert_next(NOW + 3000, p[0]); /* the host is back */
	end(p[0], RUN_LATER, HOST_FAILED, NOW + 4000);
	struct schedule_entry *other = put_at(lane, "p4", NOW, "ssh://h:22");
	assert_next(NOW + 4000, other);
	end(other, RUN_DONE, HOST_ANSWERED, NOW + 5000);
	assert_next(NOW + 5000, NULL);
	assert_int_equal(schedule_next_at(&schedule, NOW + 5000), NOW + 4000 + HOUR);
	assert_next(NOW + 4000 + HOUR, p[0]);
}

TEST(a_person_has_a_failed_host_probed_at_once)
{
	struct schedule_entry *p1 = put_at(lane, "p1", NOW - 9, "ssh://h:22");
	struct schedule_entry *p2 = put_at(lane, "p2", NOW - 8, "ssh://h:22");

	lane->threads = 1;
	assert_next(NOW, p1);
	end(p1, RUN_LATER, HOST_FAILED, NOW);
	assert_next(NOW, p2);
	end(p2, RUN_LATER, HOST_FAILED, NOW);
	lane->threads = 10;
	struct schedule_entry *p3 = put_at(lane, "p3", NOW - 7, "ssh://h:22");
	put_at(lane, "p4", NOW - 6, "ssh://h:22");
	assert_next(NOW + 10, NULL);
	schedule_probe_all(&schedule, NOW + 20);
	assert_next(NOW + 20, p3);
	assert_next(NOW + 20, NULL); /* one is enough */
}

TEST(a_failed_host_blocks_no_other_host)
{
	struct schedule_entry *p1 = put_at(lane, "p1", NOW - 9, "ssh://h:22");
	struct schedule_entry *p2 = put_at(lane, "p2", NOW - 8, "ssh://h:22");

	lane->threads = 1;
	assert_next(NOW, p1);
	end(p1, RUN_LATER, HOST_FAILED, NOW);
	assert_next(NOW, p2);
	end(p2, RUN_LATER, HOST_FAILED, NOW);
	put_at(lane, "p3", NOW - 7, "ssh://h:22");
	struct schedule_entry *other = put_at(lane, "q", NOW, "ssh://other:22");
	assert_next(NOW, other);
}

TEST(a_uri_without_tasks_is_forgotten_and_one_of_no_remote_stays)
{
	struct schedule_entry *entry = put("p", NOW), *orphan = put("q", NOW);

	entry->tasks = 0;
	schedule_place(&schedule, entry, NOW);
	assert_null(schedule_find(&schedule, "p"));
	orphan->lane = NULL;
	schedule_place(&schedule, orphan, NOW);
	assert_next(NOW + HOUR, NULL);
	assert_int_equal(schedule_next_at(&schedule, NOW), INT64_MAX);
	orphan->lane = lane;
	schedule_place(&schedule, orphan, NOW);
	assert_next(NOW, orphan);
}

TEST(a_longer_delay_holds_for_what_waits_already)
{
	put("p", NOW - 100);
	lane->delay_ms = 5000;
	schedule_replace_all(&schedule, NOW);
	assert_next(NOW, NULL);
	assert_int_equal(schedule_next_at(&schedule, NOW), NOW + 4900);
}

TEST(many_come_in_the_order_of_their_age)
{
	lane->threads = 5000;
	schedule.limits.repository_transfers = 5000;
	for (int i = 0; i < 3000; i++) {
		char name[20];
		snprintf(name, sizeof(name), "p%d", i);
		put(name, NOW - i * 7919 % 3001);
	}
	for (int i = 0; i < 3000; i += 3) { /* some go again */
		char name[20];
		snprintf(name, sizeof(name), "p%d", i);
		struct schedule_entry *entry = schedule_find(&schedule, name);
		entry->tasks = 0;
		schedule_place(&schedule, entry, NOW);
	}
	struct schedule_entry *entry;
	int64_t last = 0;
	size_t count = 0;
	while ((entry = schedule_next(&schedule, NOW, NULL, NULL)) != NULL) {
		assert_true(entry->due_at >= last);
		last = entry->due_at;
		count++;
	}
	assert_int_equal(count, 2000);
}

#define SCHEDULE_CASE(name) cmocka_unit_test_setup_teardown(name, prepare, clean)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCHEDULE_CASE(the_delay_counts_from_the_oldest_task_by_the_servers_clock),
		SCHEDULE_CASE(a_task_that_joins_does_not_postpone),
		SCHEDULE_CASE(an_older_task_than_those_known_makes_it_due_earlier),
		SCHEDULE_CASE(the_random_delay_is_drawn_once_and_stays_below_its_bound),
		SCHEDULE_CASE(a_retry_time_holds_and_is_not_shortened_by_new_tasks),
		SCHEDULE_CASE(a_deletion_waits_for_no_delay_but_for_its_next_try),
		SCHEDULE_CASE(
			a_head_that_fails_waits_for_its_next_try_also_beside_what_is_forced),
		SCHEDULE_CASE(a_servers_clock_that_is_set_ahead_makes_tasks_older),
		SCHEDULE_CASE(
			a_servers_clock_that_is_set_back_makes_nobody_wait_for_the_difference),
		SCHEDULE_CASE(a_servers_answer_that_comes_late_ends_no_wait),
		SCHEDULE_CASE(
			a_servers_answer_that_comes_late_wastes_no_turn_at_a_failed_host),
		SCHEDULE_CASE(
			a_place_that_is_silent_keeps_no_thread_from_the_others_of_its_remote),
		SCHEDULE_CASE(
			threads_of_a_remote_are_not_exceeded_and_block_no_other_remote),
		SCHEDULE_CASE(transfers_of_one_repository_are_limited_and_others_pass),
		SCHEDULE_CASE(
			a_uri_that_another_repository_gets_while_it_runs_ends_as_it_began),
		SCHEDULE_CASE(bytes_in_flight_are_limited_but_one_alone_always_runs),
		SCHEDULE_CASE(small_repositories_do_not_starve_a_huge_one),
		SCHEDULE_CASE(
			a_uri_that_runs_elsewhere_comes_again_after_the_reschedule_delay),
		SCHEDULE_CASE(
			what_became_due_while_it_ran_waits_for_the_reschedule_delay_from_then),
		SCHEDULE_CASE(
			a_host_that_fails_is_probed_by_one_and_a_success_releases_all),
		SCHEDULE_CASE(
			whoever_fails_at_a_host_that_answers_others_waits_for_its_next_try),
		SCHEDULE_CASE(a_person_has_a_failed_host_probed_at_once),
		SCHEDULE_CASE(a_failed_host_blocks_no_other_host),
		SCHEDULE_CASE(
			a_uri_without_tasks_is_forgotten_and_one_of_no_remote_stays),
		SCHEDULE_CASE(a_longer_delay_holds_for_what_waits_already),
		SCHEDULE_CASE(many_come_in_the_order_of_their_age),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
