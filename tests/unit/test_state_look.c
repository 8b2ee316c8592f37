/* What readers see of the state: writers of ours, git processes, other hosts. */
#include "git_test.h"

#include <sys/file.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

#include <linux/magic.h>

#include "git/state.h"

#define OTHER_BOOT "00000000-1111-2222-3333-444444444444"
#define FILE_NAME STATE_PENDING "/x"

static struct state_look look;

/* Stand in for libc's. */
static bool is_on_nfs, has_no_flock;
static time_t clock_shift;

int fstatfs(int fd, struct statfs *fs)
{
	memset(fs, 0, sizeof(*fs));
	(void)fd;
	fs->f_type = is_on_nfs ? NFS_SUPER_MAGIC : EXT4_SUPER_MAGIC;
	return 0;
}

int flock(int fd, int operation)
{
	if (!has_no_flock)
		return (int)syscall(SYS_flock, fd, operation);
	errno = ENOLCK;
	return -1;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int result = (int)syscall(SYS_clock_gettime, clock, now);

	if (clock == CLOCK_REALTIME)
		now->tv_sec += clock_shift;
	return result;
}

static int make_local_repo(void **state)
{
	is_on_nfs = has_no_flock = false;
	clock_shift = 0;
	if (make_repo(state) != 0)
		return -1;
	return state_look(repo_fd, &look, &err);
}

static size_t pending_files(void)
{
	AUTO_FREE char *count = output_of("ls r.git/" STATE_PENDING " | wc -l");

	return (size_t)strtoul(count, NULL, 10);
}

/* A look that cleans up after `recovered` writers. */
static void assert_recovered(unsigned recovered)
{
	char before[STATE_KEY_SIZE];

	memcpy(before, look.key, sizeof(before));
	assert_ok(state_look(repo_fd, &look, &err));
	assert_int_equal(look.recovered, recovered);
	assert_false(look.is_pending);
	assert_int_equal(pending_files(), 0);
	if (recovered > 0)
		assert_string_not_equal(look.key, before);
	else
		assert_string_equal(look.key, before);
}

static void assert_pending(void)
{
	assert_ok(state_look(repo_fd, &look, &err));
	assert_int_equal(look.recovered, 0);
	assert_true(look.is_pending);
}

static uint64_t own_pidns(void)
{
	struct stat st;

	assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
	return st.st_ino;
}

static uint64_t start_of(pid_t pid)
{
	AUTO_FREE char *text =
		output_of("sed 's/.*) //' /proc/%d/stat | cut -d ' ' -f 20", (int)pid);

	return strtoull(text, NULL, 10);
}

/* As the hook writes it. */
static void write_process(const char *boot, uint64_t pidns, pid_t pid, uint64_t start)
{
	char line[OWNER_LINE_MAX];

	snprintf(line, sizeof(line),
		 OWNER_PROCESS OWNER_BOOT "%s" OWNER_PIDNS "%" PRIu64 OWNER_PID
					  "%d" OWNER_START "%" PRIu64 "\n",
		 boot, pidns, (int)pid, start);
	write_text(FILE_NAME, line);
}

static void write_lock(const char *boot)
{
	char line[OWNER_LINE_MAX];

	snprintf(line, sizeof(line),
		 OWNER_LOCK OWNER_BOOT "%s" OWNER_PIDNS "1" OWNER_PID "1\n", boot);
	write_text(FILE_NAME, line);
}

TEST(a_look_makes_the_key_that_is_missing)
{
	must("rm -r r.git/refrelay/state");
	assert_ok(state_look(repo_fd, &look, &err));
	assert_int_equal(strlen(look.key), STATE_KEY_DIGITS);
	assert_recovered(0);
}

TEST(a_key_that_a_crash_emptied_is_made_anew)
{
	static const char *const contents[] = { "", "0123456789abcdef",
						"0123456789ABCDEF0123456789ABCDEF" };

	for (size_t i = 0; i < ARRAY_SIZE(contents); i++) {
		write_text(STATE_KEY, contents[i]);
		assert_ok(state_look(repo_fd, &look, &err));
		assert_int_equal(strlen(look.key), STATE_KEY_DIGITS);
		assert_string_not_equal(look.key, contents[i]);
		assert_recovered(0);
	}
}

