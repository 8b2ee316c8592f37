/*
 * Pushing by HTTP without git, to git http-backend behind tests/unit/git_server.py, which
 * tells us whatever a test wants while it serves git well: what git then does has to make
 * all right.
 */
#include "push_history_test.h"

#include <sys/syscall.h>

#include "base/deadline.h"

static pid_t server;
static atomic_int ahead_ms; /* how far the clock that limits go by is set forward */

/* Stands before the C library's. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
	if (syscall(SYS_clock_gettime, clock, now) != 0)
		return -1;
	if (clock == CLOCK_BOOTTIME)
		now->tv_sec += atomic_load(&ahead_ms) / 1000;
	return 0;
}

static char user[] = "robot", password[] = "c4nary;p\"w";

static void write_mode(const char *mode)
{
	assert_ok(file_replace(root_fd, "mode", mode, strlen(mode), FILE_NO_SYNC, &err));
}

static int make_http(void **state)
{
	AUTO_FREE char *port = NULL, *to = NULL;

	if (make_push(state) != 0)
		return -1;
	setenv("SERVER_ROOT", root, 1);
	write_mode("");
	must("mkfifo port");
	server = start_shell("exec python3 \"$GIT_SERVER\" \"$SERVER_ROOT\"");
	port = output_of("cat port");
	to = xasprintf("http://127.0.0.1:%d/dst.git", atoi(port));
	set_url(URL_HTTP, to);
	url.user = user;
	url.password = password;
	remote.silence_ms = 20000;
	return 0;
}

static int clear_http(void **state)
{
	kill(server, SIGKILL);
	wait_end(server);
	return clear_push(state);
}

#define HTTP_CASE(name) cmocka_unit_test_setup_teardown(name, make_http, clear_http)

/* How many requests there were since the last time. */
static void assert_requests(int gets, int posts)
{
	AUTO_FREE char *wanted = xasprintf("%d %d\n", gets, posts);
	AUTO_FREE char *found = output_of("echo $(grep -c ^GET asked) "
					  "$(grep -c ^POST asked); rm -f asked");

	assert_string_equal(found, wanted);
}

TEST(refs_are_made_and_moved_forward_without_git)
{
	set_refs("refs/heads/main=3 refs/heads/x/y=4 refs/tags/v=t1");
	assert_ok(push("refs/heads/main refs/heads/x/y refs/tags/v"));
	assert_by_git(false);
	assert_requests(1, 1);
	assert_arrived("refs/heads/main=3 refs/heads/x/y=4 refs/tags/v=t1");
	assert_int_equal(result.pushes, 1);
	assert_int_equal(result.refs.count, 3);
	assert_true(result.sent_bytes > 0);
	assert_status("refs/tags/v", REF_OK);
	assert_sound();
	set_refs("refs/heads/main=9 refs/heads/x/y=4 refs/tags/v=t1");
	assert_ok(push("refs/heads/main refs/heads/x/y refs/tags/v"));
	assert_by_git(false);
	assert_status("refs/heads/main", REF_OK);
	assert_status("refs/heads/x/y", REF_UP_TO_DATE);
	assert_arrived("refs/heads/main=9 refs/heads/x/y=4 refs/tags/v=t1");
	assert_requests(1, 1);
	assert_ok(push("refs/heads/main"));
	assert_by_git(false);
	assert_requests(1, 0);
	assert_int_equal(result.pushes, 0);
	assert_sound();
}

TEST(a_full_push_asks_once_if_nothing_is_to_be_done)
{
	must("rm dst.git/objects/info/alternates");
	set_refs("refs/heads/main=3 refs/tags/v=t1");
	assert_ok(push(TASK_ALL_REFS));
	assert_by_git(false);
	assert_requests(2, 1);
	add_own_commit();
	assert_ok(push(TASK_ALL_REFS));
	assert_by_git(false);
	assert_int_equal(result.refs.count, 1);
	assert_own_commit_arrived();
	assert_requests(2, 1);
	assert_ok(push(TASK_ALL_REFS));
	assert_by_git(false);
	assert_int_equal(result.refs.count, 0);
	assert_requests(1, 0);
	assert_sound();
}

