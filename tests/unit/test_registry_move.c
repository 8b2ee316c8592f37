#include "registry_test.h"

TEST(a_sync_that_ended_by_verifying_is_one_step)
{
	int64_t now = clock_wall_ms();

	open_synced();
	assert_int_equal(read_row()->state, REGISTRY_SYNCED);
	assert_int_equal(row.verification, VERIFICATION_SUCCEEDED);
	assert_string_equal(row.checksum, "1-aa");
	assert_string_equal(row.timeline, "t1");
	assert_int_equal(row.generation, 3);
	assert_in_range(row.verification_due_at - now, 5000, 8000);
	assert_int_equal(row.behind_since, 0);
	assert_int_equal(row.due_at, 0);
	close_all();
}

/* What came with it was read; what was there before is read when its time comes. */
TEST(a_change_does_not_put_off_when_the_objects_are_read)
{
	open_synced();
	int64_t due_at = read_row()->verification_due_at;
	assert_ok(ask(4, "t1", NULL));
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(complete_for(4, "1-bb", 100000));
	assert_int_equal(read_row()->verification_due_at, due_at);
	assert_int_equal(row.verification, VERIFICATION_SUCCEEDED);
	assert_ok(ask(5, "t1", NULL));
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_fails(bring(4, "t1"), ERR_CONFLICT); /* overtaken */
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(complete_for(5, "1-cc", 100));
	assert_true(read_row()->verification_due_at < due_at);
	assert_ok(ask_by_hand(REGISTRY_WISH_RECHECK)); /* which reads them all */
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(complete_for(5, "1-cc", 100000));
	assert_true(read_row()->verification_due_at > clock_wall_ms() + 90000);
	close_all();
}

TEST(objects_that_were_read_are_not_due_again_for_a_change_meanwhile)
{
	open_synced();
	assert_ok(move(REGISTRY_CHECKING, 0));
	assert_ok(ask(4, "t1", NULL));
	assert_true(read_row()->verification_due_at <= clock_wall_ms());
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(complete_for(4, "1-bb", 100000)); /* it was cut, and is due at once */
	assert_true(read_row()->verification_due_at <= clock_wall_ms());
	assert_ok(move(REGISTRY_CHECKING, 0));
	assert_ok(ask(5, "t1", NULL));
	const struct registry_move read = { .event = REGISTRY_PROVED,
					    .generation = 4,
					    .timeline = "t1",
					    .checksum = "1-bb",
					    .timeout_ms = 50000 };
	assert_fails(send(read), ERR_CONFLICT);
	assert_int_equal(read_row()->state, REGISTRY_PENDING);
	assert_false(row.is_proved);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(complete_for(5, "1-cc", 100000));
	assert_in_range(read_row()->verification_due_at - clock_wall_ms(), 30000, 50000);
	close_all();
}

TEST(a_verification_that_took_too_long_says_so_until_one_ends)
{
	const struct err why = { .class = ERR_TIMEOUT, .text = "not read in 1 h" };
	const struct registry_move late = { .event = REGISTRY_SUPERSEDED,
					    .err = &why,
					    .timeout_ms = 36000 };

	open_synced();
	assert_ok(move(REGISTRY_CHECKING, 0));
	assert_ok(send(late));
	assert_int_equal(read_row()->state, REGISTRY_SYNCED);
	assert_false(row.is_proved);
	assert_string_equal(row.failure, "not read in 1 h");
	assert_in_range(row.verification_due_at - clock_wall_ms(), 30000, 36000);
	assert_ok(move(REGISTRY_CHECKING, 0));
	assert_ok(move(REGISTRY_PROVED, 3));
	assert_null(read_row()->failure);
	assert_true(row.is_proved);
	/* Also if a change came meanwhile: that waits for the lease until then. */
	assert_ok(move(REGISTRY_CHECKING, 0));
	assert_ok(ask(4, "t1", NULL));
	assert_fails(send(late), ERR_CONFLICT);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(complete_for(4, "1-bb", 100000));
	assert_in_range(read_row()->verification_due_at - clock_wall_ms(), 30000, 36000);
	close_all();
}

