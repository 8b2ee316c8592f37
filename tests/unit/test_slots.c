#include "test.h"

#include "base/clock.h"
#include "base/metrics.h"
#include "serve/slots.h"

#define MANY 8

static struct slots *slots;
static unsigned retry_after;
static struct fair_place places_held[MANY];
static size_t held_count;

static int enter(unsigned *retry_after_s)
{
	struct slots_request request = { .retry_after_s = retry_after_s };

	if (slots_enter(slots, &request, &places_held[held_count], &err) != 0)
		return -1;
	held_count++;
	return 0;
}

static void leave(void)
{
	slots_leave(slots, &places_held[--held_count]);
}

static void limit(size_t running, size_t waiting, int64_t wait_ms)
{
	const struct slots_limits limits = { running, waiting, wait_ms, 0 };

	if (slots)
		slots_set(slots, &limits);
	else
		slots = slots_new("test", &limits);
}

static int teardown(void **state)
{
	(void)state;
	slots_free(TAKE(slots));
	return 0;
}

#undef CASE
#define CASE(name) cmocka_unit_test_teardown(name, teardown)

/* A thread that asks for a slot, notes when it got it, and keeps it until told. */
struct customer {
	pthread_t thread;
	const struct stop *stop;
	struct stop may_leave;
	int result;
	enum err_class class;
	atomic_uint place; /* 1: it was first; 0: none yet */
};

static atomic_uint places;

static void *ask(void *arg)
{
	struct customer *customer = arg;
	struct slots_request request = { .stop = customer->stop };
	struct fair_place place;
	struct err mine = { 0 };

	customer->result = slots_enter(slots, &request, &place, &mine);
	customer->class = mine.class;
	atomic_store(&customer->place, atomic_fetch_add(&places, 1) + 1);
	if (customer->result != 0)
		return NULL;
	stop_wait(&customer->may_leave, 10000);
	slots_leave(slots, &place);
	return NULL;
}

static bool metric_is(const char *name, unsigned value)
{
	AUTO_STR struct str all = STR_INIT;
	AUTO_FREE char *line =
		xasprintf("refrelay_upload_pack_%s{kind=\"test\"} %u\n", name, value);

	metrics_render_as(METRICS_PROMETHEUS, &all);
	return strstr(all.data, line) != NULL;
}

static void wait_for_metric(const char *name, unsigned value)
{
	int64_t until = clock_boot_ms() + 5000;

	while (!metric_is(name, value)) {
		if (clock_boot_ms() > until)
			fail_msg("%s does not become %u", name, value);
		usleep(200);
	}
}

static void come(struct customer *customer, const struct stop *stop)
{
	*customer = (struct customer){ .stop = stop };
	stop_init(&customer->may_leave);
	thread_start(&customer->thread, "customer", ask, customer);
}

static void go(struct customer *customer)
{
	stop_request(&customer->may_leave);
	thread_join(customer->thread);
	stop_clear(&customer->may_leave);
}

TEST(who_comes_when_there_is_room_does_not_wait)
{
	limit(2, 0, 10000);
	assert_ok(enter(&retry_after));
	assert_ok(enter(&retry_after));
	assert_true(metric_is("running", 2));
	leave();
	assert_ok(enter(NULL));
	leave();
	leave();
	assert_true(metric_is("running", 0));
}

TEST(slots_are_given_in_the_order_of_coming)
{
	struct customer customers[MANY];

	atomic_store(&places, 0);
	limit(1, MANY, 10000);
	assert_ok(enter(NULL));
	for (unsigned i = 0; i < MANY; i++) {
		come(&customers[i], NULL);
		wait_for_metric("waiting", i + 1);
	}
	leave();
	for (unsigned i = 0; i < MANY; i++) {
		go(&customers[i]);
		assert_int_equal(customers[i].result, 0);
		assert_int_equal(customers[i].place, i + 1);
	}
	assert_true(metric_is("running", 0));
	assert_true(metric_is("waiting", 0));
}