TEST(both_requests_have_the_password)
{
	set_refs("refs/heads/main=3");
	assert_ok(push("refs/heads/main"));
	AUTO_FREE char *asked = output_of("cat asked");
	assert_string_equal(asked, "GET Basic cm9ib3Q6YzRuYXJ5O3Aidw==\n"
				   "POST Basic cm9ib3Q6YzRuYXJ5O3Aidw==\n");
}

TEST(what_goes_back_is_forced_by_a_plus_only)
{
	set_refs("refs/heads/main=9 refs/tags/v=t1");
	assert_ok(push(TASK_ALL_REFS));
	set_refs("refs/heads/main=3 refs/heads/x=4 refs/tags/v=t2");
	assert_ok(push("refs/heads/main refs/heads/x refs/tags/v"));
	assert_by_git(true);
	assert_status("refs/heads/main", REF_REJECTED_NONFASTFORWARD);
	assert_true(result_of("refs/tags/v")->text != NULL);
	assert_status("refs/heads/x", REF_OK);
	assert_arrived("refs/heads/main=9 refs/heads/x=4 refs/tags/v=t1");
	set_spec("refs/*", "refs/*", true);
	assert_ok(push("refs/heads/main refs/heads/x refs/tags/v"));
	assert_by_git(false);
	assert_status("refs/heads/main", REF_OK);
	assert_arrived("refs/heads/main=3 refs/heads/x=4 refs/tags/v=t2");
	assert_sound();
}

TEST(deletions_are_gits_and_the_others_go)
{
	remote.mirrors = true;
	set_refs("refs/heads/a=1 refs/heads/b=2");
	assert_ok(push(TASK_ALL_REFS));
	assert_by_git(false);
	set_refs("refs/heads/a=3 refs/heads/c=4");
	assert_ok(push(TASK_ALL_REFS));
	assert_by_git(true);
	assert_status("refs/heads/b", REF_OK);
	assert_arrived("refs/heads/a=3 refs/heads/c=4");
	set_refs("refs/heads/c=4");
	assert_ok(push("refs/heads/a refs/heads/c"));
	assert_by_git(true);
	assert_arrived("refs/heads/c=4");
}

TEST(what_is_hidden_from_pushes_only_is_gits)
{
	set_refs("refs/heads/main=3 refs/hidden/x=4");
	assert_ok(push(TASK_ALL_REFS));
	must("git -C dst.git config receive.hideRefs refs/hidden");
	assert_ok(push(TASK_ALL_REFS));
	assert_by_git(false);
	assert_int_equal(result.refs.count, 0);
	set_refs("refs/heads/main=5 refs/hidden/x=4");
	assert_ok(push(TASK_ALL_REFS));
	assert_by_git(false);
	assert_int_equal(result.refs.count, 1);
	set_refs("refs/heads/main=6 refs/hidden/x=7");
	assert_ok(push(TASK_ALL_REFS));
	assert_by_git(true);
	assert_status("refs/heads/main", REF_OK);
	assert_false(ref_status_is_good(result_of("refs/hidden/x")->status));
	assert_arrived("refs/heads/main=6 refs/hidden/x=4");
}

TEST(what_a_hook_refuses_git_tells_in_its_own_words)
{
	set_refs("refs/heads/a=1 refs/heads/b=2");
	set_hook("update", "echo \"not $1\" >&2; test $1 = refs/heads/a");
	assert_ok(push("refs/heads/a refs/heads/b"));
	assert_by_git(true);
	assert_status("refs/heads/a", REF_OK);
	assert_status("refs/heads/b", REF_REJECTED_OTHER_REASON);
	assert_non_null(strstr(result_of("refs/heads/b")->text, "hook declined"));
	assert_arrived("refs/heads/a=1");
	must("rm dst.git/hooks/update");
	set_hook("pre-receive", "exit 1");
	set_refs("refs/heads/a=3");
	assert_ok(push("refs/heads/a"));
	assert_by_git(true);
	assert_non_null(strstr(result_of("refs/heads/a")->text, "pre-receive"));
	assert_arrived("refs/heads/a=1");
	must("rm dst.git/hooks/pre-receive");
	set_hook("post-receive", "echo much to say; echo more >&2; cat >>told; exit 1");
	assert_ok(push("refs/heads/a"));
	assert_by_git(false);
	assert_arrived("refs/heads/a=3");
	must("test $(wc -l <dst.git/told) = 1");
}

