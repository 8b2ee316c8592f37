#include "test.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "pull/copy_kind.h"
#include "pull/pull_parts.h"
#include "replicable/name.h"
#include "upkeep/removal.h"

/* A kind that does to each row what its name says. */
#define TOY "toy"
#define CHECKSUM "aa"

static struct store *store;
static struct pull pull;
static size_t running, worked, ended;
static bool is_away;
static enum err_class flaky_class; /* what "flaky" fails with */

static int toy_check_name(const struct kind *kind, const char *name, struct err *error)
{
	(void)kind;
	return strcmp(name, "../up") != 0 ? 0 : err_set(error, ERR_CONFIG, "no name");
}

static int toy_open(struct pull_job *job, struct err *error)
{
	job->own = job;
	return is_away ? err_set(error, ERR_MISSING, "the directory is away") : 0;
}

static int toy_discard(void *arg, const struct removal_copy *copy, struct err *error)
{
	(void)arg;
	if (strcmp(copy->name, "locked") == 0)
		return err_set(error, ERR_CONFLICT, "somebody has a lock there");
	return strcmp(copy->name, "stuck") != 0
		       ? 0
		       : err_set(error, ERR_DISK, "it cannot be moved");
}

static void toy_remove(struct pull_job *job)
{
	struct removal_copy copies[8] = { 0 };
	struct removal_batch removal = {
		.store = store, .kind = TOY, .copies = copies, .discard = toy_discard
	};
	struct pull_item *item;

	for (size_t at = 0; (item = pull_job_next(job, &at, PULL_OPEN));)
		if (item->row->is_gone)
			copies[removal.count++] =
				(struct removal_copy){ .name = item->row->name,
						       .own = item };
	assert_ok(removal_run_batch(&removal, &err));
	for (size_t i = 0; i < removal.count; i++)
		pull_item_end_removed(copies[i].own, &copies[i].why);
	worked += removal.count;
}

static void end_brought(struct pull_item *item)
{
	item->end = PULL_CREATED;
	item->is_proved = strcmp(item->row->name, "proved") == 0;
	item->generation = item->row->generation_wanted;
	memcpy(item->timeline, item->row->timeline, sizeof(item->timeline));
	snprintf(item->checksum, sizeof(item->checksum), CHECKSUM);
}

static void fail_with(struct pull_item *item, enum err_class class)
{
	struct err why;

	err_set(&why, class, "as its name says");
	pull_item_fail(item, &why);
}

static void toy_bring(struct pull_job *job)
{
	struct pull_item *item;

	for (size_t at = 0; (item = pull_job_next(job, &at, PULL_OPEN));) {
		const char *name = item->row->name;
		worked++;
		if (strcmp(name, "busy") == 0) {
			fail_with(item, ERR_BUSY);
		} else if (strcmp(name, "flaky") == 0) {
			fail_with(item, flaky_class);
		} else if (strcmp(name, "stopped") == 0) {
			stop_request(&pull.stop);
			fail_with(item, ERR_CANCELED);
		} else if (strcmp(name, "late") == 0) {
			fail_with(item, ERR_LOCK_TIMEOUT);
		} else if (strcmp(name, "unlocked") == 0) {
			fail_with(item, ERR_LOCK_UNAVAILABLE);
		} else if (strcmp(name, "refused") == 0) {
			fail_with(item, ERR_AUTH);
			item->is_final = true;
		} else if (strcmp(name, "vanished") == 0) {
			fail_with(item, ERR_MISSING);
			item->is_final = true;
		} else if (strcmp(name, "missing") == 0) {
			fail_with(item, ERR_MISSING);
		} else if (strcmp(name, "broken") == 0) {
			fail_with(item, ERR_CORRUPT);
		} else if (strcmp(name, "waits") == 0) {
			item->end = PULL_WAITS;
			item->wait_ms = 60000;
		} else if (strcmp(name, "held") == 0) {
			item->end = PULL_HELD;
			item->held_reason = xstrdup("a reason");
			item->remedy = xstrdup("a remedy");
		} else {
			end_brought(item);
		}
	}
}