TEST(a_renewed_key_is_another_and_leaves_pending_files)
{
	struct lock_owner writer;
	char before[STATE_KEY_SIZE];

	assert_ok(state_begin(repo_fd, &writer, &err));
	assert_pending();
	memcpy(before, look.key, sizeof(before));
	assert_ok(state_renew(repo_fd, &err));
	assert_pending();
	assert_string_not_equal(look.key, before);
	assert_ok(state_end(&writer, &err));
}

TEST(a_writer_at_work_is_seen_until_its_end)
{
	struct lock_owner writer;

	assert_ok(state_begin(repo_fd, &writer, &err));
	assert_pending();
	assert_ok(state_end(&writer, &err));
	assert_ok(state_look(repo_fd, &look, &err));
	assert_false(look.is_pending);
}

TEST(a_writer_that_died_is_recovered_by_the_look)
{
	struct lock_owner writer;

	assert_ok(state_begin(repo_fd, &writer, &err));
	close(TAKE_FD(writer.fd));
	assert_recovered(1);
}

TEST(a_state_that_cannot_be_read_is_an_error)
{
	must("cd r.git/refrelay/state && rmdir pending && echo >pending");
	assert_int_equal(state_look(repo_fd, &look, &err), -1);
	must("cd r.git/refrelay/state && rm pending key && mkdir pending key");
	assert_int_equal(state_look(repo_fd, &look, &err), -1);
}

TEST(a_git_process_is_at_work_until_it_is_killed)
{
	pid_t pid = start_shell("exec sleep 100");

	write_process(clock_boot_id(), own_pidns(), pid, start_of(pid));
	backdate(FILE_NAME, 2 * 86400); /* its age is nothing to us */
	assert_pending();
	kill(pid, SIGSTOP);
	assert_pending();
	kill(pid, SIGKILL);
	assert_int_equal(wait_end(pid), 128 + SIGKILL);
	assert_recovered(1);
}

TEST(a_git_process_that_nobody_has_waited_for_is_dead)
{
	siginfo_t ended;
	pid_t pid = start_shell("exec sleep 100");

	write_process(clock_boot_id(), own_pidns(), pid, start_of(pid));
	kill(pid, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT), 0);
	assert_recovered(1);
	wait_end(pid);
}

TEST(another_process_of_that_number_is_not_it)
{
	write_process(clock_boot_id(), own_pidns(), getpid(), start_of(getpid()) + 1);
	assert_recovered(1);
}

TEST(a_git_process_elsewhere_has_an_hour)
{
	struct {
		const char *boot;
		uint64_t pidns, start;
	} cases[] = {
		{ OTHER_BOOT, own_pidns(), 1 },
		{ clock_boot_id(), own_pidns() + 1, 1 },
		{ clock_boot_id(), own_pidns(), 0 }, /* the hook could not see it */
		{ "unknown", 0, 1 },
	};

	is_on_nfs = true;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		write_process(cases[i].boot, cases[i].pidns, 1, cases[i].start);
		backdate(FILE_NAME, 3500);
		assert_pending();
		backdate(FILE_NAME, 3700);
		assert_recovered(1);
	}
}

TEST(a_lock_of_another_host_is_dead_after_a_minute_of_silence)
{
	is_on_nfs = true;
	write_lock(OTHER_BOOT);
	assert_pending();
	backdate(FILE_NAME, 50);
	assert_pending();
	backdate(FILE_NAME, 70);
	assert_recovered(1);
}

TEST(who_cannot_lock_there_waits_for_the_same_minute)
{
	write_lock(clock_boot_id());
	has_no_flock = true;
	assert_pending();
	backdate(FILE_NAME, 70);
	assert_recovered(1);
	write_process(clock_boot_id(), own_pidns(), getpid(), start_of(getpid()) + 1);
	assert_recovered(1); /* told without a lock */
}

/* The same flock that another host cannot see. */
TEST(a_writer_that_beats_lives_for_other_hosts)
{
	struct lock_owner writer;

	is_on_nfs = true;
	assert_ok(state_begin(repo_fd, &writer, &err));
	assert_int_equal(ftruncate(writer.fd, 0), 0);
	assert_true(pwrite(writer.fd, OWNER_LOCK " boot=x\n", 21, 0) == 21);
	flock(writer.fd, LOCK_UN);
	backdate(writer.name, 70);
	assert_ok(state_beat(&writer, &err));
	assert_pending();
	backdate(writer.name, 70);
	assert_recovered(1);
	assert_fails(state_beat(&writer, &err), ERR_LOST);
	lock_owner_close(&writer);
}

