#include "test.h"

#include <crypt.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "web/password_file.h"

/* "myPassword", as Apache's documentation has it; and two of our own making. */
#define MY_PASSWORD "$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC"
#define CLIENT "192.0.2.7"
#define CHEAP "$2b$04$abcdefghijklmnopqrstuu"

static struct password_file *file;
static char path[128];
static int64_t clock_shift_s;
static atomic_int computed, at_once, most_at_once;
static atomic_bool is_held;

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int result = (int)syscall(SYS_clock_gettime, clock, now);

	now->tv_sec += clock_shift_s;
	return result;
}

static char *compute(const char *phrase, const char *setting, char *made)
{
	void *data = NULL;
	int size = 0;
	const char *text = crypt_ra(phrase, setting, &data, &size);

	if (text)
		snprintf(made, 64, "%s", text);
	free(data);
	return text ? made : NULL;
}

char *crypt_rn(const char *phrase, const char *setting, void *data, int size)
{
	int others = atomic_fetch_add(&at_once, 1);

	atomic_fetch_add(&computed, 1);
	if (others >= atomic_load(&most_at_once))
		atomic_store(&most_at_once, others + 1);
	while (atomic_load(&is_held))
		usleep(1000);
	assert_true(size >= 64);
	char *made = compute(phrase, setting, data);
	atomic_fetch_sub(&at_once, 1);
	return made;
}

static char *hash_of(const char *password)
{
	static char made[64];

	return compute(password, CHEAP, made);
}

static void write_users(const char *text)
{
	assert_ok(file_replace(root_fd, "users", text, strlen(text), FILE_NO_SYNC, &err));
}

static void write_user(const char *name, const char *password)
{
	AUTO_FREE char *line = xasprintf("%s:%s\n", name, hash_of(password));

	write_users(line);
}

static int setup(void **state)
{
	log_set_level(LOG_LEVEL_NONE);
	if (test_make_root(state))
		return -1;
	snprintf(path, sizeof(path), "%s/users", root);
	clock_shift_s = 0;
	computed = most_at_once = 0;
	is_held = false;
	write_user("alice", "wonderland");
	assert_ok(password_file_open(path, &file, &err));
	return 0;
}

static int teardown(void **state)
{
	password_file_close(file);
	return test_remove_root(state);
}

static struct password_list parse(const char *text, size_t len)
{
	AUTO_STR struct str bytes = STR_INIT;
	struct password_list list = { 0 };

	str_add_bytes(&bytes, text, len);
	password_list_parse(&bytes, &list);
	return list;
}

TEST(lines_of_others_than_bcrypt_and_bad_names_are_not_used)
{
	static const char *const unused[] = {
		"alice",
		"alice:",
		"alice:wonderland",
		"alice:$apr1$lZL6V/ci$eIMz/iKDkbtys/uU7LEK00",
		"alice:{SHA}VBPuJHI7uixaa6LQGWx4s+5GKNE=",
		"alice:$2x$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC",
		"alice:$2y$18$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC",
		"alice:$2y$03$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC",
		"alice:" MY_PASSWORD ":more",
		"alice:" MY_PASSWORD "x",
		":" MY_PASSWORD,
		"token ci:" MY_PASSWORD,
		"operator:" MY_PASSWORD,
		"al\tice:" MY_PASSWORD,
		"al\xffice:" MY_PASSWORD,
	};

	for (size_t i = 0; i < ARRAY_SIZE(unused); i++) {
		struct password_list list = parse(unused[i], strlen(unused[i]));
		if (list.users.count != 0 || list.unused != 1 || list.unused_line != 1)
			fail_msg("%s", unused[i]);
		password_list_clear(&list);
	}
	static const char nul[] = "alice\0:" MY_PASSWORD;
	struct password_list list = parse(nul, sizeof(nul) - 1);
	assert_int_equal(list.users.count, 0);
}

