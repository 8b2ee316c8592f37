#include "test.h"

#include <signal.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/fair.h"
#include "base/pace.h"
#include "web/listen.h"

enum { WAIT_MS = 10000, COMERS_MAX = 16 };

/* A thread that wants in, and leaves again when it is told. */
struct comer {
	pthread_t thread;
	const char *address, *user;
	int64_t wait_ms;
	const struct stop *stop; /* or NULL */
	atomic_int order;        /* in which they came in, from 1; -1: not */
	atomic_bool may_leave;
};

static struct fair *fair;
static struct comer comers[COMERS_MAX];
static size_t comers_count;
static atomic_int came_in;

static void begin(size_t places, size_t waiting, size_t each)
{
	fair = fair_new(&(struct fair_limits){
		.places = places, .waiting = waiting, .each = each });
	fair_show(fair, metric_at(metric_gauge("refrelay_test_in", "In.")),
		  metric_at(metric_gauge("refrelay_test_waiting", "Waiting.")));
	comers_count = 0;
	came_in = 0;
}

static void *come(void *arg)
{
	struct comer *comer = arg;
	struct fair_place place;
	struct client client;
	sigset_t hold_signal;

	sigemptyset(&hold_signal);
	sigaddset(&hold_signal, SIGUSR1);
	pthread_sigmask(SIG_UNBLOCK, &hold_signal, NULL);
	client_of_address(comer->address, &client);
	client.names.names[2] = comer->user;
	if (fair_enter(fair, &place, &client.names, comer->wait_ms, comer->stop) !=
	    FAIR_ENTERED) {
		comer->order = -1;
		return NULL;
	}
	comer->order = ++came_in;
	while (!comer->may_leave)
		usleep(1000);
	fair_leave(fair, &place);
	return NULL;
}

static int count_waiting(void)
{
	static const char name[] = "\nrefrelay_test_waiting ";
	AUTO_STR struct str text = STR_INIT;

	metrics_render_as(METRICS_PROMETHEUS, &text);
	const char *found = strstr(text.data, name);
	assert_non_null(found);
	return atoi(found + strlen(name));
}

static int sum_of_orders(void)
{
	int sum = 0;

	for (size_t i = 0; i < comers_count; i++)
		sum += comers[i].order;
	return sum;
}

/*
 * Returns when it is in, waits or was sent away: who waits is given time to. One of these
 * changes when somebody comes in, joins the line or is sent away. Who is in is known by
 * its order: the gauge of those is set before, and what came late of the one would be
 * taken for the next one's.
 */
static struct comer *let_one_come(struct comer who)
{
	struct comer *comer = &comers[comers_count++];

	*comer = who;
	int waiting = count_waiting(), orders = sum_of_orders();
	thread_start(&comer->thread, "comer", come, comer);
	for (int i = 0;
	     i < 20000 && count_waiting() == waiting && sum_of_orders() == orders; i++)
		usleep(1000);
	return comer;
}

static struct comer *let_user_come(const char *address, const char *user, int64_t wait_ms)
{
	return let_one_come(
		(struct comer){ .address = address, .user = user, .wait_ms = wait_ms });
}

static struct comer *let_come(const char *address, int64_t wait_ms)
{
	return let_user_come(address, "", wait_ms);
}

static int order_of(struct comer *comer)
{
	for (int i = 0; i < 20000 && comer->order == 0; i++)
		usleep(1000);
	return comer->order;
}

static void end(void)
{
	for (size_t i = 0; i < comers_count; i++)
		comers[i].may_leave = true;
	for (size_t i = 0; i < comers_count; i++)
		thread_join(comers[i].thread);
	fair_free(fair);
}

