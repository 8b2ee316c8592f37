#include "test.h"

#include "base/clock.h"
#include "replicable/name.h"
#include "replicable/registry.h"

#include "registry_write.h"

#define KIND "lfs"
#define TIMELINE "0123456789abcdef"
#define SUM "aaaa"
#define OTHER "bbbb"

static struct store *store;
static struct registry_row row;

static void open_store(void)
{
	assert_ok(store_open("sqlite::memory:", &store, &err));
}

static void close_all(void)
{
	registry_row_clear(&row);
	store_close(store);
}

static const struct registry_row *look(const char *name)
{
	registry_row_clear(&row);
	assert_ok(registry_get(store, KIND, name, &row, &err));
	return &row;
}

static struct registry_move move_of(enum registry_event event, uint64_t generation,
				    const char *checksum)
{
	return (struct registry_move){ .id = replicable_id(KIND, "a"),
				       .event = event,
				       .generation = generation,
				       .timeline = TIMELINE,
				       .checksum = checksum,
				       .size = 100 * generation,
				       .timeout_ms = 60000 };
}

static int send(enum registry_event event, uint64_t generation, const char *checksum)
{
	const struct registry_move move = move_of(event, generation, checksum);

	return registry_move(store, &move, &err);
}

struct asking {
	const struct registry_ask *asks;
	size_t count;
};

static int ask_work(struct store_tx *tx, void *arg, struct err *error)
{
	const struct asking *asking = arg;

	return registry_ask_many_in(tx, KIND, asking->asks, asking->count, error);
}

static void ask(const char *name, uint64_t generation, const char *checksum)
{
	const struct registry_ask ask = { name,
					  move_of(REGISTRY_ASKED, generation, checksum) };

	assert_ok(store_write(store, ask_work, &(struct asking){ &ask, 1 }, &err));
}

/* "a", generation 1, is here; what the primary has told of it so far. */
static void open_brought(const char *checksum)
{
	open_store();
	ask("a", 1, checksum);
	assert_ok(send(REGISTRY_BEGUN, 0, NULL));
	assert_ok(send(REGISTRY_BROUGHT, 1, NULL));
	assert_int_equal(look("a")->state, REGISTRY_SYNCED);
}

static bool is_to_be_verified(void)
{
	return look("a")->verification == VERIFICATION_PENDING &&
	       row.verification_due_at > 0 && row.verification_due_at <= clock_wall_ms();
}

TEST(a_blob_is_not_verified_before_the_primary_has_told_its_checksum)
{
	open_brought(NULL);
	assert_int_equal(row.verification, VERIFICATION_DISABLED);
	assert_int_equal(row.verification_due_at, 0);
	assert_ok(send(REGISTRY_REPORTED, 1, SUM));
	assert_true(is_to_be_verified());
	assert_string_equal(row.primary_checksum, SUM);
	assert_int_equal(row.state, REGISTRY_SYNCED);
	assert_ok(send(REGISTRY_CHECKING, 0, NULL));
	assert_ok(send(REGISTRY_PROVED, 1, SUM));
	assert_int_equal(look("a")->verification, VERIFICATION_SUCCEEDED);
	close_all();
}

TEST(a_blob_is_verified_at_once_when_the_checksum_is_known)
{
	open_brought(SUM);
	assert_true(is_to_be_verified());
	ask("a", 2, NULL);
	assert_ok(send(REGISTRY_BEGUN, 0, NULL));
	assert_ok(send(REGISTRY_BROUGHT, 2, OTHER)); /* came with the bytes */
	assert_true(is_to_be_verified());
	assert_string_equal(row.primary_checksum, OTHER);
	close_all();
}

TEST(the_inventory_may_tell_the_checksum_too)
{
	open_brought(NULL);
	ask("a", 1, SUM);
	assert_true(is_to_be_verified());
	assert_int_equal(row.state, REGISTRY_SYNCED);
	close_all();
}

TEST(what_is_told_of_something_else_changes_nothing)
{
	struct registry_move other = move_of(REGISTRY_REPORTED, 1, SUM);

	open_brought(NULL);
	assert_ok(send(REGISTRY_REPORTED, 2, SUM));
	other.timeline = "fedcba9876543210";
	assert_ok(registry_move(store, &other, &err));
	assert_ok(send(REGISTRY_REPORTED, 1, NULL));
	assert_null(look("a")->primary_checksum);
	assert_int_equal(row.verification, VERIFICATION_DISABLED);
	other.id = replicable_id(KIND, "none");
	assert_fails(registry_move(store, &other, &err), ERR_MISSING);
	close_all();
}