TEST(a_doubt_while_started_cuts_no_back_off_short)
{
	const struct registry_move doubt = { .event = REGISTRY_DOUBTED,
					     .delay_ms = 50000 };

	open_synced();
	assert_ok(ask_by_hand(REGISTRY_WISH_RECHECK));
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(send(doubt));
	assert_ok(move(REGISTRY_ERRED, 0));
	assert_int_equal(read_row()->state, REGISTRY_FAILED);
	assert_false(is_due());
	assert_int_equal(row.wishes, REGISTRY_WISH_RECHECK);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(send(doubt));
	assert_fails(bring(3, "t1"), ERR_CONFLICT);
	assert_int_equal(read_row()->state, REGISTRY_PENDING);
	assert_int_equal(row.wishes, REGISTRY_WISH_RECHECK);
	assert_in_range(row.due_at - clock_wall_ms(), 40000, 50000);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(ask(4, "t1", NULL));
	assert_ok(send(doubt));
	assert_fails(bring(3, "t1"), ERR_CONFLICT);
	assert_true(is_due()); /* a change does not wait for it */
	close_all();
}

/* What it told last was never brought; or was, and nobody heard that it went back. */
TEST(an_inventory_that_went_back_is_believed_and_an_event_is_not)
{
	struct registry_move inventory = { .event = REGISTRY_ASKED,
					   .generation = 3,
					   .timeline = "t1",
					   .checksum = "1-aa",
					   .may_go_back = true };

	open_synced();
	assert_ok(ask(4, "t1", "1-bb"));
	assert_ok(ask(3, "t1", "1-aa")); /* delivered again */
	assert_int_equal(read_row()->generation_wanted, 4);
	assert_ok(send(inventory));
	assert_int_equal(read_row()->generation_wanted, 3);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(complete(3, "1-aa"));
	assert_int_equal(read_row()->state, REGISTRY_SYNCED);
	inventory.generation = 2;
	inventory.checksum = "1-00";
	assert_ok(send(inventory));
	assert_int_equal(read_row()->state, REGISTRY_PENDING);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(complete(2, "1-00"));
	assert_int_equal(read_row()->state, REGISTRY_SYNCED);
	assert_int_equal(row.generation, 2);
	assert_string_equal(row.primary_checksum, "1-00");
	assert_ok(ask(3, "t1", "1-cc")); /* another change with that number */
	assert_int_equal(read_row()->state, REGISTRY_PENDING);
	close_all();
}

/* As after its machine was set back to a snapshot. */
TEST(a_primary_that_went_back_on_its_timeline_is_followed)
{
	open_synced();
	assert_ok(ask_by_hand(0));
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(complete_for(2, "1-bb", 5000));
	assert_int_equal(read_row()->state, REGISTRY_SYNCED);
	assert_int_equal(row.generation, 2);
	assert_int_equal(row.generation_wanted, 2);
	assert_ok(ask(3, "t1", "1-cc"));
	assert_int_equal(read_row()->state, REGISTRY_PENDING);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(complete(3, "1-cc"));
	assert_ok(ask_by_hand(0));
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(ask(4, "t1", NULL)); /* it goes on */
	assert_fails(complete_for(2, "1-bb", 5000), ERR_CONFLICT);
	assert_int_equal(read_row()->generation, 3);
	assert_int_equal(row.generation_wanted, 4);
	assert_true(is_due());
	close_all();
}

TEST(an_event_that_comes_again_changes_nothing)
{
	open_synced();
	assert_ok(ask(3, "t1", "1-aa"));
	assert_ok(ask(2, "t1", "1-bb"));
	assert_ok(ask(3, NULL, NULL));
	assert_int_equal(read_row()->state, REGISTRY_SYNCED);
	assert_ok(ask(4, "t1", NULL));
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(move(REGISTRY_ERRED, 0));
	assert_ok(ask(4, "t1", "1-cc")); /* only the checksum is new */
	assert_int_equal(read_row()->state, REGISTRY_FAILED);
	assert_int_equal(row.retry_count, 1);
	assert_string_equal(row.primary_checksum, "1-cc");
	assert_ok(ask(5, "t1", "1-dd"));
	assert_int_equal(read_row()->state, REGISTRY_PENDING);
	assert_int_equal(row.retry_count, 0);
	assert_true(is_due());
	close_all();
}

TEST(the_same_generation_with_another_checksum_is_looked_at)
{
	open_synced();
	assert_ok(ask(3, "t1", "1-bb"));
	assert_int_equal(read_row()->state, REGISTRY_PENDING);
	assert_int_equal(row.verification, VERIFICATION_DISABLED);
	assert_string_equal(row.primary_checksum, "1-bb");
	close_all();
}

TEST(a_person_may_always_ask_and_a_wish_is_kept_until_it_is_granted)
{
	open_synced();
	assert_ok(ask_by_hand(REGISTRY_WISH_REBUILD));
	assert_int_equal(read_row()->state, REGISTRY_PENDING);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(move(REGISTRY_ERRED, 0));
	assert_int_equal(read_row()->wishes, REGISTRY_WISH_REBUILD);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(bring(3, "t1"));
	assert_int_equal(read_row()->wishes, 0);
	assert_int_equal(row.state, REGISTRY_SYNCED);
	close_all();
}