TEST(comments_and_blank_lines_are_nothing_and_of_one_user_the_first_line_counts)
{
	static const char text[] = "# people\n\n  \nbob:" MY_PASSWORD "\r\nalice:" CHEAP
				   "RqCRqCRqCRqCRqCRqCRqCRqCRqCRqCR\nbob:" CHEAP
				   "RqCRqCRqCRqCRqCRqCRqCRqCRqCRqCR";
	struct password_list list = parse(text, sizeof(text) - 1);

	assert_int_equal(list.users.count, 2);
	assert_string_equal(password_list_find(&list, "bob")->hash, MY_PASSWORD);
	assert_non_null(password_list_find(&list, "alice"));
	assert_null(password_list_find(&list, "Alice"));
	assert_int_equal(list.unused, 1);
	assert_int_equal(list.unused_line, 6);
	password_list_clear(&list);
}

TEST(what_htpasswd_writes_lets_in)
{
	write_users("alice:" MY_PASSWORD "\n");
	clock_shift_s = 2;
	assert_int_equal(password_file_check(file, CLIENT, "alice", "myPassword"),
			 PASSWORD_GOOD);
	assert_int_equal(password_file_check(file, CLIENT, "alice", "mypassword"),
			 PASSWORD_WRONG);
	assert_int_equal(password_file_check(file, CLIENT, "alice", ""), PASSWORD_WRONG);
	assert_int_equal(password_file_check(file, CLIENT, "alice", MY_PASSWORD),
			 PASSWORD_WRONG);
	assert_int_equal(password_file_check(file, CLIENT, "bob", "myPassword"),
			 PASSWORD_WRONG);
	assert_int_equal(password_file_check(file, CLIENT, "", "myPassword"),
			 PASSWORD_WRONG);
}

TEST(each_pair_is_computed_once_good_ones_for_minutes_and_wrong_ones_for_seconds)
{
	for (int i = 0; i < 3; i++) {
		assert_int_equal(password_file_check(file, CLIENT, "alice", "wonderland"),
				 PASSWORD_GOOD);
		assert_int_equal(password_file_check(file, CLIENT, "alice", "guess"),
				 PASSWORD_WRONG);
	}
	assert_int_equal(computed, 2);
	clock_shift_s = 60;
	password_file_check(file, CLIENT, "alice", "wonderland");
	assert_int_equal(computed, 2);
	password_file_check(file, CLIENT, "alice", "guess");
	assert_int_equal(computed, 3);
	clock_shift_s = 600;
	assert_int_equal(password_file_check(file, CLIENT, "alice", "wonderland"),
			 PASSWORD_GOOD);
	assert_int_equal(computed, 4);
}

TEST(who_is_no_user_costs_what_a_wrong_password_does)
{
	password_file_check(file, CLIENT, "mallory", "guess");
	assert_int_equal(computed, 1);
	/* Not even the password of the user whose hash was tried. */
	assert_int_equal(password_file_check(file, CLIENT, "mallory", "wonderland"),
			 PASSWORD_WRONG);
	assert_int_equal(computed, 2);
}

TEST(who_may_not_wait_is_answered_from_memory_or_told_to_come_later)
{
	assert_int_equal(password_file_check_now(file, "alice", "wonderland"),
			 PASSWORD_LATER);
	assert_int_equal(computed, 0);
	password_file_check(file, CLIENT, "alice", "wonderland");
	password_file_check(file, CLIENT, "alice", "guess");
	assert_int_equal(password_file_check_now(file, "alice", "wonderland"),
			 PASSWORD_GOOD);
	assert_int_equal(password_file_check_now(file, "alice", "guess"), PASSWORD_WRONG);
	/* By then the file may say something else. */
	clock_shift_s = 3;
	assert_int_equal(password_file_check_now(file, "alice", "wonderland"),
			 PASSWORD_LATER);
}

