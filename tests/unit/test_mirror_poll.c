/* What a list tells of a mirror, and the look at its clone that follows. */
#include "mirror/checked.h"
#include "mirror/poll.h"

#include <sys/random.h>
#include <sys/stat.h>

#include "base/log.h"
#include "git/checksum.h"
#include "mirror/upstream.h"
#include "replicable/name.h"
#include "replicable/registry.h"

#include "test.h"

#define TIP "0123456789012345678901234567890123456789"
#define PACKED TIP " refs/heads/main\n"

static struct {
	atomic_int asked[2];    /* questions to the upstreams of a, and b or z */
	atomic_int looks;       /* at the clone of a, of which the first finds it equal */
	atomic_bool holds;      /* a look at it goes on as long as that */
	atomic_bool is_changed; /* somebody changed it */
	atomic_bool limits;     /* the next question is one too many */
	atomic_bool is_at_rest; /* it was not asked, as another mirror's was one */
	atomic_bool is_other;   /* the upstream has something new */
	atomic_bool is_as_known; /* it says so, to who asks with a tag */
	atomic_int wakes;        /* after a question that failed, and others */
	/* Of the host that is away. */
	atomic_bool is_timeless; /* it lets those who ask wait */
	atomic_int asking, asked_away, most_asking;
	atomic_int checkout_s; /* that a checkout may take; 0: none was made yet */
} script;

static struct mirrors mirrors;
static struct store *store;
static struct credential_marks *marks;
static struct mirror_poll *poll;
static char fingerprint[41], checksum[CHECKSUM_TEXT_SIZE];

/* Of its own accord the poll asks nobody in the first twenty seconds. */
ssize_t getrandom(void *buffer, size_t size, unsigned flags)
{
	(void)flags;
	memset(buffer, 0xff, size);
	return (ssize_t)size;
}

static void fill(struct ref_snapshot *refs)
{
	refs->head_target = xstrdup("refs/heads/main");
	assert_ok(ref_parse_packed(refs, xstrdup(PACKED), strlen(PACKED), 20, &err));
}

static int ask_host_that_is_away(struct err *error)
{
	const int asking = atomic_fetch_add(&script.asking, 1) + 1;

	if (asking > atomic_load(&script.most_asking))
		atomic_store(&script.most_asking, asking);
	atomic_fetch_add(&script.asked_away, 1);
	while (atomic_load(&script.is_timeless))
		usleep(1000);
	atomic_fetch_sub(&script.asking, 1);
	return err_set(error, ERR_TIMEOUT, "it does not answer");
}

int upstream_read(const struct upstream_call *call, struct upstream_view *view,
		  struct err *error)
{
	const bool is_away = call->mirror->name[0] == 'd';

	if (!is_away)
		atomic_fetch_add(&script.asked[call->mirror->name[0] != 'a'], 1);
	if (atomic_exchange(&script.limits, false)) {
		view->retry_after_ms = 1;
		view->is_at_rest = atomic_load(&script.is_at_rest);
		err_set(error, ERR_NETWORK, "too many questions");
		err_because(error, REASON_RATE_LIMITED);
		return -1;
	}
	if (is_away)
		return ask_host_that_is_away(error);
	view->oid_len = 20;
	view->is_as_known = call->known && atomic_load(&script.is_as_known);
	if (view->is_as_known)
		return 0;
	fill(&view->refs);
	if (atomic_load(&script.is_other))
		view->refs.refs.items[0].oid.bytes[0] ^= 1;
	return 0;
}

static bool stands(void *arg, const char *name, const char *sum)
{
	(void)arg;
	assert_string_equal(sum, checksum);
	if (strcmp(name, "a") != 0)
		return true;
	if (atomic_fetch_add(&script.looks, 1) == 0)
		return true; /* after the question */
	while (atomic_load(&script.holds))
		usleep(1000);
	return !atomic_load(&script.is_changed);
}

/* Stands for a checkout, which is due as long as it does nothing. */
int job_run(const struct job_request *request, struct err *error)
{
	(void)error;
	assert_string_equal(request->operation, "checkout");
	atomic_store(&script.checkout_s, (int)(request->timeout_ms / 1000));
	return 0;
}

static void wake(void *arg)
{
	(void)arg;
	atomic_fetch_add(&script.wakes, 1);
}