/* By a hook, which the first push lets another one in. */
TEST(what_was_moved_meanwhile_stays)
{
	set_refs("refs/heads/main=3");
	assert_ok(push("refs/heads/main"));
	set_hook("pre-receive",
		 "if [ ! -e once ]; then touch once; unset GIT_QUARANTINE_PATH; "
		 "git update-ref refs/heads/main "
		 "$(git -c user.name=A -c user.email=a@b commit-tree -m theirs -p main "
		 "main^{tree}) || echo $? >failed; fi");
	set_refs("refs/heads/main=9");
	assert_ok(push("refs/heads/main"));
	assert_by_git(true);
	assert_status("refs/heads/main", REF_REJECTED_NONFASTFORWARD);
	must("test ! -e dst.git/failed && test $(git -C dst.git log -1 --format=%%s "
	     "main) = theirs");
}

/* A full push lists what it may change after our refs were read. */
TEST(what_was_moved_between_the_lists_is_gits)
{
	char text[OID_MAX_TEXT];

	set_spec("refs/*", "refs/*", true);
	set_refs("refs/heads/main=3 refs/heads/x=4");
	assert_ok(push(TASK_ALL_REFS));
	set_refs("refs/heads/main=2 refs/heads/x=5");
	must("echo git -C $SERVER_ROOT/dst.git update-ref refs/heads/main %s >meanwhile",
	     oid_text(&commits[9], text));
	assert_ok(push(TASK_ALL_REFS));
	must("test ! -e meanwhile");
	assert_by_git(true);
	assert_status("refs/heads/main", REF_OK);
	assert_arrived("refs/heads/main=2 refs/heads/x=5");
	must("echo git -C $SERVER_ROOT/dst.git update-ref refs/heads/x %s >meanwhile",
	     oid_text(&commits[9], text));
	set_refs("refs/heads/main=1 refs/heads/x=5");
	assert_ok(push(TASK_ALL_REFS));
	assert_by_git(false);
	assert_arrived("refs/heads/main=1 refs/heads/x=9");
}

TEST(a_locked_ref_is_gits_and_the_others_go)
{
	set_refs("refs/heads/a=1 refs/heads/b=2");
	must("mkdir -p dst.git/refs/heads && touch dst.git/refs/heads/a.lock");
	assert_ok(push("refs/heads/a refs/heads/b"));
	assert_by_git(true);
	assert_true(result_of("refs/heads/a")->is_lock);
	assert_status("refs/heads/b", REF_OK);
	must("rm dst.git/refs/heads/a.lock");
	assert_arrived("refs/heads/b=2");
}

TEST(very_many_objects_and_a_branch_of_a_tree_are_gits)
{
	must("cd r.git && echo $(git -C %s rev-parse main^{tree}) >refs/heads/t",
	     store_path);
	assert_ok(push("refs/heads/t"));
	assert_by_git(true);
	assert_status("refs/heads/t", REF_REJECTED_OTHER_REASON);
	must(HASH_LINES
	     "cd r.git && t=$(seq 150 | hash_lines | "
	     "awk '{ print \"100644 blob \" $1 \"\\tf\" NR }' | git mktree) && "
	     "git update-ref refs/heads/main $(git commit-tree -m 1 $t)");
	assert_ok(push("refs/heads/main"));
	assert_by_git(true);
	assert_status("refs/heads/main", REF_OK);
	assert_sound();
}