TEST(who_comes_to_a_full_line_is_sent_away_at_once)
{
	struct customer first;
	int64_t begun_at = clock_boot_ms();

	limit(1, 1, 20000);
	assert_ok(enter(NULL));
	come(&first, NULL);
	wait_for_metric("waiting", 1);
	retry_after = 0;
	assert_fails(enter(&retry_after), ERR_BUSY);
	assert_in_range(retry_after, 10, 20);
	assert_non_null(strstr(err.remedy, " s"));
	assert_true(clock_boot_ms() - begun_at < 5000);
	assert_true(metric_is("running", 1));
	leave();
	go(&first);
}

TEST(those_sent_away_are_told_different_times)
{
	unsigned other = 0;

	limit(0, 0, 30000);
	assert_fails(enter(&retry_after), ERR_BUSY);
	assert_fails(enter(&other), ERR_BUSY);
	assert_int_not_equal(retry_after, other);
}

TEST(who_waited_for_too_long_is_sent_away_and_out_of_the_line)
{
	limit(1, 4, 30);
	assert_ok(enter(NULL));
	assert_fails(enter(&retry_after), ERR_BUSY);
	assert_int_equal(retry_after, 1);
	assert_true(metric_is("waiting", 0));
	leave();
	assert_ok(enter(NULL));
	leave();
}

TEST(a_stop_ends_the_wait_and_passes_nothing_by)
{
	struct customer stopped, next;
	struct stop stop;

	stop_init(&stop);
	limit(1, 4, 20000);
	assert_ok(enter(NULL));
	come(&stopped, &stop);
	wait_for_metric("waiting", 1);
	come(&next, NULL);
	wait_for_metric("waiting", 2);
	stop_request(&stop);
	go(&stopped);
	assert_int_equal(stopped.class, ERR_CANCELED);
	assert_true(metric_is("waiting", 1));
	leave();
	go(&next);
	assert_int_equal(next.result, 0);
	stop_clear(&stop);
}

TEST(more_slots_are_given_to_those_who_wait_already)
{
	struct customer customers[2];

	limit(1, 4, 20000);
	assert_ok(enter(NULL));
	come(&customers[0], NULL);
	come(&customers[1], NULL);
	wait_for_metric("waiting", 2);
	limit(3, 4, 20000);
	wait_for_metric("running", 3);
	limit(1, 4, 20000);
	go(&customers[0]);
	go(&customers[1]);
	wait_for_metric("running", 1);
	leave();
}

TEST(fewer_slots_are_reached_when_some_have_left)
{
	limit(2, 0, 10000);
	assert_ok(enter(NULL));
	assert_ok(enter(NULL));
	limit(1, 0, 10000);
	leave();
	assert_fails(enter(NULL), ERR_BUSY);
	leave();
	assert_ok(enter(NULL));
	leave();
}

/* Many threads, few slots: never more than may be inside, and none is lost. */
static atomic_int inside;
static atomic_int most;

static void *rush(void *arg)
{
	struct slots_request request = { .stop = arg };
	struct fair_place place;
	struct err mine = { 0 };

	for (int i = 0; i < 300; i++) {
		if (slots_enter(slots, &request, &place, &mine) != 0)
			continue;
		int now = atomic_fetch_add(&inside, 1) + 1;
		if (now > atomic_load(&most))
			atomic_store(&most, now);
		atomic_fetch_sub(&inside, 1);
		slots_leave(slots, &place);
	}
	return NULL;
}

TEST(no_more_than_may_are_inside_at_any_time)
{
	pthread_t threads[MANY];

	limit(3, MANY, 1);
	for (size_t i = 0; i < MANY; i++)
		thread_start(&threads[i], "rush", rush, NULL);
	for (size_t i = 0; i < MANY; i++)
		thread_join(threads[i]);
	assert_in_range(most, 1, 3);
	assert_true(metric_is("running", 0));
	assert_true(metric_is("waiting", 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(who_comes_when_there_is_room_does_not_wait),
		CASE(slots_are_given_in_the_order_of_coming),
		CASE(who_comes_to_a_full_line_is_sent_away_at_once),
		CASE(those_sent_away_are_told_different_times),
		CASE(who_waited_for_too_long_is_sent_away_and_out_of_the_line),
		CASE(a_stop_ends_the_wait_and_passes_nothing_by),
		CASE(more_slots_are_given_to_those_who_wait_already),
		CASE(fewer_slots_are_reached_when_some_have_left),
		CASE(no_more_than_may_are_inside_at_any_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