static void toy_verify(struct pull_job *job)
{
	struct pull_item *item;

	for (size_t at = 0; (item = pull_job_next(job, &at, PULL_OPEN));) {
		worked++;
		item->generation = item->row->generation;
		snprintf(item->checksum, sizeof(item->checksum), CHECKSUM);
		item->of_copy = strcmp(item->row->name, "unread") != 0;
		if (strcmp(item->row->name, "slow") == 0)
			err_set(&item->why, ERR_TIMEOUT, "it takes too long");
		else if (strcmp(item->row->name, "skipped") == 0)
			err_set(&item->why, ERR_CANCELED, "it was not come to");
		else if (strcmp(item->row->name, "other") != 0 && item->of_copy)
			item->why.class = ERR_NONE;
		else
			err_set(&item->why, ERR_CORRUPT, "it is another");
	}
}

static void toy_end(struct pull_job *job)
{
	assert_ptr_equal(job->own, job);
	ended++;
}

static const struct copy_kind_ops toy_ops = { .bring_most = 8,
					      .verify_most = 8,
					      .open = toy_open,
					      .remove = toy_remove,
					      .bring = toy_bring,
					      .verify = toy_verify,
					      .end = toy_end };

static int set_up(void **state)
{
	(void)state;
	log_set_level(LOG_LEVEL_NONE);
	running = worked = ended = 0;
	is_away = false;
	assert_ok(store_open("sqlite::memory:", &store, &err));
	pull = (struct pull){ .options = { .store = store },
			      .settings = { .timeout_ms = 60000,
					    .reverify_ms = CONF_DAY,
					    .delete_brake = 0.05 } };
	mutex_init(&pull.mutex);
	cond_init(&pull.changed);
	stop_init(&pull.stop);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	vec_clear(&pull.given_back);
	stop_clear(&pull.stop);
	pthread_cond_destroy(&pull.changed);
	pthread_mutex_destroy(&pull.mutex);
	store_close(store);
	return 0;
}

static int ask_in(struct store_tx *tx, void *arg, struct err *error)
{
	const struct registry_move move = { .generation = 1,
					    .timeline = "1111111111111111",
					    .checksum = CHECKSUM };

	return registry_ask_in(tx, TOY, arg, &move, error);
}

static int ask_repository_in(struct store_tx *tx, void *arg, struct err *error)
{
	const struct registry_ask *ask = arg;

	return registry_ask_in(tx, KIND_REPOSITORY, ask->name, &ask->move, error);
}

static void add(const char *name)
{
	AUTO_FREE char *copy = xstrdup(name);

	assert_ok(store_write(store, ask_in, copy, &err));
}

static struct pull_job *new_job(bool is_verification)
{
	struct pull_job *job = xcalloc(1, sizeof(*job));

	job->pull = &pull;
	job->kind = (struct kind){ .type = TOY,
				   .check_name = toy_check_name,
				   .copies = &toy_ops };
	job->is_verification = is_verification;
	job->running = &running;
	job->claimed_at = clock_boot_ms();
	assert_ok((is_verification ? registry_claim_verification : registry_claim)(
		store, TOY, 100, 60000, &job->rows, &err));
	return job;
}

static int exec_in(struct store_tx *tx, void *arg, struct err *error)
{
	return store_exec(tx, arg, error);
}

static void make_due(void)
{
	static char due[] = "UPDATE registry SET due_at = 1";

	assert_ok(store_write(store, exec_in, due, &err));
}

/* A person's word, who knows no generation. */
static int ask_again_in(struct store_tx *tx, void *arg, struct err *error)
{
	const struct registry_move move = { .event = REGISTRY_ASKED };

	return registry_ask_in(tx, TOY, arg, &move, error);
}

static void ask_again(const char *name)
{
	AUTO_FREE char *copy = xstrdup(name);

	assert_ok(store_write(store, ask_again_in, copy, &err));
}

static void run(bool is_verification)
{
	struct pull_job *job = new_job(is_verification);

	running++;
	pull_job_run(job);
	assert_int_equal(running, 0);
}

static struct registry_row row_of(const char *name)
{
	struct registry_row row;

	if (registry_get(store, TOY, name, &row, &err) != 0)
		row = (struct registry_row){ .state = REGISTRY_STATES };
	return row;
}

static enum registry_state state_of(const char *name)
{
	AUTO_REGISTRY_ROW struct registry_row row = row_of(name);

	return row.state;
}

static bool has_metric(const char *line)
{
	AUTO_STR struct str metrics = STR_INIT;

	metrics_render_as(METRICS_PROMETHEUS, &metrics);
	return strstr(metrics.data, line) != NULL;
}