TEST(sha256_what_is_shallow_and_who_wants_signatures_are_gits)
{
	must("git -C dst.git config receive.certNonceSeed seed");
	set_refs("refs/heads/main=3");
	assert_ok(push("refs/heads/main"));
	assert_by_git(true);
	assert_arrived("refs/heads/main=3");
	must("rm -rf r.git dst.git && git init -q --bare --object-format=sha256 r.git && "
	     "git init -q --bare --object-format=sha256 dst.git && cd r.git && "
	     "git update-ref refs/heads/main $(git commit-tree -m 1 $(git mktree "
	     "</dev/null))");
	assert_ok(push("refs/heads/main"));
	assert_by_git(true);
	assert_ok(push(TASK_ALL_REFS));
	assert_by_git(true);
	must("rm -rf r.git && git init -q --bare -b main r.git && cd r.git && "
	     "git update-ref refs/heads/main $(git commit-tree -m 1 $(git mktree "
	     "</dev/null))");
	assert_int_equal(push(TASK_ALL_REFS), -1);
	must("cd r.git && for i in 2 3; do git update-ref refs/heads/main "
	     "$(git commit-tree -m $i -p main main^{tree}); done && rm -rf ../dst.git && "
	     "git clone -q --bare --depth 1 file://$PWD ../dst.git && "
	     "git update-ref refs/heads/main "
	     "$(git commit-tree -m 4 -p main main^{tree})");
	assert_ok(push("refs/heads/main"));
	assert_by_git(true);
	assert_status("refs/heads/main", REF_OK);
}

TEST(a_batch_has_no_more_refs_than_the_remote_says)
{
	remote.batch_size = 2;
	set_refs("refs/heads/a=1 refs/heads/b=2");
	assert_ok(push("refs/heads/a refs/heads/b"));
	assert_by_git(false);
	set_refs("refs/heads/a=2 refs/heads/b=3 refs/heads/c=4");
	assert_ok(push("refs/heads/a refs/heads/b refs/heads/c"));
	assert_by_git(true);
	assert_int_equal(result.pushes, 2);
	assert_arrived("refs/heads/a=2 refs/heads/b=3 refs/heads/c=4");
}

TEST(a_url_may_end_in_a_slash)
{
	AUTO_FREE char *to = xasprintf("%s//", destination.git_url);

	set_url(URL_HTTP, to);
	set_refs("refs/heads/a=1");
	assert_ok(push("refs/heads/a"));
	assert_by_git(false);
	assert_arrived("refs/heads/a=1");
}

/* Until the server says nothing more, by when git has done all its work there. */
static void wait_for_stall(void)
{
	for (int i = 0; i < 30000 && faccessat(root_fd, "stalled", F_OK, 0) != 0; i++)
		usleep(2000);
}

static void *stop_soon(void *arg)
{
	wait_for_stall();
	stop_request(arg);
	return NULL;
}

TEST(a_stop_ends_it)
{
	struct stop stop;
	pthread_t thread;

	stop_init(&stop);
	work.stop = &stop;
	write_mode("ours POST stall");
	set_refs("refs/heads/a=1");
	thread_start(&thread, "stop", stop_soon, &stop);
	assert_fails(push("refs/heads/a"), ERR_CANCELED);
	thread_join(thread);
	assert_by_git(false);
	assert_status("refs/heads/a", REF_NOT_ATTEMPTED);
	stop_clear(&stop);
}

static void *let_silence_pass(void *arg)
{
	wait_for_stall();
	atomic_fetch_add(&ahead_ms, (int)remote.silence_ms + 1000);
	return arg;
}

/* The silence allowed is long enough for whatever the server and git do; nobody waits for
 * it to pass, since the clock is set forward once the server stalls. */
static void push_past_silence(void)
{
	pthread_t thread;

	must("rm -f stalled");
	thread_start(&thread, "silence", let_silence_pass, NULL);
	assert_ok(push("refs/heads/a"));
	thread_join(thread);
	must("test -e stalled");
	assert_by_git(true);
}

