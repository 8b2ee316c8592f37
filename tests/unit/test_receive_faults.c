/*
 * Pushes that break, or run into what does not do what it should.
 */
#include "receive_test.h"

#include "base/thread.h"

#include "listing_faults.h"

TEST(a_body_that_breaks_changes_no_ref_and_leaves_nothing)
{
	size_t head;

	simple(&push, &commits[9], "refs/heads/main");
	head = push.body.len;
	for (size_t cut = 3; cut < head; cut += head / 5) {
		push.taken = 0;
		push.cut_at = cut;
		assert_fails(go(), ERR_NETWORK);
		assert_string_equal(err.text, "the client is gone");
		assert_refs("");
		assert_tidy();
	}
	push.taken = 0;
	push.cut_at = head - 1;
	assert_fails(go(), ERR_NETWORK);
	assert_refs("");
	assert_tidy();
}

TEST(what_git_does_not_understand_is_the_requests_fault)
{
	for (int i = 0; i < 1000000; i++)
		str_add(&push.body, "garbage ");
	assert_fails(go(), ERR_CONFIG);
	assert_true(is_bad);
	assert_int_equal(push.taken, push.body.len);
	assert_refs("");
	assert_tidy();
}

/* Git is dead long before the end; what follows goes nowhere. */
TEST(garbage_behind_good_commands_is_read_to_its_end)
{
	command(&push, NULL, &commits[9], "refs/heads/main", CAPS);
	pkt_add_flush(&push.body);
	pkt_add_flush(&push.body);
	for (int i = 0; i < 1000000; i++)
		str_add(&push.body, "garbage ");
	assert_ok(go());
	assert_true(says("ng refs/heads/main"));
	assert_int_equal(push.taken, push.body.len);
	assert_refs("");
	assert_tidy();
}

TEST(what_follows_a_pack_hides_no_change)
{
	simple(&push, &commits[9], "refs/heads/main");
	for (int i = 0; i < 100000; i++)
		str_add(&push.body, "garbage ");
	push.cut_at = push.body.len;
	assert_fails(go(), ERR_NETWORK);
	assert_refs("refs/heads/main=9");
	assert_changed_once();
	assert_tidy();
}

/* The body goes on, byte by byte, until the change was told. */
static ssize_t read_without_end(void *arg, void *buffer, size_t size, struct err *error)
{
	struct push *mine = arg;

	if (mine->taken < mine->body.len)
		return read_body(arg, buffer, size, error);
	if (mine->recorded > 0 || ++mine->taken > mine->body.len + 1000)
		return err_set(error, ERR_NETWORK, "the client is gone");
	usleep(10000);
	*(char *)buffer = 'x';
	return 1;
}

TEST(what_follows_a_pack_slowly_delays_nothing)
{
	simple(&push, &commits[9], "refs/heads/main");
	push.request.read = read_without_end;
	assert_fails(go(), ERR_NETWORK);
	assert_true(push.taken < push.body.len + 1000);
	assert_true(text_starts_with(push.refs_recorded, "refs/heads/main="));
	assert_changed_once();
	assert_outcome(1, 1, 0);
	assert_tidy();
}

/* The client says nothing more until the change was told. */
static struct receive_pack *tended;

static ssize_t read_and_tend(void *arg, void *buffer, size_t size, struct err *error)
{
	struct push *mine = arg;

	if (mine->taken < mine->body.len)
		return read_body(arg, buffer, size, error);
	for (int i = 0; i < 1000 && mine->recorded == 0; i++) {
		receive_pack_tend(tended);
		usleep(10000);
	}
	assert_int_equal(mine->recorded, 1);
	return err_set(error, ERR_NETWORK, "the client is gone");
}

/* Nor if it wants no report: then git's end is all that tells. */
TEST(a_body_that_never_ends_delays_no_deletion)
{
	static const char *const names[] = { "refs/heads/one", "refs/heads/two" };
	static const char *const capabilities[] = { CAPS, "side-band-64k" };

	command(&push, NULL, &commits[9], names[0], CAPS);
	command(&push, NULL, &commits[9], names[1], NULL);
	pack_of(&push, &commits[9], "0000");
	assert_ok(go());
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		push_clear(&push);
		push_init(&push);
		push.request.read = read_and_tend;
		command(&push, &commits[9], NULL, names[i], capabilities[i]);
		pkt_add_flush(&push.body);
		if (i == 0)
			pkt_add_flush(&push.body);
		read_key(push.key_before);
		assert_fails(receive_pack_open(&push.request, &tended, &err),
			     ERR_NETWORK);
		assert_null(tended);
		assert_changed_once();
	}
	assert_refs("");
	assert_tidy();
}

/* It says more than a pipe holds before it reads. */
TEST(a_chatty_git_is_not_waited_for_by_what_it_waits_for)
{
	must("mkdir bin && printf '#!/bin/sh\\ncase \"$*\" in *receive-pack*) "
	     "i=0; while [ $i -lt 3000 ]; do printf \"%%%%s\" "
	     "\"03ed\x02$(printf %%%%01000d 0)\"; i=$((i+1)); done; "
	     "cat >/dev/null; printf 0000;; *) exec /usr/bin/git \"$@\";; esac' >bin/git "
	     "&& "
	     "chmod +x bin/git");
	AUTO_FREE char *before = xstrdup(getenv("PATH"));
	AUTO_FREE char *shimmed = xasprintf("%s/bin:%s", root, before);
	simple(&push, &commits[9], "refs/heads/main");
	str_reserve(&push.body, 8 << 20);
	push.body.len += 8 << 20;
	setenv("PATH", shimmed, 1);
	assert_ok(git_setup(root, &err));
	assert_ok(go());
	setenv("PATH", before, 1);
	assert_true(push.answer.len > (1 << 20) && push.answer.len < (2 << 20));
	assert_memory_equal(push.answer.data, "03ed\2", 5);
	assert_memory_equal(push.answer.data + push.answer.len - 4, "0000", 4);
}

