#include "publish_test.h"

#include <sys/syscall.h>

#include "base/hook_wire.h"
#include "git/state.h"
#include "rights.h"

#define KEY "refrelay/state/key"
#define PENDING "refrelay/state/pending"

static bool no_directory_flushes;
static int syncs;    /* of the file system */
static bool no_sync; /* it fails */

/* In the place of those of the C library. */
int fsync(int fd)
{
	struct stat st;

	if (no_directory_flushes && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fsync, fd);
}

int syncfs(int fd)
{
	syncs++;
	errno = EIO;
	return no_sync ? -1 : (int)syscall(SYS_syncfs, fd);
}

static char *key(void)
{
	AUTO_STR struct str text = STR_INIT;

	assert_ok(file_read(repo_fd, KEY, 64, &text, &err));
	assert_int_equal(text.len, 32);
	return str_take(&text);
}

static size_t pending_files(void)
{
	AUTO_FREE char *count = output_of("ls r.git/" PENDING " | wc -l");

	return (size_t)strtoul(count, NULL, 10);
}

/* The key is another one than it was; *old becomes the present one. */
static void assert_key_changed(char **old)
{
	char *now = key();

	assert_string_not_equal(now, *old);
	free(*old);
	*old = now;
}

static void assert_key_is(const char *old)
{
	AUTO_FREE char *now = key();

	assert_string_equal(now, old);
}

TEST(preparing_makes_a_key_once)
{
	assert_ok(state_prepare(repo_fd, &err));
	AUTO_FREE char *old = key();
	assert_ok(state_prepare(repo_fd, &err));
	assert_key_is(old);
}

TEST(the_first_change_needs_no_preparation)
{
	struct lock_owner writer;

	assert_ok(state_begin(repo_fd, &writer, &err));
	assert_int_equal(pending_files(), 1);
	assert_ok(state_end(&writer, &err));
	assert_int_equal(pending_files(), 0);
}

TEST(a_writer_can_be_ready_before_anybody_sees_it)
{
	struct lock_owner writer;
	struct state_look look;

	assert_ok(state_ready(repo_fd, &writer, &err));
	AUTO_FREE char *old = key();
	assert_int_equal(pending_files(), 0);
	state_abandon(&writer);
	assert_ok(state_ready(repo_fd, &writer, &err));
	backdate(writer.name, 7200);
	assert_ok(state_announce(&writer, &err));
	assert_int_equal(pending_files(), 1);
	assert_ok(state_look(repo_fd, &look, &err));
	assert_true(look.is_pending);
	assert_ok(state_check(&writer, &err));
	struct stat st;
	assert_int_equal(fstat(writer.fd, &st), 0);
	assert_true(time(NULL) - st.st_mtime < 60);
	assert_ok(state_end(&writer, &err));
	assert_key_changed(&old);
	assert_nothing_left();
}

TEST(each_change_changes_the_key_at_its_end)
{
	struct lock_owner writer;

	assert_ok(state_prepare(repo_fd, &err));
	AUTO_FREE char *old = key();
	for (int i = 0; i < 5; i++) {
		assert_ok(state_begin(repo_fd, &writer, &err));
		assert_int_equal(pending_files(), 1);
		assert_ok(state_check(&writer, &err));
		assert_key_is(old);
		assert_ok(state_end(&writer, &err));
		assert_key_changed(&old);
	}
}

TEST(an_abandoned_change_keeps_the_key)
{
	struct lock_owner writer;

	assert_ok(state_prepare(repo_fd, &err));
	AUTO_FREE char *old = key();
	assert_ok(state_begin(repo_fd, &writer, &err));
	state_abandon(&writer);
	assert_int_equal(pending_files(), 0);
	assert_key_is(old);
}