TEST(who_came_late_but_alone_is_before_all_but_the_first_of_who_came_often)
{
	struct comer *waiting[4];

	begin(1, 16, 0);
	struct comer *first = let_come("192.0.2.1", WAIT_MS);
	for (size_t i = 0; i < ARRAY_SIZE(waiting); i++)
		waiting[i] = let_come("192.0.2.1", WAIT_MS);
	struct comer *late = let_come("192.0.2.2", WAIT_MS);
	struct comer *network = let_come("2001:db8::1", WAIT_MS);
	struct comer *same_network = let_come("2001:db8::ffff:2", WAIT_MS);
	assert_int_equal(came_in, 1);
	first->may_leave = waiting[0]->may_leave = true;
	late->may_leave = network->may_leave = waiting[1]->may_leave = true;
	assert_int_equal(order_of(waiting[0]), 2);
	assert_int_equal(order_of(late), 3);
	assert_int_equal(order_of(network), 4);
	assert_int_equal(order_of(waiting[1]), 5);
	assert_int_equal(order_of(same_network), 6);
	end();
}

TEST(of_too_many_the_last_of_who_came_most_is_sent_away)
{
	begin(1, 2, 0);
	let_come("192.0.2.1", WAIT_MS);
	struct comer *second = let_come("192.0.2.1", WAIT_MS);
	struct comer *third = let_come("192.0.2.1", WAIT_MS);
	struct comer *fourth = let_come("192.0.2.1", WAIT_MS);
	assert_int_equal(order_of(fourth), -1);
	struct comer *other = let_come("192.0.2.2", WAIT_MS);
	assert_int_equal(order_of(third), -1);
	assert_int_equal(other->order, 0);
	assert_int_equal(second->order, 0);
	end();
	assert_int_equal(came_in, 3);
}

static int hold[2];
static atomic_bool is_on_hold;

static void on_signal(int number)
{
	char end;

	(void)number;
	is_on_hold = true;
	ssize_t ignored = read(hold[0], &end, 1);
	(void)ignored;
}

/* It does not run until hold[1] is closed, whatever happens to it. */
static void put_on_hold(struct comer *comer)
{
	const struct sigaction action = { .sa_handler = on_signal };

	if (pipe2(hold, O_CLOEXEC) != 0 || sigaction(SIGUSR1, &action, NULL) != 0)
		abort();
	is_on_hold = false;
	pthread_kill(comer->thread, SIGUSR1);
	for (int i = 0; i < 10000 && !is_on_hold; i++)
		usleep(1000);
	assert_true(is_on_hold);
}

/* It still has its client's share, which the next one of that client leaves meanwhile. */
TEST(one_that_is_sent_away_may_take_its_time)
{
	struct stop stop;

	begin(1, 2, 0);
	stop_init(&stop);
	let_come("192.0.2.1", WAIT_MS);
	struct comer *first = let_one_come((struct comer){
		.address = "192.0.2.2", .wait_ms = WAIT_MS, .stop = &stop });
	struct comer *second = let_come("192.0.2.2", WAIT_MS);
	stop_request(&stop);
	assert_int_equal(order_of(first), -1);
	let_come("192.0.2.3", WAIT_MS);
	put_on_hold(second);
	comers[comers_count] =
		(struct comer){ .address = "192.0.2.4", .wait_ms = WAIT_MS };
	thread_start(&comers[comers_count].thread, "comer", come, &comers[comers_count]);
	comers_count++;
	usleep(200000);
	assert_int_equal(order_of(let_come("192.0.2.2", WAIT_MS)), -1);
	close(hold[1]);
	assert_int_equal(order_of(second), -1);
	close(hold[0]);
	end();
	stop_clear(&stop);
}

TEST(no_client_has_more_places_than_one_may_have)
{
	begin(3, 16, 2);
	struct comer *first = let_come("192.0.2.1", WAIT_MS);
	struct comer *second = let_come("192.0.2.1", WAIT_MS);
	struct comer *third = let_come("192.0.2.1", WAIT_MS);
	assert_int_equal(order_of(first) + order_of(second), 1 + 2);
	assert_int_equal(third->order, 0);
	assert_int_equal(order_of(let_come("192.0.2.2", WAIT_MS)), 3);
	first->may_leave = true;
	assert_int_equal(order_of(third), 4);
	end();
}

TEST(nobody_waits_longer_than_he_wants)
{
	begin(1, 16, 0);
	let_come("192.0.2.1", WAIT_MS);
	assert_int_equal(order_of(let_come("192.0.2.2", 30)), -1);
	end();
}

