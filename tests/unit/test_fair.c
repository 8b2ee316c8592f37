#include "test.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/thread.h"
#include "web/fair.h"

enum { WAIT_MS = 10000, COMERS_MAX = 16 };

/* A thread that wants in, and leaves again when it is told. */
struct comer {
	pthread_t thread;
	const char *client;
	int64_t wait_ms;
	atomic_int order; /* in which they came in, from 1; -1: not */
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
	comers_count = 0;
	came_in = 0;
}

static void *come(void *arg)
{
	struct comer *comer = arg;
	struct fair_place place;

	if (!fair_enter(fair, &place, comer->client, comer->wait_ms)) {
		comer->order = -1;
		return NULL;
	}
	comer->order = ++came_in;
	while (!comer->may_leave)
		usleep(1000);
	fair_leave(fair, &place);
	return NULL;
}

/* Returns when it is in, waits or was sent away: who waits is given time to. */
static struct comer *let_come(const char *client, int64_t wait_ms)
{
	struct comer *comer = &comers[comers_count++];

	comer->client = client;
	comer->wait_ms = wait_ms;
	comer->order = 0;
	comer->may_leave = false;
	thread_start(&comer->thread, "comer", come, comer);
	for (int i = 0; i < 20 && comer->order == 0; i++)
		usleep(1000);
	return comer;
}

static int order_of(struct comer *comer)
{
	for (int i = 0; i < 4000 && comer->order == 0; i++)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			who_came_late_but_alone_is_before_all_but_the_first_of_who_came_often),
		cmocka_unit_test(of_too_many_the_last_of_who_came_most_is_sent_away),
		cmocka_unit_test(no_client_has_more_places_than_one_may_have),
		cmocka_unit_test(nobody_waits_longer_than_he_wants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
