#include "rights.h"
#include "task_test.h"

#include <poll.h>

#include <sys/stat.h>
#include <sys/syscall.h>

static char uri_key[URI_KEY_SIZE];
static ino_t flushed; /* the last one */
static bool flush_fails;

/* The library's, twice. */
int fsync(int fd)
{
	struct stat st;

	flushed = fstat(fd, &st) == 0 ? st.st_ino : 0;
	errno = EIO;
	return flush_fails ? -1 : (int)syscall(SYS_fsync, fd);
}

static struct uri_state some_state(void)
{
	struct uri_state one = { .uri = xstrdup(URI),
				 .remote = xstrdup("r"),
				 .project = xstrdup("p"),
				 .retry_at = 1700000000123,
				 .failures = 3,
				 .lock_failures = 1,
				 .failing_since = 1600000000001,
				 .held_since = 1600000000002,
				 .last_success_at = 1500000000000 };

	snprintf(one.node, sizeof(one.node), "n1");
	err_set(&one.failure, ERR_NETWORK, "no \"route\" to https://u:secret@h/p");
	err_remedy(&one.failure, "wait");
	vec_add(&one.letters, xstrdup("0123456789abcdef"));
	vec_add(&one.letters, xstrdup("fedcba9876543210"));
	uri_key_of(URI, uri_key);
	return one;
}

TEST(a_state_reads_as_it_was_written)
{
	AUTO_URI_STATE struct uri_state one = some_state();
	AUTO_URI_STATE struct uri_state again = { 0 };

	assert_ok(uri_state_write(store, uri_key, &one, &err));
	assert_ok(uri_state_write(store, uri_key, &one, &err));
	assert_int_equal(uri_state_read(store, uri_key, &again, &err), 1);
	assert_string_equal(again.uri, URI);
	assert_string_equal(again.remote, "r");
	assert_string_equal(again.project, "p");
	assert_int_equal(again.retry_at, one.retry_at);
	assert_int_equal(again.failures, 3);
	assert_int_equal(again.lock_failures, 1);
	assert_int_equal(again.failing_since, one.failing_since);
	assert_int_equal(again.held_since, one.held_since);
	assert_int_equal(again.last_success_at, one.last_success_at);
	assert_string_equal(again.node, "n1");
	assert_int_equal(again.failure.class, ERR_NETWORK);
	assert_string_equal(again.failure.remedy, "wait");
	assert_null(strstr(again.failure.text, "secret"));
	assert_int_equal(again.letters.count, 2);
	assert_string_equal(again.letters.items[0], one.letters.items[0]);
	assert_string_equal(again.letters.items[1], one.letters.items[1]);
	assert_int_equal(files_in("ref-updates/building"), 0);
}

TEST(none_and_a_damaged_one_are_none)
{
	struct uri_state one;

	uri_key_of(URI, uri_key);
	assert_int_equal(uri_state_read(store, uri_key, &one, &err), 0);
	write_to("{\"uri\":", "refrelay/%s", uri_key);
	assert_int_equal(uri_state_read(store, uri_key, &one, &err), 0);
	write_to("{\"uri\":1}", "refrelay/%s", uri_key);
	assert_int_equal(uri_state_read(store, uri_key, &one, &err), 0);
	assert_null(one.uri);
}

TEST(states_are_listed_without_what_is_none)
{
	AUTO_URI_STATE struct uri_state one = some_state();
	char other[URI_KEY_SIZE];
	uri_states states = { 0 };

	assert_ok(uri_state_write(store, uri_key, &one, &err));
	uri_key_of("other", other);
	write_to("", "refrelay/%s", other);
	write_to("", "refrelay/note");
	assert_ok(uri_state_list(store, &states, &err));
	assert_int_equal(states.count, 1);
	uri_states_clear(&states);
	assert_ok(uri_state_remove(store, uri_key, &err));
	assert_ok(uri_state_remove(store, uri_key, &err));
	assert_ok(uri_state_list(store, &states, &err));
	assert_int_equal(states.count, 0);
}

static char remote_name[] = "r", project[] = "p", uri[] = URI;
static const struct push_remote remote = { .name = remote_name };

static struct destination destination(void)
{
	struct destination made = { .remote = &remote, .project = project, .uri = uri };

	uri_key_of(uri, made.uri_key);
	uri_key_of(uri, uri_key);
	return made;
}

