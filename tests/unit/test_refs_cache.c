/*
 * Real repositories and threads; answers are compared with git's own at that moment.
 */
#include "refs_cache_test.h"

#include <sys/inotify.h>
#include <sys/syscall.h>

#include "base/clock.h"

#define MANY_REFS 20000
#define SERVICE_LEN 34

/* Stands before the C library's. */
static bool may_watch = true;
int inotify_init1(int flags)
{
	if (may_watch)
		return (int)syscall(SYS_inotify_init1, flags);
	errno = EMFILE;
	return -1;
}

static void make_many_refs(void)
{
	AUTO_STR struct str text = STR_INIT;
	char oid[OID_MAX_TEXT];

	for (int i = 0; i < MANY_REFS; i++)
		str_addf(&text, "%s refs/heads/b%06d\n",
			 oid_text(&commits[i % COMMITS], oid), i);
	write_text("packed-refs", text.data);
}

static void make_another(const char *name)
{
	must("cp -r r.git %s.git", name);
}

TEST(the_first_answer_is_gits_own_and_the_next_a_hit)
{
	int misses = counted("miss"), hits = counted("hit");

	assert_true_answer("r");
	assert_int_equal(counted("miss"), misses + 1);
	for (int i = 0; i < 3; i++)
		assert_true_answer("r");
	assert_int_equal(counted("hit"), hits + 3);
	assert_int_equal(runs(), 1);
}

TEST(a_repository_that_is_not_there_takes_no_room)
{
	struct refs_answer answer;

	assert_fails(get("none", &answer), ERR_MISSING);
	assert_int_equal(cache->by_name.count, 0);
	assert_true_answer("r");
	must("rm -r r.git");
	assert_fails(get("r", &answer), ERR_MISSING);
}

/* Waits until the flights' threads are through with what they do afterwards. */
static void wait_for_flights(void)
{
	lock(&cache->mutex);
	while (cache->flying > 0)
		cond_wait_until(&cache->landed, &cache->mutex, INT64_MAX);
	unlock(&cache->mutex);
}

TEST(a_restart_finds_generations_on_disk_but_not_those_of_old_refs)
{
	int found = counted("disk");

	assert_true_answer("r");
	wait_for_flights();
	close_cache();
	open_cache();
	assert_true_answer("r");
	assert_int_equal(counted("disk"), found + 1);
	assert_int_equal(runs(), 1);
	close_cache();
	set_ref("refs/heads/main", &commits[10]);
	open_cache();
	assert_true_answer("r");
	assert_int_equal(runs(), 2);
}

TEST(without_a_disk_answers_come_from_memory)
{
	close_cache();
	must("rm -rf cache && : >cache");
	open_cache();
	assert_true_answer("r");
	assert_true_answer("r");
	wait_for_flights();
	assert_int_equal(runs(), 1);
}

/* Threads that ask once. */
#define HERD 50
struct asker {
	pthread_t thread;
	const char *name;
	struct stop *stop;
	int result;
	struct refs_answer answer;
	struct err err;
};
static struct asker askers[HERD];

static void *ask(void *arg)
{
	struct asker *asker = arg;

	asker->result = refs_cache_get(cache,
				       &(struct refs_request){ .name = asker->name,
							       .kind = REFS_INFO,
							       .stop = asker->stop },
				       &asker->answer, &asker->err);
	return NULL;
}

static void start_askers(size_t count)
{
	for (size_t i = 0; i < count; i++) {
		askers[i] = (struct asker){ .name = "r", .stop = &leave };
		thread_start(&askers[i].thread, "asker", ask, &askers[i]);
	}
}

static void join_askers(size_t count)
{
	for (size_t i = 0; i < count; i++)
		thread_join(askers[i].thread);
}

TEST(fifty_who_come_at_once_start_git_once)
{
	int shared = counted("shared"), hits = counted("hit"), misses = counted("miss");

	make_many_refs();
	start_askers(HERD);
	join_askers(HERD);
	AUTO_FREE char *wanted = truth("r");
	for (size_t i = 0; i < HERD; i++) {
		assert_int_equal(askers[i].result, 0);
		AUTO_FREE char *found = text_of_generation(askers[i].answer.generation);
		assert_string_equal(found, wanted);
		refs_answer_clear(&askers[i].answer);
	}
	assert_int_equal(runs(), 1);
	assert_int_equal(counted("miss"), misses + 1);
	assert_int_equal(counted("shared") + counted("hit"), shared + hits + HERD - 1);
}