TEST(whatever_becomes_of_a_row_the_registry_hears_it)
{
	static const struct {
		const char *name;
		enum registry_state state;
		int64_t retries;
	} table[] = {
		{ "proved", REGISTRY_SYNCED, 0 },
		{ "brought", REGISTRY_SYNCED, 0 },
		{ "busy", REGISTRY_PENDING, 0 },
		{ "late", REGISTRY_PENDING, 0 },
		{ "unlocked", REGISTRY_PENDING, 0 },
		{ "waits", REGISTRY_PENDING, 0 },
		{ "missing", REGISTRY_MISSING_ON_PRIMARY, 1 },
		{ "broken", REGISTRY_FAILED, 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		add(table[i].name);
	run(false);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		AUTO_REGISTRY_ROW struct registry_row row = row_of(table[i].name);
		assert_int_equal(row.state, table[i].state);
		assert_int_equal(row.retry_count, table[i].retries);
	}
	AUTO_REGISTRY_ROW struct registry_row proved = row_of("proved");
	AUTO_REGISTRY_ROW struct registry_row brought = row_of("brought");
	AUTO_REGISTRY_ROW struct registry_row waits = row_of("waits");
	assert_int_equal(proved.verification, VERIFICATION_SUCCEEDED);
	assert_int_equal(brought.verification, VERIFICATION_PENDING);
	assert_true(waits.due_at > clock_wall_ms() + 50000);
	assert_true(has_metric("refrelay_syncs_total{kind=\"toy\",state=\"created\"} 2"));
	assert_true(has_metric("refrelay_syncs_total{kind=\"toy\",state=\"missing\"} 1"));
	assert_int_equal(ended, 1);
}

/* Somebody else had the lease for too long, or nobody could be asked for it: what the
 * work itself failed with before stays as it was, and so does how often. */
TEST(a_lease_that_was_not_had_counts_as_no_failure)
{
	static const enum err_class classes[] = { ERR_LOCK_TIMEOUT, ERR_LOCK_UNAVAILABLE,
						  ERR_BUSY };

	add("flaky");
	flaky_class = ERR_CORRUPT;
	run(false);
	AUTO_REGISTRY_ROW struct registry_row before = row_of("flaky");
	assert_int_equal(before.retry_count, 1);
	for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
		make_due();
		flaky_class = classes[i];
		run(false);
		AUTO_REGISTRY_ROW struct registry_row row = row_of("flaky");
		assert_int_equal(row.state, REGISTRY_PENDING);
		assert_in_range(row.due_at, 1, clock_wall_ms() + 1000);
		assert_int_equal(row.retry_count, 1);
		assert_string_equal(row.failure_class, "corrupt");
		assert_string_equal(row.failure, before.failure);
	}
}

TEST(what_no_further_try_changes_is_tried_only_when_it_is_asked_for)
{
	static const char *const names[] = { "refused", "vanished" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		add(names[i]);
	run(false);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		AUTO_REGISTRY_ROW struct registry_row row = row_of(names[i]);
		assert_int_equal(row.state,
				 i == 0 ? REGISTRY_FAILED : REGISTRY_MISSING_ON_PRIMARY);
		assert_int_equal(row.due_at, 0);
		assert_int_equal(row.retry_at, 0);
		assert_int_equal(row.retry_count, 1);
		assert_string_equal(row.failure, "as its name says");
		ask_again(names[i]);
		AUTO_REGISTRY_ROW struct registry_row due = row_of(names[i]);
		assert_int_equal(due.state, REGISTRY_PENDING);
		assert_true(due.due_at > 0);
	}
}

TEST(what_a_person_must_decide_is_held_with_its_reason)
{
	add("held");
	run(false);
	AUTO_REGISTRY_ROW struct registry_row row = row_of("held");
	assert_string_equal(row.held_reason, "a reason");
	assert_string_equal(row.remedy, "a remedy");
}

TEST(a_kind_whose_directory_is_away_fails_here)
{
	add("a");
	is_away = true;
	run(false);
	AUTO_REGISTRY_ROW struct registry_row row = row_of("a");
	assert_int_equal(row.state, REGISTRY_FAILED);
	assert_string_equal(row.failure_class, "disk"); /* the primary has it */
	assert_int_equal(worked, 0);
	assert_int_equal(ended, 1);
}

TEST(a_name_that_is_none_is_not_worked_on)
{
	add("../up");
	add("brought");
	run(false);
	assert_int_equal(state_of("../up"), REGISTRY_FAILED);
	assert_int_equal(state_of("brought"), REGISTRY_SYNCED);
	assert_int_equal(worked, 1);
}

