/*
 * What a node says of its life arrives at the command that asks as it was said.
 */
#include "test.h"

#include "base/hook_wire.h"
#include "change/hook_socket.h"
#include "pull/kinds.h"
#include "pull/pull_parts.h"
#include "report/vitals.h"
#include "store/data_lock.h"

static struct store *store;
static struct vitals *vitals;
static struct followers *followers;
static struct hook_socket *hooks;
static struct vital_signs signs;
static const char *answer_of_node; /* NULL: its own */

static struct pull pull;
static bool has_looked;

/* In the place of the program's own. */
void pull_look(struct pull *whose, struct pull_state *state)
{
	assert_ptr_equal(whose, &pull);
	*state = (struct pull_state){ .has_looked = has_looked };
}

static void say(void *arg, struct str *answer)
{
	(void)arg;
	if (answer_of_node)
		str_add(answer, answer_of_node);
	else
		vitals_say(vitals, answer);
}

static struct kinds_here here;

static int setup(void **state)
{
	answer_of_node = NULL;
	has_looked = false;
	followers = followers_new();
	return test_make_root(state) == 0 ? store_open("sqlite::memory:", &store, &err)
					  : -1;
}

static int teardown(void **state)
{
	vital_signs_clear(&signs);
	hook_socket_stop(TAKE(hooks));
	vitals_stop(TAKE(vitals));
	followers_free(followers);
	kinds_clear(&here);
	store_close(store);
	return test_remove_root(state);
}

static void begin(const char *copies)
{
	kinds_fill(&here, copies);
	vitals = vitals_start(
		&(struct vitals_options){ .store = store, .data = root, .here = &here });
	vitals_add(vitals,
		   &(struct vitals_parts){ .followers = followers, .pull = &pull });
	assert_ok(hook_socket_start(
		&(struct hook_socket_options){ .data = root, .alive = say }, &hooks,
		&err));
}

/* Until the first write was tried. */
static void look(void)
{
	do {
		vital_signs_clear(&signs);
		vitals_look(vitals, &signs);
		usleep(1000);
	} while (signs.written_age_ms < 0 && signs.failing_age_ms < 0);
}

TEST(without_a_node_nothing_is_known)
{
	vitals_ask(root, &signs);
	assert_int_equal(signs.node, NODE_NONE);
	assert_int_equal(signs.written_age_ms, -1);
}

TEST(a_node_that_holds_the_directory_and_says_nothing_is_mute)
{
	int fd;

	assert_ok(data_lock_take(root, &fd, &err));
	begin(NULL);
	answer_of_node = "{";
	vitals_ask(root, &signs);
	assert_int_equal(signs.node, NODE_MUTE);
	assert_int_equal(signs.written_age_ms, -1);
	close(fd);
}

TEST(what_a_node_says_is_what_a_command_hears)
{
	int fd;

	assert_ok(data_lock_take(root, &fd, &err));
	assert_ok(followers_expect(followers, store, (const char *const[]){ "paris" }, 1,
				   &err));
	followers_leave_out(followers, "paris",
			    &(const text_list){ .items = (char *[]){ (char[]){ "lfs" } },
						.count = 1 });
	begin(NULL);
	look();
	vital_signs_clear(&signs);
	vitals_ask(root, &signs);
	assert_int_equal(signs.node, NODE_ANSWERS);
	assert_true(signs.written_age_ms >= 0);
	assert_int_equal(signs.heard_age_ms, -1);
	assert_int_equal(signs.write_failure.class, ERR_NONE);
	assert_int_equal(signs.followers.count, 1);
	assert_string_equal(signs.followers.items[0].site, "paris");
	assert_true(text_list_has(&signs.followers.items[0].leaves_out, "lfs"));
	assert_int_equal(signs.followers.items[0].age_ms, -1);
	assert_int_equal(signs.followers.items[0].told_age_ms, -1);
	assert_int_equal(signs.unchecked, 1);
	has_looked = true;
	vital_signs_clear(&signs);
	vitals_ask(root, &signs);
	assert_int_equal(signs.unchecked, 0);
	close(fd);
}

TEST(a_directory_that_cannot_be_written_is_named)
{
	int fd;

	assert_ok(data_lock_take(root, &fd, &err));
	begin("/proc/self");
	look();
	vital_signs_clear(&signs);
	vitals_ask(root, &signs);
	assert_int_equal(signs.node, NODE_ANSWERS);
	assert_int_equal(signs.written_age_ms, -1);
	assert_true(signs.failing_age_ms >= 0);
	assert_int_not_equal(signs.write_failure.class, ERR_NONE);
	assert_non_null(strstr(signs.write_failure.text, "/proc/self"));
	close(fd);
}

TEST(a_database_that_is_no_longer_at_its_place_is_not_written)
{
	AUTO_FREE char *url = xasprintf("sqlite:%s/db", root);

	store_close(TAKE(store));
	assert_ok(store_open(url, &store, &err));
	assert_return_code(renameat(root_fd, "db", root_fd, "away"), errno);
	begin(NULL);
	look();
	assert_true(signs.failing_age_ms >= 0);
	assert_non_null(strstr(signs.write_failure.text, "removed or replaced"));
}

TEST(what_a_node_of_another_version_leaves_out_is_not_known)
{
	int fd;

	assert_ok(data_lock_take(root, &fd, &err));
	begin(NULL);
	answer_of_node = "{\"secondaries\": [{\"site\": \"paris\"}]}";
	vitals_ask(root, &signs);
	assert_int_equal(signs.node, NODE_ANSWERS);
	assert_int_equal(signs.written_age_ms, -1);
	assert_int_equal(signs.heard_age_ms, -1);
	assert_int_equal(signs.compared_left_ms, -1);
	assert_int_equal(signs.scan_age_ms, -1);
	assert_int_equal(signs.unchecked, 1);
	assert_int_equal(signs.followers.items[0].told_age_ms, -1);
	close(fd);
}

static int read_last(struct store_tx *tx, void *arg, struct err *e)
{
	return vitals_last(tx, arg, e);
}

TEST(an_end_is_told_from_a_sign_of_life)
{
	struct vitals_last last;

	assert_ok(store_read(store, read_last, &last, &err));
	assert_int_equal(last.at, 0);
	assert_false(last.is_stop);
	begin(NULL);
	look();
	assert_ok(store_read(store, read_last, &last, &err));
	int64_t lived_at = last.at;
	assert_true(lived_at > 0);
	assert_false(last.is_stop);
	usleep(2000);
	vitals_stop(TAKE(vitals));
	assert_ok(store_read(store, read_last, &last, &err));
	assert_true(last.at > lived_at);
	assert_true(last.is_stop);
	begin(NULL); /* and it lives again */
	look();
	assert_ok(store_read(store, read_last, &last, &err));
	assert_false(last.is_stop);
}

#define ALIVE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ALIVE(without_a_node_nothing_is_known),
		ALIVE(a_node_that_holds_the_directory_and_says_nothing_is_mute),
		ALIVE(what_a_node_says_is_what_a_command_hears),
		ALIVE(what_a_node_of_another_version_leaves_out_is_not_known),
		ALIVE(an_end_is_told_from_a_sign_of_life),
		ALIVE(a_database_that_is_no_longer_at_its_place_is_not_written),
		ALIVE(a_directory_that_cannot_be_written_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