/* The lag counts from the oldest change that is not here. */
TEST(what_is_behind_says_since_when)
{
	open_synced();
	assert_ok(ask(4, "t1", NULL));
	assert_ok(ask(5, "t1", NULL));
	assert_int_equal(read_row()->behind_since, 400);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(ask(6, "t1", NULL));
	assert_fails(bring(5, "t1"), ERR_CONFLICT);
	assert_int_equal(read_row()->behind_since, 600);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(bring(6, "t1"));
	assert_int_equal(read_row()->behind_since, 0);
	close_all();
}

TEST(an_ask_while_started_lets_no_second_worker_begin)
{
	open_synced();
	assert_ok(ask(4, "t1", NULL));
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(ask(5, "t1", NULL));
	assert_ok(ask_by_hand(0));
	assert_int_equal(read_row()->state, REGISTRY_STARTED);
	assert_fails(move(REGISTRY_BEGUN, 0), ERR_CONFLICT);
	close_all();
}

/* The worker had read the newest refs already when their event came. */
TEST(an_ask_while_started_is_answered_by_what_that_worker_brings)
{
	open_synced();
	assert_ok(ask(4, "t1", NULL));
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(ask(5, "t1", NULL));
	assert_ok(bring(5, "t1"));
	assert_int_equal(read_row()->state, REGISTRY_SYNCED);
	close_all();
}

TEST(a_person_who_asks_while_started_gets_another_sync)
{
	open_synced();
	assert_ok(ask_by_hand(REGISTRY_WISH_FORCE));
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(ask_by_hand(REGISTRY_WISH_RECHECK));
	assert_fails(bring(3, "t1"), ERR_CONFLICT);
	assert_true(is_due());
	assert_int_equal(row.state, REGISTRY_PENDING);
	assert_int_equal(row.wishes, REGISTRY_WISH_RECHECK); /* forced was done */
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(bring(3, "t1"));
	close_all();
}

TEST(what_a_superseded_sync_proved_is_recorded)
{
	open_synced();
	assert_ok(ask(4, "t1", NULL));
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(ask(5, "t1", NULL));
	assert_fails(complete(4, "1-bb"), ERR_CONFLICT);
	assert_true(is_due());
	assert_int_equal(row.generation, 4);
	assert_string_equal(row.checksum, "1-bb");
	assert_int_equal(row.verification, VERIFICATION_DISABLED);
	close_all();
}

TEST(another_timeline_begins_anew)
{
	open_synced();
	assert_ok(ask(1, "t2", NULL));
	assert_int_equal(read_row()->generation, 0);
	assert_int_equal(row.generation_wanted, 1);
	assert_string_equal(row.timeline, "t2");
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(bring(1, "t2"));
	assert_int_equal(read_row()->state, REGISTRY_SYNCED);
	close_all();
}

/* It was deleted and made again while the old one was being brought, or before its event
 * was read. */
TEST(generations_of_two_timelines_are_never_compared)
{
	open_synced();
	assert_ok(ask(4, "t1", NULL));
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(ask(1, "t2", NULL));
	assert_fails(bring(9, "t1"), ERR_CONFLICT);
	assert_int_equal(read_row()->generation, 0);
	assert_int_equal(row.generation_wanted, 1);
	assert_string_equal(row.timeline, "t2");
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(bring(1, "t3"));
	assert_int_equal(read_row()->state, REGISTRY_SYNCED);
	assert_string_equal(row.timeline, "t3");
	close_all();
}

TEST(a_failing_repository_that_changes_still_backs_off)
{
	open_synced();
	assert_ok(ask(4, "t1", NULL));
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(ask(5, "t1", NULL));
	assert_ok(move(REGISTRY_ERRED, 0));
	assert_false(is_due());
	assert_int_equal(row.state, REGISTRY_FAILED);
	assert_int_equal(row.due_at, row.retry_at);
	assert_int_equal(row.generation_wanted, 5);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(ask_by_hand(0)); /* a person does not wait */
	assert_ok(move(REGISTRY_ERRED, 0));
	assert_true(is_due());
	assert_int_equal(row.retry_count, 2);
	assert_string_equal(row.failure, "it broke");
	close_all();
}

