#include "notice_stub.h"

#include <pthread.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/hook_wire.h"
#include "base/thread.h"
#include "change/hook_socket.h"

#define PATIENCE_MS 20000

extern char **environ;

static char answer[256];
static atomic_int woken;

static void wake(void *arg)
{
	assert_ptr_equal(arg, &woken);
	atomic_fetch_add(&woken, 1);
}

static const char *say_no_workers(void *arg)
{
	(void)arg;
	return HOOK_NO_WORKERS;
}

static struct hook_socket *open_with(struct notice *notice)
{
	struct hook_socket *socket = NULL;

	woken = 0;
	assert_ok(hook_socket_start(
		&(struct hook_socket_options){ .data = root,
					       .notice = notice,
					       .wake = wake,
					       .mirrors = say_no_workers,
					       .arg = &woken },
		&socket, &err));
	return socket;
}

static int tell(const char *message)
{
	answer[0] = '\0';
	return hook_socket_report(root, message, PATIENCE_MS, answer, sizeof(answer),
				  &err);
}

static int connect_raw(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/" HOOK_SOCKET, root);
	assert_return_code(connect(fd, (struct sockaddr *)&address, sizeof(address)),
			   errno);
	return fd;
}

/* Starts the real hook; the test's directory is its repository. */
static pid_t start_hook(const char *data)
{
	char program[] = HOOK_PROGRAM, hook[] = "post-receive";
	AUTO_FREE char *copy = xstrdup(data);
	char *argv[] = { program, copy, hook, NULL };
	const char *path = getenv("REFRELAY_HOOK");
	pid_t pid;

	assert_non_null(path);
	setenv("GIT_DIR", root, 1);
	assert_int_equal(posix_spawn(&pid, path, NULL, NULL, argv, environ), 0);
	return pid;
}

static void hook_ends_well(pid_t pid)
{
	int status = -1;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static size_t count_spool(void)
{
	size_t count = 0;
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *dir = dir_list(root_fd, HOOK_SPOOL);

	while (dir && (entry = readdir(dir)) != NULL)
		count += entry->d_name[0] != '.';
	return count;
}

static size_t count_spool_of(uid_t user)
{
	size_t count = 0;
	struct dirent *entry;
	struct stat st;
	AUTO_CLOSEDIR DIR *dir = dir_list(root_fd, HOOK_SPOOL);

	while (dir && (entry = readdir(dir)) != NULL)
		count += fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 &&
			 S_ISREG(st.st_mode) && st.st_uid == user;
	return count;
}

TEST(a_change_is_answered_with_its_event)
{
	struct hook_socket *socket = open_with(&stub);

	assert_int_equal(tell("changed /root/a"), 1);
	assert_string_equal(answer, "1");
	assert_int_equal(tell("changed /root/b"), 1);
	assert_string_equal(answer, "2");
	comparison_fails = ERR_MISSING; /* a deletion */
	assert_int_equal(tell("changed /root/b"), 1);
	assert_string_equal(answer, "3");
	hook_socket_stop(socket);
}

TEST(a_wake_reaches_its_receiver)
{
	struct hook_socket *socket = open_with(NULL);

	assert_int_equal(tell("wake"), 1);
	assert_string_equal(answer, HOOK_NO_WORKERS);
	assert_int_equal(woken, 1);
	hook_socket_stop(socket);
}

TEST(a_no_brings_class_and_sentence)
{
	struct hook_socket *socket = open_with(&stub);

	assert_fails(tell("changed /elsewhere/a"), ERR_CONFIG);
	assert_string_equal(err.text, "/elsewhere/a is not below /root");
	comparison_fails = ERR_DISK;
	assert_fails(tell("changed /root/a"), ERR_DISK);
	assert_string_equal(err.text, "a was told to fail");
	comparison_fails = ERR_CONFIG;
	assert_fails(tell("changed /root/a"), ERR_CONFIG);
	recording_fails = ERR_CONFIG; /* that is not the repository's */
	assert_fails(tell("changed /root/a"), ERR_DISK);
	assert_string_equal(err.text, "the database fails");
	assert_fails(tell("what is this"), ERR_CONFIG);
	hook_socket_stop(socket);
}

TEST(a_site_without_changes_of_its_own_refuses_them)
{
	struct hook_socket *socket = open_with(NULL);

	assert_fails(tell("changed /root/a"), ERR_CONFIG);
	assert_int_equal(compared, 0);
	hook_socket_stop(socket);
}

static char changed_copy[64];

static void note_copy(void *arg, const char *name)
{
	assert_ptr_equal(arg, &woken);
	snprintf(changed_copy, sizeof(changed_copy), "%s", name);
}

/* At a secondary it was not the node that changed it. */
TEST(a_change_of_a_copy_is_handed_on)
{
	struct hook_socket *socket = NULL;

	assert_ok(hook_socket_start(
		&(struct hook_socket_options){ .data = root,
					       .copies = "/root",
					       .copy_changed = note_copy,
					       .arg = &woken },
		&socket, &err));
	assert_int_equal(tell("changed /root/group/a.git"), 1);
	assert_string_equal(answer, "0");
	assert_string_equal(changed_copy, "group/a");
	assert_fails(tell("changed /elsewhere/a.git"), ERR_CONFIG);
	assert_string_equal(changed_copy, "group/a");
	hook_socket_stop(socket);
}

TEST(without_a_node_nobody_answers)
{
	assert_int_equal(tell("wake"), 0);
	hook_socket_stop(open_with(&stub));
	assert_int_equal(tell("wake"), 0);
	assert_false(is_there(HOOK_SOCKET));
}

TEST(a_stale_socket_is_replaced_and_nothing_else)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	AUTO_CLOSE int stale = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct hook_socket *socket = NULL;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/" HOOK_SOCKET, root);
	assert_return_code(bind(stale, (struct sockaddr *)&address, sizeof(address)),
			   errno);
	assert_int_equal(tell("wake"), 0);
	socket = open_with(&stub);
	assert_int_equal(tell("wake"), 1);
	hook_socket_stop(socket);

	write_file(HOOK_SOCKET, "a person's");
	assert_fails(hook_socket_start(&(struct hook_socket_options){ .data = root },
				       &socket, &err),
		     ERR_CONFIG);
	assert_true(is_there(HOOK_SOCKET));
}