TEST(what_is_told_brings_nothing)
{
	static const struct err broken = { .class = ERR_NETWORK, .text = "it broke" };
	struct registry_move erred = move_of(REGISTRY_ERRED, 0, NULL);

	open_store();
	ask("a", 1, NULL);
	assert_ok(send(REGISTRY_BEGUN, 0, NULL));
	assert_ok(send(REGISTRY_REPORTED, 1, SUM)); /* while it is being brought */
	assert_int_equal(look("a")->state, REGISTRY_STARTED);
	erred.err = &broken;
	assert_ok(registry_move(store, &erred, &err));
	int64_t retry_at = look("a")->due_at;
	assert_ok(send(REGISTRY_REPORTED, 1, OTHER));
	assert_int_equal(look("a")->state, REGISTRY_FAILED);
	assert_int_equal(row.due_at, retry_at);
	assert_int_equal(row.retry_count, 1);
	assert_int_equal(row.verification_due_at, 0);
	assert_string_equal(row.primary_checksum, OTHER);
	close_all();
}

TEST(what_is_proved_is_verified_again_only_if_another_checksum_is_told)
{
	open_brought(SUM);
	assert_ok(send(REGISTRY_PROVED, 1, SUM));
	assert_ok(send(REGISTRY_REPORTED, 1, SUM));
	assert_int_equal(look("a")->verification, VERIFICATION_SUCCEEDED);
	assert_ok(send(REGISTRY_REPORTED, 1, OTHER));
	assert_true(is_to_be_verified());
	close_all();
}

TEST(a_worker_that_compared_with_an_older_checksum_proves_nothing)
{
	open_brought(SUM);
	assert_ok(send(REGISTRY_CHECKING, 0, NULL));
	assert_ok(send(REGISTRY_REPORTED, 1,
		       SUM)); /* told again: leaves it to its worker */
	assert_int_equal(look("a")->verification, VERIFICATION_STARTED);
	assert_ok(send(REGISTRY_REPORTED, 1, OTHER));
	assert_fails(send(REGISTRY_PROVED, 1, SUM), ERR_CONFLICT);
	assert_true(is_to_be_verified());
	assert_string_equal(row.primary_checksum, OTHER);
	close_all();
}

TEST(what_was_brought_and_read_is_not_proved_if_another_checksum_is_told_meanwhile)
{
	const struct registry_move brought = move_of(REGISTRY_BROUGHT, 1, SUM);

	open_store();
	ask("a", 1, NULL);
	assert_ok(send(REGISTRY_BEGUN, 0, NULL));
	assert_ok(send(REGISTRY_REPORTED, 1, OTHER));
	assert_ok(registry_complete(store, &brought, &err));
	assert_int_equal(look("a")->state, REGISTRY_SYNCED);
	assert_true(is_to_be_verified());
	assert_string_equal(row.primary_checksum, OTHER);
	close_all();
}

static int64_t count_bytes(int64_t *to_come)
{
	struct registry_counts counts;

	assert_ok(registry_counts(store, KIND, &counts, &err));
	*to_come = counts.bytes_to_come;
	return counts.bytes;
}

TEST(bytes_are_counted_of_all_and_of_what_is_still_to_come)
{
	int64_t to_come;

	open_brought(SUM); /* 100 bytes */
	ask("b", 3, SUM);
	assert_int_equal(count_bytes(&to_come), 400);
	assert_int_equal(to_come, 300);
	ask("a", 2, NULL); /* grows to 200 */
	assert_int_equal(count_bytes(&to_come), 500);
	assert_int_equal(to_come, 500);
	assert_ok(send(REGISTRY_BEGUN, 0, NULL));
	assert_ok(send(REGISTRY_BROUGHT, 4, NULL)); /* it had grown again: 400 */
	assert_int_equal(count_bytes(&to_come), 700);
	assert_int_equal(to_come, 300);
	assert_ok(send(REGISTRY_GONE, 0, NULL));
	assert_int_equal(count_bytes(&to_come), 700);
	assert_int_equal(to_come, 300);
	assert_ok(registry_remove(store, replicable_id(KIND, "a"), &err));
	assert_int_equal(count_bytes(&to_come), 300);
	close_all();
}