TEST(a_client_is_a_network_a_block_of_networks_and_a_user)
{
	begin(4, 16, 2);
	struct comer *first = let_come("2001:db8:0:1::1", WAIT_MS);
	let_come("2001:db8:0:2::1", WAIT_MS);
	struct comer *same_block = let_come("2001:db8:0:3::1", WAIT_MS);
	assert_int_equal(came_in, 2);
	assert_int_equal(same_block->order, 0);
	let_user_come("192.0.2.1", "alice", WAIT_MS);
	let_user_come("192.0.2.2", "alice", WAIT_MS);
	assert_int_equal(came_in, 4);
	struct comer *same_user = let_user_come("192.0.2.3", "alice", WAIT_MS);
	first->may_leave = true;
	assert_int_equal(order_of(same_block), 5);
	assert_int_equal(same_user->order, 0);
	end();
}

/* A free place goes to who has none, though others have waited for longer. */
TEST(who_has_the_fewest_places_is_next)
{
	begin(3, 16, 0);
	struct comer *first = let_come("192.0.2.1", WAIT_MS);
	let_come("192.0.2.1", WAIT_MS);
	let_come("192.0.2.2", WAIT_MS);
	struct comer *more = let_come("192.0.2.1", WAIT_MS);
	struct comer *also = let_come("192.0.2.2", WAIT_MS);
	struct comer *none = let_come("192.0.2.3", WAIT_MS);
	assert_int_equal(came_in, 3);
	first->may_leave = true;
	assert_int_equal(order_of(none), 4);
	assert_int_equal(more->order + also->order, 0);
	end();
}

TEST(a_place_is_wanted_if_another_client_could_have_it)
{
	struct fair_client one = { { "192.0.2.1" } };
	struct fair_place place, second;

	begin(2, 16, 1);
	assert_int_equal(fair_enter(fair, &place, &one, 0, NULL), FAIR_ENTERED);
	let_come("192.0.2.1", WAIT_MS);
	assert_false(fair_is_wanted(fair, &place));
	struct fair_client two = { { "192.0.2.2" } };
	assert_int_equal(fair_enter(fair, &second, &two, 0, NULL), FAIR_ENTERED);
	assert_false(fair_is_wanted(fair, &place));
	let_come("192.0.2.2", WAIT_MS);
	assert_false(fair_is_wanted(fair, &place));
	let_come("192.0.2.3", WAIT_MS);
	assert_true(fair_is_wanted(fair, &place));
	fair_leave(fair, &place);
	fair_leave(fair, &second);
	end();
}

TEST(who_was_waited_for_and_gave_too_little_is_too_slow)
{
	struct pace pace = { .least = 1000, .waited_ms = 6000, .bytes = 5999 };

	assert_true(pace_is_too_slow(&pace));
	pace_add(&pace, 1);
	assert_false(pace_is_too_slow(&pace));
	pace_end_wait(&pace);
	assert_int_equal(pace.bytes, 0);
	pace = (struct pace){ .least = 1000, .waited_ms = 4000 };
	assert_false(pace_is_too_slow(&pace));
	pace = (struct pace){ .waited_ms = 60000 };
	assert_false(pace_is_too_slow(&pace));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			who_came_late_but_alone_is_before_all_but_the_first_of_who_came_often),
		cmocka_unit_test(of_too_many_the_last_of_who_came_most_is_sent_away),
		cmocka_unit_test(one_that_is_sent_away_may_take_its_time),
		cmocka_unit_test(no_client_has_more_places_than_one_may_have),
		cmocka_unit_test(a_client_is_a_network_a_block_of_networks_and_a_user),
		cmocka_unit_test(who_has_the_fewest_places_is_next),
		cmocka_unit_test(a_place_is_wanted_if_another_client_could_have_it),
		cmocka_unit_test(who_was_waited_for_and_gave_too_little_is_too_slow),
		cmocka_unit_test(nobody_waits_longer_than_he_wants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