TEST(a_change_of_the_file_is_obeyed_and_nothing_remembered)
{
	assert_int_equal(password_file_check(file, CLIENT, "alice", "wonderland"),
			 PASSWORD_GOOD);
	assert_int_equal(password_file_check(file, CLIENT, "alice", "glass"),
			 PASSWORD_WRONG);
	write_user("alice", "glass");
	clock_shift_s = 2;
	assert_int_equal(password_file_check(file, CLIENT, "alice", "wonderland"),
			 PASSWORD_WRONG);
	assert_int_equal(password_file_check(file, CLIENT, "alice", "glass"),
			 PASSWORD_GOOD);
	assert_int_equal(password_file_check_now(file, "alice", "wonderland"),
			 PASSWORD_WRONG);
}

/* In place, of the same size, with the same time stamps: as within one tick of a clock.
 */
TEST(a_change_that_the_time_stamp_does_not_tell_is_seen)
{
	AUTO_FREE char *line = xasprintf("alice:%s\n", hash_of("glass"));
	AUTO_CLOSE int fd = openat(root_fd, "users", O_WRONLY | O_CLOEXEC);
	struct stat before;

	assert_int_equal(fstat(fd, &before), 0);
	assert_ok(file_write_all(fd, line, strlen(line), "users", &err));
	assert_int_equal(
		futimens(fd, (struct timespec[]){ before.st_atim, before.st_mtim }), 0);
	clock_shift_s = 2;
	assert_int_equal(password_file_check(file, CLIENT, "alice", "glass"),
			 PASSWORD_GOOD);
}

TEST(a_file_that_cannot_be_read_lets_nobody_in_until_it_can)
{
	assert_int_equal(password_file_check(file, CLIENT, "alice", "wonderland"),
			 PASSWORD_GOOD);
	assert_int_equal(renameat(root_fd, "users", root_fd, "away"), 0);
	clock_shift_s = 2;
	assert_int_equal(password_file_check(file, CLIENT, "alice", "wonderland"),
			 PASSWORD_WRONG);
	assert_int_equal(password_file_check_now(file, "alice", "wonderland"),
			 PASSWORD_WRONG);
	assert_int_equal(renameat(root_fd, "away", root_fd, "users"), 0);
	clock_shift_s = 4;
	assert_int_equal(password_file_check(file, CLIENT, "alice", "wonderland"),
			 PASSWORD_GOOD);
}

/* It is there, but to read it fails. */
TEST(a_file_that_is_too_large_lets_nobody_in)
{
	struct password_file *never;

	assert_int_equal(truncate(path, 9 << 20), 0);
	clock_shift_s = 2;
	assert_int_equal(password_file_check(file, CLIENT, "alice", "wonderland"),
			 PASSWORD_WRONG);
	assert_int_equal(password_file_open(path, &never, &err), -1);
}

TEST(a_file_that_everybody_may_change_lets_nobody_in)
{
	struct password_file *never;

	assert_int_equal(password_file_check(file, CLIENT, "alice", "wonderland"),
			 PASSWORD_GOOD);
	assert_int_equal(fchmodat(root_fd, "users", 0646, 0), 0);
	clock_shift_s = 2;
	assert_int_equal(password_file_check(file, CLIENT, "alice", "wonderland"),
			 PASSWORD_WRONG);
	assert_fails(password_file_open(path, &never, &err), ERR_CONFIG);
	assert_int_equal(unlinkat(root_fd, "users", 0), 0);
	assert_int_equal(password_file_open(path, &never, &err), -1);
}

struct guess {
	pthread_t thread;
	const char *client;
	char password[16];
	enum password_verdict verdict;
};

static atomic_int refused;

static void *check(void *arg)
{
	struct guess *guess = arg;

	guess->verdict =
		password_file_check(file, guess->client, "alice", guess->password);
	if (guess->verdict == PASSWORD_TOO_MANY)
		atomic_fetch_add(&refused, 1);
	return NULL;
}

static void start_guess(struct guess *guess, size_t number)
{
	guess->client = CLIENT;
	snprintf(guess->password, sizeof(guess->password), "guess %zu", number);
	thread_start(&guess->thread, "guess", check, guess);
}

static bool is_soon(bool (*is_so)(void))
{
	for (int i = 0; i < 4000 && !is_so(); i++)
		usleep(1000);
	return is_so();
}