static int make_synced(struct store_tx *tx, void *arg, struct err *error)
{
	char timeline[UPSTREAM_TIMELINE_SIZE];

	(void)arg;
	for (const struct mirror *mirror = NULL;
	     (mirror = mirrors_next(&mirrors, mirror)) != NULL;) {
		upstream_timeline(mirror, timeline);
		if (query_write(tx, error,
				"UPDATE registry SET state = 2, timeline = ?2,"
				" checksum = ?3 WHERE name = ?1",
				QUERY_TEXT(mirror->name), QUERY_TEXT(timeline),
				QUERY_TEXT(checksum)) != 0)
			return -1;
	}
	return 0;
}

#define AWAY(name)                                                                       \
	"[mirror \"" name "\"]\nurl = https://away.example.com/" name ".git\n"           \
	"interval = 12h\n"

static void read_mirrors(void)
{
	static const char text[] =
		"[mirror \"a\"]\nurl = https://example.com/a.git\n"
		"interval = 12h\n"
		"[mirror \"b\"]\nurl = https://example.com/b.git\n"
		"interval = 12h\n"
		"[mirror \"z\"]\nurl = https://example.com/z.git\n"
		"interval = 12h\ncheckout = true\n" AWAY("d0") AWAY("d1") AWAY("d2")
			AWAY("d3") AWAY("d4") AWAY("d5") AWAY("d6") AWAY("d7") AWAY("d8");
	AUTO_CONF struct conf *conf = NULL;

	assert_ok(conf_load_text("t.conf", text, strlen(text), &conf, &err));
	assert_ok(mirrors_read(conf, &mirrors, &err));
}

static int start_poll(void **state)
{
	AUTO_SNAPSHOT struct ref_snapshot refs = REF_SNAPSHOT_INIT;
	struct checksum sum;

	memset(&script, 0, sizeof(script));
	if (test_make_root(state) != 0)
		return -1;
	fill(&refs);
	checksum_of(&refs, &sum);
	checksum_format(&sum, checksum);
	checksum_grokmirror(&refs, fingerprint);
	read_mirrors();
	assert_ok(store_open("sqlite::memory:", &store, &err));
	assert_ok(credential_marks_open(store, &marks, &err));
	assert_ok(mirror_poll_start(
		&(struct mirror_poll_options){
			.store = store,
			.mirrors = &mirrors,
			.root = root,
			.marks = marks,
			.checkouts = { .store = store, .root = root, .timeout_ms = 7000 },
			.wake = wake,
			.stands = stands,
		},
		&poll, &err));
	assert_ok(store_write(store, make_synced, NULL, &err));
	return 0;
}

static int stop_poll(void **state)
{
	atomic_store(&script.holds, false);
	atomic_store(&script.is_timeless, false);
	mirror_poll_stop(TAKE(poll));
	credential_marks_close(marks);
	store_close(store);
	mirrors_clear(&mirrors);
	mirrors = (struct mirrors){ 0 };
	return test_remove_root(state);
}

static bool is_looked_at_again(void)
{
	mirror_poll_tell(poll, "a", fingerprint, "main");
	return atomic_load(&script.looks) > 1;
}

/* Asked once, after which its list's word is enough. */
static void ask_a(void)
{
	mirror_poll_tell(poll, "a", fingerprint, "main");
	mirror_poll_hurry(poll, mirrors_find(&mirrors, "a"));
	wait_until(atomic_load(&script.looks) > 0);
}

TEST(a_slow_look_at_a_clone_keeps_nobody_else_from_being_asked)
{
	int64_t checked_at, told_at;
	int looks;

	ask_a();
	told_at = clock_wall_ms();
	atomic_store(&script.holds, true);
	wait_until(is_looked_at_again());
	mirror_poll_hurry(poll, mirrors_find(&mirrors, "b"));
	wait_until(atomic_load(&script.asked[1]) > 0);
	looks = atomic_load(&script.looks);
	atomic_store(&script.holds, false);
	mirror_poll_stop(TAKE(poll));
	assert_int_equal(atomic_load(&script.looks), looks);
	assert_ok(mirror_checked_at(store, "a", &checked_at, &err));
	assert_true(checked_at >= told_at);
}