TEST(what_the_primary_lacks_is_asked_for_less_and_less)
{
	int64_t now = clock_wall_ms();

	open_with_rows();
	for (int i = 1; i <= 3; i++) {
		assert_ok(move(REGISTRY_BEGUN, 0));
		assert_ok(move(REGISTRY_ABSENT, 0));
	}
	assert_int_equal(read_row()->state, REGISTRY_MISSING_ON_PRIMARY);
	assert_int_equal(row.retry_count, 3);
	assert_in_range(row.due_at - now, 96 * 1000, 213 * 1000);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(ask(5, "t1", NULL));
	assert_ok(move(REGISTRY_ABSENT, 0)); /* it came while we asked */
	assert_true(is_due());
	close_all();
}

/* What is held now is something else than what was permitted. */
TEST(what_is_held_although_it_was_forced_is_no_longer_forced)
{
	open_synced();
	assert_ok(ask_by_hand(REGISTRY_WISH_FORCE | REGISTRY_WISH_RECHECK));
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(move(REGISTRY_HELD, 0));
	assert_true(is_due()); /* to say what it is now */
	assert_null(row.held_reason);
	assert_int_equal(row.wishes, REGISTRY_WISH_RECHECK);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(move(REGISTRY_HELD, 0));
	assert_non_null(read_row()->held_reason);
	assert_ok(ask_by_hand(0));
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(ask_by_hand(REGISTRY_WISH_FORCE)); /* of what was held before */
	assert_ok(move(REGISTRY_HELD, 0));
	assert_true(is_due());
	assert_true(row.wishes & REGISTRY_WISH_FORCE);
	close_all();
}

TEST(what_changed_while_it_was_being_held_is_decided_anew)
{
	open_with_rows();
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(ask(5, "t1", NULL));
	assert_ok(move(REGISTRY_HELD, 0));
	assert_true(is_due());
	assert_null(row.held_reason);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(move(REGISTRY_HELD, 0));
	assert_int_equal(read_row()->due_at, 0);
	assert_ok(ask(5, "t1", NULL)); /* nothing new */
	assert_non_null(read_row()->held_reason);
	close_all();
}

TEST(a_lease_held_by_another_is_no_failure)
{
	int64_t now = clock_wall_ms();

	open_with_rows();
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(move(REGISTRY_ERRED, 0));
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(move(REGISTRY_DEFERRED, 0));
	assert_int_equal(read_row()->state, REGISTRY_PENDING);
	assert_int_equal(row.retry_count, 1);
	assert_in_range(row.due_at - now, 1000, 3000);
	close_all();
}

/* Its removal had to wait, but it is not to be removed any more. */
TEST(what_was_asked_meanwhile_does_not_wait_for_what_was_deferred)
{
	int64_t now = clock_wall_ms();

	open_synced();
	assert_ok(move(REGISTRY_GONE, 0));
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(ask(1, "t2", "1-bb"));
	assert_ok(send((struct registry_move){ .event = REGISTRY_DEFERRED,
					       .timeout_ms = 600000 }));
	assert_int_equal(read_row()->state, REGISTRY_PENDING);
	assert_false(row.is_gone);
	assert_in_range(row.due_at, now, now + 60000);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(send((struct registry_move){ .event = REGISTRY_DEFERRED,
					       .timeout_ms = 600000 }));
	assert_in_range(read_row()->due_at, now + 600000, now + 660000);
	close_all();
}

TEST(what_is_gone_is_due_for_its_removal_and_may_be_held)
{
	open_synced();
	assert_ok(move(REGISTRY_GONE, 0));
	assert_true(is_due());
	assert_true(row.is_gone);
	assert_int_equal(row.state, REGISTRY_PENDING);
	assert_ok(move(REGISTRY_HELD, 0));
	assert_int_equal(read_row()->due_at, 0);
	assert_ok(move(REGISTRY_GONE, 0)); /* told again */
	assert_non_null(read_row()->held_reason);
	assert_ok(ask(3, "t1", "1-aa")); /* it is there after all */
	assert_false(read_row()->is_gone);
	assert_null(row.held_reason);
	assert_true(is_due());
	close_all();
}

TEST(what_is_gone_while_it_is_brought_is_looked_at_again)
{
	open_synced();
	assert_ok(ask(4, "t1", NULL));
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(move(REGISTRY_GONE, 0));
	assert_int_equal(read_row()->state, REGISTRY_STARTED);
	assert_fails(bring(4, "t1"), ERR_CONFLICT);
	assert_true(is_due() && row.is_gone);
	close_all();
}