static void say_gone(const char *name)
{
	const struct registry_move gone = { .id = replicable_id(TOY, name),
					    .event = REGISTRY_GONE };

	assert_ok(registry_move(store, &gone, &err));
}

TEST(rows_that_are_gone_go_with_their_copies)
{
	add("a");
	add("stuck");
	run(false);
	say_gone("a");
	say_gone("stuck");
	run(false);
	assert_int_equal(state_of("a"), REGISTRY_STATES);
	AUTO_REGISTRY_ROW struct registry_row row = row_of("stuck");
	assert_int_equal(row.state, REGISTRY_FAILED);
	assert_true(row.is_gone);
}

/* A lock may stay for long. */
TEST(a_copy_that_cannot_be_removed_for_a_lock_is_tried_ever_later)
{
	add("locked");
	run(false);
	say_gone("locked");
	run(false);
	AUTO_REGISTRY_ROW struct registry_row row = row_of("locked");
	assert_int_equal(row.state, REGISTRY_FAILED);
	assert_int_equal(row.retry_count, 1);
	assert_true(row.due_at > 0);
	assert_string_equal(row.failure_class, "conflict");
}

TEST(one_that_is_wanted_again_is_brought_at_once)
{
	struct pull_item item = { 0 };
	struct err why;

	err_set(&why, ERR_CONFLICT, "it is wanted");
	err_because(&why, REASON_WANTED);
	assert_int_equal(pull_item_end_removed(&item, &why), -1);
	assert_int_equal(item.why.class, ERR_LOST);
}

TEST(too_many_that_are_gone_wait_for_a_person)
{
	static char names[12][4];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(names[i], sizeof(names[i]), "n%zu", i);
		add(names[i]);
	}
	run(false);
	worked = 0;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		say_gone(names[i]);
	run(false);
	assert_int_equal(worked, 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		AUTO_REGISTRY_ROW struct registry_row row = row_of(names[i]);
		assert_non_null(row.held_reason);
	}
	assert_true(has_metric("refrelay_syncs_total{kind=\"toy\",state=\"held\"} 13"));
}