TEST(a_server_that_rests_is_left_to_git_after_the_silence)
{
	struct deadline never;

	/* With a deadline the clock is looked at each second. */
	deadline_init(&never, clock_boot_ms() + 86400000);
	work.deadline = &never;
	write_mode("ours POST stall");
	set_refs("refs/heads/a=1");
	push_past_silence();
	assert_status("refs/heads/a", REF_UP_TO_DATE);
	write_mode("ours GET stall");
	set_refs("refs/heads/a=2");
	push_past_silence();
	assert_status("refs/heads/a", REF_OK);
	assert_arrived("refs/heads/a=2");
	deadline_clear(&never);
}

/* Each for us only. What was done though we were not told is up to date for git. */
static void assert_git_makes_it_right(const char *mode, size_t round, bool is_full)
{
	AUTO_FREE char *refs =
		xasprintf("refs/heads/main=%zu refs/heads/new=2", round + 1);

	write_mode("");
	set_refs("refs/heads/main=0");
	must("git -C dst.git update-ref -d refs/heads/new");
	set_spec("refs/*", "refs/*", true);
	assert_ok(push("refs/heads/main"));
	set_spec("refs/*", "refs/*", false);
	write_mode(mode);
	set_refs(refs);
	assert_ok(push(is_full ? TASK_ALL_REFS : "refs/heads/main refs/heads/new"));
	if (!result.used_git)
		fail_msg("pushed without git in spite of: %s", mode);
	assert_true(ref_status_is_good(result_of("refs/heads/main")->status));
	assert_true(ref_status_is_good(result_of("refs/heads/new")->status));
	assert_arrived(refs);
}

TEST(a_server_that_tells_us_nonsense_gets_the_right_refs_by_git)
{
	static const char *const modes[] = {
		"ours 401",          "ours 401",           "ours 302",
		"ours 302",          "ours page",          "ours nothing",
		"ours GET cut",      "ours GET cut",       "ours GET short",
		"ours GET short",    "ours GET empty",     "ours GET garbage",
		"ours POST 401",     "ours POST 403",      "ours POST 413",
		"ours POST 502",     "ours POST 302",      "ours POST 200",
		"ours POST nothing", "ours POST page",     "ours POST cut",
		"ours POST short",   "ours POST empty",    "ours POST garbage",
		"ours POST refused", "ours POST unpacked", "ours POST others",
		"ours POST twice",   "ours POST silent",   "ours POST endless",
		"ours POST error",   "ours POST bare",     "ours GET failed",
		"ours GET failed",   "ours POST failed",
	};

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++)
		assert_git_makes_it_right(modes[i], i, i % 2);
	assert_sound();
}

TEST(random_histories_arrive_as_git_would_have_brought_them)
{
	must("rm dst.git/objects/info/alternates");
	push_random_histories(20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HTTP_CASE(refs_are_made_and_moved_forward_without_git),
		HTTP_CASE(a_full_push_asks_once_if_nothing_is_to_be_done),
		HTTP_CASE(both_requests_have_the_password),
		HTTP_CASE(what_goes_back_is_forced_by_a_plus_only),
		HTTP_CASE(deletions_are_gits_and_the_others_go),
		HTTP_CASE(what_is_hidden_from_pushes_only_is_gits),
		HTTP_CASE(what_a_hook_refuses_git_tells_in_its_own_words),
		HTTP_CASE(what_was_moved_meanwhile_stays),
		HTTP_CASE(what_was_moved_between_the_lists_is_gits),
		HTTP_CASE(a_locked_ref_is_gits_and_the_others_go),
		HTTP_CASE(very_many_objects_and_a_branch_of_a_tree_are_gits),
		HTTP_CASE(sha256_what_is_shallow_and_who_wants_signatures_are_gits),
		HTTP_CASE(a_batch_has_no_more_refs_than_the_remote_says),
		HTTP_CASE(a_url_may_end_in_a_slash),
		HTTP_CASE(a_stop_ends_it),
		HTTP_CASE(a_server_that_rests_is_left_to_git_after_the_silence),
		HTTP_CASE(a_server_that_tells_us_nonsense_gets_the_right_refs_by_git),
		HTTP_CASE(random_histories_arrive_as_git_would_have_brought_them),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