static void change_within_a_bracket(void)
{
	struct lock_owner writer;

	assert_ok(state_begin(repo_fd, &writer, &err));
	set_ref("refs/heads/main", &commits[20]);
	assert_ok(state_end(&writer, &err));
}

/* Every kind of change is seen by whoever asks after it. */
static void assert_changes_are_seen(void)
{
	static const char *const changes[] = {
		"git -C r.git update-ref refs/heads/main $C",
		"git -C r.git branch topic/a $C",
		"git -C r.git branch topic/b $C",
		"git -C r.git pack-refs --all --prune",
		"git -C r.git update-ref refs/heads/main $C~3",
		"git -C r.git update-ref -d refs/heads/topic/a",
		"git -C r.git symbolic-ref HEAD refs/heads/topic/b",
		"git -C r.git config uploadpack.hideRefs refs/tags",
		"printf %s\\\\n $C | dd conv=notrunc status=none "
		"of=r.git/refs/heads/main",
		"git clone -q --bare r.git s.git && "
		"mv r.git t.git && mv s.git r.git && git -C r.git branch z $C",
		"git -C r.git update-ref --no-deref HEAD $C",
	};
	char oid[OID_MAX_TEXT];

	oid_text(&commits[40], oid);
	assert_true_answer("r");
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		must("C=%s; PATH='%s' && %s", oid, usual_path, changes[i]);
		assert_true_answer("r");
		assert_true_answer("r");
	}
}

TEST(whoever_asks_after_a_change_sees_it)
{
	assert_true_answer("r");
	change_within_a_bracket();
	assert_true_answer("r");
	assert_changes_are_seen();
}

TEST(without_a_watch_too_whoever_asks_after_a_change_sees_it)
{
	close_cache();
	may_watch = false;
	open_cache();
	may_watch = true;
	int hits = counted("hit");
	assert_true_answer("r");
	assert_true_answer("r");
	assert_int_equal(counted("hit"), hits + 1);
	change_within_a_bracket();
	assert_true_answer("r");
	assert_changes_are_seen();
}

TEST(while_a_write_is_pending_git_itself_answers)
{
	struct refs_answer answer;
	struct lock_owner writer;
	int bypassed = counted("bypass_pending");

	make_another("other");
	assert_true_answer("r");
	assert_true_answer("other");
	assert_ok(state_begin(repo_fd, &writer, &err));
	set_ref("refs/heads/main", &commits[20]);
	assert_ok(get("r", &answer));
	assert_null(answer.generation);
	assert_int_equal(answer.bypass, BYPASS_PENDING);
	assert_true(text_ends_with(answer.path, "/r.git"));
	refs_answer_clear(&answer);
	assert_int_equal(counted("bypass_pending"), bypassed + 1);
	assert_true_answer("other");
	assert_int_equal(runs(), 2);
	assert_ok(state_end(&writer, &err));
	assert_true_answer("r");
}

static void move_with_each_answer(void)
{
	AUTO_FREE char *moves =
		xasprintf("PATH='%s'; n=$(cat n); echo $((n + 1)) >n; "
			  "git update-ref refs/tags/moved $(echo $n | git hash-object -w "
			  "--stdin)\n",
			  usual_path);

	must("echo 1 >r.git/n");
	assert_ok(
		file_replace(root_fd, "moves", moves, strlen(moves), FILE_NO_SYNC, &err));
}

TEST(a_repository_that_moves_while_git_reads_is_left_to_git)
{
	struct refs_answer answer;

	move_with_each_answer();
	assert_ok(get("r", &answer));
	assert_null(answer.generation);
	assert_int_equal(answer.bypass, BYPASS_MOVING);
	refs_answer_clear(&answer);
	assert_int_equal(runs(), 3);
	must("rm moves");
	assert_true_answer("r");
}

TEST(when_git_fails_all_who_follow_hear_of_it_and_the_next_try_is_a_new_one)
{
	must(": >fail");
	start_askers(8);
	join_askers(8);
	for (size_t i = 0; i < 8; i++) {
		assert_int_equal(askers[i].result, -1);
		assert_non_null(strstr(askers[i].err.text, "no"));
	}
	int failed = runs();
	must("rm fail");
	assert_true_answer("r");
	assert_int_equal(runs(), failed + 1);
}

static void fail_thrice(void)
{
	struct refs_answer answer;

	must(": >fail");
	for (int i = 0; i < 3; i++)
		assert_int_equal(get("r", &answer), -1);
	must("rm fail");
}