TEST(the_socket_is_for_user_and_group)
{
	struct hook_socket *socket;
	struct stat st;
	mode_t before = umask(0);

	socket = open_with(&stub);
	umask(before);
	assert_return_code(fstatat(root_fd, HOOK_SOCKET, &st, 0), errno);
	assert_int_equal(st.st_mode & 0777, 0660);
	hook_socket_stop(socket);
}

TEST(a_message_that_is_too_long_or_not_text_is_refused)
{
	struct hook_socket *socket = open_with(&stub);
	char message[HOOK_MESSAGE_MAX + 2];

	memset(message, 'a', sizeof(message));
	memcpy(message, "changed /root/", strlen("changed /root/"));
	message[HOOK_MESSAGE_MAX + 1] = '\0';
	assert_fails(tell(message), ERR_CONFIG);
	message[HOOK_MESSAGE_MAX] = '\0';
	assert_int_equal(tell(message), 1);

	AUTO_CLOSE int fd = connect_raw();
	assert_int_equal(send(fd, "wake\0x", 6, MSG_NOSIGNAL), 6);
	assert_true(recv(fd, message, sizeof(message), 0) > 0);
	assert_memory_equal(message, "no config ", 10);
	hook_socket_stop(socket);
}

/* More silent clients than workers: for a second they hold up others, no longer. */
TEST(who_says_nothing_is_dropped_after_a_second)
{
	struct hook_socket *socket = open_with(&stub);
	int64_t started = clock_boot_ms();
	int silent[16];
	char byte;

	for (size_t i = 0; i < ARRAY_SIZE(silent); i++)
		silent[i] = connect_raw();
	assert_int_equal(tell("changed /root/a"), 1);
	assert_in_range(since(started), 900, 9000);
	for (size_t i = 0; i < ARRAY_SIZE(silent); i++) {
		assert_int_equal(recv(silent[i], &byte, 1, 0), 0);
		close(silent[i]);
	}
	hook_socket_stop(socket);
}

static void *tell_in_thread(void *arg)
{
	char said[32];

	assert_int_equal(hook_socket_report(root, "changed /root/a", PATIENCE_MS, said,
					    sizeof(said), ERR_IGNORED),
			 1);
	return arg;
}