/* The copy is in the trash already when the row is to go. */
TEST(a_row_that_is_wanted_again_is_not_removed_but_begins_anew)
{
	open_synced();
	uint64_t id = replicable_id(KIND_REPOSITORY, "a");
	assert_ok(move(REGISTRY_GONE, 0));
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(ask(3, "t1", "1-aa"));
	assert_fails(registry_remove(store, id, &err), ERR_CONFLICT);
	assert_true(is_due());
	assert_int_equal(row.generation, 0);
	assert_int_equal(row.state, REGISTRY_PENDING);
	assert_null(row.checksum);
	assert_ok(move(REGISTRY_GONE, 0));
	assert_ok(registry_remove(store, id, &err));
	registry_row_clear(&row);
	assert_fails(registry_get(store, KIND_REPOSITORY, "a", &row, &err), ERR_MISSING);
	assert_ok(registry_remove(store, id, &err));
	close_all();
}

TEST(a_verification_that_was_overtaken_proves_nothing)
{
	open_synced();
	assert_ok(move(REGISTRY_CHECKING, 0));
	assert_int_equal(read_row()->verification, VERIFICATION_STARTED);
	assert_fails(move(REGISTRY_CHECKING, 0), ERR_CONFLICT);
	assert_fails(move(REGISTRY_PROVED, 2), ERR_CONFLICT);
	assert_int_equal(read_row()->verification, VERIFICATION_PENDING);
	assert_string_equal(row.checksum, "1-aa");
	assert_ok(move(REGISTRY_CHECKING, 0));
	assert_ok(ask(4, "t1", NULL));
	assert_fails(move(REGISTRY_PROVED, 3), ERR_CONFLICT);
	assert_fails(move(REGISTRY_SUPERSEDED, 0), ERR_CONFLICT);
	assert_int_equal(read_row()->state, REGISTRY_PENDING);
	close_all();
}

static size_t count_failing(bool with_unverifiable)
{
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
	const struct registry_filter filter = { .kind = KIND_REPOSITORY,
						.limit = 9,
						.state = REGISTRY_FAILED,
						.with_unverifiable = with_unverifiable };

	assert_ok(registry_list(store, &filter, &rows, &err));
	return rows.count;
}

/* Others at work on it, or an interruption, are none. */
TEST(a_verification_that_cannot_be_carried_out_says_why)
{
	static const enum err_class hindrances[] = { ERR_DISK,    ERR_TIMEOUT,
						     ERR_NETWORK, ERR_CORRUPT,
						     ERR_MISSING, ERR_INTERNAL };
	static const enum err_class others[] = { ERR_BUSY,         ERR_LOST,
						 ERR_CANCELED,     ERR_CONFLICT,
						 ERR_LOCK_TIMEOUT, ERR_LOCK_UNAVAILABLE };

	for (size_t i = 0; i < ARRAY_SIZE(hindrances) + ARRAY_SIZE(others); i++) {
		const bool is_hindrance = i < ARRAY_SIZE(hindrances);
		const struct err why = {
			.class = is_hindrance ? hindrances[i]
					      : others[i - ARRAY_SIZE(hindrances)],
			.text = "no reading",
			.remedy = "make room",
		};
		open_synced();
		assert_ok(move(REGISTRY_CHECKING, 0));
		assert_ok(send((struct registry_move){ .event = REGISTRY_SUPERSEDED,
						       .err = &why }));
		assert_int_equal(read_row()->state, REGISTRY_SYNCED);
		assert_true(row.verification_due_at != 0);
		if (is_hindrance) {
			assert_int_equal(row.verification, VERIFICATION_PENDING);
			assert_string_equal(row.failure_class, err_class_name(why.class));
			assert_string_equal(row.failure, "no reading");
			assert_string_equal(row.remedy, "make room");
		} else {
			assert_null(row.failure_class);
		}
		assert_int_equal(count_failing(true), is_hindrance);
		assert_int_equal(count_failing(false), 0);
		close_all();
	}
}

/* Who asks learns what becomes of that. */
TEST(a_verification_that_is_asked_for_forgets_what_kept_another_from_being_done)
{
	open_synced();
	assert_ok(move(REGISTRY_CHECKING, 0));
	assert_ok(move(REGISTRY_SUPERSEDED, 0));
	assert_string_equal(read_row()->failure, "it broke");
	assert_ok(move(REGISTRY_REVERIFY, 0));
	assert_null(read_row()->failure);
	assert_int_equal(row.verification, VERIFICATION_PENDING);
	close_all();
}

static enum registry_verification cut_verification(bool was_proved)
{
	static const struct err cut = { .class = ERR_CANCELED };
	struct registry_move said = { .event = REGISTRY_SUPERSEDED, .err = &cut };