static void log_failures(void)
{
	int saved = dup(STDERR_FILENO);
	AUTO_CLOSE int fd =
		openat(root_fd, "stderr", O_WRONLY | O_CREAT | O_APPEND, 0600);

	assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
	log_set_level(LOG_LEVEL_WARN);
	fail_thrice();
	log_set_level(LOG_LEVEL_NONE);
	assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	close(saved);
}

TEST(a_failure_is_logged_once_until_the_repository_is_well_again)
{
	log_failures();
	must("test $(grep -c 'ev=refs.failed repo=r ' stderr) = 1");
	assert_true_answer("r");
	set_ref("refs/heads/main", &commits[11]);
	log_failures();
	must("test $(grep -c 'ev=refs.failed repo=r ' stderr) = 2");
}

TEST(a_broken_ref_that_git_can_live_with_keeps_no_answer_from_memory)
{
	must("echo garbage >r.git/refs/heads/broken");
	assert_true_answer("r");
	assert_true_answer("r");
	assert_int_equal(runs(), 1);
}

/* As a git to come might have more to say. */
TEST(what_git_says_that_is_not_understood_is_left_to_git)
{
	struct refs_answer answer;

	must("echo 'printf 0000' >moves");
	for (int i = 0; i < 2; i++) {
		assert_ok(get("r", &answer));
		assert_int_equal(answer.bypass, BYPASS_UNREADABLE);
		assert_true(text_ends_with(answer.path, "/r.git"));
		refs_answer_clear(&answer);
	}
	must("rm moves");
	assert_true_answer("r");
}

static void wait_for(const char *condition)
{
	for (int i = 0; run("%s", condition) != 0; i++) {
		if (i > 1000)
			fail_msg("never: %s", condition);
		usleep(10000);
	}
}

TEST(one_who_leaves_hurts_nobody_who_stays)
{
	struct stop stay;

	stop_init(&stay);
	must(": >slow");
	start_askers(1);
	wait_for("test -n \"$(cat all.* 2>/dev/null)\"");
	askers[1] = (struct asker){ .name = "r", .stop = &stay };
	thread_start(&askers[1].thread, "asker", ask, &askers[1]);
	stop_request(&leave);
	thread_join(askers[0].thread);
	assert_int_equal(askers[0].result, -1);
	assert_int_equal(askers[0].err.class, ERR_CANCELED);
	must("rm slow");
	thread_join(askers[1].thread);
	assert_int_equal(askers[1].result, 0);
	assert_non_null(askers[1].answer.generation);
	refs_answer_clear(&askers[1].answer);
	assert_int_equal(runs(), 1);
	stop_clear(&stay);
}

static void get_growing(struct refs_answer *answer)
{
	assert_ok(refs_cache_get(cache,
				 &(struct refs_request){ .name = "r",
							 .kind = REFS_INFO,
							 .may_stream = true,
							 .stop = &leave },
				 answer, &err));
	assert_non_null(answer->growing);
}

/* Reads on until there are so many bytes; what the last read gave. */
static ssize_t read_growing(struct refs_answer *answer, size_t len, struct str *found)
{
	char buffer[1000];
	ssize_t got = 1;

	while (found->len < len && got > 0) {
		got = refs_flight_read(answer->growing, found->len, buffer,
				       sizeof(buffer), &leave);
		if (got > 0)
			str_add_bytes(found, buffer, (size_t)got);
	}
	return got;
}

TEST(what_grows_slowly_is_read_while_it_grows)
{
	AUTO_STR struct str found = STR_INIT;
	struct refs_answer answer;

	make_many_refs();
	must(": >slow");
	get_growing(&answer);
	assert_true(read_growing(&answer, 5000, &found) > 0);
	assert_int_equal(found.len, 5000);
	must("rm slow");
	assert_int_equal(read_growing(&answer, SIZE_MAX, &found), 0);
	refs_answer_clear(&answer);

	AUTO_FREE char *wanted = truth("r");
	AUTO_FREE char *text = as_text(found.data, found.len);
	assert_string_equal(text, wanted + SERVICE_LEN);
	assert_true_answer("r");
	assert_int_equal(runs(), 1);
}

TEST(what_git_does_not_end_breaks_off)
{
	AUTO_STR struct str found = STR_INIT;
	struct refs_answer answer;

	make_many_refs();
	must(": >slow && : >break");
	get_growing(&answer);
	assert_true(read_growing(&answer, 5000, &found) > 0);
	must("rm slow");
	assert_int_equal(read_growing(&answer, SIZE_MAX, &found), -1);
	refs_answer_clear(&answer);
	must("rm break");
	assert_true_answer("r");
}