TEST(a_clone_that_was_changed_is_not_equal_whatever_a_list_tells)
{
	ask_a();
	atomic_store(&script.is_changed, true);
	wait_until(is_looked_at_again());
	wait_until(atomic_load(&script.asked[0]) > 1);
}

/* More of its mirrors are due than there are askers, and before the other. */
TEST(a_host_that_does_not_answer_keeps_no_other_from_being_asked)
{
	char name[] = "d0";
	int wakes = atomic_load(&script.wakes);

	mirror_poll_hurry(poll, mirrors_find(&mirrors, name));
	wait_until(atomic_load(&script.wakes) > wakes);
	atomic_store(&script.most_asking, 0);
	atomic_store(&script.is_timeless, true);
	while (name[1]++ < '8')
		mirror_poll_hurry(poll, mirrors_find(&mirrors, name));
	mirror_poll_hurry(poll, mirrors_find(&mirrors, "z"));
	wait_until(atomic_load(&script.asked[1]) > 0);
	wait_until(atomic_load(&script.asked_away) >= 3);
	assert_int_equal(atomic_load(&script.most_asking), 2);
}

/* The first question to the second mirror is the one that is not asked; the other goes on
 * for as long as all are looked at. */
TEST(a_host_that_does_not_answer_stays_so_when_it_was_not_asked)
{
	char name[] = "d1";

	mirror_poll_hurry(poll, mirrors_find(&mirrors, "d0"));
	wait_until(atomic_load(&script.asked_away) == 1);
	wait_until(atomic_load(&script.wakes) > 1);
	atomic_store(&script.is_timeless, true);
	atomic_store(&script.is_at_rest, true);
	atomic_store(&script.limits, true);
	mirror_poll_hurry(poll, mirrors_find(&mirrors, name));
	wait_until(atomic_load(&script.asked_away) == 2);
	while (name[1]++ < '8')
		mirror_poll_hurry(poll, mirrors_find(&mirrors, name));
	mirror_poll_hurry(poll, mirrors_find(&mirrors, "z"));
	wait_until(atomic_load(&script.asked[1]) > 0);
	wait_until(atomic_load(&script.asked_away) == 3);
	assert_int_equal(atomic_load(&script.most_asking), 2);
}

TEST(a_reload_changes_how_long_a_checkout_may_take)
{
	mirror_poll_hurry(poll, mirrors_find(&mirrors, "z"));
	wait_until(atomic_load(&script.checkout_s) == 7);
	mirror_poll_set_timeout(poll, 9000);
	mirror_poll_hurry(poll, mirrors_find(&mirrors, "z"));
	wait_until(atomic_load(&script.checkout_s) == 9);
}

static int run_sql(struct store_tx *tx, void *arg, struct err *error)
{
	return store_exec(tx, arg, error);
}

/* As when it is switched on again: what it had before waits to be removed. */
TEST(a_checkout_that_was_dropped_is_made_at_once)
{
	static char dropped[] = "INSERT INTO mirror_checkout (name, made_at, due_at,"
				" failing_since) VALUES ('z', 0, 9e12, 0)";

	assert_ok(store_write(store, run_sql, dropped, &err));
	mirror_poll_hurry(poll, mirrors_find(&mirrors, "z"));
	wait_until(atomic_load(&script.checkout_s) == 7);
}

TEST(news_whose_question_was_one_too_many_is_asked_after_again)
{
	atomic_store(&script.limits, true);
	mirror_poll_hurry(poll, mirrors_find(&mirrors, "b"));
	wait_until(atomic_load(&script.asked[1]) == 2);
}

TEST(news_that_comes_while_the_host_rests_is_asked_after_when_that_is_over)
{
	atomic_store(&script.is_at_rest, true);
	atomic_store(&script.limits, true);
	mirror_poll_hurry(poll, mirrors_find(&mirrors, "b"));
	wait_until(atomic_load(&script.asked[1]) == 2);
}

/* That poll alone waits until the host's other mirrors had theirs. */
TEST(news_that_comes_after_a_poll_of_a_resting_host_is_asked_after_at_once)
{
	ask_a();
	atomic_store(&script.is_at_rest, true);
	atomic_store(&script.limits, true);
	atomic_store(&script.is_changed, true);
	wait_until(is_looked_at_again());
	wait_until(atomic_load(&script.asked[0]) == 2);
	mirror_poll_hurry(poll, mirrors_find(&mirrors, "a"));
	wait_until(atomic_load(&script.asked[0]) == 3);
}