TEST(a_request_keeps_its_time_and_is_heard_of)
{
	struct pollfd poll_fd = { .fd = uri_request_watch_fd(store), .events = POLLIN };
	struct destination to = destination();
	struct requested got;
	AUTO_FREE char *path = xasprintf("refrelay/requests/%s.head", to.uri_key);

	assert_ok(uri_request_add(store, &to, REQUEST_HEAD, &err));
	assert_int_equal(poll(&poll_fd, 1, 1000), 1);
	char buffer[4096];
	assert_true(read(poll_fd.fd, buffer, sizeof(buffer)) > 0);
	assert_int_equal(poll(&poll_fd, 1, 0), 0);
	set_time(path, 1600000000123);
	assert_ok(uri_request_add(store, &to, REQUEST_HEAD, &err));
	assert_int_equal(uri_request_get(store, uri_key, REQUEST_DELETE, &got, &err), 0);
	assert_int_equal(uri_request_get(store, uri_key, REQUEST_HEAD, &got, &err), 1);
	assert_int_equal(got.since, 1600000000123);
	assert_string_equal(got.uri_key, uri_key);
	assert_string_equal(got.uri, URI);
	assert_string_equal(got.remote, "r");
	assert_string_equal(got.project, "p");
	free(got.uri);
	free(got.remote);
	free(got.project);
	assert_ok(uri_request_remove(store, uri_key, REQUEST_HEAD, &err));
	assert_int_equal(uri_request_get(store, uri_key, REQUEST_HEAD, &got, &err), 0);
}

/* Its work would be done under the lease of another URI. */
TEST(a_request_under_the_key_of_another_uri_is_set_aside)
{
	struct destination to = destination();
	struct requested got;
	char other[URI_KEY_SIZE];

	assert_ok(uri_request_add(store, &to, REQUEST_DELETE, &err));
	uri_key_of("git://h/other.git", other);
	AUTO_FREE char *from = xasprintf("refrelay/requests/%s.delete", uri_key);
	AUTO_FREE char *name = xasprintf("refrelay/requests/%s.delete", other);
	assert_ok(renameat(root_fd, from, root_fd, name));
	assert_int_equal(uri_request_get(store, other, REQUEST_DELETE, &got, &err), 0);
	assert_int_equal(files_in("refrelay/requests"), 0);
	assert_int_equal(files_in("refrelay/unreadable"), 1);
}

TEST(requests_are_listed_and_what_is_none_is_set_aside)
{
	struct destination to = destination();
	requested_list list = { 0 };
	char other[URI_KEY_SIZE];

	for (int i = 0; i < URI_REQUESTS; i++)
		assert_ok(uri_request_add(store, &to, (enum uri_request)i, &err));
	uri_key_of("other", other);
	write_to("", "refrelay/requests/%s.delete", other);
	write_to("", "refrelay/requests/%s.other", other);
	write_to("", "refrelay/requests/x");
	assert_ok(uri_request_list(store, &list, &err));
	assert_int_equal(list.count, URI_REQUESTS);
	requested_list_clear(&list);
	assert_int_equal(files_in("refrelay/unreadable"), 1);
	assert_int_equal(files_in("refrelay/requests"), URI_REQUESTS + 2);
}

static size_t requests_listed(void)
{
	requested_list list = { 0 };
	size_t count;

	assert_ok(uri_request_list(store, &list, &err));
	count = list.count;
	requested_list_clear(&list);
	return count;
}

TEST(one_that_cannot_be_read_keeps_no_other_from_the_list)
{
	struct destination to = destination();
	requested_list list = { 0 };

	assert_ok(uri_request_add(store, &to, REQUEST_HEAD, &err));
	assert_ok(uri_request_add(store, &to, REQUEST_DELETE, &err));
	AUTO_FREE char *name = xasprintf("refrelay/requests/%s.head", uri_key);
	assert_ok(fchmodat(root_fd, name, 0, 0));
	rights_set_override(false);
	int result = uri_request_list(store, &list, &err);
	rights_set_override(true);
	assert_int_equal(result, 1);
	assert_non_null(strstr(err.text, "Permission denied"));
	assert_int_equal(list.count, 1);
	assert_int_equal(list.items[0].request, REQUEST_DELETE);
	requested_list_clear(&list);
}

