#include "test.h"

#include <fcntl.h>
#include <sys/socket.h>

#include "base/deadline.h"
#include "base/thread.h"

#define NOTHING INT64_MIN

static struct deadline deadline;
static int ours, childs;

static int make(void **state)
{
	int pair[2];

	(void)state;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return -1;
	ours = pair[0];
	childs = pair[1];
	deadline_init(&deadline, 1000);
	return 0;
}

static int discard(void **state)
{
	(void)state;
	deadline_clear(&deadline);
	close(ours);
	return 0;
}

static int64_t heard(void)
{
	int64_t at;

	return recv(childs, &at, sizeof(at), MSG_DONTWAIT) == sizeof(at) ? at : NOTHING;
}

TEST(a_child_hears_the_value_and_each_move_until_it_is_detached)
{
	deadline_attach(&deadline, ours);
	assert_int_equal(heard(), 1000);
	deadline_move(&deadline, 2000);
	deadline_move(&deadline, INT64_MAX);
	assert_int_equal(heard(), 2000);
	assert_true(heard() == INT64_MAX);
	deadline_detach(&deadline, ours);
	deadline_move(&deadline, 3000);
	assert_int_equal(deadline_at(&deadline), 3000);
	assert_true(heard() == NOTHING);
	close(childs);
}

TEST(expiry_is_for_good)
{
	deadline_attach(&deadline, ours);
	deadline_expire(&deadline);
	deadline_move(&deadline, 5000);
	assert_int_equal(deadline_at(&deadline), 0);
	assert_int_equal(heard(), 1000);
	assert_int_equal(heard(), 0);
	assert_true(heard() == NOTHING);
	deadline_detach(&deadline, ours);
	deadline_attach(&deadline, ours);
	assert_int_equal(heard(), 0);
	deadline_detach(&deadline, ours);
	close(childs);
}

/* A stream: with other sockets the kernel does not raise SIGPIPE, which would end us. */
TEST(a_dead_child_is_no_harm_to_the_others)
{
	int other[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, other), 0);
	deadline_attach(&deadline, other[0]);
	deadline_attach(&deadline, ours);
	close(other[1]);
	deadline_move(&deadline, 2000);
	deadline_detach(&deadline, other[0]);
	deadline_move(&deadline, 3000);
	deadline_detach(&deadline, ours);
	assert_int_equal(heard(), 1000);
	assert_int_equal(heard(), 2000);
	assert_int_equal(heard(), 3000);
	close(other[0]);
	close(childs);
}

TEST(a_child_that_does_not_listen_blocks_nobody)
{
	deadline_attach(&deadline, ours);
	for (int at = 0; at < 10000; at++)
		deadline_move(&deadline, at);
	deadline_detach(&deadline, ours);
	assert_int_equal(deadline_at(&deadline), 9999);
	close(childs);
}

static void *move_often(void *unused)
{
	for (int at = 1; at <= 1000; at++)
		deadline_move(&deadline, at);
	return unused;
}

TEST(threads_may_move_it_and_attach_at_once)
{
	pthread_t mover;

	thread_start(&mover, "mover", move_often, NULL);
	for (int i = 0; i < 100; i++) {
		deadline_attach(&deadline, ours);
		while (heard() != NOTHING)
			continue;
		deadline_detach(&deadline, ours);
	}
	thread_join(mover);
	assert_int_equal(deadline_at(&deadline), 1000);
	close(childs);
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, make, discard)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_child_hears_the_value_and_each_move_until_it_is_detached),
		CASE(expiry_is_for_good),
		CASE(a_dead_child_is_no_harm_to_the_others),
		CASE(a_child_that_does_not_listen_blocks_nobody),
		CASE(threads_may_move_it_and_attach_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