static size_t processors;

static bool all_processors_compute(void)
{
	return (size_t)atomic_load(&at_once) == processors;
}

static bool three_are_refused(void)
{
	return atomic_load(&refused) == 3;
}

TEST(no_more_than_the_processors_compute_and_too_many_are_sent_away)
{
	static struct guess guesses[1024];
	size_t most;

	processors = (size_t)sysconf(_SC_NPROCESSORS_ONLN);
	most = processors + 64 + 3;
	assert_true(most <= ARRAY_SIZE(guesses));
	is_held = true;
	for (size_t i = 0; i < most; i++)
		start_guess(&guesses[i], i);
	assert_true(is_soon(three_are_refused));
	is_held = false;
	for (size_t i = 0; i < most; i++)
		thread_join(guesses[i].thread);
	assert_int_equal(most_at_once, processors);
	assert_int_equal(refused, 3);
	assert_int_equal(computed, most - 3);
}

static bool one_is_refused(void)
{
	return atomic_load(&refused) == 1;
}

/* One client has as many guesses as there is room for: another one logs in all the same.
 */
TEST(who_guesses_keeps_nobody_else_out)
{
	static struct guess guesses[1024];
	struct guess honest = { .client = "192.0.2.8", .password = "wonderland" };

	processors = (size_t)sysconf(_SC_NPROCESSORS_ONLN);
	refused = 0;
	is_held = true;
	for (size_t i = 0; i < processors + 64; i++)
		start_guess(&guesses[i], i);
	assert_true(is_soon(all_processors_compute));
	usleep(20000); /* until the others wait */
	thread_start(&honest.thread, "honest", check, &honest);
	assert_true(is_soon(one_is_refused));
	is_held = false;
	thread_join(honest.thread);
	assert_int_equal(honest.verdict, PASSWORD_GOOD);
	for (size_t i = 0; i < processors + 64; i++)
		thread_join(guesses[i].thread);
}

TEST(what_was_computed_of_an_old_file_is_not_remembered)
{
	struct guess guess = { .client = CLIENT, .password = "wonderland" };

	processors = 1;
	is_held = true;
	thread_start(&guess.thread, "guess", check, &guess);
	assert_true(is_soon(all_processors_compute));
	write_users("# nobody\n");
	clock_shift_s = 2;
	/* Looks at the file, and finds nobody to compute for. */
	assert_int_equal(password_file_check_now(file, "alice", "x"), PASSWORD_LATER);
	is_held = false;
	thread_join(guess.thread);
	assert_int_equal(guess.verdict, PASSWORD_GOOD);
	assert_int_equal(password_file_check(file, CLIENT, "alice", "wonderland"),
			 PASSWORD_WRONG);
}

#define FILE_CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FILE_CASE(lines_of_others_than_bcrypt_and_bad_names_are_not_used),
		FILE_CASE(
			comments_and_blank_lines_are_nothing_and_of_one_user_the_first_line_counts),
		FILE_CASE(what_htpasswd_writes_lets_in),
		FILE_CASE(
			each_pair_is_computed_once_good_ones_for_minutes_and_wrong_ones_for_seconds),
		FILE_CASE(who_is_no_user_costs_what_a_wrong_password_does),
		FILE_CASE(who_may_not_wait_is_answered_from_memory_or_told_to_come_later),
		FILE_CASE(a_change_of_the_file_is_obeyed_and_nothing_remembered),
		FILE_CASE(a_change_that_the_time_stamp_does_not_tell_is_seen),
		FILE_CASE(a_file_that_cannot_be_read_lets_nobody_in_until_it_can),
		FILE_CASE(a_file_that_is_too_large_lets_nobody_in),
		FILE_CASE(a_file_that_everybody_may_change_lets_nobody_in),
		FILE_CASE(no_more_than_the_processors_compute_and_too_many_are_sent_away),
		FILE_CASE(who_guesses_keeps_nobody_else_out),
		FILE_CASE(what_was_computed_of_an_old_file_is_not_remembered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