TEST(the_local_clock_makes_nobody_old)
{
	is_on_nfs = true;
	write_lock(OTHER_BOOT);
	clock_shift = 86400;
	assert_pending();
	clock_shift = -86400;
	must("touch -d '70 seconds ago' r.git/" FILE_NAME);
	assert_recovered(1);
}

/* Another host may be about to write into it. */
TEST(an_empty_file_on_a_shared_file_system_may_be_a_new_one)
{
	write_text(FILE_NAME, "");
	is_on_nfs = true;
	assert_pending();
	is_on_nfs = false;
	assert_ok(state_look(repo_fd, &look, &err));
	assert_int_equal(look.recovered, 1);
}

TEST(what_was_there_before_this_machine_started_is_dead)
{
	time_t before_boot = (time_t)(clock_boot_ms() / 1000) + 60;

	for (int is_lock = 0; is_lock < 2; is_lock++) {
		if (is_lock)
			write_lock(OTHER_BOOT);
		else
			write_process(OTHER_BOOT, own_pidns(), getpid(), 1);
		assert_pending();
		backdate(FILE_NAME, before_boot);
		assert_recovered(1);
	}
}

TEST(all_writers_are_listed_for_people)
{
	state_writers writers;
	struct lock_owner writer;

	assert_ok(state_begin(repo_fd, &writer, &err));
	write_process(OTHER_BOOT, own_pidns(), 77, 1);
	backdate(FILE_NAME, 30);
	assert_ok(state_list(repo_fd, &writers, &err));
	assert_int_equal(writers.count, 2);
	size_t git = writers.items[0].pid == 77 ? 0 : 1;
	const struct state_writer *other = &writers.items[git],
				  *own = &writers.items[!git];
	assert_string_equal(other->name, "x");
	assert_string_equal(other->program, "git");
	assert_true(other->is_elsewhere && other->state == LOCK_OWNER_UNKNOWN);
	assert_in_range(other->age_s, 29, 40);
	assert_string_equal(own->program, "refrelay");
	assert_int_equal(own->pid, getpid());
	assert_true(!own->is_elsewhere && own->state == LOCK_OWNER_ALIVE);
	vec_clear(&writers);
	assert_int_equal(pending_files(), 2);
	assert_ok(state_end(&writer, &err));
}

TEST(all_who_may_use_the_repository_may_use_its_state)
{
	must("rm -r r.git/refrelay && chmod 2770 r.git && chmod 660 r.git/HEAD");
	mode_t old = umask(077);
	assert_ok(state_look(repo_fd, &look, &err));
	assert_ok(state_renew(repo_fd, &err));
	umask(old);
	AUTO_FREE char *modes = output_of("cd r.git/refrelay && stat -c %%a . state "
					  "state/pending state/key | tr '\\n' ' '");
	assert_string_equal(modes, "2770 2770 2770 660 ");
}

#define STATE_CASE(name)                                                                 \
	cmocka_unit_test_setup_teardown(name, make_local_repo, test_remove_root)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STATE_CASE(a_look_makes_the_key_that_is_missing),
		STATE_CASE(a_key_that_a_crash_emptied_is_made_anew),
		STATE_CASE(a_renewed_key_is_another_and_leaves_pending_files),
		STATE_CASE(a_writer_at_work_is_seen_until_its_end),
		STATE_CASE(a_writer_that_died_is_recovered_by_the_look),
		STATE_CASE(a_state_that_cannot_be_read_is_an_error),
		STATE_CASE(a_git_process_is_at_work_until_it_is_killed),
		STATE_CASE(a_git_process_that_nobody_has_waited_for_is_dead),
		STATE_CASE(another_process_of_that_number_is_not_it),
		STATE_CASE(a_git_process_elsewhere_has_an_hour),
		STATE_CASE(a_lock_of_another_host_is_dead_after_a_minute_of_silence),
		STATE_CASE(who_cannot_lock_there_waits_for_the_same_minute),
		STATE_CASE(a_writer_that_beats_lives_for_other_hosts),
		STATE_CASE(the_local_clock_makes_nobody_old),
		STATE_CASE(an_empty_file_on_a_shared_file_system_may_be_a_new_one),
		STATE_CASE(what_was_there_before_this_machine_started_is_dead),
		STATE_CASE(all_writers_are_listed_for_people),
		STATE_CASE(all_who_may_use_the_repository_may_use_its_state),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