	open_synced();
	if (!was_proved) {
		assert_ok(move(REGISTRY_CHECKING, 0));
		assert_ok(move(REGISTRY_SUPERSEDED, 0));
	}
	assert_int_equal(read_row()->is_proved, was_proved);
	assert_ok(move(REGISTRY_CHECKING, 0));
	said.id = read_row()->id;
	assert_ok(registry_move(store, &said, &err));
	assert_int_equal(read_row()->is_proved, was_proved);
	assert_true(row.verification_due_at <= clock_wall_ms());
	const enum registry_verification found = row.verification;
	close_all();
	return found;
}

TEST(one_that_did_not_come_to_it_leaves_the_proof_as_it_was)
{
	assert_int_equal(cut_verification(false), VERIFICATION_PENDING);
	assert_int_equal(cut_verification(true), VERIFICATION_SUCCEEDED);
}

static int doubt(uint64_t generation)
{
	static const struct err damage = { .class = ERR_CORRUPT, .text = "bad pack" };

	return send((struct registry_move){
		.event = REGISTRY_DOUBTED, .generation = generation, .err = &damage });
}

TEST(a_copy_that_is_doubted_is_not_synced_any_more)
{
	open_synced();
	assert_ok(doubt(0));
	assert_int_equal(read_row()->state, REGISTRY_PENDING);
	assert_int_equal(row.verification, VERIFICATION_PENDING);
	assert_true(row.wishes & REGISTRY_WISH_RECHECK);
	assert_true(row.due_at > 0 && row.due_at <= clock_wall_ms());
	assert_string_equal(row.failure_class, "corrupt");
	assert_int_equal(row.retry_count, 0);
	assert_int_equal(row.generation, row.generation_wanted);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(bring(3, "t1"));
	assert_int_equal(read_row()->state, REGISTRY_SYNCED);
	assert_null(row.failure_class);
	assert_int_equal(row.wishes, 0);
	close_all();
}

TEST(a_doubt_waits_as_long_as_it_says)
{
	open_synced();
	assert_ok(send(
		(struct registry_move){ .event = REGISTRY_DOUBTED, .delay_ms = 60000 }));
	assert_int_equal(read_row()->state, REGISTRY_PENDING);
	assert_true(row.due_at > clock_wall_ms() + 50000);
	close_all();
}

/* What was looked at was replaced since, or is being replaced. */
TEST(a_doubt_of_another_generation_is_none)
{
	open_synced();
	assert_ok(doubt(2));
	assert_int_equal(read_row()->state, REGISTRY_SYNCED);
	assert_ok(ask(4, "t1", NULL));
	assert_ok(doubt(3));
	assert_false(read_row()->wishes & REGISTRY_WISH_RECHECK);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(doubt(3));
	assert_ok(bring(4, "t1"));
	assert_int_equal(read_row()->state, REGISTRY_SYNCED);
	close_all();
}

TEST(a_doubt_while_it_is_brought_has_it_looked_through_after)
{
	open_synced();
	assert_ok(ask(4, "t1", NULL));
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(doubt(0));
	assert_fails(bring(4, "t1"), ERR_CONFLICT);
	assert_int_equal(read_row()->state, REGISTRY_PENDING);
	assert_true(row.wishes & REGISTRY_WISH_RECHECK);
	close_all();
}

TEST(a_doubt_cuts_no_back_off_short)
{
	int64_t due_at;

	open_synced();
	assert_ok(ask(4, "t1", NULL));
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(move(REGISTRY_ERRED, 0));
	due_at = read_row()->due_at;
	assert_ok(doubt(0));
	assert_int_equal(read_row()->state, REGISTRY_FAILED);
	assert_int_equal(row.due_at, due_at);
	assert_true(row.wishes & REGISTRY_WISH_RECHECK);
	close_all();
}

TEST(what_was_disproved_is_mended_at_once_and_then_less_often)
{
	open_synced();
	assert_ok(move(REGISTRY_DISPROVED, 3));
	assert_int_equal(read_row()->state, REGISTRY_FAILED);
	assert_true(row.due_at <= clock_wall_ms());
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(bring(3, "t1"));
	assert_ok(move(REGISTRY_DISPROVED, 3));
	assert_true(read_row()->due_at > clock_wall_ms());
	close_all();
}

/* Its refs will be set anew by the sync; what its disk has lost is not in a newer
 * generation, and would be found only at the next verification. */