TEST(several_changes_go_on_at_once)
{
	struct lock_owner one, two;

	assert_ok(state_begin(repo_fd, &one, &err));
	assert_ok(state_begin(repo_fd, &two, &err));
	assert_int_equal(pending_files(), 2);
	assert_ok(state_end(&one, &err));
	assert_int_equal(pending_files(), 1);
	assert_ok(state_check(&two, &err));
	assert_ok(state_end(&two, &err));
}

TEST(a_pending_file_that_somebody_removed_means_lost)
{
	struct lock_owner writer;

	assert_ok(state_begin(repo_fd, &writer, &err));
	must("rm r.git/" PENDING "/*");
	assert_fails(state_check(&writer, &err), ERR_LOST);
	lock_owner_close(&writer);
}

TEST(when_the_key_cannot_be_written_the_pending_file_stays_for_recovery)
{
	struct lock_owner writer;

	assert_ok(state_begin(repo_fd, &writer, &err));
	must("cd r.git && rm -f " KEY " && mkdir -p " KEY "/x");
	assert_int_equal(state_end(&writer, &err), -1);
	assert_int_equal(pending_files(), 1);
	assert_int_equal(state_recover(repo_fd, &err), -1);
	assert_int_equal(pending_files(), 1);
	must("rm -r r.git/" KEY);
	assert_ok(state_recover(repo_fd, &err));
	assert_int_equal(pending_files(), 0);
	free(key());
}