TEST(what_grows_while_the_repository_moves_is_what_git_says_and_is_not_kept)
{
	AUTO_STR struct str found = STR_INIT;
	struct refs_answer answer;

	make_many_refs();
	must(": >slow");
	get_growing(&answer);
	set_ref("refs/heads/main", &commits[30]);
	must("rm slow");
	assert_int_equal(read_growing(&answer, SIZE_MAX, &found), 0);
	refs_answer_clear(&answer);
	assert_memory_equal(found.data + found.len - 4, "0000", 4);
	assert_true_answer("r");
	assert_int_equal(runs(), 2);
}

TEST(the_cache_can_be_closed_while_git_reads)
{
	must(": >slow");
	start_askers(1);
	wait_for("test -n \"$(cat all.* 2>/dev/null)\"");
	stop_request(&leave);
	join_askers(1);
	int64_t began = clock_boot_ms();
	close_cache();
	assert_true(clock_boot_ms() - began < 30000);
}

/* Whether asking for it takes no flight. */
static bool is_in_memory(const char *name)
{
	int hits = counted("hit");

	assert_true_answer(name);
	return counted("hit") == hits + 1;
}

TEST(memory_is_bounded_and_the_least_recently_used_go_first)
{
	make_many_refs();
	make_another("s");
	make_another("t");
	assert_true_answer("r");
	wait_for_flights();
	settings.memory = 5 * cache->memory / 2; /* for two */
	refs_cache_set(cache, &settings);
	assert_true_answer("s");
	assert_true(is_in_memory("r"));
	assert_true_answer("t");
	wait_for_flights();
	assert_true(cache->memory <= settings.memory);
	assert_int_equal(cache->stands, 2);
	assert_true(is_in_memory("r"));
	assert_true(is_in_memory("t"));
	assert_false(is_in_memory("s"));
	settings.memory = 1000; /* for none */
	refs_cache_set(cache, &settings);
	assert_int_equal(cache->memory, 0);
	assert_true_answer("r");
	wait_for_flights();
	assert_int_equal(cache->memory, 0);
}

TEST(sweeping_keeps_what_was_asked_for_lately)
{
	assert_true_answer("r");
	wait_for_flights();
	refs_cache_sweep(cache, &leave);
	assert_true(is_in_memory("r"));
	wait_for_flights();
	lock(&cache->mutex);
	TAILQ_FIRST(&cache->used)->asked_ms -= 11 * 60 * 1000;
	unlock(&cache->mutex);
	refs_cache_sweep(cache, &leave);
	assert_int_equal(cache->by_name.count, 0);
	assert_int_equal(cache->memory, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		REFS_CASE(the_first_answer_is_gits_own_and_the_next_a_hit),
		REFS_CASE(a_repository_that_is_not_there_takes_no_room),
		REFS_CASE(a_restart_finds_generations_on_disk_but_not_those_of_old_refs),
		REFS_CASE(without_a_disk_answers_come_from_memory),
		REFS_CASE(fifty_who_come_at_once_start_git_once),
		REFS_CASE(whoever_asks_after_a_change_sees_it),
		REFS_CASE(without_a_watch_too_whoever_asks_after_a_change_sees_it),
		REFS_CASE(while_a_write_is_pending_git_itself_answers),
		REFS_CASE(a_repository_that_moves_while_git_reads_is_left_to_git),
		REFS_CASE(
			when_git_fails_all_who_follow_hear_of_it_and_the_next_try_is_a_new_one),
		REFS_CASE(a_failure_is_logged_once_until_the_repository_is_well_again),
		REFS_CASE(
			a_broken_ref_that_git_can_live_with_keeps_no_answer_from_memory),
		REFS_CASE(what_git_says_that_is_not_understood_is_left_to_git),
		REFS_CASE(one_who_leaves_hurts_nobody_who_stays),
		REFS_CASE(what_grows_slowly_is_read_while_it_grows),
		REFS_CASE(what_git_does_not_end_breaks_off),
		REFS_CASE(
			what_grows_while_the_repository_moves_is_what_git_says_and_is_not_kept),
		REFS_CASE(the_cache_can_be_closed_while_git_reads),
		REFS_CASE(memory_is_bounded_and_the_least_recently_used_go_first),
		REFS_CASE(sweeping_keeps_what_was_asked_for_lately),
	};

	test_free_children();
	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