TEST(damage_that_was_found_is_not_forgotten_for_a_push)
{
	static const struct err damage = { .class = ERR_CORRUPT, .text = "bad pack" };
	struct registry_move disproved = { .event = REGISTRY_DISPROVED,
					   .generation = 3,
					   .err = &damage };

	open_synced();
	assert_ok(move(REGISTRY_CHECKING, 0));
	assert_ok(ask(4, "t1", NULL));
	assert_fails(send(disproved), ERR_CONFLICT);
	assert_int_equal(read_row()->wishes, 0);
	disproved.wishes = REGISTRY_WISH_REBUILD;
	assert_fails(send(disproved), ERR_CONFLICT);
	assert_int_equal(read_row()->wishes, REGISTRY_WISH_REBUILD);
	assert_int_equal(row.state, REGISTRY_PENDING);

	/* The one who has the row by now does not know of it. */
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(complete(4, "1-bb"));
	assert_int_equal(read_row()->wishes, 0);
	assert_ok(move(REGISTRY_CHECKING, 0));
	assert_ok(ask(5, "t1", NULL));
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_fails(send(disproved), ERR_CONFLICT);
	assert_fails(complete(5, "1-cc"), ERR_CONFLICT);
	assert_int_equal(read_row()->state, REGISTRY_PENDING);
	assert_int_equal(row.wishes, REGISTRY_WISH_REBUILD);
	close_all();
}

TEST(a_copy_that_was_brought_meanwhile_is_not_disproved)
{
	static const struct err other = { .class = ERR_CORRUPT, .text = "other refs" };

	open_synced();
	assert_ok(move(REGISTRY_CHECKING, 0));
	assert_ok(ask(4, "t1", NULL));
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(complete(4, "1-bb"));
	assert_fails(send((struct registry_move){ .event = REGISTRY_DISPROVED,
						  .generation = 3,
						  .err = &other }),
		     ERR_CONFLICT);
	assert_int_equal(read_row()->state, REGISTRY_SYNCED);
	assert_int_equal(row.verification, VERIFICATION_PENDING);
	assert_null(row.failure);
	close_all();
}

TEST(a_copy_that_is_disproved_was_verified_when_it_was_proved_last)
{
	static const struct err damage = { .class = ERR_CORRUPT, .text = "bad pack" };
	int64_t proved_at;

	open_synced();
	proved_at = read_row()->verified_at;
	usleep(3000);
	assert_ok(send(
		(struct registry_move){ .event = REGISTRY_DISPROVED, .err = &damage }));
	assert_int_equal(read_row()->verified_at, proved_at);
	close_all();
}

/* As Geo: a copy that never verifies must not be fetched at full speed. */
TEST(copies_that_are_disproved_again_and_again_back_off)
{
	static const struct err damage = { .class = ERR_CORRUPT, .text = "bad pack" };
	int64_t now = clock_wall_ms();

	open_synced();
	assert_ok(move(REGISTRY_DISPROVED, 0));
	assert_int_equal(read_row()->wishes, REGISTRY_WISH_RECHECK);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(bring(3, "t1"));
	assert_ok(send((struct registry_move){ .event = REGISTRY_DISPROVED,
					       .wishes = REGISTRY_WISH_REBUILD,
					       .err = &damage }));
	assert_int_equal(read_row()->state, REGISTRY_FAILED);
	assert_int_equal(row.verification_retry_count, 2);
	assert_int_equal(row.retry_count, 2);
	assert_int_equal(row.wishes, REGISTRY_WISH_RECHECK | REGISTRY_WISH_REBUILD);
	assert_in_range(row.retry_at - now, 31 * 1000, 120 * 1000);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(complete(3, "1-aa"));
	assert_int_equal(read_row()->verification_retry_count, 0);
	close_all();
}

static int adopt(struct store_tx *tx, void *arg, struct err *error)
{
	const struct registry_move adopted = { .id = replicable_id(KIND_REPOSITORY, "a"),
					       .event = REGISTRY_ADOPTED,
					       .generation = 9,
					       .timeline = "t9",
					       .checksum = arg };
	int result = registry_move_in(tx, &adopted, error);

	return result > 0 ? err_set(error, ERR_CONFLICT, "not adopted") : result;
}

TEST(a_copy_with_the_same_checksum_is_adopted_without_a_sync)
{
	char same[] = "1-aa", other[] = "1-bb";

	open_synced();
	assert_fails(store_write(store, adopt, other, &err), ERR_CONFLICT);
	assert_ok(store_write(store, adopt, same, &err));
	assert_int_equal(read_row()->state, REGISTRY_SYNCED);
	assert_int_equal(row.generation, 9);
	assert_string_equal(row.timeline, "t9");
	assert_ok(ask(9, "t9", "1-aa"));
	assert_int_equal(read_row()->state, REGISTRY_SYNCED);
	close_all();
}

static int ask_in(struct store_tx *tx, void *arg, struct err *error)
{
	const struct registry_move new = { .generation = 7, .timeline = "t1" };

	return registry_ask_in(tx, KIND_REPOSITORY, arg, &new, error);
}