/* A process with a change under way, and some locks, until it is killed. */
static pid_t start_writer(void)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		die_with_parent();
		struct lock_owner writer;
		struct lock_file lock;
		if (state_begin(repo_fd, &writer, &err) != 0 ||
		    lock_file_take(&writer, "refs/heads/a", 0, &lock, &err) != 0 ||
		    lock_file_take(&writer, "packed-refs", 0, &lock, &err) != 0 ||
		    write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void kill_writer(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(wait_end(pid), 128 + SIGKILL);
}

TEST(recovery_changes_the_key_and_removes_what_the_dead_left)
{
	assert_ok(state_prepare(repo_fd, &err));
	AUTO_FREE char *old = key();
	kill_writer(start_writer());
	assert_int_equal(pending_files(), 1);
	assert_true(exists("refs/heads/a.lock") && exists("packed-refs.lock"));
	assert_ok(state_recover(repo_fd, &err));
	assert_key_changed(&old);
	assert_nothing_left();
}

TEST(recovery_flushes_what_the_dead_left_before_it_forgets_them)
{
	assert_ok(state_prepare(repo_fd, &err));
	kill_writer(start_writer());
	syncs = 0;
	no_sync = true;
	assert_fails(state_recover(repo_fd, &err), ERR_DISK);
	assert_int_equal(pending_files(), 1);
	no_sync = false;
	assert_ok(state_recover(repo_fd, &err));
	assert_int_equal(syncs, 2);
	assert_nothing_left();
}

/* A rename that was seen, but may not be on disk. */
static void fail_to_publish(const char *line)
{
	no_directory_flushes = true;
	assert_fails(try_publish(line), ERR_DISK);
	no_directory_flushes = false;
	assert_git_sees(line);
}

TEST(what_a_failed_publication_renamed_is_flushed_before_it_counts)
{
	assert_publishes("refs/heads/main=1");
	syncs = 0;
	fail_to_publish("refs/heads/main=2");
	assert_int_equal(syncs, 1);
	assert_nothing_left();
	no_sync = true;
	fail_to_publish("refs/heads/main=3");
	assert_int_equal(pending_files(), 1);
	no_sync = false;
	syncs = 0;
	AUTO_FREE char *old = key();
	assert_publishes("refs/heads/main=3");
	assert_int_equal(syncs, 1);
	assert_key_changed(&old);
	assert_nothing_left();
}

TEST(recovery_never_touches_the_living)
{
	pid_t pid;

	assert_ok(state_prepare(repo_fd, &err));
	AUTO_FREE char *old = key();
	pid = start_writer();
	kill(pid, SIGSTOP);
	must("touch -d '2 days ago' r.git/" PENDING "/*");
	assert_ok(state_recover(repo_fd, &err));
	assert_int_equal(pending_files(), 1);
	assert_true(exists("refs/heads/a.lock") && exists("packed-refs.lock"));
	assert_key_is(old);
	kill_writer(pid);
}

/* Root's, by a version that kept to the umask. */
TEST(one_that_cannot_be_read_is_dead_after_an_hour)
{
	assert_ok(state_prepare(repo_fd, &err));
	AUTO_FREE char *old = key();
	write_text(PENDING "/00000000000000000000000000000000", OWNER_LOCK "\n");
	must("cd r.git/" PENDING " && chmod 0 * && touch -d '50 minutes ago' *");
	rights_set_override(false);
	assert_ok(state_recover(repo_fd, &err));
	assert_int_equal(pending_files(), 1);
	must("touch -d '61 minutes ago' r.git/" PENDING "/*");
	assert_ok(state_recover(repo_fd, &err));
	rights_set_override(true);
	assert_int_equal(pending_files(), 0);
	assert_key_changed(&old);
}

/* Whatever root's umask. */
TEST(whoever_can_read_the_repository_can_see_who_writes)
{
	struct lock_owner writer;
	struct stat st, head;

	must("chmod 664 r.git/HEAD; test $(id -u) != 0 || chown 54321:54322 r.git/HEAD");
	mode_t mask = umask(077);
	assert_ok(state_begin(repo_fd, &writer, &err));
	umask(mask);
	assert_int_equal(fstat(writer.fd, &st), 0);
	assert_int_equal(fstatat(repo_fd, "HEAD", &head, 0), 0);
	assert_int_equal(st.st_mode & 0777, 0664);
	assert_int_equal(st.st_uid, head.st_uid);
	if (geteuid() == 0)
		assert_int_equal(st.st_gid, 54322);
	assert_ok(state_end(&writer, &err));
}

/* It was killed between making its file and writing into it. */
TEST(recovery_removes_a_half_made_pending_file)
{
	assert_ok(state_prepare(repo_fd, &err));
	AUTO_FREE char *old = key();
	write_text(PENDING "/00000000000000000000000000000000", "");
	assert_ok(state_recover(repo_fd, &err));
	assert_int_equal(pending_files(), 0);
	assert_key_changed(&old);
}

TEST(nothing_to_recover_changes_nothing)
{
	assert_ok(state_recover(repo_fd, &err)); /* no directory yet */
	assert_ok(state_prepare(repo_fd, &err));
	AUTO_FREE char *old = key();
	assert_ok(state_recover(repo_fd, &err));
	assert_key_is(old);
}

/* Helper modes, killed at failpoints. */
static int recover_as_helper(void)
{
	return state_recover(repo_fd, &err) == 0 ? 0 : 1;
}

static int change_as_helper(void)
{
	struct lock_owner writer;

	return state_begin(repo_fd, &writer, &err) == 0 && state_end(&writer, &err) == 0
		       ? 0
		       : 1;
}

static void assert_killed(const char *mode, const char *failpoint)
{
	assert_int_equal(wait_end(start_helper(mode, "", failpoint)), 128 + SIGKILL);
}

TEST(recovery_sets_the_new_key_before_it_removes_the_file)
{
	assert_ok(state_prepare(repo_fd, &err));
	AUTO_FREE char *old = key();
	kill_writer(start_writer());
	assert_killed("recover", "state.recover=kill");
	assert_key_changed(&old);
	assert_int_equal(pending_files(), 1);
	assert_killed("recover", "state.buried=kill");
	assert_key_changed(&old);
	assert_int_equal(pending_files(), 1);
	assert_ok(state_recover(repo_fd, &err));
	assert_key_changed(&old);
	assert_nothing_left();
}

TEST(a_writer_sets_the_new_key_before_it_removes_the_file)
{
	assert_ok(state_prepare(repo_fd, &err));
	AUTO_FREE char *old = key();
	assert_killed("change", "state.key=kill");
	assert_key_changed(&old);
	assert_int_equal(pending_files(), 1);
	assert_ok(state_recover(repo_fd, &err));
	assert_key_changed(&old);
	assert_int_equal(pending_files(), 0);
}

TEST(a_writer_is_left_alone_by_those_who_recover_at_the_same_time)
{
	enum { ROUNDS = 300 };
	pid_t pid = fork();

	if (pid == 0) {
		die_with_parent();
		for (;;)
			if (state_recover(repo_fd, &err) != 0)
				_exit(1);
	}
	for (int i = 0; i < ROUNDS; i++) {
		struct lock_owner writer;
		assert_ok(state_begin(repo_fd, &writer, &err));
		assert_ok(state_check(&writer, &err));
		assert_ok(state_end(&writer, &err));
	}
	kill_writer(pid);
}

/* Whoever can write in the repository can lay one. */
TEST(nothing_is_written_or_removed_through_a_link)
{
	static const char *const commands[] = {
		"rm -rf r.git/refrelay && ln -s ../v r.git/refrelay",
		"rm r.git/refrelay && mkdir r.git/refrelay && "
		"ln -s ../../v/state r.git/refrelay/state",
		"rm r.git/refrelay/state && mkdir r.git/refrelay/state && "
		"ln -s ../../../v/state/pending r.git/refrelay/state/pending",
	};
	struct lock_owner writer;
	struct state_look look;

	must("mkdir -p v/state/pending && echo x >v/state/pending/precious");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		must("%s", commands[i]);
		assert_fails(state_look(repo_fd, &look, &err), ERR_CONFLICT);
		assert_fails(state_recover(repo_fd, &err), ERR_CONFLICT);
		if (i < 2)
			assert_fails(state_renew(repo_fd, &err), ERR_CONFLICT);
		assert_fails(state_begin(repo_fd, &writer, &err), ERR_CONFLICT);
		must("[ $(find v | wc -l) = 4 ]");
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		GIT_CASE(nothing_is_written_or_removed_through_a_link),
		GIT_CASE(preparing_makes_a_key_once),
		GIT_CASE(the_first_change_needs_no_preparation),
		GIT_CASE(a_writer_can_be_ready_before_anybody_sees_it),
		GIT_CASE(each_change_changes_the_key_at_its_end),
		GIT_CASE(an_abandoned_change_keeps_the_key),
		GIT_CASE(several_changes_go_on_at_once),
		GIT_CASE(a_pending_file_that_somebody_removed_means_lost),
		GIT_CASE(
			when_the_key_cannot_be_written_the_pending_file_stays_for_recovery),
		GIT_CASE(recovery_changes_the_key_and_removes_what_the_dead_left),
		GIT_CASE(recovery_never_touches_the_living),
		GIT_CASE(recovery_flushes_what_the_dead_left_before_it_forgets_them),
		GIT_CASE(what_a_failed_publication_renamed_is_flushed_before_it_counts),
		GIT_CASE(one_that_cannot_be_read_is_dead_after_an_hour),
		GIT_CASE(whoever_can_read_the_repository_can_see_who_writes),
		GIT_CASE(recovery_removes_a_half_made_pending_file),
		GIT_CASE(nothing_to_recover_changes_nothing),
		GIT_CASE(recovery_sets_the_new_key_before_it_removes_the_file),
		GIT_CASE(a_writer_sets_the_new_key_before_it_removes_the_file),
		GIT_CASE(a_writer_is_left_alone_by_those_who_recover_at_the_same_time),
	};

	if (argc > 1) {
		enter_helper(argv);
		return strcmp(argv[1], "recover") == 0 ? recover_as_helper()
						       : change_as_helper();
	}
	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