TEST(sixteen_comparisons_run_at_once)
{
	struct hook_socket *socket = open_with(&stub);
	pthread_t threads[24];

	awaited = 16;
	delay_ms = 50; /* in which a seventeenth would begin */
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		thread_start(&threads[i], "test", tell_in_thread, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		thread_join(threads[i]);
	assert_int_equal(compared, 24);
	assert_int_equal(most_at_once, 16);
	hook_socket_stop(socket);
}

static size_t count_workers(void)
{
	size_t count = 0;
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *dir = dir_list(AT_FDCWD, "/proc/self/task");

	while (dir && (entry = readdir(dir)) != NULL) {
		AUTO_STR struct str text = STR_INIT;
		AUTO_FREE char *path = xasprintf("%s/comm", entry->d_name);
		count += file_read(dirfd(dir), path, 64, &text, &err) == 0 &&
			 strcmp(text.data, "hook\n") == 0;
	}
	return count;
}

/* One that is at work is answered; those that wait for a worker hear that the node ends,
 * and know to use the spool. Each has a worker when the stop comes. */
static int64_t stop_among_clients(void)
{
	struct hook_socket *socket = open_with(&stub);
	int fds[12];
	char byte;
	int64_t started = clock_boot_ms();

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = connect_raw();
	while (count_workers() < ARRAY_SIZE(fds) && since(started) < 900)
		poll(NULL, 0, 2);
	hook_socket_stop(socket);
	int64_t took = since(started);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		assert_true(recv(fds[i], &byte, 1, 0) <= 0);
		close(fds[i]);
	}
	return took;
}

/* If it waited for the second in which a client may speak, every round would last that
 * long. A single one may for lack of a processor. */
TEST(stop_does_not_wait_for_clients)
{
	int64_t took = stop_among_clients();

	for (int i = 0; i < 7 && took >= 900; i++)
		took = stop_among_clients();
	assert_in_range(took, 0, 899);
}

TEST(a_slow_node_is_told_from_none)
{
	struct hook_socket *socket = open_with(&stub);

	awaited = 2; /* it is alone: it lasts until we say otherwise */
	assert_fails(hook_socket_report(root, "changed /root/a", 100, answer,
					sizeof(answer), &err),
		     ERR_TIMEOUT);
	wait_until(at_once == 1);
	awaited = 0;
	hook_socket_stop(socket);
	assert_int_equal(compared, 1);
}

TEST(a_long_path_of_the_data_directory_is_no_hindrance)
{
	struct hook_socket *socket = NULL;
	char path[512];

	snprintf(path, sizeof(path), "%s/%0150d/%0150d", root, 1, 2);
	assert_ok(dir_make(AT_FDCWD, path, &err));
	assert_ok(hook_socket_start(&(struct hook_socket_options){ .data = path },
				    &socket, &err));
	assert_int_equal(
		hook_socket_report(path, "wake", 1000, answer, sizeof(answer), &err), 1);
	hook_socket_stop(socket);
}

/* The stub refuses the test's directory: it is not below /root. */
TEST(a_hook_spools_only_what_telling_again_may_mend)
{
	struct hook_socket *socket = open_with(&stub);

	hook_ends_well(start_hook(root));
	assert_int_equal(count_spool(), 0);
	hook_socket_stop(socket);
	hook_ends_well(start_hook(root));
	assert_int_equal(count_spool(), 1);
}

/* The socket listens, but nobody accepts: a node that hangs. */
static int open_deaf(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int deaf = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/" HOOK_SOCKET, root);
	assert_return_code(bind(deaf, (struct sockaddr *)&address, sizeof(address)),
			   errno);
	assert_return_code(listen(deaf, 0), errno);
	return deaf;
}

TEST(a_hook_waits_a_second_and_no_longer)
{
	AUTO_CLOSE int deaf = open_deaf();
	int64_t started;

	(void)deaf;
	started = clock_boot_ms();
	hook_ends_well(start_hook(root));
	assert_in_range(since(started), 900, 9000);

	/* The next ones do not wait. */
	started = clock_boot_ms();
	for (int i = 0; i < 10; i++)
		hook_ends_well(start_hook(root));
	assert_in_range(since(started), 0, 9000);
	assert_int_equal(count_spool(), 11);
}

/* Also while another of root's hooks is just making the spool. */
TEST(what_root_leaves_in_the_spool_is_the_nodes)
{
	struct timespec old[2] = { { .tv_sec = 1000000 }, { .tv_sec = 1000000 } };
	AUTO_CLOSE int deaf = -1;
	struct stat st;

	if (geteuid() != 0)
		skip();
	deaf = open_deaf();
	assert_return_code(fchown(root_fd, 65534, 65534), errno);
	write_file(HOOK_SPOOL "/.late", "");
	assert_return_code(utimensat(root_fd, HOOK_SPOOL "/.late", old, 0), errno);
	hook_ends_well(start_hook(root));
	assert_int_equal(count_spool_of(65534), 2);
	assert_return_code(fstatat(root_fd, HOOK_SPOOL "/.late", &st, 0), errno);
	assert_true(st.st_mtime > 1000000);
}