static bool has_content(const char *name)
{
	struct stat st;

	return fstatat(root_fd, name, &st, 0) == 0 && st.st_size > 0;
}

TEST(news_outlives_a_database_that_fails_just_then)
{
	static char away[] = "ALTER TABLE registry RENAME TO away";
	static char back[] = "ALTER TABLE away RENAME TO registry";
	AUTO_CLOSE int before = dup(STDERR_FILENO);
	AUTO_CLOSE int log = openat(root_fd, "log", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_ok(store_write(store, run_sql, away, &err));
	dup2(log, STDERR_FILENO);
	log_set_level(LOG_LEVEL_ERROR);
	mirror_poll_hurry(poll, mirrors_find(&mirrors, "b"));
	for (int i = 0; i < 5000 && !has_content("log"); i++)
		usleep(2000);
	log_set_level(LOG_LEVEL_NONE);
	dup2(before, STDERR_FILENO);
	assert_true(has_content("log"));
	assert_ok(store_write(store, run_sql, back, &err));
	wait_until(atomic_load(&script.asked[1]) > 0);
}

static void hurry_b(void)
{
	mirror_poll_hurry(poll, mirrors_find(&mirrors, "b"));
}

/* Whether its row waits for a job now. */
static bool is_to_be_brought(void)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	assert_ok(registry_get(store, KIND_MIRROR, "b", &row, &err));
	return row.state == REGISTRY_PENDING && !row.held_reason && row.due_at > 0;
}

static bool is_asked_more_than(int before)
{
	return atomic_load(&script.asked[1]) > before;
}

/* Nothing is to be brought for two questions in a row, of which the second begins when
 * the first has ended. */
static void is_asked_in_vain(void)
{
	for (int i = 0; i < 2; i++) {
		int before = atomic_load(&script.asked[1]);
		hurry_b();
		wait_until(is_asked_more_than(before));
	}
	assert_false(is_to_be_brought());
}

TEST(one_that_is_held_is_decided_on_again_when_its_upstream_changes)
{
	static char held[] = "UPDATE registry SET state = 0, due_at = NULL,"
			     " held_reason = 'why' WHERE name = 'b'";

	atomic_store(&script.is_other, true);
	assert_ok(store_write(store, run_sql, held, &err));
	hurry_b();
	wait_until(is_to_be_brought());
	assert_ok(store_write(store, run_sql, held, &err));
	is_asked_in_vain();
	atomic_store(&script.is_other, false);
	hurry_b();
	wait_until(is_to_be_brought());
}

/* A job has brought what was seen; a person's met something else, which is undone. */
TEST(one_that_is_held_since_is_decided_on_again_by_what_was_brought_before)
{
	static char held[] = "UPDATE registry SET state = 0, due_at = NULL,"
			     " last_success_at = 1, held_reason = 'why'"
			     " WHERE name = 'b'";

	atomic_store(&script.is_other, true);
	hurry_b();
	wait_until(is_to_be_brought());
	assert_ok(store_write(store, run_sql, held, &err));
	hurry_b();
	wait_until(is_to_be_brought());
	assert_ok(store_write(store, run_sql, held, &err));
	is_asked_in_vain();
}

TEST(one_that_is_held_after_a_failure_is_decided_on_again)
{
	static char failed[] = "UPDATE registry SET state = 3, due_at = 9e12,"
			       " retry_at = 9e12 WHERE name = 'b'";
	static char held[] = "UPDATE registry SET state = 0, due_at = NULL,"
			     " held_reason = 'why' WHERE name = 'b'";
	char *const states[] = { failed, held };

	atomic_store(&script.is_other, true);
	hurry_b();
	wait_until(is_to_be_brought());
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		assert_ok(store_write(store, run_sql, states[i], &err));
		hurry_b();
		wait_until(is_to_be_brought());
	}
}

/* Its clone was changed, not the upstream. */
TEST(one_that_is_held_stays_so_while_its_upstream_is_as_known)
{
	static char held[] = "UPDATE registry SET state = 0, due_at = NULL,"
			     " held_reason = 'why' WHERE name = 'b'";

	is_asked_in_vain();
	atomic_store(&script.is_as_known, true);
	assert_ok(store_write(store, run_sql, held, &err));
	hurry_b();
	wait_until(is_to_be_brought());
	assert_ok(store_write(store, run_sql, held, &err));
	is_asked_in_vain();
}