TEST(a_verification_proves_disproves_or_says_nothing)
{
	static const char *const names[] = { "same", "other", "unread" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		add(names[i]);
	run(false);
	run(true);
	AUTO_REGISTRY_ROW struct registry_row same = row_of("same");
	AUTO_REGISTRY_ROW struct registry_row other = row_of("other");
	AUTO_REGISTRY_ROW struct registry_row unread = row_of("unread");
	assert_int_equal(same.verification, VERIFICATION_SUCCEEDED);
	assert_int_equal(other.state, REGISTRY_FAILED);
	assert_int_equal(other.verification, VERIFICATION_FAILED);
	assert_int_equal(unread.state, REGISTRY_SYNCED);
	assert_int_equal(unread.verification, VERIFICATION_PENDING);
}

/* What is slow leaves the time to others; what was skipped stays overdue since when it
 * was. */
TEST(a_verification_that_did_not_end_is_due_again_by_its_reason)
{
	const int64_t now = clock_wall_ms(), due_at = now - 3 * CONF_DAY;
	AUTO_FREE char *old = xasprintf("UPDATE registry SET verification_state = 2,"
					" proved = 1, verification_due_at = %" PRId64,
					due_at);

	add("slow");
	add("skipped");
	run(false);
	assert_ok(store_write(store, exec_in, old, &err));
	run(true);
	AUTO_REGISTRY_ROW struct registry_row slow = row_of("slow");
	AUTO_REGISTRY_ROW struct registry_row skipped = row_of("skipped");
	assert_false(slow.is_proved);
	assert_string_equal(slow.failure, "it takes too long");
	assert_in_range(slow.verification_due_at - now, 600000, 630000);
	assert_true(skipped.is_proved);
	assert_int_equal(skipped.verification_due_at, due_at);
}

/* Behind upkeep, which shares its workers: too little of its time would be left. */
TEST(a_verification_that_waited_for_most_of_its_claim_is_claimed_anew)
{
	const int64_t due_at = clock_wall_ms() - CONF_DAY;
	AUTO_FREE char *old = xasprintf("UPDATE registry SET verification_state = 2,"
					" proved = 1, verification_due_at = %" PRId64,
					due_at);

	add("slow");
	run(false);
	assert_ok(store_write(store, exec_in, old, &err));
	worked = 0;
	struct pull_job *job = new_job(true);
	assert_int_equal(job->rows.count, 1);
	job->claimed_at -= pull.settings.timeout_ms / 2 + 1000;
	running++;
	pull_job_run(job);
	assert_int_equal(worked + running, 0);
	AUTO_REGISTRY_ROW struct registry_row row = row_of("slow");
	assert_true(row.is_proved);
	assert_int_equal(row.verification, VERIFICATION_SUCCEEDED);
	assert_int_equal(row.verification_due_at, due_at);
	assert_null(row.failure_class);
	run(true);
	assert_int_equal(worked, 1);
}

/* Of a repository that is gone while its new name never came here. */
static int64_t wait_of_renamed(int64_t behind_ms)
{
	char old[] = "old", new[] = "new", kind[] = KIND_REPOSITORY;
	struct registry_row row = { .id = replicable_id(KIND_REPOSITORY, old),
				    .kind = kind,
				    .name = old,
				    .timeline = "1111111111111111",
				    .is_gone = true };
	struct pull_item item = { .row = &row };
	struct pull_job job = { .pull = &pull, .items = &item };
	const struct registry_move move = { .generation = 1, .timeline = row.timeline };

	if (behind_ms > 0)
		row.behind_since = clock_wall_ms() - behind_ms;
	assert_ok(store_write(store, ask_repository_in,
			      &(struct registry_ask){ new, move }, &err));
	assert_ok(repository_copy_ops.open(&job, &err));
	assert_int_equal(item.end, PULL_WAITS);
	assert_true(item.is_uncounted);
	return item.wait_ms;
}

/* Or its removal would ask for it twice a second, as long as the new name fails. */
TEST(what_waits_for_its_rename_waits_longer_each_time)
{
	assert_int_equal(wait_of_renamed(0), 500); /* nobody knows since when */
	assert_int_equal(wait_of_renamed(1000), 500);
	assert_in_range(wait_of_renamed(80000), 10000, 15000);
	assert_int_equal(wait_of_renamed(24 * 3600 * 1000), 60000);
}

TEST(a_stop_gives_rows_back_unworked)
{
	add("brought");
	stop_request(&pull.stop);
	run(false);
	AUTO_REGISTRY_ROW struct registry_row row = row_of("brought");
	assert_int_equal(row.state, REGISTRY_PENDING);
	assert_int_equal(row.retry_count, 0);
	assert_int_equal(worked + ended, 0);
}

static void count_told(void *arg, const struct pull_item *item)
{
	(void)item;
	++*(size_t *)arg;
}

/* One run waits for each of its rows. */
TEST(one_run_hears_of_each_row_unless_it_is_stopped)
{
	size_t told = 0;
	const struct pull_once once = { .ended = count_told, .arg = &told };

	pull.options.once = &once;
	add("brought");
	add("broken");
	add("flaky");
	flaky_class = ERR_CANCELED;
	run(false);
	assert_int_equal(told, 3);
	add("stopped");
	run(false);
	assert_int_equal(told, 3);
}

TEST(a_row_of_which_nothing_can_be_written_is_given_back_later)
{
	static char away[] = "ALTER TABLE registry RENAME TO away";
	static char back[] = "ALTER TABLE away RENAME TO registry";
	struct pull_job *job;

	add("brought");
	job = new_job(false);
	running++;
	assert_ok(store_write(store, exec_in, away, &err));
	pull_job_run(job);
	assert_int_equal(pull.given_back.count, 1);
	assert_fails(pull_give_back_now(&pull, &err), err.class);
	assert_int_equal(pull.given_back.count, 1);
	assert_ok(store_write(store, exec_in, back, &err));
	assert_int_equal(state_of("brought"), REGISTRY_STARTED);
	assert_ok(pull_give_back_now(&pull, &err));
	assert_int_equal(state_of("brought"), REGISTRY_PENDING);
}

/* Returns the last one's id. */
static uint64_t move_three_later(void)
{
	static const char *const names[] = { "brought", "flaky", "broken" };
	uint64_t last = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		add(names[i]);
		AUTO_REGISTRY_ROW struct registry_row row = row_of(names[i]);
		pull_move_later(&pull, &(struct registry_move){
					       .id = row.id, .event = REGISTRY_ASKED });
		last = row.id;
	}
	return last;
}