/* How often threads of the socket have gone to sleep, so far; and whether all sleep. */
static long long count_sleeps(bool *all_sleep)
{
	long long sum = 0;
	size_t threads = 0;
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *dir = dir_list(AT_FDCWD, "/proc/self/task");

	*all_sleep = true;
	while (dir && (entry = readdir(dir)) != NULL) {
		AUTO_STR struct str text = STR_INIT;
		AUTO_FREE char *path = xasprintf("%s/status", entry->d_name);
		if (file_read(dirfd(dir), path, 65536, &text, &err) != 0 ||
		    !text_starts_with(text.data, "Name:\thook"))
			continue;
		const char *line = strstr(text.data, "\nvoluntary_ctxt_switches:");
		assert_non_null(line);
		sum += strtoll(line + strlen("\nvoluntary_ctxt_switches:"), NULL, 10);
		*all_sleep &= strstr(text.data, "\nState:\tS") != NULL;
		threads++;
	}
	assert_int_equal(threads, 2);
	return sum;
}

/* A client that was cut off waits there still: no room is left in the kernel. */
TEST(a_hook_waits_no_longer_to_get_in)
{
	AUTO_CLOSE int deaf = open_deaf(), first = connect_raw();
	int64_t started = clock_boot_ms();

	(void)deaf;
	(void)first;
	hook_ends_well(start_hook(root));
	assert_in_range(since(started), 900, 9000);
	assert_int_equal(count_spool(), 1);
}

/* The mark is old: the node may be well again. It is; but where it answers late for lack
 * of a processor, that is the same as if it were not. */
TEST(a_node_that_was_late_is_asked_again)
{
	struct hook_socket *socket = open_with(&stub);
	struct timespec old[2] = { { .tv_sec = clock_wall_ms() / 1000 - 11 },
				   { .tv_sec = clock_wall_ms() / 1000 - 11 } };

	write_file(HOOK_SPOOL "/.late", "");
	hook_ends_well(start_hook(root));
	assert_int_equal(count_spool(), 1);
	for (int i = 0; i < 8 && count_spool() > 0; i++) {
		assert_ok(tree_remove(root_fd, HOOK_SPOOL, &err));
		write_file(HOOK_SPOOL "/.late", "");
		assert_return_code(utimensat(root_fd, HOOK_SPOOL "/.late", old, 0),
				   errno);
		hook_ends_well(start_hook(root));
	}
	assert_int_equal(count_spool(), 0);
	hook_socket_stop(socket);
}

/* Those that were at work have gone to sleep when all do, and nothing changes for a
 * while. */
static long long count_sleeps_at_rest(void)
{
	int64_t started = clock_boot_ms();
	bool all_sleep;
	long long before, now = count_sleeps(&all_sleep);

	do {
		before = now;
		poll(NULL, 0, 100);
		now = count_sleeps(&all_sleep);
	} while ((now != before || !all_sleep) && since(started) < 20000);
	return now;
}

/* What was late at its work may look like rest for once. */
TEST(an_idle_socket_never_wakes)
{
	struct hook_socket *socket = open_with(&stub);
	long long before = 0, after = 1;
	bool all_sleep;

	assert_int_equal(tell("wake"), 1);
	for (int i = 0; i < 3 && after != before; i++) {
		before = count_sleeps_at_rest();
		poll(NULL, 0, 500);
		after = count_sleeps(&all_sleep);
	}
	assert_int_equal(after, before);
	hook_socket_stop(socket);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STUB_CASE(a_change_is_answered_with_its_event),
		STUB_CASE(a_wake_reaches_its_receiver),
		STUB_CASE(a_no_brings_class_and_sentence),
		STUB_CASE(a_site_without_changes_of_its_own_refuses_them),
		STUB_CASE(a_change_of_a_copy_is_handed_on),
		STUB_CASE(without_a_node_nobody_answers),
		STUB_CASE(a_stale_socket_is_replaced_and_nothing_else),
		STUB_CASE(the_socket_is_for_user_and_group),
		STUB_CASE(a_message_that_is_too_long_or_not_text_is_refused),
		STUB_CASE(who_says_nothing_is_dropped_after_a_second),
		STUB_CASE(sixteen_comparisons_run_at_once),
		STUB_CASE(stop_does_not_wait_for_clients),
		STUB_CASE(a_slow_node_is_told_from_none),
		STUB_CASE(a_long_path_of_the_data_directory_is_no_hindrance),
		STUB_CASE(a_hook_spools_only_what_telling_again_may_mend),
		STUB_CASE(a_hook_waits_a_second_and_no_longer),
		STUB_CASE(what_root_leaves_in_the_spool_is_the_nodes),
		STUB_CASE(a_hook_waits_no_longer_to_get_in),
		STUB_CASE(a_node_that_was_late_is_asked_again),
		STUB_CASE(an_idle_socket_never_wakes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