TEST(one_that_is_held_stays_so_while_its_upstream_does_not_answer)
{
	static char held[] = "UPDATE registry SET state = 0, due_at = NULL,"
			     " held_reason = 'why' WHERE name = 'd0'";
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	assert_ok(store_write(store, run_sql, held, &err));
	for (int before = 0; before < 2; before++) {
		mirror_poll_hurry(poll, mirrors_find(&mirrors, "d0"));
		wait_until(atomic_load(&script.asked_away) > before);
	}
	assert_ok(registry_get(store, KIND_MIRROR, "d0", &row, &err));
	assert_string_equal(row.held_reason, "why");
}

TEST(news_of_one_that_waits_for_a_retry_has_it_tried_now)
{
	static char failed[] = "UPDATE registry SET state = 3, due_at = 9e12,"
			       " retry_at = 9e12 WHERE name = 'b'";
	static char missing[] = "UPDATE registry SET state = 4, due_at = 9e12,"
				" retry_at = 9e12 WHERE name = 'b'";
	char *const states[] = { failed, missing };

	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		assert_ok(store_write(store, run_sql, states[i], &err));
		assert_false(is_to_be_brought());
		hurry_b();
		wait_until(is_to_be_brought());
	}
}

/* Each look has its working tree looked after, too; the second begins when the first has
 * ended. */
static void is_not_tried(char *failed)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	assert_ok(store_write(store, run_sql, failed, &err));
	for (int i = 0; i < 2; i++) {
		atomic_store(&script.checkout_s, 0);
		mirror_poll_hurry(poll, mirrors_find(&mirrors, "z"));
		wait_until(atomic_load(&script.checkout_s) == 7);
	}
	assert_ok(registry_get(store, KIND_MIRROR, "z", &row, &err));
	assert_int_equal(row.state, REGISTRY_FAILED);
}

#define FAILED(reason)                                                                   \
	"UPDATE registry SET state = 3, due_at = 9e12, retry_at = 9e12,"                 \
	" failure_reason = '" reason "', last_success_at = 1 WHERE name = 'z'"

TEST(news_does_not_help_one_whose_upstream_wants_rest_or_is_too_large)
{
	static char limited[] = FAILED("rate_limited"), large[] = FAILED("too_large");

	is_not_tried(limited);
	is_not_tried(large);
}

#define POLL_CASE(name) cmocka_unit_test_setup_teardown(name, start_poll, stop_poll)

int main(void)
{
	const struct CMUnitTest tests[] = {
		POLL_CASE(a_slow_look_at_a_clone_keeps_nobody_else_from_being_asked),
		POLL_CASE(a_clone_that_was_changed_is_not_equal_whatever_a_list_tells),
		POLL_CASE(a_host_that_does_not_answer_keeps_no_other_from_being_asked),
		POLL_CASE(a_host_that_does_not_answer_stays_so_when_it_was_not_asked),
		POLL_CASE(a_reload_changes_how_long_a_checkout_may_take),
		POLL_CASE(a_checkout_that_was_dropped_is_made_at_once),
		POLL_CASE(news_whose_question_was_one_too_many_is_asked_after_again),
		POLL_CASE(
			news_that_comes_while_the_host_rests_is_asked_after_when_that_is_over),
		POLL_CASE(
			news_that_comes_after_a_poll_of_a_resting_host_is_asked_after_at_once),
		POLL_CASE(news_outlives_a_database_that_fails_just_then),
		POLL_CASE(one_that_is_held_is_decided_on_again_when_its_upstream_changes),
		POLL_CASE(
			one_that_is_held_since_is_decided_on_again_by_what_was_brought_before),
		POLL_CASE(one_that_is_held_after_a_failure_is_decided_on_again),
		POLL_CASE(one_that_is_held_stays_so_while_its_upstream_is_as_known),
		POLL_CASE(one_that_is_held_stays_so_while_its_upstream_does_not_answer),
		POLL_CASE(news_of_one_that_waits_for_a_retry_has_it_tried_now),
		POLL_CASE(
			news_does_not_help_one_whose_upstream_wants_rest_or_is_too_large),
	};

	log_set_level(LOG_LEVEL_NONE);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