TEST(one_that_has_begun_is_found_until_its_end_and_can_be_asked_for_anew)
{
	struct destination to = destination();

	assert_ok(uri_request_add(store, &to, REQUEST_HEAD, &err));
	assert_ok(uri_request_begin(store, uri_key, REQUEST_HEAD, &err));
	assert_int_equal(requests_listed(), 1);
	assert_ok(
		uri_request_begin(store, uri_key, REQUEST_HEAD, &err)); /* a successor */
	assert_int_equal(requests_listed(), 1);
	assert_ok(uri_request_add(store, &to, REQUEST_HEAD, &err));
	assert_int_equal(requests_listed(), 1);
	assert_ok(uri_request_put_back(store, uri_key, REQUEST_HEAD, &err));
	AUTO_FREE char *plain = xasprintf("refrelay/requests/%s.head", uri_key);
	assert_int_equal(faccessat(root_fd, plain, F_OK, 0), 0);
	assert_int_equal(files_in("refrelay/requests"), 1);
	assert_ok(uri_request_begin(store, uri_key, REQUEST_HEAD, &err));
	assert_ok(uri_request_add(store, &to, REQUEST_HEAD, &err));
	assert_ok(uri_request_end(store, uri_key, REQUEST_HEAD, &err));
	assert_int_equal(requests_listed(), 1);
	assert_ok(uri_request_begin(store, uri_key, REQUEST_HEAD, &err));
	assert_ok(uri_request_add(store, &to, REQUEST_HEAD, &err));
	assert_ok(uri_request_remove(store, uri_key, REQUEST_HEAD, &err));
	assert_int_equal(files_in("refrelay/requests"), 0);
}

/* Else a deletion that a person took back might come again. */
TEST(one_that_is_discarded_is_off_the_disk)
{
	struct destination to = destination();
	struct stat st;

	assert_ok(uri_request_add(store, &to, REQUEST_DELETE, &err));
	flushed = 0;
	assert_ok(uri_request_discard(store, uri_key, REQUEST_DELETE, &err));
	assert_int_equal(files_in("refrelay/requests"), 0);
	assert_int_equal(fstatat(root_fd, "refrelay/requests", &st, 0), 0);
	assert_int_equal(flushed, st.st_ino);
	flush_fails = true; /* as it is for one that was removed before */
	assert_fails(uri_request_discard(store, uri_key, REQUEST_DELETE, &err), ERR_DISK);
	flush_fails = false;
}

static bool is_heard_of(void)
{
	struct destination to = destination();
	struct pollfd poll_fd = { .fd = uri_request_watch_fd(store), .events = POLLIN };

	while (uri_request_hear(store))
		;
	assert_ok(uri_request_add(store, &to, REQUEST_HEAD, &err));
	return poll(&poll_fd, 1, 1000) == 1;
}

static void put_new_requests(void)
{
	assert_ok(renameat(root_fd, "refrelay/requests", root_fd, "requests.old"));
	assert_ok(mkdirat(root_fd, "refrelay/requests", 0700));
}

TEST(requests_in_another_directory_of_that_name_are_heard_of)
{
	put_new_requests();
	assert_true(is_heard_of());
}

static void seen_waiting(void *arg, const struct waiting_uri *waiting)
{
	(void)arg;
	(void)waiting;
}

/* As when it was moved away with all above it: nothing tells that. */
TEST(requests_in_another_directory_are_heard_of_once_the_store_was_read)
{
	struct destination to = destination();
	struct pollfd poll_fd = { .fd = uri_request_watch_fd(store), .events = POLLIN };
	char buffer[4096];

	put_new_requests();
	assert_true(read(poll_fd.fd, buffer, sizeof(buffer)) > 0);
	assert_ok(task_store_refresh(store, seen_waiting, NULL, NULL, &err));
	assert_ok(uri_request_add(store, &to, REQUEST_HEAD, &err));
	assert_int_equal(poll(&poll_fd, 1, 1000), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_CASE(a_state_reads_as_it_was_written),
		STORE_CASE(none_and_a_damaged_one_are_none),
		STORE_CASE(states_are_listed_without_what_is_none),
		STORE_CASE(a_request_keeps_its_time_and_is_heard_of),
		STORE_CASE(a_request_under_the_key_of_another_uri_is_set_aside),
		STORE_CASE(requests_are_listed_and_what_is_none_is_set_aside),
		STORE_CASE(one_that_cannot_be_read_keeps_no_other_from_the_list),
		STORE_CASE(
			one_that_has_begun_is_found_until_its_end_and_can_be_asked_for_anew),
		STORE_CASE(one_that_is_discarded_is_off_the_disk),
		STORE_CASE(requests_in_another_directory_of_that_name_are_heard_of),
		STORE_CASE(
			requests_in_another_directory_are_heard_of_once_the_store_was_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