TEST(each_of_many_moves_has_a_result_of_its_own)
{
	const uint64_t a = replicable_id(KIND, "a"), b = replicable_id(KIND, "b");
	struct registry_move moves[4];
	enum registry_result results[4];
	int64_t to_come;

	open_store();
	ask("a", 1, SUM);
	ask("b", 2, SUM);
	for (size_t i = 0; i < ARRAY_SIZE(moves); i++)
		moves[i] = move_of(REGISTRY_BROUGHT, 1, SUM);
	moves[0].event = REGISTRY_BEGUN;
	moves[1].id = b; /* nobody has begun it */
	moves[2].id = replicable_id(KIND, "none");
	assert_ok(registry_move_many(store, moves, 4, results, &err));
	assert_int_equal(results[0], REGISTRY_MOVED);
	assert_int_equal(results[1], REGISTRY_CONFLICT);
	assert_int_equal(results[2], REGISTRY_NO_ROW);
	assert_int_equal(results[3], REGISTRY_MOVED);
	assert_int_equal(look("a")->id, a);
	assert_int_equal(row.state, REGISTRY_SYNCED);
	assert_int_equal(look("b")->state, REGISTRY_PENDING);
	assert_int_equal(count_bytes(&to_come), 300);
	assert_int_equal(to_come, 200);
	close_all();
}

TEST(many_are_completed_at_once)
{
	struct registry_move brought[2];
	enum registry_result results[2];
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };

	open_store();
	ask("a", 1, SUM);
	ask("b", 1, SUM);
	assert_ok(registry_claim(store, KIND, 2, 60000, &rows, &err));
	for (size_t i = 0; i < 2; i++) {
		brought[i] = move_of(REGISTRY_COMPLETED, 1, SUM);
		brought[i].id = rows.items[i].id;
		brought[i].claim_token = rows.items[i].claim_token;
	}
	ask("b", 2, NULL); /* meanwhile */
	assert_ok(registry_move_many(store, brought, 2, results, &err));
	assert_int_equal(look("a")->verification, VERIFICATION_SUCCEEDED);
	assert_true(row.verification_due_at > clock_wall_ms());
	assert_int_equal(look("b")->state, REGISTRY_PENDING);
	assert_int_equal(row.generation, 1);
	assert_int_equal(results[0] + results[1], REGISTRY_MOVED + REGISTRY_CONFLICT);
	close_all();
}

static int kinds_work(struct store_tx *tx, void *arg, struct err *error)
{
	return registry_kinds_in(tx, arg, error);
}

TEST(counters_of_several_kinds_in_one_transaction_are_kept_apart)
{
	AUTO_KIND_NAMES kind_names kinds = { 0 };
	const char *names[] = { "a" };
	struct registry_move moves[3];
	enum registry_result results[3];
	struct registry_counts counts;

	open_store();
	assert_ok(registry_add(store, KIND_REPOSITORY, names, 1, &err));
	ask("a", 1, SUM);
	ask("b", 1, SUM);
	for (size_t i = 0; i < 3; i++)
		moves[i] = move_of(REGISTRY_BEGUN, 0, NULL);
	moves[1].id = replicable_id(KIND_REPOSITORY, "a");
	moves[2].id = replicable_id(KIND, "b");
	assert_ok(registry_move_many(store, moves, 3, results, &err));
	assert_ok(registry_counts(store, KIND, &counts, &err));
	assert_int_equal(counts.states[REGISTRY_STARTED], 2);
	assert_int_equal(counts.states[REGISTRY_PENDING], 0);
	assert_ok(registry_counts(store, KIND_REPOSITORY, &counts, &err));
	assert_int_equal(counts.states[REGISTRY_STARTED], 1);
	assert_int_equal(counts.all, 1);
	assert_ok(store_read(store, kinds_work, &kinds, &err));
	assert_int_equal(kinds.count, 2);
	assert_string_equal(kinds.items[0], KIND);
	assert_string_equal(kinds.items[1], KIND_REPOSITORY);
	close_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_blob_is_not_verified_before_the_primary_has_told_its_checksum),
		CASE(a_blob_is_verified_at_once_when_the_checksum_is_known),
		CASE(the_inventory_may_tell_the_checksum_too),
		CASE(what_is_told_of_something_else_changes_nothing),
		CASE(what_is_told_brings_nothing),
		CASE(what_is_proved_is_verified_again_only_if_another_checksum_is_told),
		CASE(a_worker_that_compared_with_an_older_checksum_proves_nothing),
		CASE(what_was_brought_and_read_is_not_proved_if_another_checksum_is_told_meanwhile),
		CASE(bytes_are_counted_of_all_and_of_what_is_still_to_come),
		CASE(each_of_many_moves_has_a_result_of_its_own),
		CASE(many_are_completed_at_once),
		CASE(counters_of_several_kinds_in_one_transaction_are_kept_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