/* Git that is killed leaves its quarantine to `git prune`. */
TEST(objects_that_cannot_be_listed_are_not_known_to_be_on_the_disk)
{
	simple(&push, &commits[9], "refs/heads/main");
	unlisted = "/objects";
	assert_fails(go(), ERR_DISK);
	unlisted = NULL;
	assert_non_null(strstr(err.text, "cannot list objects"));
}

TEST(time_and_a_stop_end_a_push)
{
	struct stop stop;

	stop_init(&stop);
	hook("pre-receive", "sleep 30");
	simple(&push, &commits[9], "refs/heads/main");
	push.request.stop = &stop;
	push.request.timeout_ms = 500;
	assert_fails(go(), ERR_TIMEOUT);
	assert_refs("");
	assert_int_equal(pending(), 0);
	stop_request(&stop);
	push.taken = 0;
	assert_fails(go(), ERR_CANCELED);
	stop_clear(&stop);
}

static size_t peak_kib(void)
{
	AUTO_FREE char *line = output_of("grep VmHWM /proc/%d/status", (int)getpid());

	return strtoul(line + strcspn(line, "0123456789"), NULL, 10);
}

/* What grows here is what this process holds; git has its own. */
TEST(a_large_pack_streams_through_little_memory)
{
	char oid[64] = "";

	must("git init -q --bare big && head -c 64000000 /dev/urandom >blob && "
	     "b=$(git -C big -c core.compression=0 hash-object -w --stdin <blob) && "
	     "t=$(printf '100644 blob %%s\\tf\\n' $b | git -C big mktree) && "
	     "git -C big commit-tree -m m $t >oid && "
	     "git -C big pack-objects --revs --stdout -q <oid >pack");
	AUTO_CLOSE int fd = openat(root_fd, "oid", O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, oid, 40), 40);
	struct oid commit;
	assert_true(oid_parse(oid, 20, &commit));
	command(&push, NULL, &commit, "refs/heads/main", CAPS);
	pkt_add_flush(&push.body);
	pkt_add_flush(&push.body);
	assert_ok(file_read(root_fd, "pack", 1 << 27, &push.body, &err));
	must("echo 5 >/proc/%d/clear_refs", (int)getpid());
	size_t before = peak_kib();
	assert_ok(go());
	assert_true(peak_kib() < before + 16384);
	assert_true(says("ok refs/heads/main"));
}

/* The key that readers find when nobody is at work any more. */
static void wait_for_key(char key[STATE_KEY_SIZE])
{
	int64_t until = clock_boot_ms() + 20000;
	struct state_look look;

	do {
		assert_ok(state_look(repo_fd, &look, &err));
		usleep(look.is_pending ? 5000 : 0);
	} while (look.is_pending && clock_boot_ms() < until);
	assert_false(look.is_pending);
	memcpy(key, look.key, sizeof(look.key));
}

/* This program dies there; git is killed then, and until it is dead nobody trusts the
 * old key. */
static void die_at(const char *point)
{
	char before[STATE_KEY_SIZE], after[STATE_KEY_SIZE];

	read_key(before);
	assert_int_equal(wait_end(start_helper("push", "", point)), 128 + SIGKILL);
	wait_for_key(after);
	assert_string_not_equal(before, after);
	assert_int_equal(pending(), 0);
}

TEST(a_death_of_this_program_leaves_a_new_key_at_any_point)
{
	die_at("receive_pack.begun=kill");
	die_at("receive_pack.reported=kill");
	assert_refs("refs/heads/main=9");
	must("git -C r.git update-ref -d refs/heads/main");
	die_at("receive_pack.recorded=kill");
	assert_refs("refs/heads/main=9");
}

static int helper(char **argv)
{
	enter_helper(argv);
	snprintf(path, sizeof(path), "%s", argv[2]);
	snprintf(root, sizeof(root), "%.*s", (int)(strlen(path) - 6), path);
	root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (git_setup(root, &err) != 0)
		return 1;
	push_init(&push);
	push.request.recorded = note_nothing;
	simple(&push, &commits[9], "refs/heads/main");
	return read_answer(&push);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(a_body_that_breaks_changes_no_ref_and_leaves_nothing),
		CASE(what_git_does_not_understand_is_the_requests_fault),
		CASE(garbage_behind_good_commands_is_read_to_its_end),
		CASE(what_follows_a_pack_hides_no_change),
		CASE(what_follows_a_pack_slowly_delays_nothing),
		CASE(a_body_that_never_ends_delays_no_deletion),
		CASE(a_chatty_git_is_not_waited_for_by_what_it_waits_for),
		CASE(objects_that_cannot_be_listed_are_not_known_to_be_on_the_disk),
		CASE(time_and_a_stop_end_a_push),
		CASE(a_large_pack_streams_through_little_memory),
		CASE(a_death_of_this_program_leaves_a_new_key_at_any_point),
	};

	if (argc > 4 && strcmp(argv[1], "push") == 0)
		return helper(argv);
	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
