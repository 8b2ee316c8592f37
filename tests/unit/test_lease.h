/*
 * What the tests of leases share: a store and managers in `root`, and SQL to make time
 * pass or things look as after an accident.
 */
#ifndef UNIT_TEST_LEASE_H
#define UNIT_TEST_LEASE_H

#include "test.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "lease/lease.h"
#include "store/store.h"

#define KEY "geo_sync_ssf_service:repository:7"

static struct store *store __attribute__((unused));

static inline struct store *open_store(void)
{
	AUTO_FREE char *url = xasprintf("sqlite:%s/db", root);
	struct store *opened = NULL;

	assert_ok(store_open(url, &opened, &err));
	return opened;
}

static inline struct lease_manager *open_manager(int64_t ttl_ms)
{
	AUTO_FREE char *directory = xasprintf("%s/lease", root);
	struct lease_options options = { .directory = directory,
					 .node = "here",
					 .ttl_ms = ttl_ms };
	struct lease_manager *manager;

	assert_ok(lease_manager_open_local(store, &options, &manager, &err));
	return manager;
}

static inline int sql_work(struct store_tx *tx, void *arg, struct err *error)
{
	return store_exec(tx, arg, error);
}

PRINTF_LIKE(1, 2) static inline void sql(const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	assert_ok(store_write(store, sql_work, text, &err));
}

struct sql_number {
	const char *text;
	int64_t value;
};

static inline int sql_number_work(struct store_tx *tx, void *arg, struct err *error)
{
	struct sql_number *number = arg;
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx, number->text, &query, error) != 0)
		return -1;
	if (query_step(query, error) != 1)
		return -1;
	number->value = query_int(query, 0);
	return 0;
}

static inline int64_t sql_number(const char *text)
{
	struct sql_number number = { .text = text };

	assert_ok(store_read(store, sql_number_work, &number, &err));
	return number.value;
}

/* Acquires without waiting, or for so long. */
static inline int acquire_for(struct lease_manager *manager, int64_t wait_ms,
			      struct lease **lease)
{
	return lease_acquire(manager,
			     &(struct lease_request){ .key = KEY,
						      .operation = "sync",
						      .job = "deadbeef00000001",
						      .wait_ms = wait_ms },
			     lease, &err);
}

static inline struct lease *must_acquire(struct lease_manager *manager, int64_t wait_ms)
{
	struct lease *lease;

	assert_ok(acquire_for(manager, wait_ms, &lease));
	return lease;
}

#define TTL 30000
#define SHORT_TTL 1000
#define KEEP_TTL 2000 /* of what is renewed and must not lapse meanwhile */

/* Bounds that tell one way from another whatever else the machine does: */
#define AT_ONCE 700   /* ms: by a hint, not by the poll that comes should it fail */
#define SOON 5000     /* ms: not by the end of the ttl */
#define IDLE_MOST 100 /* ms: without any wait */

/* What takes so many ms is quick at least once. The machine may be busy with others, each
 * time for another while: what waits for a poll is never so quick. */
static inline void assert_once_within(int64_t most, int64_t (*take)(void))
{
	int64_t took = 0;

	for (int i = 0; i < 8; i++) {
		took = take();
		if (took <= most)
			return;
	}
	fail_msg("%d ms, and never less than %d", (int)took, (int)most);
}

static inline int compare_times(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* Nobody else wants it: nothing is waited for. The median is of a few hundred us; more of
 * that is for the benchmark. */
static inline void assert_idle_lease_is_quick(struct lease_manager *manager)
{
	int64_t took_us[100];

	for (size_t i = 0; i < ARRAY_SIZE(took_us); i++) {
		int64_t from = clock_boot_us();
		lease_release(must_acquire(manager, 0));
		took_us[i] = clock_boot_us() - from;
	}
	qsort(took_us, ARRAY_SIZE(took_us), sizeof(took_us[0]), compare_times);
	int64_t median_us = took_us[ARRAY_SIZE(took_us) / 2];
	print_message("# acquire and release: %d us\n", (int)median_us);
	assert_in_range(median_us, 0, IDLE_MOST * 1000);
}

/* Two managers, which are to each other as two processes. */
static struct lease_manager *ann __attribute__((unused)), *bob __attribute__((unused));

static inline int setup_for(void **state, int64_t ttl)
{
	log_set_level(LOG_LEVEL_NONE);
	if (test_make_root(state) != 0)
		return -1;
	store = open_store();
	ann = open_manager(ttl);
	bob = open_manager(ttl);
	return 0;
}

static inline int setup_two(void **state)
{
	return setup_for(state, TTL);
}

static inline int setup_two_kept(void **state)
{
	return setup_for(state, KEEP_TTL);
}

static inline int teardown_two(void **state)
{
	lease_manager_close(ann);
	lease_manager_close(bob);
	store_close(store);
	return test_remove_root(state);
}

static inline void assert_denied(struct lease_manager *manager)
{
	struct lease *lease;

	assert_fails(acquire_for(manager, 0, &lease), ERR_BUSY);
	assert_null(lease);
}

static inline int64_t tickets(void)
{
	return sql_number("SELECT COUNT(*) FROM lease_waiter");
}

#endif