TEST(each_row_is_given_back_though_others_fail)
{
	static char damage[] = "CREATE TRIGGER damaged BEFORE UPDATE ON registry"
			       " WHEN OLD.name = 'broken'"
			       " BEGIN SELECT RAISE(ABORT, 'damaged'); END";
	const uint64_t last = move_three_later();

	assert_ok(store_write(store, exec_in, damage, &err));
	assert_int_equal(pull_give_back_now(&pull, &err), -1);
	assert_int_equal(pull.given_back.count, 1);
	assert_int_equal(pull.given_back.items[0].id, last);
}

/* All of it, or one page of it. */
TEST(a_disk_that_fails_is_asked_once_and_then_for_others_first)
{
	static char fill[] = "CREATE TABLE filler (bytes);"
			     "CREATE TRIGGER full BEFORE UPDATE ON registry"
			     " WHEN OLD.name = 'broken' BEGIN"
			     " INSERT INTO filler VALUES (zeroblob(32 << 20)); END;"
			     "PRAGMA max_page_count = 2000";
	const uint64_t last = move_three_later();

	assert_ok(store_write(store, exec_in, fill, &err));
	assert_fails(pull_give_back_now(&pull, &err), ERR_DISK);
	assert_int_equal(pull.given_back.count, 3);
	assert_fails(pull_give_back_now(&pull, &err), ERR_DISK);
	assert_int_equal(pull.given_back.count, 1);
	assert_int_equal(pull.given_back.items[0].id, last);
}

TEST(each_kind_that_is_configured_is_there_with_its_parts)
{
	static const char text[] = "[site]\nrepositories = /copies\n"
				   "[blob \"lfs\"]\npath = /lfs\nlayout = lfs\n"
				   "[blob \"files\"]\npath = /files\n";
	AUTO_CONF struct conf *conf = NULL;
	AUTO_KINDS struct kinds_here here = { 0 };

	assert_ok(conf_load_text("test", text, strlen(text), &conf, &err));
	assert_ok(kinds_read(conf, &here, &err));
	const struct kind *kind = kinds_next(&here, NULL);
	assert_string_equal(kind->type, KIND_REPOSITORY);
	assert_string_equal(kind->path, "/copies");
	assert_ptr_equal(kind->copies, &repository_copy_ops);
	kind = kinds_next(&here, kind);
	assert_string_equal(kind->type, "files");
	assert_ptr_equal(kind->copies, &blob_copy_ops);
	kind = kinds_next(&here, kind);
	assert_string_equal(kind->type, "lfs");
	assert_null(kinds_next(&here, kind));
	assert_ptr_equal(kinds_find_lfs(&here), kind);
	assert_null(kinds_find(&here, "uploads"));
	assert_null(kinds_next(NULL, NULL));
}

#define JOB_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		JOB_CASE(whatever_becomes_of_a_row_the_registry_hears_it),
		JOB_CASE(a_lease_that_was_not_had_counts_as_no_failure),
		JOB_CASE(what_no_further_try_changes_is_tried_only_when_it_is_asked_for),
		JOB_CASE(what_a_person_must_decide_is_held_with_its_reason),
		JOB_CASE(a_kind_whose_directory_is_away_fails_here),
		JOB_CASE(a_name_that_is_none_is_not_worked_on),
		JOB_CASE(rows_that_are_gone_go_with_their_copies),
		JOB_CASE(a_copy_that_cannot_be_removed_for_a_lock_is_tried_ever_later),
		JOB_CASE(one_that_is_wanted_again_is_brought_at_once),
		JOB_CASE(too_many_that_are_gone_wait_for_a_person),
		JOB_CASE(a_verification_proves_disproves_or_says_nothing),
		JOB_CASE(a_verification_that_did_not_end_is_due_again_by_its_reason),
		JOB_CASE(
			a_verification_that_waited_for_most_of_its_claim_is_claimed_anew),
		JOB_CASE(what_waits_for_its_rename_waits_longer_each_time),
		JOB_CASE(a_stop_gives_rows_back_unworked),
		JOB_CASE(one_run_hears_of_each_row_unless_it_is_stopped),
		JOB_CASE(a_row_of_which_nothing_can_be_written_is_given_back_later),
		JOB_CASE(each_row_is_given_back_though_others_fail),
		JOB_CASE(a_disk_that_fails_is_asked_once_and_then_for_others_first),
		JOB_CASE(each_kind_that_is_configured_is_there_with_its_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