TEST(asking_for_a_new_name_adds_its_row)
{
	char name[] = "new";

	open_with_rows();
	assert_ok(store_write(store, ask_in, name, &err));
	assert_ok(registry_get(store, KIND_REPOSITORY, name, &row, &err));
	assert_int_equal(row.generation_wanted, 7);
	assert_int_equal(row.generation, 0);
	assert_true(row.due_at != 0);
	close_all();
}

TEST(after_a_crash_nothing_stays_started)
{
	static const char *const names[] = { "a" };
	AUTO_FREE char *url = xasprintf("sqlite:%s/db", root);

	assert_ok(store_open(url, &store, &err));
	assert_ok(registry_add(store, KIND_REPOSITORY, names, 1, &err));
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(ask_by_hand(REGISTRY_WISH_REBUILD));
	store_close(store);
	assert_ok(store_open(url, &store, &err));
	assert_false(is_due());
	assert_ok(registry_reset_started(store, 0, &err));
	assert_true(is_due());
	assert_int_equal(row.state, REGISTRY_PENDING);
	assert_int_equal(row.wishes, REGISTRY_WISH_REBUILD);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(complete(1, "1-aa"));
	assert_ok(move(REGISTRY_CHECKING, 0));
	assert_ok(registry_reset_started(store, 0, &err));
	assert_int_equal(read_row()->verification, VERIFICATION_SUCCEEDED);
	assert_int_equal(row.state, REGISTRY_SYNCED);
	assert_true(row.verification_due_at <= clock_wall_ms());
	close_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_sync_that_ended_by_verifying_is_one_step),
		CASE(a_change_does_not_put_off_when_the_objects_are_read),
		CASE(objects_that_were_read_are_not_due_again_for_a_change_meanwhile),
		CASE(a_verification_that_took_too_long_says_so_until_one_ends),
		CASE(a_doubt_while_started_cuts_no_back_off_short),
		CASE(an_inventory_that_went_back_is_believed_and_an_event_is_not),
		CASE(a_primary_that_went_back_on_its_timeline_is_followed),
		CASE(an_event_that_comes_again_changes_nothing),
		CASE(the_same_generation_with_another_checksum_is_looked_at),
		CASE(a_person_may_always_ask_and_a_wish_is_kept_until_it_is_granted),
		CASE(what_is_behind_says_since_when),
		CASE(an_ask_while_started_lets_no_second_worker_begin),
		CASE(an_ask_while_started_is_answered_by_what_that_worker_brings),
		CASE(a_person_who_asks_while_started_gets_another_sync),
		CASE(what_a_superseded_sync_proved_is_recorded),
		CASE(another_timeline_begins_anew),
		CASE(generations_of_two_timelines_are_never_compared),
		CASE(a_failing_repository_that_changes_still_backs_off),
		CASE(what_the_primary_lacks_is_asked_for_less_and_less),
		CASE(what_is_held_although_it_was_forced_is_no_longer_forced),
		CASE(what_changed_while_it_was_being_held_is_decided_anew),
		CASE(a_lease_held_by_another_is_no_failure),
		CASE(what_was_asked_meanwhile_does_not_wait_for_what_was_deferred),
		CASE(what_is_gone_is_due_for_its_removal_and_may_be_held),
		CASE(what_is_gone_while_it_is_brought_is_looked_at_again),
		CASE(a_row_that_is_wanted_again_is_not_removed_but_begins_anew),
		CASE(a_verification_that_was_overtaken_proves_nothing),
		CASE(a_verification_that_cannot_be_carried_out_says_why),
		CASE(a_verification_that_is_asked_for_forgets_what_kept_another_from_being_done),
		CASE(one_that_did_not_come_to_it_leaves_the_proof_as_it_was),
		CASE(a_copy_that_is_doubted_is_not_synced_any_more),
		CASE(a_doubt_waits_as_long_as_it_says),
		CASE(a_doubt_of_another_generation_is_none),
		CASE(a_doubt_while_it_is_brought_has_it_looked_through_after),
		CASE(a_doubt_cuts_no_back_off_short),
		CASE(what_was_disproved_is_mended_at_once_and_then_less_often),
		CASE(a_copy_that_is_disproved_was_verified_when_it_was_proved_last),
		CASE(copies_that_are_disproved_again_and_again_back_off),
		CASE(damage_that_was_found_is_not_forgotten_for_a_push),
		CASE(a_copy_that_was_brought_meanwhile_is_not_disproved),
		CASE(a_copy_with_the_same_checksum_is_adopted_without_a_sync),
		CASE(asking_for_a_new_name_adds_its_row),
		CASE(after_a_crash_nothing_stays_started),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
